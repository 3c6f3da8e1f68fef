//! The books against a process that is simulated with the arithmetic of the BPF programs, and
//! whose truth is added up apart.

mod target;

use super::entry::{OTHER_NAMES, UNDELIVERED};
use super::*;
use crate::model::event::{Sampling, Unit};
use crate::model::record::Stamp;
use proptest::collection::vec;
use proptest::prelude::*;
use sampler_common::abi::{self, Totals};
use target::{Deed, NAMES, TGID, Target, counts};

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

/// The two laws, of a report with one process.
fn check_laws(report: &Report) -> ProcessCount {
    let count = report.processes[0].counts[0];
    assert_eq!(count.count, count.live + count.exited + count.unattributed, "first law: {count:?}");
    let stood_for = count.sampled as i64 + count.residual + count.carry + count.lost as i64;
    assert_eq!(count.count as i64, stood_for, "second law: {count:?}");
    count
}

fn sampled_deed() -> impl Strategy<Value = Deed> {
    let sample = (0..8_usize, any::<bool>())
        .prop_map(|(thread, delivered)| Deed::Sample { thread, delivered });
    prop_oneof![3 => deed(), 1 => sample]
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (0..3_usize).prop_map(|name| Deed::Start { name }),
        6 => (0..8_usize, 1..1000_u64).prop_map(|(thread, count)| Deed::Run { thread, count }),
        1 => (1..1000_u64).prop_map(|count| Deed::RunUnattributed { count }),
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
        deeds in vec(sampled_deed(), 0..80),
        all_threads: bool,
        ends: bool,
    ) {
        let (mut target, mut ledger) = (Target::default(), ledger(all_threads));
        perform_all(&deeds, &mut target, &mut ledger);
        let live = target.threads.len();
        if ends {
            target.end_all();
        }
        let report = last(&mut target, &mut ledger);

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

    /// What is late happens between the snapshot and the report with it.
    #[test]
    fn intervals_add_up(
        intervals in vec((vec(deed(), 0..30), vec(deed(), 0..8)), 1..6),
        all_threads: bool,
        ends: bool,
    ) {
        let (mut target, mut ledger) = (Target::default(), ledger(all_threads));
        let mut sum = Sum::default();
        for (deeds, late) in &intervals {
            perform_all(deeds, &mut target, &mut ledger);
            let report = interval(late, &mut target, &mut ledger);
            check_laws(&report);
            sum.add(&report);
        }
        if ends {
            target.end_all();
        }
        let report = last(&mut target, &mut ledger);
        check_laws(&report);
        sum.add(&report);
        prop_assert_eq!(sum.count, target.spent);
        prop_assert_eq!(sum.threads, target.exited_threads);
        prop_assert_eq!(sum.running_ns, target.spent);
        prop_assert_eq!(sum.enabled_ns, 2 * target.spent);
    }

    /// A sample is not of one moment with a snapshot, so that the second law holds of the sum alone.
    #[test]
    fn sampled_intervals_add_up(
        intervals in vec((vec(sampled_deed(), 0..30), vec(sampled_deed(), 0..8)), 1..6),
    ) {
        let (mut target, mut ledger) = (Target::default(), ledger(false));
        let mut sum = Sum::default();
        for (deeds, late) in &intervals {
            perform_all(deeds, &mut target, &mut ledger);
            sum.add(&interval(late, &mut target, &mut ledger));
        }
        sum.add(&last(&mut target, &mut ledger));
        prop_assert_eq!(sum.count, target.spent);
        prop_assert_eq!(sum.stood_for, target.spent as i64);
    }
}

/// Sums over intervals.
#[derive(Default)]
struct Sum {
    count: u64,
    stood_for: i64,
    threads: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        let process = &report.processes[0];
        let count = process.counts[0];
        self.count += count.count;
        self.stood_for += count.sampled as i64 + count.residual + count.carry + count.lost as i64;
        self.threads += process.exited_groups.iter().map(|group| group.threads).sum::<u64>();
        self.threads += process.threads.iter().filter(|thread| thread.exited).count() as u64;
        self.enabled_ns += count.enabled_ns;
        self.running_ns += count.running_ns;
    }
}

