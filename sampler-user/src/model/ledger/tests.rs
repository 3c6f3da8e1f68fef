//! The books against a process that is simulated with the arithmetic of the BPF programs, and
//! whose truth is added up apart.

use super::*;
use crate::model::event::{Sampling, Unit};
use crate::model::record::Stamp;
use proptest::collection::vec;
use proptest::prelude::*;
use sampler_common::abi::{MAX_EVENTS, Reading, Totals, cause};
use sampler_common::account::bump;
use sampler_common::cell::{Cell, Word};

const TGID: u32 = 100;
const NAMES: [&str; 3] = ["worker", "helper", "main"];

fn event(source: Source) -> Event {
    Event {
        name: "event".to_owned(),
        unit: Unit::Events,
        source,
        sampling: Sampling::Off,
        perf_type: 0,
        config: 0,
        exclude_user: false,
        exclude_kernel: false,
    }
}

fn ledger(all_threads: bool) -> Ledger {
    let mut ledger = Ledger::new(Options { events: vec![event(Source::Counter)], all_threads });
    ledger.add_process(TGID, b"target");
    ledger
}

/// What the programs send.
enum Message {
    Sample(u64),
    ThreadEnd(ThreadCounts),
    ProcessEnd(ProcessEnd),
}

struct Thread {
    tid: u32,
    start_ns: u64,
    name: &'static str,
    counts: EventCounts<Word>,
    samples: u64,
    lost_samples: u64,
}

/// The process, as the programs have it.
#[derive(Default)]
struct Target {
    threads: Vec<Thread>,
    totals: Totals<Word>,
    exited_threads: u64,
    ended: bool,
    started: u64,
    sent: VecDeque<Message>,
    causes: [u64; cause::COUNT as usize],
    /// The truth.
    spent: u64,
    spent_undelivered: u64,
    undelivered: u64,
}

/// Something that happens to it. Threads are picked modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Deed {
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
    fn perform(&mut self, deed: Deed) {
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
    fn end_all(&mut self) {
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

    fn snapshot(&self) -> Snapshot {
        let process = (!self.ended).then(|| (TGID, self.process()));
        Snapshot {
            threads: self.threads.iter().map(counts).collect(),
            processes: process.into_iter().collect(),
            causes: self.causes,
            capacity: 64,
            peak: 64,
        }
    }

    fn drain(&mut self, ledger: &mut Ledger) {
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

fn counts(thread: &Thread) -> ThreadCounts {
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

/// The two laws, of a report with one process.
fn check_laws(report: &Report) -> ProcessCount {
    let count = report.processes[0].counts[0];
    assert_eq!(count.count, count.live + count.exited + count.unattributed, "first law: {count:?}");
    let stood_for = count.sampled as i64 + count.residual + count.carry + count.lost as i64;
    assert_eq!(count.count as i64, stood_for, "second law: {count:?}");
    count
}

fn deed(samples: u32) -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (0..3_usize).prop_map(|name| Deed::Start { name }),
        6 => (0..8_usize, 1..1000_u64).prop_map(|(thread, count)| Deed::Run { thread, count }),
        1 => (1..1000_u64).prop_map(|count| Deed::RunUnattributed { count }),
        samples => (0..8_usize, any::<bool>())
            .prop_map(|(thread, delivered)| Deed::Sample { thread, delivered }),
        2 => (0..8_usize, prop::bool::weighted(0.8))
            .prop_map(|(thread, delivered)| Deed::End { thread, delivered }),
        2 => Just(Deed::Drain),
    ]
}

fn perform_all(deeds: &[Deed], target: &mut Target, ledger: &mut Ledger) {
    for &deed in deeds {
        target.perform(deed);
        if matches!(deed, Deed::Drain) {
            target.drain(ledger);
        }
    }
}

proptest! {
    #[test]
    fn a_session_is_conserved(
        deeds in vec(deed(4), 0..80),
        all_threads: bool,
        ends: bool,
    ) {
        let (mut target, mut ledger) = (Target::default(), ledger(all_threads));
        perform_all(&deeds, &mut target, &mut ledger);
        let live = target.threads.len();
        if ends {
            target.end_all();
        }
        target.drain(&mut ledger);
        ledger.open_snapshot();
        let report = ledger.report(&target.snapshot(), &[], 1, true);

        let count = check_laws(&report);
        prop_assert_eq!(count.count, target.spent);
        let process = &report.processes[0];
        prop_assert_eq!(process.exited, ends);
        prop_assert_eq!(count.enabled_ns, 2 * count.running_ns);
        prop_assert_eq!(count.running_ns, target.spent);
        let lists = process.threads.iter().filter(|thread| thread.exited).count() as u64;
        let groups: u64 = process.exited_groups.iter().map(|group| group.threads).sum();
        prop_assert_eq!(lists + groups, target.exited_threads);
        prop_assert!(all_threads || lists == 0);
        prop_assert_eq!(process.threads.len() as u64 - lists, if ends { 0 } else { live as u64 });
        let undelivered = process.exited_groups.iter().find(|group| group.comm == UNDELIVERED);
        prop_assert_eq!(undelivered.map_or(0, |group| group.threads), target.undelivered);
        let spent = undelivered.map_or(0, |group| group.counts[0].count);
        prop_assert_eq!(spent, target.spent_undelivered);
        prop_assert_eq!(report.losses.exit_records, target.undelivered);
    }

    #[test]
    fn intervals_add_up(
        intervals in vec((vec(deed(0), 0..30), vec(deed(0), 0..5)), 1..6),
        all_threads: bool,
        ends: bool,
    ) {
        let (mut target, mut ledger) = (Target::default(), ledger(all_threads));
        let mut sum = 0;
        for (deeds, late) in &intervals {
            perform_all(deeds, &mut target, &mut ledger);
            ledger.open_snapshot();
            let snapshot = target.snapshot();
            perform_all(late, &mut target, &mut ledger);
            target.drain(&mut ledger);
            let report = ledger.report(&snapshot, &[], 1, false);
            ledger.close_interval(&snapshot);
            sum += check_laws(&report).count;
        }
        if ends {
            target.end_all();
        }
        target.drain(&mut ledger);
        ledger.open_snapshot();
        let report = ledger.report(&target.snapshot(), &[], 1, true);
        sum += check_laws(&report).count;
        prop_assert_eq!(sum, target.spent);
    }
}
