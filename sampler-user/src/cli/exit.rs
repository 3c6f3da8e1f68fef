//! Exit codes: 0 success, 1 failure, 2 wrong usage, 126 and 127 for a command that can't be run, as
//! in a shell; else that of the command.

use super::common::UsageError;
use crate::capture::error::CaptureError;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// What ended a session at the second signal.
pub(super) const ABORTED: u8 = 130;

/// The exit code for an error, and the line to show for it, if any.
pub fn exit_code(error: &anyhow::Error) -> (ExitCode, Option<String>) {
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        return of_clap(usage);
    }
    if error.chain().any(is_broken_pipe) {
        return (ExitCode::SUCCESS, None);
    }
    let code = match error.downcast_ref::<CaptureError>() {
        Some(CaptureError::Command { source, .. }) if source.kind() == ErrorKind::NotFound => 127,
        Some(CaptureError::Command { .. }) => 126,
        _ if error.is::<UsageError>() => 2,
        _ => 1,
    };
    (ExitCode::from(code), Some(format!("{error:#}")))
}

/// The reader of the output has gone; that of a recording would be another error.
fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Help and version are what was asked for; anything else is one line of what clap says.
fn of_clap(error: &clap::Error) -> (ExitCode, Option<String>) {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return (ExitCode::SUCCESS, Some(text.trim_end().to_owned()));
    }
    let first = text.split("\n\n").next().unwrap_or_default();
    let line = first.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    (ExitCode::from(2), Some(format!("{line}; see `sampler --help`")))
}

/// The exit code that a shell would give for how the command ended.
pub(super) fn of_command(status: Option<ExitStatus>) -> ExitCode {
    let code = status.map_or(0, |status| {
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    });
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
