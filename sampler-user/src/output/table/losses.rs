//! What could not be measured, told to people: what happened, how often, and what to do about it.

use crate::model::event::Source;
use crate::model::report::{Losses, Report};
use crate::output::text::thousands;

const SAMPLE_LESS: &str = "sample less often with -F or -c";
const TELL: &str = "please report it as a bug of sampler";

/// A line for each kind of loss that is not zero, without a full stop; none in the normal case.
pub fn losses(report: &Report) -> Vec<String> {
    let lines = samples(report).into_iter().chain(counts(report)).chain(others(report));
    lines.flatten().collect()
}

/// Of samples; each of them leaves the counts as they are.
fn samples(report: &Report) -> [Option<String>; 4] {
    let Losses { samples, hits_in_switch, truncated_chains, throttled, .. } = report.losses;
    let in_switch = "in the middle of a switch gave no sample; later ones stand for them";
    let stopped = "an event overflowed too often and was not sampled for a while";
    [
        line(samples, "sample", "lost on the way, since sampler did not keep up", SAMPLE_LESS),
        line(hits_in_switch, "overflow", in_switch, "counts are not affected"),
        line(
            truncated_chains,
            "call chain",
            "cut off at the greatest depth",
            "code without frame pointers often looks so; the depth is 127, or \
             kernel.perf_event_max_stack if that is less",
        ),
        line(throttled, "time", stopped, SAMPLE_LESS),
    ]
}

/// Of counts, or of knowing whose they are.
fn counts(report: &Report) -> [Option<String>; 5] {
    let Losses {
        exit_records,
        descriptors_exhausted,
        processes_exhausted,
        read_errors,
        switches_missed,
        ..
    } = report.losses;
    let undelivered = "with final counts that did not arrive, since sampler did not keep up; \
                       they are in the process's total as [not delivered]";
    let exhausted = "a thread ran without a descriptor of its own; it counts as [unattributed]";
    let capacity = thousands(report.descriptors.capacity);
    let raise = format!("raise --max-threads above {capacity}");
    let unseen = "of a measured thread hidden by the kernel";
    let clocks_only = report.events.iter().all(|event| event.source == Source::Clock);
    let effect = if clocks_only {
        "made up for from the scheduler's account"
    } else {
        "clocks are made up for from the scheduler's account, other events are counted too low"
    };
    [
        line(exit_records, "thread", undelivered, SAMPLE_LESS),
        line(descriptors_exhausted, "time", exhausted, &raise),
        line(
            processes_exhausted,
            "time",
            "a process or thread was not followed, since there was no room for one more",
            &raise,
        ),
        line(
            read_errors,
            "time",
            "a counter could not be read, and its event is counted too low",
            "measure fewer events, or end other users of the counters",
        ),
        line(switches_missed, "switch", unseen, effect),
    ]
}

/// Of what is neither.
fn others(report: &Report) -> [Option<String>; 3] {
    let Losses { sideband_records, unknown_records, leaked_descriptors, .. } = report.losses;
    let dropped = "of a name, mapping or start dropped by the kernel; samples may lack a symbol";
    let leaked = "still in use for processes that have ended";
    [
        line(sideband_records, "record", dropped, SAMPLE_LESS),
        line(unknown_records, "message", "not understood and left out", TELL),
        line(leaked_descriptors, "descriptor", leaked, TELL),
    ]
}

fn line(number: u64, noun: &str, what: &str, remedy: &str) -> Option<String> {
    (number != 0).then(|| format!("{} {what}: {remedy}", super::count(number, noun)))
}
