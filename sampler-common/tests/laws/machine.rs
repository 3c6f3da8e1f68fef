//! A simulated machine: CPUs with counters of their own, and threads that a scheduler moves about.
//! It calls the [programs](super::programs) where the kernel does, and tells the
//! [oracle](super::oracle) what really happened.

use super::cell::{self, Probe};
use super::counter::Counter;
use super::oracle::{Oracle, sum};
use super::{CLOCK, CPUS, EVENTS, is_read};
use sampler_common::abi::{self, Control, Reading, Thread, source};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// A `task_struct`; never used again for another thread.
pub type TaskId = usize;

/// A thread of the machine's. The first one of each CPU is its idle thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    pub tid: u32,
    pub tgid: u32,
    /// Index of its process.
    pub process: usize,
    pub start_ns: u64,
    /// Tells it from others, as the address of its `task_struct` does.
    pub address: u64,
    /// It can't be put on another CPU.
    pub busy: bool,
    pub exiting: bool,
    /// Its tid is free for another thread, though it still has its last way to go.
    pub released: bool,
    pub dead: bool,
    /// The scheduler's account of the time it ran.
    pub exec_ns: u64,
    /// The CPU it ran on last while it had a descriptor.
    pub ran_on: Option<usize>,
    /// Its tid before an `exec` that is under way.
    pub old_tid: Option<u32>,
}

/// A process of the machine's.
#[derive(Debug, Default)]
pub struct Process {
    pub tgid: u32,
    pub measured: bool,
    /// Start of its main thread.
    pub start_ns: u64,
    /// Threads that have not begun to exit, and that have not left for the last time.
    pub live: u32,
    pub threads: u32,
    /// What its end said.
    pub end: Option<[abi::Totals<u64>; EVENTS]>,
    /// Threads whose counts it has.
    pub retired: Vec<TaskId>,
}

/// A sample that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub task: TaskId,
    pub event: usize,
    pub weight: u64,
    pub delivered: bool,
    /// The thread had a descriptor.
    pub described: bool,
}

/// What can come between two steps of a program.
#[derive(Clone, Copy, Debug)]
pub enum Interrupt {
    /// The counter of the CPU that runs the program advances, and overflows.
    Here { event: usize, ticks: u64, delivered: bool },
    /// The same on another CPU.
    There { cpu: usize, event: usize, ticks: u64, delivered: bool },
    /// Another CPU switches.
    Switch { cpu: usize, pick: usize, dies: bool },
}

/// What the machine has.
#[derive(Clone, Debug)]
pub struct Config {
    pub cpus: usize,
    /// Descriptors.
    pub capacity: usize,
    /// Ticks until each CPU's counters wrap.
    pub before_wrap: u64,
}

/// What the programs have in maps.
pub struct Maps {
    pub control: Control<Probe>,
    pub cpus: [abi::Cpu<Probe>; CPUS],
    pub slots: Vec<Thread<Probe>>,
    pub threads: RefCell<HashMap<u64, u32>>,
    pub free: RefCell<Vec<u32>>,
    pub processes: RefCell<HashMap<u32, Rc<abi::Process<Probe>>>>,
}

/// The machine.
pub struct Machine {
    pub config: Config,
    pub maps: Maps,
    pub oracle: Oracle,
    pub tasks: RefCell<Vec<Task>>,
    pub processes: RefCell<Vec<Process>>,
    pub samples: RefCell<Vec<Sample>>,
    /// Hits that were not sampled because a switch was going on.
    pub hits_in_switch: Cell<u64>,
    counters: [[Counter; EVENTS]; CPUS],
    /// The kernel's `current`.
    current: [Cell<TaskId>; CPUS],
    /// Whom the scheduler charges: at a switch already the one that comes.
    charged: [Cell<TaskId>; CPUS],
    clock_ns: Cell<u64>,
    /// The CPU that runs a program, and whether that is an overflow.
    active: Cell<Option<(usize, bool)>>,
    interrupted: Cell<bool>,
    steps: Cell<u64>,
    plan: RefCell<BTreeMap<u64, Interrupt>>,
}

