//! A session from beginning to end: everything is armed, then counting starts everywhere at once;
//! it stops when the targets have ended, the time is up or somebody says so; then the account is
//! drawn up.
//!
//! Three tasks: one drains the rings and owns what they lead to, one watches the targets and the
//! signals, and the one that calls keeps time.

use super::bpf::{Programs, Settings};
use super::collector::{Collector, Progress, Scope, Sink};
use super::command::HeldCommand;
use super::counters::Counters;
use super::error::CaptureError;
use super::requirements;
use super::ring::{Purpose, Ring};
use super::target::{Target, Targets};
use super::tasks::{Request, Stop, Watched, collect, log_programs, watch};
use crate::model::event::Event;
use crate::model::ledger::{Ledger, Options};
use crate::model::report::Report;
use rustc_hash::FxHashSet;
use sampler_common::abi::flag;
use std::ffi::OsString;
use std::future::pending;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::time::Duration;
use std::{fs, io};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

/// How often the observer is told of the progress.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whom.
    pub targets: Targets,
    /// A command to start. It is what is measured with [`Targets::Command`]; otherwise its end ends
    /// the session.
    pub command: Option<Vec<OsString>>,
    /// The events.
    pub events: Vec<Event>,
    /// Samples carry call chains.
    pub chains: bool,
    /// Children and new threads are measured too.
    pub inherit: bool,
    /// Descriptors there are.
    pub max_threads: u32,
    /// List finished threads one by one.
    pub all_threads: bool,
    /// How long, if not until the targets end.
    pub duration: Option<Duration>,
    /// Report in intervals.
    pub interval: Option<Duration>,
    /// The BPF programs' debug messages are logged.
    pub debug: bool,
}

/// Is told how a session goes.
pub trait Observer {
    /// Counting has started.
    fn started(&mut self);
    /// Something has happened. Called twice a second.
    fn progress(&mut self, progress: Progress, elapsed: Duration);
    /// An interval is over; the times are since the start.
    ///
    /// # Errors
    /// When the report can't be shown: the session ends.
    fn interval(&mut self, report: Report, start: Duration, end: Duration) -> io::Result<()>;
}

/// How a session ended.
#[derive(Debug)]
pub enum Outcome {
    /// As planned: the account, and how the command ended, if there was one and it has.
    Finished(Box<Report>, Option<ExitStatus>),
    /// At once, at the second signal: there is no account.
    Aborted,
}

/// A session that is armed, and counts nothing yet.
pub struct Session {
    plan: Plan,
    programs: Programs,
    rings: Vec<Ring>,
    ledger: Ledger,
    scope: Scope,
    counters: Counters,
    targets: Vec<Target>,
    held: Option<HeldCommand>,
}

impl Session {
    /// Checks what is needed, loads the programs and opens the events. An event that can be counted
    /// but not sampled has its sampling turned off; see [`events`](Self::events).
    ///
    /// # Errors
    /// When anything is missing, not permitted or not there; nothing is left behind.
    pub fn arm(mut plan: Plan) -> Result<Self, CaptureError> {
        requirements::check()?;
        requirements::raise_file_limit();
        let mut targets = resolve(&plan.targets)?;
        let everything = plan.targets == Targets::Everything;
        let selected =
            !everything && (matches!(plan.targets, Targets::Threads(_)) || !plan.inherit);
        let mut programs = Programs::load(Settings {
            events: &plan.events,
            everything,
            selected,
            inherit: plan.inherit,
            chains: plan.chains,
            max_threads: plan.max_threads,
            debug: plan.debug,
        })?;
        let lives = open_rings(&programs, Purpose::Lives)?;
        let samples = open_rings(&programs, Purpose::Samples)?;
        let counters = Counters::open(&programs, &mut plan.events, &lives)?;
        let held = plan.command.as_deref().map(HeldCommand::fork).transpose()?;
        if let (Targets::Command, Some(command)) = (&plan.targets, &held) {
            targets.push(Target::process(command.tgid)?);
        }
        programs.attach()?;
        let events = plan.events.clone();
        let mut session = Self {
            ledger: Ledger::new(Options { events, all_threads: plan.all_threads }),
            scope: Scope {
                everything,
                inherit: plan.inherit,
                selected: selected.then(FxHashSet::default),
            },
            rings: lives.into_iter().chain(samples).map(|(_, ring)| ring).collect(),
            plan,
            programs,
            counters,
            targets: Vec::new(),
            held,
        };
        for target in &targets {
            session.follow(target)?;
        }
        session.targets = targets;
        Ok(session)
    }

