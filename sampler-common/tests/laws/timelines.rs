//! A few cases by hand. A column is 100 ticks of the counter; a letter is the thread that has the
//! CPU, all of one process, small in the last column before it ends; `.` is the idle thread.
//! Below a CPU, `^` is an overflow at the end of the column, `x` one whose sample is lost, and `!`
//! one in the middle of the switch at the column's beginning.

use super::machine::{Config, Interrupt, Machine, TaskId};
use std::collections::BTreeMap;

#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Each live thread: count and residual.
    live: Vec<(char, u64, u64)>,
    /// Each sample: thread and weight.
    samples: Vec<(char, u64)>,
    exited: u64,
    unattributed: u64,
    carry: u64,
    lost: u64,
}

struct Timeline {
    machine: std::rc::Rc<Machine>,
    _hooked: super::cell::Hooked,
    threads: BTreeMap<char, TaskId>,
}

impl Timeline {
    /// Rows alternate: a CPU, and its overflows.
    fn play(capacity: usize, rows: &[&str]) -> Outcome {
        let cpus: Vec<&[&str]> = rows.chunks(2).collect();
        let config = Config { cpus: cpus.len(), capacity, before_wrap: 150 };
        let (machine, hooked) = Machine::new(config, BTreeMap::new());
        let mut timeline = Self { machine, _hooked: hooked, threads: BTreeMap::new() };
        for name in rows.iter().step_by(2).flat_map(|row| row.chars()).filter(|name| *name != '.') {
            timeline.thread(name.to_ascii_uppercase());
        }
        timeline.machine.set_enabled(true);
        for column in 0..rows[0].len() {
            for (cpu, rows) in cpus.iter().enumerate() {
                timeline.column(cpu, column, rows);
            }
        }
        timeline.machine.snapshot();
        timeline.machine.check();
        timeline.outcome()
    }

    fn column(&mut self, cpu: usize, column: usize, rows: &[&str]) {
        let at = |row: usize| rows[row].chars().nth(column).unwrap_or(' ');
        let next = match at(0) {
            '.' => cpu,
            name => self.thread(name.to_ascii_uppercase()),
        };
        let machine = &self.machine;
        let hits_before = machine.hits_in_switch.get();
        if at(1) == '!' {
            machine.plan(20, Interrupt::Here { event: 0, ticks: 0, delivered: true });
        }
        if next != machine.current(cpu) {
            machine.switch(cpu, next, true);
        }
        assert_eq!(machine.hits_in_switch.get() - hits_before, u64::from(at(1) == '!'));
        machine.tick(cpu, 0, 100);
        if matches!(at(1), '^' | 'x') {
            machine.overflow(cpu, 0, at(1) == '^');
        }
        if at(0).is_ascii_lowercase() {
            machine.exit(cpu);
        }
    }

    fn thread(&mut self, name: char) -> TaskId {
        let machine = &self.machine;
        let first = self.threads.values().next().copied();
        *self.threads.entry(name).or_insert_with(|| match first {
            None => machine.spawn(true),
            Some(first) => machine.spawn_beside(first),
        })
    }

    fn outcome(&self) -> Outcome {
        let machine = &self.machine;
        let name = |task| {
            let of_task = self.threads.iter().find(|(_, thread)| **thread == task);
            of_task.map_or('?', |(name, _)| *name)
        };
        let mut outcome = Outcome::default();
        for slot in machine.live_descriptors() {
            let task = machine.task_of(slot.ids.peek(), slot.start_ns.peek());
            let (count, sampled) = (slot.events[0].count.peek(), slot.events[0].sampled.peek());
            outcome.live.push((name(task), count, count - sampled));
        }
        outcome.live.sort_unstable();
        let samples = machine.samples.borrow();
        outcome.samples = samples.iter().map(|s| (name(s.task), s.weight)).collect();
        for process in machine.maps.processes.borrow().values() {
            let totals = &process.events[0];
            outcome.exited += totals.exited.peek();
            outcome.unattributed += totals.unattributed.peek();
            outcome.carry += totals.carry.peek();
            outcome.lost += totals.lost.peek();
        }
        outcome
    }
}

#[test]
fn two_threads_alternate() {
    let outcome = Timeline::play(8, &["AAABBA..AB", "  ^       "]);
    // B was never hit: all it spent is its residual. Nobody gets what the idle thread spent.
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('A', 500, 200), ('B', 300, 300)],
            samples: vec![('A', 300)],
            ..Outcome::default()
        }
    );
}

#[test]
fn a_thread_that_moves_takes_its_counts_along() {
    let outcome = Timeline::play(8, &["AAA..BBB", " ^      ", "BBBAAA..", "     ^  "]);
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('A', 600, 0), ('B', 600, 600)],
            samples: vec![('A', 200), ('A', 400)],
            ..Outcome::default()
        }
    );
}

#[test]
fn an_overflow_in_a_switch_is_sampled_with_the_next() {
    let outcome = Timeline::play(8, &["AAABBBB", "   !  ^"]);
    // It could be A's or B's, so it is nobody's; but nothing of either is lost.
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('A', 300, 300), ('B', 400, 0)],
            samples: vec![('B', 400)],
            ..Outcome::default()
        }
    );
}

#[test]
fn a_sample_that_is_lost_is_not_forgotten() {
    let outcome = Timeline::play(8, &["AAAAAA", " x  ^ "]);
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('A', 600, 100)],
            samples: vec![('A', 200), ('A', 300)],
            lost: 200,
            ..Outcome::default()
        }
    );
}

#[test]
fn the_first_sample_of_a_thread_takes_the_carry_along() {
    let outcome = Timeline::play(8, &["AABbCcAADDDD", " ^     ^ ^ ^"]);
    // B and C are never hit. A has been, so that what they left waits for D, which has not.
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('A', 400, 0), ('D', 400, 0)],
            samples: vec![('A', 200), ('A', 200), ('D', 200 + 400), ('D', 200)],
            exited: 400,
            ..Outcome::default()
        }
    );
}

#[test]
fn what_a_thread_leaves_unsampled_is_carried() {
    let outcome = Timeline::play(8, &["AABBb.", "  ^   "]);
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('A', 200, 200)],
            samples: vec![('B', 100)],
            exited: 300,
            carry: 200,
            ..Outcome::default()
        }
    );
}

#[test]
fn a_thread_without_a_descriptor_counts_for_its_process() {
    let outcome = Timeline::play(1, &["AABBBAA", "   ^  ^"]);
    // The hit of B stands for what B has spent so far; the rest is carried, and A's first sample takes
    // it along.
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('A', 400, 0)],
            samples: vec![('B', 200), ('A', 400 + 100)],
            unattributed: 300,
            ..Outcome::default()
        }
    );
}

#[test]
fn a_descriptor_serves_the_next_thread() {
    let outcome = Timeline::play(1, &["AAaBBBb.CC", " ^  x     "]);
    // Nothing of A is left in what B counts, nor of both in what C does.
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('C', 200, 200)],
            samples: vec![('A', 200), ('B', 200 + 100)],
            exited: 700,
            carry: 200,
            lost: 300,
            ..Outcome::default()
        }
    );
}

#[test]
fn a_thread_runs_without_a_descriptor_until_one_is_free() {
    let outcome = Timeline::play(1, &["AABBaBB..", "         "]);
    assert_eq!(
        outcome,
        Outcome {
            live: vec![('B', 200, 200)],
            exited: 300,
            unattributed: 200,
            carry: 500,
            ..Outcome::default()
        }
    );
}
