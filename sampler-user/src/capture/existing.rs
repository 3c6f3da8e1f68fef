//! What there already is when a session starts: the threads of a process, their names, the code
//! they have mapped, and that of the kernel.
//!
//! All of it comes from `/proc`, one read a thread. A thread or process that vanishes meanwhile is
//! normal and simply isn't there. Names and paths are kept as the bytes they are, which the crate
//! procfs would not do.

mod kernel;
mod maps;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustc_hash::FxHashMap;
use rustix::fs::{CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::buildid::BuildId;
use crate::model::record::{Comm, Record, Stamp, Task};

pub use kernel::kernel_records;

/// Longest name of a thread, in bytes (`TASK_COMM_LEN` without its NUL).
const MAX_COMM: usize = 15;
/// Files whose build ids are remembered.
const MAX_FILES: usize = 1 << 14;

/// A thread that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingThread {
    /// Its process.
    pub tgid: u32,
    /// Its id.
    pub tid: u32,
    /// The parent of its process.
    pub parent_tgid: u32,
    /// Its name: any bytes but NUL.
    pub comm: Vec<u8>,
    /// The letter of its state: `R`, `S`, `Z`, …
    pub state: char,
    /// When it started: `CLOCK_MONOTONIC`, nanoseconds, as exact as a clock tick (10 ms mostly).
    pub start_ns: u64,
}

/// The threads of a process could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list the threads of process {tgid}")]
pub struct ThreadsError {
    /// The process.
    pub tgid: u32,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Looks at what exists. It remembers the build ids of files it has seen.
#[derive(Debug)]
pub struct Existing {
    ticks: Ticks,
    build_ids: FxHashMap<maps::FileKey, Option<BuildId>>,
}

impl Default for Existing {
    fn default() -> Self {
        Self::new()
    }
}

impl Existing {
    /// Has seen nothing yet.
    pub fn new() -> Self {
        Self { ticks: Ticks::of_this_machine(), build_ids: FxHashMap::default() }
    }

    /// The threads of a process, in the order in which they were started; none when there is no
    /// such process.
    ///
    /// # Errors
    /// When they can't be listed, as when `/proc` hides them.
    pub fn threads(&self, tgid: u32) -> Result<Vec<ExistingThread>, ThreadsError> {
        let error = |errno: Errno| ThreadsError { tgid, source: errno.into() };
        let dir = match open_dir(&format!("/proc/{tgid}/task")) {
            Err(errno) if is_gone(errno) => return Ok(Vec::new()),
            result => result.map_err(error)?,
        };
        let mut threads = Vec::new();
        for entry in Dir::read_from(&dir).map_err(error)? {
            let entry = match entry {
                Err(errno) if is_gone(errno) => break,
                entry => entry.map_err(error)?,
            };
            let name = entry.file_name().to_str().unwrap_or_default();
            let Ok(tid) = name.parse() else { continue };
            threads.extend(self.read_stat(&dir, &format!("{name}/stat"), tgid, tid));
        }
        Ok(threads)
    }

    /// One thread of a process; `None` when it doesn't exist.
    pub fn thread(&self, tgid: u32, tid: u32) -> Option<ExistingThread> {
        self.read_stat(CWD, &format!("/proc/{tgid}/task/{tid}/stat"), tgid, tid)
    }

    /// What a recording needs to know about a process that exists: the names of its `threads`,
    /// their starts, and the code it has mapped, all as of `time_ns`.
    ///
    /// There is no start for the main thread: at the start of a process, readers let it inherit
    /// the mappings of its parent, which is wrong for one that has run for a while.
    pub fn records(&mut self, threads: &[ExistingThread], time_ns: u64) -> Vec<Record> {
        let mut records = Vec::with_capacity(2 * threads.len());
        for thread in threads {
            let &ExistingThread { tgid, tid, .. } = thread;
            let stamp = Stamp { time_ns, tgid, tid, cpu: 0 };
            if tid != tgid {
                let task = Task { stamp, tgid, tid, parent_tgid: tgid, parent_tid: tgid };
                records.push(Record::Fork(task));
            }
            let comm = thread.comm.clone();
            records.push(Record::Comm(Comm { stamp, comm, exec: false }));
        }
        // Where the main thread has ended, only the others still know the mappings.
        if let Some(thread) = threads.iter().find(|thread| !matches!(thread.state, 'Z' | 'X')) {
            let stamp = Stamp { time_ns, tgid: thread.tgid, tid: thread.tgid, cpu: 0 };
            let maps = maps::executable(thread.tid, stamp, |key, find| self.build_id(key, find));
            records.extend(maps.into_iter().map(Record::Mmap));
        }
        records
    }

