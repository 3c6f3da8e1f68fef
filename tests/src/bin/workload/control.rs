//! The workload's side of the protocol: ready, go, marks, truth. It knows nothing of threads.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sampler_tests::{
    clock::own_process_ns,
    protocol::{GO, MARK, Message, Ready, Truth},
};

/// One run of a workload.
pub struct Session {
    input: Option<Input>,
    base_ns: u64,
    since: Instant,
}

impl Session {
    /// A session that reads standard input, unless it is to start `now`.
    pub fn new(now: bool) -> Result<Self> {
        let input = (!now).then(Input::default);
        Ok(Self { input, base_ns: own_process_ns()?, since: Instant::now() })
    }

    /// Says who is there and waits for `go`, from which on the clocks count.
    pub fn begin(
        &mut self,
        tids: BTreeMap<String, u32>,
        truth: impl Fn(&Self) -> Result<Truth>,
    ) -> Result<()> {
        say(&Message::Ready(Ready { tgid: std::process::id(), tids }))?;
        while let Some(input) = &mut self.input {
            match input.next(None)? {
                Said::Word(word) if word == GO => break,
                Said::Word(word) if word == MARK => say(&Message::Mark(truth(self)?))?,
                other => bail!("told {other:?} instead of {GO}"),
            }
        }
        self.base_ns = own_process_ns()?;
        self.since = Instant::now();
        Ok(())
    }

    /// Waits for the end of the window, and answers marks.
    pub fn run_for(&mut self, seconds: f64, truth: impl Fn(&Self) -> Result<Truth>) -> Result<()> {
        let end = self.since + Duration::from_secs_f64(seconds);
        while let Some(input) = &mut self.input {
            match input.next(Some(end))? {
                Said::Word(word) if word == MARK => say(&Message::Mark(truth(self)?))?,
                Said::Word(word) => bail!("told {word:?} in the window"),
                Said::Nothing => return Ok(()),
                Said::Closed => self.input = None,
            }
        }
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        Ok(())
    }

    /// What the clocks say of the process as a whole.
    pub fn truth(&self) -> Result<Truth> {
        let process_ns = own_process_ns()?.saturating_sub(self.base_ns);
        let wall_ns = u64::try_from(self.since.elapsed().as_nanos())?;
        Ok(Truth { process_ns, wall_ns, ..Truth::default() })
    }

    /// The process clock at the window's begin.
    pub fn base_ns(&self) -> u64 {
        self.base_ns
    }

    /// Goes on with the window of the program that executed this one.
    pub fn resume(&mut self, base_ns: u64) {
        self.base_ns = base_ns;
    }

    /// The window is over.
    pub fn end(self, truth: Truth) -> Result<()> {
        say(&Message::Truth(truth))
    }
}

fn say(message: &Message) -> Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}

#[derive(Debug)]
enum Said {
    Word(String),
    Nothing,
    Closed,
}

/// Standard input by lines. Not buffered by `std`, since a buffered line can't be polled for.
#[derive(Default)]
struct Input {
    pending: Vec<u8>,
}

impl Input {
    fn next(&mut self, deadline: Option<Instant>) -> Result<Said> {
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(Said::Word(String::from_utf8_lossy(&line).trim().to_owned()));
            }
            if !wait_readable(deadline)? {
                return Ok(Said::Nothing);
            }
            let mut bytes = [0; 256];
            match rustix::io::read(io::stdin(), &mut bytes)? {
                0 => return Ok(Said::Closed),
                read => self.pending.extend_from_slice(&bytes[..read]),
            }
        }
    }
}

fn wait_readable(deadline: Option<Instant>) -> Result<bool> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left = left.map(Timespec::try_from).transpose()?;
    let stdin = io::stdin();
    Ok(poll(&mut [PollFd::new(&stdin, PollFlags::IN)], left.as_ref())? > 0)
}
