//! `sched_process_exit`: notes that a process's last thread is ending. The thread itself still runs
//! its exit path; it is retired at its last switch.

use crate::maps::process;
use crate::task::Task;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use aya_log_ebpf::debug;
use sampler_common::abi::flag;
use sampler_common::cell::Cell;

/// Arguments: `(task_struct *p)`, more since v6.16; `do_exit` has counted it out of `signal->live`.
#[btf_tracepoint(function = "sched_process_exit")]
fn on_exit(ctx: BtfTracePointContext) -> i32 {
    let task = Task(ctx.arg(0));
    let Some(process) = process(task.tgid()) else { return 0 };
    if task.live_threads() == 0 {
        process.flags.set(process.flags.get() | flag::ENDING);
        debug!(&ctx, "process {} ends with thread {}", task.tgid(), task.tid());
    }
    0
}
