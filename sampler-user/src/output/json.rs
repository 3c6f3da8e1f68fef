//! A report as one JSON object on one line, for other programs. Schema 1: keys may be added, none is
//! removed or changes its meaning. Integers are exact, counts are raw (not scaled up when the kernel
//! counted an event a part of the time), names are escaped as everywhere.

use super::text::escape;
use crate::model::event::{Event, Sampling};
use crate::model::report::{
    Descriptors, ExitedGroup, Losses, Process, ProcessCount, Report, Thread, ThreadCount,
};
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use std::time::Duration;

/// The version of this shape.
const SCHEMA: u32 = 1;

/// Writes the report of a whole session.
///
/// # Errors
/// Those of writing to `out`.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    write_object(out, report, None)
}

/// Writes the report of one interval, which began and ended that long after the session's start.
///
/// # Errors
/// Those of writing to `out`.
pub fn write_interval(
    out: &mut dyn Write,
    report: &Report,
    start: Duration,
    end: Duration,
) -> io::Result<()> {
    write_object(out, report, Some(Interval { start_ns: start.as_nanos(), end_ns: end.as_nanos() }))
}

fn write_object(
    out: &mut dyn Write,
    report: &Report,
    interval: Option<Interval>,
) -> io::Result<()> {
    let events = &report.events;
    let object = Object {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        scope: "cpu",
        duration_ns: report.duration_ns,
        interval,
        events: events.iter().map(EventView).collect(),
        processes: report
            .processes
            .iter()
            .map(|process| ProcessView::of(events, process))
            .collect(),
        losses: &report.losses,
        descriptors: &report.descriptors,
    };
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Object<'a> {
    schema: u32,
    version: &'static str,
    scope: &'static str,
    duration_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<Interval>,
    events: Vec<EventView<'a>>,
    processes: Vec<ProcessView<'a>>,
    #[serde(with = "LossesShape")]
    losses: &'a Losses,
    #[serde(with = "DescriptorsShape")]
    descriptors: &'a Descriptors,
}

#[derive(Serialize)]
struct Interval {
    start_ns: u128,
    end_ns: u128,
}

struct EventView<'a>(&'a Event);

impl Serialize for EventView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(event) = self;
        let mut object = serializer.serialize_struct("Event", 3)?;
        object.serialize_field("name", &event.name)?;
        object.serialize_field("unit", &event.unit.to_string())?;
        match event.sampling {
            Sampling::Frequency(hz) => object.serialize_field("sample_frequency_hz", &hz)?,
            Sampling::Period(period) => object.serialize_field("sample_period", &period)?,
            Sampling::Off => object.serialize_field("sample_period", &None::<u64>)?,
        }
        object.end()
    }
}

#[derive(Serialize)]
struct ProcessView<'a> {
    tgid: u32,
    comm: String,
    exited: bool,
    counts: Counts<'a, ProcessCount>,
    threads: Vec<ThreadView<'a>>,
    exited_groups: Vec<GroupView<'a>>,
}

impl<'a> ProcessView<'a> {
    fn of(events: &'a [Event], process: &'a Process) -> Self {
        Self {
            tgid: process.tgid,
            comm: escape(&process.comm),
            exited: process.exited,
            counts: Counts(events, &process.counts),
            threads: process.threads.iter().map(|thread| ThreadView::of(events, thread)).collect(),
            exited_groups: process
                .exited_groups
                .iter()
                .map(|group| GroupView::of(events, group))
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct ThreadView<'a> {
    tid: u32,
    comm: String,
    start_ns: u64,
    exited: bool,
    state: char,
    samples: u64,
    counts: Counts<'a, ThreadCount>,
}

impl<'a> ThreadView<'a> {
    fn of(events: &'a [Event], thread: &'a Thread) -> Self {
        Self {
            tid: thread.tid,
            comm: escape(&thread.comm),
            start_ns: thread.start_ns,
            exited: thread.exited,
            state: thread.state,
            samples: thread.samples,
            counts: Counts(events, &thread.counts),
        }
    }
}

#[derive(Serialize)]
struct GroupView<'a> {
    comm: String,
    threads: u64,
    samples: u64,
    counts: Counts<'a, ThreadCount>,
}

impl<'a> GroupView<'a> {
    fn of(events: &'a [Event], group: &'a ExitedGroup) -> Self {
        Self {
            comm: escape(&group.comm),
            threads: group.threads,
            samples: group.samples,
            counts: Counts(events, &group.counts),
        }
    }
}

/// An object of counts by the event's name, in the order of the session.
struct Counts<'a, C>(&'a [Event], &'a [C]);

impl<'a, C> Serialize for Counts<'a, C>
where
    View<'a, C>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(events, counts) = *self;
        let mut map = serializer.serialize_map(Some(events.len().min(counts.len())))?;
        for (event, count) in events.iter().zip(counts) {
            map.serialize_entry(&event.name, &View(count))?;
        }
        map.end()
    }
}

/// A value of the model, to be written in the shape this module gives it.
struct View<'a, T>(&'a T);

impl Serialize for View<'_, ProcessCount> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ProcessCountShape::serialize(self.0, serializer)
    }
}

impl Serialize for View<'_, ThreadCount> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ThreadCountShape::serialize(self.0, serializer)
    }
}

#[derive(Serialize)]
#[serde(remote = "ProcessCount")]
struct ProcessCountShape {
    count: u64,
    live: u64,
    exited: u64,
    unattributed: u64,
    sampled: u64,
    residual: i64,
    carry: i64,
    lost: u64,
    enabled_ns: u64,
    running_ns: u64,
}

#[derive(Serialize)]
#[serde(remote = "ThreadCount")]
struct ThreadCountShape {
    count: u64,
    sampled: u64,
    residual: i64,
    carried: u64,
    lost: u64,
    enabled_ns: u64,
    running_ns: u64,
}

#[derive(Serialize)]
#[serde(remote = "Losses")]
struct LossesShape {
    samples: u64,
    exit_records: u64,
    descriptors_exhausted: u64,
    processes_exhausted: u64,
    read_errors: u64,
    switches_missed: u64,
    hits_in_switch: u64,
    hits_without_descriptor: u64,
    truncated_chains: u64,
    throttled: u64,
    sideband_records: u64,
    unknown_records: u64,
    leaked_descriptors: u64,
}

#[derive(Serialize)]
#[serde(remote = "Descriptors")]
struct DescriptorsShape {
    capacity: u64,
    peak: u64,
    in_use_at_end: u64,
}
