//! A report as a table for programs: one row a process, thread, or group of exited threads, and
//! event.
//!
//! Counts are raw and exact. A column that says nothing about a row's kind is empty there. Names
//! are escaped as everywhere, so that a row is one line.

use super::text::escape;
use super::{sample_count, thread_count};
use crate::model::event::Event;
use crate::model::report::{ExitedGroup, Process, Report, Thread, ThreadCount};
use csv::{Writer, WriterBuilder};
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

/// Writes a whole session: the header and the rows.
///
/// # Errors
/// Those of writing to `out`.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    write_header(out)?;
    write_rows(out, report, None)
}

/// Writes the names of the columns.
///
/// # Errors
/// Those of writing to `out`.
pub fn write_header(out: &mut dyn Write) -> io::Result<()> {
    let mut writer = writer(out);
    writer.write_record(COLUMNS)?;
    writer.flush()
}

/// Writes the rows of one interval, which began and ended that long after the session's start.
///
/// # Errors
/// Those of writing to `out`.
pub fn write_interval(
    out: &mut dyn Write,
    report: &Report,
    start: Duration,
    end: Duration,
) -> io::Result<()> {
    write_rows(out, report, Some((start, end)))
}

const COLUMNS: [&str; 18] = [
    "start_ns",
    "end_ns",
    "tgid",
    "tid",
    "comm",
    "kind",
    "threads",
    "state",
    "event",
    "unit",
    "count",
    "enabled_ns",
    "running_ns",
    "samples",
    "sampled",
    "residual",
    "carry",
    "lost",
];

/// One row; the fields are in the order of [`COLUMNS`].
#[derive(Clone, Default, Serialize)]
struct Row<'a> {
    start_ns: Option<u128>,
    end_ns: Option<u128>,
    tgid: u32,
    tid: Option<u32>,
    comm: &'a str,
    kind: &'static str,
    threads: Option<u64>,
    state: Option<char>,
    event: &'a str,
    unit: String,
    count: u64,
    enabled_ns: Option<u64>,
    running_ns: Option<u64>,
    samples: Option<u64>,
    sampled: Option<u64>,
    residual: Option<i64>,
    carry: Option<i64>,
    lost: Option<u64>,
}

fn write_rows(
    out: &mut dyn Write,
    report: &Report,
    interval: Option<(Duration, Duration)>,
) -> io::Result<()> {
    let mut writer = writer(out);
    for process in &report.processes {
        let process_comm = escape(&process.comm);
        let blank = Row {
            start_ns: interval.map(|(start, _)| start.as_nanos()),
            end_ns: interval.map(|(_, end)| end.as_nanos()),
            tgid: process.tgid,
            comm: &process_comm,
            ..Row::default()
        };
        for thread in &process.threads {
            write_thread(&mut writer, &blank, &report.events, thread)?;
        }
        for group in &process.exited_groups {
            write_group(&mut writer, &blank, &report.events, group)?;
        }
        write_process(&mut writer, &blank, &report.events, process)?;
    }
    writer.flush()
}

fn write_thread(
    writer: &mut Writer<&mut dyn Write>,
    blank: &Row<'_>,
    events: &[Event],
    thread: &Thread,
) -> csv::Result<()> {
    let comm = escape(&thread.comm);
    let row = Row {
        tid: Some(thread.tid),
        comm: &comm,
        kind: "thread",
        threads: Some(1),
        state: Some(thread.state),
        samples: Some(thread.samples),
        ..blank.clone()
    };
    write_thread_counts(writer, &row, events, &thread.counts)
}

fn write_group(
    writer: &mut Writer<&mut dyn Write>,
    blank: &Row<'_>,
    events: &[Event],
    group: &ExitedGroup,
) -> csv::Result<()> {
    let comm = escape(&group.comm);
    let row = Row {
        comm: &comm,
        kind: "group",
        threads: Some(group.threads),
        samples: Some(group.samples),
        ..blank.clone()
    };
    write_thread_counts(writer, &row, events, &group.counts)
}