fn interval(late: &[Deed], target: &mut Target, ledger: &mut Ledger) -> Report {
    ledger.open_snapshot();
    let snapshot = target.snapshot();
    perform_all(late, target, ledger);
    target.drain(ledger);
    let report = ledger.report(&snapshot, &[], 1, false);
    ledger.close_interval(&snapshot);
    report
}

fn last(target: &mut Target, ledger: &mut Ledger) -> Report {
    target.drain(ledger);
    ledger.open_snapshot();
    ledger.report(&target.snapshot(), &[], 1, true)
}

fn target(counts: &[u64]) -> Target {
    let mut target = Target::default();
    for (thread, &count) in counts.iter().enumerate() {
        target.perform(Deed::Start { name: thread });
        target.perform(Deed::Run { thread, count });
    }
    target
}

#[test]
fn a_thread_that_ends_after_the_snapshot_is_counted_once() {
    let (mut target, mut ledger) = (target(&[5, 7]), ledger(false));
    ledger.open_snapshot();
    let snapshot = target.snapshot();
    target.perform(Deed::Run { thread: 0, count: 1 });
    target.perform(Deed::End { thread: 0, delivered: true });
    target.drain(&mut ledger);
    let report = ledger.report(&snapshot, &[], 1, false);
    let process = &report.processes[0];
    assert_eq!((process.threads.len(), process.exited_groups.len()), (1, 1));
    let count = check_laws(&report);
    assert_eq!((count.live, count.exited), (7, 6), "its last count, not that of the snapshot");
    ledger.close_interval(&snapshot);

    let count = check_laws(&interval(&[], &mut target, &mut ledger));
    assert_eq!(count, ProcessCount::default(), "nothing has happened since");
}

#[test]
fn an_end_that_is_not_delivered_shows_at_the_end() {
    let (mut target, mut ledger) = (target(&[5, 7]), ledger(true));
    target.perform(Deed::End { thread: 0, delivered: false });
    target.perform(Deed::End { thread: 0, delivered: true });
    let report = last(&mut target, &mut ledger);
    let group = &report.processes[0].exited_groups[0];
    assert_eq!((group.comm.as_slice(), group.threads), (&b"[not delivered]"[..], 1));
    assert_eq!(group.counts[0].count, 5);
    assert_eq!(report.processes[0].threads[0].counts[0].count, 7);
    assert_eq!(check_laws(&report).exited, 12);
}

#[test]
fn an_end_that_is_not_delivered_is_no_loss_to_earlier_intervals() {
    let (mut target, mut ledger) = (target(&[5]), ledger(false));
    assert_eq!(check_laws(&interval(&[], &mut target, &mut ledger)).count, 5);
    target.perform(Deed::Run { thread: 0, count: 2 });
    target.perform(Deed::End { thread: 0, delivered: false });
    assert_eq!(check_laws(&interval(&[], &mut target, &mut ledger)).count, 0);
    let report = last(&mut target, &mut ledger);
    assert_eq!(check_laws(&report).count, 2);
    assert_eq!(report.processes[0].exited_groups[0].counts[0].count, 2);
}

#[test]
fn a_process_may_end_before_or_after_the_snapshot() {
    for (drained_first, ends_first) in [(true, true), (false, true), (false, false)] {
        let (mut target, mut ledger) = (target(&[5, 7]), ledger(false));
        target.perform(Deed::RunUnattributed { count: 3 });
        if ends_first {
            target.end_all();
        }
        if drained_first {
            target.drain(&mut ledger);
        }
        ledger.open_snapshot();
        let snapshot = target.snapshot();
        if !ends_first {
            target.end_all();
        }
        target.drain(&mut ledger);
        let report = ledger.report(&snapshot, &[], 1, false);
        assert!(report.processes[0].exited);
        let count = check_laws(&report);
        assert_eq!((count.live, count.exited, count.unattributed), (0, 12, 3));
        assert_eq!(report.losses.leaked_descriptors, 0);
        ledger.close_interval(&snapshot);
        let snapshot = target.snapshot();
        assert_eq!(ledger.report(&snapshot, &[], 1, false).processes, [], "reported and done with");
    }
}

