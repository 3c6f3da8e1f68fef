//! What user space sets before the programs are loaded. The kernel freezes it, so the verifier
//! knows each value, and leaves out what it rules out.

use aya_ebpf::Global;
use sampler_common::abi::{ABI_VERSION, MAX_EVENTS, mode, source};

/// Version of the ABI that the object was built with; user space reads it from the object.
#[unsafe(no_mangle)]
static SAMPLER_ABI_VERSION: Global<u32> = Global::new(ABI_VERSION);

/// Events in the session.
#[unsafe(no_mangle)]
static EVENTS: Global<u32> = Global::new(0);

/// Where each event's count comes from, packed: `abi::source`.
#[unsafe(no_mangle)]
static SOURCES: Global<u32> = Global::new(0);

/// Bits of `abi::mode`.
#[unsafe(no_mangle)]
static MODE: Global<u32> = Global::new(0);

/// Descriptors there are.
#[unsafe(no_mangle)]
static CAPACITY: Global<u32> = Global::new(0);

/// Offsets in the running kernel's structs, from its BTF.
#[unsafe(no_mangle)]
pub static TASK_PID: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static TASK_TGID: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static TASK_STATE: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static TASK_START_TIME: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static TASK_EXEC_RUNTIME: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static TASK_COMM: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static TASK_SIGNAL: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
pub static SIGNAL_LIVE: Global<u32> = Global::new(0);

/// Events in the session, at most `MAX_EVENTS`.
#[inline(always)]
pub fn events() -> usize {
    let events = EVENTS.load() as usize;
    if events > MAX_EVENTS { MAX_EVENTS } else { events }
}

/// Where an event's count comes from.
#[inline(always)]
pub fn source_of(event: usize) -> u32 {
    source::of(SOURCES.load(), event)
}

/// Descriptors there are.
#[inline(always)]
pub fn capacity() -> u64 {
    u64::from(CAPACITY.load())
}

/// An event is a clock.
#[inline(always)]
pub fn has_clock() -> bool {
    MODE.load() & mode::CLOCK != 0
}

/// Every process is measured.
#[inline(always)]
pub fn everything() -> bool {
    MODE.load() & mode::EVERYTHING != 0
}

/// Children and new threads are measured too.
#[inline(always)]
pub fn inherit() -> bool {
    MODE.load() & mode::INHERIT != 0
}

/// Samples carry call chains.
#[inline(always)]
pub fn chains() -> bool {
    MODE.load() & mode::CHAINS != 0
}
