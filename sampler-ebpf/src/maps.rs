//! All maps. Sizes marked "set at load" come from `--max-threads` and the machine.

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_NOEXIST};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, PerfEventByteArray, Stack};
use sampler_common::abi::{
    Control, Cpu, MAX_CHAIN, Process, ProcessEnd, SampleHeader, Thread, ThreadEnd, cause,
};
use sampler_common::cell::{Cell, Word};

/// Start and stop.
#[map]
static CONTROL: Array<Control> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The descriptors. User space reads them in place. Set at load.
#[map]
static SLOTS: Array<Thread> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Address of the `task_struct` → index in `SLOTS`. A tid won't do: it is free for another thread as
/// soon as its owner is released, which is before its last switch. Set at load.
#[map]
pub static THREADS: HashMap<u64, u32> = HashMap::with_max_entries(1, 0);

/// The free cache: indices in `SLOTS` that have been in use and are free again. Set at load.
#[map]
pub static FREE: Stack<u32> = Stack::with_max_entries(1, 0);

/// tgid → process, for each process that is measured. Set at load.
#[map]
pub static PROCESSES: HashMap<u32, Process> = HashMap::with_max_entries(1, 0);

/// tids that are measured, of processes with `flag::SELECTED_THREADS`. Set at load.
#[map]
pub static SELECTED: HashMap<u32, u32> = HashMap::with_max_entries(1, 0);

/// What each CPU is doing.
#[map]
static CPU: PerCpuArray<Cpu> = PerCpuArray::with_max_entries(1, 0);

/// The counters to read, by CPU: one map an event, see `counters`.
#[map]
pub static COUNTERS_0: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static COUNTERS_1: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static COUNTERS_2: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static COUNTERS_3: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static COUNTERS_4: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static COUNTERS_5: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static COUNTERS_6: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static COUNTERS_7: PerfEventByteArray = PerfEventByteArray::new(0);

/// Each CPU's way out for samples, and the one for ends of threads and processes: a flood of samples
/// then displaces no final count.
#[map]
pub static OUTPUT_SAMPLES: PerfEventByteArray = PerfEventByteArray::new(0);
#[map]
pub static OUTPUT_ENDS: PerfEventByteArray = PerfEventByteArray::new(0);

/// How often each `abi::cause` came up.
#[map]
static STATS: PerCpuArray<Word> = PerCpuArray::with_max_entries(cause::COUNT, 0);

/// Room for a sample. An overflow never interrupts another one's program
/// (`bpf_overflow_handler`, kernel/events/core.c, v5.15 to v6.18, skips it).
#[map]
static SAMPLE: PerCpuArray<SampleBuffer> = PerCpuArray::with_max_entries(1, 0);

/// Room for what is sent at a switch: too large for the stack of 512 bytes.
#[map]
static THREAD_END: PerCpuArray<ThreadEnd> = PerCpuArray::with_max_entries(1, 0);
#[map]
static PROCESS_END: PerCpuArray<ProcessEnd> = PerCpuArray::with_max_entries(1, 0);

/// A process that has counted nothing, to insert.
#[map]
static NEW_PROCESS: PerCpuArray<Process> = PerCpuArray::with_max_entries(1, 0);

/// Bytes of a sample's buffer: a power of two, so that a masked length fits.
pub const SAMPLE_BYTES: usize = 4096;

/// A sample and two chains, with room behind, so that the verifier sees the second one fit wherever
/// the first ends.
#[repr(C)]
pub struct SampleBuffer {
    pub header: SampleHeader,
    pub chains: [u64; (SAMPLE_BYTES - size_of::<SampleHeader>()) / 8],
}

const _: () = assert!(size_of::<SampleBuffer>() == SAMPLE_BYTES);
const _: () = assert!(size_of::<SampleHeader>() + 2 * MAX_CHAIN * 8 <= SAMPLE_BYTES);

#[inline(always)]
pub fn control() -> Option<&'static Control> {
    CONTROL.get(0)
}

/// Counting is on.
#[inline(always)]
pub fn enabled() -> bool {
    control().is_some_and(|control| control.enabled.get() != 0)
}

#[inline(always)]
pub fn slot(index: u32) -> Option<&'static Thread> {
    SLOTS.get(index)
}

#[inline(always)]
pub fn this_cpu() -> Option<&'static Cpu> {
    CPU.get(0)
}

#[inline(always)]
pub fn sample_buffer() -> Option<*mut SampleBuffer> {
    SAMPLE.get_ptr_mut(0)
}

#[inline(always)]
pub fn thread_end() -> Option<*mut ThreadEnd> {
    THREAD_END.get_ptr_mut(0)
}

#[inline(always)]
pub fn process_end() -> Option<*mut ProcessEnd> {
    PROCESS_END.get_ptr_mut(0)
}

#[inline(always)]
pub fn process(tgid: u32) -> Option<&'static Process> {
    // SAFETY: values are cells; a value whose key is removed keeps its memory, since the map is
    // preallocated, and a process is removed only when no thread of it runs any more.
    unsafe { PROCESSES.get(tgid) }
}

/// Adds a process with these flags. False when there is no room.
#[inline(always)]
pub fn insert_process(tgid: u32, flags: u64) -> bool {
    let Some(new) = NEW_PROCESS.get(0) else { return false };
    new.flags.set(flags);
    PROCESSES.insert(tgid, new, u64::from(BPF_NOEXIST)).is_ok()
}

/// Counts something that could not be measured.
#[inline(always)]
pub fn count(cause: u32) {
    if let Some(counter) = STATS.get(cause) {
        counter.add(1);
    }
}
