//! A process that is simulated with the arithmetic of the BPF programs, one event wide.

use crate::model::ledger::Ledger;
use crate::model::snapshot::{ProcessEnd, Snapshot, ThreadCounts};
use sampler_common::abi::{self, EventCounts, MAX_EVENTS, Reading, Totals, cause};
use sampler_common::cell::{Cell, Word};
use std::collections::VecDeque;

pub const TGID: u32 = 100;
pub const NAMES: [&str; 3] = ["worker", "helper", "main"];

/// What the programs send.
pub enum Message {
    Sample(u64),
    ThreadEnd(ThreadCounts),
    ProcessEnd(ProcessEnd),
}

pub struct Thread {
    tid: u32,
    start_ns: u64,
    name: &'static str,
    counts: EventCounts<Word>,
    samples: u64,
    lost_samples: u64,
}

/// The process, as the programs have it.
#[derive(Default)]
pub struct Target {
    pub threads: Vec<Thread>,
    totals: Totals<Word>,
    pub exited_threads: u64,
    ended: bool,
    started: u64,
    sent: VecDeque<Message>,
    causes: [u64; cause::COUNT as usize],
    /// The truth.
    pub spent: u64,
    pub spent_undelivered: u64,
    pub undelivered: u64,
}

/// Something that happens to it. Threads are picked modulo how many there are.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Start {
        name: usize,
    },
    Run {
        thread: usize,
        count: u64,
    },
    RunUnattributed {
        count: u64,
    },
    Sample {
        thread: usize,
        delivered: bool,
    },
    End {
        thread: usize,
        delivered: bool,
    },
    /// User space reads what was sent.
    Drain,
}

impl Target {
    pub fn perform(&mut self, deed: Deed) {
        match deed {
            Deed::Start { name } => self.start(NAMES[name % NAMES.len()]),
            Deed::RunUnattributed { count } => {
                self.spent += count;
                self.totals.credit(reading(count));
            }
            Deed::Run { thread, count } => {
                if let Some(thread) = pick(&mut self.threads, thread) {
                    thread.counts.credit(reading(count));
                    self.spent += count;
                }
            }
            Deed::Sample { thread, delivered } => self.sample(thread, delivered),
            Deed::End { thread, delivered } => {
                if !self.threads.is_empty() {
                    let thread = self.threads.remove(thread % self.threads.len());
                    self.end(thread, delivered);
                }
            }
            Deed::Drain => {}
        }
    }

    /// The lowest tid that is free, so that tids come back at once.
    fn start(&mut self, name: &'static str) {
        self.started += 1;
        let taken = |tid| self.threads.iter().any(|thread| thread.tid == tid);
        let tid = (TGID..).find(|&tid| !taken(tid)).expect("a tid");
        let (start_ns, counts) = (self.started, EventCounts::default());
        self.threads.push(Thread { tid, start_ns, name, counts, samples: 0, lost_samples: 0 });
    }

    fn sample(&mut self, thread: usize, delivered: bool) {
        let Some(thread) = pick(&mut self.threads, thread) else { return };
        let weight = thread.counts.take_sample(&self.totals);
        if weight == 0 {
        } else if delivered {
            thread.samples += 1;
            self.sent.push_back(Message::Sample(weight));
        } else {
            thread.lost_samples += 1;
            self.causes[cause::SAMPLES_LOST as usize] += 1;
            thread.counts.lose_sample(&self.totals, weight);
        }
    }

    fn end(&mut self, thread: Thread, delivered: bool) {
        self.totals.retire(&thread.counts);
        self.exited_threads += 1;
        if delivered {
            self.sent.push_back(Message::ThreadEnd(counts(&thread)));
        } else {
            self.undelivered += 1;
            self.spent_undelivered += thread.counts.count.get();
            self.causes[cause::THREAD_ENDS_LOST as usize] += 1;
        }
    }

    /// All threads end, and the process with them.
    pub fn end_all(&mut self) {
        for thread in std::mem::take(&mut self.threads) {
            self.end(thread, true);
        }
        self.ended = true;
        let totals = self.process();
        self.sent.push_back(Message::ProcessEnd(ProcessEnd { tgid: TGID, totals }));
    }

    fn process(&self) -> abi::Process<u64> {
        let mut process = abi::Process {
            descriptors: self.threads.len() as u64,
            exited_threads: self.exited_threads,
            ..abi::Process::default()
        };
        process.events[0] = Totals {
            exited: self.totals.exited.get(),
            unattributed: self.totals.unattributed.get(),
            carry: self.totals.carry.get(),
            lost: self.totals.lost.get(),
            enabled_ns: self.totals.enabled_ns.get(),
            running_ns: self.totals.running_ns.get(),
        };
        process
    }

    pub fn snapshot(&self) -> Snapshot {
        let process = (!self.ended).then(|| (TGID, self.process()));
        Snapshot {
            threads: self.threads.iter().map(counts).collect(),
            processes: process.into_iter().collect(),
            causes: self.causes,
            capacity: 64,
            peak: 64,
        }
    }

    pub fn drain(&mut self, ledger: &mut Ledger) {
        for message in self.sent.drain(..) {
            match message {
                Message::Sample(weight) => ledger.enter_sample(TGID, 0, weight, false),
                Message::ThreadEnd(thread) => ledger.enter_thread_end(&thread),
                Message::ProcessEnd(end) => ledger.enter_process_end(&end),
            }
        }
    }
}

fn reading(count: u64) -> Reading {
    Reading { count, enabled_ns: 2 * count, running_ns: count }
}

fn pick<T>(from: &mut [T], index: usize) -> Option<&mut T> {
    let len = from.len();
    from.get_mut(index.checked_rem(len)?)
}

pub fn counts(thread: &Thread) -> ThreadCounts {
    let mut events = [EventCounts::default(); MAX_EVENTS];
    let counts = &thread.counts;
    events[0] = EventCounts {
        count: counts.count.get(),
        sampled: counts.sampled.get(),
        carried: counts.carried.get(),
        lost: counts.lost.get(),
        enabled_ns: counts.enabled_ns.get(),
        running_ns: counts.running_ns.get(),
    };
    ThreadCounts {
        tgid: TGID,
        tid: thread.tid,
        start_ns: thread.start_ns,
        last_cpu: None,
        comm: thread.name.into(),
        samples: thread.samples,
        lost_samples: thread.lost_samples,
        events,
    }
}
