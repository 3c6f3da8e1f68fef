//! What the BPF programs do (`sampler-ebpf/src`), on the machine's cells: the same calls of the
//! same arithmetic in the same order. Filters by thread, names and call chains are left out.

use super::cell::Probe;
use super::machine::{Machine, Sample, Task, TaskId};
use super::oracle::Owner;
use super::{EVENTS, SOURCES, is_read};
use sampler_common::abi::{
    self, Cpu, Process, Reading, Thread, Totals, flag, pack_ids, source, unpack_ids,
};
use sampler_common::account::{Hit, bump};
use sampler_common::cell::Cell;
use std::rc::Rc;

const NOBODY: u64 = Cpu::<()>::NOBODY;
const UNATTRIBUTED: u64 = Cpu::<()>::UNATTRIBUTED;
const ONE: Reading = Reading { count: 1, enabled_ns: 0, running_ns: 0 };

/// When a thread is seen for the first time.
#[derive(Clone, Copy)]
enum Seen {
    OffCpu,
    Running,
    Leaving,
}

impl Machine {
    pub fn on_switch(&self, c: usize, prev: TaskId, next: TaskId, dies: bool) {
        let cpu = &self.maps.cpus[c];
        let seen = cpu.task.get();
        cpu.task.set(self.task(next).address);
        if seen != self.task(prev).address {
            cpu.begin();
            let process = if self.enabled() { self.measured(prev) } else { None };
            self.resynchronize(c, prev, process);
            cpu.end();
        }
        let next_process = if self.enabled() { self.measured(next) } else { None };
        let ran = cpu.running.get() != NOBODY;
        if !ran && next_process.is_none() {
            return;
        }
        cpu.begin();
        if ran {
            self.leave(c, prev, dies);
        }
        match next_process {
            Some(process) if ran => self.enter(c, next, &process, Seen::OffCpu),
            Some(process) => self.enter_fresh(c, next, &process, Seen::OffCpu),
            None => self.nobody_runs(c),
        }
        cpu.end();
    }

    pub fn on_overflow(&self, c: usize, event: usize, delivered: bool) {
        let cpu = &self.maps.cpus[c];
        let hit = cpu.hit(self.task(self.current(c)).address);
        let truth = self.oracle.owner(c);
        match hit {
            Hit::Nobody => assert_eq!(truth, Owner::Nobody),
            Hit::InSwitch => self.hits_in_switch.set(self.hits_in_switch.get() + 1),
            Hit::Unattributed => {
                assert!(matches!(truth, Owner::Unattributed(_)), "{truth:?}");
                self.sample_unattributed(c, event, delivered);
            }
            Hit::Thread(index) => {
                // The call chain is that of the interrupted thread, also while exec gives it another
                // tid, before the programs are told.
                let Owner::Thread(owner) = truth else { panic!("{truth:?} has a descriptor") };
                assert_eq!(self.task(owner).address, self.task(self.current(c)).address);
                self.sample(c, event, &self.maps.slots[index as usize], delivered);
            }
        }
    }

    pub fn on_fork(&self, parent: TaskId, child: TaskId) {
        if !self.enabled() || self.process(self.task(parent).tgid).is_none() {
            return;
        }
        let process = self.task(child).process;
        self.measure(process);
        if let Some(process) = self.process(self.task(child).tgid)
            && self.create(child, &process, Seen::OffCpu).is_none()
        {
            process.undescribed.add(1);
        }
    }

    pub fn on_exit(&self, task: TaskId) {
        let of_task = self.task(task).process;
        if let Some(process) = self.process(self.task(task).tgid)
            && self.processes.borrow()[of_task].live == 0
        {
            process.flags.set(process.flags.get() | flag::ENDING);
        }
    }

    pub fn on_exec(&self, c: usize, task: TaskId, old_tid: u32) {
        let cpu = &self.maps.cpus[c];
        let renamed = old_tid != self.task(task).tid;
        if self.process(self.task(task).tgid).is_none() || !self.enabled() || !renamed {
            return;
        }
        cpu.begin();
        let ran = cpu.running.get() != NOBODY;
        if ran {
            self.credit_running(c);
        }
        if let Some((index, thread)) = self.find(task)
            && thread.ids.get() != self.ids(task)
        {
            self.nobody_runs(c);
            self.retire(index, thread, task);
        }
        match self.measured(task) {
            Some(process) if ran => self.enter(c, task, &process, Seen::Running),
            Some(process) => self.enter_fresh(c, task, &process, Seen::Running),
            None => self.nobody_runs(c),
        }
        cpu.end();
    }

