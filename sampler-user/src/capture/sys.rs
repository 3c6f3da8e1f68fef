//! The system calls that neither `aya` nor `rustix` has: `perf_event_open` and its ioctls, and the
//! BPF commands for events that are not `aya`'s own.

use aya_obj::generated::{bpf_attr, bpf_cmd};
use perf_event_open_sys as perf;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `BPF_PERF_EVENT`, `enum bpf_attach_type`, since v5.15.
#[doc(alias = "BPF_PERF_EVENT")]
const ATTACH_PERF_EVENT: u32 = 41;

/// Run the program on the CPU that is named: since v5.10.
#[doc(alias = "BPF_F_TEST_RUN_ON_CPU")]
const TEST_RUN_ON_CPU: u32 = 1;

/// Opens an event on a CPU, for every thread that runs there.
///
/// # Errors
/// Whatever the kernel answers; see `perf_event_open(2)`.
pub fn open_event_on_cpu(
    attr: &mut perf::bindings::perf_event_attr,
    cpu: u32,
) -> io::Result<OwnedFd> {
    attr.size = size_of::<perf::bindings::perf_event_attr>() as u32;
    let flags = perf::bindings::PERF_FLAG_FD_CLOEXEC;
    // SAFETY: `attr` is valid and says its own size.
    let fd = unsafe { perf::perf_event_open(attr, -1, cpu as i32, -1, flags.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Starts an event that was opened disabled.
///
/// # Errors
/// Whatever the kernel answers.
pub fn enable_event(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { perf::ioctls::ENABLE(event.as_raw_fd(), 0) }.into()).map(drop)
}

/// Sends an event's own records, such as that it was throttled, to another event's ring.
///
/// # Errors
/// Whatever the kernel answers.
pub fn redirect_records(event: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), to.as_raw_fd()) }.into()).map(drop)
}

/// Puts a descriptor into a map of descriptors, such as a perf event array.
///
/// # Errors
/// Whatever the kernel answers.
pub fn set_map_fd(map: BorrowedFd<'_>, index: u32, fd: BorrowedFd<'_>) -> io::Result<()> {
    let value = fd.as_raw_fd();
    let mut attr = empty_attr();
    // SAFETY: the union's member for this command.
    let update = unsafe { &mut attr.__bindgen_anon_2 };
    update.map_fd = map.as_raw_fd() as u32;
    update.key = (&raw const index) as u64;
    update.__bindgen_anon_1.value = (&raw const value) as u64;
    bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// Runs a program at an event's overflows, with a cookie that the program can read. It is detached
/// when the returned link is dropped.
///
/// # Errors
/// Whatever the kernel answers: `EINVAL` before v5.15.
pub fn attach_to_event(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> io::Result<OwnedFd> {
    let mut attr = empty_attr();
    // SAFETY: the union's member for this command.
    let create = unsafe { &mut attr.link_create };
    create.__bindgen_anon_1.prog_fd = program.as_raw_fd() as u32;
    create.__bindgen_anon_2.target_fd = event.as_raw_fd() as u32;
    create.attach_type = ATTACH_PERF_EVENT;
    create.__bindgen_anon_3.perf_event.bpf_cookie = cookie;
    let fd = bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Runs a raw tracepoint program once, in an interrupt on a CPU; returns what it returned.
///
/// # Errors
/// Whatever the kernel answers: `ENXIO` when the CPU is offline.
pub fn run_on_cpu(program: BorrowedFd<'_>, cpu: u32) -> io::Result<u32> {
    let mut attr = empty_attr();
    // SAFETY: the union's member for this command.
    let test = unsafe { &mut attr.test };
    test.prog_fd = program.as_raw_fd() as u32;
    test.flags = TEST_RUN_ON_CPU;
    test.cpu = cpu;
    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr)?;
    // SAFETY: the kernel has filled in this member.
    Ok(unsafe { attr.test.retval })
}

fn empty_attr() -> bpf_attr {
    // SAFETY: a union of plain integers, for which all zeroes are valid and mean "not given".
    unsafe { std::mem::zeroed() }
}

fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i64> {
    // SAFETY: the pointers in `attr` are to values that outlive the call, as the callers build them.
    check(unsafe {
        libc::syscall(libc::SYS_bpf, command as u32, &raw mut *attr, size_of::<bpf_attr>())
    })
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
