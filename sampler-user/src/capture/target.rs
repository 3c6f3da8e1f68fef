//! Whom a session measures, and when they have ended.

use super::error::CaptureError;
use super::existing::Existing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::{fs, io};

/// Whom to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// These processes.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
    /// Everything that runs.
    Everything,
    /// The command that the session starts, and nothing else.
    Command,
}

/// A process or thread that is measured and watched.
#[derive(Debug)]
pub struct Target {
    /// The process.
    pub tgid: u32,
    /// The thread, if it is measured alone.
    pub tid: Option<u32>,
    pidfd: OwnedFd,
}

impl Target {
    /// A process.
    ///
    /// # Errors
    /// When there is none of this id, or it is the id of a thread that is not a main one.
    pub fn process(tgid: u32) -> Result<Self, CaptureError> {
        match tgid_of(tgid) {
            None => Err(CaptureError::NoProcess { tgid }),
            Some(process) if process != tgid => {
                Err(CaptureError::NotAProcess { tid: tgid, tgid: process })
            }
            Some(_) => Ok(Self { tgid, tid: None, pidfd: open(tgid)? }),
        }
    }

    /// A thread.
    ///
    /// # Errors
    /// When there is none of this id.
    pub fn thread(tid: u32) -> Result<Self, CaptureError> {
        let tgid = tgid_of(tid).ok_or(CaptureError::NoThread { tid })?;
        Ok(Self { tgid, tid: Some(tid), pidfd: open(tgid)? })
    }

    /// The threads that it has now.
    ///
    /// # Errors
    /// When they can't be listed.
    pub fn threads(&self) -> Result<Vec<u32>, CaptureError> {
        let threads =
            Existing::new().threads(self.tgid).map_err(|error| CaptureError::Machine {
                what: format!("the threads of {}", self.tgid),
                source: error.source,
            })?;
        Ok(threads.into_iter().map(|thread| thread.tid).collect())
    }

    /// It has ended: all threads of the process, or the thread alone. A thread that is not the main
    /// one goes on under another id when it calls `exec`; `live` says that some chosen thread does.
    pub fn has_ended(&self, live: bool) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let process_ended =
            matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1));
        process_ended || !live && self.tid.is_some_and(|tid| !has_thread(self.tgid, tid))
    }
}

fn open(tgid: u32) -> Result<OwnedFd, CaptureError> {
    let pid = i32::try_from(tgid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(CaptureError::NoProcess { tgid })?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => CaptureError::NoProcess { tgid },
        other => CaptureError::Watch { tgid, source: io::Error::from(other) },
    })
}

/// The process that a thread belongs to.
fn tgid_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// A thread that is a zombie has run for the last time.
fn has_thread(tgid: u32, tid: u32) -> bool {
    fs::read_to_string(format!("/proc/{tgid}/task/{tid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, Some('Z' | 'X') | None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_end_of_a_process_is_seen_before_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let target = Target::process(child.id()).unwrap();
        assert!(!target.has_ended(false));
        drop(child.stdin.take());
        while !target.has_ended(true) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(matches!(Target::process(child.id()), Err(CaptureError::NoProcess { .. })));
    }

    #[test]
    fn a_thread_is_no_process() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let error = Target::process(tid).unwrap_err();
            assert!(matches!(error, CaptureError::NotAProcess { tgid, .. } if tgid == std::process::id()));
            assert!(!Target::thread(tid).unwrap().has_ended(false));
        })
        .join()
        .unwrap();
    }
}
