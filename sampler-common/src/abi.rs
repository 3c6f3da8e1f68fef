//! The layout of what crosses between the BPF programs and user space.
//!
//! Rules: `repr(C)`, fixed-width integers, explicit padding. Message kinds and causes are
//! append-only. Any other change of layout or meaning raises [`ABI_VERSION`]; user space refuses an
//! object with another one.

use crate::cell::Word;
use core::mem::{align_of, offset_of, size_of};

/// Version of everything in this module.
pub const ABI_VERSION: u32 = 1;

/// Most events in one session.
pub const MAX_EVENTS: usize = 8;

/// Most addresses in a kernel or a user call chain: `kernel.perf_event_max_stack` is 127 unless
/// raised (`PERF_MAX_STACK_DEPTH`, include/uapi/linux/perf_event.h, v5.15 to v6.18).
pub const MAX_CHAIN: usize = 127;

/// Bytes of a thread's name, the final NUL included (`TASK_COMM_LEN`, include/linux/sched.h).
pub const COMM_LEN: usize = 16;

/// Where an event's count comes from: so many bits of the global `SOURCES` each, event 0 lowest.
pub mod source {
    /// Bits an event.
    pub const BITS: u32 = 4;

    /// The source of an event, below [`MAX_EVENTS`](super::MAX_EVENTS).
    #[inline(always)]
    pub const fn of(sources: u32, event: usize) -> u32 {
        (sources >> (event as u32 * BITS)) & ((1 << BITS) - 1)
    }

    /// The time that the thread has run.
    pub const CLOCK: u32 = 0;
    /// A `perf_event` on each CPU.
    pub const COUNTER: u32 = 1;
    /// Switches away from the thread.
    pub const SWITCHES: u32 = 2;
    /// Arrivals on another CPU.
    pub const MIGRATIONS: u32 = 3;
}

/// Bits of [`Process::flags`].
pub mod flag {
    /// Counts only once the process has called `exec`.
    pub const WAIT_FOR_EXEC: u64 = 1;
    /// Only threads in `SELECTED` are measured.
    pub const SELECTED_THREADS: u64 = 2;
    /// The last thread of the process is ending.
    pub const ENDING: u64 = 4;
}

/// Bits of the global `MODE`.
pub mod mode {
    /// Every process is measured.
    pub const EVERYTHING: u32 = 1;
    /// Children of a measured process, and new threads of a selected one, are measured.
    pub const INHERIT: u32 = 2;
    /// Samples carry call chains.
    pub const CHAINS: u32 = 4;
    /// An event is a [`source::CLOCK`](super::source::CLOCK).
    pub const CLOCK: u32 = 8;
}

/// Why something could not be measured: index of `STATS`.
pub mod cause {
    /// A thread ran without a descriptor, since none was free.
    pub const DESCRIPTORS_EXHAUSTED: u32 = 0;
    /// A process could not be followed, since `PROCESSES` was full.
    pub const PROCESSES_EXHAUSTED: u32 = 1;
    /// A counter could not be read.
    pub const READ_ERRORS: u32 = 2;
    /// An overflow came in the middle of a switch.
    pub const HITS_IN_SWITCH: u32 = 3;
    /// A sample was taken but could not be sent.
    pub const SAMPLES_LOST: u32 = 4;
    /// A thread's final count could not be sent.
    pub const THREAD_ENDS_LOST: u32 = 5;
    /// A process's final totals could not be sent; they stay in `PROCESSES`.
    pub const PROCESS_ENDS_LOST: u32 = 6;
    /// A thread could not be selected, since `SELECTED` was full.
    pub const SELECTED_EXHAUSTED: u32 = 7;
    /// A map operation failed that can't fail.
    pub const MAP_ERRORS: u32 = 8;
    /// The thread that leaves a CPU is not the one that was seen to get it.
    pub const SWITCHES_MISSED: u32 = 9;
    /// How many causes there are.
    pub const COUNT: u32 = 10;
}

