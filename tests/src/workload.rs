//! Starting a workload, talking with it, and ending it whatever becomes of the test.

use std::{
    env,
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    protocol::{GO, MARK, Message, Ready, Truth},
    stream::Stream,
};

/// How long a workload may take for what it does at once, or for its whole window.
const LIMIT: Duration = Duration::from_secs(60);

/// A running workload. Dropping it kills it.
pub struct Workload {
    child: Child,
    out: Stream,
    read: usize,
    ready: Ready,
}

/// The workload's program: in the folder named by `SAMPLER_WORKLOADS`, or else beside this test's.
///
/// # Errors
/// When it isn't there.
pub fn workload_program() -> Result<PathBuf> {
    let folder = match env::var_os("SAMPLER_WORKLOADS") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let test = env::current_exe().context("looking up the test's own path")?;
            test.ancestors().nth(2).context("the test has no target folder")?.to_path_buf()
        }
    };
    let program = folder.join("workload");
    ensure!(program.is_file(), "no workload at {}", program.display());
    Ok(program)
}

impl Workload {
    /// Starts a workload and waits until it is ready, idle.
    ///
    /// # Errors
    /// When it can't be started or doesn't get ready.
    pub fn start(args: &[&str]) -> Result<Self> {
        let mut child = Command::new(workload_program()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting workload {args:?}"))?;
        let out = child.stdout.take().map(Stream::read).unwrap_or_default();
        let mut workload = Self { child, out, read: 0, ready: Ready::default() };
        match workload.next_message()? {
            Message::Ready(ready) => workload.ready = ready,
            other => bail!("workload {args:?} began with {other:?}"),
        }
        Ok(workload)
    }

    /// Who is there.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Its process.
    #[must_use]
    pub fn tgid(&self) -> u32 {
        self.ready.tgid
    }

    /// Its process, as an argument.
    #[must_use]
    pub fn tgid_arg(&self) -> String {
        self.ready.tgid.to_string()
    }

    /// Starts the measured window.
    ///
    /// # Errors
    /// When the workload has ended.
    pub fn go(&mut self) -> Result<()> {
        self.say(GO)
    }

    /// The truth so far.
    ///
    /// # Errors
    /// When the workload has ended or doesn't answer.
    pub fn mark(&mut self) -> Result<Truth> {
        self.say(MARK)?;
        match self.next_message()? {
            Message::Mark(truth) => Ok(truth),
            other => bail!("the workload answered a mark with {other:?}"),
        }
    }

    /// Waits for the end of the window and of the workload.
    ///
    /// # Errors
    /// When it fails or takes too long.
    pub fn finish(mut self) -> Result<Truth> {
        let truth = match self.next_message()? {
            Message::Truth(truth) => truth,
            other => bail!("the workload ended with {other:?}"),
        };
        let status = self.child.wait()?;
        ensure!(status.success(), "the workload: {status}");
        Ok(truth)
    }

    /// Ends it now.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn say(&mut self, word: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("the workload has no stdin")?;
        writeln!(stdin, "{word}").with_context(|| format!("telling the workload to {word}"))
    }

    fn next_message(&mut self) -> Result<Message> {
        let line = self.out.wait_for(self.read, LIMIT, |line| Some(line.to_owned()));
        let (read, line) = line.context("the workload fell silent")?;
        self.read = read;
        serde_json::from_str(&line).with_context(|| format!("the workload said {line:?}"))
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // Fails only for a child that has already been waited for, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
