//! Writes a recording as a stream.
//!
//! Records are gathered in memory and appended to the file in large pieces; after each piece the
//! file header is told how far the data reaches. So at any moment the file on disk is a readable
//! recording of whole records, only without its feature sections.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::attr::{ATTR_BYTES, Ids, attr_bytes};
use super::buildids::BuildIds;
use super::encode::{Encoder, finished_round, whole_records};
use super::error::RecordingError;
use super::features::features;
use super::file;
use super::header::Header;
use super::rounds::Rounds;
use crate::model::record::Record;

/// `PERFILE2`, as a number in the byte order of the machine.
const MAGIC: u64 = 0x3245_4c49_4652_4550;
/// Bytes of `struct perf_file_header` (`tools/perf/util/header.h`).
const FILE_HEADER_BYTES: u64 = 104;
/// Bytes of `struct perf_file_section`: offset and size.
const SECTION_BYTES: u64 = 16;
/// Records are written to the file when so many bytes of them have gathered.
const FLUSH_BYTES: usize = 256 * 1024;

/// A recording being written.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    unplaced: Option<file::Unplaced>,
    header: Header,
    layout: Layout,
    encoder: Encoder,
    rounds: Rounds,
    build_ids: BuildIds,
    sample_times_ns: Option<(u64, u64)>,
    buffer: Vec<u8>,
    /// Bytes of whole records in the file.
    data_bytes: u64,
    stopped: bool,
}

/// What a finished recording holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Size of the file.
    pub bytes: u64,
    /// Records that came too late for readers to put them in order: they were written with a
    /// later time than they had.
    pub late_records: u64,
}

impl Recording {
    /// Creates a recording for `path`, with mode 0600, beside it: it is there only from
    /// [`Recording::place`] on, and leaves no trace when it is dropped before.
    ///
    /// # Errors
    /// When `path` is a symbolic link or anything but a regular file, or when the file can't be
    /// created or written.
    pub fn create(path: &Path, header: Header) -> Result<Self, RecordingError> {
        let (file, unplaced) = file::create(path)?;
        let ids = Ids::new(header.cpus.possible);
        let mut recording = Self {
            path: path.to_owned(),
            file,
            unplaced: Some(unplaced),
            layout: Layout::new(&header),
            encoder: Encoder { ids, call_chains: header.call_chains },
            header,
            rounds: Rounds::default(),
            build_ids: BuildIds::default(),
            sample_times_ns: None,
            buffer: Vec::with_capacity(FLUSH_BYTES + 64 * 1024),
            data_bytes: 0,
            stopped: false,
        };
        let front = recording.layout.front(&recording.header, ids);
        recording.file.write_all_at(&front, 0).map_err(|e| recording.write_error(e))?;
        // So that there is no moment at which the data is empty, of which perf warns.
        finished_round(&mut recording.buffer);
        recording.flush()?;
        Ok(recording)
    }

    /// Gives the recording its name. A previous one is kept as `PATH.old`.
    ///
    /// # Errors
    /// When either can't be renamed. A previous recording is then still there.
    pub fn place(&mut self) -> Result<(), RecordingError> {
        match self.unplaced.take() {
            Some(unplaced) => unplaced.place(),
            None => Ok(()),
        }
    }

    /// Adds a record.
    ///
    /// Records come in the order of their times, except that one may be older than others up to
    /// the round before the last. One that is older still is written with a later time, and
    /// counted in [`Summary::late_records`].
    ///
    /// # Errors
    /// When the file can't be written, see [`Recording::flush`].
    pub fn write(&mut self, record: &Record) -> Result<(), RecordingError> {
        if self.stopped {
            return Err(RecordingError::Stopped { path: self.path.clone() });
        }
        let time_ns = self.rounds.admit(record.stamp().time_ns);
        match record {
            Record::Mmap(mmap) => self.build_ids.add(mmap),
            Record::Sample(_) => {
                let (first, last) = self.sample_times_ns.unwrap_or((time_ns, time_ns));
                self.sample_times_ns = Some((first.min(time_ns), last.max(time_ns)));
            }
            _ => {}
        }
        self.encoder.encode(record, time_ns, &mut self.buffer);
        if self.buffer.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Marks the end of a round: no record from now on is older than any record of the round
    /// before this one. Readers need it to sort a long recording in little memory.
    ///
    /// # Errors
    /// When an earlier write failed.
    pub fn round(&mut self) -> Result<(), RecordingError> {
        if self.stopped {
            return Err(RecordingError::Stopped { path: self.path.clone() });
        }
        if self.rounds.finish() {
            finished_round(&mut self.buffer);
        }
        Ok(())
    }

    /// Makes all records so far part of the file on disk.
    ///
    /// # Errors
    /// When the file can't be written. It then ends with the last record that could be written
    /// whole, and takes no more records.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        if self.stopped {
            return Err(RecordingError::Stopped { path: self.path.clone() });
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (written, outcome) = write_at(&self.file, &self.buffer, self.data_end());
        let whole = whole_records(&self.buffer, written);
        self.data_bytes += whole as u64;
        self.buffer.clear();
        let size = self.data_bytes.to_ne_bytes();
        let outcome = outcome.and(self.file.write_all_at(&size, Layout::DATA_SIZE_AT));
        outcome.map_err(|error| {
            self.stopped = true;
            self.write_error(error)
        })
    }

