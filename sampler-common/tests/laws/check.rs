//! The conservation laws, checked on a machine that is in no switch: exactly, in integers.

use super::cell::Probe;
use super::machine::{Machine, Sample, TaskId, add_spent};
use super::oracle::{Owner, Spent};
use super::{EVENTS, is_read};
use sampler_common::abi::{self, Thread, pack_ids};

impl Machine {
    /// Checks both laws for each process, and each descriptor against the truth.
    pub fn check(&self) {
        for thread in self.live_descriptors() {
            let task = self.task_of(thread.ids.peek(), thread.start_ns.peek());
            self.check_thread(task, thread);
        }
        for process in 0..self.processes.borrow().len() {
            if self.processes.borrow()[process].measured {
                self.check_process(process);
            }
        }
    }

    /// Everything that descriptors and processes have counted.
    pub fn counted(&self) -> u64 {
        let of_threads = self.live_descriptors().flat_map(|thread| &thread.events);
        let of_threads: u64 = of_threads.map(|counts| counts.count.peek()).sum();
        let processes = 0..self.processes.borrow().len();
        let totals = processes.filter_map(|process| self.totals(process)).flatten();
        of_threads + totals.map(|totals| totals.exited + totals.unattributed).sum::<u64>()
    }

    /// Checks that nothing is left: all measured threads have ended.
    pub fn check_over(&self) {
        assert_eq!(self.live_descriptors().count(), 0, "descriptors leak");
        assert!(self.maps.threads.borrow().is_empty(), "tasks are left");
        for (tgid, process) in self.maps.processes.borrow().iter() {
            assert_ne!(process.undescribed.peek(), 0, "process {tgid} is left");
            assert_eq!(process.descriptors.peek(), 0, "descriptors of process {tgid}");
        }
        // CPUs that ask for the last one at once may each count up.
        let peak = self.maps.control.next_slot.peek().min(self.config.capacity as u64);
        let mut free = self.maps.free.borrow().clone();
        free.sort_unstable();
        assert!(
            free.iter().copied().map(u64::from).eq(0..peak),
            "each descriptor is free once: {free:?}"
        );
    }

    /// Checks a descriptor against what its thread really spent, and against its samples.
    pub fn check_thread(&self, task: TaskId, thread: &Thread<Probe>) {
        let truth = self.oracle.spent(Owner::Thread(task));
        let all = self.samples.borrow();
        let own = |sample: &&Sample| sample.task == task && sample.described;
        let samples: Vec<&Sample> = all.iter().filter(own).collect();
        let lost = samples.iter().filter(|sample| !sample.delivered).count();
        let delivered = samples.len() - lost;
        assert_eq!(thread.samples.peek(), delivered as u64, "samples of task {task}");
        assert_eq!(thread.lost_samples.peek(), lost as u64, "lost samples of task {task}");
        for (event, (counts, truth)) in thread.events.iter().zip(&truth).enumerate() {
            // Written when it fails only: this is checked very often.
            let what = format_args!("event {event} of task {task}");
            assert_eq!(counts.count.peek(), truth.count, "count, {what}");
            assert_eq!(counts.enabled_ns.peek(), truth.enabled_ns, "time enabled, {what}");
            assert_eq!(counts.running_ns.peek(), truth.running_ns, "time running, {what}");
            let of_event = || samples.iter().filter(|sample| sample.event == event);
            let taken: u64 = of_event().map(|sample| sample.weight).sum();
            let lost: u64 = of_event().filter(|sample| !sample.delivered).map(|s| s.weight).sum();
            let stood_for = counts.sampled.peek() + counts.carried.peek();
            assert_eq!(stood_for, taken, "weights, {what}");
            assert_eq!(counts.lost.peek(), lost, "lost weights, {what}");
        }
    }

    /// The thread with these ids and this start.
    pub fn task_of(&self, ids: u64, start_ns: u64) -> TaskId {
        let tasks = self.tasks.borrow();
        // The last one: the thread that calls `exec` takes over ids and start of the main thread.
        let task = tasks
            .iter()
            .rposition(|task| pack_ids(task.tgid, task.tid) == ids && task.start_ns == start_ns);
        task.expect("a descriptor belongs to a thread")
    }

