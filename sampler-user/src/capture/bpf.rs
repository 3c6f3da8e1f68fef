//! The BPF programs and their maps: loading, switching on and off, reading.
//!
//! Knows the layout of `sampler-common` and nothing of events or targets beyond their numbers.

use super::btf::{Offsets, VMLINUX_BTF};
use super::error::CaptureError;
use super::ring::Purpose;
use super::sys;
use crate::model::event::{Event, Sampling, Source};
use crate::model::snapshot::{Snapshot, ThreadCounts};
use aya::maps::{HashMap, Map, MapData, MapError, PerCpuArray};
use aya::programs::{BtfTracePoint, PerfEvent, Program, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use memmap2::{MmapOptions, MmapRaw};
use object::{Object, ObjectSection, ObjectSymbol};
use sampler_common::abi::{
    ABI_VERSION, Control, MAX_EVENTS, Process, Thread, cause, mode, source, unpack_ids,
};
use sampler_common::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// The object, aligned as ELF readers want it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sampler.bpf.o"));

/// The tracepoint programs, each with its tracepoint.
const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_switch", "sched_switch"),
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
    ("on_rename", "task_rename"),
];

/// The maps of counters, one an event.
const COUNTERS: [&str; MAX_EVENTS] = [
    "COUNTERS_0",
    "COUNTERS_1",
    "COUNTERS_2",
    "COUNTERS_3",
    "COUNTERS_4",
    "COUNTERS_5",
    "COUNTERS_6",
    "COUNTERS_7",
];

/// Fewest processes there is room for. Beyond that, one for every fourth thread.
const MIN_PROCESSES: u32 = 1024;

/// How often a CPU is asked again when a snapshot finds it busy.
const SNAPSHOT_TRIES: u32 = 1000;

/// What the programs are told before they are loaded.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The events, at most [`MAX_EVENTS`].
    pub events: &'a [Event],
    /// Every process is measured.
    pub everything: bool,
    /// Only chosen threads are measured.
    pub selected: bool,
    /// Children and new threads are measured too.
    pub inherit: bool,
    /// Samples carry call chains.
    pub chains: bool,
    /// Descriptors there are.
    pub max_threads: u32,
    /// The programs' debug messages are wanted.
    pub debug: bool,
}

/// The loaded programs. Everything is detached and freed when this is dropped.
pub struct Programs {
    ebpf: Ebpf,
    control: MmapRaw,
    slots: MmapRaw,
    capacity: u32,
    online_cpus: Vec<u32>,
}

/// A process's record as a map value.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct ProcessValue(Process<u64>);

// SAFETY: `repr(C)` words without padding (const-asserted), any bits are valid.
unsafe impl Pod for ProcessValue {}

