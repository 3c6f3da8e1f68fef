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
// A repeated option counts as typed last, as with perf; lists add up.
#[command(args_override_self = true, arg_required_else_help = false)]
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

    /// The exit code and line of something that ends before a session is armed.
    fn refused(arguments: &[&str]) -> (ExitCode, String) {
        let arguments = ["sampler"].iter().chain(arguments).map(OsString::from);
        let (code, line) = exit_code(&run(arguments).unwrap_err());
        (code, line.unwrap())
    }

    #[test]
    fn wrong_usage_is_told_in_a_line() {
        for (arguments, told) in [
            ("record", "nothing to measure: give -p TGID, -t TID, -a, or a COMMAND"),
            ("stat -e cs", "nothing to measure"),
            ("record --no-such-option", "there is no option \"--no-such-option\""),
            ("record -p 1 --durtion 5", "there is no option \"--durtion\""),
            ("stat -F 99 -p 1", "there is no option \"-F\"; see `sampler stat --help`"),
            ("record -p many", "invalid value 'many' for '--pid <TGID>'"),
            ("record -p 0", "0 is not in 1..=2147483647"),
            ("record -p 1 -t 1", "'--pid <TGID>' cannot be used with '--tid <TID>'"),
            ("record -p 1 -a", "'--pid <TGID>' cannot be used with '--all-cpus'"),
            ("record -t 1 -a", "'--tid <TID>' cannot be used with '--all-cpus'"),
            ("record -c 5 -F 9 -a", "'--count <COUNT>' cannot be used with '--freq <HZ>'"),
            ("record -F often -a", "\"often\" is not a number of samples a second, nor max"),
            ("record --call-graph dwarf -a", "[possible values: fp, none]"),
            ("record --max-threads 0 -a", "0 is not in 1..=4194304"),
            ("record --max-threads 4194305 -a", "4194305 is not in 1..=4194304"),
            ("record --duration 0 -a", "it must be more than 0 seconds"),
            ("record --duration nan -a", "it must be more than 0 seconds"),
            ("record --duration 1e10 -a", "at most 100 years"),
            ("record --duration soon -a", "\"soon\" is not a number of seconds"),
            ("stat -I 9 -a", "9 is not in 10..=86400000"),
            ("stat --csv --json -a", "'--csv' cannot be used with '--json'"),
            ("recrod", "unrecognized subcommand 'recrod'"),
            ("", "requires a subcommand"),
        ] {
            let (code, line) = refused(&arguments.split_whitespace().collect::<Vec<_>>());
            assert_eq!(code, ExitCode::from(2), "{arguments}: {line}");
            assert!(line.contains(told), "{arguments}: {line}");
            assert_eq!(line.lines().count(), 1, "{arguments}: {line}");
        }
    }

    #[test]
    fn an_event_that_can_not_be_measured_is_told_in_a_line() {
        for (arguments, told) in [
            ("record -a -e cylces", "did you mean cycles?"),
            ("record -a -e cs,cpu-clock", "-e cpu-clock,cs"),
            ("record -a -e cpu-clock -c 0", "a sample period of 0"),
            ("record -a -e cpu-clock -F 0", "a sample frequency of 0"),
            ("record -a -e cpu-clock -F 4000000000", "kernel.perf_event_max_sample_rate"),
            ("stat -a -e cs,r1,r2,r3,r4,r5,r6,r7,r8", "9 events are too many"),
        ] {
            let (code, line) = refused(&arguments.split_whitespace().collect::<Vec<_>>());
            assert_eq!(code, ExitCode::from(1), "{arguments}: {line}");
            assert!(line.contains(told) && line.lines().count() == 1, "{arguments}: {line}");
        }
    }

    #[test]
    fn a_command_keeps_its_options_and_the_last_of_ours_counts() {
        let typed = "sampler record -F 9 -F 99 -p 1,2 -p 3 -g --call-graph none -vv sh -c x -p";
        let parsed = Arguments::try_parse_from(typed.split(' ')).unwrap();
        let shown = format!("{parsed:?}");
        for part in [
            r#"command: ["sh", "-c", "x", "-p"]"#,
            "pid: [1, 2, 3]",
            "freq: Some(Hz(99))",
            "call_graph: None",
            "verbose: true",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn the_version_is_an_answer() {
        let error = run(["sampler", "--version"].map(OsString::from)).unwrap_err();
        let line = format!("sampler {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(exit_code(&error), (ExitCode::SUCCESS, Some(line)));
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