impl Machine {
    /// A machine that runs nothing, and lets `plan` happen at these steps of its programs.
    pub fn new(config: Config, plan: BTreeMap<u64, Interrupt>) -> (Rc<Self>, cell::Hooked) {
        let counter = |_, event| Counter::new(super::WIDTHS[event], config.before_wrap);
        let machine = Rc::new(Self {
            maps: Maps {
                control: Control::default(),
                cpus: Default::default(),
                slots: (0..config.capacity).map(|_| Thread::default()).collect(),
                threads: RefCell::default(),
                free: RefCell::default(),
                processes: RefCell::default(),
            },
            oracle: Oracle::new(),
            tasks: RefCell::new((0..CPUS).map(idle).collect()),
            processes: RefCell::new(vec![Process::default()]),
            samples: RefCell::default(),
            hits_in_switch: Cell::new(0),
            counters: std::array::from_fn(|cpu| std::array::from_fn(|event| counter(cpu, event))),
            current: std::array::from_fn(Cell::new),
            charged: std::array::from_fn(Cell::new),
            clock_ns: Cell::new(1),
            active: Cell::new(None),
            interrupted: Cell::new(false),
            steps: Cell::new(0),
            plan: RefCell::new(plan),
            config,
        });
        let weak = Rc::downgrade(&machine);
        let hooked = cell::hook(move || {
            if let Some(machine) = weak.upgrade() {
                machine.interrupt();
            }
        });
        (machine, hooked)
    }

    /// Steps that the programs have made.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Lets something happen so many steps from now.
    pub fn plan(&self, steps: u64, interrupt: Interrupt) {
        self.plan.borrow_mut().insert(self.steps.get() + steps, interrupt);
    }

    pub fn current(&self, cpu: usize) -> TaskId {
        self.current[cpu].get()
    }

    pub fn task(&self, task: TaskId) -> Task {
        self.tasks.borrow()[task]
    }

    pub fn change<T>(&self, task: TaskId, change: impl FnOnce(&mut Task) -> T) -> T {
        change(&mut self.tasks.borrow_mut()[task])
    }

    /// Reads a counter, as `bpf_perf_event_read_value` does.
    pub fn read(&self, cpu: usize, event: usize) -> Option<Reading> {
        cell::step();
        (super::SOURCES[event] == source::COUNTER).then(|| {
            self.oracle.close(cpu, event);
            self.counters[cpu][event].read()
        })
    }

    /// Reads the clock, as `bpf_ktime_get_ns` does. The thread on the CPU leaves, with this time on
    /// its account, or runs on.
    pub fn read_clock(&self, cpu: usize, account_ns: Option<u64>) -> u64 {
        cell::step();
        self.oracle.close_clock(cpu, account_ns);
        self.counters[cpu][CLOCK].read().count
    }

    /// An event's counter advances; it was multiplexed a third of the time.
    pub fn tick(&self, cpu: usize, event: usize, ticks: u64) {
        if !is_read(event) {
            return;
        }
        let times = match super::SOURCES[event] {
            source::COUNTER => (ticks / 2, ticks / 3),
            _ => (0, 0),
        };
        let by = Reading { count: ticks, enabled_ns: times.0, running_ns: times.1 };
        self.counters[cpu][event].tick(by);
        self.oracle.tick(cpu, event, by);
        if event == CLOCK {
            // The scheduler has a clock of its own, which leaves out some times and is ahead in others.
            let account_ns =
                if ticks.is_multiple_of(2) { ticks + ticks / 8 } else { ticks - ticks / 4 };
            self.change(self.charged[cpu].get(), |task| task.exec_ns += account_ns);
        }
    }

    /// The scheduler gives the CPU to `next`.
    pub fn switch(&self, cpu: usize, next: TaskId, dies: bool) {
        let prev = self.current(cpu);
        let dies = dies && self.task(prev).exiting;
        self.change(next, |task| task.busy = true);
        self.charged[cpu].set(next);
        self.run(cpu, false, || {
            self.on_switch(cpu, prev, next, dies);
            // The program is over, the switch is not.
            cell::step();
        });
        self.current[cpu].set(next);
        if dies {
            self.bury(prev);
        } else {
            self.change(prev, |task| task.busy = false);
        }
    }

    /// The same, but no program sees it. Until one sees the next switch of the CPU, the one that
    /// leaves stays where it is.
    pub fn switch_unseen(&self, cpu: usize, next: TaskId) {
        self.change(next, |task| task.busy = true);
        self.charged[cpu].set(next);
        self.current[cpu].set(next);
    }

    /// An overflow of an event's counter.
    pub fn overflow(&self, cpu: usize, event: usize, delivered: bool) {
        if is_read(event) {
            self.run(cpu, true, || self.on_overflow(cpu, event, delivered));
        }
    }

