//! What a session found, ready to be shown: exact counts per thread and process, and every loss.

use super::event::Event;

/// A session's result, or that of one interval of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Time covered, nanoseconds.
    pub duration_ns: u64,
    /// The events, in the order of every `counts` below.
    pub events: Vec<Event>,
    /// The processes measured, by tgid.
    pub processes: Vec<Process>,
    /// What could not be measured.
    pub losses: Losses,
    /// The free cache.
    pub descriptors: Descriptors,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub tgid: u32,
    /// Its name: any bytes but NUL.
    pub comm: Vec<u8>,
    /// All of its threads have ended.
    pub exited: bool,
    /// Totals, one an event. `count = live + exited + unattributed`, and
    /// `count = sampled + residual + carry + lost`.
    pub counts: Vec<ProcessCount>,
    /// Its live threads, by tid; with `--all-threads` the exited ones too.
    pub threads: Vec<Thread>,
    /// Its exited threads, folded by name.
    pub exited_groups: Vec<ExitedGroup>,
}

/// The count of one event in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCount {
    /// All of it.
    pub count: u64,
    /// What live threads counted.
    pub live: u64,
    /// What exited threads counted.
    pub exited: u64,
    /// What threads without a descriptor counted.
    pub unattributed: u64,
    /// Weights of the samples delivered.
    pub sampled: u64,
    /// What live threads counted since their last sample.
    pub residual: i64,
    /// What exited threads and the unattributed have not had sampled.
    pub carry: i64,
    /// Weights of the samples lost.
    pub lost: u64,
    /// Time the event was wanted while a thread of the process ran, nanoseconds.
    pub enabled_ns: u64,
    /// Time it was really counted, nanoseconds.
    pub running_ns: u64,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its name: any bytes but NUL.
    pub comm: Vec<u8>,
    /// When it started: `CLOCK_MONOTONIC`, nanoseconds.
    pub start_ns: u64,
    /// It has ended.
    pub exited: bool,
    /// The letter of its state in `/proc/TID/stat` when looked at; `X` for an exited one.
    pub state: char,
    /// Samples delivered.
    pub samples: u64,
    /// One an event.
    pub counts: Vec<ThreadCount>,
}

/// The count of one event in one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCount {
    /// All of it.
    pub count: u64,
    /// Weights of its samples delivered, the carry they took along included.
    pub sampled: u64,
    /// Counted since its last sample; for an exited thread, 0: it went to the carry.
    pub residual: i64,
    /// The part of `sampled` and `lost` that was carry of threads that ended before.
    pub carried: u64,
    /// Weights of its samples lost.
    pub lost: u64,
    /// Time the event was wanted while it ran, nanoseconds.
    pub enabled_ns: u64,
    /// Time it was really counted, nanoseconds.
    pub running_ns: u64,
}

/// Exited threads of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitedGroup {
    /// Their name.
    pub comm: Vec<u8>,
    /// How many.
    pub threads: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Their sums, one an event.
    pub counts: Vec<ThreadCount>,
}

/// What could not be measured, one counter a cause. All zero is the normal case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Samples taken but not delivered.
    pub samples: u64,
    /// Final counts of threads not delivered one by one (they are in the process's totals).
    pub exit_records: u64,
    /// Times that a thread ran without a descriptor, since none was free.
    pub descriptors_exhausted: u64,
    /// Processes that were not followed, since their map was full.
    pub processes_exhausted: u64,
    /// Counters that could not be read at a switch or overflow.
    pub read_errors: u64,
    /// Switches of measured threads that the kernel did not show. Clocks are made up for from the
    /// scheduler's account; other events of the run that began unseen are not counted.
    pub switches_missed: u64,
    /// Overflows in the middle of a switch, when it is not clear whose they are: no sample.
    pub hits_in_switch: u64,
    /// Call chains that reached the maximum depth.
    pub truncated_chains: u64,
    /// Times the kernel stopped an event because it overflowed too often.
    pub throttled: u64,
    /// Side-band records (names, mappings, starts) that the kernel dropped.
    pub sideband_records: u64,
    /// Messages of the BPF programs or the kernel that could not be understood.
    pub unknown_records: u64,
    /// Descriptors still in use for processes that have ended: a bug of sampler.
    pub leaked_descriptors: u64,
}

impl Losses {
    /// What came since these.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            samples: self.samples - before.samples,
            exit_records: self.exit_records - before.exit_records,
            descriptors_exhausted: self.descriptors_exhausted - before.descriptors_exhausted,
            processes_exhausted: self.processes_exhausted - before.processes_exhausted,
            read_errors: self.read_errors - before.read_errors,
            switches_missed: self.switches_missed - before.switches_missed,
            hits_in_switch: self.hits_in_switch - before.hits_in_switch,
            truncated_chains: self.truncated_chains - before.truncated_chains,
            throttled: self.throttled - before.throttled,
            // Estimated from two counters that are not read at once.
            sideband_records: self.sideband_records.saturating_sub(before.sideband_records),
            unknown_records: self.unknown_records - before.unknown_records,
            leaked_descriptors: self.leaked_descriptors.saturating_sub(before.leaked_descriptors),
        }
    }
}

/// The free cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// Descriptors there are.
    pub capacity: u64,
    /// Most in use at once.
    pub peak: u64,
    /// In use when the session ended.
    pub in_use_at_end: u64,
}
