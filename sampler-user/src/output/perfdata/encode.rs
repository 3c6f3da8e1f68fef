//! Records as bytes: those of `include/uapi/linux/perf_event.h`, in the byte order of the machine.
//!
//! What is too long for a record (64 KiB at most) is cut: call chains at their outer end, paths and
//! names at what the kernel allows.

use perf_event_open_sys::bindings as sys;

use super::attr::Ids;
use crate::model::record::{Comm, FileId, LostSamples, Mmap, Read, Record, Sample, Stamp, Task};

/// A user-space record of perf: everything before it may be put in order
/// (`tools/lib/perf/include/perf/event.h`).
const FINISHED_ROUND: u32 = 68;
/// `TASK_COMM_LEN` without its NUL.
const MAX_COMM: usize = 15;
/// `PATH_MAX` without its NUL.
const MAX_PATH: usize = 4095;
/// Entries of a call chain, context markers included, that fit in a record with all else.
const MAX_CHAIN: usize = 8_000;

/// Encodes records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoder {
    /// The ids of the events.
    pub(super) ids: Ids,
    /// Samples carry call chains.
    pub(super) call_chains: bool,
}

impl Encoder {
    /// Appends a record to `out`, as if it had happened at `time_ns`.
    pub(super) fn encode(&self, record: &Record, time_ns: u64, out: &mut Vec<u8>) {
        let stamp = Stamp { time_ns, ..record.stamp() };
        match record {
            Record::Comm(comm) => self.comm(comm, stamp, out),
            Record::Fork(task) => self.task(sys::PERF_RECORD_FORK, task, stamp, out),
            Record::Exit(task) => self.task(sys::PERF_RECORD_EXIT, task, stamp, out),
            Record::Mmap(mmap) => self.mmap(mmap, stamp, out),
            Record::Sample(sample) => self.sample(sample, stamp, out),
            Record::Read(read) => self.read(read, stamp, out),
            Record::LostSamples(lost) => self.lost_samples(lost, stamp, out),
            Record::Throttle(_, stopped) => self.throttle(*stopped, stamp, out),
        }
    }

    fn comm(&self, comm: &Comm, stamp: Stamp, out: &mut Vec<u8>) {
        let misc = if comm.exec { sys::PERF_RECORD_MISC_COMM_EXEC } else { 0 };
        let mut body = Body::begin(out, sys::PERF_RECORD_COMM, misc);
        body.u32s([stamp.tgid, stamp.tid]);
        body.string(&comm.comm, MAX_COMM);
        self.sample_id(body, stamp, 0);
    }

    fn task(&self, kind: u32, task: &Task, stamp: Stamp, out: &mut Vec<u8>) {
        let mut body = Body::begin(out, kind, 0);
        body.u32s([task.tgid, task.parent_tgid, task.tid, task.parent_tid]);
        body.u64s([stamp.time_ns]);
        self.sample_id(body, stamp, 0);
    }

    fn mmap(&self, mmap: &Mmap, stamp: Stamp, out: &mut Vec<u8>) {
        let has_build_id = matches!(mmap.file, FileId::BuildId(..));
        let misc = if has_build_id { sys::PERF_RECORD_MISC_MMAP_BUILD_ID } else { 0 };
        let misc = misc | cpu_mode(mmap.kernel);
        let mut body = Body::begin(out, sys::PERF_RECORD_MMAP2, misc);
        body.u32s([stamp.tgid, stamp.tid]);
        body.u64s([mmap.start, mmap.len, mmap.offset]);
        match mmap.file {
            FileId::BuildId(id, len) => {
                body.bytes(&[len.min(20), 0, 0, 0]);
                body.bytes(&id);
            }
            FileId::Inode { major, minor, inode, generation } => {
                body.u32s([major, minor]);
                body.u64s([inode, generation]);
            }
        }
        body.u32s([mmap.prot, mmap.flags]);
        body.string(&mmap.path, MAX_PATH);
        self.sample_id(body, stamp, 0);
    }

    fn sample(&self, sample: &Sample, stamp: Stamp, out: &mut Vec<u8>) {
        let mut body = Body::begin(out, sys::PERF_RECORD_SAMPLE, cpu_mode(sample.in_kernel));
        body.u64s([self.ids.of(sample.event, stamp.cpu), sample.ip]);
        body.u32s([stamp.tgid, stamp.tid]);
        body.u64s([stamp.time_ns]);
        body.u32s([stamp.cpu, 0]);
        body.u64s([sample.weight]);
        if self.call_chains {
            call_chain(sample, &mut body);
        }
        body.end();
    }

    fn read(&self, read: &Read, stamp: Stamp, out: &mut Vec<u8>) {
        let mut body = Body::begin(out, sys::PERF_RECORD_READ, 0);
        body.u32s([stamp.tgid, stamp.tid]);
        body.u64s([read.count, read.enabled_ns, read.running_ns]);
        body.u64s([self.ids.of(read.event, stamp.cpu)]);
        self.sample_id(body, stamp, read.event);
    }

    fn lost_samples(&self, lost: &LostSamples, stamp: Stamp, out: &mut Vec<u8>) {
        let mut body = Body::begin(out, sys::PERF_RECORD_LOST_SAMPLES, 0);
        body.u64s([lost.samples]);
        self.sample_id(body, stamp, lost.event);
    }

    fn throttle(&self, stopped: bool, stamp: Stamp, out: &mut Vec<u8>) {
        let kind = if stopped { sys::PERF_RECORD_THROTTLE } else { sys::PERF_RECORD_UNTHROTTLE };
        let id = self.ids.of(0, stamp.cpu);
        let mut body = Body::begin(out, kind, 0);
        body.u64s([stamp.time_ns, id, id]);
        self.sample_id(body, stamp, 0);
    }

