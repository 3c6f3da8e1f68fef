//! The books of a session: what the programs report is entered here, and a [`Report`] drawn up.
//!
//! A thread's counts have one author, the BPF programs: a live thread's come by [`Snapshot`], a
//! finished one's by its final counts. A process's samples are added up here from those that arrive,
//! so that the second conservation law is a check and no identity. Finished threads are folded by
//! name at once, so that memory does not grow with them.

mod entry;

use super::event::{Event, Source};
use super::record::Comm;
use super::report::{
    Descriptors, ExitedGroup, Losses, Process, ProcessCount, Report, Thread, ThreadCount,
};
use super::snapshot::{ProcessEnd, Snapshot, ThreadCounts};
use entry::{Balance, Counts, Entry, add, add_finished, finished_thread, subtract, to_thread};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler_common::abi::{EventCounts, cause, flag};
use std::collections::VecDeque;

/// Most finished processes that are listed each, and the one that stands for all earlier ones.
const MAX_ENDED: usize = 10_000;
const EARLIER_TGID: u32 = 0;
const EARLIER_COMM: &[u8] = b"[ended processes]";

/// A thread that is there, as `/proc` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Its process.
    pub tgid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Vec<u8>,
    /// When it started: `CLOCK_MONOTONIC`, nanoseconds, to the resolution of `/proc`.
    pub start_ns: u64,
    /// The letter of its state.
    pub state: char,
}

/// What to enter, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The events.
    pub events: Vec<Event>,
    /// List finished threads one by one.
    pub all_threads: bool,
}

/// The books.
#[derive(Debug, Default)]
pub struct Ledger {
    options: Options,
    processes: FxHashMap<u32, Entry>,
    losses: Losses,
    /// Threads that ended since [`open_snapshot`](Self::open_snapshot): a snapshot may still show
    /// them as alive.
    ended: FxHashSet<(u32, u64)>,
    /// The same for processes.
    ended_processes: FxHashSet<u32>,
    /// Finished processes that are listed, in the order of their end.
    listed: VecDeque<u32>,
    /// What earlier intervals have reported.
    reported_losses: Losses,
}

impl Ledger {
    /// Empty books.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// A process is measured, and has this name.
    pub fn add_process(&mut self, tgid: u32, comm: &[u8]) {
        comm.clone_into(&mut self.entry(tgid).comm);
    }

    /// A measured process has a child, which is measured too and has its name until it calls `exec`.
    pub fn add_child(&mut self, tgid: u32, parent_tgid: u32) {
        let comm = self.processes.get(&parent_tgid).map(|parent| parent.comm.clone());
        self.add_process(tgid, &comm.unwrap_or_default());
    }

    /// The process is in the books.
    pub fn has_process(&self, tgid: u32) -> bool {
        self.processes.contains_key(&tgid)
    }

    /// The processes in the books that have not ended.
    pub fn live_processes(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().filter(|(_, entry)| !entry.ended).map(|(&tgid, _)| tgid)
    }

    /// A thread has a new name. That of its main thread is the process's.
    pub fn rename(&mut self, comm: &Comm) {
        if comm.stamp.tgid == comm.stamp.tid
            && let Some(entry) = self.processes.get_mut(&comm.stamp.tgid)
        {
            comm.comm.clone_into(&mut entry.comm);
        }
    }

    /// A sample has arrived.
    pub fn enter_sample(&mut self, tgid: u32, event: usize, weight: u64, truncated: bool) {
        self.losses.truncated_chains += u64::from(truncated);
        if let Some(sampled) = self.entry(tgid).sampled.get_mut(event) {
            *sampled += weight;
        }
    }

    /// A thread has ended.
    pub fn enter_thread_end(&mut self, thread: &ThreadCounts) {
        let key = (thread.tid, thread.start_ns);
        self.ended.insert(key);
        let counts = self.thread_counts(&thread.events);
        let all_threads = self.options.all_threads;
        let entry = self.entry(thread.tgid);
        if entry.comm.is_empty() && thread.tid == thread.tgid {
            entry.comm.clone_from(&thread.comm);
        }
        let since = match entry.reported.remove(&key) {
            Some(before) => subtract(&counts, &before),
            None => counts.clone(),
        };
        entry.delivered_threads += 1;
        add(&mut entry.delivered, &counts);
        if all_threads {
            entry.finished_threads.push(finished_thread(thread, since));
        } else {
            let group = entry.group(&thread.comm);
            group.threads += 1;
            group.samples += thread.samples;
            add_finished(&mut group.counts, &since);
        }
    }

