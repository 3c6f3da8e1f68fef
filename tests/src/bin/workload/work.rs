//! Work of known amount, and the kernel's per-thread books.

use std::hint::{black_box, spin_loop};

use anyhow::Result;
use sampler_tests::clock::{own_process_ns, own_thread_ns};

/// Computes until `done` says so; asks it about every microsecond.
pub fn burn(mut done: impl FnMut() -> bool) {
    while !done() {
        for step in 0..50_u32 {
            black_box(step);
            spin_loop();
        }
    }
}

/// Computes until this thread has used `ns` in its whole life. For threads short enough.
pub fn burn_own_life(ns: u64) {
    burn(|| own_thread_ns().is_ok_and(|used| used >= ns));
}

/// Computes for `ns` of this thread's own time.
pub fn burn_own(ns: u64) -> Result<()> {
    let end = own_thread_ns()? + ns;
    burn(|| own_thread_ns().is_ok_and(|used| used >= end));
    Ok(())
}

/// Computes for `ns` of the process's own time.
pub fn burn_own_process(ns: u64) -> Result<()> {
    let end = own_process_ns()? + ns;
    burn(|| own_process_ns().is_ok_and(|used| used >= end));
    Ok(())
}

/// What the kernel has counted for a thread.
#[derive(Clone, Copy)]
pub struct Usage {
    /// Page faults, minor and major.
    pub faults: u64,
    /// Context switches, voluntary or not.
    pub switches: u64,
}

impl Usage {
    /// Of the calling thread, so far.
    #[doc(alias = "RUSAGE_THREAD")]
    pub fn of_this_thread() -> Self {
        // SAFETY: `rusage` is plain numbers, for which all zeros is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid for writes. The call can't fail with these arguments.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        Self {
            faults: (usage.ru_minflt + usage.ru_majflt).cast_unsigned(),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw).cast_unsigned(),
        }
    }
}
