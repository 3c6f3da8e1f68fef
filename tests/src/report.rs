//! The shape of `sampler --json`, read strictly: a key that is promised and missing is an error, one
//! that isn't promised is let pass.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// One object of `--json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// The version of this shape.
    pub schema: u32,
    /// The version of sampler.
    pub version: String,
    /// `cpu` or `task`.
    pub scope: String,
    /// Time covered, nanoseconds.
    pub duration_ns: u64,
    /// The events, in the order given.
    pub events: Vec<Event>,
    /// The processes measured.
    pub processes: Vec<Process>,
    /// What could not be measured, one counter a cause.
    pub losses: BTreeMap<String, u64>,
    /// The free cache.
    pub descriptors: Descriptors,
}

/// One event.
#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    /// Its name as given.
    pub name: String,
    /// `ns` or `events`.
    pub unit: String,
    /// Samples a second asked for.
    #[serde(default)]
    pub sample_frequency_hz: Option<u64>,
    /// Events between samples asked for.
    #[serde(default)]
    pub sample_period: Option<u64>,
}

/// One process.
#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    /// Its id.
    pub tgid: u32,
    /// Its name.
    pub comm: String,
    /// All of its threads have ended.
    pub exited: bool,
    /// Totals by event.
    pub counts: BTreeMap<String, ProcessCount>,
    /// Its live threads; with `--all-threads` each exited one too.
    pub threads: Vec<Thread>,
    /// Its exited threads, folded by name.
    pub exited_groups: Vec<ExitedGroup>,
}

/// The count of one event in one process. Signed, so that nothing that is wrong fails to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ProcessCount {
    /// All of it.
    pub count: i64,
    /// What live threads counted.
    pub live: i64,
    /// What exited threads counted.
    pub exited: i64,
    /// What threads without a descriptor counted.
    pub unattributed: i64,
    /// Weights of the samples delivered.
    pub sampled: i64,
    /// What live threads counted since their last sample.
    pub residual: i64,
    /// What no sample has taken of exited threads and of the unattributed.
    pub carry: i64,
    /// Weights of the samples lost.
    pub lost: i64,
    /// Time the event was wanted, nanoseconds.
    pub enabled_ns: i64,
    /// Time it was counted, nanoseconds.
    pub running_ns: i64,
}

/// One thread.
#[derive(Clone, Debug, Deserialize)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// When it started: monotonic clock, nanoseconds.
    pub start_ns: u64,
    /// It has ended.
    pub exited: bool,
    /// Samples delivered.
    pub samples: i64,
    /// By event.
    pub counts: BTreeMap<String, ThreadCount>,
}

/// The count of one event in one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ThreadCount {
    /// All of it.
    pub count: i64,
    /// Weights of its samples.
    pub sampled: i64,
    /// Counted since its last sample.
    pub residual: i64,
}

/// Exited threads of one name.
#[derive(Clone, Debug, Deserialize)]
pub struct ExitedGroup {
    /// Their name.
    pub comm: String,
    /// How many.
    pub threads: u64,
    /// Samples delivered.
    pub samples: i64,
    /// By event.
    pub counts: BTreeMap<String, GroupCount>,
}

/// The count of one event in a group of exited threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GroupCount {
    /// All of it.
    pub count: i64,
    /// Weights of their samples.
    pub sampled: i64,
}

/// The free cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Descriptors {
    /// Descriptors there are.
    pub capacity: u64,
    /// Most in use at once.
    pub peak: u64,
    /// In use when the session ended.
    pub in_use_at_end: u64,
}

impl Report {
    /// The objects of this shape in a program's output, whatever else it holds.
    ///
    /// # Errors
    /// When an object that says it has a schema doesn't have this one's shape.
    pub fn find_all(text: &str) -> Result<Vec<Self>> {
        let mut reports = Vec::new();
        for (at, line) in line_starts(text) {
            if !line.starts_with('{') {
                continue;
            }
            let mut values =
                serde_json::Deserializer::from_str(&text[at..]).into_iter::<serde_json::Value>();
            if let Some(Ok(value)) = values.next()
                && value.get("schema").is_some()
            {
                reports.push(serde_json::from_value(value).context("reading sampler's JSON")?);
            }
        }
        Ok(reports)
    }

    /// A process by its id.
    ///
    /// # Errors
    /// When it isn't there, or is there twice.
    pub fn process(&self, tgid: u32) -> Result<&Process> {
        let mut found = self.processes.iter().filter(|p| p.tgid == tgid);
        let process = found.next().with_context(|| format!("no process {tgid} in the report"))?;
        anyhow::ensure!(found.next().is_none(), "process {tgid} is there twice");
        Ok(process)
    }

    /// A loss by its name; 0 when it isn't named.
    #[must_use]
    pub fn loss(&self, name: &str) -> u64 {
        self.losses.get(name).copied().unwrap_or(0)
    }

    /// All samples delivered.
    #[must_use]
    pub fn samples(&self) -> i64 {
        self.processes.iter().map(Process::samples).sum()
    }
}

impl Process {
    /// The totals of an event.
    ///
    /// # Errors
    /// When the event isn't there.
    pub fn total(&self, event: &str) -> Result<ProcessCount> {
        self.counts.get(event).copied().with_context(|| format!("no event {event} in the report"))
    }

    /// Samples delivered.
    #[must_use]
    pub fn samples(&self) -> i64 {
        self.threads.iter().map(|t| t.samples).sum::<i64>()
            + self.exited_groups.iter().map(|g| g.samples).sum::<i64>()
    }

    /// How many threads ended.
    #[must_use]
    pub fn exited_threads(&self) -> u64 {
        let listed = self.threads.iter().filter(|t| t.exited).count() as u64;
        listed + self.exited_groups.iter().map(|g| g.threads).sum::<u64>()
    }

    /// How many threads of that name ended.
    #[must_use]
    pub fn exited_threads_named(&self, comm: &str) -> u64 {
        let listed = self.threads.iter().filter(|t| t.exited && t.comm == comm).count() as u64;
        let folded = self.exited_groups.iter().filter(|g| g.comm == comm);
        listed + folded.map(|g| g.threads).sum::<u64>()
    }

    /// What all threads of that name counted and were sampled, live and exited.
    #[must_use]
    pub fn named(&self, comm: &str, event: &str) -> GroupCount {
        let live = self.threads.iter().filter(|t| t.comm == comm);
        let live = live.filter_map(|t| t.counts.get(event));
        let live = live.map(|c| GroupCount { count: c.count, sampled: c.sampled });
        let folded = self.exited_groups.iter().filter(|g| g.comm == comm);
        let folded = folded.filter_map(|g| g.counts.get(event)).copied();
        live.chain(folded).fold(GroupCount::default(), |a, b| GroupCount {
            count: a.count + b.count,
            sampled: a.sampled + b.sampled,
        })
    }
}

fn line_starts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"schema":1,"version":"0","scope":"cpu","duration_ns":1,"events":[],
"processes":[],"losses":{"samples":2},
"descriptors":{"capacity":1,"peak":1,"in_use_at_end":0}}"#;

    #[test]
    fn reports_are_found_among_other_output() {
        let text = format!("hello\n{{\"not\":1}}\n{REPORT}\n{REPORT}\nbye\n");
        let reports = Report::find_all(&text).unwrap();
        assert_eq!(reports.len(), 2);
        assert_eq!(reports[1].loss("samples"), 2);
    }

    #[test]
    fn a_missing_key_is_an_error() {
        assert!(Report::find_all(&REPORT.replace("\"peak\":1,", "")).is_err());
    }
}