    /// A process has ended.
    pub fn enter_process_end(&mut self, end: &ProcessEnd) {
        self.ended_processes.insert(end.tgid);
        let entry = self.entry(end.tgid);
        entry.ended = true;
        entry.totals = end.totals;
        self.listed.push_back(end.tgid);
        while self.listed.len() > MAX_ENDED {
            self.fold_earliest();
        }
    }

    /// A process has ended without the programs saying so: it had no thread that was measured.
    pub fn mark_ended(&mut self, tgid: u32) {
        if let Some(entry) = self.processes.get_mut(&tgid) {
            entry.ended = true;
        }
    }

    /// Measured processes whose name is not known.
    pub fn unnamed(&self) -> Vec<u32> {
        let unnamed = self.processes.iter().filter(|(_, entry)| entry.comm.is_empty());
        unnamed.map(|(&tgid, _)| tgid).collect()
    }

    /// So many have ended since that no message about it can still be under way.
    fn fold_earliest(&mut self) {
        let earliest = self.listed.pop_front().and_then(|tgid| self.processes.remove(&tgid));
        if let Some(earliest) = earliest {
            self.add_process(EARLIER_TGID, EARLIER_COMM);
            let earlier = self.entry(EARLIER_TGID);
            earlier.ended = true;
            earlier.fold(earliest);
        }
    }

    /// The kernel dropped records for want of room, messages of the programs among them.
    pub fn enter_dropped(&mut self, records: u64) {
        self.losses.sideband_records += records;
    }

    /// The kernel stopped an event for a while.
    pub fn enter_throttle(&mut self) {
        self.losses.throttled += 1;
    }

    /// Something arrived that could not be understood.
    pub fn enter_unknown(&mut self) {
        self.losses.unknown_records += 1;
    }

    /// A snapshot is about to be taken. What has ended by then must have been entered before
    /// [`report`](Self::report) is called with it.
    pub fn open_snapshot(&mut self) {
        self.ended.clear();
        self.ended_processes.clear();
    }

    /// Draws up what has been counted: since the last [`close_interval`](Self::close_interval), or
    /// in all. `present` are the threads of the measured processes as `/proc` shows them; `last` says
    /// that nothing more will come, so that what was lost on the way shows.
    pub fn report(
        &mut self,
        snapshot: &Snapshot,
        present: &[Present],
        duration_ns: u64,
        last: bool,
    ) -> Report {
        self.enter_totals(snapshot);
        let mut processes: Vec<Process> = self
            .processes
            .iter()
            .map(|(&tgid, entry)| self.process(tgid, entry, snapshot, present, last))
            .collect();
        processes.sort_by_key(|process| process.tgid);
        Report {
            duration_ns,
            events: self.options.events.clone(),
            losses: Losses {
                leaked_descriptors: self.leaked(snapshot),
                ..self.losses(snapshot).since(&self.reported_losses)
            },
            descriptors: Descriptors {
                capacity: snapshot.capacity,
                peak: snapshot.peak,
                in_use_at_end: snapshot.threads.len() as u64,
            },
            processes,
        }
    }

    /// What was reported with this snapshot is not reported again.
    pub fn close_interval(&mut self, snapshot: &Snapshot) {
        self.reported_losses = self.losses(snapshot);
        self.processes.retain(|_, entry| !entry.ended);
        self.listed.clear();
        let tgids: Vec<u32> = self.processes.keys().copied().collect();
        for tgid in tgids {
            let live = self.live_counts(tgid, snapshot);
            let entry = self.entry(tgid);
            entry.reported_balance = entry.balance(&live, false);
            entry.vanished = entry.vanished(&live);
            entry.reported = live;
            entry.sampled.fill(0);
            entry.reported_totals = entry.totals;
            entry.finished.clear();
            entry.finished_threads.clear();
        }
    }

    /// The counts of a process's threads that had not ended by the snapshot, nor since.
    fn live_counts(&self, tgid: u32, snapshot: &Snapshot) -> Counts {
        let live = self.live(tgid, snapshot);
        live.map(|thread| ((thread.tid, thread.start_ns), self.thread_counts(&thread.events)))
            .collect()
    }

