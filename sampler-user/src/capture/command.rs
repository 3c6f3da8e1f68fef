//! A command that the session starts itself, held back before its `exec` until counting is on.

use super::error::CaptureError;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::{self, JoinHandle};

/// A command between `fork` and `exec`.
#[derive(Debug)]
pub struct HeldCommand {
    /// Its process id.
    pub tgid: u32,
    name: String,
    go: PipeWriter,
    spawn: JoinHandle<io::Result<Child>>,
}

/// A command that runs.
#[derive(Debug)]
pub struct RunningCommand {
    child: Child,
}

impl HeldCommand {
    /// Forks; the child waits. It ends by itself when this is dropped.
    ///
    /// # Errors
    /// When there is no room for another process.
    pub fn fork(command: &[OsString]) -> Result<Self, CaptureError> {
        let name =
            command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |name: &str, source| CaptureError::Command {
            command: name.to_owned(),
            reason: "it can't be started",
            source,
        };
        let (mut child_id, tell_id) = io::pipe().map_err(|source| failed(&name, source))?;
        let (wait_for_go, go) = io::pipe().map_err(|source| failed(&name, source))?;
        let mut to_run = Command::new(command.first().map_or("".as_ref(), |name| name.as_os_str()));
        to_run.args(command.iter().skip(1));
        // SAFETY: between fork and exec the closure only reads, writes and closes pipes.
        unsafe { to_run.pre_exec(hold(tell_id, wait_for_go, go.as_raw_fd())) };
        // `spawn` returns once the child has called exec, or could not.
        let spawn = thread::spawn(move || to_run.spawn());
        let mut id = [0; 4];
        if let Err(source) = child_id.read_exact(&mut id) {
            // It could not even fork: the thread knows why.
            let source = spawn.join().ok().and_then(Result::err).unwrap_or(source);
            return Err(failed(&name, source));
        }
        Ok(Self { tgid: u32::from_ne_bytes(id), name, go, spawn })
    }

    /// Lets it call `exec`.
    ///
    /// # Errors
    /// When there is no such command, or it can't be executed.
    pub fn release(self) -> Result<RunningCommand, CaptureError> {
        let Self { name, mut go, spawn, .. } = self;
        // When the child is gone already, `spawn` says why.
        let _ = go.write_all(&[1]);
        drop(go);
        let spawned = spawn.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        match spawned {
            Ok(child) => Ok(RunningCommand { child }),
            Err(source) => {
                let reason = match source.kind() {
                    io::ErrorKind::NotFound => "command not found",
                    io::ErrorKind::PermissionDenied => "it is not executable",
                    _ => "it can't be executed",
                };
                Err(CaptureError::Command { command: name, reason, source })
            }
        }
    }
}

/// What the child does between fork and exec: says its id, and waits for the word. It closes its
/// own copy of the end that the word comes from, so that it also ends when the parent does.
fn hold(
    mut tell_id: PipeWriter,
    mut wait_for_go: PipeReader,
    go: RawFd,
) -> impl FnMut() -> io::Result<()> + Send + Sync + 'static {
    move || {
        // SAFETY: the child has this copy of the descriptor to itself and does not use it again.
        unsafe { rustix::io::close(go) };
        tell_id.write_all(&std::process::id().to_ne_bytes())?;
        if wait_for_go.read_exact(&mut [0]).is_err() {
            // Nobody is left who would want to know why: an error returned from here is written to
            // the parent, and aborts with a message when that is gone.
            // SAFETY: ends the child, in which nothing has been set up that would have to be undone.
            unsafe { libc::_exit(1) };
        }
        Ok(())
    }
}

impl RunningCommand {
    /// How it ended, once it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        // Fails only for a child that is not there, and this one is not taken away by anybody else.
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end, as `perf record` does when it is interrupted.
    pub fn terminate(&mut self) {
        if self.status().is_none() {
            let pid = rustix::process::Pid::from_child(&self.child);
            // It is our child and not reaped, so the id is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(command: &[&str]) -> HeldCommand {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        HeldCommand::fork(&command).unwrap()
    }

    fn comm(tgid: u32) -> String {
        std::fs::read_to_string(format!("/proc/{tgid}/comm")).unwrap()
    }

    #[test]
    fn it_is_not_the_command_before_it_is_released() {
        let held = held(&["sh", "-c", "exit 7"]);
        assert_ne!(comm(held.tgid), "sh\n");
        let mut running = held.release().unwrap();
        assert_eq!(running.child.wait().unwrap().code(), Some(7));
        assert_eq!(running.status().unwrap().code(), Some(7));
    }

    #[test]
    fn it_ends_when_nobody_releases_it() {
        let HeldCommand { tgid, go, spawn, .. } = held(&["true"]);
        drop(go);
        assert_eq!(spawn.join().unwrap().unwrap().wait().unwrap().code(), Some(1));
        assert!(!std::path::Path::new(&format!("/proc/{tgid}")).exists());
    }

    #[test]
    fn what_can_not_be_run_says_so() {
        let missing = held(&["/no/such/command"]).release().unwrap_err();
        assert_eq!(missing.to_string(), "can't run /no/such/command: command not found");
        let data = held(&["/etc/passwd"]).release().unwrap_err();
        assert_eq!(data.to_string(), "can't run /etc/passwd: it is not executable");
    }
}
