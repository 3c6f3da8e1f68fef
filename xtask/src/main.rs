//! `cargo xtask`: everything a developer of sampler runs, and all that CI calls.
//!
//! One file a subcommand. Nothing here is part of what users install, and nothing here knows how
//! sampler works: it only builds, checks, tests and shows it.

mod check;
mod demo;
mod ebpf;
mod process;
mod record;
mod setup;
mod strip;
mod tally;
mod test;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::say;
use crate::workspace::Workspace;

/// Builds, checks, tests and shows sampler.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building the BPF programs and running the tests needs
    Setup,
    /// Build the BPF object from source and put it where `cargo build` embeds it from
    BuildEbpf(ebpf::Args),
    /// Check formatting, lints, documentation, and that the checked-in BPF object is current
    Check,
    /// Set up, rebuild the BPF object, check, and run every test on the fresh object
    Test(test::Args),
    /// Record the built-in churn workload for a few seconds and print the result
    Demo(demo::Args),
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Setup => setup::run(&workspace),
        Task::BuildEbpf(args) => ebpf::run(&workspace, &args),
        Task::Check => check::run(&workspace),
        Task::Test(args) => test::run(&workspace, &args),
        Task::Demo(args) => demo::run(&workspace, &args),
    }
}
