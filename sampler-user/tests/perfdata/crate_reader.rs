//! What the crate linux-perf-data makes of a recording.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek};
use std::path::Path;

use linux_perf_data::linux_perf_event_reader::{
    CpuMode, EventRecord, ForkOrExitRecord, Mmap2FileId, Mmap2Record, RawEventRecord, RecordType,
    SampleRecord,
};
use linux_perf_data::{Error, PerfFileReader, PerfFileRecord};
use sampler::model::record::{Comm, FileId, LostSamples, Mmap, Read, Record, Sample, Stamp, Task};

use crate::session::Session;

const PERF_CONTEXT_KERNEL: u64 = 0_u64.wrapping_sub(128);
const PERF_CONTEXT_USER: u64 = 0_u64.wrapping_sub(512);

/// The records of a recording in the order that the reader gives them.
pub fn read(recording: impl std::io::Read + Seek) -> Result<Vec<Record>, Error> {
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(recording)?;
    let mut records = Vec::new();
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        match record {
            PerfFileRecord::EventRecord { attr_index, record } => {
                records.push(to_model(attr_index, &record));
            }
            PerfFileRecord::UserRecord(record) => panic!("unexpected {:?}", record.record_type),
        }
    }
    Ok(records)
}

fn to_model(event: usize, raw: &RawEventRecord<'_>) -> Record {
    let common = raw.common_data().unwrap();
    let stamp = Stamp {
        time_ns: common.timestamp.unwrap(),
        tgid: common.pid.unwrap() as u32,
        tid: common.tid.unwrap() as u32,
        cpu: common.cpu.unwrap(),
    };
    match raw.parse().unwrap() {
        EventRecord::Comm(comm) => {
            let name = comm.name.as_slice().to_vec();
            Record::Comm(Comm { stamp, comm: name, exec: comm.is_execve })
        }
        EventRecord::Fork(task) => Record::Fork(to_task(stamp, &task)),
        EventRecord::Exit(task) => Record::Exit(to_task(stamp, &task)),
        EventRecord::Mmap2(mmap) => Record::Mmap(to_mmap(stamp, &mmap)),
        EventRecord::Sample(sample) => Record::Sample(to_sample(stamp, event, &sample)),
        EventRecord::Throttle(_) => Record::Throttle(stamp, true),
        EventRecord::Unthrottle(_) => Record::Throttle(stamp, false),
        _ => to_number(stamp, event, raw),
    }
}

fn to_task(stamp: Stamp, task: &ForkOrExitRecord) -> Task {
    assert_eq!(task.timestamp, stamp.time_ns);
    Task {
        stamp,
        tgid: task.pid as u32,
        tid: task.tid as u32,
        parent_tgid: task.ppid as u32,
        parent_tid: task.ptid as u32,
    }
}

fn to_mmap(stamp: Stamp, mmap: &Mmap2Record<'_>) -> Mmap {
    let file = match &mmap.file_id {
        Mmap2FileId::BuildId(id) => {
            let mut bytes = [0; 20];
            bytes[..id.len()].copy_from_slice(id);
            FileId::BuildId(bytes, id.len() as u8)
        }
        Mmap2FileId::InodeAndVersion(id) => FileId::Inode {
            major: id.major,
            minor: id.minor,
            inode: id.inode,
            generation: id.inode_generation,
        },
    };
    Mmap {
        stamp,
        start: mmap.address,
        len: mmap.length,
        offset: mmap.page_offset,
        prot: mmap.protection,
        flags: mmap.flags,
        file,
        path: mmap.path.as_slice().to_vec(),
        kernel: mmap.cpu_mode == CpuMode::Kernel,
    }
}

