//! `cargo xtask test`: everything that tells whether sampler works, on a BPF object built afresh.
//!
//! The black-box tests are told by the environment where the programs they drive lie, and report
//! in a file which of them can't run on this machine: libtest has no such result.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::process::{run as run_command, say};
use crate::tally::Tally;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use crate::{check, ebpf, setup};

/// The package of the black-box tests.
const BLACK_BOX: &str = "sampler-tests";

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Passed on to the test programs, for instance a part of the names of the tests to run
    #[arg(last = true)]
    args: Vec<String>,
}

/// Where the tests find what they need.
struct Surroundings {
    object: PathBuf,
    release: PathBuf,
    skip_log: PathBuf,
}

/// Runs setup, the checks and all tests, and fails if any check or test does.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    setup::run(workspace)?;
    let surroundings = Surroundings {
        object: ebpf::build(workspace, Toolchain::require()?)?,
        release: workspace.release(),
        skip_log: workspace.target.join("skipped-tests.log"),
    };
    say_if_reproduced(workspace, &surroundings.object);
    let checked = check::run(workspace);
    let tally = run_tests(workspace, args, &surroundings)?;
    report(tally)?;
    checked?;
    if tally.failed > 0 {
        bail!("{} tests failed", tally.failed);
    }
    Ok(())
}

fn run_tests(workspace: &Workspace, args: &Args, surroundings: &Surroundings) -> Result<Tally> {
    fs::write(&surroundings.skip_log, "")
        .with_context(|| format!("could not write {}", surroundings.skip_log.display()))?;
    let cargo = |subcommand: &str| {
        let mut command = workspace.cargo(subcommand);
        command
            .args(["--release", "--locked"])
            .env("SAMPLER_BPF_OBJECT", &surroundings.object)
            .env("SAMPLER_BIN", surroundings.release.join("sampler"))
            .env("SAMPLER_WORKLOADS", &surroundings.release)
            .env("SAMPLER_SKIP_LOG", &surroundings.skip_log);
        command
    };
    run_command(&mut cargo("build"))?;

    let others = ["--workspace", "--exclude", ebpf::PACKAGE, "--exclude", BLACK_BOX];
    let mut tally =
        Tally::of(cargo("test").args(others).args(["--no-fail-fast", "--"]).args(&args.args))?;
    // Two of these at a time would take each other's processor, and see each other's threads.
    let alone = ["--package", BLACK_BOX, "--no-fail-fast", "--", "--test-threads=1"];
    tally += Tally::of(cargo("test").args(alone).args(&args.args))?;
    Ok(tally.with_skipped(print_skipped(&surroundings.skip_log)?))
}

/// Prints the lines in which tests say why they can't run here, and returns their number.
fn print_skipped(log: &Path) -> Result<u64> {
    let text =
        fs::read_to_string(log).with_context(|| format!("could not read {}", log.display()))?;
    let mut skipped = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        say(line);
        skipped += 1;
    }
    Ok(skipped)
}

/// On standard output, as the last line of what the test programs print.
fn report(tally: Tally) -> Result<()> {
    let Tally { passed, failed, skipped } = tally;
    writeln!(io::stdout(), "{passed} passed, {failed} failed, {skipped} skipped")
        .context("could not print the result")
}

/// A checked-in binary is easier to trust where it can be built again. That it can't be is no
/// error: another compiler gives another object.
fn say_if_reproduced(workspace: &Workspace, fresh: &Path) {
    let checked_in = workspace.prebuilt().join(ebpf::OBJECT);
    let same = fs::read(fresh).ok().is_some_and(|fresh| fs::read(checked_in).ok() == Some(fresh));
    let verdict = if same { "the same as" } else { "different from" };
    say(&format!("the BPF object built here is {verdict} the checked-in one, byte for byte"));
}
