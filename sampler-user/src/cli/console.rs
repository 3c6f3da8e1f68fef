//! What a person is told while a session runs, on standard error.

use crate::capture::collector::Progress;
use crate::capture::session::Observer;
use crate::model::report::Report;
use crate::output::text::thousands;
use log::LevelFilter;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Standard error, as far as it is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Console {
    quiet: bool,
    terminal: bool,
}

impl Console {
    /// Says nothing when `quiet`. The log, of sampler and its BPF programs, only when `verbose`.
    pub fn new(quiet: bool, verbose: bool) -> Self {
        if verbose {
            // Fails when there is a log already, which then is the one to use.
            let _ = env_logger::Builder::new()
                .filter_level(LevelFilter::Warn)
                .filter_module("sampler", LevelFilter::Debug)
                .try_init();
        }
        Self { quiet, terminal: io::stderr().is_terminal() }
    }

    /// Says a line.
    pub fn say(self, line: &str) {
        if !self.quiet {
            // A closed standard error is no reason to stop.
            let _ = writeln!(io::stderr(), "sampler: {line}");
        }
    }

    /// Replaces the line on a terminal.
    fn replace(self, line: &str) {
        if self.terminal && !self.quiet {
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }
}

/// Tells how a recording goes.
#[derive(Debug)]
pub(super) struct Teller {
    console: Console,
    at_start: Vec<String>,
}

impl Teller {
    /// Tells these lines when it has started, and how it goes on.
    pub fn new(console: Console, at_start: Vec<String>) -> Self {
        Self { console, at_start }
    }

    /// Removes the line of progress.
    pub fn clear(&self) {
        self.console.replace("");
    }
}

impl Observer for Teller {
    fn started(&mut self) {
        for line in &self.at_start {
            self.console.say(line);
        }
    }

    fn progress(&mut self, progress: Progress, elapsed: Duration) {
        self.console.replace(&format!(
            "{:.1} s: {} threads live, {} exited; {} samples, {} lost",
            elapsed.as_secs_f64(),
            thousands(progress.live),
            thousands(progress.exited),
            thousands(progress.samples),
            thousands(progress.lost),
        ));
    }

    fn interval(&mut self, _: Report, _: Duration, _: Duration) -> io::Result<()> {
        Ok(())
    }
}