    fn live<'a>(
        &'a self,
        tgid: u32,
        snapshot: &'a Snapshot,
    ) -> impl Iterator<Item = &'a ThreadCounts> {
        snapshot.threads.iter().filter(move |thread| {
            thread.tgid == tgid
                && !self.ended_processes.contains(&tgid)
                && !self.ended.contains(&(thread.tid, thread.start_ns))
        })
    }

    /// Totals of the processes that had not ended by the snapshot. One that has ended and could not
    /// say so is still there, marked.
    fn enter_totals(&mut self, snapshot: &Snapshot) {
        for (&tgid, totals) in &snapshot.processes {
            if !self.ended_processes.contains(&tgid) {
                let entry = self.entry(tgid);
                entry.totals = *totals;
                entry.ended |= totals.flags & flag::ENDING != 0 && totals.descriptors == 0;
            }
        }
        for thread in snapshot.threads.iter().filter(|thread| thread.tid == thread.tgid) {
            let entry = self.entry(thread.tgid);
            if entry.comm.is_empty() {
                entry.comm.clone_from(&thread.comm);
            }
        }
    }

    fn entry(&mut self, tgid: u32) -> &mut Entry {
        let events = self.options.events.len();
        self.processes.entry(tgid).or_insert_with(|| Entry {
            sampled: vec![0; events],
            delivered: vec![ThreadCount::default(); events],
            vanished: vec![ThreadCount::default(); events],
            reported_balance: vec![Balance::default(); events],
            ..Entry::default()
        })
    }

    fn process(
        &self,
        tgid: u32,
        entry: &Entry,
        snapshot: &Snapshot,
        present: &[Present],
        last: bool,
    ) -> Process {
        let mut threads = self.live_threads(tgid, entry, snapshot, present);
        let mut groups: Vec<ExitedGroup> = entry.finished.values().cloned().collect();
        let live = self.live_counts(tgid, snapshot);
        if last || entry.ended {
            groups.extend(entry.undelivered(&live));
        }
        groups.sort_by(|a, b| a.comm.cmp(&b.comm));
        let balance = entry.balance(&live, last);
        let counts = self.process_counts(entry, &threads, &groups, &balance);
        threads.extend(entry.finished_threads.iter().cloned());
        Process {
            tgid,
            comm: entry.comm.clone(),
            exited: entry.ended,
            counts,
            threads,
            exited_groups: groups,
        }
    }

    fn live_threads(
        &self,
        tgid: u32,
        entry: &Entry,
        snapshot: &Snapshot,
        present: &[Present],
    ) -> Vec<Thread> {
        let mut idle: FxHashMap<u32, &Present> = present
            .iter()
            .filter(|thread| thread.tgid == tgid)
            .map(|thread| (thread.tid, thread))
            .collect();
        let mut threads: Vec<Thread> = self
            .live(tgid, snapshot)
            .map(|thread| {
                let state = idle.remove(&thread.tid).map_or('?', |present| present.state);
                let counts = self.thread_counts(&thread.events);
                let counts = match entry.reported.get(&(thread.tid, thread.start_ns)) {
                    Some(before) => subtract(&counts, before),
                    None => counts,
                };
                Thread { state, ..to_thread(thread, counts) }
            })
            .collect();
        // Threads that have not run since the start have no descriptor.
        threads.extend(idle.into_values().map(|thread| self.idle_thread(thread)));
        threads.sort_by_key(|thread| thread.tid);
        threads
    }

    fn idle_thread(&self, thread: &Present) -> Thread {
        Thread {
            tid: thread.tid,
            comm: thread.comm.clone(),
            start_ns: thread.start_ns,
            state: thread.state,
            counts: vec![ThreadCount::default(); self.options.events.len()],
            ..Thread::default()
        }
    }

    fn process_counts(
        &self,
        entry: &Entry,
        threads: &[Thread],
        groups: &[ExitedGroup],
        balance: &[Balance],
    ) -> Vec<ProcessCount> {
        let mut counts: Vec<ProcessCount> = (0..self.options.events.len())
            .map(|event| {
                let (totals, before) =
                    (&entry.totals.events[event], &entry.reported_totals.events[event]);
                let of = |thread: &Thread| thread.counts[event];
                let live: u64 = threads.iter().map(|thread| of(thread).count).sum();
                let exited: u64 = groups.iter().map(|group| group.counts[event].count).sum::<u64>()
                    + entry.finished_threads.iter().map(|thread| of(thread).count).sum::<u64>();
                let unattributed = totals.unattributed.wrapping_sub(before.unattributed);
                let times = |field: fn(&ThreadCount) -> u64| {
                    let threads = threads.iter().chain(&entry.finished_threads);
                    threads.map(|thread| field(&of(thread))).sum::<u64>()
                        + groups.iter().map(|group| field(&group.counts[event])).sum::<u64>()
                };
                let (balance, reported) = (&balance[event], &entry.reported_balance[event]);
                ProcessCount {
                    count: live + exited + unattributed,
                    live,
                    exited,
                    unattributed,
                    sampled: entry.sampled[event],
                    residual: balance.residual - reported.residual,
                    carry: balance.carry - reported.carry,
                    lost: totals.lost.wrapping_sub(before.lost),
                    enabled_ns: times(|count| count.enabled_ns) + balance.enabled_ns
                        - reported.enabled_ns,
                    running_ns: times(|count| count.running_ns) + balance.running_ns
                        - reported.running_ns,
                }
            })
            .collect();
        self.fill_times(&mut counts);
        counts
    }

    /// A clock is its own time; what the programs count themselves is counted whenever anything is.
    fn fill_times(&self, counts: &mut [ProcessCount]) {
        for (count, event) in counts.iter_mut().zip(&self.options.events) {
            if event.source == Source::Clock {
                (count.enabled_ns, count.running_ns) = (count.count, count.count);
            }
        }
        let wanted = counts.iter().map(|count| count.enabled_ns).max().unwrap_or(0);
        for (count, event) in counts.iter_mut().zip(&self.options.events) {
            if matches!(event.source, Source::Switches | Source::Migrations) {
                (count.enabled_ns, count.running_ns) = (wanted, wanted);
            }
        }
    }

    fn thread_counts(&self, events: &[EventCounts<u64>]) -> Vec<ThreadCount> {
        let clocks = self.options.events.iter().map(|event| event.source == Source::Clock);
        events
            .iter()
            .zip(clocks)
            .map(|(event, clock)| ThreadCount {
                count: event.count,
                sampled: event.sampled.wrapping_add(event.carried).wrapping_sub(event.lost),
                residual: event.count.wrapping_sub(event.sampled) as i64,
                carried: event.carried,
                lost: event.lost,
                enabled_ns: if clock { event.count } else { event.enabled_ns },
                running_ns: if clock { event.count } else { event.running_ns },
            })
            .collect()
    }

    /// Descriptors in use for processes that had ended before the snapshot, and what went wrong with
    /// the maps that keep them.
    fn leaked(&self, snapshot: &Snapshot) -> u64 {
        let leaked = snapshot.threads.iter().filter(|thread| {
            let ended = self.processes.get(&thread.tgid).is_some_and(|process| process.ended);
            ended && !self.ended_processes.contains(&thread.tgid)
        });
        leaked.count() as u64 + snapshot.causes[cause::MAP_ERRORS as usize]
    }

    fn losses(&self, snapshot: &Snapshot) -> Losses {
        let of = |cause: u32| snapshot.causes[cause as usize];
        Losses {
            samples: of(cause::SAMPLES_LOST),
            exit_records: of(cause::THREAD_ENDS_LOST),
            descriptors_exhausted: of(cause::DESCRIPTORS_EXHAUSTED),
            processes_exhausted: of(cause::PROCESSES_EXHAUSTED) + of(cause::SELECTED_EXHAUSTED),
            read_errors: of(cause::READ_ERRORS),
            switches_missed: of(cause::SWITCHES_MISSED),
            hits_in_switch: of(cause::HITS_IN_SWITCH),
            // The kernel's count of what found no room includes the programs' own messages.
            sideband_records: self.losses.sideband_records.saturating_sub(
                of(cause::SAMPLES_LOST)
                    + of(cause::THREAD_ENDS_LOST)
                    + of(cause::PROCESS_ENDS_LOST),
            ),
            ..self.losses
        }
    }
}

#[cfg(test)]
mod tests;
