//! Recordings that were cut off: by `kill -9` at any moment, or by a full disk.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use sampler::output::perfdata::{Recording, RecordingError};

use crate::crate_reader::read;
use crate::perf::perf;
use crate::session::Session;

/// Bytes of the file header, which is the one thing that is written more than once.
const HEADER: usize = 104;

/// What `perf` must be able to do with any recording.
fn check_with_perf(path: &Path) {
    perf(path, &["report", "--stdio", "-T", "-g", "none"]);
    perf(path, &["script"]);
    perf(path, &["evlist", "-v"]);
}

/// The states of the file after each of two flushes and at the end.
fn states(session: &Session, path: &Path) -> [Vec<u8>; 3] {
    let mut recording = Recording::create(path, session.header.clone()).unwrap();
    recording.place().unwrap();
    let (first, second) = session.records.split_at(session.records.len() / 2);
    let [after_first, after_second] = [first, second].map(|records| {
        for record in records {
            recording.write(record).unwrap();
        }
        recording.flush().unwrap();
        std::fs::read(path).unwrap()
    });
    recording.finish().unwrap();
    [after_first, after_second, std::fs::read(path).unwrap()]
}

#[test]
fn a_killed_recording_has_all_that_was_flushed() {
    let session = Session::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sampler.data");
    let [first, second, _] = states(&session, &path);
    let half = session.records.len() / 2;
    for (state, records) in [(first, &session.records[..half]), (second, &session.records[..])] {
        std::fs::write(&path, &state).unwrap();
        check_with_perf(&path);
        assert_eq!(read(Cursor::new(state)).unwrap(), records);
    }
}

#[test]
fn a_recording_killed_while_it_writes_has_all_that_was_flushed_before() {
    let session = Session::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sampler.data");
    let states = states(&session, &path);
    for (before, after) in [(&states[0], &states[1]), (&states[1], &states[2])] {
        let expected = read(Cursor::new(before)).unwrap();
        let more = after.len() - before.len();
        assert!(more > 1_000);
        let step = (more / 150).max(1) | 1;
        for (n, len) in (before.len()..after.len()).step_by(step).enumerate() {
            let mut cut = after[..len].to_vec();
            cut[..HEADER].copy_from_slice(&before[..HEADER]);
            if n % 60 == 1 {
                std::fs::write(&path, &cut).unwrap();
                check_with_perf(&path);
            }
            assert_eq!(read(Cursor::new(cut)).unwrap(), expected, "cut at {len}");
        }
    }
}

#[test]
fn a_new_recording_is_readable_at_once() {
    let session = Session::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sampler.data");
    let mut recording = Recording::create(&path, session.header.clone()).unwrap();
    recording.place().unwrap();
    assert_eq!(read(Cursor::new(std::fs::read(&path).unwrap())).unwrap(), []);
    perf(&path, &["evlist", "-v"]);
}

/// A file system of a given size, until it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "sampler-test"]);
        let mounted = mount.arg(dir.path()).status().unwrap();
        assert!(mounted.success(), "mounting a file system needs root");
        Self(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(std::thread::panicking() || unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    let session = Session::new();
    let disk = SmallDisk::new(100 * 1024);
    let path = disk.file("sampler.data");
    let mut recording = Recording::create(&path, session.header.clone()).unwrap();
    recording.place().unwrap();
    let mut outcomes = session.records.iter().map(|record| {
        recording.write(record)?;
        recording.flush()
    });
    let error = outcomes.find_map(Result::err).expect("a full disk");
    drop(outcomes);
    let RecordingError::Write { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    let error = recording.write(&session.records[0]).unwrap_err();
    assert!(matches!(error, RecordingError::Stopped { .. }), "{error}");
    recording.finish().unwrap_err();

    check_with_perf(&path);
    let records = read(Cursor::new(std::fs::read(&path).unwrap())).unwrap();
    assert!(records.len() > 500, "{}", records.len());
    assert_eq!(records, session.records[..records.len()]);
}

#[test]
fn a_large_piece_on_a_full_disk_is_kept_up_to_the_last_whole_record() {
    let session = Session::new();
    // Of several sizes, so that not all are full at the end of a record by chance.
    for pages in 20..26 {
        let disk = SmallDisk::new(pages * 4096);
        let path = disk.file("sampler.data");
        let mut recording = Recording::create(&path, session.header.clone()).unwrap();
        recording.place().unwrap();
        for record in &session.records {
            recording.write(record).unwrap();
        }
        recording.flush().unwrap_err();
        recording.finish().unwrap_err();
        check_with_perf(&path);
        let records = read(Cursor::new(std::fs::read(&path).unwrap())).unwrap();
        assert!(records.len() > 500, "{}", records.len());
        assert_eq!(records, session.records[..records.len()]);
    }
}
