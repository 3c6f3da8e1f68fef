//! Every interrupt at every step of fixed stories.

use super::machine::{Config, Interrupt};
use super::story::{Deed, Story};
use std::collections::BTreeMap;

const HIT: Interrupt = Interrupt::Here { event: 0, ticks: 7, delivered: true };
const LOST: Interrupt = Interrupt::Here { event: 1, ticks: 5, delivered: false };
const CLOCK: Interrupt = Interrupt::Here { event: 2, ticks: 3, delivered: true };
const ELSEWHERE: Interrupt = Interrupt::There { cpu: 1, event: 0, ticks: 11, delivered: true };
const SWITCH: Interrupt = Interrupt::Switch { cpu: 1, pick: 1, dies: true };

fn tick(cpu: usize, ticks: u64) -> Deed {
    Deed::Tick { cpu, event: 0, ticks }
}

fn switch(cpu: usize, pick: usize) -> Deed {
    Deed::Switch { cpu, pick, dies: true }
}

/// Both CPUs are busy; threads start, move, run without a descriptor, call `exec` and end.
fn eventful(capacity: usize) -> Story {
    let deeds = vec![
        switch(0, 0),
        switch(1, 0),
        tick(0, 100),
        tick(1, 50),
        Deed::Fork { cpu: 0, new_process: false },
        Deed::Fork { cpu: 1, new_process: true },
        tick(0, 10),
        Deed::Overflow { cpu: 0, event: 0, delivered: true },
        switch(0, 1),
        tick(0, 30),
        switch(1, 0),
        tick(1, 20),
        Deed::Exit { cpu: 1 },
        Deed::Snapshot,
        switch(1, 1),
        switch(0, 0),
        Deed::Exit { cpu: 0 },
        tick(0, 1),
        switch(0, 1),
        Deed::BeginExec { cpu: 0 },
        tick(0, 9),
        Deed::Exec { cpu: 0 },
        Deed::Unseen { cpu: 0, pick: 0 },
        switch(0, 2),
    ];
    let config = Config { cpus: 2, capacity, before_wrap: 20 };
    Story { config, deeds, interrupts: BTreeMap::new() }
}

/// A tid is in use again while the thread that had it is still on its way out, and on a CPU.
fn released() -> Story {
    let deeds = vec![
        switch(0, 0),
        Deed::Fork { cpu: 0, new_process: false },
        switch(0, 2),
        tick(0, 40),
        Deed::Exit { cpu: 0 },
        Deed::Release { cpu: 0 },
        Deed::Switch { cpu: 0, pick: 0, dies: false },
        Deed::Fork { cpu: 0, new_process: false },
        switch(0, 2),
        tick(0, 3),
        // From the one to the other, and back.
        Deed::Switch { cpu: 0, pick: 3, dies: false },
        tick(0, 20),
        Deed::Overflow { cpu: 0, event: 0, delivered: true },
        switch(1, 3),
        tick(1, 2),
        switch(0, 0),
        switch(1, 0),
    ];
    let config = Config { cpus: 2, capacity: 6, before_wrap: 20 };
    Story { config, deeds, interrupts: BTreeMap::new() }
}

/// `exec` has given a thread the main one's ids, fails, and the thread is preempted on its way out.
fn failed_exec() -> Story {
    let deeds = vec![
        switch(0, 0),
        Deed::Fork { cpu: 0, new_process: false },
        Deed::Exit { cpu: 0 },
        switch(0, 2),
        tick(0, 40),
        Deed::BeginExec { cpu: 0 },
        Deed::Exit { cpu: 0 },
        Deed::Switch { cpu: 0, pick: 2, dies: false },
        switch(0, 2),
        tick(0, 3),
        switch(0, 2),
    ];
    let config = Config { cpus: 2, capacity: 6, before_wrap: 20 };
    Story { config, deeds, interrupts: BTreeMap::new() }
}

fn with(story: &Story, interrupts: &[(u64, Interrupt)]) -> Story {
    Story { interrupts: interrupts.iter().copied().collect(), ..story.clone() }
}

#[test]
fn an_interrupt_at_any_step() {
    for capacity in [1, 6] {
        let story = eventful(capacity);
        let steps = story.play().steps();
        assert!(steps >= 900, "the story is too short to tell anything: {steps} steps");
        for interrupt in [HIT, LOST, CLOCK, ELSEWHERE, SWITCH] {
            let mut in_switch = 0;
            for step in 0..steps {
                in_switch += with(&story, &[(step, interrupt)]).play_quickly().hits_in_switch.get();
            }
            // An interrupt that never comes at a bad moment proves nothing.
            assert!(in_switch > 0 || !matches!(interrupt, Interrupt::Here { .. }));
        }
    }
}

#[test]
fn an_interrupt_while_a_tid_is_in_use_twice() {
    let story = released();
    let machine = story.play();
    let tids: Vec<u32> = machine.tasks.borrow().iter().map(|task| task.tid).collect();
    assert_eq!(tids[tids.len() - 2..], [4, 4], "the tid has come back");
    for interrupt in [HIT, SWITCH] {
        for step in 0..machine.steps() {
            with(&story, &[(step, interrupt)]).play_quickly();
        }
    }
}

#[test]
fn an_exec_that_fails() {
    failed_exec().play();
}

#[test]
fn two_overflows_at_any_two_steps() {
    let story = Story {
        config: Config { cpus: 1, capacity: 6, before_wrap: 20 },
        deeds: vec![switch(0, 0), tick(0, 100), switch(0, 0), tick(0, 10), switch(0, 2)],
        interrupts: BTreeMap::new(),
    };
    let steps = story.play_once().steps();
    for first in 0..steps {
        for second in first + 1..steps {
            with(&story, &[(first, HIT), (second, LOST)]).play_once();
        }
    }
}
