//! Threads starting and ending all the time, some of which stay.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use anyhow::Result;
use sampler_tests::protocol::{LONG, SPAWNER};

use crate::{
    control::Session,
    gate::{Gate, Phase},
    team::Team,
    work::burn_own,
};

/// Most threads that stay.
const MOST_LONG: u32 = 400;

/// Threads that live for 1 to 50 ms, some two thousand a second; one in thirty stays, as `long-0` and
/// so on.
#[derive(clap::Args)]
pub struct Storm {
    /// How long.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// What the random lives follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs it.
pub fn storm(session: Session, args: &Storm) -> Result<()> {
    let started = Arc::new(AtomicU64::new(0));
    let (counter, seed) = (Arc::clone(&started), args.seed);
    let mut team = Team::default();
    team.add(SPAWNER, move |gate| rage(gate, &counter, seed))?;
    team.run(session, args.seconds, |truth| truth.short_threads = started.load(Relaxed))
}

fn rage(gate: &Arc<Gate>, started: &AtomicU64, seed: u64) {
    let mut random = Random(seed.max(1));
    let mut long = 0;
    while gate.working() {
        if long < MOST_LONG && random.below(30) == 0 {
            let gate = Arc::clone(gate);
            // Some work now and then, some never run again after their start.
            let wakes = long % 2 == 0;
            start(format!("{LONG}{long}"), move || stay(&gate, wakes));
            long += 1;
        } else {
            let life = Duration::from_micros(1_000 + random.below(49_000));
            start("brief".to_owned(), move || thread::sleep(life));
            started.fetch_add(1, Relaxed);
        }
        thread::sleep(Duration::from_micros(300));
    }
}

fn start(name: String, body: impl FnOnce() + Send + 'static) {
    // A thread too many is none that the storm needs.
    drop(thread::Builder::new().name(name).stack_size(64 * 1024).spawn(body));
}

fn stay(gate: &Gate, wakes: bool) {
    while wakes && gate.working() && burn_own(10_000).is_ok() {
        thread::sleep(Duration::from_millis(20));
    }
    gate.wait_for(Phase::Leave);
}

/// A xorshift generator: repeatable, and good enough to scatter lives.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
