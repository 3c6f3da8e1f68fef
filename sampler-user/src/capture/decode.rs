//! From the bytes of a ring to values. Everything is checked: what can't be understood is an error
//! that the caller counts.

use super::ring::{Purpose, output_attr};
use crate::model::record::{Comm, FileId, Mmap, Record, Sample, Stamp, Task};
use crate::model::snapshot::{ProcessEnd, ThreadCounts};
use byteorder::NativeEndian;
use bytes::Buf;
use linux_perf_event_reader::{
    CommonData, Endianness, EventRecord, Mmap2FileId, Mmap2Record, PerfEventAttr, RawData,
    RawEventRecord, RecordParseInfo, RecordType,
};
use sampler_common::abi::{EventCounts, MAX_EVENTS, Process, Totals, kind, unpack_ids};
use std::io;
use thiserror::Error;

/// Length of `perf_event_header`.
const HEADER_BYTES: usize = 8;

/// `PERF_RECORD_LOST_SAMPLES`, since v4.2: what the kernel dropped for want of room, side-band
/// records included.
const RECORD_LOST_SAMPLES: u32 = 13;

/// `PERF_RECORD_MMAP2` with `PERF_RECORD_MISC_MMAP_BUILD_ID`, where the id's length is in such a
/// record, and its most.
const RECORD_MMAP2: u32 = 10;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const BUILD_ID_LEN_AT: usize = HEADER_BYTES + 32;
const MAX_BUILD_ID: u8 = 20;

/// What came out of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Something happened.
    Record(Record),
    /// A thread ended, with these final counts.
    ThreadEnd(Stamp, ThreadCounts),
    /// A process ended, with these final totals.
    ProcessEnd(ProcessEnd),
    /// The kernel dropped so many records, for want of room.
    Lost(u64),
    /// Nothing of interest.
    Nothing,
}

/// Why a record could not be understood.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// It ends too early, or its lengths contradict each other.
    #[error("a record of type {record_type} is malformed")]
    Malformed {
        /// `perf_event_header.type`
        record_type: u32,
        /// What the reader said.
        source: io::Error,
    },
    /// A message of the programs ends too early.
    #[error("a message of kind {kind} is too short")]
    Short {
        /// `abi::Header.kind`
        kind: u32,
    },
    /// A sample of an event that the session does not have.
    #[error("a sample is of event {event}, which does not exist")]
    UnknownEvent {
        /// Index of the event.
        event: usize,
    },
    /// A message of the programs of a kind that is not known.
    #[error("there is no message of kind {kind}")]
    UnknownKind {
        /// `abi::Header.kind`
        kind: u32,
    },
}

/// Decodes what comes out of the rings of one session.
#[derive(Debug)]
pub struct Decoder {
    parse_info: RecordParseInfo,
    events: usize,
}