/// A counter at one moment: event count, and the times it was wanted and really counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Reading {
    /// Events, or nanoseconds of a clock.
    pub count: u64,
    /// Nanoseconds.
    pub enabled_ns: u64,
    /// Nanoseconds.
    pub running_ns: u64,
}

/// One event of one thread. Local: written by the CPU that the thread runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EventCounts<C = Word> {
    /// Events counted.
    pub count: C,
    /// The part of `count` that samples stand for, delivered or lost.
    pub sampled: C,
    /// Carry of threads that ended before, taken along by this thread's samples.
    pub carried: C,
    /// Weights of its samples that could not be sent.
    pub lost: C,
    /// Time the event was wanted while the thread ran, nanoseconds.
    pub enabled_ns: C,
    /// Time it was really counted, nanoseconds.
    pub running_ns: C,
}

/// A thread's record: the *descriptor*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Thread<C = Word> {
    /// [`FREE`](Thread::FREE) or [`LIVE`](Thread::LIVE). The last to be written when a descriptor is made.
    pub state: C,
    /// Low half the tid, high half the tgid.
    pub ids: C,
    /// Start of the thread: `task_struct.start_time`, `CLOCK_MONOTONIC`, nanoseconds. With the tid
    /// this identifies a thread, since tids come back.
    pub start_ns: C,
    /// The CPU it ran on last, plus 1; 0 when it has not run.
    pub last_cpu: C,
    /// The scheduler's own account of the time it has run (`task_struct.se.sum_exec_runtime`), as of
    /// when it last left a CPU, plus what was seen to go by since; nanoseconds.
    /// [`UNKNOWN`](Thread::UNKNOWN) when it was first seen while it ran, until it leaves.
    pub exec_ns: C,
    /// How far its clocks are credited, on the same scale: never back.
    pub credited_ns: C,
    /// Samples sent.
    pub samples: C,
    /// Samples that could not be sent.
    pub lost_samples: C,
    /// Its name, NUL-padded.
    pub comm: [C; COMM_LEN / 8],
    /// One an event.
    pub events: [EventCounts<C>; MAX_EVENTS],
}

/// One event of one process. Shared between CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Totals<C = Word> {
    /// Counted by threads that have ended.
    pub exited: C,
    /// Counted by threads without a descriptor.
    pub unattributed: C,
    /// What of these two no sample has taken along yet.
    pub carry: C,
    /// Weights of samples that could not be sent.
    pub lost: C,
    /// Time wanted, of ended threads and those without a descriptor, nanoseconds.
    pub enabled_ns: C,
    /// Time really counted, of the same, nanoseconds.
    pub running_ns: C,
}

/// A process's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Process<C = Word> {
    /// Bits of [`flag`].
    pub flags: C,
    /// Descriptors in use for its threads.
    pub descriptors: C,
    /// Threads that ended.
    pub exited_threads: C,
    /// Times that a thread of it had to go without a descriptor. Such a process is not ended by the
    /// programs, since they can't know when the last of those threads is gone.
    pub undescribed: C,
    /// One an event.
    pub events: [Totals<C>; MAX_EVENTS],
}

/// What user space and all programs have in common. Shared.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Control<C = Word> {
    /// Not 0 while counting. Set to start everything at once; when it is cleared, each CPU ends its
    /// last interval at its next switch or snapshot.
    pub enabled: C,
    /// Descriptors that have ever been in use. The free cache is a stack, so this is the peak too.
    pub next_slot: C,
}

/// What a CPU is doing. Local.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cpu<C = Word> {
    /// Not 0 while a switch is being accounted: an overflow then keeps its hands off.
    pub busy: C,
    /// [`NOBODY`](Cpu::NOBODY), [`UNATTRIBUTED`](Cpu::UNATTRIBUTED), or a descriptor's index plus 1.
    /// A new map holds zeroes: nobody runs.
    pub running: C,
    /// Ids of the measured thread that runs, as in [`Thread::ids`].
    pub ids: C,
    /// Address of the `task_struct` that was seen to get the CPU, measured or not; 0 before the
    /// first snapshot.
    pub task: C,
    /// `CLOCK_MONOTONIC` when the running thread's clocks were last credited, nanoseconds.
    pub clock_ns: C,
    /// The counters when they were last read for a measured thread.
    pub last: [Last<C>; MAX_EVENTS],
}

