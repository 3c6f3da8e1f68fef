//! `sampler record`.

use super::common::{
    EventArguments, OutputArguments, TargetArguments, UsageError, max_sample_rate,
};
use super::console::{Console, Teller};
use super::exit;
use crate::capture::collector::{Sink, SinkError};
use crate::capture::events::{DEFAULT_HZ, SamplingRequest};
use crate::capture::session::{Outcome, Session};
use crate::model::record::Record;
use crate::model::report::Report;
use crate::output::perfdata::{Header, Recording};
use crate::output::{json, table};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How often the recording is made complete on disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Rows of the table at the end.
const MAX_ROWS: usize = 30;

/// As typed.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    targets: TargetArguments,

    #[command(flatten)]
    events: EventArguments,

    #[command(flatten)]
    sampling: SamplingArguments,

    /// File to record to; an existing one is kept as FILE.old. Default: sampler.data
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    say: OutputArguments,
}

#[derive(Args, Debug)]
struct SamplingArguments {
    /// Take a sample every so many events, at least 1
    #[arg(short, long, value_name = "COUNT", conflicts_with = "freq")]
    count: Option<u64>,

    /// Take so many samples a second, at most kernel.perf_event_max_sample_rate, or as many as that with `max`. Default: 999
    #[arg(short = 'F', long, value_name = "HZ")]
    freq: Option<Frequency>,

    /// Record call chains, which is the default
    #[arg(short)]
    g: bool,

    /// Record call chains by frame pointers, or none
    #[arg(long, value_enum, value_name = "MODE", default_value_t = CallGraph::Fp)]
    call_graph: CallGraph,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CallGraph {
    /// By frame pointers
    Fp,
    /// No call chains
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frequency {
    Hz(u64),
    Max,
}

impl FromStr for Frequency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            digits => digits
                .parse()
                .map(Self::Hz)
                .map_err(|_| format!("{text:?} is not a number of samples a second, nor max")),
        }
    }
}

impl SamplingArguments {
    fn request(&self, max_hz: u64) -> SamplingRequest {
        match (self.count, self.freq) {
            (Some(period), _) => SamplingRequest::Period(period),
            (None, Some(Frequency::Hz(hz))) => SamplingRequest::Frequency(hz),
            (None, Some(Frequency::Max)) => SamplingRequest::Frequency(max_hz),
            (None, None) => SamplingRequest::Default,
        }
    }
}

/// Records; the exit code is the command's.
pub(super) fn run(typed: Arguments, argv: &[OsString]) -> anyhow::Result<ExitCode> {
    let Arguments { targets, events, sampling, output, say } = typed;
    let console = Console::new(say.quiet, say.verbose);
    let chains = sampling.call_graph == CallGraph::Fp;
    targets.check("record")?;
    let max_hz = max_sample_rate()?;
    let measured = events.resolve(sampling.request(max_hz), max_hz)?;
    // Standard output is the command's.
    let json_to_stderr = targets.has_command() && output.is_none();
    let path = output.unwrap_or_else(|| PathBuf::from("sampler.data"));
    if path.as_os_str() == "-" {
        return Err(UsageError::StandardOutput.into());
    }
    let plan = targets.plan(measured, chains, say.verbose);
    let inherit = plan.inherit;
    let session = Session::arm(plan)?;
    let mut told = events.notes(session.events(), true);
    if sampling.request(max_hz) == SamplingRequest::Default && max_hz < DEFAULT_HZ {
        told.push(format!(
            "kernel.perf_event_max_sample_rate allows {max_hz} samples a second; so many are taken"
        ));
    }
    told.push(format!("recording to {}", path.display()));
    let mut header = Header::of_this_machine(session.events(), argv.iter().cloned());
    header.call_chains = chains;
    header.inherit = inherit;
    let sink = Box::new(FileSink::new(Recording::create(&path, header)?));
    let mut teller = Teller::new(console, told);
    let outcome = super::runtime()?.block_on(session.run(Some(sink), &mut teller));
    teller.clear();
    match outcome? {
        Outcome::Aborted => {
            console.say("ended at once; what has been written is readable");
            Ok(ExitCode::from(exit::ABORTED))
        }
        Outcome::Finished(report, status) => {
            if say.json && json_to_stderr {
                json::write(&mut io::stderr().lock(), &report)?;
            } else if say.json {
                json::write(&mut io::stdout().lock(), &report)
                    .context("can't write the result to standard output")?;
            } else if !say.quiet {
                show(&mut io::stderr().lock(), &report)?;
            }
            for line in table::losses(&report) {
                console.say(&line);
            }
            Ok(exit::of_command(status))
        }
    }
}

fn show(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let options = table::Options { max_rows: MAX_ROWS, derived: false, samples: true };
    table::write_threads(out, report, options)
}

/// A recording that is made complete on disk at times.
struct FileSink {
    recording: Recording,
    flushed: Instant,
}

impl FileSink {
    fn new(recording: Recording) -> Self {
        Self { recording, flushed: Instant::now() }
    }
}

impl Sink for FileSink {
    fn begin(&mut self) -> Result<(), SinkError> {
        Ok(self.recording.place()?)
    }

    fn accept(&mut self, records: &[Record]) -> Result<(), SinkError> {
        for record in records {
            self.recording.write(record)?;
        }
        self.recording.round()?;
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.recording.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        let summary = self.recording.finish()?;
        log::debug!("{} bytes written, {} records late", summary.bytes, summary.late_records);
        Ok(())
    }
}
