//! What a recording says about itself and the machine it was taken on.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use procfs::{CpuInfo, Current};
use rustix::time::{ClockId, Timespec};

use crate::model::event::Event;

/// The circumstances of a recording.
#[derive(Clone, Debug)]
pub struct Header {
    /// The events of the session; records refer to them by index.
    pub events: Vec<Event>,
    /// Samples carry call chains.
    pub call_chains: bool,
    /// New threads and child processes are followed.
    pub inherit: bool,
    /// The CPUs.
    pub cpus: Cpus,
    /// The command line of the recorder.
    pub command_line: Vec<Vec<u8>>,
    /// Name of the machine.
    pub hostname: Vec<u8>,
    /// Kernel release.
    pub release: Vec<u8>,
    /// Machine architecture, as `uname -m` says it.
    pub machine: Vec<u8>,
    /// Name and version of the recorder.
    pub tool_version: String,
    /// Main memory, in KiB.
    pub memory_kib: u64,
    /// Model name of the CPU, where the kernel tells it.
    pub cpu_description: Option<String>,
    /// Vendor, family, model and stepping of the CPU, where the kernel tells them.
    pub cpu_id: Option<String>,
    /// The clock of the records' times.
    pub clock: Clock,
}

/// How many CPUs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPU numbers are below this.
    pub possible: u32,
    /// Built in: numbers are below this, unless one is plugged in later.
    pub present: u32,
    /// In use.
    pub online: u32,
}

/// `CLOCK_MONOTONIC`, and the wall clock at one moment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Its resolution, nanoseconds.
    pub resolution_ns: u64,
    /// A moment of `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// The same moment of `CLOCK_REALTIME`, nanoseconds.
    pub wall_ns: u64,
}

impl Header {
    /// The header of a recording of `events` taken here and now by the command `argv`: with call
    /// chains and following, unless changed afterwards.
    ///
    /// What the machine doesn't tell is left out; that is no error.
    pub fn of_this_machine(events: &[Event], argv: impl IntoIterator<Item = OsString>) -> Self {
        let uname = rustix::system::uname();
        let cpu_info = CpuInfo::current().ok();
        Self {
            events: events.to_vec(),
            call_chains: true,
            inherit: true,
            cpus: Cpus::of_this_machine(),
            command_line: argv.into_iter().map(OsString::into_vec).collect(),
            hostname: uname.nodename().to_bytes().to_vec(),
            release: uname.release().to_bytes().to_vec(),
            machine: uname.machine().to_bytes().to_vec(),
            tool_version: concat!("sampler ", env!("CARGO_PKG_VERSION")).to_owned(),
            memory_kib: memory_kib(),
            cpu_description: cpu_info
                .as_ref()
                .and_then(|info| info.model_name(0))
                .map(str::to_owned),
            cpu_id: cpu_info.as_ref().and_then(cpu_id),
            clock: Clock::now(),
        }
    }
}

impl Cpus {
    fn of_this_machine() -> Self {
        let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let online = cpus_in("online").map_or(online, |cpus| cpus.count);
        let present = cpus_in("present").map_or(online, |cpus| cpus.end);
        let possible = cpus_in("possible").map_or(present, |cpus| cpus.end);
        Self { possible: possible.max(present), present, online }
    }
}

impl Clock {
    fn now() -> Self {
        let nanos = |t: Timespec| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
        Self {
            resolution_ns: nanos(rustix::time::clock_getres(ClockId::Monotonic)),
            monotonic_ns: nanos(rustix::time::clock_gettime(ClockId::Monotonic)),
            wall_ns: nanos(rustix::time::clock_gettime(ClockId::Realtime)),
        }
    }
}

/// A kernel list of CPUs.
#[derive(Debug, PartialEq, Eq)]
struct CpuList {
    /// How many.
    count: u32,
    /// One more than the highest number.
    end: u32,
}

fn cpus_in(list: &str) -> Option<CpuList> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/{list}")).ok()?;
    parse_cpu_list(&text)
}

/// Reads a list such as `0-3,8`.
fn parse_cpu_list(text: &str) -> Option<CpuList> {
    let mut cpus = CpuList { count: 0, end: 0 };
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let end = last.checked_add(1)?;
        cpus.count += end.checked_sub(first)?;
        cpus.end = cpus.end.max(end);
    }
    Some(cpus)
}

fn memory_kib() -> u64 {
    let info = rustix::system::sysinfo();
    // `totalram` is a `u64` on 64-bit machines, the only ones supported.
    let bytes = info.totalram.saturating_mul(u64::from(info.mem_unit));
    bytes / 1024
}

/// The identification that perf uses on x86: `GenuineIntel,6,85,7`.
fn cpu_id(info: &CpuInfo) -> Option<String> {
    let fields = ["vendor_id", "cpu family", "model", "stepping"];
    let values: Option<Vec<&str>> = fields.iter().map(|name| info.get_field(0, name)).collect();
    Some(values?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cpu_lists() {
        assert_eq!(parse_cpu_list("0\n"), Some(CpuList { count: 1, end: 1 }));
        assert_eq!(parse_cpu_list("0-3,8,10-11\n"), Some(CpuList { count: 7, end: 12 }));
        assert_eq!(parse_cpu_list(""), None);
        assert_eq!(parse_cpu_list("3-1"), None);
        assert_eq!(parse_cpu_list("0-4294967295"), None);
    }
}
