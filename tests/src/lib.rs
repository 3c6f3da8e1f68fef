//! What the black-box suite stands on: it starts workloads, runs the built `sampler` and `perf` on
//! them, and reads what they say. What is to be shown is in the tests; here are only the assertions
//! that many of them share: the conservation laws ([`laws`]) and nearness to an oracle. It links none of sampler's own code.

pub mod clock;
pub mod laws;
mod measure;
mod near;
pub mod perf;
pub mod procfs;
pub mod protocol;
pub mod report;
mod sampler;
mod skip;
mod stream;
mod workload;

pub use measure::{Measured, measure, measure_unhidden, measure_with};
pub use near::{Bounds, assert_near};
pub use sampler::{Finished, Running, Sampler};
pub use skip::skip;
pub use workload::{Workload, workload_program};
