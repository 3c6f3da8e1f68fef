//! Why a session could not be had.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A session can't start or go on. Each message says what was attempted, on what, and, where there
/// is one, the way out; the kernel's or the library's own word is the source.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// There is no such process.
    #[error("can't attach to process {tgid}: there is no such process")]
    NoProcess {
        /// What was asked for.
        tgid: u32,
    },
    /// A thread that is not a process's main one was given as a process.
    #[error(
        "can't attach to process {tid}: it is a thread of process {tgid}; use -p {tgid}, or -t {tid} for the thread alone"
    )]
    NotAProcess {
        /// What was asked for.
        tid: u32,
        /// The process it belongs to.
        tgid: u32,
    },
    /// There is no such thread.
    #[error("can't attach to thread {tid}: there is no such thread")]
    NoThread {
        /// What was asked for.
        tid: u32,
    },
    /// A target could not be watched.
    #[error("can't watch process {tgid}")]
    Watch {
        /// The target.
        tgid: u32,
        /// Why not.
        source: io::Error,
    },
    /// The caller may not use BPF or perf events.
    #[error(
        "not permitted: sampler needs {missing}; run it as root, or grant them with `setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep` on the binary"
    )]
    NotPermitted {
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel is locked down.
    #[error(
        "not permitted: the kernel is locked down ({mode}), which forbids BPF programs to read kernel memory; boot without lockdown=confidentiality"
    )]
    LockedDown {
        /// The mode in force.
        mode: String,
    },
    /// Inside a container's PID namespace the kernel's ids can't be matched.
    #[error(
        "can't match thread ids: sampler runs in a PID namespace of its own; run it in the host's (for example `docker run --pid=host`)"
    )]
    PidNamespace,
    /// The kernel says nothing of its types.
    #[error(
        "can't read the kernel's type information at {path}: the kernel must be built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf {
        /// Where it should be.
        path: PathBuf,
        /// Why it could not be read.
        source: io::Error,
    },
    /// The kernel's types are not those we know.
    #[error("can't find {field} in the kernel's type information: {message}")]
    BtfField {
        /// What was looked up.
        field: &'static str,
        /// What the parser said.
        message: String,
    },
    /// Before the oldest kernel supported.
    #[error("kernel {release} is too old: sampler needs Linux 5.15 or newer")]
    KernelTooOld {
        /// The running kernel.
        release: String,
    },
    /// The embedded object and this program are not of one build.
    #[error(
        "the BPF object has ABI version {found}, but this is built for {expected}; run `cargo xtask build-ebpf` and build again"
    )]
    AbiVersion {
        /// Of the object.
        found: u32,
        /// Of this program.
        expected: u32,
    },
    /// The BPF object could not be loaded.
    #[error("can't load the BPF object")]
    LoadObject(#[source] Box<aya::EbpfError>),
    /// A BPF program was refused.
    #[error("can't {action} the BPF program {program}")]
    Program {
        /// `load` or `attach`.
        action: &'static str,
        /// Which.
        program: &'static str,
        /// Why.
        source: Box<aya::programs::ProgramError>,
    },
    /// Something that the object must have is not there, or not as expected.
    #[error("the BPF object has no usable {name}")]
    Object {
        /// A map, program or symbol.
        name: &'static str,
    },
    /// A map could not be used.
    #[error("can't {action} the BPF map {map}")]
    Map {
        /// What was attempted.
        action: &'static str,
        /// On which.
        map: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A program could not be run on a CPU.
    #[error("can't take a snapshot on CPU {cpu}")]
    Snapshot {
        /// Where.
        cpu: u32,
        /// Why not.
        source: io::Error,
    },
    /// This machine can't count the event.
    #[error("can't count {event}: this machine has no such event{hint}")]
    EventUnsupported {
        /// As asked for.
        event: String,
        /// What to do.
        hint: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
    /// The kernel won't open the event.
    #[error("can't open {event} on CPU {cpu}: {reason}")]
    EventRefused {
        /// As asked for.
        event: String,
        /// Where.
        cpu: u32,
        /// Why, and what to do.
        reason: String,
        /// The kernel's word.
        source: io::Error,
    },
    /// The way out of the BPF programs could not be set up.
    #[error("can't set up the output of CPU {cpu}")]
    Output {
        /// Where.
        cpu: u32,
        /// Why not.
        source: io::Error,
    },
    /// The machine could not be looked at.
    #[error("can't read {what}")]
    Machine {
        /// What was to be read.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// The command could not be started.
    #[error("can't run {command}: {reason}")]
    Command {
        /// As given.
        command: String,
        /// Why not.
        reason: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// The recording could not be written.
    #[error(transparent)]
    Recording(super::collector::SinkError),
    /// An interval's report could not be shown.
    #[error("can't write the report")]
    Show(#[source] io::Error),
    /// The task that drains the rings is gone.
    #[error("can't go on collecting")]
    Collector(#[source] io::Error),
}
