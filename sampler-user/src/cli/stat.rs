//! `sampler stat`.

use super::common::{EventArguments, OutputArguments, TargetArguments};
use super::console::Console;
use super::exit;
use crate::capture::collector::Progress;
use crate::capture::events::SamplingRequest;
use crate::capture::session::{Observer, Outcome, Session};
use crate::model::report::Report;
use crate::output::{csv, json, table};
use anyhow::Context;
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Shortest interval: a snapshot interrupts each CPU once.
const MIN_INTERVAL_MS: u64 = 10;

/// Longest interval: a day.
const MAX_INTERVAL_MS: u64 = 86_400_000;

/// As typed.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    targets: TargetArguments,

    #[command(flatten)]
    events: EventArguments,

    /// Print what was counted every so many milliseconds, 10 to 86400000
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(MIN_INTERVAL_MS..=MAX_INTERVAL_MS))]
    interval_print: Option<u64>,

    /// File to print to, instead of standard output, or standard error with a COMMAND; it is replaced
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print the result as comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    say: OutputArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Table,
    Json,
    Csv,
}

/// Counts; the exit code is the command's.
pub(super) fn run(typed: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { targets, events, interval_print, output, csv, say } = typed;
    let console = Console::new(say.quiet, say.verbose);
    targets.check("stat")?;
    let measured = events.resolve(SamplingRequest::None, 0)?;
    let format = match (csv, say.json) {
        (true, _) => Format::Csv,
        (false, true) => Format::Json,
        (false, false) => Format::Table,
    };
    let to_stderr = targets.has_command();
    let max_rows = if targets.lists_all() { usize::MAX } else { MAX_ROWS };
    let mut plan = targets.plan(measured, false, say.verbose);
    plan.interval = interval_print.map(Duration::from_millis);
    let intervals = plan.interval.is_some();
    let session = Session::arm(plan)?;
    let notes = events.notes(session.events(), false);
    let file = output.as_deref().map(open).transpose()?;
    let out: Box<dyn Write> = match &file {
        Some(file) => Box::new(file.try_clone().context("can't share the output file")?),
        None if to_stderr => Box::new(io::stderr()),
        None => Box::new(io::stdout()),
    };
    let mut printer =
        Printer { console, notes, format, max_rows, header_printed: false, file, out };
    let outcome = super::runtime()?.block_on(session.run(None, &mut printer))?;
    match outcome {
        Outcome::Aborted => Ok(ExitCode::from(exit::ABORTED)),
        Outcome::Finished(report, status) => {
            if !intervals {
                printer.print(&report, None).context("can't write the result")?;
            } else if format == Format::Table {
                printer.print_losses(&report)?;
            }
            Ok(exit::of_command(status))
        }
    }
}

/// Rows of a table.
const MAX_ROWS: usize = 50;

/// The file to print to. No link is followed, and what is in it stays until counting starts: a
/// session that can't start replaces nothing.
fn open(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .with_context(|| format!("can't write to {}", path.display()))
}

/// Prints reports as they come.
struct Printer {
    console: Console,
    notes: Vec<String>,
    format: Format,
    max_rows: usize,
    header_printed: bool,
    /// What `out` writes to, if it is a file.
    file: Option<File>,
    out: Box<dyn Write>,
}

impl Printer {
    fn print(&mut self, report: &Report, interval: Option<(Duration, Duration)>) -> io::Result<()> {
        let out = &mut *self.out;
        match (self.format, interval) {
            (Format::Json, Some((start, end))) => json::write_interval(out, report, start, end)?,
            (Format::Json, None) => json::write(out, report)?,
            (Format::Csv, Some((start, end))) => {
                if !self.header_printed {
                    csv::write_header(out)?;
                    self.header_printed = true;
                }
                csv::write_interval(out, report, start, end)?;
            }
            (Format::Csv, None) => csv::write(out, report)?,
            (Format::Table, interval) => {
                if let Some((_, end)) = interval {
                    writeln!(out, "at {:.3} s:", end.as_secs_f64())?;
                }
                let options =
                    table::Options { max_rows: self.max_rows, derived: true, samples: false };
                table::write_threads(out, report, options)?;
                self.print_losses(report)?;
            }
        }
        self.out.flush()
    }

    fn print_losses(&mut self, report: &Report) -> io::Result<()> {
        for line in table::losses(report) {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }
}

impl Observer for Printer {
    fn started(&mut self) {
        if let Some(file) = &self.file {
            // Only a plain file has anything to empty; for a device or a pipe this fails.
            let _ = file.set_len(0);
        }
        for note in &self.notes {
            self.console.say(note);
        }
        self.console.say("counting");
    }

    fn progress(&mut self, _: Progress, _: Duration) {}

    fn interval(&mut self, report: Report, start: Duration, end: Duration) -> io::Result<()> {
        self.print(&report, Some((start, end)))
    }
}