    /// The running thread starts another one, of its process or of a new one.
    pub fn fork(&self, cpu: usize, new_process: bool) -> Option<TaskId> {
        let parent = self.current(cpu);
        let (process, start_ns) = (self.task(parent).process, self.next_ns());
        if process == 0 || self.task(parent).exiting || self.task(parent).old_tid.is_some() {
            return None;
        }
        let process =
            if new_process { self.new_process(self.new_tid(), start_ns) } else { process };
        let tid = if new_process { self.processes.borrow()[process].tgid } else { self.new_tid() };
        let child = self.new_task(process, tid, start_ns);
        // It is woken up after the program.
        self.change(child, |task| task.busy = true);
        self.run(cpu, false, || self.on_fork(parent, child));
        self.change(child, |task| task.busy = false);
        Some(child)
    }

    /// The running thread begins to exit: it will not come back from one of its next switches. In
    /// the middle of `exec` this is how it fails: it has the main thread's ids by then.
    pub fn exit(&self, cpu: usize) {
        let task = self.current(cpu);
        let process = self.task(task).process;
        if process == 0 || self.task(task).exiting {
            return;
        }
        self.change(task, |task| (task.exiting, task.old_tid) = (true, None));
        self.processes.borrow_mut()[process].live -= 1;
        self.run(cpu, false, || self.on_exit(task));
    }

    /// The running thread, which exits, gives back its tid (`release_task` in `exit_notify`,
    /// kernel/exit.c). It may be preempted before its last switch. The main thread waits for its
    /// parent to do that.
    pub fn release(&self, cpu: usize) {
        let Task { exiting, tid, tgid, .. } = self.task(self.current(cpu));
        if exiting && tid != tgid {
            self.change(self.current(cpu), |task| task.released = true);
        }
    }

    /// The running thread calls `exec`: it waits until it is the only one of its process, and takes
    /// over the main thread's ids (`de_thread`, fs/exec.c). The program comes [later](Self::exec).
    pub fn begin_exec(&self, cpu: usize) {
        let old = self.current(cpu);
        let process = self.task(old).process;
        let alone = self.is_alone(old);
        if process == 0 || !alone || self.task(old).exiting || self.task(old).old_tid.is_some() {
            return;
        }
        let before = self.task(old);
        let (tgid, start_ns) = (before.tgid, self.processes.borrow()[process].start_ns);
        let renamed = before.tid != tgid;
        let old_tid = Some(before.tid);
        let after = if renamed {
            self.tasks.borrow_mut().push(Task { tid: tgid, start_ns, ..before });
            self.change(old, |task| task.dead = true);
            self.tasks.borrow().len() - 1
        } else {
            old
        };
        self.change(after, |task| task.old_tid = old_tid);
        self.current[cpu].set(after);
        self.charged[cpu].set(after);
    }

    /// The rest of `exec`.
    pub fn exec(&self, cpu: usize) {
        let task = self.current(cpu);
        let old_tid = self.task(task).old_tid;
        if let Some(old_tid) = old_tid {
            self.run(cpu, false, || self.on_exec(cpu, task, old_tid));
            self.change(task, |task| task.old_tid = None);
        }
    }

    /// User space has each CPU credit whom it runs.
    pub fn snapshot(&self) {
        for cpu in 0..self.config.cpus {
            self.run(cpu, false, || self.on_snapshot(cpu));
        }
    }

    /// Starts or stops counting.
    pub fn set_enabled(&self, enabled: bool) {
        sampler_common::cell::Cell::set(&self.maps.control.enabled, u64::from(enabled));
        self.snapshot();
    }

    /// A new process with its main thread, which nobody has started.
    pub fn spawn(&self, measured: bool) -> TaskId {
        let (tid, start_ns) = (self.new_tid(), self.next_ns());
        let process = self.new_process(tid, start_ns);
        if measured {
            self.measure(process);
        }
        self.new_task(process, tid, start_ns)
    }

    /// A new thread beside another one, which no program has seen start.
    pub fn spawn_beside(&self, task: TaskId) -> TaskId {
        self.new_task(self.task(task).process, self.new_tid(), self.next_ns())
    }

