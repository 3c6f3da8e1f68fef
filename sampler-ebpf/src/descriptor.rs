//! A descriptor's life: served from the free cache, credited, retired.

use crate::counters::{
    self, count_one, count_one_unattributed, credit_leaving, credit_process, credit_thread,
};
use crate::globals::{capacity, events};
use crate::maps::{FREE, SELECTED, THREADS, control, count, process, slot};
use crate::message;
use crate::process::end_if_over;
use crate::task::Task;
use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use sampler_common::abi::{Cpu, Process, Thread, cause, flag, source, unpack_ids};
use sampler_common::cell::Cell;

/// When a thread is seen for the first time.
#[derive(Clone, Copy)]
pub enum Seen {
    /// Before it gets a CPU: the scheduler's account of it is up to date.
    OffCpu,
    /// In the middle of a run: its account is of some time before.
    Running,
    /// At the end of a run that was not seen: its account includes that run.
    Leaving,
}

/// The running thread is credited up to now.
#[inline(always)]
pub fn credit_running(cpu: &Cpu) {
    let running = cpu.running.get();
    if running == Cpu::<()>::UNATTRIBUTED {
        let (tgid, _) = unpack_ids(cpu.ids.get());
        if let Some(process) = process(tgid) {
            credit_process(cpu, process);
        }
    } else if let Some(thread) = slot(running.wrapping_sub(1) as u32) {
        credit_thread(cpu, thread);
    }
}

/// The running thread leaves the CPU: one switch is counted, and it is retired if it is dead.
#[inline(always)]
pub fn leave<C: EbpfContext>(ctx: &C, cpu: &Cpu, prev: Task) {
    let running = cpu.running.get();
    let (tgid, _) = unpack_ids(cpu.ids.get());
    let dead = prev.is_dead();
    if running == Cpu::<()>::UNATTRIBUTED {
        if let Some(process) = process(tgid) {
            credit_process(cpu, process);
            count_one_unattributed(process, source::SWITCHES);
        }
    } else if let Some(thread) = slot(running.wrapping_sub(1) as u32) {
        credit_leaving(cpu, thread, prev);
        count_one(thread, source::SWITCHES);
        if dead {
            cpu.run(Cpu::<()>::NOBODY, 0);
            retire(ctx, running.wrapping_sub(1) as u32, thread, prev);
        }
    }
}

/// The thread that leaves is not the one that was seen to come. The kernel skips a program that is
/// already active on the CPU, and may keep switches of its own from being traced. Whoever was
/// thought to run is credited and forgotten; a measured thread that really did run is made the
/// running one. What it counted unseen is lost, except for its clocks, which the scheduler keeps.
#[inline(always)]
pub fn resynchronize<C: EbpfContext>(ctx: &C, cpu: &Cpu, prev: Task, process: Option<&Process>) {
    if cpu.running.get() != Cpu::<()>::NOBODY {
        credit_running(cpu);
        cpu.run(Cpu::<()>::NOBODY, 0);
    }
    if let Some(process) = process {
        enter_fresh(ctx, cpu, prev, process, Seen::Leaving);
    }
}

/// A measured thread gets the CPU. It is credited from the last reading on, which the caller has
/// made sure is of now.
#[inline(always)]
pub fn enter<C: EbpfContext>(ctx: &C, cpu: &Cpu, next: Task, process: &Process, seen: Seen) {
    let ids = next.ids();
    match find_or_create(ctx, next, process, seen) {
        Some((index, thread)) => {
            // SAFETY: no arguments.
            if thread.arrive(unsafe { bpf_get_smp_processor_id() }) {
                count_one(thread, source::MIGRATIONS);
            }
            cpu.run(u64::from(index) + 1, ids);
        }
        None => {
            count(cause::DESCRIPTORS_EXHAUSTED);
            process.undescribed.add(1);
            cpu.run(Cpu::<()>::UNATTRIBUTED, ids);
        }
    }
}

/// Starts an interval and gives it to a thread that nobody ran before.
#[inline(always)]
pub fn enter_fresh<C: EbpfContext>(ctx: &C, cpu: &Cpu, next: Task, process: &Process, seen: Seen) {
    counters::start(cpu);
    enter(ctx, cpu, next, process, seen);
}

#[inline(always)]
fn find_or_create<C: EbpfContext>(
    ctx: &C,
    task: Task,
    process: &Process,
    seen: Seen,
) -> Option<(u32, &'static Thread)> {
    if let Some((index, thread)) = find(task) {
        if thread.start_ns.get() == task.start_ns() && thread.ids.get() == task.ids() {
            return Some((index, thread));
        }
        // Exec has given the thread another tid, or its end was not seen. The process is held, since
        // one that is ending would be forgotten with its last descriptor.
        process.descriptors.add(1);
        retire(ctx, index, thread, task);
        let created = create(task, process, seen);
        process.descriptors.add(u64::MAX);
        return created;
    }
    create(task, process, seen)
}

/// The descriptor of a thread.
#[inline(always)]
pub fn find(task: Task) -> Option<(u32, &'static Thread)> {
    // SAFETY: the value is an index, which is checked against the array's size.
    let index = *unsafe { THREADS.get(task.address()) }?;
    Some((index, slot(index)?))
}

/// A descriptor for a thread that has none. `None` when none is free.
#[inline(always)]
pub fn create(task: Task, process: &Process, seen: Seen) -> Option<(u32, &'static Thread)> {
    let index = take_free()?;
    let thread = slot(index)?;
    task.copy_comm(&thread.comm);
    let exec_ns = match seen {
        Seen::OffCpu | Seen::Leaving => task.exec_ns(),
        Seen::Running => Thread::<()>::UNKNOWN,
    };
    thread.assign(task.ids(), task.start_ns(), exec_ns, events());
    if THREADS.insert(task.address(), index, 0).is_err() {
        count(cause::MAP_ERRORS);
        thread.state.set(Thread::<()>::FREE);
        put_free(index);
        return None;
    }
    process.descriptors.add(1);
    Some((index, thread))
}

#[inline(always)]
fn take_free() -> Option<u32> {
    if let Ok(Some(index)) = FREE.pop() {
        return Some(index);
    }
    let next = &control()?.next_slot;
    // Compared first, so that it stays near the capacity however often none is free.
    if next.get() >= capacity() {
        return None;
    }
    let index = next.add(1);
    (index < capacity()).then_some(index as u32)
}

#[inline(always)]
fn put_free(index: u32) {
    if FREE.push(index, 0).is_err() {
        count(cause::MAP_ERRORS);
    }
}

/// A thread is over: its final counts are sent, given to its process, and the descriptor is free.
#[inline(always)]
pub fn retire<C: EbpfContext>(ctx: &C, index: u32, thread: &Thread, task: Task) {
    let (tgid, tid) = unpack_ids(thread.ids.get());
    let Some(process) = process(tgid) else {
        // Can't be: a process is not forgotten while a thread of it has a descriptor.
        count(cause::MAP_ERRORS);
        return;
    };
    if !message::send_thread_end(ctx, thread) {
        count(cause::THREAD_ENDS_LOST);
    }
    thread.retire(process, events());
    process.exited_threads.add(1);
    if process.flags.get() & flag::SELECTED_THREADS != 0 {
        // Fails for a tid that exec has renamed: no matter.
        let _ = SELECTED.remove(tid);
    }
    if THREADS.remove(task.address()).is_err() {
        count(cause::MAP_ERRORS);
    }
    put_free(index);
    if process.descriptors.add(u64::MAX) == 1 {
        end_if_over(ctx, tgid, process);
    }
}
