//! The BPF programs of `sampler`: exact per-thread counts at every context switch, and a sample at
//! each overflow that hits a measured thread.
//!
//! `programs/` has one file a program; `maps` and `globals` what they share. The counting itself is
//! in `sampler-common`, the same code that the host's property tests run.
#![no_std]
#![no_main]

mod counters;
mod descriptor;
mod globals;
mod maps;
mod message;
mod process;
mod programs;
mod task;

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The helpers that the programs call are `gpl_only`.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
