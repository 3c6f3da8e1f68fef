//! What could not be measured, told to people: what happened, how often, and what to do about it.

use crate::model::report::{Losses, Report};
use crate::output::text::thousands;

/// A line for each kind of loss that is not zero, without a full stop; none in the normal case.
pub fn losses(report: &Report) -> Vec<String> {
    let Losses {
        samples,
        exit_records,
        descriptors_exhausted,
        processes_exhausted,
        read_errors,
        switches_missed,
        hits_in_switch,
        hits_without_descriptor,
        truncated_chains,
        throttled,
        sideband_records,
        unknown_records,
        leaked_descriptors,
    } = report.losses;
    let capacity = thousands(report.descriptors.capacity);
    [
        line(samples, "sample", |s| {
            format!("{s} taken but lost on the way, with their weights in `lost`; counts are not affected: sample less often with -F or -c")
        }),
        line(exit_records, "thread", |s| {
            format!("the final counts of {s} were lost on the way; they are in their process's total, as [not delivered]: sample less often with -F or -c")
        }),
        line(descriptors_exhausted, "time", |s| {
            format!("{s} a thread ran without a descriptor, since all {capacity} were in use; it counts as [unattributed]: raise --max-threads")
        }),
        line(processes_exhausted, "time", |s| {
            format!("{s} a process or thread was not followed, since no more can be: measure fewer at once")
        }),
        line(read_errors, "time", |s| {
            format!("{s} a counter could not be read, so counts are too low: measure fewer events at once, or end other users of the counters")
        }),
        line(switches_missed, "switch", |s| {
            format!("{s} to measured threads not shown by the kernel; clocks are made up for, other events of those runs are too low")
        }),
        line(hits_in_switch, "overflow", |s| {
            format!("{s} in the middle of a switch gave no sample; the thread's next sample stands for it, counts are not affected")
        }),
        line(hits_without_descriptor, "overflow", |s| {
            format!("{s} in threads without a descriptor gave no sample; counts are not affected: raise --max-threads")
        }),
        line(truncated_chains, "call chain", |s| {
            format!("{s} cut off at the greatest depth: raise kernel.perf_event_max_stack")
        }),
        line(throttled, "time", |s| {
            format!("{s} the kernel stopped an event that overflowed too often; counts are not affected: sample less often with -F or -c")
        }),
        line(sideband_records, "record", |s| {
            format!("{s} of names, mappings or starts dropped by the kernel; some samples may lack a symbol: sample less often with -F or -c")
        }),
        line(unknown_records, "message", |s| {
            format!("{s} could not be understood and left out: please report it as a bug of sampler")
        }),
        line(leaked_descriptors, "descriptor", |s| {
            format!("{s} still in use for processes that have ended: please report it as a bug of sampler")
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn line(number: u64, noun: &str, tell: impl FnOnce(String) -> String) -> Option<String> {
    (number != 0).then(|| tell(super::count(number, noun)))
}
