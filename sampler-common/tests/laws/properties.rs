//! Random stories.

use super::machine::{Config, Interrupt};
use super::story::{Deed, Story};
use super::{CPUS, EVENTS};
use proptest::collection::vec;
use proptest::prelude::*;

fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1_u64..1000, 1 => (1_u64 << 46)..(1 << 50), 2 => Just(0)]
}

fn deed() -> impl Strategy<Value = Deed> {
    let cpu = || 0..CPUS;
    prop_oneof![
        10 => (cpu(), 0..EVENTS, ticks())
            .prop_map(|(cpu, event, ticks)| Deed::Tick { cpu, event, ticks }),
        6 => (cpu(), 0..EVENTS, any::<bool>())
            .prop_map(|(cpu, event, delivered)| Deed::Overflow { cpu, event, delivered }),
        12 => (cpu(), 0..8_usize, any::<bool>())
            .prop_map(|(cpu, pick, dies)| Deed::Switch { cpu, pick, dies }),
        1 => (cpu(), 0..8_usize).prop_map(|(cpu, pick)| Deed::Unseen { cpu, pick }),
        3 => (cpu(), prop::bool::weighted(0.3))
            .prop_map(|(cpu, new_process)| Deed::Fork { cpu, new_process }),
        3 => cpu().prop_map(|cpu| Deed::Exit { cpu }),
        1 => cpu().prop_map(|cpu| Deed::Release { cpu }),
        2 => (cpu(), 0..8_usize).prop_map(|(cpu, pick)| Deed::Succeed { cpu, pick }),
        1 => cpu().prop_map(|cpu| Deed::BeginExec { cpu }),
        1 => cpu().prop_map(|cpu| Deed::Exec { cpu }),
        2 => Just(Deed::Snapshot),
    ]
}

fn interrupt() -> impl Strategy<Value = Interrupt> {
    prop_oneof![
        6 => (0..EVENTS, ticks(), any::<bool>())
            .prop_map(|(event, ticks, delivered)| Interrupt::Here { event, ticks, delivered }),
        2 => (0..CPUS, 0..EVENTS, ticks(), any::<bool>()).prop_map(
            |(cpu, event, ticks, delivered)| Interrupt::There { cpu, event, ticks, delivered }
        ),
        2 => (0..CPUS, 0..8_usize, any::<bool>())
            .prop_map(|(cpu, pick, dies)| Interrupt::Switch { cpu, pick, dies }),
    ]
}

fn story() -> impl Strategy<Value = Story> {
    let config = (1..=CPUS, 1..=6_usize, 0..2000_u64)
        .prop_map(|(cpus, capacity, before_wrap)| Config { cpus, capacity, before_wrap });
    (config, vec(deed(), 1..60), vec((1..60_u64, interrupt()), 0..60)).prop_map(
        |(config, deeds, interrupts)| {
            let mut at = 0;
            let interrupts = interrupts.into_iter().map(|(gap, interrupt)| {
                at += gap;
                (at, interrupt)
            });
            Story { config, deeds, interrupts: interrupts.collect() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_counted_twice(story in story()) {
        story.play();
    }

    #[test]
    fn only_what_comes_between_start_and_stop_is_counted(story in story()) {
        story.play_stopped();
    }
}
