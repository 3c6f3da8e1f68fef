//! A `task_struct`, read at the offsets of the running kernel.
//!
//! The pointers come from BTF tracepoints, so these are plain loads that the verifier checks
//! against the kernel's types: offsets are frozen globals, which it folds into the pointer
//! (`adjust_ptr_min_max_vals`, kernel/bpf/verifier.c, v5.15 to v6.18).

use crate::globals::{
    SIGNAL_LIVE, TASK_COMM, TASK_EXEC_RUNTIME, TASK_PID, TASK_SIGNAL, TASK_START_TIME, TASK_STATE,
    TASK_TGID,
};
use aya_ebpf::Global;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use core::ffi::c_void;
use sampler_common::abi::{COMM_LEN, pack_ids};
use sampler_common::cell::Word;

/// `TASK_DEAD`, include/linux/sched.h, v4.14 to v6.18: the task is in its last switch.
const TASK_DEAD: u32 = 0x80;

/// A thread of the kernel's.
#[derive(Clone, Copy)]
pub struct Task(pub *const c_void);

impl Task {
    #[inline(always)]
    fn read<T>(self, offset: &Global<u32>) -> T {
        // SAFETY: the verifier refuses the program unless this is a field of the struct.
        unsafe { self.0.byte_add(offset.load() as usize).cast::<T>().read_volatile() }
    }

    /// Its address, to tell it from others.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0.addr() as u64
    }

    #[inline(always)]
    pub fn tid(self) -> u32 {
        self.read(&TASK_PID)
    }

    #[inline(always)]
    pub fn tgid(self) -> u32 {
        self.read(&TASK_TGID)
    }

    #[inline(always)]
    pub fn ids(self) -> u64 {
        pack_ids(self.tgid(), self.tid())
    }

    #[inline(always)]
    pub fn start_ns(self) -> u64 {
        self.read(&TASK_START_TIME)
    }

    /// The time it has run, by the scheduler's account: exact when it is off the CPU, and when it
    /// leaves it, since `put_prev_task` comes before the tracepoint (`__schedule`,
    /// kernel/sched/core.c, v5.15 to v6.18).
    #[inline(always)]
    pub fn exec_ns(self) -> u64 {
        self.read(&TASK_EXEC_RUNTIME)
    }

    /// It will not run again after this switch.
    #[inline(always)]
    pub fn is_dead(self) -> bool {
        self.read::<u32>(&TASK_STATE) & TASK_DEAD != 0
    }

    /// Threads of its process that have not begun to exit.
    #[inline(always)]
    pub fn live_threads(self) -> u32 {
        Self(self.read(&TASK_SIGNAL)).read(&SIGNAL_LIVE)
    }

    /// Copies its name.
    #[inline(always)]
    pub fn copy_comm(self, to: &[Word; COMM_LEN / 8]) {
        // SAFETY: the helper writes COMM_LEN bytes, the size of `to`, and checks what it reads.
        unsafe {
            bpf_probe_read_kernel(
                to.as_ptr().cast_mut().cast(),
                COMM_LEN as u32,
                self.0.byte_add(TASK_COMM.load() as usize),
            );
        }
    }
}
