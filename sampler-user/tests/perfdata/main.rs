//! Recordings as their readers see them: `perf` and the crate linux-perf-data.
//!
//! The records are made up, on top of the real mappings of this process and the kernel. What the
//! readers say about them is compared with what went in.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends there; clippy knows that of the functions marked as tests alone"
)]

mod crate_reader;
mod cut;
mod perf;
mod perf_reader;
mod session;