    pub fn on_snapshot(&self, c: usize) {
        let cpu = &self.maps.cpus[c];
        assert!(!cpu.is_busy(), "no program is running");
        cpu.begin();
        if cpu.task.get() == 0 {
            cpu.task.set(self.task(self.current(c)).address);
        }
        let running = cpu.running.get();
        let ran = running != NOBODY;
        if ran {
            self.credit_running(c);
        }
        if !self.enabled() {
            self.nobody_runs(c);
        } else if !ran || running == UNATTRIBUTED {
            let current = self.current(c);
            match self.measured(current) {
                Some(process) if ran => self.enter(c, current, &process, Seen::Running),
                Some(process) => self.enter_fresh(c, current, &process, Seen::Running),
                None => {}
            }
        }
        cpu.end();
    }

    fn enabled(&self) -> bool {
        self.maps.control.enabled.get() != 0
    }

    fn process(&self, tgid: u32) -> Option<Rc<Process<Probe>>> {
        super::cell::step();
        self.maps.processes.borrow().get(&tgid).cloned()
    }

    fn measured(&self, task: TaskId) -> Option<Rc<Process<Probe>>> {
        let tgid = self.task(task).tgid;
        self.process(tgid)
    }

    fn ids(&self, task: TaskId) -> u64 {
        let task = self.task(task);
        pack_ids(task.tgid, task.tid)
    }

    /// The index of a descriptor, as the map's bounds check finds it.
    fn slot(&self, running: u64) -> Option<&Thread<Probe>> {
        self.maps.slots.get(running.wrapping_sub(1) as u32 as usize)
    }

    fn runs(&self, c: usize, running: u64, task: TaskId) {
        self.maps.cpus[c].run(running, self.ids(task));
        let owner = match running {
            UNATTRIBUTED => Owner::Unattributed(self.task(task).process),
            _ => Owner::Thread(task),
        };
        self.oracle.own(c, owner, (0..EVENTS).filter(|&event| is_read(event)));
    }

    fn nobody_runs(&self, c: usize) {
        self.maps.cpus[c].run(NOBODY, 0);
        self.oracle.own(c, Owner::Nobody, std::iter::empty());
    }

    fn credit_running(&self, c: usize) {
        let running = self.maps.cpus[c].running.get();
        if running == UNATTRIBUTED {
            if let Some(process) = self.process(unpack_ids(self.maps.cpus[c].ids.get()).0) {
                self.credit_process(c, &process);
            }
        } else if let Some(thread) = self.slot(running) {
            self.credit_clocks(thread, thread.advance_clock(self.clock_advance(c, None)));
            self.credit_counters(c, thread);
        }
    }

    fn credit_event(&self, c: usize, thread: &Thread<Probe>, event: usize) {
        if SOURCES[event] == source::CLOCK {
            self.credit_clocks(thread, thread.advance_clock(self.clock_advance(c, None)));
        } else if let Some(now) = self.read(c, event) {
            thread.events[event].credit(self.maps.cpus[c].last[event].advance(now));
        }
    }

    fn credit_counters(&self, c: usize, thread: &Thread<Probe>) {
        let last = self.maps.cpus[c].last.iter();
        for (event, (last, counts)) in last.zip(&thread.events).enumerate().take(EVENTS) {
            if let Some(now) = self.read(c, event) {
                counts.credit(last.advance(now));
            }
        }
    }

    fn credit_clocks(&self, thread: &Thread<Probe>, ns: u64) {
        for (event, counts) in thread.events.iter().enumerate().take(EVENTS) {
            if SOURCES[event] == source::CLOCK {
                bump(&counts.count, ns);
            }
        }
    }

    fn credit_process(&self, c: usize, process: &Process<Probe>) {
        self.credit_process_clocks(process, self.clock_advance(c, None));
        let last = self.maps.cpus[c].last.iter();
        for (event, (last, totals)) in last.zip(&process.events).enumerate().take(EVENTS) {
            if let Some(now) = self.read(c, event) {
                totals.credit(last.advance(now));
            }
        }
    }

    fn credit_process_event(&self, c: usize, process: &Process<Probe>, event: usize) {
        if SOURCES[event] == source::CLOCK {
            self.credit_process_clocks(process, self.clock_advance(c, None));
        } else if let Some(now) = self.read(c, event) {
            process.events[event].credit(self.maps.cpus[c].last[event].advance(now));
        }
    }

    fn credit_process_clocks(&self, process: &Process<Probe>, ns: u64) {
        for (event, totals) in process.events.iter().enumerate().take(EVENTS) {
            if SOURCES[event] == source::CLOCK {
                totals.credit(Reading { count: ns, ..Reading::default() });
            }
        }
    }

    /// `account_ns` is for the oracle: the scheduler's account of the thread, if it leaves.
    fn clock_advance(&self, c: usize, account_ns: Option<u64>) -> u64 {
        let now = self.read_clock(c, account_ns);
        let cpu = &self.maps.cpus[c];
        let seen_ns = now.wrapping_sub(cpu.clock_ns.get());
        cpu.clock_ns.set(now);
        seen_ns
    }

