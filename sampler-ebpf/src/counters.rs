//! Reading this CPU's counters, and crediting what they advanced.

use crate::globals::{events, has_clock, source_of};
use crate::maps::{self, count};
use crate::task::Task;
use aya_ebpf::bindings::{BPF_F_CURRENT_CPU, bpf_perf_event_value};
use aya_ebpf::helpers::generated::{bpf_ktime_get_ns, bpf_perf_event_read_value};
use core::mem::size_of;
use sampler_common::abi::{Cpu, Process, Reading, Thread, cause, source};
use sampler_common::account::bump;
use sampler_common::cell::Cell;

/// Calls a macro's block with the map of an event's counters. Each event has a map of its own: aya
/// limits a perf event array to as many entries as there are CPUs.
macro_rules! with_counters {
    ($event:expr, $map:ident => $block:expr) => {
        match $event {
            0 => {
                let $map = &raw const maps::COUNTERS_0;
                $block
            }
            1 => {
                let $map = &raw const maps::COUNTERS_1;
                $block
            }
            2 => {
                let $map = &raw const maps::COUNTERS_2;
                $block
            }
            3 => {
                let $map = &raw const maps::COUNTERS_3;
                $block
            }
            4 => {
                let $map = &raw const maps::COUNTERS_4;
                $block
            }
            5 => {
                let $map = &raw const maps::COUNTERS_5;
                $block
            }
            6 => {
                let $map = &raw const maps::COUNTERS_6;
                $block
            }
            _ => {
                let $map = &raw const maps::COUNTERS_7;
                $block
            }
        }
    };
}

/// Reads an event's counter on this CPU. `None` for what has none, and when the kernel refuses, which
/// is counted.
#[inline(always)]
fn read(event: usize) -> Option<Reading> {
    if source_of(event) != source::COUNTER {
        return None;
    }
    let mut value = bpf_perf_event_value { counter: 0, enabled: 0, running: 0 };
    // SAFETY: the helper writes `value`, whose size it is told.
    let failed = unsafe {
        with_counters!(event, map => bpf_perf_event_read_value(
            map.cast_mut().cast(),
            BPF_F_CURRENT_CPU,
            &raw mut value,
            size_of::<bpf_perf_event_value>() as u32,
        ))
    };
    if failed != 0 {
        count(cause::READ_ERRORS);
        return None;
    }
    Some(Reading { count: value.counter, enabled_ns: value.enabled, running_ns: value.running })
}

/// The time since the running thread's clocks were last credited, nanoseconds.
#[inline(always)]
fn clock_advance(cpu: &Cpu) -> u64 {
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let seen_ns = now.wrapping_sub(cpu.clock_ns.get());
    cpu.clock_ns.set(now);
    seen_ns
}

/// Starts an interval on this CPU for every event.
#[inline(always)]
pub fn start(cpu: &Cpu) {
    if has_clock() {
        clock_advance(cpu);
    }
    for (event, last) in cpu.last.iter().enumerate().take(events()) {
        if let Some(now) = read(event) {
            last.start(now);
        }
    }
}

/// Credits a thread, which runs on, with what came on this CPU since the last reading.
#[inline(always)]
pub fn credit_thread(cpu: &Cpu, thread: &Thread) {
    if has_clock() {
        credit_clocks(thread, thread.advance_clock(clock_advance(cpu)));
    }
    credit_counters(cpu, thread);
}

/// The same for a thread that leaves the CPU.
#[inline(always)]
pub fn credit_leaving(cpu: &Cpu, thread: &Thread, task: Task) {
    if has_clock() {
        credit_clocks(thread, thread.settle_clock(task.exec_ns(), clock_advance(cpu)));
    }
    credit_counters(cpu, thread);
}

/// The same for one event of a thread that runs on.
#[inline(always)]
pub fn credit_event(cpu: &Cpu, thread: &Thread, event: usize) {
    if source_of(event) == source::CLOCK {
        credit_clocks(thread, thread.advance_clock(clock_advance(cpu)));
    } else if let (Some(last), Some(counts)) = (cpu.last.get(event), thread.events.get(event))
        && let Some(now) = read(event)
    {
        counts.credit(last.advance(now));
    }
}

#[inline(always)]
fn credit_counters(cpu: &Cpu, thread: &Thread) {
    for (event, (last, counts)) in cpu.last.iter().zip(&thread.events).enumerate().take(events()) {
        if let Some(now) = read(event) {
            counts.credit(last.advance(now));
        }
    }
}

#[inline(always)]
fn credit_clocks(thread: &Thread, ns: u64) {
    for (event, counts) in thread.events.iter().enumerate().take(events()) {
        if source_of(event) == source::CLOCK {
            bump(&counts.count, ns);
        }
    }
}

/// Credits a process with it, for a thread without a descriptor.
#[inline(always)]
pub fn credit_process(cpu: &Cpu, process: &Process) {
    if has_clock() {
        credit_process_clocks(process, clock_advance(cpu));
    }
    for (event, (last, totals)) in cpu.last.iter().zip(&process.events).enumerate().take(events()) {
        if let Some(now) = read(event) {
            totals.credit(last.advance(now));
        }
    }
}

/// The same for one event.
#[inline(always)]
pub fn credit_process_event(cpu: &Cpu, process: &Process, event: usize) {
    if source_of(event) == source::CLOCK {
        credit_process_clocks(process, clock_advance(cpu));
    } else if let (Some(last), Some(totals)) = (cpu.last.get(event), process.events.get(event))
        && let Some(now) = read(event)
    {
        totals.credit(last.advance(now));
    }
}

/// Credits a process's clocks: they go by together.
#[inline(always)]
fn credit_process_clocks(process: &Process, ns: u64) {
    for (event, totals) in process.events.iter().enumerate().take(events()) {
        if source_of(event) == source::CLOCK {
            totals.credit(Reading { count: ns, ..Reading::default() });
        }
    }
}

/// Counts one of what the programs count themselves: `source::SWITCHES` or `source::MIGRATIONS`.
#[inline(always)]
pub fn count_one(thread: &Thread, what: u32) {
    for (event, counts) in thread.events.iter().enumerate().take(events()) {
        if source_of(event) == what {
            bump(&counts.count, 1);
        }
    }
}

/// The same for a thread without a descriptor.
#[inline(always)]
pub fn count_one_unattributed(process: &Process, what: u32) {
    for (event, totals) in process.events.iter().enumerate().take(events()) {
        if source_of(event) == what {
            totals.credit(Reading { count: 1, ..Reading::default() });
        }
    }
}
