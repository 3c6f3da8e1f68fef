//! A made-up session in this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sampler::capture::existing::{self, Existing};
use sampler::model::event::{Event, Sampling, Source, Unit};
use sampler::model::record::{Comm, FileId, LostSamples, Mmap, Read, Record, Sample, Stamp, Task};
use sampler::output::perfdata::{Header, Recording, Summary};

/// The kernel function that samples hit.
pub const KERNEL_FUNCTION: &str = "schedule";
/// Threads that this process pretends to start: from this id, which no thread has.
pub const FIRST_TID: u32 = 5_000_001;
/// A process that this one pretends to start.
pub const CHILD: u32 = 6_000_001;

/// `Σ` of what was recorded, by thread and event.
pub type Sums = BTreeMap<(u32, String), Sum>;

/// Samples of one event in one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub samples: u64,
    pub weight: u64,
}

/// What goes into a recording.
pub struct Session {
    pub header: Header,
    pub records: Vec<Record>,
}

/// The user function that samples hit.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn function_of_samples(x: u64) -> u64 {
    std::hint::black_box(x).wrapping_mul(3)
}

impl Session {
    /// Two sampled events and one that is only counted, in three threads and a child process.
    pub fn new() -> Self {
        let events = [
            event("cpu-clock", Unit::Nanoseconds, Source::Clock, Sampling::Frequency(999), 0),
            event("page-faults:u", Unit::Events, Source::Counter, Sampling::Period(100), 2),
            event("context-switches", Unit::Events, Source::Switches, Sampling::Off, 3),
        ];
        let argv = ["sampler", "record", "-p", "1"].map(Into::into);
        let mut session =
            Self { header: Header::of_this_machine(&events, argv), records: Vec::new() };
        let start_ns = 1_000_000_000;
        session.existing(start_ns);
        session.starts(start_ns + 1_000);
        session.samples(start_ns + 1_000_000, 2_000);
        session.ends(start_ns + 1_000_000_000);
        session
    }

    /// Writes the whole of it to `path`, in rounds of 100 records.
    pub fn record(&self, path: &Path) -> Summary {
        let mut recording = Recording::create(path, self.header.clone()).unwrap();
        recording.place().unwrap();
        for round in self.records.chunks(100) {
            for record in round {
                recording.write(record).unwrap();
            }
            recording.round().unwrap();
        }
        recording.finish().unwrap()
    }

