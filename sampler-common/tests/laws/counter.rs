//! A hardware counter, and how the kernel makes a 64-bit count of it.

use sampler_common::abi::Reading;
use std::cell::Cell;

/// One counter of one CPU: a register of 48 or 64 bits that wraps, and the kernel's count.
#[derive(Debug)]
pub struct Counter {
    width: u32,
    register: Cell<u64>,
    /// The register when the kernel looked last.
    seen: Cell<u64>,
    /// Ticks since then: half the register's range makes it interrupt.
    unseen: Cell<u64>,
    count: Cell<u64>,
    enabled_ns: Cell<u64>,
    running_ns: Cell<u64>,
}

impl Counter {
    /// A register of so many bits, and the kernel's count, so far before they wrap.
    pub fn new(width: u32, before_wrap: u64) -> Self {
        let register = 0_u64.wrapping_sub(before_wrap) & mask(width);
        Self {
            width,
            register: Cell::new(register),
            seen: Cell::new(register),
            unseen: Cell::new(0),
            count: Cell::new(0_u64.wrapping_sub(before_wrap)),
            enabled_ns: Cell::new(0_u64.wrapping_sub(before_wrap)),
            running_ns: Cell::new(0_u64.wrapping_sub(before_wrap)),
        }
    }

    /// It advances.
    pub fn tick(&self, by: Reading) {
        let most = mask(self.width) >> 1;
        let mut left = by.count;
        while left != 0 {
            let now = left.min(most - self.unseen.get());
            self.register.set(self.register.get().wrapping_add(now) & mask(self.width));
            self.unseen.set(self.unseen.get() + now);
            left -= now;
            if self.unseen.get() == most {
                self.update();
            }
        }
        self.enabled_ns.set(self.enabled_ns.get().wrapping_add(by.enabled_ns));
        self.running_ns.set(self.running_ns.get().wrapping_add(by.running_ns));
    }

    /// What a program reads.
    pub fn read(&self) -> Reading {
        self.update();
        Reading {
            count: self.count.get(),
            enabled_ns: self.enabled_ns.get(),
            running_ns: self.running_ns.get(),
        }
    }

    /// As `x86_perf_event_update` (arch/x86/events/core.c, v5.15 to v6.18): both values are shifted
    /// up to the top of a word, so that their difference is sign-extended when it is shifted back.
    fn update(&self) {
        let shift = 64 - self.width;
        let (now, before) = (self.register.get() << shift, self.seen.get() << shift);
        let delta = now.wrapping_sub(before).cast_signed() >> shift;
        self.count.set(self.count.get().wrapping_add_signed(delta));
        self.seen.set(self.register.get());
        self.unseen.set(0);
    }
}

fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}
