//! Running the built `sampler`, with a limit of time, and keeping all it says.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::{report::Report, stream::Stream};

/// How long any run may take. A guard against hanging, no measure of speed.
const LIMIT: Duration = Duration::from_secs(60);

/// A `sampler` command line to be run.
pub struct Sampler {
    command: Command,
}

/// A running `sampler`. Dropping it kills it.
pub struct Running {
    child: Child,
    out: Stream,
    err: Stream,
}

/// A `sampler` that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, that of its COMMAND included.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Sampler {
    /// The binary: named by `SAMPLER_BIN`, or else the release build of this workspace.
    ///
    /// # Errors
    /// When it isn't there.
    pub fn program() -> Result<PathBuf> {
        let program = match env::var_os("SAMPLER_BIN") {
            Some(program) => PathBuf::from(program),
            None => target_folder().join("release/sampler"),
        };
        ensure!(
            program.is_file(),
            "no sampler at {}: build it with `cargo build --release`, or name it in SAMPLER_BIN",
            program.display()
        );
        Ok(program)
    }

    /// `sampler` with these arguments.
    ///
    /// # Errors
    /// When the binary isn't there.
    pub fn new<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Result<Self> {
        let mut command = Command::new(Self::program()?);
        command.args(args);
        Ok(Self { command })
    }

    /// `sampler` started by another program: `wrapper... sampler args...`.
    ///
    /// # Errors
    /// When the binary isn't there.
    pub fn wrapped(wrapper: &[&str], args: &[&str]) -> Result<Self> {
        let [program, rest @ ..] = wrapper else { bail!("a wrapper names a program") };
        let mut command = Command::new(program);
        command.args(rest).arg(Self::program()?).args(args);
        Ok(Self { command })
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// Where it runs.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn spawn(mut self) -> Result<Running> {
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {:?}", self.command))?;
        let out = child.stdout.take().map(Stream::read).unwrap_or_default();
        let err = child.stderr.take().map(Stream::read).unwrap_or_default();
        Ok(Running { child, out, err })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it can't be started or doesn't end.
    pub fn run(self) -> Result<Finished> {
        self.spawn()?.finish()
    }
}

impl Running {
    /// Its process.
    #[must_use]
    pub fn tgid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says that it counts; gives how long that took.
    ///
    /// # Errors
    /// When it ends or falls silent before that.
    pub fn wait_until_armed(&self) -> Result<Duration> {
        let since = Instant::now();
        let armed = self.err.wait_for(0, LIMIT, |line| says_armed(line).then_some(()));
        if armed.is_none() {
            bail!("sampler never said that it counts: {}", self.err.text(Duration::ZERO));
        }
        Ok(since.elapsed())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has already been waited for.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let tgid = Pid::from_raw(self.child.id().cast_signed()).context("no process id")?;
        kill_process(tgid, signal).context("signalling sampler")
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it doesn't end in time; it is killed then.
    pub fn finish(mut self) -> Result<Finished> {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("sampler doesn't end: {}", self.err.text(Duration::ZERO));
            }
            thread::sleep(Duration::from_millis(10));
        };
        let limit = Duration::from_secs(5);
        Ok(Finished { status, stdout: self.out.text(limit), stderr: self.err.text(limit) })
    }

    /// Asks it to stop, as Ctrl-C does, and waits for its end.
    ///
    /// # Errors
    /// As [`Self::signal`] and [`Self::finish`].
    pub fn interrupt(self) -> Result<Finished> {
        self.signal(Signal::INT)?;
        self.finish()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only for a child that has already been waited for, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// Itself, if it ended well.
    ///
    /// # Errors
    /// When its exit status is not 0.
    pub fn success(self) -> Result<Self> {
        ensure!(self.status.success(), "sampler: {}: {}", self.status, self.stderr);
        Ok(self)
    }

    /// Its exit status as a shell would show it.
    #[must_use]
    pub fn code(&self) -> i32 {
        let signal = self.status.signal().map(|signal| 128 + signal);
        self.status.code().or(signal).unwrap_or(-1)
    }

    /// Every report in its output.
    ///
    /// # Errors
    /// When one doesn't have the promised shape.
    pub fn reports(&self) -> Result<Vec<Report>> {
        let mut reports = Report::find_all(&self.stdout)?;
        reports.extend(Report::find_all(&self.stderr)?);
        Ok(reports)
    }

    /// The one report in its output.
    ///
    /// # Errors
    /// When there is none, more than one, or one of another shape.
    pub fn report(&self) -> Result<Report> {
        let mut reports = self.reports()?;
        ensure!(reports.len() == 1, "{} reports instead of one: {self:?}", reports.len());
        reports.pop().context("no report")
    }
}

/// The line that tells that everything is armed: `sampler: recording ...`.
fn says_armed(line: &str) -> bool {
    let words = line.strip_prefix("sampler: ").map(str::split_whitespace);
    words.is_some_and(|mut words| words.any(|word| matches!(word, "recording" | "counting")))
}

fn target_folder() -> PathBuf {
    let default = || OsString::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target"));
    PathBuf::from(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(default))
}