impl Decoder {
    /// For a session with so many events.
    ///
    /// # Errors
    /// When the reader does not understand the ring's own attributes.
    pub fn new(events: usize) -> io::Result<Self> {
        let attr = output_attr(Purpose::Lives);
        // SAFETY: plain integers without padding, read for as many bytes as they have.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const attr).cast::<u8>(), size_of_val(&attr))
        };
        let (attr, _) = PerfEventAttr::parse::<_, NativeEndian>(bytes)?;
        Ok(Self { parse_info: RecordParseInfo::new(&attr, ENDIANNESS), events })
    }

    /// Decodes one record, header included.
    ///
    /// # Errors
    /// When it can't be understood.
    pub fn decode(&self, bytes: &[u8]) -> Result<Incoming, DecodeError> {
        let mut header = bytes;
        let (Ok(record_type), Ok(misc)) = (header.try_get_u32_ne(), header.try_get_u16_ne()) else {
            return Err(DecodeError::Short { kind: 0 });
        };
        let data = RawData::Single(bytes.get(HEADER_BYTES..).unwrap_or_default());
        let record = RawEventRecord::new(RecordType(record_type), misc, data, self.parse_info);
        let malformed = |source| DecodeError::Malformed { record_type, source };
        let common = record.common_data().map_err(malformed)?;
        if record_type == RECORD_LOST_SAMPLES {
            return Ok(Incoming::Lost(data_u64(bytes)));
        }
        if has_overlong_build_id(record_type, misc, bytes) {
            // The reader would panic.
            return Err(malformed(io::ErrorKind::InvalidData.into()));
        }
        let stamp = stamp(&common);
        Ok(match record.parse().map_err(malformed)? {
            EventRecord::Sample(sample) => match sample.raw {
                Some(raw) => return decode_message(&raw.as_slice(), stamp, self.events),
                None => Incoming::Nothing,
            },
            EventRecord::Comm(comm) => Incoming::Record(Record::Comm(Comm {
                stamp: Stamp { tgid: comm.pid as u32, tid: comm.tid as u32, ..stamp },
                comm: comm.name.as_slice().into_owned(),
                exec: comm.is_execve,
            })),
            EventRecord::Fork(task) => Incoming::Record(Record::Fork(to_task(stamp, task))),
            EventRecord::Exit(task) => Incoming::Record(Record::Exit(to_task(stamp, task))),
            EventRecord::Mmap2(mmap) => Incoming::Record(Record::Mmap(to_mmap(stamp, mmap))),
            EventRecord::Throttle(_) => Incoming::Record(Record::Throttle(stamp, true)),
            EventRecord::Unthrottle(_) => Incoming::Record(Record::Throttle(stamp, false)),
            EventRecord::Lost(lost) => Incoming::Lost(lost.count),
            _ => Incoming::Nothing,
        })
    }
}

#[cfg(target_endian = "little")]
const ENDIANNESS: Endianness = Endianness::LittleEndian;
#[cfg(target_endian = "big")]
const ENDIANNESS: Endianness = Endianness::BigEndian;

fn has_overlong_build_id(record_type: u32, misc: u16, bytes: &[u8]) -> bool {
    record_type == RECORD_MMAP2
        && misc & MISC_MMAP_BUILD_ID != 0
        && bytes.get(BUILD_ID_LEN_AT).is_some_and(|&len| len > MAX_BUILD_ID)
}

fn data_u64(bytes: &[u8]) -> u64 {
    bytes.get(HEADER_BYTES..).and_then(|mut data| data.try_get_u64_ne().ok()).unwrap_or(0)
}

fn stamp(common: &CommonData) -> Stamp {
    Stamp {
        time_ns: common.timestamp.unwrap_or(0),
        tgid: common.pid.unwrap_or(0) as u32,
        tid: common.tid.unwrap_or(0) as u32,
        cpu: common.cpu.unwrap_or(0),
    }
}

fn to_task(stamp: Stamp, task: linux_perf_event_reader::ForkOrExitRecord) -> Task {
    Task {
        stamp,
        tgid: task.pid as u32,
        tid: task.tid as u32,
        parent_tgid: task.ppid as u32,
        parent_tid: task.ptid as u32,
    }
}

fn to_mmap(stamp: Stamp, mmap: Mmap2Record<'_>) -> Mmap {
    Mmap {
        stamp: Stamp { tgid: mmap.pid as u32, tid: mmap.tid as u32, ..stamp },
        start: mmap.address,
        len: mmap.length,
        offset: mmap.page_offset,
        prot: mmap.protection,
        flags: mmap.flags,
        file: match mmap.file_id {
            Mmap2FileId::BuildId(id) => {
                let mut build_id = [0; 20];
                let len = id.len().min(20);
                build_id[..len].copy_from_slice(&id[..len]);
                FileId::BuildId(build_id, len as u8)
            }
            Mmap2FileId::InodeAndVersion(id) => FileId::Inode {
                major: id.major,
                minor: id.minor,
                inode: id.inode,
                generation: id.inode_generation,
            },
        },
        path: mmap.path.as_slice().into_owned(),
        kernel: mmap.cpu_mode == linux_perf_event_reader::CpuMode::Kernel,
    }
}

