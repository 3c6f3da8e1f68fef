//! Programs that do a known amount of work and tell the truth about it by the kernel's own clocks.
//!
//! `sampler_tests::protocol` is how they are told what to do and how they answer. None of them knows
//! that it is being measured.

use std::{io::Write as _, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

mod chain;
mod churn;
mod control;
mod exec_chain;
mod fork_tree;
mod gate;
mod main_exits;
mod memory;
mod migrate;
mod steady;
mod storm;
mod team;
mod work;

use control::Session;

/// A program that does known work, and tells what it was.
#[derive(Parser)]
struct Args {
    /// Start at once, without being told to on standard input.
    #[arg(long, global = true)]
    now: bool,
    #[command(subcommand)]
    kind: Kind,
}

/// The kinds of work.
#[derive(Subcommand)]
enum Kind {
    /// Busy threads, and one that starts and joins short threads.
    Churn(churn::Churn),
    /// Nothing but starting and joining threads, at the highest rate.
    SpawnOnly(churn::SpawnOnly),
    /// Threads that compute all the time.
    Steady(steady::Steady),
    /// Many threads that sleep all the time.
    IdleThreads(steady::IdleThreads),
    /// Many threads that compute and yield.
    BusyMany(steady::BusyMany),
    /// A thread that sleeps and computes in turn.
    SleepMix(steady::SleepMix),
    /// A thread that touches fresh pages.
    Faults(memory::Faults),
    /// A thread that moves itself between CPUs.
    Migrate(migrate::Migrate),
    /// A process that forks a tree of working ones.
    ForkTree(fork_tree::ForkTree),
    /// A process that works, executes another program, and goes on working.
    ExecChain(exec_chain::ExecChain),
    /// A process whose main thread ends long before the others.
    MainExitsFirst(main_exits::MainExitsFirst),
    /// Threads starting and ending all the time, some of which stay.
    Storm(storm::Storm),
    /// A thread that computes at the end of a known call chain.
    FpChain(chain::FpChain),
    /// A little work, a line on standard output, and an exit status.
    CommandExit(CommandExit),
}

/// A little work, a line on standard output, and an exit status.
#[derive(clap::Args)]
struct CommandExit {
    /// The exit status.
    #[arg(long, default_value_t = 0)]
    status: u8,
}

fn main() -> Result<ExitCode> {
    let Args { now, kind } = Args::parse();
    let session = Session::new(now)?;
    match kind {
        Kind::Churn(args) => churn::churn(session, &args)?,
        Kind::SpawnOnly(args) => churn::spawn_only(session, &args)?,
        Kind::Steady(args) => steady::steady(session, &args)?,
        Kind::IdleThreads(args) => steady::idle_threads(session, &args)?,
        Kind::BusyMany(args) => steady::busy_many(session, &args)?,
        Kind::SleepMix(args) => steady::sleep_mix(session, &args)?,
        Kind::Faults(args) => memory::faults(session, &args)?,
        Kind::Migrate(args) => migrate::migrate(session, &args)?,
        Kind::ForkTree(args) => fork_tree::fork_tree(session, &args)?,
        Kind::ExecChain(args) => exec_chain::exec_chain(session, args)?,
        Kind::MainExitsFirst(args) => main_exits::main_exits_first(session, &args)?,
        Kind::Storm(args) => storm::storm(session, &args)?,
        Kind::FpChain(args) => chain::fp_chain(session, &args)?,
        Kind::CommandExit(CommandExit { status }) => {
            work::burn_own_process(20_000_000)?;
            writeln!(std::io::stdout(), "the command's own output")?;
            return Ok(ExitCode::from(status));
        }
    }
    Ok(ExitCode::SUCCESS)
}
