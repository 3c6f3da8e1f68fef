//! Which threads are measured, and the end of a process.

use crate::globals::everything;
use crate::maps::{PROCESSES, SELECTED, count, insert_process, process};
use crate::message;
use crate::task::Task;
use aya_ebpf::EbpfContext;
use sampler_common::abi::{Process, cause, flag};
use sampler_common::cell::Cell;

/// The process of a thread, if the thread is measured.
#[inline(always)]
pub fn measured(task: Task) -> Option<&'static Process> {
    let tgid = task.tgid();
    if tgid == 0 {
        // The idle thread: it spends nothing.
        return None;
    }
    let found = match process(tgid) {
        None if everything() => adopt(tgid),
        found => found,
    }?;
    let flags = found.flags.get();
    if flags & (flag::WAIT_FOR_EXEC | flag::SELECTED_THREADS) == 0 {
        return Some(found);
    }
    (flags & flag::WAIT_FOR_EXEC == 0 && is_selected(task.tid())).then_some(found)
}

#[inline(always)]
fn adopt(tgid: u32) -> Option<&'static Process> {
    if !insert_process(tgid, 0) {
        count(cause::PROCESSES_EXHAUSTED);
    }
    process(tgid)
}

/// The thread is one of those asked for, of a process with `flag::SELECTED_THREADS`.
#[inline(always)]
pub fn is_selected(tid: u32) -> bool {
    SELECTED.get_ptr(tid).is_some()
}

/// Asks for a thread.
#[inline(always)]
pub fn select(tid: u32) {
    if SELECTED.insert(tid, 1, 0).is_err() {
        count(cause::SELECTED_EXHAUSTED);
    }
}

/// The last descriptor of a process is free again. If its last thread is ending, its totals are sent,
/// and it is forgotten. When they can't be sent, or threads without a descriptor may still be there,
/// it is kept, and user space reads it at the end.
#[inline(always)]
pub fn end_if_over<C: EbpfContext>(ctx: &C, tgid: u32, process: &Process) {
    if process.flags.get() & flag::ENDING == 0 || process.undescribed.get() != 0 {
        return;
    }
    if message::send_process_end(ctx, tgid, process) {
        if PROCESSES.remove(tgid).is_err() {
            count(cause::MAP_ERRORS);
        }
    } else {
        count(cause::PROCESS_ENDS_LOST);
    }
}
