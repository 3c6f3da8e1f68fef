//! Exact per-thread counters and conserved sampling for Linux.

pub mod capture;
pub mod cli;
pub mod model;
pub mod output;