    /// The events as they are measured.
    pub fn events(&self) -> &[Event] {
        &self.plan.events
    }

    /// Counts until the end, and draws up the account. Records go to `sink`, if there is one.
    ///
    /// # Errors
    /// When the command can't be run, the sink fails, or the kernel refuses what it has allowed
    /// before.
    pub async fn run(
        mut self,
        sink: Option<Box<dyn Sink>>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, CaptureError> {
        let logging = self.plan.debug.then(|| log_programs(self.programs.ebpf_mut())).flatten();
        let existing = self.existing()?;
        let mut collector = Collector::new(
            self.programs,
            self.rings,
            self.ledger,
            self.scope,
            self.plan.events.clone(),
            sink,
        )?;
        collector.open(&existing)?;
        // From here on the watcher answers to signals.
        let (tell_stop, stops) = mpsc::channel(2);
        let mut watched = Watched::new(self.targets, collector.live_threads())?;
        self.counters.enable()?;
        collector.start()?;
        watched.command = self.held.map(HeldCommand::release).transpose()?;
        collector.begin()?;
        observer.started();
        let started = Instant::now();
        let (requests, to_serve) = mpsc::channel(1);
        let running = Running {
            plan: &self.plan,
            started,
            requests,
            stops,
            collecting: tokio::spawn(collect(collector, to_serve)),
            watching: tokio::spawn(watch(watched, tell_stop)),
        };
        let outcome = running.keep_time(observer).await;
        if let Some(logging) = logging {
            logging.abort();
        }
        outcome
    }

    fn follow(&mut self, target: &Target) -> Result<(), CaptureError> {
        let tgid = target.tgid;
        let waits = self.held.as_ref().is_some_and(|command| command.tgid == tgid);
        let mut flags = if waits { flag::WAIT_FOR_EXEC } else { 0 };
        if let Some(selected) = &mut self.scope.selected {
            flags |= flag::SELECTED_THREADS;
            let tids = match target.tid {
                Some(tid) => vec![tid],
                None => target.threads()?,
            };
            for tid in tids {
                self.programs.select(tid)?;
                selected.insert(tid);
            }
        }
        self.programs.follow(tgid, flags)?;
        // A process that has ended meanwhile keeps its number for a name.
        let comm = fs::read(format!("/proc/{tgid}/comm")).unwrap_or_default();
        self.ledger.add_process(tgid, comm.trim_ascii_end());
        Ok(())
    }

    /// The processes that a recording must know from before.
    fn existing(&self) -> Result<Vec<u32>, CaptureError> {
        if self.scope.everything {
            return all_processes();
        }
        let command = self.held.as_ref().map(|command| command.tgid);
        Ok(self
            .targets
            .iter()
            .map(|target| target.tgid)
            .filter(|&tgid| Some(tgid) != command)
            .collect())
    }
}

/// A session that counts.
struct Running<'a> {
    plan: &'a Plan,
    started: Instant,
    requests: mpsc::Sender<Request>,
    stops: mpsc::Receiver<Stop>,
    collecting: JoinHandle<Result<(), CaptureError>>,
    watching: JoinHandle<Option<ExitStatus>>,
}

