//! What follows from several events together, or from one and the time.

use super::rows::Row;
use crate::model::event::{Event, Source};
use crate::model::report::Report;
use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CACHE_MISSES,
    PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
    PERF_TYPE_HARDWARE,
};

/// A column of quotients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Derived {
    /// Its title.
    pub title: &'static str,
    /// Index of the event above the line.
    numerator: usize,
    denominator: Denominator,
    percent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Denominator {
    /// Index of an event.
    Event(usize),
    /// The session's time, nanoseconds.
    Duration(u64),
}

/// The columns that the report's events give.
pub(super) fn columns(report: &Report) -> Vec<Derived> {
    let events = &report.events;
    let clock = events.iter().position(|event| event.source == Source::Clock);
    let cpus = clock.map(|numerator| Derived {
        title: "CPUs",
        numerator,
        denominator: Denominator::Duration(report.duration_ns),
        percent: false,
    });
    let ratio = |title, above, below, percent| {
        let (numerator, denominator) = pair(events, above, below)?;
        let denominator = Denominator::Event(denominator);
        Some(Derived { title, numerator, denominator, percent })
    };
    let cache_misses = (PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_REFERENCES);
    let branch_misses = (PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
    [
        cpus,
        ratio("IPC", PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES, false),
        ratio("cache\nmiss", cache_misses.0, cache_misses.1, true),
        ratio("branch\nmiss", branch_misses.0, branch_misses.1, true),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The first two hardware events of these kinds that are counted in the same mode: user space,
/// kernel or both.
fn pair(events: &[Event], above: u32, below: u32) -> Option<(usize, usize)> {
    let mode = |event: &Event| (event.exclude_user, event.exclude_kernel);
    let find = |config: u32| {
        events.iter().enumerate().filter(move |(_, event)| {
            event.perf_type == PERF_TYPE_HARDWARE && event.config == u64::from(config)
        })
    };
    find(above).find_map(|(numerator, a)| {
        let (denominator, _) = find(below).find(|(_, b)| mode(a) == mode(b))?;
        Some((numerator, denominator))
    })
}

impl Derived {
    /// The quotient for a row; empty where there is none.
    pub fn cell(&self, row: &Row) -> String {
        let estimate = |event: usize| row.amounts.get(event).and_then(|amount| amount.estimate());
        let denominator = match self.denominator {
            Denominator::Event(event) => estimate(event),
            Denominator::Duration(ns) => Some(ns),
        };
        match (estimate(self.numerator), denominator) {
            (Some(above), Some(below)) if below != 0 => {
                // Two decimals are shown; a double has fifteen digits.
                let quotient = above as f64 / below as f64;
                if self.percent {
                    format!("{:.2}%", quotient * 100.0)
                } else {
                    format!("{quotient:.2}")
                }
            }
            _ => String::new(),
        }
    }
}