/// Decodes a message of the BPF programs; `raw` may be padded at its end.
fn decode_message(raw: &[u8], stamp: Stamp, events: usize) -> Result<Incoming, DecodeError> {
    let mut start = raw;
    let (Ok(kind), Ok(len)) = (start.try_get_u32_ne(), start.try_get_u32_ne()) else {
        return Err(DecodeError::Short { kind: 0 });
    };
    let rest = (len as usize).checked_sub(8);
    let mut body = rest.and_then(|len| start.get(..len)).ok_or(DecodeError::Short { kind })?;
    let decoded = match kind {
        kind::SAMPLE => sample(&mut body, stamp).map(Incoming::Record),
        kind::THREAD_END => thread_end(&mut body, events).map(|thread| {
            Incoming::ThreadEnd(Stamp { tgid: thread.tgid, tid: thread.tid, ..stamp }, thread)
        }),
        kind::PROCESS_END => process_end(&mut body, events).map(Incoming::ProcessEnd),
        _ => return Err(DecodeError::UnknownKind { kind }),
    };
    match decoded.map_err(|_| DecodeError::Short { kind })? {
        Incoming::Record(Record::Sample(Sample { event, .. })) if event >= events => {
            Err(DecodeError::UnknownEvent { event })
        }
        known => Ok(known),
    }
}

fn sample(body: &mut &[u8], stamp: Stamp) -> Result<Record, bytes::TryGetError> {
    let (tgid, tid) = unpack_ids(body.try_get_u64_ne()?);
    let weight = body.try_get_u64_ne()?;
    let event = body.try_get_u32_ne()? as usize;
    let (kernel_bytes, user_bytes) = (body.try_get_u32_ne()?, body.try_get_u32_ne()?);
    body.try_get_u32_ne()?;
    let kernel_chain = addresses(body, kernel_bytes)?;
    let user_chain = addresses(body, user_bytes)?;
    Ok(Record::Sample(Sample {
        stamp: Stamp { tgid, tid, ..stamp },
        event,
        weight,
        in_kernel: !kernel_chain.is_empty(),
        ip: kernel_chain.first().or(user_chain.first()).copied().unwrap_or(0),
        kernel_chain,
        user_chain,
    }))
}

fn addresses(body: &mut &[u8], len: u32) -> Result<Vec<u64>, bytes::TryGetError> {
    (0..len / 8).map(|_| body.try_get_u64_ne()).collect()
}

fn thread_end(body: &mut &[u8], events: usize) -> Result<ThreadCounts, bytes::TryGetError> {
    let (tgid, tid) = unpack_ids(body.try_get_u64_ne()?);
    let start_ns = body.try_get_u64_ne()?;
    let (samples, lost_samples) = (body.try_get_u64_ne()?, body.try_get_u64_ne()?);
    let comm = super::bpf::comm_bytes([body.try_get_u64_ne()?, body.try_get_u64_ne()?]);
    let mut counts = [EventCounts::default(); MAX_EVENTS];
    for event in counts.iter_mut().take(events) {
        event.count = body.try_get_u64_ne()?;
        event.sampled = body.try_get_u64_ne()?;
        event.carried = body.try_get_u64_ne()?;
        event.lost = body.try_get_u64_ne()?;
        event.enabled_ns = body.try_get_u64_ne()?;
        event.running_ns = body.try_get_u64_ne()?;
    }
    Ok(ThreadCounts {
        tgid,
        tid,
        start_ns,
        last_cpu: None,
        comm,
        samples,
        lost_samples,
        events: counts,
    })
}

fn process_end(body: &mut &[u8], events: usize) -> Result<ProcessEnd, bytes::TryGetError> {
    let tgid = body.try_get_u64_ne()? as u32;
    let exited_threads = body.try_get_u64_ne()?;
    let mut totals = Process { exited_threads, ..Process::default() };
    for event in totals.events.iter_mut().take(events) {
        *event = Totals {
            exited: body.try_get_u64_ne()?,
            unattributed: body.try_get_u64_ne()?,
            carry: body.try_get_u64_ne()?,
            lost: body.try_get_u64_ne()?,
            enabled_ns: body.try_get_u64_ne()?,
            running_ns: body.try_get_u64_ne()?,
        };
    }
    Ok(ProcessEnd { tgid, totals })
}

#[cfg(test)]
mod tests;