    /// Writes it to a file in a directory that is removed with the first of the two.
    pub fn record_somewhere(&self) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sampler.data");
        self.record(&path);
        (dir, path)
    }

    /// What readers should find.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::new();
        for sample in self.samples_in_order() {
            let name = self.header.events[sample.event].name.clone();
            let sum = sums.entry((sample.stamp.tid, name)).or_default();
            sum.samples += 1;
            sum.weight += sample.weight;
        }
        sums
    }

    pub fn samples_in_order(&self) -> impl Iterator<Item = &Sample> {
        self.records.iter().filter_map(|record| match record {
            Record::Sample(sample) => Some(sample),
            _ => None,
        })
    }

    pub fn reads(&self) -> impl Iterator<Item = &Read> {
        self.records.iter().filter_map(|record| match record {
            Record::Read(read) => Some(read),
            _ => None,
        })
    }

    pub fn mmaps(&self) -> impl Iterator<Item = &Mmap> {
        self.records.iter().filter_map(|record| match record {
            Record::Mmap(mmap) => Some(mmap),
            _ => None,
        })
    }

    /// What there really is: this process and the kernel.
    fn existing(&mut self, time_ns: u64) {
        self.records.extend(existing::kernel_records(time_ns));
        let mut existing = Existing::new();
        let threads = existing.threads(own_tgid()).unwrap();
        self.records.extend(existing.records(&threads, time_ns));
    }

    /// Threads and a child process that exist in this recording alone.
    fn starts(&mut self, time_ns: u64) {
        for (index, (tgid, tid)) in made_up().into_iter().enumerate() {
            let parent = Stamp { time_ns, tgid: own_tgid(), tid: own_tgid(), cpu: 1 };
            self.records.push(Record::Fork(Task {
                stamp: parent,
                tgid,
                tid,
                parent_tgid: parent.tgid,
                parent_tid: parent.tid,
            }));
            let stamp = Stamp { time_ns: time_ns + 1, tgid, tid, cpu: 1 };
            let comm = format!("made up {index}").into_bytes();
            self.records.push(Record::Comm(Comm { stamp, comm, exec: tgid == CHILD }));
        }
        let by_inode = Mmap {
            stamp: Stamp { time_ns: time_ns + 2, tgid: CHILD, tid: CHILD, cpu: 0 },
            start: 0x1000,
            len: 0x1000,
            offset: 0,
            prot: 5,
            flags: 2,
            file: FileId::Inode { major: 8, minor: 1, inode: 4711, generation: 3 },
            path: b"/no such/file".to_vec(),
            kernel: false,
        };
        self.records.push(Record::Mmap(by_inode));
        self.records.sort_by_key(|record| record.stamp().time_ns);
    }

    fn samples(&mut self, start_ns: u64, count: u64) {
        let user_ip = function_of_samples as *const () as u64 + 1;
        let kernel_ip = kernel_address() + 4;
        let threads = made_up();
        for n in 0..count {
            let (tgid, tid) = threads[(n % 7 % threads.len() as u64) as usize];
            let in_kernel = n % 3 == 0 && tgid != CHILD;
            let kernel_chain = if in_kernel { vec![kernel_ip, kernel_ip + 8] } else { Vec::new() };
            self.records.push(Record::Sample(Sample {
                stamp: Stamp { time_ns: start_ns + n * 1_000, tgid, tid, cpu: (n % 2) as u32 },
                event: usize::from(n % 5 == 0),
                weight: 1_000_003 * n + 7,
                in_kernel,
                ip: if in_kernel { kernel_ip } else { user_ip },
                kernel_chain,
                user_chain: vec![user_ip, user_ip + 2],
            }));
        }
    }

    /// The end of each thread but the first, and the counts of all.
    fn ends(&mut self, time_ns: u64) {
        for (index, (tgid, tid)) in made_up().into_iter().enumerate() {
            let stamp = Stamp { time_ns: time_ns + index as u64, tgid, tid, cpu: 0 };
            for event in 0..self.header.events.len() {
                let count = (1 << 40) + u64::from(tid) * (event as u64 + 1);
                let (enabled_ns, running_ns) = (count + 2, count + 1);
                let read = Read { stamp, event, count, enabled_ns, running_ns };
                self.records.push(Record::Read(read));
            }
            if index > 0 {
                let task = Task { stamp, tgid, tid, parent_tgid: tgid, parent_tid: tgid };
                self.records.push(Record::Exit(task));
            }
        }
        let stamp = Stamp { time_ns: time_ns + 10, tgid: own_tgid(), tid: FIRST_TID, cpu: 0 };
        self.records.push(Record::LostSamples(LostSamples { stamp, event: 0, samples: 3 }));
        self.records.push(Record::Throttle(stamp, true));
        self.records.push(Record::Throttle(stamp, false));
    }
}

/// Process and thread ids of what is made up.
fn made_up() -> Vec<(u32, u32)> {
    let threads = (FIRST_TID..FIRST_TID + 3).map(|tid| (own_tgid(), tid));
    threads.chain([(CHILD, CHILD)]).collect()
}

pub fn own_tgid() -> u32 {
    std::process::id()
}

fn event(name: &str, unit: Unit, source: Source, sampling: Sampling, config: u64) -> Event {
    const PERF_TYPE_SOFTWARE: u32 = 1;
    Event {
        name: name.to_owned(),
        unit,
        source,
        sampling,
        perf_type: PERF_TYPE_SOFTWARE,
        config,
        exclude_user: false,
        exclude_kernel: name.ends_with(":u"),
    }
}

fn kernel_address() -> u64 {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let line = symbols.lines().find(|line| line.ends_with(&format!(" T {KERNEL_FUNCTION}")));
    let address = line.unwrap().split(' ').next().unwrap();
    u64::from_str_radix(address, 16).unwrap()
}