    fn start(&self, c: usize) {
        self.clock_advance(c, None);
        for (event, last) in self.maps.cpus[c].last.iter().enumerate().take(EVENTS) {
            if let Some(now) = self.read(c, event) {
                last.start(now);
            }
        }
    }

    fn leave(&self, c: usize, prev: TaskId, dead: bool) {
        let cpu = &self.maps.cpus[c];
        let running = cpu.running.get();
        let (tgid, _) = unpack_ids(cpu.ids.get());
        let owner = self.oracle.owner(c);
        if running == UNATTRIBUTED {
            if let Some(process) = self.process(tgid) {
                self.credit_process(c, &process);
                self.count_one_unattributed(&process, source::SWITCHES);
                self.spend_one(owner, source::SWITCHES);
            }
        } else if let Some(thread) = self.slot(running) {
            let account_ns = self.task(prev).exec_ns;
            let seen_ns = self.clock_advance(c, Some(account_ns));
            self.credit_clocks(thread, thread.settle_clock(account_ns, seen_ns));
            self.credit_counters(c, thread);
            self.count_one(thread, source::SWITCHES);
            self.spend_one(owner, source::SWITCHES);
            if dead {
                self.nobody_runs(c);
                self.retire(running.wrapping_sub(1) as u32, thread, prev);
            }
        }
    }

    fn resynchronize(&self, c: usize, prev: TaskId, process: Option<Rc<Process<Probe>>>) {
        if self.maps.cpus[c].running.get() != NOBODY {
            self.credit_running(c);
            self.nobody_runs(c);
        }
        if let Some(process) = process {
            self.enter_fresh(c, prev, &process, Seen::Leaving);
        }
    }

    fn enter(&self, c: usize, next: TaskId, process: &Process<Probe>, seen: Seen) {
        match self.find_or_create(next, process, seen) {
            Some((index, thread)) => {
                if thread.arrive(c as u32) {
                    self.count_one(thread, source::MIGRATIONS);
                }
                let ran_on = self.change(next, |task| task.ran_on.replace(c));
                if ran_on.is_some_and(|ran_on| ran_on != c) {
                    self.spend_one(Owner::Thread(next), source::MIGRATIONS);
                }
                self.runs(c, u64::from(index) + 1, next);
            }
            None => {
                process.undescribed.add(1);
                self.runs(c, UNATTRIBUTED, next);
            }
        }
    }

    fn enter_fresh(&self, c: usize, next: TaskId, process: &Process<Probe>, seen: Seen) {
        self.start(c);
        self.enter(c, next, process, seen);
    }

    fn count_one(&self, thread: &Thread<Probe>, what: u32) {
        for (event, counts) in thread.events.iter().enumerate().take(EVENTS) {
            if SOURCES[event] == what {
                bump(&counts.count, 1);
            }
        }
    }

    fn count_one_unattributed(&self, process: &Process<Probe>, what: u32) {
        for (event, totals) in process.events.iter().enumerate().take(EVENTS) {
            if SOURCES[event] == what {
                totals.credit(ONE);
            }
        }
    }

    /// Tells the oracle.
    fn spend_one(&self, owner: Owner, what: u32) {
        for event in (0..EVENTS).filter(|&event| SOURCES[event] == what) {
            self.oracle.spend(owner, event, ONE);
        }
    }

    fn find_or_create(
        &self,
        task: TaskId,
        process: &Process<Probe>,
        seen: Seen,
    ) -> Option<(u32, &Thread<Probe>)> {
        if let Some((index, thread)) = self.find(task) {
            let start_ns = self.task(task).start_ns;
            if thread.start_ns.get() == start_ns && thread.ids.get() == self.ids(task) {
                return Some((index, thread));
            }
            process.descriptors.add(1);
            self.retire(index, thread, task);
            let created = self.create(task, process, seen);
            process.descriptors.add(u64::MAX);
            return created;
        }
        self.create(task, process, seen)
    }

    fn find(&self, task: TaskId) -> Option<(u32, &Thread<Probe>)> {
        super::cell::step();
        let index = *self.maps.threads.borrow().get(&self.task(task).address)?;
        Some((index, self.slot(u64::from(index) + 1)?))
    }

