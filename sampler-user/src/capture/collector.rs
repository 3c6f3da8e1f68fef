//! Empties the rings: enters what comes in the ledger, and passes the records on in order of time.

use super::bpf::Programs;
use super::decode::{Decoder, Incoming};
use super::error::CaptureError;
use super::existing::Existing;
use super::merge::Merge;
use super::ring::Ring;
use crate::model::event::{Event, Source};
use crate::model::ledger::{Ledger, Present};
use crate::model::record::{LostSamples, Read, Record, Stamp, Task};
use crate::model::report::Report;
use crate::model::snapshot::{Snapshot, ThreadCounts};
use rustc_hash::FxHashSet;
use rustix::time::{ClockId, clock_gettime};
use sampler_common::abi::MAX_CHAIN;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why records could not be kept.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Where the records of a session go.
pub trait Sink: Send {
    /// The session has begun: a command that it waits for runs.
    ///
    /// # Errors
    /// When records can't be kept: the session ends.
    fn begin(&mut self) -> Result<(), SinkError>;

    /// Takes records, in order of time; readers may rely on what came before.
    ///
    /// # Errors
    /// When they can't be kept: the session ends.
    fn accept(&mut self, records: &[Record]) -> Result<(), SinkError>;

    /// The session is over: what is kept is complete.
    ///
    /// # Errors
    /// When that can't be noted.
    fn finish(self: Box<Self>) -> Result<(), SinkError>;
}

/// Which processes and threads the side-band records are of interest for; the BPF programs decide
/// for themselves, by the same rules.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// All of them.
    pub everything: bool,
    /// Children are followed.
    pub inherit: bool,
    /// The threads that are measured, when not all of a process are.
    pub selected: Option<FxHashSet<u32>>,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Threads that have a descriptor now.
    pub live: u64,
    /// Threads that have ended since the start.
    pub exited: u64,
    /// Samples received.
    pub samples: u64,
    /// Samples lost.
    pub lost: u64,
}

/// Owns everything that a session reads.
pub struct Collector {
    programs: Programs,
    rings: Vec<Ring>,
    decoder: Decoder,
    merge: Merge,
    ledger: Ledger,
    scope: Scope,
    events: Vec<Event>,
    existing: Existing,
    sink: Option<Box<dyn Sink>>,
    exited: u64,
    samples: u64,
    start_ns: u64,
    live: Arc<AtomicU64>,
    /// Addresses at which the kernel cuts a chain off.
    max_chain: usize,
}

impl Collector {
    /// Ready to read. Records go to `sink`, if there is one.
    ///
    /// # Errors
    /// When the decoder can't be set up.
    pub fn new(
        programs: Programs,
        rings: Vec<Ring>,
        ledger: Ledger,
        scope: Scope,
        events: Vec<Event>,
        sink: Option<Box<dyn Sink>>,
    ) -> Result<Self, CaptureError> {
        let decoder = Decoder::new(events.len()).map_err(|source| CaptureError::Machine {
            what: "the layout of the kernel's records".to_owned(),
            source,
        })?;
        Ok(Self {
            programs,
            rings,
            decoder,
            merge: Merge::default(),
            ledger,
            scope,
            events,
            existing: Existing::new(),
            sink,
            exited: 0,
            samples: 0,
            start_ns: 0,
            live: Arc::default(),
            max_chain: max_chain(),
        })
    }