#[test]
fn a_process_whose_end_is_not_delivered_has_ended_all_the_same() {
    let (mut target, mut ledger) = (target(&[5]), ledger(false));
    target.perform(Deed::End { thread: 0, delivered: true });
    target.drain(&mut ledger);
    let mut snapshot = target.snapshot();
    snapshot.processes.entry(TGID).and_modify(|process| process.flags = flag::ENDING);
    ledger.open_snapshot();
    let report = ledger.report(&snapshot, &[], 1, true);
    assert!(report.processes[0].exited);
    assert_eq!(check_laws(&report).exited, 5);
}

#[test]
fn a_descriptor_of_a_process_that_has_ended_is_a_leak() {
    let (mut target, mut ledger) = (target(&[5]), ledger(false));
    let snapshot = target.snapshot();
    assert_eq!(ledger.report(&snapshot, &[], 1, true).losses.leaked_descriptors, 0);
    ledger.mark_ended(TGID);
    assert_eq!(ledger.report(&snapshot, &[], 1, true).losses.leaked_descriptors, 1);
    target.perform(Deed::End { thread: 0, delivered: true });
    assert_eq!(last(&mut target, &mut ledger).losses.leaked_descriptors, 0);
}

#[test]
fn finished_threads_are_folded_by_name_or_listed() {
    for all_threads in [false, true] {
        let (mut target, mut ledger) = (target(&[1, 2, 4, 8]), ledger(all_threads));
        target.perform(Deed::Sample { thread: 3, delivered: true });
        for _ in 0..4 {
            target.perform(Deed::End { thread: 0, delivered: true });
        }
        let report = last(&mut target, &mut ledger);
        let process = &report.processes[0];
        let groups: Vec<_> = process
            .exited_groups
            .iter()
            .map(|group| {
                (group.comm.as_slice(), group.threads, group.samples, group.counts[0].count)
            })
            .collect();
        let threads: Vec<_> =
            process.threads.iter().map(|t| (t.comm.as_slice(), t.counts[0].count)).collect();
        let [worker, helper, main] = NAMES.map(str::as_bytes);
        if all_threads {
            assert_eq!(threads, [(worker, 1), (helper, 2), (main, 4), (worker, 8)]);
            assert!(process.threads.iter().all(|thread| thread.exited && thread.state == 'X'));
        } else {
            assert_eq!(groups, [(helper, 1, 0, 2), (main, 1, 0, 4), (worker, 2, 1, 9)]);
        }
        assert_eq!(check_laws(&report).sampled, 8);
    }
}

#[test]
fn names_and_ended_processes_are_bounded() {
    let mut ledger = ledger(false);
    let many = 10_010;
    let thread = |tgid: u32, comm: String| {
        let thread = target(&[3]).threads.remove(0);
        ThreadCounts { tgid, start_ns: u64::from(tgid), comm: comm.into(), ..counts(&thread) }
    };
    for number in 0..many {
        ledger.enter_thread_end(&thread(TGID, format!("name-{number}")));
        let tgid = 1000 + number;
        ledger.add_process(tgid, b"short");
        ledger.enter_thread_end(&thread(tgid, "short".to_owned()));
        let mut totals = abi::Process { exited_threads: 1, ..abi::Process::default() };
        totals.events[0] = Totals { exited: 3, carry: 3, ..Totals::default() };
        ledger.enter_process_end(&ProcessEnd { tgid, totals });
    }
    ledger.open_snapshot();
    let report = ledger.report(&Snapshot::default(), &[], 1, false);
    let count = |tgid: u32| {
        report.processes.iter().find(|process| process.tgid == tgid).map(|p| p.counts[0].exited)
    };
    assert_eq!(report.processes.len(), 10_000 + 2);
    assert_eq!(count(EARLIER_TGID), Some(30));
    assert_eq!((count(1009), count(1010)), (None, Some(3)), "the earliest are folded");
    let named = report.processes.iter().find(|process| process.tgid == TGID).expect("it");
    assert_eq!(named.exited_groups.len(), 10_000 + 1);
    let others = named.exited_groups.iter().find(|group| group.comm == OTHER_NAMES).expect("it");
    assert_eq!((others.threads, others.counts[0].count), (10, 30));
    assert_eq!(named.counts[0].exited, u64::from(many) * 3);
}

