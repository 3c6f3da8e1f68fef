//! One measurement from outside: an idle workload, `sampler` attached and armed, the workload's whole
//! window, and what each of the two says about it.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::{
    laws::assert_laws,
    protocol::{Ready, Truth},
    report::{Process, Report},
    sampler::{Finished, Sampler},
    workload::Workload,
};

/// What came of it. The recording is deleted with this value.
pub struct Measured {
    /// Who was there.
    pub ready: Ready,
    /// The workload's truth.
    pub truth: Truth,
    /// What sampler says.
    pub report: Report,
    /// How sampler ended.
    pub finished: Finished,
    /// The recording, if one was made.
    pub recording: PathBuf,
    _folder: TempDir,
}

impl Measured {
    /// The workload's process in the report.
    ///
    /// # Errors
    /// When it isn't there.
    pub fn process(&self) -> Result<&Process> {
        self.report.process(self.ready.tgid)
    }
}

/// Measures a workload from its `go` to its end with `sampler record`, and asserts the laws.
///
/// # Errors
/// When either program fails.
///
/// # Panics
/// When a conservation law is broken.
pub fn measure(sampler: &[&str], workload: &[&str]) -> Result<Measured> {
    measure_with("record", sampler, workload)
}

/// The same with another subcommand; the recording of `record` alone is kept.
///
/// # Errors
/// When either program fails.
///
/// # Panics
/// When a conservation law is broken.
pub fn measure_with(subcommand: &str, sampler: &[&str], workload: &[&str]) -> Result<Measured> {
    let folder = TempDir::new().context("making a folder for the recording")?;
    let recording = folder.path().join("sampler.data");
    let mut workload = Workload::start(workload)?;
    let ready = workload.ready().clone();

    let mut command = Sampler::new([subcommand, "--json", "-p", &workload.tgid_arg()])?
        .args(sampler)
        .within(folder.path());
    if subcommand == "record" {
        command = command.args(["-o".as_ref(), recording.as_os_str()]);
    }
    let running = command.spawn()?;
    running.wait_until_armed()?;
    workload.go()?;
    let truth = workload.finish()?;
    let finished = running.finish()?.success()?;
    let report = finished.report()?;
    assert_laws(&report);
    Ok(Measured { ready, truth, report, finished, recording, _folder: folder })
}

/// The same, once more when the kernel has hidden a switch, as that of some sandboxes does for tasks of
/// its own: what a thread counts in a run that began unseen is not counted, except for its clocks.
///
/// # Errors
/// When either program fails.
///
/// # Panics
/// When a conservation law is broken.
pub fn measure_unhidden(subcommand: &str, sampler: &[&str], workload: &[&str]) -> Result<Measured> {
    const TRIES: u32 = 10;
    for _ in 1..TRIES {
        let measured = measure_with(subcommand, sampler, workload)?;
        if measured.report.loss("switches_missed") == 0 {
            return Ok(measured);
        }
    }
    measure_with(subcommand, sampler, workload)
}
