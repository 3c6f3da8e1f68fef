//! Records as the kernel lays them out (`perf_event_open(2)`), and messages as the ABI does.

use super::*;
use crate::model::record::Stamp;
use proptest::collection::vec;
use proptest::prelude::*;
use sampler_common::abi::{self, COMM_LEN, Header, SampleHeader, pack_ids};

const STAMP: Stamp = Stamp { time_ns: 1234, tgid: 11, tid: 12, cpu: 3 };

/// `PERF_RECORD_*`, include/uapi/linux/perf_event.h.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const UNTHROTTLE: u32 = 6;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const MISC_KERNEL: u16 = 1;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: the ABI's structs have no implicit padding; they are read for their own size.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
}

/// A string with its NUL, padded to a multiple of 8.
fn string(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() / 8 * 8 + 8, 0);
    bytes
}

fn record(record_type: u32, misc: u16, body: &[Vec<u8>]) -> Vec<u8> {
    let body = body.concat();
    let mut bytes = record_type.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend((8 + body.len() as u16).to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// A record of the kernel's, with what `sample_id_all` appends to it.
fn sideband(record_type: u32, misc: u16, body: &[Vec<u8>]) -> Vec<u8> {
    let trailer = [words(&[11, 12]), longs(&[1234]), words(&[3, 0]), longs(&[77])];
    record(record_type, misc, &[body, &trailer].concat())
}

/// A message as `bpf_perf_event_output` sends it.
fn sent(message: &[u8]) -> Vec<u8> {
    let mut raw = (message.len() as u32).to_ne_bytes().to_vec();
    raw.extend(message);
    // Padded so that the whole of it is a multiple of 8, which its size includes.
    raw.resize(raw.len().next_multiple_of(8), 0);
    let size = raw.len() as u32 - 4;
    raw[..4].copy_from_slice(&size.to_ne_bytes());
    record(SAMPLE, 0, &[longs(&[77]), words(&[11, 12]), longs(&[1234]), words(&[3, 0]), raw])
}

fn decode(bytes: &[u8], events: usize) -> Result<Incoming, DecodeError> {
    Decoder::new(events).expect("the ring's attributes are understood").decode(bytes)
}

fn sample_message(ids: u64, weight: u64, event: u32, kernel: &[u64], user: &[u64]) -> Vec<u8> {
    let (kernel_bytes, user_bytes) = (kernel.len() as u32 * 8, user.len() as u32 * 8);
    let len = size_of::<SampleHeader>() as u32 + kernel_bytes + user_bytes;
    let header = Header { kind: kind::SAMPLE, len };
    let sample = SampleHeader { header, ids, weight, event, kernel_bytes, user_bytes, padding: 0 };
    [bytes_of(&sample).to_vec(), longs(kernel), longs(user)].concat()
}

/// The message with the first `events` of its events.
fn end_message<T: Copy>(message: &T, events: usize) -> Vec<u8> {
    let len = size_of::<T>() - (MAX_EVENTS - events) * 48;
    let mut bytes = bytes_of(message)[..len].to_vec();
    bytes[4..8].copy_from_slice(&(len as u32).to_ne_bytes());
    bytes
}

fn thread_end_message(events: usize) -> (abi::ThreadEnd, Vec<u8>) {
    let number = |event: usize, field: u64| event as u64 * 100 + field;
    let comm: [u8; COMM_LEN] = *b"a-worker\0\0\0\0\0\0\0\0";
    let message = abi::ThreadEnd {
        header: Header { kind: kind::THREAD_END, len: 0 },
        ids: pack_ids(21, 22),
        start_ns: u64::MAX,
        samples: 3,
        lost_samples: 4,
        comm: [0, 8].map(|at| u64::from_ne_bytes(comm[at..at + 8].try_into().expect("8 bytes"))),
        events: std::array::from_fn(|event| EventCounts {
            count: number(event, 1),
            sampled: number(event, 2),
            carried: number(event, 3),
            lost: number(event, 4),
            enabled_ns: number(event, 5),
            running_ns: number(event, 6),
        }),
    };
    (message, end_message(&message, events))
}

fn process_end_message(events: usize) -> (abi::ProcessEnd, Vec<u8>) {
    let number = |event: usize, field: u64| event as u64 * 100 + field;
    let message = abi::ProcessEnd {
        header: Header { kind: kind::PROCESS_END, len: 0 },
        tgid: 21,
        exited_threads: 5,
        events: std::array::from_fn(|event| Totals {
            exited: number(event, 1),
            unattributed: number(event, 2),
            carry: number(event, 3),
            lost: number(event, 4),
            enabled_ns: number(event, 5),
            running_ns: number(event, 6),
        }),
    };
    (message, end_message(&message, events))
}

/// One of each kind, for a session with three events.
fn messages() -> [Vec<u8>; 3] {
    let sample = sample_message(pack_ids(21, 22), 1000, 2, &[1, 2, 3], &[4, 5]);
    [sample, thread_end_message(3).1, process_end_message(3).1]
}

#[test]
fn a_threads_end() {
    for events in 0..=MAX_EVENTS {
        let (message, bytes) = thread_end_message(events);
        let Ok(Incoming::ThreadEnd(stamp, thread)) = decode(&sent(&bytes), events) else {
            panic!("not decoded with {events} events");
        };
        assert_eq!(stamp, Stamp { tgid: 21, tid: 22, ..STAMP });
        assert_eq!((thread.tgid, thread.tid, thread.start_ns), (21, 22, u64::MAX));
        assert_eq!((thread.samples, thread.lost_samples), (3, 4));
        assert_eq!((thread.comm.as_slice(), thread.last_cpu), (&b"a-worker"[..], None));
        assert_eq!(thread.events[..events], message.events[..events]);
        let unused = &thread.events[events..];
        assert!(unused.iter().all(|counts| *counts == EventCounts::default()));
    }
}

#[test]
fn a_processs_end() {
    for events in 0..=MAX_EVENTS {
        let (message, bytes) = process_end_message(events);
        let Ok(Incoming::ProcessEnd(end)) = decode(&sent(&bytes), events) else {
            panic!("not decoded with {events} events");
        };
        assert_eq!((end.tgid, end.totals.exited_threads), (21, 5));
        assert_eq!(end.totals.events[..events], message.events[..events]);
        let unused = &end.totals.events[events..];
        assert!(unused.iter().all(|totals| *totals == Totals::default()));
    }
}

proptest! {
    #[test]
    fn a_sample(
        tgid: u32,
        tid: u32,
        weight: u64,
        event in 0..MAX_EVENTS,
        kernel_chain in vec(any::<u64>(), 0..130),
        user_chain in vec(any::<u64>(), 0..130),
    ) {
        let ids = pack_ids(tgid, tid);
        let bytes = sample_message(ids, weight, event as u32, &kernel_chain, &user_chain);
        let decoded = decode(&sent(&bytes), MAX_EVENTS);
        let expected = Sample {
            stamp: Stamp { tgid, tid, ..STAMP },
            event,
            weight,
            in_kernel: !kernel_chain.is_empty(),
            ip: kernel_chain.iter().chain(&user_chain).next().copied().unwrap_or(0),
            kernel_chain,
            user_chain,
        };
        prop_assert_eq!(decoded.ok(), Some(Incoming::Record(Record::Sample(expected))));
    }

    #[test]
    fn bytes_of_any_kind(bytes in vec(any::<u8>(), 0..300), events in 0..=MAX_EVENTS) {
        let _ = decode(&bytes, events);
    }

    #[test]
    fn a_record_with_any_content(
        record_type in 0..24_u32,
        misc: u16,
        content in vec(any::<u8>(), 0..300),
        events in 0..=MAX_EVENTS,
    ) {
        let _ = decode(&record(record_type, misc, &[content]), events);
    }

    #[test]
    fn a_message_with_any_content(
        kind in 0..5_u32,
        len in 0..300_u32,
        content in vec(any::<u8>(), 0..300),
        events in 0..=MAX_EVENTS,
    ) {
        let _ = decode(&sent(&[words(&[kind, len]), content].concat()), events);
    }

    #[test]
    fn an_unknown_kind(kind in 4_u32.., content in vec(any::<u8>(), 0..100)) {
        let len = 8 + content.len() as u32;
        let decoded = decode(&sent(&[words(&[kind, len]), content].concat()), 1);
        let as_unknown = matches!(decoded, Err(DecodeError::UnknownKind { kind: of }) if of == kind);
        prop_assert!(as_unknown);
    }
}

#[test]
fn a_message_that_ends_too_early() {
    for (number, message) in messages().into_iter().enumerate() {
        let kind = number as u32 + 1;
        for len in 0..message.len() {
            let decoded = decode(&sent(&message[..len]), 3);
            let is_short = matches!(decoded, Err(DecodeError::Short { .. }));
            // Padding may make up for what is missing, but never for a length that says so.
            assert!(is_short || len + 8 > message.len(), "kind {kind} of {len} bytes: {decoded:?}");
            let mut says_so = message.clone();
            says_so[4..8].copy_from_slice(&(len as u32).to_ne_bytes());
            let decoded = decode(&sent(&says_so), 3);
            assert!(matches!(decoded, Err(DecodeError::Short { kind: of }) if of == kind));
        }
    }
}

#[test]
fn a_record_that_ends_too_early() {
    for message in messages() {
        let whole = sent(&message);
        assert!(decode(&whole, 3).is_ok());
        // At most 7 bytes at the end are padding.
        for len in 0..whole.len() - 8 {
            assert!(decode(&whole[..len], 3).is_err(), "{len} of {} bytes", whole.len());
        }
    }
}

#[test]
fn a_sample_of_an_event_that_does_not_exist() {
    let message = sample_message(pack_ids(1, 1), 1, 2, &[], &[7]);
    assert!(matches!(decode(&sent(&message), 2), Err(DecodeError::UnknownEvent { event: 2 })));
    assert!(decode(&sent(&message), 3).is_ok());
}

#[test]
fn chains_longer_than_the_message() {
    let mut message = sample_message(pack_ids(1, 1), 1, 0, &[1], &[2]);
    for kernel_bytes in [16 + 8, u32::MAX] {
        message[28..32].copy_from_slice(&kernel_bytes.to_ne_bytes());
        assert!(matches!(decode(&sent(&message), 1), Err(DecodeError::Short { .. })));
    }
}

#[test]
fn names() {
    for (misc, exec) in [(0, false), (MISC_COMM_EXEC, true)] {
        let record = sideband(COMM, misc, &[words(&[21, 22]), string("a-name")]);
        let expected =
            Comm { stamp: Stamp { tgid: 21, tid: 22, ..STAMP }, comm: b"a-name".into(), exec };
        assert_eq!(decode(&record, 1).ok(), Some(Incoming::Record(Record::Comm(expected))));
    }
}

#[test]
fn starts_and_ends() {
    let task = Task { stamp: STAMP, tgid: 21, tid: 23, parent_tgid: 22, parent_tid: 24 };
    for (record_type, expected) in [(FORK, Record::Fork(task)), (EXIT, Record::Exit(task))] {
        let record = sideband(record_type, 0, &[words(&[21, 22, 23, 24]), longs(&[1234])]);
        assert_eq!(decode(&record, 1).ok(), Some(Incoming::Record(expected)));
    }
}

#[test]
fn mappings() {
    let mapping = |misc, file: Vec<u8>| {
        let head = [words(&[21, 22]), longs(&[0x1000, 0x2000, 0x3000])];
        let rest = [file, words(&[5, 2]), string("/usr/lib/libc.so.6")];
        match decode(&sideband(MMAP2, misc, &[&head[..], &rest].concat()), 1) {
            Ok(Incoming::Record(Record::Mmap(mmap))) => mmap,
            other => panic!("not a mapping: {other:?}"),
        }
    };
    let inode = mapping(0, [words(&[8, 1]), longs(&[99, 2])].concat());
    assert_eq!(
        inode,
        Mmap {
            stamp: Stamp { tgid: 21, tid: 22, ..STAMP },
            start: 0x1000,
            len: 0x2000,
            offset: 0x3000,
            prot: 5,
            flags: 2,
            file: FileId::Inode { major: 8, minor: 1, inode: 99, generation: 2 },
            path: b"/usr/lib/libc.so.6".into(),
            kernel: false,
        }
    );
    let mut file = vec![20, 0, 0, 0];
    file.extend(1..=20_u8);
    let build_id = mapping(MISC_MMAP_BUILD_ID | MISC_KERNEL, file);
    let expected: [u8; 20] = std::array::from_fn(|at| at as u8 + 1);
    assert_eq!(build_id.file, FileId::BuildId(expected, 20));
    assert!(build_id.kernel);
}

#[test]
fn a_build_id_longer_than_there_is_room() {
    let rest = [words(&[21, 21, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0, 0, 0, 5, 2]), string("file")];
    let decoded = decode(&sideband(MMAP2, MISC_MMAP_BUILD_ID, &rest), 1);
    assert!(matches!(decoded, Err(DecodeError::Malformed { record_type: MMAP2, .. })));
}

#[test]
fn losses_and_throttling() {
    let lost = sideband(LOST, 0, &[longs(&[77, 5])]);
    assert_eq!(decode(&lost, 1).ok(), Some(Incoming::Lost(5)));
    let lost_samples = sideband(RECORD_LOST_SAMPLES, 0, &[longs(&[6])]);
    assert_eq!(decode(&lost_samples, 1).ok(), Some(Incoming::Lost(6)));
    for (record_type, stopped) in [(THROTTLE, true), (UNTHROTTLE, false)] {
        let record = sideband(record_type, 0, &[longs(&[1234, 77, 78])]);
        let expected = Incoming::Record(Record::Throttle(STAMP, stopped));
        assert_eq!(decode(&record, 1).ok(), Some(expected));
    }
}

#[test]
fn what_is_of_no_interest() {
    // `PERF_RECORD_AUX`.
    let record = sideband(11, 0, &[longs(&[1, 2, 3])]);
    assert_eq!(decode(&record, 1).ok(), Some(Incoming::Nothing));
}