    /// Records what there is before counting starts: the kernel, and these processes.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn open(&mut self, tgids: &[u32]) -> Result<(), CaptureError> {
        if self.sink.is_none() {
            return Ok(());
        }
        let mut records = super::existing::kernel_records(now_ns());
        for &tgid in tgids {
            // A process that has ended meanwhile has nothing to show.
            let threads = self.existing.threads(tgid).unwrap_or_default();
            records.extend(self.existing.records(&threads, now_ns()));
        }
        self.write(&records)
    }

    /// Nothing can keep the session from being recorded any more.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn begin(&mut self) -> Result<(), CaptureError> {
        match &mut self.sink {
            Some(sink) => sink.begin().map_err(CaptureError::Recording),
            None => Ok(()),
        }
    }

    /// Starts counting.
    ///
    /// # Errors
    /// When a CPU can't be started.
    pub fn start(&mut self) -> Result<(), CaptureError> {
        self.start_ns = now_ns();
        self.programs.set_enabled(true)
    }

    /// Stops counting; everybody is credited to the end.
    ///
    /// # Errors
    /// When a CPU can't be stopped.
    pub fn stop(&mut self) -> Result<Duration, CaptureError> {
        self.programs.set_enabled(false)?;
        Ok(Duration::from_nanos(now_ns() - self.start_ns))
    }

    /// Reads what is in the rings.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn drain(&mut self) -> Result<(), CaptureError> {
        let began_ns = now_ns();
        self.read_rings();
        if self.scope.selected.is_some() {
            self.live.store(self.programs.live_threads(), Ordering::Relaxed);
        }
        let settled = self.merge.settled(began_ns);
        self.pass_on(settled)
    }

    /// How many of the chosen threads have a descriptor, as of the last [`drain`](Self::drain).
    /// Not kept up to date when whole processes are measured.
    pub fn live_threads(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.live)
    }

    /// What has happened so far.
    ///
    /// # Errors
    /// When the programs' maps can't be read.
    pub fn progress(&self) -> Result<Progress, CaptureError> {
        let (live, lost) = (self.programs.live_threads(), self.programs.lost_samples()?);
        Ok(Progress { live, lost, exited: self.exited, samples: self.samples })
    }

    /// The processes in the ledger of which `/proc` shows no thread that is not dead.
    pub fn ended_processes(&self) -> Vec<u32> {
        let is_dead = |tgid: &u32| {
            let threads = self.existing.threads(*tgid).unwrap_or_default();
            threads.iter().all(|thread| matches!(thread.state, 'Z' | 'X'))
        };
        self.ledger.live_processes().filter(is_dead).collect()
    }

    /// Enters that these processes have ended.
    pub fn mark_ended(&mut self, tgids: &[u32]) {
        for &tgid in tgids {
            self.ledger.mark_ended(tgid);
        }
    }

    /// No thread of these processes has a descriptor.
    pub fn have_retired(&self, tgids: &[u32]) -> bool {
        !tgids.iter().any(|&tgid| self.programs.has_threads_of(tgid))
    }

    /// What was counted since the last report of this kind.
    ///
    /// # Errors
    /// When the programs' maps can't be read, or the sink fails.
    pub fn interval_report(&mut self, duration: Duration) -> Result<Report, CaptureError> {
        self.programs.credit_running()?;
        self.ledger.open_snapshot();
        let snapshot = self.programs.snapshot()?;
        self.drain()?;
        self.name_processes(&snapshot);
        let present = self.present();
        let report = self.ledger.report(&snapshot, &present, nanos(duration), false);
        self.ledger.close_interval(&snapshot);
        Ok(report)
    }

    /// What was counted in all, after [`stop`](Self::stop). Every thread's count is recorded.
    ///
    /// # Errors
    /// When the programs' maps can't be read, or the sink fails.
    pub fn final_report(&mut self, duration: Duration) -> Result<Report, CaptureError> {
        self.read_rings();
        self.ledger.open_snapshot();
        let snapshot = self.programs.snapshot()?;
        for thread in &snapshot.threads {
            let stamp = Stamp { time_ns: now_ns(), tgid: thread.tgid, tid: thread.tid, cpu: 0 };
            self.record_counts(stamp, thread);
        }
        let rest = self.merge.all();
        self.pass_on(rest)?;
        self.name_processes(&snapshot);
        let present = self.present();
        let report = self.ledger.report(&snapshot, &present, nanos(duration), true);
        if let Some(sink) = self.sink.take() {
            sink.finish().map_err(CaptureError::Recording)?;
        }
        Ok(report)
    }

    fn read_rings(&mut self) {
        let mut rings = std::mem::take(&mut self.rings);
        for ring in &mut rings {
            ring.drain(|bytes| match self.decoder.decode(bytes) {
                Ok(incoming) => self.enter(incoming),
                Err(error) => {
                    log::debug!("{error}");
                    self.ledger.enter_unknown();
                }
            });
        }
        self.rings = rings;
    }

    fn enter(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Record(record) => self.enter_record(record),
            Incoming::ThreadEnd(stamp, thread) => {
                self.exited += 1;
                self.ledger.enter_thread_end(&thread);
                self.record_counts(stamp, &thread);
            }
            Incoming::ProcessEnd(end) => self.ledger.enter_process_end(&end),
            Incoming::Lost(records) => self.ledger.enter_dropped(records),
            Incoming::Nothing => {}
        }
    }

    fn enter_record(&mut self, record: Record) {
        match &record {
            Record::Sample(sample) => {
                let deepest = sample.user_chain.len().max(sample.kernel_chain.len());
                let truncated = deepest >= self.max_chain;
                self.samples += 1;
                self.ledger.enter_sample(sample.stamp.tgid, sample.event, sample.weight, truncated);
            }
            Record::Throttle(_, true) => self.ledger.enter_throttle(),
            _ => {}
        }
        let needed = matches!(record, Record::Fork(_) | Record::Comm(_));
        if needed || self.sink.is_some() {
            self.merge.push(record);
        }
    }

    /// Follows what happened in the order in which it did: whether a record is of interest hangs on
    /// those before it, which may have come from another CPU.
    fn pass_on(&mut self, mut records: Vec<Record>) -> Result<(), CaptureError> {
        records.retain(|record| {
            match record {
                Record::Fork(task) => self.follow(*task),
                Record::Comm(comm) => self.ledger.rename(comm),
                _ => {}
            }
            self.is_of_interest(record)
        });
        self.write(&records)
    }

    fn follow(&mut self, task: Task) {
        let selected = |tid| self.scope.selected.as_ref().is_none_or(|tids| tids.contains(&tid));
        let parent_counts = self.scope.everything
            || self.scope.inherit
                && self.ledger.has_process(task.parent_tgid)
                && selected(task.parent_tid);
        if parent_counts && task.tgid != task.parent_tgid {
            self.ledger.add_child(task.tgid, task.parent_tgid);
        } else if parent_counts && let Some(tids) = &mut self.scope.selected {
            tids.insert(task.tid);
        }
    }

    fn is_measured(&self, tgid: u32) -> bool {
        self.scope.everything || self.ledger.has_process(tgid)
    }

    fn is_of_interest(&self, record: &Record) -> bool {
        match record {
            Record::Mmap(mmap) => mmap.kernel || self.is_measured(mmap.stamp.tgid),
            Record::Fork(task) | Record::Exit(task) => self.is_measured(task.tgid),
            Record::Throttle(..) => true,
            other => self.is_measured(other.stamp().tgid),
        }
    }

    /// Records a thread's exact counts, and how many of its samples were lost.
    fn record_counts(&mut self, stamp: Stamp, thread: &ThreadCounts) {
        if self.sink.is_none() {
            return;
        }
        for (event, counts) in thread.events.iter().enumerate().take(self.events.len()) {
            // A clock is its own time.
            let clock = self.events[event].source == Source::Clock;
            self.merge.push(Record::Read(Read {
                stamp,
                event,
                count: counts.count,
                enabled_ns: if clock { counts.count } else { counts.enabled_ns },
                running_ns: if clock { counts.count } else { counts.running_ns },
            }));
        }
        let event = thread.events.iter().position(|counts| counts.lost != 0);
        if let Some(event) = event {
            let samples = thread.lost_samples;
            self.merge.push(Record::LostSamples(LostSamples { stamp, event, samples }));
        }
    }

    /// A process whose main thread has not run since the start has told nobody its name.
    fn name_processes(&mut self, snapshot: &Snapshot) {
        for &tgid in snapshot.processes.keys() {
            if !self.ledger.has_process(tgid) {
                self.ledger.add_process(tgid, b"");
            }
        }
        for tgid in self.ledger.unnamed() {
            if let Some(thread) = self.existing.thread(tgid, tgid) {
                self.ledger.add_process(tgid, &thread.comm);
            }
        }
    }

    /// The threads of the measured processes, as `/proc` shows them now.
    fn present(&self) -> Vec<Present> {
        let measured = |tid| self.scope.selected.as_ref().is_none_or(|tids| tids.contains(&tid));
        self.ledger
            .live_processes()
            .flat_map(|tgid| self.existing.threads(tgid).unwrap_or_default())
            .filter(|thread| measured(thread.tid) && !matches!(thread.state, 'Z' | 'X'))
            .map(|thread| Present {
                tgid: thread.tgid,
                tid: thread.tid,
                comm: thread.comm,
                start_ns: thread.start_ns,
                state: thread.state,
            })
            .collect()
    }

    fn write(&mut self, records: &[Record]) -> Result<(), CaptureError> {
        match &mut self.sink {
            Some(sink) => sink.accept(records).map_err(CaptureError::Recording),
            None => Ok(()),
        }
    }
}

/// The programs' own limit, or the kernel's if that is less.
fn max_chain() -> usize {
    let kernels = fs::read_to_string("/proc/sys/kernel/perf_event_max_stack");
    let kernels = kernels.ok().and_then(|depth| depth.trim().parse().ok());
    kernels.map_or(MAX_CHAIN, |depth: usize| depth.min(MAX_CHAIN))
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
