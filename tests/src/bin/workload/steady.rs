//! Threads that stay: computing, sleeping, yielding, or both in turn.

use std::{thread, time::Duration};

use anyhow::Result;

use crate::{
    control::Session,
    gate::{Gate, Phase},
    team::Team,
    work::{burn, burn_own},
};

/// Threads that compute all the time, `steady-0` and so on.
#[derive(clap::Args)]
pub struct Steady {
    /// How many.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// How long.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// Many threads that sleep all the time, `idle-0` and so on.
#[derive(clap::Args)]
pub struct IdleThreads {
    /// How many.
    #[arg(long, default_value_t = 10_000)]
    count: u32,
    /// How long.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// Many threads that compute and yield, `many-0` and so on.
#[derive(clap::Args)]
pub struct BusyMany {
    /// How many.
    #[arg(long, default_value_t = 1_000)]
    count: u32,
    /// How long.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// A thread that sleeps and computes in turn, `mixed`.
#[derive(clap::Args)]
pub struct SleepMix {
    /// How long.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Runs it.
pub fn steady(session: Session, args: &Steady) -> Result<()> {
    let mut team = Team::default();
    for number in 0..args.threads {
        team.add(&format!("steady-{number}"), |gate| burn(|| !gate.working()))?;
    }
    team.run(session, args.seconds, |_| ())
}

/// Runs it.
pub fn idle_threads(session: Session, args: &IdleThreads) -> Result<()> {
    let mut team = Team::default();
    for number in 0..args.count {
        team.add(&format!("idle-{number}"), |gate| gate.wait_for(Phase::Park))?;
    }
    team.run(session, args.seconds, |_| ())
}

/// Runs it.
pub fn busy_many(session: Session, args: &BusyMany) -> Result<()> {
    let mut team = Team::default();
    for number in 0..args.count {
        team.add(&format!("many-{number}"), |gate| yielding(gate))?;
    }
    team.run(session, args.seconds, |_| ())
}

/// Runs it.
pub fn sleep_mix(session: Session, args: &SleepMix) -> Result<()> {
    let mut team = Team::default();
    team.add("mixed", |gate| {
        while gate.working() && burn_own(1_000_000).is_ok() {
            thread::sleep(Duration::from_millis(3));
        }
    })?;
    team.run(session, args.seconds, |_| ())
}

fn yielding(gate: &Gate) {
    while gate.working() && burn_own(20_000).is_ok() {
        thread::yield_now();
    }
}
