//! The forms in which results leave: recordings, tables, JSON, CSV.

pub mod csv;
pub mod json;
pub mod perfdata;
pub mod table;
pub mod text;

#[cfg(test)]
mod fixtures;

use crate::model::report::Process;

/// Threads of the process, live and exited.
fn thread_count(process: &Process) -> u64 {
    let folded: u64 = process.exited_groups.iter().map(|group| group.threads).sum();
    process.threads.len() as u64 + folded
}

/// Samples delivered of the process's threads.
fn sample_count(process: &Process) -> u64 {
    let listed: u64 = process.threads.iter().map(|thread| thread.samples).sum();
    let folded: u64 = process.exited_groups.iter().map(|group| group.samples).sum();
    listed + folded
}