    /// A thread that can get a CPU: its idle thread, or one that waits.
    pub fn pick(&self, cpu: usize, pick: usize) -> TaskId {
        let tasks = self.tasks.borrow();
        let mut ready: Vec<TaskId> =
            (CPUS..tasks.len()).filter(|&task| !tasks[task].busy && !tasks[task].dead).collect();
        ready.push(cpu);
        ready[pick % ready.len()]
    }

    /// The process is measured from now on.
    pub fn measure(&self, process: usize) {
        let tgid = self.processes.borrow()[process].tgid;
        self.processes.borrow_mut()[process].measured = true;
        self.maps.processes.borrow_mut().entry(tgid).or_default();
    }

    fn interrupt(&self) {
        let Some((cpu, in_overflow)) = self.active.get() else { return };
        if self.interrupted.get() {
            return;
        }
        let step = self.steps.replace(self.steps.get() + 1);
        let Some(interrupt) = self.plan.borrow_mut().remove(&step) else { return };
        self.interrupted.set(true);
        self.happen(cpu, in_overflow, interrupt);
        self.interrupted.set(false);
    }

    fn happen(&self, here: usize, in_overflow: bool, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Here { event, ticks, delivered } => {
                self.tick(here, event, ticks);
                // Overflows do not nest.
                if !in_overflow {
                    self.overflow(here, event, delivered);
                }
            }
            Interrupt::There { cpu, event, ticks, delivered } => {
                let there = cpu % self.config.cpus;
                self.tick(there, event, ticks);
                if there != here {
                    self.overflow(there, event, delivered);
                }
            }
            Interrupt::Switch { cpu, pick, dies } => {
                let there = cpu % self.config.cpus;
                let next = self.pick(there, pick);
                if there != here && next != self.current(there) {
                    self.switch(there, next, dies);
                }
            }
        }
    }

    fn run(&self, cpu: usize, is_overflow: bool, program: impl FnOnce()) {
        let before = self.active.replace(Some((cpu, is_overflow)));
        if !is_overflow {
            self.oracle.begin(cpu);
        }
        program();
        self.active.set(before);
    }

    fn new_process(&self, tgid: u32, start_ns: u64) -> usize {
        let mut processes = self.processes.borrow_mut();
        processes.push(Process { tgid, start_ns, ..Process::default() });
        processes.len() - 1
    }

    fn new_task(&self, process: usize, tid: u32, start_ns: u64) -> TaskId {
        let mut processes = self.processes.borrow_mut();
        processes[process].live += 1;
        processes[process].threads += 1;
        let (tgid, address) = (processes[process].tgid, start_ns);
        let task = Task { tid, tgid, process, start_ns, address, ..Task::default() };
        self.tasks.borrow_mut().push(task);
        self.tasks.borrow().len() - 1
    }

    /// All other threads of its process have given back their tids.
    fn is_alone(&self, task: TaskId) -> bool {
        let tasks = self.tasks.borrow();
        let process = tasks[task].process;
        let others = tasks.iter().enumerate().filter(|&(other, _)| other != task);
        others.filter(|(_, t)| t.process == process).all(|(_, t)| t.released || t.dead)
    }

    /// The lowest id that is free, so that ids come back soon. A process's own is taken as long as
    /// it has threads, or is in the map: the programs tell processes by it.
    fn new_tid(&self) -> u32 {
        let tasks = self.tasks.borrow();
        let tid = |task: &Task| if task.released { task.tgid } else { task.tid };
        let ids = |task: &Task| [tid(task), task.tgid, task.old_tid.unwrap_or_default()];
        let mut taken: HashSet<u32> = tasks.iter().filter(|t| !t.dead).flat_map(ids).collect();
        taken.extend(self.maps.processes.borrow().keys());
        (1..).find(|id| !taken.contains(id)).unwrap_or_default()
    }

    fn next_ns(&self) -> u64 {
        self.clock_ns.set(self.clock_ns.get() + 1);
        self.clock_ns.get()
    }

    fn bury(&self, task: TaskId) {
        self.change(task, |task| task.dead = true);
        let process = self.task(task).process;
        self.processes.borrow_mut()[process].threads -= 1;
    }
}

fn idle(cpu: usize) -> Task {
    Task { address: u64::MAX - cpu as u64, busy: true, ..Task::default() }
}

/// Adds up what several spent.
pub fn add_spent(to: &mut super::oracle::Spent, by: &super::oracle::Spent) {
    for (to, by) in to.iter_mut().zip(by) {
        *to = sum(*to, *by);
    }
}