/// A [`Reading`] in cells.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Last<C = Word> {
    /// See [`Reading::count`].
    pub count: C,
    /// See [`Reading::enabled_ns`].
    pub enabled_ns: C,
    /// See [`Reading::running_ns`].
    pub running_ns: C,
}

impl<C> Thread<C> {
    /// The descriptor is in the free cache.
    pub const FREE: u64 = 0;
    /// The descriptor belongs to a thread.
    pub const LIVE: u64 = 1;
    /// See [`exec_ns`](Thread::exec_ns).
    pub const UNKNOWN: u64 = u64::MAX;
}

impl<C> Cpu<C> {
    /// No measured thread runs.
    pub const NOBODY: u64 = 0;
    /// A measured thread without a descriptor runs.
    pub const UNATTRIBUTED: u64 = u64::MAX;
}

/// Kinds of message, [`Header::kind`].
pub mod kind {
    /// A [`SampleHeader`](super::SampleHeader) and addresses: kernel chain, then user chain.
    pub const SAMPLE: u32 = 1;
    /// A [`ThreadEnd`](super::ThreadEnd).
    pub const THREAD_END: u32 = 2;
    /// A [`ProcessEnd`](super::ProcessEnd).
    pub const PROCESS_END: u32 = 3;
}

/// The start of every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// One of [`kind`].
    pub kind: u32,
    /// Length of the message in bytes, this header included. What follows it is padding.
    pub len: u32,
}

/// A sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SampleHeader {
    /// [`kind::SAMPLE`].
    pub header: Header,
    /// Low half the tid, high half the tgid.
    pub ids: u64,
    /// Events the sample stands for.
    pub weight: u64,
    /// Index of the event.
    pub event: u32,
    /// Bytes of kernel chain, a multiple of 8.
    pub kernel_bytes: u32,
    /// Bytes of user chain, a multiple of 8.
    pub user_bytes: u32,
    /// Zero.
    pub padding: u32,
}

/// A thread ended; as many `events` as the session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ThreadEnd {
    /// [`kind::THREAD_END`].
    pub header: Header,
    /// Low half the tid, high half the tgid.
    pub ids: u64,
    /// See [`Thread::start_ns`].
    pub start_ns: u64,
    /// See [`Thread::samples`].
    pub samples: u64,
    /// See [`Thread::lost_samples`].
    pub lost_samples: u64,
    /// See [`Thread::comm`].
    pub comm: [u64; COMM_LEN / 8],
    /// One an event.
    pub events: [EventCounts<u64>; MAX_EVENTS],
}

/// A process ended; as many `events` as the session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProcessEnd {
    /// [`kind::PROCESS_END`].
    pub header: Header,
    /// Its tgid.
    pub tgid: u64,
    /// See [`Process::exited_threads`].
    pub exited_threads: u64,
    /// One an event.
    pub events: [Totals<u64>; MAX_EVENTS],
}

/// Packs a thread's ids, as `bpf_get_current_pid_tgid` does.
pub const fn pack_ids(tgid: u32, tid: u32) -> u64 {
    (tgid as u64) << 32 | tid as u64
}

/// The tgid and the tid of packed ids.
pub const fn unpack_ids(ids: u64) -> (u32, u32) {
    ((ids >> 32) as u32, ids as u32)
}

