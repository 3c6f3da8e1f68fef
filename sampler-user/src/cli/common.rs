//! What `record` and `stat` have in common: whom to measure, which events, how long.

use crate::capture::events::{SamplingRequest, parse, resolve};
use crate::capture::session::Plan;
use crate::capture::sys;
use crate::capture::target::Targets;
use crate::model::event::{Event, Sampling, Source};
use anyhow::Context;
use clap::Args;
use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_TYPE_HARDWARE, perf_event_attr,
};
use sampler_common::abi::MAX_EVENTS;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;
use thiserror::Error;

/// The arguments do not make sense together.
#[derive(Debug, Error)]
pub(super) enum UsageError {
    /// No target.
    #[error("nothing to measure: give -p TGID, -t TID, -a, or a COMMAND")]
    NoTarget,
    /// Recordings are not streamed.
    #[error("can't record to standard output; give -o a file")]
    StandardOutput,
    /// What stands where the command would start is an option, misspelt or of another subcommand.
    #[error("there is no option {option:?}; see `sampler {subcommand} --help`")]
    NoOption {
        /// As typed.
        option: String,
        /// The one that was asked for.
        subcommand: &'static str,
    },
}

/// Whom to measure, and how long.
#[derive(Args, Debug)]
pub(super) struct TargetArguments {
    /// Measure these processes, all of their threads
    #[arg(short, long = "pid", value_name = "TGID", value_delimiter = ',', value_parser = id(), conflicts_with_all = ["tid", "all"])]
    pid: Vec<u32>,

    /// Measure these threads alone
    #[arg(short, long = "tid", value_name = "TID", value_delimiter = ',', value_parser = id(), conflicts_with = "all")]
    tid: Vec<u32>,

    /// Measure everything that runs, except idle CPUs
    #[arg(short, long = "all-cpus")]
    all: bool,

    /// Do not follow child processes and new threads; they are followed otherwise
    #[arg(short = 'i', long)]
    no_inherit: bool,

    /// Stop after so many seconds; fractions are allowed
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    duration: Option<Duration>,

    /// Measure at most so many threads at once each on its own, 1 to 4194304. Each takes about 0.7 KiB of memory: 45 MiB by default. What more threads there are count for their process
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    max_threads: u32,

    /// List each thread that has ended, instead of one line a name; memory grows with their number
    #[arg(long)]
    all_threads: bool,

    /// Command to start and measure, from its exec to its end. With -p, -t or -a its end is the end of the measurement
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Which events.
#[derive(Args, Debug)]
pub(super) struct EventArguments {
    /// Events to measure, up to 8: cycles, instructions, cache-references, cache-misses, branches, branch-misses, bus-cycles, ref-cycles, stalled-cycles-frontend, stalled-cycles-backend, cpu-clock, task-clock, page-faults, minor-faults, major-faults, alignment-faults, emulation-faults, context-switches, cpu-migrations, or rHEX; each may have a modifier, :u for user space only or :k for the kernel only. Default: cycles where the machine can count them, else cpu-clock
    #[arg(short, long = "event", value_name = "EVENT")]
    events: Vec<String>,
}

/// How much to say.
#[derive(Args, Debug)]
pub(super) struct OutputArguments {
    /// Print the result as one JSON object on standard output; with a COMMAND and no -o on standard error
    #[arg(long)]
    pub json: bool,

    /// Print errors and asked-for output only
    #[arg(short, long)]
    pub quiet: bool,

    /// Also print what sampler and its BPF programs do
    #[arg(short, long)]
    pub verbose: bool,
}

impl TargetArguments {
    /// There is something to measure, and the command, if any, is no option that `subcommand` does
    /// not have.
    pub fn check(&self, subcommand: &'static str) -> Result<(), UsageError> {
        let nothing =
            !self.all && self.pid.is_empty() && self.tid.is_empty() && self.command.is_empty();
        match self.command.first().map(|word| word.to_string_lossy()) {
            Some(word) if word.starts_with('-') => {
                Err(UsageError::NoOption { option: word.into_owned(), subcommand })
            }
            _ if nothing => Err(UsageError::NoTarget),
            _ => Ok(()),
        }
    }

    /// The plan for a session with these events.
    pub fn plan(self, events: Vec<Event>, chains: bool, debug: bool) -> Plan {
        let targets = if self.all {
            Targets::Everything
        } else if !self.pid.is_empty() {
            Targets::Processes(without_repeats(self.pid))
        } else if !self.tid.is_empty() {
            Targets::Threads(without_repeats(self.tid))
        } else {
            Targets::Command
        };
        Plan {
            targets,
            command: (!self.command.is_empty()).then_some(self.command),
            events,
            chains,
            inherit: !self.no_inherit,
            max_threads: self.max_threads,
            all_threads: self.all_threads,
            duration: self.duration,
            interval: None,
            debug,
        }
    }

    /// Threads that have ended are listed each.
    pub fn lists_all(&self) -> bool {
        self.all_threads
    }

    /// There is a command to start.
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }
}

impl EventArguments {
    /// The events, each sampled as asked for.
    pub fn resolve(&self, sampling: SamplingRequest, max_hz: u64) -> anyhow::Result<Vec<Event>> {
        let mut events = if self.events.is_empty() {
            parse(&[default_event()], MAX_EVENTS)?
        } else {
            parse(&self.events, MAX_EVENTS)?
        };
        resolve(&mut events, sampling, max_hz)?;
        Ok(events)
    }

    /// What a user should know of the events as they are measured.
    pub fn notes(&self, events: &[Event], sampled: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.events.is_empty() && events.iter().any(|event| event.name == FALLBACK) {
            notes.push(format!(
                "this machine has no cycles counter; {FALLBACK} is measured instead"
            ));
        }
        for event in events {
            if event.source == Source::Clock && (event.exclude_user || event.exclude_kernel) {
                let name = &event.name;
                notes.push(format!("{name} counts all time, as with perf; it only samples there"));
            }
            if sampled && event.sampling == Sampling::Off {
                notes.push(format!("{} can't be sampled and is only counted", event.name));
            }
        }
        notes
    }
}

/// Samples a second that the kernel allows.
pub(super) fn max_sample_rate() -> anyhow::Result<u64> {
    let path = "/proc/sys/kernel/perf_event_max_sample_rate";
    let text = fs::read_to_string(path)
        .with_context(|| format!("can't read {path}: the kernel must have perf events"))?;
    text.trim().parse().with_context(|| format!("can't read {path}: it holds {text:?}"))
}

/// What is measured by default where the machine can't count cycles.
const FALLBACK: &str = "cpu-clock";

fn default_event() -> &'static str {
    if counts_cycles() { "cycles" } else { FALLBACK }
}

/// The kernel opens the event. Where it does not for want of a permission, it is asked for again and
/// its answer shown.
fn counts_cycles() -> bool {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_HARDWARE,
        config: PERF_COUNT_HW_CPU_CYCLES.into(),
        ..perf_event_attr::default()
    };
    attr.set_disabled(1);
    let cpu = aya::util::online_cpus().ok().and_then(|cpus| cpus.first().copied()).unwrap_or(0);
    match sys::open_event_on_cpu(&mut attr, cpu) {
        Ok(_) => true,
        Err(error) => matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)),
    }
}

fn id() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(i32::MAX))
}

fn without_repeats(mut ids: Vec<u32>) -> Vec<u32> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Seconds, more than 0 and less than the clock can hold.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    let longest = 100.0 * 365.0 * 86_400.0;
    if seconds > 0.0 && seconds <= longest {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it must be more than 0 seconds and at most 100 years".to_owned())
    }
}
