//! Threads that live as long as the window, and their clocks.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use rustix::thread::gettid;
use sampler_tests::{
    clock::thread_ns,
    protocol::{ThreadTruth, Truth},
};

use crate::{
    control::Session,
    gate::{Gate, Phase},
    work::Usage,
};

/// Small, so that ten thousand of them fit.
const STACK_BYTES: usize = 64 * 1024;

/// The threads of a workload.
#[derive(Default)]
pub struct Team {
    gate: Arc<Gate>,
    members: Vec<Member>,
}

struct Member {
    name: String,
    tid: u32,
    base_ns: u64,
    told: Arc<Told>,
    handle: JoinHandle<()>,
}

/// What only a thread itself can look up.
#[derive(Default)]
struct Told {
    faults: AtomicU64,
    switches: AtomicU64,
}

impl Team {
    /// Starts a thread that sleeps until the window begins and then does `work`.
    pub fn add(
        &mut self,
        name: &str,
        work: impl FnOnce(&Arc<Gate>) + Send + 'static,
    ) -> Result<()> {
        let (gate, told) = (Arc::clone(&self.gate), Arc::new(Told::default()));
        let (send, receive) = mpsc::channel();
        let teller = Arc::clone(&told);
        let body = move || {
            // Fails only when the receiver has given up on the whole workload.
            let _ = send.send(gettid().as_raw_pid().cast_unsigned());
            gate.wait_for(Phase::Work);
            let begin = Usage::of_this_thread();
            work(&gate);
            teller.tell(begin, Usage::of_this_thread());
            gate.park();
        };
        let builder = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
        let handle = builder.spawn(body).with_context(|| format!("starting thread {name}"))?;
        let tid = receive.recv().context("a thread ended before it began")?;
        self.members.push(Member { name: name.to_owned(), tid, base_ns: 0, told, handle });
        Ok(())
    }

    /// Its threads by name.
    pub fn tids(&self) -> BTreeMap<String, u32> {
        self.members.iter().map(|m| (m.name.clone(), m.tid)).collect()
    }

    /// Runs the whole protocol: ready, the window, the truth with what `more` adds to it.
    pub fn run(
        mut self,
        mut session: Session,
        seconds: f64,
        more: impl Fn(&mut Truth),
    ) -> Result<()> {
        session.begin(self.tids(), |session| self.truth(session, &more))?;
        self.start()?;
        session.run_for(seconds, |session| self.truth(session, &more))?;
        self.finish(session, more)
    }

    /// Begins the window.
    pub fn start(&mut self) -> Result<()> {
        for member in &mut self.members {
            member.base_ns = thread_ns(member.tid)?;
        }
        self.gate.set(Phase::Work);
        Ok(())
    }

    /// Ends the window, reads the clocks while they stand still, and lets the threads go.
    pub fn finish(self, session: Session, more: impl Fn(&mut Truth)) -> Result<()> {
        self.gate.set(Phase::Park);
        self.gate.wait_parked(u32::try_from(self.members.len())?);
        let truth = self.truth(&session, &more)?;
        self.gate.set(Phase::Leave);
        for member in self.members {
            member.handle.join().ok().with_context(|| format!("{} panicked", member.name))?;
        }
        session.end(truth)
    }

    /// Waits until each thread has done its work, without an end of the window.
    pub fn wait_done(&self) -> Result<()> {
        self.gate.wait_parked(u32::try_from(self.members.len())?);
        Ok(())
    }

    /// What the clocks say now.
    pub fn truth(&self, session: &Session, more: impl Fn(&mut Truth)) -> Result<Truth> {
        let mut truth = session.truth()?;
        for member in &self.members {
            truth.threads.insert(member.name.clone(), member.truth()?);
        }
        more(&mut truth);
        Ok(truth)
    }
}

impl Member {
    fn truth(&self) -> Result<ThreadTruth> {
        Ok(ThreadTruth {
            tid: self.tid,
            cpu_ns: thread_ns(self.tid)?.saturating_sub(self.base_ns),
            faults: self.told.faults.load(Ordering::Acquire),
            switches: self.told.switches.load(Ordering::Acquire),
        })
    }
}

impl Told {
    fn tell(&self, begin: Usage, end: Usage) {
        self.faults.store(end.faults - begin.faults, Ordering::Release);
        self.switches.store(end.switches - begin.switches, Ordering::Release);
    }
}
