//! Run by user space once on each CPU (`BPF_PROG_TEST_RUN`): a thread that neither switches nor
//! overflows has an old count, and at the start nobody knows yet who runs. The kernel calls it in
//! an interrupt on that CPU (`bpf_prog_test_run_raw_tp`, net/bpf/test_run.c, since v5.10).

use crate::descriptor::{Seen, credit_running, enter, enter_fresh};
use crate::maps::{enabled, this_cpu};
use crate::process::measured;
use crate::task::Task;
use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use sampler_common::abi::Cpu;
use sampler_common::cell::Cell;

/// Returns 1 when the CPU is in the middle of something and should be asked again.
#[raw_tracepoint]
fn on_snapshot(ctx: RawTracePointContext) -> i32 {
    let Some(cpu) = this_cpu() else { return 0 };
    if cpu.is_busy() {
        return 1;
    }
    cpu.begin();
    // SAFETY: no arguments; the current task can't go away under its own feet.
    let current = Task(unsafe { bpf_get_current_task_btf() }.cast_const().cast());
    if cpu.task.get() == 0 {
        // Once it is known who runs here, only a switch changes it: one that was not seen shows.
        cpu.task.set(current.address());
    }
    let running = cpu.running.get();
    let ran = running != Cpu::<()>::NOBODY;
    if ran {
        credit_running(cpu);
    }
    if !enabled() {
        cpu.run(Cpu::<()>::NOBODY, 0);
    } else if !ran || running == Cpu::<()>::UNATTRIBUTED {
        match measured(current) {
            Some(process) if ran => enter(&ctx, cpu, current, process, Seen::Running),
            Some(process) => enter_fresh(&ctx, cpu, current, process, Seen::Running),
            None => {}
        }
    }
    cpu.end();
    0
}