    fn build_id(
        &mut self,
        key: maps::FileKey,
        find: &dyn Fn() -> Option<BuildId>,
    ) -> Option<BuildId> {
        if self.build_ids.len() >= MAX_FILES {
            self.build_ids.clear();
        }
        *self.build_ids.entry(key).or_insert_with(find)
    }

    fn read_stat(&self, dir: impl AsFd, path: &str, tgid: u32, tid: u32) -> Option<ExistingThread> {
        // Its 52 numbers are shorter than this.
        let mut buffer = [0; 2048];
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, path, flags, Mode::empty()).ok()?;
        let len = rustix::io::read(&file, &mut buffer[..]).ok()?;
        parse_stat(&buffer[..len], tgid, tid, self.ticks)
    }
}

/// Converts the times of `/proc/TID/stat`.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    a_second: u64,
    /// `CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`: how long the machine was suspended.
    suspended_ns: u64,
}

impl Ticks {
    fn of_this_machine() -> Self {
        // Read in this order, the difference is rather too small than too large, by some 100 ns.
        let (boot, monotonic) = (now_ns(ClockId::Boottime), now_ns(ClockId::Monotonic));
        Self {
            a_second: rustix::param::clock_ticks_per_second().max(1),
            suspended_ns: boot.saturating_sub(monotonic),
        }
    }

    /// From ticks of `CLOCK_BOOTTIME` to nanoseconds of `CLOCK_MONOTONIC`.
    fn monotonic_ns(self, ticks: u64) -> u64 {
        let boot_ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.a_second);
        u64::try_from(boot_ns).unwrap_or(u64::MAX).saturating_sub(self.suspended_ns)
    }
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Reads `/proc/TID/stat`: `TID (COMM) STATE PPID …`, where the name may hold anything.
fn parse_stat(stat: &[u8], tgid: u32, tid: u32, ticks: Ticks) -> Option<ExistingThread> {
    /// Number of the start time (22), counted from the state (3).
    const START: usize = 22 - 3;
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let comm = stat.get(open + 1..close)?;
    let fields = std::str::from_utf8(&stat[close + 1..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent_tgid = fields.next()?.parse().ok()?;
    let start = fields.nth(START - 2)?.parse().ok()?;
    Some(ExistingThread {
        tgid,
        tid,
        parent_tgid,
        comm: comm[..comm.len().min(MAX_COMM)].to_vec(),
        state,
        start_ns: ticks.monotonic_ns(start),
    })
}

fn open_dir(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// The error says that the thread or process doesn't exist any more.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const TICKS: Ticks = Ticks { a_second: 100, suspended_ns: 1_000_000_000 };

    fn own_tgid() -> u32 {
        std::process::id()
    }

    fn own_tid() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    #[test]
    fn reads_a_name_that_looks_like_the_rest() {
        let stat = b"12 (a) R (\xff\n) S 7 0 0 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 200 0 0";
        let thread = parse_stat(stat, 10, 12, TICKS).unwrap();
        assert_eq!(thread.comm, b"a) R (\xff\n");
        assert_eq!((thread.state, thread.parent_tgid), ('S', 7));
        assert_eq!(thread.start_ns, 1_000_000_000);
    }

    #[test]
    fn refuses_what_is_cut_off() {
        let stat: &[u8] = b"12 (a) S 7 0 0 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 200";
        assert!(parse_stat(stat, 10, 12, TICKS).is_some());
        for len in 0..stat.len() - 3 {
            assert_eq!(parse_stat(&stat[..len], 10, 12, TICKS), None, "of {len}");
        }
        assert_eq!(parse_stat(b")(", 10, 12, TICKS), None);
    }

    #[test]
    fn finds_the_threads_of_this_process() {
        let (started, tids) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let before = now_ns(ClockId::Monotonic);
        let name = "one of mine".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            started.send(own_tid()).unwrap();
            let _ = stopped.recv();
        });
        let tid = tids.recv().unwrap();
        let after = now_ns(ClockId::Monotonic);

        let existing = Existing::new();
        let threads = existing.threads(own_tgid()).unwrap();
        assert_eq!(threads[0].tid, own_tgid());
        assert_eq!(threads[0].parent_tgid, std::os::unix::process::parent_id());
        let found = threads.iter().find(|thread| thread.tid == tid).unwrap();
        assert_eq!(found.comm, b"one of mine");
        // The kernel rounds down to a tick.
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert!((before - tick_ns..=after).contains(&found.start_ns), "{found:?}");
        assert_eq!(existing.thread(own_tgid(), own_tid()).unwrap().state, 'R');
        drop(stop);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn what_has_gone_is_no_error() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let tgid = child.id();
        child.wait().unwrap();
        let mut existing = Existing::new();
        assert_eq!(existing.threads(tgid).unwrap(), []);
        assert_eq!(existing.thread(tgid, tgid), None);
        assert_eq!(existing.records(&[], 1), []);
    }
}
