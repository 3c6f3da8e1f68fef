//! An event's overflow on this CPU, in an NMI where the PMU has one: a sample, if a measured thread
//! runs. Allocates nothing, creates nothing, logs nothing.

use crate::counters::{credit_event, credit_process_event};
use crate::globals::chains;
use crate::maps::{SampleBuffer, count, process, sample_buffer, slot, this_cpu};
use crate::message::send_sample;
use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::BPF_F_USER_STACK;
use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_get_current_task, bpf_get_stack};
use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use core::mem::offset_of;
use sampler_common::abi::{
    Cpu, Header, MAX_CHAIN, MAX_EVENTS, SampleHeader, Thread, cause, kind, unpack_ids,
};
use sampler_common::account::{Hit, bump};
use sampler_common::cell::Cell;

/// Bytes of a chain of the greatest depth.
const CHAIN_BYTES: u32 = (MAX_CHAIN * 8) as u32;

/// The cookie of the attachment is the event's index.
#[perf_event]
fn on_overflow(ctx: PerfEventContext) -> u32 {
    let Some(cpu) = this_cpu() else { return 0 };
    // SAFETY: no arguments.
    match cpu.hit(unsafe { bpf_get_current_task() }) {
        Hit::Nobody => {}
        Hit::InSwitch => count(cause::HITS_IN_SWITCH),
        Hit::Unattributed => sample_unattributed(&ctx, cpu),
        Hit::Thread(index) => {
            if let Some(thread) = slot(index) {
                sample(&ctx, cpu, thread);
            }
        }
    }
    0
}

#[inline(always)]
fn sample(ctx: &PerfEventContext, cpu: &Cpu, thread: &Thread) {
    // SAFETY: the context is this program's own.
    let event = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } as usize & (MAX_EVENTS - 1);
    let ids = cpu.ids.get();
    // A thread with a descriptor has a process.
    let Some(process) = process(unpack_ids(ids).0) else {
        return count(cause::MAP_ERRORS);
    };
    let (Some(counts), Some(totals)) = (thread.events.get(event), process.events.get(event)) else {
        return;
    };
    credit_event(cpu, thread, event);
    let weight = counts.take_sample(totals);
    if weight == 0 {
        return;
    }
    let header = SampleHeader { ids, weight, event: event as u32, ..SampleHeader::default() };
    if write_and_send(ctx, header) {
        bump(&thread.samples, 1);
    } else {
        count(cause::SAMPLES_LOST);
        bump(&thread.lost_samples, 1);
        counts.lose_sample(totals, weight);
    }
}

/// A thread without a descriptor stands for all that its process has in the carry.
#[inline(always)]
fn sample_unattributed(ctx: &PerfEventContext, cpu: &Cpu) {
    // SAFETY: the context is this program's own.
    let event = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } as usize & (MAX_EVENTS - 1);
    let ids = cpu.ids.get();
    let Some(process) = process(unpack_ids(ids).0) else {
        return count(cause::MAP_ERRORS);
    };
    let Some(totals) = process.events.get(event) else { return };
    credit_process_event(cpu, process, event);
    let weight = totals.carry.take();
    if weight == 0 {
        return;
    }
    let header = SampleHeader { ids, weight, event: event as u32, ..SampleHeader::default() };
    if !write_and_send(ctx, header) {
        count(cause::SAMPLES_LOST);
        totals.lost.add(weight);
    }
}

#[inline(always)]
fn write_and_send(ctx: &PerfEventContext, mut header: SampleHeader) -> bool {
    let Some(buffer) = sample_buffer() else { return false };
    // SAFETY: this CPU's buffer; overflows don't nest.
    let buffer = unsafe { &mut *buffer };
    // Without chains, the first address alone: the instruction pointer.
    let wanted = if chains() { CHAIN_BYTES } else { 8 };
    header.kernel_bytes = take_chain(ctx, buffer, 0, wanted, 0);
    if chains() || header.kernel_bytes == 0 {
        header.user_bytes =
            take_chain(ctx, buffer, header.kernel_bytes, wanted, u64::from(BPF_F_USER_STACK));
    }
    let chain_bytes = header.kernel_bytes + header.user_bytes;
    header.header =
        Header { kind: kind::SAMPLE, len: offset_of!(SampleBuffer, chains) as u32 + chain_bytes };
    buffer.header = header;
    send_sample(ctx, buffer, chain_bytes)
}

/// Writes a chain `at` bytes into the buffer; returns its length in bytes, 0 when there is none.
#[inline(always)]
fn take_chain(
    ctx: &PerfEventContext,
    buffer: &mut SampleBuffer,
    at: u32,
    wanted: u32,
    flags: u64,
) -> u32 {
    let to = buffer.chains.as_mut_ptr();
    // SAFETY: `at` and `wanted` are at most CHAIN_BYTES each, and the buffer has twice that; the
    // verifier checks it.
    let len =
        unsafe { bpf_get_stack(ctx.as_ptr(), to.byte_add(at as usize).cast(), wanted, flags) };
    if len <= 0 || len > i64::from(CHAIN_BYTES) { 0 } else { len as u32 }
}
