//! Threads too short to be hit are represented in proportion to what they spent.

use super::machine::{Config, Machine, TaskId};
use super::oracle::Owner;
use std::collections::BTreeMap;

/// Overflow period, in ticks: nanoseconds.
const PERIOD: u64 = 1_000_000;
const SHORT_THREADS: usize = 4_000;

/// A fixed sequence of numbers that look random (xorshift64, G. Marsaglia, "Xorshift RNGs", 2003).
struct Sequence(u64);

impl Sequence {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + self.0 % (most - least + 1)
    }
}

/// Time goes by on a CPU; its counter overflows at each multiple of the period.
fn pass(machine: &Machine, elapsed: &mut [u64; 2], cpu: usize, ns: u64) {
    let mut left = ns;
    while left != 0 {
        let now = left.min(PERIOD - elapsed[cpu] % PERIOD);
        machine.tick(cpu, 0, now);
        elapsed[cpu] += now;
        left -= now;
        if elapsed[cpu].is_multiple_of(PERIOD) {
            machine.overflow(cpu, 0, true);
        }
    }
}

/// Two busy threads and one that starts short ones, of 20 to 80 µs, on two CPUs.
#[test]
fn short_threads_get_their_share() {
    let config = Config { cpus: 2, capacity: 16, before_wrap: 5 * PERIOD };
    let (machine, _hooked) = Machine::new(config, BTreeMap::new());
    let busy = machine.spawn(true);
    machine.set_enabled(true);
    machine.switch(0, busy, false);
    let other = machine.fork(0, false).expect("a thread");
    let spawner = machine.fork(0, false).expect("a thread");
    machine.switch(1, other, false);

    let mut random = Sequence(0x5eed);
    let mut elapsed = [0, PERIOD / 3];
    for _ in 0..SHORT_THREADS {
        let cpu = random.between(0, 1) as usize;
        let long = machine.current(cpu);
        for cpu in [0, 1] {
            pass(&machine, &mut elapsed, cpu, random.between(50_000, 250_000));
        }
        machine.switch(cpu, spawner, false);
        pass(&machine, &mut elapsed, cpu, random.between(5_000, 30_000));
        let short = machine.fork(cpu, false).expect("a thread");
        machine.switch(cpu, short, false);
        pass(&machine, &mut elapsed, cpu, random.between(20_000, 80_000));
        machine.exit(cpu);
        machine.switch(cpu, long, true);
    }
    machine.snapshot();
    machine.check();

    let hit = machine.samples.borrow().iter().filter(|sample| sample.task > spawner).count();
    assert!(hit < SHORT_THREADS / 10, "most short threads are never hit, but {hit} were");
    let total = count(&machine, busy..machine.tasks.borrow().len());
    for (name, group) in [
        ("busy", busy..busy + 1),
        ("other", other..other + 1),
        ("spawner", spawner..spawner + 1),
        ("short", spawner + 1..machine.tasks.borrow().len()),
    ] {
        let spent = count(&machine, group.clone());
        let samples = machine.samples.borrow();
        let weights: u64 =
            samples.iter().filter(|s| group.contains(&s.task)).map(|s| s.weight).sum();
        let off = weights.abs_diff(spent) as f64 / total as f64;
        assert!(off < 0.01, "{name}: {weights} for {spent} of {total}");
    }
}

fn count(machine: &Machine, tasks: std::ops::Range<TaskId>) -> u64 {
    tasks.map(|task| machine.oracle.spent(Owner::Thread(task))[0].count).sum()
}
