//! A call chain that is known, and that keeps frame pointers however the crate is built.

use std::arch::naked_asm;

use anyhow::Result;

use crate::{control::Session, team::Team};

/// Steps of the innermost function a call: about a millisecond.
const STEPS: u64 = 2_000_000;

/// A thread, `chain`, that computes in `known_chain_c`, called by `known_chain_b`, called by
/// `known_chain_a`.
#[derive(clap::Args)]
pub struct FpChain {
    /// How long.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Runs it.
pub fn fp_chain(session: Session, args: &FpChain) -> Result<()> {
    let mut team = Team::default();
    team.add("chain", |gate| {
        while gate.working() {
            known_chain_a(STEPS);
        }
    })?;
    team.run(session, args.seconds, |_| ())
}

/// Calls `known_chain_b`. Written by hand, since a frame pointer can't be asked for in a function.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "x86_64")]
extern "C" fn known_chain_a(steps: u64) {
    naked_asm!("push rbp", "mov rbp, rsp", "call {}", "pop rbp", "ret", sym known_chain_b)
}

/// Calls `known_chain_c`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "x86_64")]
extern "C" fn known_chain_b(steps: u64) {
    naked_asm!("push rbp", "mov rbp, rsp", "call {}", "pop rbp", "ret", sym known_chain_c)
}

/// Counts down.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "x86_64")]
extern "C" fn known_chain_c(steps: u64) {
    naked_asm!("push rbp", "mov rbp, rsp", "2:", "dec rdi", "jnz 2b", "pop rbp", "ret")
}

/// Calls `known_chain_b`. Written by hand, since a frame pointer can't be asked for in a function.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "aarch64")]
extern "C" fn known_chain_a(steps: u64) {
    naked_asm!(
        "stp x29, x30, [sp, -16]!", "mov x29, sp", "bl {}", "ldp x29, x30, [sp], 16", "ret",
        sym known_chain_b
    )
}

/// Calls `known_chain_c`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "aarch64")]
extern "C" fn known_chain_b(steps: u64) {
    naked_asm!(
        "stp x29, x30, [sp, -16]!", "mov x29, sp", "bl {}", "ldp x29, x30, [sp], 16", "ret",
        sym known_chain_c
    )
}

/// Counts down.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[cfg(target_arch = "aarch64")]
extern "C" fn known_chain_c(steps: u64) {
    naked_asm!(
        "stp x29, x30, [sp, -16]!",
        "mov x29, sp",
        "2:",
        "subs x0, x0, 1",
        "b.ne 2b",
        "ldp x29, x30, [sp], 16",
        "ret"
    )
}
