//! One process in the books: what has been entered, and what of it has been reported.

use crate::model::report::{ExitedGroup, Thread, ThreadCount};
use crate::model::snapshot::ThreadCounts;
use rustc_hash::FxHashMap;
use sampler_common::abi;

/// Name of the group of finished threads whose final counts were lost on the way.
pub const UNDELIVERED: &[u8] = b"[not delivered]";

/// Most names of finished threads in a process, and the group of all others: a process can give each
/// thread a name of its own.
const MAX_NAMES: usize = 10_000;
/// See [`MAX_NAMES`].
pub const OTHER_NAMES: &[u8] = b"[other names]";

/// Counts of threads, by tid and start.
pub type Counts = FxHashMap<(u32, u64), Vec<ThreadCount>>;

/// One process in the books.
#[derive(Debug, Default)]
pub struct Entry {
    /// Its name.
    pub comm: Vec<u8>,
    /// All of its threads have ended.
    pub ended: bool,
    /// Weights of the samples that arrived in this interval, one an event.
    pub sampled: Vec<u64>,
    /// What the programs said of it last.
    pub totals: abi::Process<u64>,
    /// Threads that finished in this interval, folded by name,
    pub finished: FxHashMap<Vec<u8>, ExitedGroup>,
    /// or one by one.
    pub finished_threads: Vec<Thread>,
    /// Counts of finished threads, whole lives,
    pub delivered: Vec<ThreadCount>,
    /// and how many they were.
    pub delivered_threads: u64,
    /// What earlier intervals have reported: of threads that were live at the end of the last one,
    pub reported: Counts,
    /// of threads that ended since without their message having arrived,
    pub vanished: Vec<ThreadCount>,
    /// and of the process.
    pub reported_balance: Vec<Balance>,
    /// See `reported_balance`.
    pub reported_totals: abi::Process<u64>,
}

/// What of a process is not the sum of what its threads counted in an interval, from the start on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// What its live threads have not had sampled.
    pub residual: i64,
    /// What finished threads and those without a descriptor have not had sampled.
    pub carry: i64,
    /// Time wanted, of threads without a descriptor and of those whose final counts did not arrive,
    /// nanoseconds.
    pub enabled_ns: u64,
    /// Time really counted, of the same, nanoseconds.
    pub running_ns: u64,
}

impl Entry {
    /// The group of finished threads of a name.
    pub fn group(&mut self, comm: &[u8]) -> &mut ExitedGroup {
        let room = self.finished.len() < MAX_NAMES || self.finished.contains_key(comm);
        let comm = if room { comm } else { OTHER_NAMES };
        self.finished
            .entry(comm.to_vec())
            .or_insert_with(|| ExitedGroup { comm: comm.to_vec(), ..ExitedGroup::default() })
    }

    /// What was reported of threads that are neither live nor have told their end: it was lost.
    pub fn vanished(&self, live: &Counts) -> Vec<ThreadCount> {
        let mut vanished = self.vanished.clone();
        for (_, counts) in self.reported.iter().filter(|(thread, _)| !live.contains_key(thread)) {
            add(&mut vanished, counts);
        }
        vanished
    }

    /// The balance, with these live threads. While threads come and go, the totals are not of one
    /// moment with what is known of each of them, and the carry is that of the threads known.
    pub fn balance(&self, live: &Counts, last: bool) -> Vec<Balance> {
        let settled = last || self.ended;
        let mut sums = vec![ThreadCount::default(); self.delivered.len()];
        live.values().for_each(|counts| add(&mut sums, counts));
        let vanished = self.vanished(live);
        let known = self.delivered.iter().zip(&vanished).zip(&self.totals.events);
        let known = known.zip(&self.reported_balance);
        sums.iter()
            .zip(known)
            .map(|(live, (((delivered, vanished), totals), reported))| {
                let carried = live.carried + delivered.carried + vanished.carried;
                let carry = delivered.residual + totals.unattributed as i64 - carried as i64;
                // Behind for a while, when a thread has told its end that is not in the totals yet.
                let rest = |total: u64, of: fn(&ThreadCount) -> u64, reported: u64| {
                    total.saturating_sub(of(delivered) + of(vanished)).max(reported)
                };
                Balance {
                    residual: live.residual + if settled { 0 } else { vanished.residual },
                    carry: if settled { totals.carry as i64 } else { carry },
                    enabled_ns: rest(totals.enabled_ns, |of| of.enabled_ns, reported.enabled_ns),
                    running_ns: rest(totals.running_ns, |of| of.running_ns, reported.running_ns),
                }
            })
            .collect()
    }

