//! A report as one JSON object on one line, for other programs. Schema 1: keys may be added, none
//! is removed or changes its meaning. Integers are exact, counts are raw (not scaled up when the
//! kernel counted an event a part of the time), names are escaped as everywhere.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixtures::*;
    use serde_json::Value;

    fn written(report: &Report) -> String {
        let mut out = Vec::new();
        write(&mut out, report).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn parsed(report: &Report) -> Value {
        serde_json::from_str(&written(report)).unwrap()
    }

    #[test]
    fn one_object_on_one_line() {
        for report in [churn(), hostile(), everything()] {
            let text = written(&report);
            assert_eq!((text.matches('\n').count(), text.ends_with("}\n")), (1, true), "{text}");
        }
        let mut object = parsed(&lossy());
        assert_eq!(object["version"].take(), env!("CARGO_PKG_VERSION"));
        let pretty = serde_json::to_string_pretty(&object).unwrap();
        assert_golden("report.json", &(pretty + "\n"));
    }

    #[test]
    fn the_laws_hold_of_what_is_written() {
        for report in [churn(), exhausted(), everything(), multiplexed()] {
            for process in parsed(&report)["processes"].as_array().unwrap() {
                for (event, count) in process["counts"].as_object().unwrap() {
                    let of = |key: &str| count[key].as_i64().unwrap();
                    assert_eq!(
                        of("count"),
                        of("live") + of("exited") + of("unattributed"),
                        "{event}"
                    );
                    assert_eq!(
                        of("count"),
                        of("sampled") + of("residual") + of("carry") + of("lost"),
                        "{event}"
                    );
                }
            }
        }
    }

    #[test]
    fn counts_are_in_the_order_of_the_session() {
        let mut report = churn();
        report.events.reverse();
        let text = written(&report);
        assert!(text.find("\"page-faults\":{") < text.find("\"cpu-clock\":{"), "{text}");
    }

    #[test]
    fn one_key_says_how_an_event_is_sampled() {
        for (sampling, key, value) in [
            (Sampling::Frequency(999), "sample_frequency_hz", Value::from(999)),
            (Sampling::Period(1_000_000), "sample_period", Value::from(1_000_000)),
            (Sampling::Off, "sample_period", Value::Null),
        ] {
            let object = parsed(&report(vec![cpu_clock(sampling)], Vec::new()));
            let event = object["events"][0].as_object().unwrap();
            let keys: Vec<_> = event.iter().filter(|(key, _)| key.starts_with("sample_")).collect();
            assert_eq!(keys, [(&key.to_owned(), &value)]);
        }
    }

    #[test]
    fn large_integers_are_exact() {
        let mut large = churn();
        large.processes[0].counts[0].count = u64::MAX;
        large.processes[0].counts[0].carry = i64::MIN;
        let text = written(&large);
        assert!(text.contains("\"count\":18446744073709551615,"), "{text}");
        assert!(text.contains("\"carry\":-9223372036854775808,"), "{text}");
    }

    #[test]
    fn all_losses_are_there() {
        let object = parsed(&lossy());
        let fields = format!("{:?}", Losses::default()).matches(": ").count();
        let losses = object["losses"].as_object().unwrap();
        assert_eq!(losses.len(), fields);
        assert!(losses.values().all(|loss| loss.as_u64() > Some(0)), "{losses:?}");
    }

    #[test]
    fn an_interval_says_when() {
        let mut out = Vec::new();
        let (start, end) = (Duration::from_millis(200), Duration::from_millis(400));
        write_interval(&mut out, &churn(), start, end).unwrap();
        let mut object: Value = serde_json::from_slice(&out).unwrap();
        let interval = object.as_object_mut().unwrap().remove("interval").unwrap();
        assert_eq!(interval, serde_json::json!({"start_ns": 200_000_000, "end_ns": 400_000_000}));
        assert_eq!(object, parsed(&churn()));
    }
}
