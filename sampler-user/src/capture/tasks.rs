//! The tasks of a session beside the one that keeps time: draining the rings, and watching the
//! targets and the signals.

use super::collector::{Collector, Progress};
use super::command::RunningCommand;
use super::error::CaptureError;
use super::target::Target;
use crate::model::report::Report;
use aya::Ebpf;
use aya_log::EbpfLogger;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How often the rings are emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// How often it is looked whether the targets have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long threads that have ended may take until their last switch. On an idle machine this is
/// microseconds; they have to get a CPU once more.
const RETIRE_WITHIN: Duration = Duration::from_secs(2);

/// What the collecting task is asked for.
pub(super) enum Request {
    /// How it goes.
    Progress(oneshot::Sender<Progress>),
    /// A report of the last interval, which took so long.
    Interval(Duration, oneshot::Sender<Report>),
    /// To stop counting, and the final report. The task ends with it.
    Finish(oneshot::Sender<Report>),
}

/// Why to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The targets, or the command, have ended.
    Ended,
    /// A signal.
    Interrupted,
}

/// Drains the rings until it is asked to finish. When the session has been aborted, nobody waits for
/// an answer any more.
pub(super) async fn collect(
    mut collector: Collector,
    mut requests: mpsc::Receiver<Request>,
) -> Result<(), CaptureError> {
    let mut drain = interval(DRAIN_EVERY);
    drain.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = drain.tick() => collector.drain()?,
            request = requests.recv() => match request {
                Some(Request::Progress(reply)) => { let _ = reply.send(collector.progress()?); }
                Some(Request::Interval(duration, reply)) => {
                    let _ = reply.send(collector.interval_report(duration)?);
                }
                Some(Request::Finish(reply)) => {
                    await_last_switches(&mut collector).await?;
                    let duration = collector.stop()?;
                    let _ = reply.send(collector.final_report(duration)?);
                    return Ok(());
                }
                None => return Ok(()),
            },
        }
    }
}

/// Threads that have ended, for all that `/proc` says, still have to leave their CPU.
async fn await_last_switches(collector: &mut Collector) -> Result<(), CaptureError> {
    let ended = collector.ended_processes();
    let step = Duration::from_millis(1);
    let mut waited = Duration::ZERO;
    while waited < RETIRE_WITHIN && !collector.have_retired(&ended) {
        sleep(step).await;
        waited += step;
        collector.drain()?;
    }
    // Whatever descriptor they still have is a leak.
    collector.mark_ended(&ended);
    Ok(())
}

/// What is watched, and by which signals one is told. `live` is how many chosen threads there are.
pub(super) struct Watched {
    targets: Vec<Target>,
    /// The command, once it runs.
    pub command: Option<RunningCommand>,
    live: Arc<AtomicU64>,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Watched {
    /// From now on the signals do not end the program any more.
    ///
    /// # Errors
    /// When a signal can't be watched.
    pub fn new(targets: Vec<Target>, live: Arc<AtomicU64>) -> Result<Self, CaptureError> {
        let watch = |kind| {
            signal(kind)
                .map_err(|source| CaptureError::Machine { what: "signals".to_owned(), source })
        };
        Ok(Self {
            targets,
            live,
            command: None,
            interrupt: watch(SignalKind::interrupt())?,
            terminate: watch(SignalKind::terminate())?,
            hang_up: watch(SignalKind::hangup())?,
        })
    }

    fn have_ended(&mut self) -> bool {
        let command_ended = self.command.as_mut().is_some_and(|command| command.status().is_some());
        let live = self.live.load(Ordering::Relaxed) != 0;
        let have_ended = || self.targets.iter().all(|target| target.has_ended(live));
        command_ended || !self.targets.is_empty() && have_ended()
    }
}

/// Watches until nobody wants to know any more; then the command, if there is one, has ended.
pub(super) async fn watch(mut watched: Watched, tell: mpsc::Sender<Stop>) -> Option<ExitStatus> {
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = false;
    loop {
        tokio::select! {
            _ = look.tick() => if !told && watched.have_ended() {
                told = true;
                let _ = tell.send(Stop::Ended).await;
            },
            _ = watched.interrupt.recv() => { let _ = tell.send(Stop::Interrupted).await; }
            _ = watched.terminate.recv() => { let _ = tell.send(Stop::Interrupted).await; }
            _ = watched.hang_up.recv() => { let _ = tell.send(Stop::Interrupted).await; }
            () = tell.closed() => break,
        }
    }
    let mut command = watched.command?;
    if command.status().is_none() {
        command.terminate();
        while command.status().is_none() {
            sleep(LOOK_EVERY).await;
        }
    }
    command.status()
}

/// Logs what the BPF programs say.
pub(super) fn log_programs(ebpf: &mut Ebpf) -> Option<JoinHandle<()>> {
    let logger = EbpfLogger::init(ebpf)
        .map_err(|error| log::warn!("can't show the BPF programs' messages: {error}"))
        .ok()?;
    // SAFETY: the logger owns its descriptor and keeps it as long as it lives.
    let mut logger = unsafe { AsyncFd::register(logger) }.ok()?;
    Some(tokio::spawn(async move {
        while let Ok(mut ready) = logger.readable_mut().await {
            ready.get_inner_mut().flush();
            ready.clear_ready();
        }
    }))
}
