//! Runs test programs, showing what they print as it comes, and counts their results.
//!
//! Knows libtest's summary lines and nothing of the tests themselves.

use std::io::{self, BufReader};
use std::ops::AddAssign;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::process::{say, show};

/// Results of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests that failed, and test programs that ended without a result.
    pub failed: u64,
    /// Tests that did not run, or found that they can't run here.
    pub skipped: u64,
}

impl Tally {
    /// Runs `command`, which is `cargo test` of some kind, and counts what it reports.
    pub fn of(command: &mut Command) -> Result<Self> {
        let shown = show(command);
        say(&format!("+ {shown}"));
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not run `{shown}`"))?;
        let stdout = child.stdout.take().context("the output of the tests is piped")?;
        let mut tally = tee(BufReader::new(stdout), io::stdout().lock())
            .with_context(|| format!("could not pass on the output of `{shown}`"))?;
        let status = child.wait().with_context(|| format!("could not wait for `{shown}`"))?;
        if !status.success() && tally.failed == 0 {
            say(&format!("error: `{shown}` ended without a result ({status})"));
            tally.failed = 1;
        }
        Ok(tally)
    }

    /// Counts `skipped` of the tests as such: libtest, which has no result for a test that can't run
    /// here, saw them pass.
    pub fn with_skipped(self, skipped: u64) -> Self {
        Self {
            passed: self.passed.saturating_sub(skipped),
            skipped: self.skipped + skipped,
            ..self
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Copies `from` to `to` piece by piece, for a test's name is to be seen before its result is
/// there, and sums up the results in it.
fn tee(mut from: impl io::BufRead, mut to: impl io::Write) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut line = Vec::new();
    loop {
        let piece = from.fill_buf()?;
        if piece.is_empty() {
            return Ok(tally);
        }
        to.write_all(piece)?;
        to.flush()?;
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                tally += parse(&String::from_utf8_lossy(&line)).unwrap_or_default();
                line.clear();
            }
        }
        let read = piece.len();
        from.consume(read);
    }
}

/// The numbers in `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn parse(line: &str) -> Option<Tally> {
    let (_, results) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let number = |name: &str| {
        results.split("; ").find_map(|result| result.strip_suffix(name)?.trim().parse().ok())
    };
    Some(Tally {
        passed: number("passed")?,
        failed: number("failed")?,
        skipped: number("ignored")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nrunning 3 tests\ntest a ... ok\ntest b ... FAILED\ntest c ... ignored\n\
        \ntest result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 4 filtered out; finished \
        in 0.01s\n\n   Doc-tests x\n\ntest result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; \
        0 filtered out; finished in 1.20s\n";

    #[test]
    fn results_are_summed_and_the_output_passed_on() {
        // A reader with a small buffer cuts lines anywhere.
        for capacity in [1, 7, 4096] {
            let mut copy = Vec::new();
            let from = BufReader::with_capacity(capacity, OUTPUT.as_bytes());
            let tally = tee(from, &mut copy).unwrap();
            assert_eq!(tally, Tally { passed: 6, failed: 1, skipped: 3 });
            assert_eq!(copy, OUTPUT.as_bytes());
        }
    }

    #[test]
    fn other_lines_are_no_results() {
        assert_eq!(parse("test results: ok. 1 passed; 0 failed; 0 ignored"), None);
        assert_eq!(parse("test result: the name of a test ... ok"), None);
        assert_eq!(parse("test result: ok. many passed; 0 failed; 0 ignored"), None);
    }

    #[test]
    fn tests_that_could_not_run_did_not_pass() {
        let tally = Tally { passed: 3, failed: 1, skipped: 1 }.with_skipped(2);
        assert_eq!(tally, Tally { passed: 1, failed: 1, skipped: 3 });
    }
}