impl Programs {
    /// Loads the programs; attaches nothing yet.
    ///
    /// # Errors
    /// When the kernel lacks type information or refuses the object, and says why.
    pub fn load(settings: Settings<'_>) -> Result<Self, CaptureError> {
        check_abi_version()?;
        let offsets = Offsets::read(Path::new(VMLINUX_BTF))?;
        let btf = Btf::from_sys_fs().map_err(|error| CaptureError::BtfField {
            field: "any type",
            message: error.to_string(),
        })?;
        let online_cpus = aya::util::online_cpus()
            .map_err(|(what, source)| CaptureError::Machine { what: what.to_owned(), source })?;
        let mut ebpf = load_object(settings, offsets, &btf)?;
        for (name, tracepoint) in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut ebpf, name)?;
            program.load(tracepoint, &btf).map_err(refused("load", name))?;
        }
        let snapshot: &mut RawTracePoint = program(&mut ebpf, "on_snapshot")?;
        snapshot.load().map_err(refused("load", "on_snapshot"))?;
        if settings.events.iter().any(|event| event.sampling != Sampling::Off) {
            let overflow: &mut PerfEvent = program(&mut ebpf, "on_overflow")?;
            overflow.load().map_err(refused("load", "on_overflow"))?;
        }
        let control = map_memory(&ebpf, "CONTROL", size_of::<Control>())?;
        let slots =
            map_memory(&ebpf, "SLOTS", size_of::<Thread>() * settings.max_threads as usize)?;
        Ok(Self { ebpf, control, slots, capacity: settings.max_threads, online_cpus })
    }

    /// The object, for its log.
    pub fn ebpf_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// The CPUs that are online, by number.
    pub fn online_cpus(&self) -> &[u32] {
        &self.online_cpus
    }

    /// Attaches the tracepoint programs. Nothing is counted before [`set_enabled`](Self::set_enabled).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(&mut self) -> Result<(), CaptureError> {
        for (name, _) in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut self.ebpf, name)?;
            program.attach().map_err(refused("attach", name))?;
        }
        Ok(())
    }

    /// The program for overflows, to be attached to events.
    ///
    /// # Errors
    /// When no event samples: it is not loaded then.
    pub fn overflow_program(&self) -> Result<BorrowedFd<'_>, CaptureError> {
        self.program_fd("on_overflow")
    }

    /// The map of an event's counters to read: index CPU.
    ///
    /// # Errors
    /// When the object lacks it.
    pub fn counters_map(&self, event: usize) -> Result<BorrowedFd<'_>, CaptureError> {
        let name = COUNTERS.get(event).copied();
        map_fd(&self.ebpf, name.ok_or(CaptureError::Object { name: "COUNTERS" })?)
    }

    /// The map of ways out for this purpose: index CPU.
    ///
    /// # Errors
    /// When the object lacks it.
    pub fn output_map(&self, purpose: Purpose) -> Result<BorrowedFd<'_>, CaptureError> {
        map_fd(
            &self.ebpf,
            match purpose {
                Purpose::Samples => "OUTPUT_SAMPLES",
                Purpose::Lives => "OUTPUT_ENDS",
            },
        )
    }

    /// Measures a process, with these bits of `abi::flag`.
    ///
    /// # Errors
    /// When there is no room.
    pub fn follow(&mut self, tgid: u32, flags: u64) -> Result<(), CaptureError> {
        let process = ProcessValue(Process { flags, ..Process::default() });
        let mut map: HashMap<&mut MapData, u32, ProcessValue> =
            hash_map(&mut self.ebpf, "PROCESSES")?;
        map.insert(tgid, process, 0).map_err(map_error("add a process to", "PROCESSES"))
    }

    /// Measures a thread of a process that was given `flag::SELECTED_THREADS`.
    ///
    /// # Errors
    /// When there is no room.
    pub fn select(&mut self, tid: u32) -> Result<(), CaptureError> {
        let mut map: HashMap<&mut MapData, u32, u32> = hash_map(&mut self.ebpf, "SELECTED")?;
        map.insert(tid, 1, 0).map_err(map_error("add a thread to", "SELECTED"))
    }

    /// Starts or stops counting, everywhere at once; then finds out who runs on each CPU, or credits
    /// whoever does for the last time.
    ///
    /// # Errors
    /// As [`credit_running`](Self::credit_running).
    pub fn set_enabled(&self, enabled: bool) -> Result<(), CaptureError> {
        self.control().enabled.set(u64::from(enabled));
        self.credit_running()
    }

    /// Brings the counts of the threads that run now up to date.
    ///
    /// # Errors
    /// When the program can't be run on a CPU that is online.
    pub fn credit_running(&self) -> Result<(), CaptureError> {
        let program = self.program_fd("on_snapshot")?;
        for &cpu in &self.online_cpus {
            credit_running_on(program, cpu)?;
        }
        Ok(())
    }

    /// Reads all descriptors in use, all processes and all causes of loss. What runs meanwhile may
    /// or may not be included; threads that end meanwhile are left out.
    ///
    /// # Errors
    /// When a map can't be read.
    pub fn snapshot(&self) -> Result<Snapshot, CaptureError> {
        Ok(Snapshot {
            threads: self.slots().iter().filter_map(read_slot).collect(),
            processes: self.processes()?,
            causes: self.causes()?,
            capacity: u64::from(self.capacity),
            peak: self.slots().len() as u64,
        })
    }

    /// A thread of the process has a descriptor.
    pub fn has_threads_of(&self, tgid: u32) -> bool {
        self.slots().iter().any(|slot| {
            slot.state.get() == Thread::<()>::LIVE && unpack_ids(slot.ids.get()).0 == tgid
        })
    }

    /// Descriptors in use now.
    pub fn live_threads(&self) -> u64 {
        self.slots().iter().filter(|slot| slot.state.get() == Thread::<()>::LIVE).count() as u64
    }

    /// Samples that could not be sent so far.
    ///
    /// # Errors
    /// When the map can't be read.
    pub fn lost_samples(&self) -> Result<u64, CaptureError> {
        Ok(self.causes()?[cause::SAMPLES_LOST as usize])
    }

    fn process_map(&self) -> Result<HashMap<&MapData, u32, ProcessValue>, CaptureError> {
        let map = self.ebpf.map("PROCESSES").ok_or(CaptureError::Object { name: "PROCESSES" })?;
        HashMap::try_from(map).map_err(map_error("use", "PROCESSES"))
    }

    /// Keys come and go while this iterates, and the kernel starts again at the first one when the
    /// one at hand is gone; so they are collected by key, and not for ever.
    fn processes(&self) -> Result<std::collections::BTreeMap<u32, Process<u64>>, CaptureError> {
        let at_most = 4 * process_capacity(self.capacity) as usize;
        let mut processes = std::collections::BTreeMap::new();
        for entry in self.process_map()?.iter().take(at_most) {
            match entry {
                Ok((tgid, value)) => drop(processes.insert(tgid, value.0)),
                Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(map_error("read", "PROCESSES")(error)),
            }
        }
        Ok(processes)
    }

    fn causes(&self) -> Result<[u64; cause::COUNT as usize], CaptureError> {
        let map = self.ebpf.map("STATS").ok_or(CaptureError::Object { name: "STATS" })?;
        let map: PerCpuArray<&MapData, u64> =
            PerCpuArray::try_from(map).map_err(map_error("use", "STATS"))?;
        let mut causes = [0; cause::COUNT as usize];
        for (index, total) in (0..).zip(&mut causes) {
            let values = map.get(&index, 0).map_err(map_error("read", "STATS"))?;
            *total = values.iter().sum();
        }
        Ok(causes)
    }

    fn program_fd(&self, name: &'static str) -> Result<BorrowedFd<'_>, CaptureError> {
        let program = self.ebpf.program(name).ok_or(CaptureError::Object { name })?;
        Ok(program.fd().map_err(refused("use", name))?.as_fd())
    }

    fn control(&self) -> &Control {
        // SAFETY: mapped with this size, and made of atomics only.
        unsafe { &*self.control.as_ptr().cast() }
    }

    /// The descriptors that have ever been in use.
    fn slots(&self) -> &[Thread] {
        let used = self.control().next_slot.get().min(u64::from(self.capacity)) as usize;
        // SAFETY: mapped with room for `capacity` of them, and made of atomics only.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), used) }
    }
}