impl Running<'_> {
    async fn keep_time(mut self, observer: &mut dyn Observer) -> Result<Outcome, CaptureError> {
        self.until_stopped(observer).await?;
        let (reply, report) = oneshot::channel();
        // Sent to a task that has failed, it is dropped, and so is the reply.
        let _ = self.requests.send(Request::Finish(reply)).await;
        let report = tokio::select! {
            report = report => report,
            _ = second(&mut self.stops) => return Ok(Outcome::Aborted),
        };
        let Ok(report) = report else { return Err(self.collector_error().await) };
        // The watcher ends when nobody listens any more.
        self.stops.close();
        let status = self.watching.await.unwrap_or_default();
        Ok(Outcome::Finished(Box::new(report), status))
    }

    async fn until_stopped(&mut self, observer: &mut dyn Observer) -> Result<(), CaptureError> {
        let mut tell = interval_at(self.started + TELL_EVERY, TELL_EVERY);
        tell.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut every = self.plan.interval.map(|period| interval_at(self.started + period, period));
        let mut interval_start = Duration::ZERO;
        let end = self.plan.duration.map(|duration| self.started + duration);
        loop {
            tokio::select! {
                biased;
                _ = self.stops.recv() => break,
                () = async { match end { Some(end) => sleep_until(end).await, None => pending().await } } => break,
                _ = async { match &mut every { Some(every) => every.tick().await, None => pending().await } } => {
                    interval_start = self.tell_interval(observer, interval_start).await?;
                }
                _ = tell.tick() => {
                    let progress = self.ask(Request::Progress).await?;
                    observer.progress(progress, self.started.elapsed());
                }
                result = &mut self.collecting => return Err(ended_early(result)),
            }
        }
        if self.plan.interval.is_some() {
            self.tell_interval(observer, interval_start).await?;
        }
        Ok(())
    }

    async fn tell_interval(
        &mut self,
        observer: &mut dyn Observer,
        start: Duration,
    ) -> Result<Duration, CaptureError> {
        let end = self.started.elapsed();
        let report = self.ask(|reply| Request::Interval(end - start, reply)).await?;
        observer.interval(report, start, end).map_err(CaptureError::Show)?;
        Ok(end)
    }

    async fn ask<T>(
        &mut self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, CaptureError> {
        let (reply, answer) = oneshot::channel();
        let _ = self.requests.send(request(reply)).await;
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.collector_error().await),
        }
    }

    async fn collector_error(&mut self) -> CaptureError {
        ended_early((&mut self.collecting).await)
    }
}

/// A second signal; the end of the targets is none.
async fn second(stops: &mut mpsc::Receiver<Stop>) -> Stop {
    loop {
        match stops.recv().await {
            Some(Stop::Interrupted) => return Stop::Interrupted,
            Some(Stop::Ended) => {}
            None => pending().await,
        }
    }
}

fn ended_early(result: Result<Result<(), CaptureError>, tokio::task::JoinError>) -> CaptureError {
    match result {
        Ok(Err(error)) => error,
        Ok(Ok(())) => CaptureError::Collector(io::Error::other("it ended by itself")),
        Err(error) => CaptureError::Collector(io::Error::other(error)),
    }
}

fn resolve(targets: &Targets) -> Result<Vec<Target>, CaptureError> {
    match targets {
        Targets::Processes(tgids) => tgids.iter().map(|&tgid| Target::process(tgid)).collect(),
        Targets::Threads(tids) => tids.iter().map(|&tid| Target::thread(tid)).collect(),
        Targets::Everything | Targets::Command => Ok(Vec::new()),
    }
}

fn open_rings(programs: &Programs, purpose: Purpose) -> Result<Vec<(u32, Ring)>, CaptureError> {
    let cpus = programs.online_cpus();
    let open = |&cpu: &u32| {
        let failed = |source| CaptureError::Output { cpu, source };
        let ring = Ring::open(purpose, cpu, 2 * cpus.len()).map_err(failed)?;
        let map = programs.output_map(purpose)?;
        super::sys::set_map_fd(map, cpu, ring.as_fd()).map_err(failed)?;
        ring.enable().map_err(failed)?;
        Ok((cpu, ring))
    };
    cpus.iter().map(open).collect()
}

fn all_processes() -> Result<Vec<u32>, CaptureError> {
    let entries = fs::read_dir("/proc")
        .map_err(|source| CaptureError::Machine { what: "/proc".to_owned(), source })?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}
