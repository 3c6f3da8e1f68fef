//! What talks to the kernel: events, BPF loading, targets, `/proc`, side-band records, rings.

pub mod bpf;
pub mod btf;
pub mod buildid;
pub mod collector;
pub mod command;
pub mod counters;
pub mod decode;
pub mod error;
pub mod events;
pub mod existing;
pub mod merge;
pub mod requirements;
pub mod ring;
pub mod session;
pub mod sys;
pub mod target;
mod tasks;
