//! Who really spent what: every tick of every counter is entered here as it happens, and given to
//! whom the scheduler had on the CPU.
//!
//! A tick belongs to the interval between two readings of its counter, and the interval to its
//! owner: the measured thread that got the CPU at the switch that began it. What comes while a
//! switch is accounted belongs to the one that comes, from the moment its counter is read.
//! Nothing here knows a descriptor, a sample or a difference of counters.

use super::machine::TaskId;
use super::{CLOCK, CPUS, EVENTS};
use sampler_common::abi::Reading;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Who an interval belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// No measured thread ran.
    Nobody,
    /// A thread with a descriptor.
    Thread(TaskId),
    /// The threads of a process that had none.
    Unattributed(usize),
}

/// What each owner spent, one an event.
pub type Spent = [Reading; EVENTS];

/// How long a thread has run: the most that was ever known of it. That is the scheduler's account
/// when it leaves a CPU, and the same plus the time on the CPU while it runs.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// When it left last; `None` before it does for the first time, if it was found running.
    account_ns: Option<u64>,
    /// Time on the CPU since.
    run_ns: u64,
    most_ns: u64,
}

impl Clock {
    /// Time went by; what is known more than before.
    fn go_on(&mut self, ns: u64, account_ns: Option<u64>) -> u64 {
        self.run_ns += ns;
        let before_ns = self.account_ns;
        if account_ns.is_some() {
            (self.account_ns, self.run_ns) = (account_ns, 0);
        }
        let (Some(_), Some(account_ns)) = (before_ns, self.account_ns) else {
            // All that is known of its first run is what was seen of it.
            self.most_ns = self.account_ns.unwrap_or_default();
            return ns;
        };
        let known_ns = self.most_ns.max(account_ns + self.run_ns);
        known_ns - std::mem::replace(&mut self.most_ns, known_ns)
    }
}

/// The books of the truth.
#[derive(Debug)]
pub struct Oracle {
    owner: [Cell<Owner>; CPUS],
    /// Ticks since the counter was read last.
    open: [[Cell<Reading>; EVENTS]; CPUS],
    /// The counter was read in the switch that is going on.
    was_read: [[Cell<bool>; EVENTS]; CPUS],
    closed: RefCell<HashMap<Owner, Spent>>,
    clocks: RefCell<HashMap<TaskId, Clock>>,
}

impl Oracle {
    /// Nothing has happened.
    pub fn new() -> Self {
        Self {
            owner: [const { Cell::new(Owner::Nobody) }; CPUS],
            open: Default::default(),
            was_read: Default::default(),
            closed: RefCell::default(),
            clocks: RefCell::default(),
        }
    }

    /// A counter advances.
    pub fn tick(&self, cpu: usize, event: usize, by: Reading) {
        let open = &self.open[cpu][event];
        open.set(sum(open.get(), by));
    }

    /// A counter is read: the interval ends.
    pub fn close(&self, cpu: usize, event: usize) {
        let ticks = self.open[cpu][event].take();
        self.was_read[cpu][event].set(true);
        self.spend(self.owner[cpu].get(), event, ticks);
    }

    /// The clock is read: as [`close`](Self::close), but what a thread with a descriptor has run is
    /// for the scheduler to say, when the thread leaves with this time on its account.
    pub fn close_clock(&self, cpu: usize, account_ns: Option<u64>) {
        let ticks = self.open[cpu][CLOCK].take();
        self.was_read[cpu][CLOCK].set(true);
        let owner = self.owner[cpu].get();
        let count = match owner {
            Owner::Thread(task) => {
                let mut clocks = self.clocks.borrow_mut();
                clocks.entry(task).or_default().go_on(ticks.count, account_ns)
            }
            _ => ticks.count,
        };
        self.spend(owner, CLOCK, Reading { count, ..Reading::default() });
    }

    /// A thread gets a descriptor, with this time on its account, if that is known.
    pub fn start_clock(&self, task: TaskId, account_ns: Option<u64>) {
        let clock =
            Clock { account_ns, most_ns: account_ns.unwrap_or_default(), ..Clock::default() };
        self.clocks.borrow_mut().insert(task, clock);
    }

    /// A program begins.
    pub fn begin(&self, cpu: usize) {
        self.was_read[cpu].iter().for_each(|was_read| was_read.set(false));
    }

    /// The intervals that are open belong to this one. `counters` are the events that are read.
    pub fn own(&self, cpu: usize, owner: Owner, counters: impl Iterator<Item = usize>) {
        if self.owner[cpu].replace(owner) == owner {
            return;
        }
        for event in counters {
            let unread = !self.was_read[cpu][event].get();
            assert!(
                !unread || self.open[cpu][event].get() == Reading::default(),
                "what came before {owner:?} on CPU {cpu} goes to it: event {event} was not read",
            );
        }
    }

    /// Something that is counted when it happens, or made up for.
    pub fn spend(&self, owner: Owner, event: usize, by: Reading) {
        let mut closed = self.closed.borrow_mut();
        let spent = &mut closed.entry(owner).or_default()[event];
        *spent = sum(*spent, by);
    }

    /// Who is on a CPU, as far as the programs can know.
    pub fn owner(&self, cpu: usize) -> Owner {
        self.owner[cpu].get()
    }

    /// What an owner spent in all intervals that have ended.
    pub fn spent(&self, owner: Owner) -> Spent {
        self.closed.borrow().get(&owner).copied().unwrap_or_default()
    }
}

/// Adds up; the simulation never reaches the end of a word.
pub fn sum(a: Reading, b: Reading) -> Reading {
    Reading {
        count: a.count + b.count,
        enabled_ns: a.enabled_ns + b.enabled_ns,
        running_ns: a.running_ns + b.running_ns,
    }
}
