//! What happened during a session, one value an occurrence, in the order of time.
//!
//! The kernel's side-band records and the BPF programs' messages are decoded to these, and the
//! recording is written from them.

/// When and where something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Process id in the initial PID namespace; `u32::MAX` (-1) for the kernel itself.
    pub tgid: u32,
    /// Thread id in the initial PID namespace.
    pub tid: u32,
    /// The CPU it happened on.
    pub cpu: u32,
}

/// One occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A thread has this name from now on.
    Comm(Comm),
    /// A thread or process was started.
    Fork(Task),
    /// A thread ended.
    Exit(Task),
    /// Code was mapped.
    Mmap(Mmap),
    /// A hit was sampled.
    Sample(Sample),
    /// The exact count of a thread, final if it has ended.
    Read(Read),
    /// Samples were taken but not delivered.
    LostSamples(LostSamples),
    /// The kernel stopped (`true`) or restarted an event that overflowed too often.
    Throttle(Stamp, bool),
}

/// A thread's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// When, and whose.
    pub stamp: Stamp,
    /// The name, as the kernel has it: up to 15 bytes, any bytes but NUL.
    pub comm: Vec<u8>,
    /// It came by `exec`, which also drops all mappings.
    pub exec: bool,
}

/// A thread's start or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// When, and on which CPU. Its ids are those of the thread that did it.
    pub stamp: Stamp,
    /// The thread that started or ended.
    pub tgid: u32,
    /// See `tgid`.
    pub tid: u32,
    /// Its parent: of a new thread the thread that made it.
    pub parent_tgid: u32,
    /// See `parent_tgid`.
    pub parent_tid: u32,
}

/// What identifies the file of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileId {
    /// The build id of its ELF notes: so many bytes (at most 20) of the array.
    BuildId([u8; 20], u8),
    /// Device and inode, where there is no build id.
    Inode {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Inode generation, 0 when not known.
        generation: u64,
    },
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mmap {
    /// When, and whose. Kernel code has tgid -1 (`u32::MAX`) and tid 0.
    pub stamp: Stamp,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// `PROT_*` bits.
    pub prot: u32,
    /// `MAP_*` bits.
    pub flags: u32,
    /// The file.
    pub file: FileId,
    /// Path of the file, or `[vdso]`, `//anon`, `[kernel.kallsyms]_text`, …
    pub path: Vec<u8>,
    /// Code of the kernel, not of a process.
    pub kernel: bool,
}

/// One sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When, whose, where.
    pub stamp: Stamp,
    /// Index of the event in the session.
    pub event: usize,
    /// Events that the sample stands for.
    pub weight: u64,
    /// The hit was in the kernel.
    pub in_kernel: bool,
    /// Instruction pointer at the hit; 0 when it could not be taken.
    pub ip: u64,
    /// Kernel call chain, innermost first, starting with the instruction pointer. Empty when the
    /// hit was in user space or no chains are taken.
    pub kernel_chain: Vec<u64>,
    /// User call chain, innermost first. Empty for kernel threads or when no chains are taken.
    pub user_chain: Vec<u64>,
}

/// An exact count of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// When, and whose.
    pub stamp: Stamp,
    /// Index of the event in the session.
    pub event: usize,
    /// The count.
    pub count: u64,
    /// Time the event was wanted while the thread ran, nanoseconds.
    pub enabled_ns: u64,
    /// Time it was really counted, nanoseconds.
    pub running_ns: u64,
}

/// Samples that were taken but not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSamples {
    /// When it was noticed, and whose they were.
    pub stamp: Stamp,
    /// Index of the event in the session.
    pub event: usize,
    /// How many.
    pub samples: u64,
}

impl Record {
    /// When and where it happened.
    pub fn stamp(&self) -> Stamp {
        match self {
            Self::Comm(comm) => comm.stamp,
            Self::Fork(task) | Self::Exit(task) => task.stamp,
            Self::Mmap(mmap) => mmap.stamp,
            Self::Sample(sample) => sample.stamp,
            Self::Read(read) => read.stamp,
            Self::LostSamples(lost) => lost.stamp,
            Self::Throttle(stamp, _) => *stamp,
        }
    }
}