    /// Ends a record that isn't a sample with what `sample_id_all` promises.
    fn sample_id(&self, mut body: Body<'_>, stamp: Stamp, event: usize) {
        body.u32s([stamp.tgid, stamp.tid]);
        body.u64s([stamp.time_ns]);
        body.u32s([stamp.cpu, 0]);
        body.u64s([self.ids.of(event, stamp.cpu)]);
        body.end();
    }
}

/// Appends the end of a round.
pub(super) fn finished_round(out: &mut Vec<u8>) {
    Body::begin(out, FINISHED_ROUND, 0).end();
}

/// The longest part of `bytes`, at most `len` long, that consists of whole records.
pub(super) fn whole_records(bytes: &[u8], len: usize) -> usize {
    let mut end = 0;
    while let Some([low, high]) = bytes.get(end + 6..end + 8) {
        let size = usize::from(u16::from_ne_bytes([*low, *high]));
        if size == 0 || end + size > len {
            break;
        }
        end += size;
    }
    end
}

fn cpu_mode(kernel: bool) -> u32 {
    if kernel { sys::PERF_RECORD_MISC_KERNEL } else { sys::PERF_RECORD_MISC_USER }
}

/// Appends a call chain, each part of it after a marker that says whose addresses follow. As the
/// kernel does, a chain that could not be taken at all is given as the instruction pointer alone.
fn call_chain(sample: &Sample, body: &mut Body<'_>) {
    let alone = [sample.ip];
    let (mut kernel, mut user) = (&sample.kernel_chain[..], &sample.user_chain[..]);
    if sample.ip != 0 && sample.in_kernel && kernel.is_empty() {
        kernel = &alone;
    } else if sample.ip != 0 && !sample.in_kernel && user.is_empty() {
        user = &alone;
    }
    let kernel = &kernel[..kernel.len().min(MAX_CHAIN - 2)];
    let user = &user[..user.len().min(MAX_CHAIN - 2 - kernel.len())];
    let parts = [(sys::PERF_CONTEXT_KERNEL, kernel), (sys::PERF_CONTEXT_USER, user)];
    let present = parts.into_iter().filter(|(_, addresses)| !addresses.is_empty());
    let entries: usize = present.clone().map(|(_, addresses)| addresses.len() + 1).sum();
    body.u64s([entries as u64]);
    for (marker, addresses) in present {
        body.u64s([marker]);
        body.u64s(addresses.iter().copied());
    }
}

/// A record being written.
struct Body<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Body<'a> {
    /// Writes `perf_event_header`, its size yet unknown.
    fn begin(out: &'a mut Vec<u8>, kind: u32, misc: u32) -> Self {
        let start = out.len();
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(&(misc as u16).to_ne_bytes());
        out.extend_from_slice(&[0; 2]);
        Self { out, start }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn u32s(&mut self, values: impl IntoIterator<Item = u32>) {
        for value in values {
            self.bytes(&value.to_ne_bytes());
        }
    }

    fn u64s(&mut self, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.bytes(&value.to_ne_bytes());
        }
    }

    /// Up to `max` bytes of a string, then 1 to 8 NULs up to a multiple of 8.
    fn string(&mut self, string: &[u8], max: usize) {
        let len = string.iter().position(|&byte| byte == 0).unwrap_or(string.len()).min(max);
        self.bytes(&string[..len]);
        let padding = 8 - (self.out.len() - self.start) % 8;
        self.bytes(&[0; 8][..padding]);
    }

    /// Fills in the size.
    fn end(self) {
        let size = (self.out.len() - self.start) as u16;
        self.out[self.start + 6..self.start + 8].copy_from_slice(&size.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(record: &Record) -> Vec<u8> {
        let mut out = Vec::new();
        let encoder = Encoder { ids: Ids::new(2), call_chains: true };
        encoder.encode(record, record.stamp().time_ns, &mut out);
        out
    }

    fn size_of_record(bytes: &[u8]) -> usize {
        usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]))
    }

    #[test]
    fn the_longest_records_say_their_true_size() {
        let sample = Sample {
            ip: 1,
            in_kernel: true,
            kernel_chain: vec![1; 70_000],
            user_chain: vec![2; 70_000],
            ..Sample::default()
        };
        let comm = Comm { stamp: Stamp::default(), comm: vec![b'x'; 70_000], exec: false };
        let mmap = Mmap {
            stamp: Stamp::default(),
            start: 0,
            len: 0,
            offset: 0,
            prot: 0,
            flags: 0,
            file: FileId::BuildId([0; 20], 255),
            path: vec![b'x'; 70_000],
            kernel: false,
        };
        for record in [Record::Sample(sample), Record::Comm(comm), Record::Mmap(mmap)] {
            let bytes = encoded(&record);
            assert_eq!(size_of_record(&bytes), bytes.len(), "{record:.60?}");
            assert_eq!(bytes.len() % 8, 0);
        }
    }

    #[test]
    fn finds_the_last_whole_record() {
        let stamp = Stamp::default();
        let one = encoded(&Record::Throttle(stamp, true));
        let mut bytes = one.clone();
        finished_round(&mut bytes);
        bytes.extend_from_slice(&one);
        for len in 0..=bytes.len() {
            let ends = [0, one.len(), one.len() + 8, bytes.len()];
            let expected = ends.into_iter().filter(|&end| end <= len).max().unwrap();
            assert_eq!(whole_records(&bytes, len), expected, "of {len}");
        }
    }
}