    /// Writes what is left, and the feature sections.
    ///
    /// # Errors
    /// When the file can't be written now or couldn't be earlier. What was written is readable;
    /// the feature sections are tried even so.
    pub fn finish(mut self) -> Result<Summary, RecordingError> {
        let flushed = self.flush();
        let features = self.write_features().map_err(|error| self.write_error(error));
        if features.is_err() {
            // The header names no features, so what was written of them is in nobody's way; it
            // is cut off for tidiness, as far as that succeeds.
            let _ = self.file.set_len(self.data_end());
        }
        flushed?;
        let bytes = features?;
        Ok(Summary { bytes, late_records: self.rounds.late() })
    }

    /// Writes the feature sections after the data, then says in the header that they are there.
    fn write_features(&self) -> io::Result<u64> {
        let times = self.sample_times_ns.unwrap_or_default();
        let features = features(&self.header, &self.build_ids, times);
        let table_bytes = features.len() as u64 * SECTION_BYTES;
        let mut offset = self.data_end() + table_bytes;
        let (mut table, mut contents, mut bitmap) = (Vec::new(), Vec::new(), [0_u8; 32]);
        for feature in features {
            section(&mut table, offset, feature.content.len() as u64);
            offset += feature.content.len() as u64;
            contents.extend(feature.content);
            set_bit(&mut bitmap, feature.bit);
        }
        table.extend(contents);
        self.file.write_all_at(&table, self.data_end())?;
        self.file.set_len(offset)?;
        self.file.write_all_at(&bitmap, Layout::FEATURES_AT)?;
        Ok(offset)
    }

    /// Where the next record goes.
    fn data_end(&self) -> u64 {
        self.layout.data + self.data_bytes
    }

    fn write_error(&self, source: io::Error) -> RecordingError {
        RecordingError::Write { path: self.path.clone(), source }
    }
}

/// Where the parts of the file are.
///
/// Behind the file header: the attributes with their sections of ids, the same again in another
/// shape, the ids, and the data. perf reads the first table. The second is that of the obsolete
/// `event_types` section, from which the crate linux-perf-data knows the ids in a recording that
/// was cut off before its `EVENT_DESC` section was written.
#[derive(Clone, Copy, Debug)]
struct Layout {
    event_types: u64,
    ids: u64,
    data: u64,
    events: u64,
    ids_bytes: u64,
}

impl Layout {
    /// Bytes of an entry of the first table; also the `attr_size` of the file header.
    const ATTR_ENTRY: u64 = ATTR_BYTES as u64 + SECTION_BYTES;
    /// Bytes of an entry of the second table: a whole `attr_size`, then a section.
    const EVENT_TYPE_ENTRY: u64 = Self::ATTR_ENTRY + SECTION_BYTES;
    /// Offset of `data.size` in the file header.
    const DATA_SIZE_AT: u64 = 48;
    /// Offset of the bitmap of features in the file header.
    const FEATURES_AT: u64 = 72;

    fn new(header: &Header) -> Self {
        let events = header.events.len() as u64;
        let ids_bytes = Ids::new(header.cpus.possible).all_of(0).len() as u64 * 8;
        let event_types = FILE_HEADER_BYTES + events * Self::ATTR_ENTRY;
        let ids = event_types + events * Self::EVENT_TYPE_ENTRY;
        Self { event_types, ids, data: ids + events * ids_bytes, events, ids_bytes }
    }

    /// Everything before the data. No data is there yet, and no features.
    fn front(&self, header: &Header, ids: Ids) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.data as usize);
        for value in [MAGIC, FILE_HEADER_BYTES, Self::ATTR_ENTRY] {
            out.extend(value.to_ne_bytes());
        }
        section(&mut out, FILE_HEADER_BYTES, self.events * Self::ATTR_ENTRY);
        section(&mut out, self.data, 0);
        section(&mut out, self.event_types, self.events * Self::EVENT_TYPE_ENTRY);
        out.resize(FILE_HEADER_BYTES as usize, 0);
        for attr_size in [u64::from(ATTR_BYTES), Self::ATTR_ENTRY] {
            for (index, event) in header.events.iter().enumerate() {
                let mut attr = attr_bytes(header, event);
                attr.resize(attr_size as usize, 0);
                out.extend(attr);
                section(&mut out, self.ids + index as u64 * self.ids_bytes, self.ids_bytes);
            }
        }
        let events = 0..header.events.len();
        out.extend(events.flat_map(|event| ids.all_of(event)).flat_map(u64::to_ne_bytes));
        out
    }
}

/// Appends a `struct perf_file_section`.
fn section(out: &mut Vec<u8>, offset: u64, size: u64) {
    out.extend(offset.to_ne_bytes());
    out.extend(size.to_ne_bytes());
}

/// Sets a bit of a bitmap that readers take as an array of 64-bit words.
fn set_bit(bitmap: &mut [u8; 32], bit: u8) {
    let byte = usize::from(bit / 8);
    let byte = if cfg!(target_endian = "big") { byte ^ 7 } else { byte };
    bitmap[byte] |= 1 << (bit % 8);
}

/// Writes all of `bytes` at `offset`, or tells how many of them could be written.
fn write_at(file: &File, bytes: &[u8], offset: u64) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(n) => written += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}
