//! What happens on the machine, one deed after the other.

use super::cell::Hooked;
use super::machine::{Config, Interrupt, Machine};
use super::{CPUS, is_read};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A deed. CPUs and threads are picked modulo how many there are; what can't be done is not.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// A counter advances.
    Tick { cpu: usize, event: usize, ticks: u64 },
    /// It overflows.
    Overflow { cpu: usize, event: usize, delivered: bool },
    /// Another thread gets the CPU. One that exits may be gone for good.
    Switch { cpu: usize, pick: usize, dies: bool },
    /// The same without a program that sees it.
    Unseen { cpu: usize, pick: usize },
    /// The running thread starts another one.
    Fork { cpu: usize, new_process: bool },
    /// The running thread begins to exit.
    Exit { cpu: usize },
    /// The running thread, which exits, gives back its tid.
    Release { cpu: usize },
    /// The running thread exits, gives back its tid, and is preempted by one that starts another.
    Succeed { cpu: usize, pick: usize },
    /// The running thread takes over the main one's ids.
    BeginExec { cpu: usize },
    /// Its `exec` is through.
    Exec { cpu: usize },
    /// User space looks.
    Snapshot,
}

/// A machine, what happens on it, and what comes at which step in between.
#[derive(Clone, Debug)]
pub struct Story {
    pub config: Config,
    pub deeds: Vec<Deed>,
    pub interrupts: BTreeMap<u64, Interrupt>,
}

impl Story {
    /// Lets it happen, and then all threads exit: nothing is left of them. The laws are checked
    /// after each deed.
    pub fn play(&self) -> Rc<Machine> {
        self.play_and(Machine::check)
    }

    /// The same in a third of the time: the laws are checked at the end, for what has gone wrong
    /// stays so.
    pub fn play_quickly(&self) -> Rc<Machine> {
        self.play_and(|_| ())
    }

    fn play_and(&self, after_each: impl Fn(&Machine)) -> Rc<Machine> {
        let (machine, _hooked) = self.begin();
        machine.set_enabled(true);
        self.perform(&machine, after_each);
        machine.end_all();
        machine.check();
        machine.check_over();
        machine
    }

    /// Lets it happen, and leaves it at that.
    pub fn play_once(&self) -> Rc<Machine> {
        let (machine, _hooked) = self.begin();
        machine.set_enabled(true);
        self.perform(&machine, Machine::check);
        machine
    }

    /// Lets it happen before the start, after it, and after the stop: the first and the last time
    /// count for nothing.
    pub fn play_stopped(&self) {
        let (machine, _hooked) = self.begin();
        self.perform_without_threads(&machine);
        assert_eq!(machine.counted(), 0, "counted before the start");
        machine.set_enabled(true);
        self.perform(&machine, Machine::check);
        machine.set_enabled(false);
        machine.check();
        let counted = machine.counted();
        self.perform_without_threads(&machine);
        assert_eq!(machine.counted(), counted, "counted after the end");
    }

    /// Nobody follows the threads that start and end now.
    fn perform_without_threads(&self, machine: &Machine) {
        for &deed in &self.deeds {
            match deed {
                Deed::Switch { cpu, pick, .. } => {
                    machine.perform(Deed::Switch { cpu, pick, dies: false });
                }
                Deed::Tick { .. } | Deed::Overflow { .. } | Deed::Snapshot => machine.perform(deed),
                _ => {}
            }
            machine.check();
        }
    }

    fn perform(&self, machine: &Machine, after_each: impl Fn(&Machine)) {
        for &deed in &self.deeds {
            machine.perform(deed);
            after_each(machine);
        }
    }

    /// A machine with two measured processes and one that is not.
    fn begin(&self) -> (Rc<Machine>, Hooked) {
        let (machine, hooked) = Machine::new(self.config.clone(), self.interrupts.clone());
        for measured in [true, true, false] {
            machine.spawn(measured);
        }
        (machine, hooked)
    }
}

impl Machine {
    /// Performs a deed, if it can be done.
    pub fn perform(&self, deed: Deed) {
        let cpu = |cpu: usize| cpu % self.config.cpus;
        match deed {
            Deed::Tick { cpu: at, event, ticks } => self.tick(cpu(at), event, ticks),
            Deed::Overflow { cpu: at, event, delivered } => {
                self.overflow(cpu(at), event, delivered);
            }
            Deed::Switch { cpu: at, pick, dies } => {
                let next = self.pick(cpu(at), pick);
                if next != self.current(cpu(at)) {
                    self.switch(cpu(at), next, dies);
                }
            }
            Deed::Unseen { cpu: at, pick } => self.miss(cpu(at), pick),
            Deed::Fork { cpu: at, new_process } => {
                self.fork(cpu(at), new_process);
            }
            Deed::Exit { cpu: at } => self.exit(cpu(at)),
            Deed::Release { cpu: at } => self.release(cpu(at)),
            Deed::Succeed { cpu: at, pick } => self.succeed(cpu(at), pick),
            Deed::BeginExec { cpu: at } => self.begin_exec(cpu(at)),
            Deed::Exec { cpu: at } => self.exec(cpu(at)),
            Deed::Snapshot => self.snapshot(),
        }
    }

    /// A thread on its way out, and the one that has its tid next.
    fn succeed(&self, cpu: usize, pick: usize) {
        self.exit(cpu);
        self.release(cpu);
        self.perform(Deed::Switch { cpu, pick, dies: false });
        self.fork(cpu, false);
    }

    /// A switch that no program sees, time for the one that came, and one that is seen.
    fn miss(&self, cpu: usize, pick: usize) {
        let (prev, next) = (self.current(cpu), self.pick(cpu, pick));
        if next == prev {
            return;
        }
        self.switch_unseen(cpu, next);
        for event in 0..super::EVENTS {
            self.tick(cpu, event, 1000);
        }
        self.overflow(cpu, 0, true);
        self.check();
        // The idle thread of another CPU never comes here: any but `next` will do.
        let after = if next == cpu { self.pick(cpu, pick + 1) } else { cpu };
        self.switch(cpu, after, false);
        if prev != after {
            self.change(prev, |task| task.busy = false);
        }
    }

    /// Each thread gets a CPU until it is gone.
    pub fn end_all(&self) {
        for round in 0.. {
            let waiting = (0..CPUS).map(|cpu| self.pick(cpu, 0)).any(|task| task >= CPUS);
            let running = (0..self.config.cpus).any(|cpu| self.current(cpu) >= CPUS);
            if !waiting && !running {
                break;
            }
            assert!(round < 1000, "threads do not end");
            let cpu = round % self.config.cpus;
            self.exec(cpu);
            for event in (0..super::EVENTS).filter(|&event| is_read(event)) {
                self.tick(cpu, event, 10 + round as u64);
            }
            self.exit(cpu);
            let next = self.pick(cpu, 0);
            if next != self.current(cpu) {
                self.switch(cpu, next, true);
            }
        }
    }
}