    /// The descriptors in use.
    pub fn live_descriptors(&self) -> impl Iterator<Item = &Thread<Probe>> {
        self.maps.slots.iter().filter(|slot| slot.state.peek() == Thread::<()>::LIVE)
    }

    fn check_process(&self, process: usize) {
        let tgid = self.processes.borrow()[process].tgid;
        let totals = self.totals(process).expect("a measured process is in the map, or has ended");
        let exited = self.spent_by_retired(process);
        let unattributed = self.oracle.spent(Owner::Unattributed(process));
        let live: Vec<&Thread<Probe>> = self
            .live_descriptors()
            .filter(|thread| abi::unpack_ids(thread.ids.peek()).0 == tgid)
            .collect();
        let ended = self.processes.borrow()[process].end.is_some();
        let live = if ended { Vec::new() } else { live };
        let truth = self.truth(process);
        for event in 0..EVENTS {
            let what = format_args!("event {event} of process {process}");
            let totals = &totals[event];
            assert_eq!(totals.exited, exited[event].count, "exited, {what}");
            assert_eq!(totals.unattributed, unattributed[event].count, "unattributed, {what}");
            let enabled_ns = exited[event].enabled_ns + unattributed[event].enabled_ns;
            assert_eq!(totals.enabled_ns, enabled_ns, "time enabled, {what}");
            let running_ns = exited[event].running_ns + unattributed[event].running_ns;
            assert_eq!(totals.running_ns, running_ns, "time running, {what}");

            let of_live = |field: fn(&abi::EventCounts<Probe>) -> u64| -> u64 {
                live.iter().map(|thread| field(&thread.events[event])).sum()
            };
            let live_count = of_live(|counts| counts.count.peek());
            let count = live_count + totals.exited + totals.unattributed;
            let residual = live_count - of_live(|counts| counts.sampled.peek());
            let (sampled, lost) = self.weights(process, event);
            assert_eq!(totals.lost, lost, "lost, {what}");
            assert_eq!(count, sampled + residual + totals.carry + lost, "second law, {what}");
            assert_eq!(count, truth[event].count, "first law, {what}");
        }
    }

    /// The totals of a process: as its end told them, or as they are in the map. `None` when it is
    /// not measured.
    fn totals(&self, process: usize) -> Option<[abi::Totals<u64>; EVENTS]> {
        let tgid = self.processes.borrow()[process].tgid;
        if let Some(end) = self.processes.borrow()[process].end {
            return Some(end);
        }
        let processes = self.maps.processes.borrow();
        let totals = &processes.get(&tgid)?.events;
        Some(std::array::from_fn(|event| abi::Totals {
            exited: totals[event].exited.peek(),
            unattributed: totals[event].unattributed.peek(),
            carry: totals[event].carry.peek(),
            lost: totals[event].lost.peek(),
            enabled_ns: totals[event].enabled_ns.peek(),
            running_ns: totals[event].running_ns.peek(),
        }))
    }

    fn spent_by_retired(&self, process: usize) -> Spent {
        let mut spent = Spent::default();
        for &task in &self.processes.borrow()[process].retired {
            add_spent(&mut spent, &self.oracle.spent(Owner::Thread(task)));
        }
        spent
    }

    /// What a process really spent.
    fn truth(&self, process: usize) -> Spent {
        let mut spent = self.oracle.spent(Owner::Unattributed(process));
        for (task, _) in
            self.tasks.borrow().iter().enumerate().filter(|(_, task)| task.process == process)
        {
            add_spent(&mut spent, &self.oracle.spent(Owner::Thread(task)));
        }
        spent
    }

    /// Weights of a process's samples: delivered, and lost.
    fn weights(&self, process: usize, event: usize) -> (u64, u64) {
        let mut weights = (0, 0);
        for sample in self.samples.borrow().iter().filter(|sample| sample.event == event) {
            if self.task(sample.task).process == process {
                let sum = if sample.delivered { &mut weights.0 } else { &mut weights.1 };
                *sum += sample.weight;
            }
        }
        debug_assert!(is_read(event) || weights == (0, 0), "what is not read does not overflow");
        weights
    }
}