const _: () = {
    assert!(size_of::<Word>() == 8 && align_of::<Word>() == 8);
    assert!(size_of::<Reading>() == 24 && size_of::<Last>() == 24);
    assert!(size_of::<EventCounts>() == 48 && align_of::<EventCounts>() == 8);
    assert!(offset_of!(EventCounts, count) == 0 && offset_of!(EventCounts, sampled) == 8);
    assert!(offset_of!(EventCounts, carried) == 16 && offset_of!(EventCounts, lost) == 24);
    assert!(offset_of!(EventCounts, enabled_ns) == 32);
    assert!(offset_of!(EventCounts, running_ns) == 40);
    assert!(size_of::<Thread>() == 80 + 48 * MAX_EVENTS && align_of::<Thread>() == 8);
    assert!(offset_of!(Thread, state) == 0 && offset_of!(Thread, ids) == 8);
    assert!(offset_of!(Thread, start_ns) == 16 && offset_of!(Thread, last_cpu) == 24);
    assert!(offset_of!(Thread, exec_ns) == 32 && offset_of!(Thread, credited_ns) == 40);
    assert!(offset_of!(Thread, samples) == 48 && offset_of!(Thread, lost_samples) == 56);
    assert!(offset_of!(Thread, comm) == 64 && offset_of!(Thread, events) == 80);
    assert!(size_of::<Totals>() == 48 && align_of::<Totals>() == 8);
    assert!(offset_of!(Totals, exited) == 0 && offset_of!(Totals, unattributed) == 8);
    assert!(offset_of!(Totals, carry) == 16 && offset_of!(Totals, lost) == 24);
    assert!(offset_of!(Totals, enabled_ns) == 32 && offset_of!(Totals, running_ns) == 40);
    assert!(size_of::<Process>() == 32 + 48 * MAX_EVENTS && align_of::<Process>() == 8);
    assert!(offset_of!(Process, flags) == 0 && offset_of!(Process, descriptors) == 8);
    assert!(offset_of!(Process, exited_threads) == 16 && offset_of!(Process, undescribed) == 24);
    assert!(offset_of!(Process, events) == 32);
    assert!(size_of::<Control>() == 16 && offset_of!(Control, next_slot) == 8);
    assert!(size_of::<Cpu>() == 40 + 24 * MAX_EVENTS && align_of::<Cpu>() == 8);
    assert!(offset_of!(Cpu, busy) == 0 && offset_of!(Cpu, running) == 8);
    assert!(offset_of!(Cpu, ids) == 16 && offset_of!(Cpu, task) == 24);
    assert!(offset_of!(Cpu, clock_ns) == 32 && offset_of!(Cpu, last) == 40);
    assert!(size_of::<Header>() == 8 && offset_of!(Header, len) == 4);
    assert!(size_of::<SampleHeader>() == 40 && offset_of!(SampleHeader, ids) == 8);
    assert!(offset_of!(SampleHeader, weight) == 16 && offset_of!(SampleHeader, event) == 24);
    assert!(offset_of!(SampleHeader, kernel_bytes) == 28);
    assert!(offset_of!(SampleHeader, user_bytes) == 32);
    // As values they are laid out as in cells.
    assert!(size_of::<EventCounts<u64>>() == 48 && size_of::<Totals<u64>>() == 48);
    assert!(size_of::<Process<u64>>() == size_of::<Process>());
    assert!(size_of::<ThreadEnd>() == 56 + 48 * MAX_EVENTS);
    assert!(offset_of!(ThreadEnd, ids) == 8 && offset_of!(ThreadEnd, start_ns) == 16);
    assert!(offset_of!(ThreadEnd, samples) == 24 && offset_of!(ThreadEnd, lost_samples) == 32);
    assert!(offset_of!(ThreadEnd, comm) == 40 && offset_of!(ThreadEnd, events) == 56);
    assert!(size_of::<ProcessEnd>() == 24 + 48 * MAX_EVENTS);
    assert!(offset_of!(ProcessEnd, tgid) == 8 && offset_of!(ProcessEnd, exited_threads) == 16);
    assert!(offset_of!(ProcessEnd, events) == 24);
};