fn to_sample(stamp: Stamp, event: usize, sample: &SampleRecord<'_>) -> Sample {
    let (mut kernel_chain, mut user_chain) = (Vec::new(), Vec::new());
    let mut part = None;
    if let Some(chain) = sample.callchain {
        for address in (0..chain.len()).filter_map(|index| chain.get(index)) {
            match (address, &mut part) {
                (PERF_CONTEXT_KERNEL, _) => part = Some(&mut kernel_chain),
                (PERF_CONTEXT_USER, _) => part = Some(&mut user_chain),
                (address, Some(part)) => part.push(address),
                (address, None) => panic!("address {address:#x} of nobody"),
            }
        }
    }
    Sample {
        stamp,
        event,
        weight: sample.period.unwrap(),
        in_kernel: sample.cpu_mode == CpuMode::Kernel,
        ip: sample.ip.unwrap(),
        kernel_chain,
        user_chain,
    }
}

/// The kinds of records that the reader leaves to others.
fn to_number(stamp: Stamp, event: usize, raw: &RawEventRecord<'_>) -> Record {
    let bytes = raw.data.as_slice();
    let number = |index: usize| {
        let bytes = &bytes[index * 8..index * 8 + 8];
        u64::from_ne_bytes(bytes.try_into().unwrap())
    };
    match raw.record_type {
        RecordType::READ => Record::Read(Read {
            stamp,
            event,
            count: number(1),
            enabled_ns: number(2),
            running_ns: number(3),
        }),
        RecordType::LOST_SAMPLES => {
            Record::LostSamples(LostSamples { stamp, event, samples: number(0) })
        }
        other => panic!("unexpected {other:?}"),
    }
}

fn read_file(path: &Path) -> Vec<Record> {
    read(BufReader::new(File::open(path).unwrap())).unwrap()
}

#[test]
fn reads_back_all_that_was_written() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let records = read_file(&path);
    assert_eq!(records.len(), session.records.len());
    for (read, written) in records.iter().zip(&session.records) {
        assert_eq!(read, written);
    }
}

#[test]
fn a_recording_without_chains_has_none() {
    let mut session = Session::new();
    session.header.call_chains = false;
    let (_dir, path) = session.record_somewhere();
    for record in &mut session.records {
        if let Record::Sample(sample) = record {
            sample.kernel_chain.clear();
            sample.user_chain.clear();
        }
    }
    assert_eq!(read_file(&path), session.records);
}

#[test]
fn a_chain_that_could_not_be_taken_is_the_instruction_pointer() {
    let mut session = Session::new();
    let sample = |in_kernel, ip| {
        let stamp = Stamp { time_ns: 1 << 40, tgid: 7, tid: 7, cpu: 0 };
        Sample { stamp, weight: 1, in_kernel, ip, ..Sample::default() }
    };
    session.records = [(true, 8), (false, 9), (false, 0)]
        .map(|(in_kernel, ip)| Record::Sample(sample(in_kernel, ip)))
        .to_vec();
    let (_dir, path) = session.record_somewhere();
    let expected = [
        Sample { kernel_chain: vec![8], ..sample(true, 8) },
        Sample { user_chain: vec![9], ..sample(false, 9) },
        sample(false, 0),
    ];
    assert_eq!(read_file(&path), expected.map(Record::Sample));
}

#[test]
fn knows_the_events_and_files() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let mut bytes = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    let reader = PerfFileReader::parse_file(std::io::Cursor::new(bytes)).unwrap();
    let attributes = reader.perf_file.event_attributes().iter();
    let names: Vec<&str> = attributes.map(|attribute| attribute.name().unwrap()).collect();
    assert_eq!(names, ["cpu-clock", "page-faults:u", "context-switches"]);
    let files = reader.perf_file.build_ids().unwrap();
    let with_id = session.mmaps().filter(|mmap| matches!(mmap.file, FileId::BuildId(..)));
    assert_eq!(files.len(), with_id.count());
    let clock = reader.perf_file.clock_data().unwrap().unwrap();
    assert_eq!(clock.clockid, 1);
    assert_eq!(clock.wall_clock_ns, session.header.clock.wall_ns);
}
