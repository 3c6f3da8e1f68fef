//! What keeps a team's threads together: all idle, all at work, all parked, all gone.
//!
//! It stands on the kernel's futex itself: ten thousand threads that are woken at once and then all
//! want one mutex, as with `std`'s condition variable, keep the machine busy for seconds.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use rustix::thread::futex::{Flags, wait, wake};

/// Where a team is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In the window. Before it, all wait.
    Work = 1,
    /// Waiting, so that clocks can be read which stand still.
    Park = 2,
    /// On the way out.
    Leave = 3,
}

/// The team's common state.
#[derive(Default)]
pub struct Gate {
    phase: AtomicU32,
    parked: AtomicU32,
    awaited: AtomicU32,
}

impl Gate {
    /// Whether the window is on. Cheap enough to be asked all the time.
    pub fn working(&self) -> bool {
        self.phase.load(Relaxed) == Phase::Work as u32
    }

    /// Sleeps until the team is in that phase or later.
    pub fn wait_for(&self, phase: Phase) {
        wait_at_least(&self.phase, phase as u32);
    }

    /// A member's work is done: it sleeps until the team leaves.
    pub fn park(&self) {
        let parked = self.parked.fetch_add(1, SeqCst) + 1;
        // The last one alone wakes who waits for all.
        if parked == self.awaited.load(SeqCst) {
            wake_all(&self.parked);
        }
        self.wait_for(Phase::Leave);
    }

    /// Moves the team on.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u32, SeqCst);
        wake_all(&self.phase);
    }

    /// Sleeps until so many members have parked.
    pub fn wait_parked(&self, members: u32) {
        self.awaited.store(members, SeqCst);
        wait_at_least(&self.parked, members);
    }
}

fn wait_at_least(word: &AtomicU32, wanted: u32) {
    loop {
        let now = word.load(SeqCst);
        if now >= wanted {
            return;
        }
        // Returns early when the word has changed or a signal came: the loop looks again.
        let _ = wait(word, Flags::PRIVATE, now, None);
    }
}

fn wake_all(word: &AtomicU32) {
    // Fails for no valid word.
    let _ = wake(word, Flags::PRIVATE, i32::MAX.unsigned_abs());
}
