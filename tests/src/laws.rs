//! The conservation laws, in exact integers: no tolerance, no oracle.

use crate::report::{GroupCount, Process, ProcessCount, Report};

/// Asserts what holds in every report on a whole session, whatever was measured.
///
/// # Panics
/// When a law is broken, naming process and event.
pub fn assert_laws(report: &Report) {
    assert_eq!(report.schema, 1, "the schema this suite knows");
    assert_eq!(report.loss("leaked_descriptors"), 0, "descriptors of ended processes are left");
    let descriptors = report.descriptors;
    assert!(descriptors.peak <= descriptors.capacity, "{descriptors:?}");
    assert!(descriptors.in_use_at_end <= descriptors.peak, "{descriptors:?}");
    let all_listed = report.loss("exit_records") == 0;
    for process in &report.processes {
        assert!(process.counts.len() == report.events.len(), "an event is missing: {process:?}");
        for event in &report.events {
            let who = format!("{} of {} ({})", event.name, process.tgid, process.comm);
            let total = process.counts.get(&event.name).copied();
            assert!(total.is_some(), "no {who}");
            let total = total.unwrap_or_default();
            assert_process(&who, total);
            assert_parts(&who, process, &event.name, total, all_listed);
        }
    }
}

fn assert_process(who: &str, c: ProcessCount) {
    assert_eq!(c.count, c.live + c.exited + c.unattributed, "count by thread: {who}: {c:?}");
    let by_sample = c.sampled + c.residual + c.carry + c.lost;
    assert_eq!(c.count, by_sample, "count by sample: {who}: {c:?}");
    assert!(c.running_ns <= c.enabled_ns, "ran longer than enabled: {who}: {c:?}");
    let counts = [c.count, c.live, c.exited, c.unattributed, c.sampled, c.lost];
    assert!(counts.iter().all(|&n| n >= 0), "a negative count: {who}: {c:?}");
}

/// The threads add up to their process. An exit record that was not delivered is in the totals only.
fn assert_parts(who: &str, process: &Process, event: &str, total: ProcessCount, all_listed: bool) {
    let of = |exited| {
        let threads = process.threads.iter().filter(move |t| t.exited == exited);
        threads.filter_map(|t| t.counts.get(event))
    };
    assert_eq!(total.live, of(false).map(|c| c.count).sum::<i64>(), "live threads: {who}");
    assert_eq!(total.residual, of(false).map(|c| c.residual).sum::<i64>(), "residuals: {who}");

    let folded = process.exited_groups.iter().filter_map(|g| g.counts.get(event));
    let folded = folded.fold(GroupCount::default(), |a, b| GroupCount {
        count: a.count + b.count,
        sampled: a.sampled + b.sampled,
    });
    let exited = folded.count + of(true).map(|c| c.count).sum::<i64>();
    let sampled = folded.sampled
        + process
            .threads
            .iter()
            .filter_map(|t| t.counts.get(event))
            .map(|c| c.sampled)
            .sum::<i64>();
    if all_listed {
        assert_eq!(total.exited, exited, "exited threads: {who}");
        // Samples of threads that had no descriptor are the process's alone.
        if total.unattributed == 0 {
            assert_eq!(total.sampled, sampled, "weights by thread: {who}");
        }
    } else {
        assert!(exited <= total.exited, "exited threads: {who}");
        assert!(sampled <= total.sampled, "weights by thread: {who}");
    }
}
