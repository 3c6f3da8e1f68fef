//! What the BPF programs have counted at one moment, as read from their maps.

use sampler_common::abi::{EventCounts, MAX_EVENTS, Process, cause};
use std::collections::BTreeMap;

/// All descriptors, processes and causes of loss.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The descriptors in use.
    pub threads: Vec<ThreadCounts>,
    /// The processes measured, by tgid.
    pub processes: BTreeMap<u32, Process<u64>>,
    /// How often each `abi::cause` came up.
    pub causes: [u64; cause::COUNT as usize],
    /// Descriptors there are.
    pub capacity: u64,
    /// Most descriptors in use at once so far.
    pub peak: u64,
}

/// A descriptor: of a live thread, or the last state of one that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// The process.
    pub tgid: u32,
    /// The thread.
    pub tid: u32,
    /// When it started: `CLOCK_MONOTONIC`, nanoseconds. With the tid it identifies the thread.
    pub start_ns: u64,
    /// The CPU it runs on or ran on last; `None` if it has not run, or has ended.
    pub last_cpu: Option<u32>,
    /// Its name.
    pub comm: Vec<u8>,
    /// Samples sent.
    pub samples: u64,
    /// Samples that could not be sent.
    pub lost_samples: u64,
    /// Its counts, as many as the session has events; what follows is unused.
    pub events: [EventCounts<u64>; MAX_EVENTS],
}

/// A process's final totals, as the programs send them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// The process.
    pub tgid: u32,
    /// Its totals.
    pub totals: Process<u64>,
}
