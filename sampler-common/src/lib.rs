//! What the BPF programs of `sampler` and its user space share: the layout of everything they
//! exchange ([`abi`]), and the counting arithmetic ([`account`]) on memory cells ([`cell`]) that
//! are the same on both sides.
//!
//! Nothing here reads a clock or a counter, and nothing allocates.
#![no_std]
// `core::sync::atomic` has no read-modify-write on the BPF target; the intrinsics compile to BPF's
// atomic instructions. Built with `RUSTC_BOOTSTRAP=1` or a nightly; the host needs neither.
#![cfg_attr(target_arch = "bpf", feature(core_intrinsics))]
#![cfg_attr(target_arch = "bpf", expect(internal_features, reason = "see above"))]

pub mod abi;
pub mod account;
pub mod cell;
