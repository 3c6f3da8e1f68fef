//! What is sent to user space, through the CPU's own ring.

use crate::globals::events;
use crate::maps::{self, OUTPUT_ENDS, OUTPUT_SAMPLES, SAMPLE_BYTES, SampleBuffer};
use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_F_CURRENT_CPU;
use aya_ebpf::helpers::generated::bpf_perf_event_output;
use aya_ebpf::maps::PerfEventByteArray;
use core::ffi::c_void;
use core::hint::black_box;
use core::mem::{offset_of, size_of};
use sampler_common::abi::{
    EventCounts, Header, Process, ProcessEnd, Thread, ThreadEnd, Totals, kind,
};
use sampler_common::cell::Cell;

/// Sends `len` bytes. False when the ring is full.
#[inline(always)]
fn send<C: EbpfContext>(
    ctx: &C,
    output: &PerfEventByteArray,
    data: *const c_void,
    len: usize,
) -> bool {
    // SAFETY: the verifier checks that `data` has `len` bytes.
    unsafe {
        bpf_perf_event_output(
            ctx.as_ptr(),
            (&raw const *output).cast_mut().cast(),
            BPF_F_CURRENT_CPU,
            data.cast_mut(),
            len as u64,
        ) == 0
    }
}

/// Sends a sample with this many bytes of chains.
#[inline(always)]
pub fn send_sample<C: EbpfContext>(ctx: &C, buffer: &SampleBuffer, chain_bytes: u32) -> bool {
    // Masked, since LLVM narrows the lengths before it compares them, and the 6.18 verifier then says
    // "R5 unbounded memory access"; the black box, since LLVM knows that the mask changes nothing.
    let len = black_box(offset_of!(SampleBuffer, chains) + chain_bytes as usize);
    let len = len & (SAMPLE_BYTES - 1);
    send(ctx, &OUTPUT_SAMPLES, (&raw const *buffer).cast(), len)
}

/// Sends a thread's final counts.
#[inline(always)]
pub fn send_thread_end<C: EbpfContext>(ctx: &C, thread: &Thread) -> bool {
    let Some(message) = maps::thread_end() else { return false };
    // SAFETY: this CPU's buffer, used by one program at a time: switches have interrupts off.
    let message = unsafe { &mut *message };
    let len = offset_of!(ThreadEnd, events) + events() * size_of::<EventCounts<u64>>();
    message.header = Header { kind: kind::THREAD_END, len: len as u32 };
    message.ids = thread.ids.get();
    message.start_ns = thread.start_ns.get();
    message.samples = thread.samples.get();
    message.lost_samples = thread.lost_samples.get();
    for (to, from) in message.comm.iter_mut().zip(&thread.comm) {
        *to = from.get();
    }
    for (to, from) in message.events.iter_mut().zip(&thread.events).take(events()) {
        to.count = from.count.get();
        to.sampled = from.sampled.get();
        to.carried = from.carried.get();
        to.lost = from.lost.get();
        to.enabled_ns = from.enabled_ns.get();
        to.running_ns = from.running_ns.get();
    }
    send(ctx, &OUTPUT_ENDS, (&raw const *message).cast(), len)
}

/// Sends a process's final totals.
#[inline(always)]
pub fn send_process_end<C: EbpfContext>(ctx: &C, tgid: u32, process: &Process) -> bool {
    let Some(message) = maps::process_end() else { return false };
    // SAFETY: as in `send_thread_end`.
    let message = unsafe { &mut *message };
    let len = offset_of!(ProcessEnd, events) + events() * size_of::<Totals<u64>>();
    message.header = Header { kind: kind::PROCESS_END, len: len as u32 };
    message.tgid = u64::from(tgid);
    message.exited_threads = process.exited_threads.get();
    for (to, from) in message.events.iter_mut().zip(&process.events).take(events()) {
        to.exited = from.exited.get();
        to.unattributed = from.unattributed.get();
        to.carry = from.carry.get();
        to.lost = from.lost.get();
        to.enabled_ns = from.enabled_ns.get();
        to.running_ns = from.running_ns.get();
    }
    send(ctx, &OUTPUT_ENDS, (&raw const *message).cast(), len)
}
