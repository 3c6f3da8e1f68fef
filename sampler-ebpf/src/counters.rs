//! Reading this CPU's counters, and crediting what they advanced.

use crate::globals::{counter_index, events, source_of};
use crate::maps::{COUNTERS, count};
use aya_ebpf::bindings::bpf_perf_event_value;
use aya_ebpf::helpers::generated::{
    bpf_get_smp_processor_id, bpf_ktime_get_ns, bpf_perf_event_read_value,
};
use core::mem::size_of;
use sampler_common::abi::{Cpu, Process, Reading, Thread, cause, source};
use sampler_common::account::bump;

/// Reads an event's counter on this CPU. `None` for what is counted at the switch itself, and when
/// the kernel refuses, which is counted.
#[inline(always)]
pub fn read(event: usize) -> Option<Reading> {
    match source_of(event) {
        // SAFETY: no arguments.
        source::CLOCK => {
            Some(Reading { count: unsafe { bpf_ktime_get_ns() }, ..Reading::default() })
        }
        source::COUNTER => read_counter(event),
        _ => None,
    }
}

#[inline(always)]
fn read_counter(event: usize) -> Option<Reading> {
    let mut value = bpf_perf_event_value { counter: 0, enabled: 0, running: 0 };
    // SAFETY: the helper writes `value`, whose size it is told.
    let failed = unsafe {
        bpf_perf_event_read_value(
            (&raw const COUNTERS).cast_mut().cast(),
            u64::from(counter_index(event, bpf_get_smp_processor_id())),
            &raw mut value,
            size_of::<bpf_perf_event_value>() as u32,
        )
    };
    if failed != 0 {
        count(cause::READ_ERRORS);
        return None;
    }
    Some(Reading { count: value.counter, enabled_ns: value.enabled, running_ns: value.running })
}

/// Starts an interval on this CPU for every event.
#[inline(always)]
pub fn start(cpu: &Cpu) {
    for (event, last) in cpu.last.iter().enumerate().take(events()) {
        if let Some(now) = read(event) {
            last.start(now);
        }
    }
}

/// Credits a thread with what came on this CPU since the last reading.
#[inline(always)]
pub fn credit_thread(cpu: &Cpu, thread: &Thread) {
    for (event, (last, counts)) in cpu.last.iter().zip(&thread.events).enumerate().take(events()) {
        if let Some(now) = read(event) {
            counts.credit(last.advance(now));
        }
    }
}

/// Credits a thread's clocks with time that was not seen on the CPU's.
#[inline(always)]
pub fn credit_clocks(thread: &Thread, ns: u64) {
    for (event, counts) in thread.events.iter().enumerate().take(events()) {
        if source_of(event) == source::CLOCK {
            bump(&counts.count, ns);
        }
    }
}

/// Credits a process with it, for a thread without a descriptor.
#[inline(always)]
pub fn credit_process(cpu: &Cpu, process: &Process) {
    for (event, (last, totals)) in cpu.last.iter().zip(&process.events).enumerate().take(events()) {
        if let Some(now) = read(event) {
            totals.credit(last.advance(now));
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