#[test]
fn threads_that_have_not_run_are_shown() {
    let (target, mut ledger) = (target(&[5]), ledger(false));
    let of = |tid, state| Present { tgid: TGID, tid, state, ..Present::default() };
    let present = [of(TGID, 'R'), of(TGID + 1, 'S'), Present { tgid: 1, ..of(7, 'S') }];
    let report = ledger.report(&target.snapshot(), &present, 1, true);
    let threads: Vec<_> = report.processes[0]
        .threads
        .iter()
        .map(|thread| (thread.tid, thread.state, thread.counts[0].count))
        .collect();
    assert_eq!(threads, [(TGID, 'R', 5), (TGID + 1, 'S', 0)]);
}

#[test]
fn times_of_what_has_no_counter() {
    let events = [Source::Counter, Source::Clock, Source::Switches, Source::Migrations];
    let options = Options { events: events.map(event).into(), all_threads: false };
    let mut ledger = Ledger::new(options);
    let (target, mut snapshot) = (target(&[50]), Snapshot::default());
    let mut thread = counts(&target.threads[0]);
    for (event, count) in [(1, 400), (2, 9), (3, 1)] {
        thread.events[event].count = count;
    }
    snapshot.threads.push(thread);
    ledger.add_process(TGID, b"target");
    let report = ledger.report(&snapshot, &[], 1, true);
    let times: Vec<_> =
        report.processes[0].counts.iter().map(|c| (c.enabled_ns, c.running_ns)).collect();
    // A clock is its own time; a switch is counted whenever anything is.
    assert_eq!(times, [(100, 50), (400, 400), (400, 400), (400, 400)]);
}

#[test]
fn a_process_is_named_by_its_main_thread() {
    let mut ledger = ledger(false);
    let comm = |tid, comm: &[u8]| Comm {
        stamp: Stamp { tgid: TGID, tid, ..Stamp::default() },
        comm: comm.into(),
        exec: false,
    };
    ledger.rename(&comm(TGID + 1, b"other"));
    ledger.add_child(TGID + 5, TGID);
    ledger.rename(&comm(TGID, b"renamed"));
    ledger.add_child(TGID + 6, 1);
    let report = ledger.report(&Snapshot::default(), &[], 1, true);
    let names: Vec<_> = report.processes.iter().map(|process| process.comm.as_slice()).collect();
    assert_eq!(names, [&b"renamed"[..], b"target", b""]);
    assert_eq!(ledger.unnamed(), [TGID + 6]);
}

#[test]
fn each_loss_has_its_own_name() {
    let mut ledger = ledger(false);
    let mut snapshot = Snapshot::default();
    for (number, cause) in (0..cause::COUNT).enumerate() {
        snapshot.causes[cause as usize] = 1 << number;
    }
    let of = |cause: u32| 1 << cause;
    let messages =
        of(cause::SAMPLES_LOST) + of(cause::THREAD_ENDS_LOST) + of(cause::PROCESS_ENDS_LOST);
    ledger.enter_dropped(messages + 1);
    ledger.enter_unknown();
    ledger.enter_throttle();
    ledger.enter_sample(TGID, 0, 1, true);
    assert_eq!(
        ledger.report(&snapshot, &[], 1, true).losses,
        Losses {
            samples: of(cause::SAMPLES_LOST),
            exit_records: of(cause::THREAD_ENDS_LOST),
            descriptors_exhausted: of(cause::DESCRIPTORS_EXHAUSTED),
            processes_exhausted: of(cause::PROCESSES_EXHAUSTED) + of(cause::SELECTED_EXHAUSTED),
            read_errors: of(cause::READ_ERRORS),
            switches_missed: of(cause::SWITCHES_MISSED),
            hits_in_switch: of(cause::HITS_IN_SWITCH),
            truncated_chains: 1,
            throttled: 1,
            sideband_records: 1,
            unknown_records: 1,
            leaked_descriptors: of(cause::MAP_ERRORS),
        }
    );
}
