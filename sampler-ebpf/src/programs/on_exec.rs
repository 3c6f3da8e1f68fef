//! `sched_process_exec`: counting of a command starts here, and a thread that is not the main one
//! takes over the main one's tid.

use crate::descriptor::{Seen, credit_running, enter, enter_fresh, find, retire};
use crate::maps::{enabled, process, this_cpu};
use crate::process::{is_selected, measured, select};
use crate::task::Task;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use aya_log_ebpf::debug;
use sampler_common::abi::{Cpu, flag};
use sampler_common::cell::Cell;

/// Arguments: `(task_struct *p, pid_t old_pid, linux_binprm *bprm)`; `p` is the current thread.
///
/// Unlike a switch this can be interrupted by a snapshot, which finds the CPU busy and comes back.
#[btf_tracepoint(function = "sched_process_exec")]
fn on_exec(ctx: BtfTracePointContext) -> i32 {
    let (task, old_tid) = (Task(ctx.arg(0)), ctx.arg::<u32>(1));
    let Some(of_task) = process(task.tgid()) else { return 0 };
    let flags = of_task.flags.get();
    let renamed = old_tid != task.tid();
    if !enabled() || flags & flag::WAIT_FOR_EXEC == 0 && !renamed {
        return 0;
    }
    let Some(cpu) = this_cpu() else { return 0 };
    debug!(&ctx, "process {} calls exec from thread {}", task.tgid(), old_tid);
    of_task.flags.set(flags & !flag::WAIT_FOR_EXEC);
    cpu.begin();
    let ran = cpu.running.get() != Cpu::<()>::NOBODY;
    if ran {
        credit_running(cpu);
    }
    if renamed {
        if is_selected(old_tid) {
            select(task.tid());
        }
        // Under its old tid the thread has ended.
        if let Some((index, thread)) = find(task)
            && thread.ids.get() != task.ids()
        {
            cpu.run(Cpu::<()>::NOBODY, 0);
            retire(&ctx, index, thread, task);
        }
    }
    match measured(task) {
        Some(process) if ran => enter(&ctx, cpu, task, process, Seen::Running),
        Some(process) => enter_fresh(&ctx, cpu, task, process, Seen::Running),
        None => cpu.run(Cpu::<()>::NOBODY, 0),
    }
    cpu.end();
    0
}
