//! The counting arithmetic: who is credited with what a CPU's counters advanced, what a sample
//! stands for, and what remains of a thread that ends.
//!
//! The BPF programs call exactly this code, and the property tests in `tests/laws.rs` run it on
//! cells that let an overflow come between any two accesses.
//!
//! # Why an overflow can't spoil a switch
//!
//! An overflow (an NMI, where the PMU has one) can interrupt the accounting of a switch on its own
//! CPU. [`Cpu::begin`] marks the CPU busy; an overflow that finds it so leaves the counters alone
//! and takes no sample. Nothing is lost by that: the count is read by the switch it interrupted,
//! and stays in the thread's residual for its next sample. So each descriptor has one writer at a
//! time and needs no atomic instruction. What several CPUs write, a process's totals, is added and
//! taken atomically.

use crate::abi::{Cpu, EventCounts, Last, Process, Reading, Thread, Totals};
use crate::cell::Cell;

/// What an overflow finds on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// No measured thread runs.
    Nobody,
    /// A switch is being accounted, or is between its accounting and its end: it is not clear whose
    /// overflow it is.
    InSwitch,
    /// A measured thread without a descriptor runs.
    Unattributed,
    /// The thread with the descriptor of this index runs.
    Thread(u32),
}

impl<C: Cell> Cpu<C> {
    /// Starts the accounting of a switch.
    #[inline(always)]
    pub fn begin(&self) {
        self.busy.set(1);
    }

    /// Ends the accounting of a switch.
    #[inline(always)]
    pub fn end(&self) {
        self.busy.set(0);
    }

    /// A switch is being accounted.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.busy.get() != 0
    }

    /// From now on `running` is credited: a descriptor's index plus 1, [`Cpu::NOBODY`] or
    /// [`Cpu::UNATTRIBUTED`].
    #[inline(always)]
    pub fn run(&self, running: u64, ids: u64) {
        self.running.set(running);
        self.ids.set(ids);
    }

    /// Whom an overflow hits, given the address of the task it interrupted.
    #[inline(always)]
    pub fn hit(&self, current_task: u64) -> Hit {
        let running = self.running.get();
        if self.is_busy() {
            Hit::InSwitch
        } else if running == Self::NOBODY {
            Hit::Nobody
        } else if self.task.get() != current_task {
            Hit::InSwitch
        } else if running == Self::UNATTRIBUTED {
            Hit::Unattributed
        } else {
            Hit::Thread((running - 1) as u32)
        }
    }
}

impl<C: Cell> Last<C> {
    /// Starts an interval: what comes after `now` is credited, what came before is not.
    #[inline(always)]
    pub fn start(&self, now: Reading) {
        self.count.set(now.count);
        self.enabled_ns.set(now.enabled_ns);
        self.running_ns.set(now.running_ns);
    }

    /// Ends an interval and starts the next: what came since the last reading, wrapping.
    #[inline(always)]
    pub fn advance(&self, now: Reading) -> Reading {
        let since = Reading {
            count: now.count.wrapping_sub(self.count.get()),
            enabled_ns: now.enabled_ns.wrapping_sub(self.enabled_ns.get()),
            running_ns: now.running_ns.wrapping_sub(self.running_ns.get()),
        };
        self.start(now);
        since
    }
}

impl<C: Cell> EventCounts<C> {
    /// A new thread has counted nothing.
    #[inline(always)]
    pub fn reset(&self) {
        self.count.set(0);
        self.sampled.set(0);
        self.carried.set(0);
        self.lost.set(0);
        self.enabled_ns.set(0);
        self.running_ns.set(0);
    }

    /// Credits the thread.
    #[inline(always)]
    pub fn credit(&self, since: Reading) {
        bump(&self.count, since.count);
        bump(&self.enabled_ns, since.enabled_ns);
        bump(&self.running_ns, since.running_ns);
    }

    /// What no sample of the thread stands for yet.
    #[inline(always)]
    pub fn residual(&self) -> u64 {
        self.count.get().wrapping_sub(self.sampled.get())
    }

    /// Takes a sample: returns its weight. The first sample of a thread takes the carry of its
    /// process along, so that threads too short to be hit are represented by the few of their kind
    /// that are. A weight of 0 is no sample.
    #[inline(always)]
    pub fn take_sample(&self, process: &Totals<C>) -> u64 {
        let residual = self.residual();
        let first = self.sampled.get() == 0;
        bump(&self.sampled, residual);
        let carry = if first { process.carry.take() } else { 0 };
        bump(&self.carried, carry);
        residual.wrapping_add(carry)
    }