    /// What the programs have added to the process's total without its message having arrived.
    pub fn undelivered(&self, live: &Counts) -> Option<ExitedGroup> {
        let threads = self.totals.exited_threads.saturating_sub(self.delivered_threads);
        let known = self.delivered.iter().zip(self.vanished(live));
        let counts = known
            .zip(&self.totals.events)
            .map(|((delivered, vanished), totals)| ThreadCount {
                count: totals.exited.saturating_sub(delivered.count + vanished.count),
                ..ThreadCount::default()
            })
            .collect();
        (threads != 0).then(|| ExitedGroup {
            comm: UNDELIVERED.to_vec(),
            threads,
            samples: 0,
            counts,
        })
    }

    /// Takes over everything of another process that has ended.
    pub fn fold(&mut self, other: Self) {
        for (sum, sampled) in self.sampled.iter_mut().zip(&other.sampled) {
            *sum += sampled;
        }
        fold_totals(&mut self.totals, &other.totals);
        fold_totals(&mut self.reported_totals, &other.reported_totals);
        add(&mut self.vanished, &other.vanished(&Counts::default()));
        for (sum, balance) in self.reported_balance.iter_mut().zip(&other.reported_balance) {
            sum.residual += balance.residual;
            sum.carry += balance.carry;
            sum.enabled_ns += balance.enabled_ns;
            sum.running_ns += balance.running_ns;
        }
        add(&mut self.delivered, &other.delivered);
        self.delivered_threads += other.delivered_threads;
        self.finished_threads.extend(other.finished_threads);
        for (comm, finished) in other.finished {
            let group = self.group(&comm);
            group.threads += finished.threads;
            group.samples += finished.samples;
            add_finished(&mut group.counts, &finished.counts);
        }
    }
}

/// Adds the counts of a thread that ended: its residual is in the process's carry now.
pub fn add_finished(sums: &mut Vec<ThreadCount>, counts: &[ThreadCount]) {
    sums.resize(counts.len(), ThreadCount::default());
    add(sums, counts);
    for sum in sums {
        sum.residual = 0;
    }
}

fn fold_totals(sums: &mut abi::Process<u64>, totals: &abi::Process<u64>) {
    sums.exited_threads += totals.exited_threads;
    for (sum, event) in sums.events.iter_mut().zip(&totals.events) {
        sum.exited += event.exited;
        sum.unattributed += event.unattributed;
        sum.carry = sum.carry.wrapping_add(event.carry);
        sum.lost += event.lost;
        sum.enabled_ns += event.enabled_ns;
        sum.running_ns += event.running_ns;
    }
}

/// Adds counts up.
pub fn add(sums: &mut [ThreadCount], counts: &[ThreadCount]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        sum.count += count.count;
        sum.sampled += count.sampled;
        sum.residual += count.residual;
        sum.carried += count.carried;
        sum.lost += count.lost;
        sum.enabled_ns += count.enabled_ns;
        sum.running_ns += count.running_ns;
    }
}

pub(super) fn to_thread(thread: &ThreadCounts, counts: Vec<ThreadCount>) -> Thread {
    Thread {
        tid: thread.tid,
        comm: thread.comm.clone(),
        start_ns: thread.start_ns,
        exited: false,
        state: '?',
        samples: thread.samples,
        counts,
    }
}

pub(super) fn finished_thread(thread: &ThreadCounts, mut counts: Vec<ThreadCount>) -> Thread {
    for count in &mut counts {
        count.residual = 0;
    }
    Thread { exited: true, state: 'X', ..to_thread(thread, counts) }
}

pub(super) fn subtract(counts: &[ThreadCount], before: &[ThreadCount]) -> Vec<ThreadCount> {
    counts
        .iter()
        .zip(before)
        .map(|(now, before)| ThreadCount {
            count: now.count.wrapping_sub(before.count),
            sampled: now.sampled.wrapping_sub(before.sampled),
            residual: now.residual.wrapping_sub(before.residual),
            carried: now.carried.wrapping_sub(before.carried),
            lost: now.lost.wrapping_sub(before.lost),
            enabled_ns: now.enabled_ns.wrapping_sub(before.enabled_ns),
            running_ns: now.running_ns.wrapping_sub(before.running_ns),
        })
        .collect()
}
