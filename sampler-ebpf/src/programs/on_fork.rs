//! `sched_process_fork`: a new thread of a measured process gets its descriptor, and a new process
//! is followed.

use crate::descriptor::{Seen, create};
use crate::globals::inherit;
use crate::maps::{count, enabled, insert_process, process};
use crate::process::{is_selected, select};
use crate::task::Task;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use aya_log_ebpf::debug;
use sampler_common::abi::{Process, cause, flag};
use sampler_common::cell::Cell;

/// Arguments: `(task_struct *parent, task_struct *child)`; the parent is the one that forks.
#[btf_tracepoint(function = "sched_process_fork")]
fn on_fork(ctx: BtfTracePointContext) -> i32 {
    let (parent, child) = (Task(ctx.arg(0)), Task(ctx.arg(1)));
    if !enabled() {
        return 0;
    }
    let Some(of_parent) = process(parent.tgid()) else { return 0 };
    let Some(of_child) = follow(parent, child, of_parent) else { return 0 };
    if child.tgid() != parent.tgid() {
        debug!(&ctx, "process {} starts {}", parent.tgid(), child.tgid());
    }
    // When none is free, it may get one at a later switch.
    if create(child, of_child, Seen::OffCpu).is_none() {
        of_child.undescribed.add(1);
    }
    0
}

/// The process of the child, if the child is measured.
#[inline(always)]
fn follow(parent: Task, child: Task, of_parent: &'static Process) -> Option<&'static Process> {
    let flags = of_parent.flags.get();
    let selected = flags & flag::SELECTED_THREADS != 0;
    let parent_counts =
        flags & flag::WAIT_FOR_EXEC == 0 && (!selected || is_selected(parent.tid()));
    let same_process = child.tgid() == parent.tgid();
    if !parent_counts || !inherit() && (selected || !same_process) {
        return None;
    }
    if same_process {
        if selected {
            select(child.tid());
        }
        return Some(of_parent);
    }
    if insert_process(child.tgid(), 0) {
        return process(child.tgid());
    }
    // Either there is no room, or an earlier process of this id is still there, because it could not
    // be ended by the programs: then it is taken to go on.
    let earlier = process(child.tgid());
    match earlier {
        Some(earlier) => earlier.flags.set(0),
        None => count(cause::PROCESSES_EXHAUSTED),
    }
    earlier
}
