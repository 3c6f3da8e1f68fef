//! The kernel's own CPU clocks: the oracle of every exact count. Nothing here is sampler's.

use std::io;

use libc::{CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, clockid_t, timespec};

/// The scheduler's clock, in nanoseconds (Linux 6.18, `include/linux/posix-timers_types.h`).
#[doc(alias = "CPUCLOCK_SCHED")]
const SCHEDULER: clockid_t = 2;
/// The clock of one thread, not of its process (same file).
#[doc(alias = "CPUCLOCK_PERTHREAD")]
const PER_THREAD: clockid_t = 4;

/// CPU time of the process `tgid`, its exited threads included, in nanoseconds.
///
/// It leaves out what a thread does after its times are summed up in its exit, 3 to 5 µs each.
///
/// # Errors
/// When there is no such process.
pub fn process_ns(tgid: u32) -> io::Result<u64> {
    read((!tgid.cast_signed() << 3) | SCHEDULER)
}

/// CPU time of the thread `tid` of the calling process, in nanoseconds.
///
/// # Errors
/// When there is no such thread; the kernel refuses threads of other processes too.
pub fn thread_ns(tid: u32) -> io::Result<u64> {
    read((!tid.cast_signed() << 3) | PER_THREAD | SCHEDULER)
}

/// CPU time of the calling process, in nanoseconds.
///
/// # Errors
/// None that Linux documents.
pub fn own_process_ns() -> io::Result<u64> {
    read(CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread, in nanoseconds.
///
/// # Errors
/// None that Linux documents.
pub fn own_thread_ns() -> io::Result<u64> {
    read(CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: clockid_t) -> io::Result<u64> {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes for the length of the call; any clock id may be passed.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_by_id_are_the_ones_by_name() {
        let tgid = std::process::id();
        let before = own_process_ns().unwrap();
        let by_id = process_ns(tgid).unwrap();
        assert!(before <= by_id && by_id <= own_process_ns().unwrap());

        let tid = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let before = own_thread_ns().unwrap();
        let by_id = thread_ns(tid).unwrap();
        assert!(before <= by_id && by_id <= own_thread_ns().unwrap());
    }
}