    /// A sample of this weight could not be sent.
    #[inline(always)]
    pub fn lose_sample(&self, process: &Totals<C>, weight: u64) {
        bump(&self.lost, weight);
        process.lost.add(weight);
    }
}

/// Clocks. What counts is the scheduler's own account of a thread's time, which is sure to be up to
/// date only when the thread leaves a CPU. In between, the time seen to go by is credited ahead of it,
/// so that a thread that runs on is not credited late. When the account comes, it makes up for what is
/// missing; if it is behind, nothing is credited until it has caught up.
impl<C: Cell> Thread<C> {
    /// The thread runs on, and `seen_ns` went by since it was last credited: what to credit it with.
    #[inline(always)]
    pub fn advance_clock(&self, seen_ns: u64) -> u64 {
        let account = self.exec_ns.get();
        if account == Self::UNKNOWN {
            return seen_ns;
        }
        self.credit_clock_to(account.wrapping_add(seen_ns))
    }

    /// The thread leaves, with this time on its account, and `seen_ns` went by since it was last
    /// credited: what to credit it with.
    #[inline(always)]
    pub fn settle_clock(&self, account_ns: u64, seen_ns: u64) -> u64 {
        if self.exec_ns.get() == Self::UNKNOWN {
            self.exec_ns.set(account_ns);
            self.credited_ns.set(account_ns);
            return seen_ns;
        }
        self.credit_clock_to(account_ns)
    }

    #[inline(always)]
    fn credit_clock_to(&self, account_ns: u64) -> u64 {
        self.exec_ns.set(account_ns);
        let due = account_ns.wrapping_sub(self.credited_ns.get());
        if due as i64 <= 0 {
            return 0;
        }
        self.credited_ns.set(account_ns);
        due
    }
}

impl<C: Cell> Totals<C> {
    /// Takes over the counts of a thread that ended.
    #[inline(always)]
    pub fn retire(&self, thread: &EventCounts<C>) {
        self.exited.add(thread.count.get());
        self.carry.add(thread.residual());
        self.enabled_ns.add(thread.enabled_ns.get());
        self.running_ns.add(thread.running_ns.get());
    }

    /// Credits the process with what a thread without a descriptor counted.
    #[inline(always)]
    pub fn credit(&self, since: Reading) {
        self.unattributed.add(since.count);
        self.carry.add(since.count);
        self.enabled_ns.add(since.enabled_ns);
        self.running_ns.add(since.running_ns);
    }
}

impl<C: Cell> Thread<C> {
    /// Makes the descriptor that of a new thread. The state is set last, so that user space, which
    /// reads while this is written, sees no thread with another's counts.
    #[inline(always)]
    pub fn assign(&self, ids: u64, start_ns: u64, exec_ns: u64, events: usize) {
        self.ids.set(ids);
        self.start_ns.set(start_ns);
        self.exec_ns.set(exec_ns);
        self.credited_ns.set(exec_ns);
        self.last_cpu.set(0);
        self.samples.set(0);
        self.lost_samples.set(0);
        for event in self.events.iter().take(events) {
            event.reset();
        }
        self.state.set(Self::LIVE);
    }

    /// Gives the counts to the process. The descriptor is free to be assigned after this.
    #[inline(always)]
    pub fn retire(&self, process: &Process<C>, events: usize) {
        for (thread, totals) in self.events.iter().zip(&process.events).take(events) {
            totals.retire(thread);
        }
        self.state.set(Self::FREE);
    }

    /// The thread arrives on a CPU: true if it ran on another one before.
    #[inline(always)]
    pub fn arrive(&self, cpu: u32) -> bool {
        let here = u64::from(cpu) + 1;
        let before = self.last_cpu.get();
        if before != here {
            self.last_cpu.set(here);
        }
        before != 0 && before != here
    }
}

/// Adds to a local cell, wrapping.
#[inline(always)]
pub fn bump<C: Cell>(cell: &C, by: u64) {
    if by != 0 {
        cell.set(cell.get().wrapping_add(by));
    }
}

/// Scales a count by the share of the time that it was counted: `count × enabled / running`,
/// rounded down, saturating at `u64::MAX`. `None` when it was never counted.
pub const fn scale(count: u64, enabled_ns: u64, running_ns: u64) -> Option<u64> {
    if running_ns == 0 {
        return None;
    }
    let scaled = count as u128 * enabled_ns as u128 / running_ns as u128;
    Some(if scaled > u64::MAX as u128 { u64::MAX } else { scaled as u64 })
}
