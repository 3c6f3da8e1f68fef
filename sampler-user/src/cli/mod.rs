//! The command line: one file a subcommand. Arguments as typed are one type, what they resolve to
//! another.

mod common;
mod console;
mod exit;
mod record;
mod stat;

pub use exit::exit_code;

use anyhow::Context;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Counts and samples every thread of a process exactly, however short it lives.
#[derive(Debug, Parser)]
#[command(name = "sampler", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Record where threads spend what, for `perf report` and others, and print what each has spent
    Record(record::Arguments),
    /// Count what each thread spends, without sampling
    Stat(stat::Arguments),
}

/// Two threads: one for what the kernel brings, one for everything else.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("can't start the runtime")
}

/// Runs the command line; the exit code is what a session's command or a success asks for.
///
/// # Errors
/// Everything that keeps a command from being carried out; [`exit_code`] has the exit code for it.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match Arguments::try_parse_from(&arguments)?.command {
        Subcommands::Record(typed) => record::run(typed, &arguments),
        Subcommands::Stat(typed) => stat::run(typed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_is_as_documented() {
        let mut command = Arguments::command().term_width(100);
        for (name, golden) in [
            ("record", include_str!("../../tests/golden/help-record.txt")),
            ("stat", include_str!("../../tests/golden/help-stat.txt")),
        ] {
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                let path = format!("{}/tests/golden/help-{name}.txt", env!("CARGO_MANIFEST_DIR"));
                std::fs::write(path, &help).unwrap();
            } else {
                assert_eq!(help, golden, "the help of {name}; UPDATE_GOLDEN=1 rewrites the file");
            }
        }
    }
}
