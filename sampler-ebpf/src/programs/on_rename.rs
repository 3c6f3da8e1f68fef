//! `task_rename`: keeps the name in the descriptor, so that user space need not ask `/proc`.

use crate::descriptor::find;
use crate::task::Task;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use core::ffi::c_void;
use sampler_common::abi::COMM_LEN;

/// Arguments: `(task_struct *task, const char *comm)`, before the name is changed.
#[btf_tracepoint(function = "task_rename")]
fn on_rename(ctx: BtfTracePointContext) -> i32 {
    let (task, comm) = (Task(ctx.arg(0)), ctx.arg::<*const c_void>(1));
    let Some((_, thread)) = find(task) else { return 0 };
    // SAFETY: the helper writes COMM_LEN bytes, the size of `thread.comm`, and checks what it
    // reads. The kernel's callers pass buffers of COMM_LEN (`__set_task_comm`, fs/exec.c).
    unsafe {
        bpf_probe_read_kernel(thread.comm.as_ptr().cast_mut().cast(), COMM_LEN as u32, comm);
    }
    0
}