fn load_object(settings: Settings<'_>, offsets: Offsets, btf: &Btf) -> Result<Ebpf, CaptureError> {
    let events = settings.events.len() as u32;
    let sources = sources(settings.events);
    let mode = bit(settings.everything, mode::EVERYTHING)
        | bit(settings.inherit, mode::INHERIT)
        | bit(settings.chains, mode::CHAINS)
        | bit(settings.events.iter().any(|event| event.source == Source::Clock), mode::CLOCK);
    let log_level = if settings.debug { aya_log_level() } else { 0 };
    EbpfLoader::new()
        .btf(Some(btf))
        .override_global("EVENTS", &events, true)
        .override_global("SOURCES", &sources, true)
        .override_global("MODE", &mode, true)
        .override_global("CAPACITY", &settings.max_threads, true)
        .override_global("TASK_PID", &offsets.task_pid, true)
        .override_global("TASK_TGID", &offsets.task_tgid, true)
        .override_global("TASK_STATE", &offsets.task_state, true)
        .override_global("TASK_START_TIME", &offsets.task_start_time, true)
        .override_global("TASK_EXEC_RUNTIME", &offsets.task_exec_runtime, true)
        .override_global("TASK_COMM", &offsets.task_comm, true)
        .override_global("TASK_SIGNAL", &offsets.task_signal, true)
        .override_global("SIGNAL_LIVE", &offsets.signal_live, true)
        .override_global(aya_log::LEVEL, &log_level, true)
        .map_max_entries("SLOTS", settings.max_threads)
        .map_max_entries("THREADS", settings.max_threads)
        .map_max_entries("FREE", settings.max_threads)
        .map_max_entries("SELECTED", if settings.selected { settings.max_threads } else { 1 })
        .map_max_entries("PROCESSES", process_capacity(settings.max_threads))
        .load(OBJECT)
        .map_err(|error| CaptureError::LoadObject(Box::new(error)))
}

fn aya_log_level() -> u8 {
    log::Level::Debug as u8
}

fn process_capacity(max_threads: u32) -> u32 {
    (max_threads / 4).max(MIN_PROCESSES)
}

fn bit(wanted: bool, bit: u32) -> u32 {
    if wanted { bit } else { 0 }
}