    fn create(
        &self,
        task: TaskId,
        process: &Process<Probe>,
        seen: Seen,
    ) -> Option<(u32, &Thread<Probe>)> {
        let index = self.take_free()?;
        let thread = self.slot(u64::from(index) + 1)?;
        let Task { address, start_ns, exec_ns, .. } = self.task(task);
        let account_ns = match seen {
            Seen::OffCpu | Seen::Leaving => Some(exec_ns),
            Seen::Running => None,
        };
        let exec_ns = account_ns.unwrap_or(Thread::<()>::UNKNOWN);
        thread.assign(self.ids(task), start_ns, exec_ns, EVENTS);
        self.oracle.start_clock(task, account_ns);
        self.change(task, |task| task.ran_on = None);
        super::cell::step();
        self.maps.threads.borrow_mut().insert(address, index);
        process.descriptors.add(1);
        Some((index, thread))
    }

    fn take_free(&self) -> Option<u32> {
        super::cell::step();
        if let Some(index) = self.maps.free.borrow_mut().pop() {
            return Some(index);
        }
        let capacity = self.config.capacity as u64;
        let next = &self.maps.control.next_slot;
        if next.get() >= capacity {
            return None;
        }
        let index = next.add(1);
        (index < capacity).then_some(index as u32)
    }

    fn retire(&self, index: u32, thread: &Thread<Probe>, task: TaskId) {
        let (tgid, tid) = unpack_ids(thread.ids.get());
        let Some(process) = self.process(tgid) else {
            panic!("a descriptor of thread {tid} outlives process {tgid}");
        };
        self.note_thread_end(thread);
        thread.retire(&process, EVENTS);
        process.exited_threads.add(1);
        super::cell::step();
        let removed = self.maps.threads.borrow_mut().remove(&self.task(task).address);
        assert_eq!(removed, Some(index), "the descriptor of thread {tid} is found by its task");
        super::cell::step();
        self.maps.free.borrow_mut().push(index);
        if process.descriptors.add(u64::MAX) == 1 {
            self.end_if_over(tgid, &process);
        }
    }

    /// The message with a thread's final counts.
    fn note_thread_end(&self, thread: &Thread<Probe>) {
        let (ids, start_ns) = (thread.ids.peek(), thread.start_ns.peek());
        let task = self.task_of(ids, start_ns);
        let process = self.task(task).process;
        self.processes.borrow_mut()[process].retired.push(task);
        self.check_thread(task, thread);
    }

    fn end_if_over(&self, tgid: u32, process: &Process<Probe>) {
        if process.flags.get() & flag::ENDING == 0 || process.undescribed.get() != 0 {
            return;
        }
        let end = process.events.each_ref().map(|totals| Totals {
            exited: totals.exited.get(),
            unattributed: totals.unattributed.get(),
            carry: totals.carry.get(),
            lost: totals.lost.get(),
            enabled_ns: totals.enabled_ns.get(),
            running_ns: totals.running_ns.get(),
        });
        super::cell::step();
        let removed = self.maps.processes.borrow_mut().remove(&tgid);
        assert!(removed.is_some(), "process {tgid} ends once");
        self.note_process_end(tgid, &end);
    }

    /// The message with a process's final totals.
    fn note_process_end(&self, tgid: u32, end: &[abi::Totals<u64>]) {
        let mut processes = self.processes.borrow_mut();
        let process = processes.iter_mut().rfind(|process| process.tgid == tgid);
        let process = process.expect("a process that ends has begun");
        let end = std::array::from_fn(|event| end[event]);
        assert!(process.live == 0, "process {tgid} has threads that live");
        assert!(process.end.replace(end).is_none(), "process {tgid} ends once");
    }

    fn sample_unattributed(&self, c: usize, event: usize, delivered: bool) {
        let Some(process) = self.process(unpack_ids(self.maps.cpus[c].ids.get()).0) else {
            panic!("a thread that is measured has a process");
        };
        let totals = &process.events[event];
        self.credit_process_event(c, &process, event);
        let weight = totals.carry.take();
        if weight == 0 {
            return;
        }
        let task = self.current(c);
        self.samples.borrow_mut().push(Sample { task, event, weight, delivered, described: false });
        if !delivered {
            totals.lost.add(weight);
        }
    }

    fn sample(&self, c: usize, event: usize, thread: &Thread<Probe>, delivered: bool) {
        let cpu = &self.maps.cpus[c];
        let Some(process) = self.process(unpack_ids(cpu.ids.get()).0) else {
            panic!("a thread with a descriptor has a process");
        };
        let (counts, totals) = (&thread.events[event], &process.events[event]);
        self.credit_event(c, thread, event);
        let weight = counts.take_sample(totals);
        if weight == 0 {
            return;
        }
        let task = self.task_of(thread.ids.peek(), thread.start_ns.peek());
        self.samples.borrow_mut().push(Sample { task, event, weight, delivered, described: true });
        if delivered {
            bump(&thread.samples, 1);
        } else {
            bump(&thread.lost_samples, 1);
            counts.lose_sample(totals, weight);
        }
    }
}
