//! Runs `perf`.

use std::path::Path;
use std::process::{Command, Output};

/// What `perf ARGS -i RECORDING` prints; it must succeed, and without a word on standard error.
pub fn perf(recording: &Path, args: &[&str]) -> String {
    let output = run(recording, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {args:?} failed: {errors}");
    assert_eq!(errors, "", "perf {args:?} complains");
    String::from_utf8(output.stdout).unwrap()
}

fn run(recording: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("perf");
    command.args(args).arg("-i").arg(recording);
    // Neither the user's settings nor servers of debug information have a say here.
    command.env("PERF_CONFIG", "/dev/null").env("DEBUGINFOD_URLS", "");
    command.output().expect("perf not found: `cargo xtask setup` installs it")
}
