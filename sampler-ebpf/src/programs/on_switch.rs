//! `sched_switch`: the thread that leaves is credited with what the CPU's counters advanced, and
//! the one that comes is credited from here on. Runs under the run queue's lock, interrupts off.

use crate::descriptor::{Seen, enter, enter_fresh, leave, resynchronize};
use crate::maps::{count, enabled, this_cpu};
use crate::process::measured;
use crate::task::Task;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use sampler_common::abi::{Cpu, cause};
use sampler_common::cell::Cell;

/// Arguments: `(bool preempt, task_struct *prev, task_struct *next)`, more since v5.18.
#[btf_tracepoint(function = "sched_switch")]
fn on_switch(ctx: BtfTracePointContext) -> i32 {
    let Some(cpu) = this_cpu() else { return 0 };
    let (prev, next) = (Task(ctx.arg(1)), Task(ctx.arg(2)));
    let seen = cpu.task.get();
    cpu.task.set(next.address());
    if seen != prev.address() {
        cpu.begin();
        let prev_process = if enabled() { measured(prev) } else { None };
        if seen != 0 && (prev_process.is_some() || cpu.running.get() != Cpu::<()>::NOBODY) {
            count(cause::SWITCHES_MISSED);
        }
        resynchronize(&ctx, cpu, prev, prev_process);
        cpu.end();
    }
    // When counting has been stopped, whoever still runs is credited once more, and nobody follows.
    let next_process = if enabled() { measured(next) } else { None };
    let ran = cpu.running.get() != Cpu::<()>::NOBODY;
    if !ran && next_process.is_none() {
        return 0;
    }
    cpu.begin();
    if ran {
        leave(&ctx, cpu, prev);
    }
    match next_process {
        Some(process) if ran => enter(&ctx, cpu, next, process, Seen::OffCpu),
        Some(process) => enter_fresh(&ctx, cpu, next, process, Seen::OffCpu),
        None => cpu.run(Cpu::<()>::NOBODY, 0),
    }
    cpu.end();
    0
}