fn sources(events: &[Event]) -> u32 {
    let sources = events.iter().map(|event| match event.source {
        Source::Clock => source::CLOCK,
        Source::Counter => source::COUNTER,
        Source::Switches => source::SWITCHES,
        Source::Migrations => source::MIGRATIONS,
    });
    sources
        .zip(0..MAX_EVENTS as u32)
        .fold(0, |all, (source, event)| all | source << (event * source::BITS))
}

fn credit_running_on(program: BorrowedFd<'_>, cpu: u32) -> Result<(), CaptureError> {
    for _ in 0..SNAPSHOT_TRIES {
        match sys::run_on_cpu(program, cpu) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            // The CPU has gone offline: nobody runs there.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(()),
            Err(source) => return Err(CaptureError::Snapshot { cpu, source }),
        }
    }
    Err(CaptureError::Snapshot { cpu, source: io::ErrorKind::ResourceBusy.into() })
}

/// `None` when the descriptor is free, or changes hands while it is read.
fn read_slot(slot: &Thread) -> Option<ThreadCounts> {
    let identity = || (slot.state.get(), slot.ids.get(), slot.start_ns.get());
    let (state, ids, start_ns) = identity();
    if state != Thread::<()>::LIVE {
        return None;
    }
    let (tgid, tid) = unpack_ids(ids);
    let thread = ThreadCounts {
        tgid,
        tid,
        start_ns,
        last_cpu: slot.last_cpu.get().checked_sub(1).map(|cpu| cpu as u32),
        comm: comm_bytes(slot.comm.each_ref().map(Cell::get)),
        samples: slot.samples.get(),
        lost_samples: slot.lost_samples.get(),
        events: slot.events.each_ref().map(|event| sampler_common::abi::EventCounts {
            count: event.count.get(),
            sampled: event.sampled.get(),
            carried: event.carried.get(),
            lost: event.lost.get(),
            enabled_ns: event.enabled_ns.get(),
            running_ns: event.running_ns.get(),
        }),
    };
    (identity() == (state, ids, start_ns)).then_some(thread)
}

/// A name up to its first NUL.
pub fn comm_bytes(words: [u64; 2]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect()
}

fn check_abi_version() -> Result<(), CaptureError> {
    let missing = || CaptureError::Object { name: "SAMPLER_ABI_VERSION" };
    let file = object::File::parse(OBJECT).map_err(|_| missing())?;
    let symbol = file.symbol_by_name("SAMPLER_ABI_VERSION").ok_or_else(missing)?;
    let section = symbol
        .section_index()
        .and_then(|index| file.section_by_index(index).ok())
        .ok_or_else(missing)?;
    let bytes = section.data().map_err(|_| missing())?;
    let start = symbol.address() as usize;
    let bytes = bytes.get(start..start + 4).and_then(|bytes| bytes.try_into().ok());
    let found = u32::from_le_bytes(bytes.ok_or_else(missing)?);
    if found == ABI_VERSION {
        Ok(())
    } else {
        Err(CaptureError::AbiVersion { found, expected: ABI_VERSION })
    }
}

fn map_memory(ebpf: &Ebpf, name: &'static str, len: usize) -> Result<MmapRaw, CaptureError> {
    MmapOptions::new().len(len).map_raw(&map_fd(ebpf, name)?).map_err(|source| CaptureError::Map {
        action: "map",
        map: name,
        source,
    })
}

fn map_fd<'a>(ebpf: &'a Ebpf, name: &'static str) -> Result<BorrowedFd<'a>, CaptureError> {
    match ebpf.map(name) {
        Some(Map::Array(data) | Map::PerfEventArray(data)) => Ok(data.fd().as_fd()),
        _ => Err(CaptureError::Object { name }),
    }
}

fn hash_map<'a, V: Pod>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<HashMap<&'a mut MapData, u32, V>, CaptureError> {
    let map = ebpf.map_mut(name).ok_or(CaptureError::Object { name })?;
    HashMap::try_from(map).map_err(map_error("use", name))
}

fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, CaptureError>
where
    &'a mut P: TryFrom<&'a mut Program>,
{
    ebpf.program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or(CaptureError::Object { name })
}

fn refused(
    action: &'static str,
    program: &'static str,
) -> impl FnOnce(ProgramError) -> CaptureError {
    move |source| CaptureError::Program { action, program, source: Box::new(source) }
}

fn map_error(action: &'static str, map: &'static str) -> impl FnOnce(MapError) -> CaptureError {
    move |error| CaptureError::Map { action, map, source: io::Error::other(error) }
}
