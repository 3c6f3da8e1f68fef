//! A known number of moves between CPUs.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use anyhow::{Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use sampler_tests::protocol::Truth;

use crate::{control::Session, team::Team};

/// A thread, `mover`, that moves itself from one CPU to another and back.
#[derive(clap::Args)]
pub struct Migrate {
    /// How many moves.
    #[arg(long, default_value_t = 1_000)]
    count: u64,
}

/// Runs it.
pub fn migrate(mut session: Session, args: &Migrate) -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    ensure!(cpus.len() > 1, "there is no other CPU to move to");
    let (moves, count) = (Arc::new(AtomicU64::new(0)), args.count);
    let movers = Arc::clone(&moves);
    let mut team = Team::default();
    team.add("mover", move |_| {
        for cpu in cpus[..2].iter().cycle() {
            if movers.load(Relaxed) == count {
                break;
            }
            let before = sched_getcpu();
            let mut only = CpuSet::new();
            only.set(*cpu);
            // A failure shows as a workload that doesn't end.
            let _ = sched_setaffinity(None, &only);
            movers.fetch_add(u64::from(sched_getcpu() != before), Relaxed);
        }
    })?;
    let more = |truth: &mut Truth| truth.migrations = moves.load(Relaxed);
    session.begin(team.tids(), |session| team.truth(session, more))?;
    team.start()?;
    team.wait_done()?;
    team.finish(session, more)
}
