//! The `perf` of this machine as a reader of recordings, and as a second opinion on counts.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};

/// One sample as `perf script` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its process.
    pub tgid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its event.
    pub event: String,
    /// What it stands for.
    pub period: i64,
}

/// Runs `perf` with these arguments.
///
/// # Errors
/// When it can't be started.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Result<Output> {
    // A pager or a user's settings would change what is printed.
    Command::new("perf")
        .env("PERF_CONFIG", "/dev/null")
        .env("PERF_PAGER", "cat")
        .env("LC_ALL", "C")
        .args(args)
        .output()
        .context("running perf")
}

/// What `perf` prints, if it takes the recording without any complaint.
///
/// # Errors
/// When it fails or writes a single character to stderr.
pub fn run_clean<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Result<String> {
    let output = run(args)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "perf: {}: {stderr}", output.status);
    ensure!(stderr.trim().is_empty(), "perf complains: {stderr}");
    String::from_utf8(output.stdout).context("perf's output is no text")
}

/// The samples of a recording, in `perf script`'s order.
///
/// # Errors
/// When perf doesn't take the recording or prints something else than samples.
pub fn samples(recording: &Path) -> Result<Vec<Sample>> {
    parse_samples(&run_clean(script_args(recording))?)
}

/// The samples of a recording that was cut off, of which perf may complain but which it must read.
///
/// # Errors
/// When perf fails or prints something else than samples.
pub fn samples_of_a_part(recording: &Path) -> Result<Vec<Sample>> {
    let output = run(script_args(recording))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "perf: {}: {stderr}", output.status);
    parse_samples(&String::from_utf8_lossy(&output.stdout))
}

/// Exact counts by process, thread and event, from the `READ` records that `perf report -T` adds up.
///
/// # Errors
/// When perf doesn't take the recording or prints no such table.
pub fn read_counts(recording: &Path) -> Result<BTreeMap<(u32, u32, String), i64>> {
    let recording = recording.to_string_lossy();
    let text = run_clean(["report", "-i", &recording, "-T", "--stdio", "--pretty", "raw"])?;
    let is_head =
        |line: &str| line.split_whitespace().eq(["#", "PID", "TID", "Name", "Raw", "Count"]);
    let table = text.lines().skip_while(|line| !is_head(line)).skip(1);
    let fields: Vec<&str> = table.flat_map(str::split_whitespace).collect();
    ensure!(!fields.is_empty(), "perf report -T shows no counts");
    // perf 6.1 ends no row of this table with a newline: five fields are a row.
    ensure!(fields.len().is_multiple_of(5), "perf report -T: {fields:?}");
    let mut counts = BTreeMap::new();
    for row in fields.chunks(5) {
        *counts.entry((row[0].parse()?, row[1].parse()?, row[2].to_owned())).or_insert(0) +=
            row[4].parse::<i64>()?;
    }
    Ok(counts)
}

/// Whether `perf stat` counts this event here: the oracle for what the machine can do.
///
/// # Errors
/// When perf can't be started.
pub fn counts_here(event: &str) -> Result<bool> {
    let output = run(["stat", "-x,", "-e", event, "true"])?;
    let text = String::from_utf8_lossy(&output.stderr);
    let counted = |line: &str| line.split(',').next().is_some_and(|n| n.parse::<f64>().is_ok());
    Ok(output.status.success() && text.lines().any(counted))
}

fn script_args(recording: &Path) -> [String; 5] {
    let recording = recording.to_string_lossy().into_owned();
    ["script".into(), "-i".into(), recording, "-F".into(), "pid,tid,period,event".into()]
}

fn parse_samples(text: &str) -> Result<Vec<Sample>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| parse_sample(line).with_context(|| format!("perf script: {line}"))).collect()
}

/// `tgid/tid period event:`
fn parse_sample(line: &str) -> Result<Sample> {
    let mut fields = line.split_whitespace();
    let mut next = || fields.next().context("too few fields");
    let (tgid, tid) = next()?.split_once('/').context("no process and thread")?;
    let period = next()?.parse()?;
    let event = next()?;
    Ok(Sample {
        tgid: tgid.parse()?,
        tid: tid.parse()?,
        event: event.strip_suffix(':').unwrap_or(event).to_owned(),
        period,
    })
}