fn write_thread_counts(
    writer: &mut Writer<&mut dyn Write>,
    row: &Row<'_>,
    events: &[Event],
    counts: &[ThreadCount],
) -> csv::Result<()> {
    for (event, count) in events.iter().zip(counts) {
        writer.serialize(Row {
            count: count.count,
            enabled_ns: Some(count.enabled_ns),
            running_ns: Some(count.running_ns),
            sampled: Some(count.sampled),
            residual: Some(count.residual),
            lost: Some(count.lost),
            ..row.of_event(event)
        })?;
    }
    Ok(())
}

/// A process's totals, after what they are the totals of.
fn write_process(
    writer: &mut Writer<&mut dyn Write>,
    blank: &Row<'_>,
    events: &[Event],
    process: &Process,
) -> csv::Result<()> {
    for (event, count) in events.iter().zip(&process.counts) {
        let row = blank.of_event(event);
        if count.unattributed != 0 {
            let kind = "unattributed";
            writer.serialize(Row { kind, count: count.unattributed, ..row.clone() })?;
        }
        writer.serialize(Row {
            kind: "process",
            threads: Some(thread_count(process)),
            count: count.count,
            enabled_ns: Some(count.enabled_ns),
            running_ns: Some(count.running_ns),
            samples: Some(sample_count(process)),
            sampled: Some(count.sampled),
            residual: Some(count.residual),
            carry: Some(count.carry),
            lost: Some(count.lost),
            ..row
        })?;
    }
    Ok(())
}

fn writer(out: &mut dyn Write) -> Writer<&mut dyn Write> {
    WriterBuilder::new().has_headers(false).from_writer(out)
}

impl<'a> Row<'a> {
    fn of_event(&self, event: &'a Event) -> Self {
        Self { event: &event.name, unit: event.unit.to_string(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixtures::*;
    use std::collections::HashMap;

    fn read(text: &[u8]) -> Vec<HashMap<String, String>> {
        csv::Reader::from_reader(text).deserialize().collect::<Result<_, _>>().unwrap()
    }

    fn written(report: &Report) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, report).unwrap();
        out
    }

    #[test]
    fn a_process_with_short_threads() {
        assert_golden("churn.csv", &String::from_utf8(written(&churn())).unwrap());
    }

    #[test]
    fn columns_are_the_fields_of_a_row() {
        let mut writer = Writer::from_writer(Vec::new());
        writer.serialize(Row::default()).unwrap();
        let out = writer.into_inner().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().next(), Some(COLUMNS.join(",").as_str()));
    }

    #[test]
    fn the_rows_of_a_process_add_up() {
        for report in [churn(), exhausted(), everything()] {
            let rows = read(&written(&report));
            for process in &report.processes {
                let of = |row: &&HashMap<String, String>| {
                    row["tgid"] == process.tgid.to_string() && row["event"] == "cpu-clock"
                };
                let count = |row: &HashMap<String, String>| row["count"].parse::<u64>().unwrap();
                let (total, parts): (Vec<_>, Vec<_>) =
                    rows.iter().filter(of).partition(|row| row["kind"] == "process");
                assert_eq!(total.len(), 1);
                assert_eq!(count(total[0]), process.counts[0].count);
                assert_eq!(parts.into_iter().map(count).sum::<u64>(), process.counts[0].count);
            }
        }
    }

    #[test]
    fn hostile_names_stay_in_their_field() {
        let out = written(&hostile());
        let lines = out.iter().filter(|&&byte| byte == b'\n').count();
        let rows = read(&out);
        assert_eq!(rows.len() + 1, lines, "a row is a line");
        assert_eq!(rows[1]["comm"], "a,\"b\"\\x0a1,2");
    }

    #[test]
    fn an_interval_is_in_each_row() {
        let mut out = Vec::new();
        let (start, end) = (Duration::from_millis(200), Duration::from_millis(400));
        write_header(&mut out).unwrap();
        write_interval(&mut out, &churn(), start, end).unwrap();
        let rows = read(&out);
        assert_eq!(rows.len(), read(&written(&churn())).len());
        assert!(rows.iter().all(|row| row["start_ns"] == "200000000"));
        assert!(rows.iter().all(|row| row["end_ns"] == "400000000"));
    }
}
