//! A report as a table for people: what each process and its busiest threads counted.
//!
//! Rows are chosen in `rows`, ratios of events in `derived`, and set in columns in `layout`. What
//! does not fit is summed up in a row of its own, so that the rows always add up to the totals.

mod amount;
mod derived;
mod layout;
mod losses;
mod rows;
#[cfg(test)]
mod tests;

pub use losses::losses;

use super::text::{seconds, thousands};
use super::thread_count;
use crate::model::report::Report;
use std::io::{self, Write};

/// All threads, those that counted nothing too: for [`Options::max_rows`].
pub const ALL_ROWS: usize = usize::MAX;

/// What to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// At most so many rows of threads, over all processes, busiest first. Below [`ALL_ROWS`]
    /// threads that counted nothing are not listed either.
    pub max_rows: usize,
    /// With columns for what follows from several events: CPUs used, instructions per cycle, miss
    /// rates.
    pub derived: bool,
    /// With a column for the number of samples.
    pub samples: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_rows: 30, derived: false, samples: false }
    }
}

/// Writes a line on the whole, and the table: processes by what they counted of the first event,
/// each followed by its busiest threads. Exited threads of one name are one row.
///
/// # Errors
/// Those of writing to `out`.
pub fn write_threads(out: &mut dyn Write, report: &Report, options: Options) -> io::Result<()> {
    writeln!(out, "{}", summary(report))?;
    let sections = rows::sections(report, options.max_rows);
    if sections.is_empty() {
        return Ok(());
    }
    for line in layout::table(report, &sections, options).lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// `5.00 s, 1 process, 3 threads live, 3,021 exited`.
fn summary(report: &Report) -> String {
    let threads: u64 = report.processes.iter().map(thread_count).sum();
    let live = report.processes.iter().flat_map(|process| &process.threads);
    let live = live.filter(|thread| !thread.exited).count() as u64;
    format!(
        "{}, {}, {} live, {} exited",
        seconds(report.duration_ns),
        count(report.processes.len() as u64, "process"),
        count(live, "thread"),
        thousands(threads - live),
    )
}

/// `1 thread`, `3,021 threads`, `2 processes`.
fn count(number: u64, noun: &str) -> String {
    let plural = match noun {
        _ if number == 1 => "",
        _ if noun.ends_with('s') || noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", thousands(number))
}
