//! Build ids: of files, of the running kernel, of its modules.
//!
//! Files are those that a measured process has mapped, so nothing about them is trusted: only
//! regular files are opened, only the program headers and notes of an ELF file are read, and what
//! makes no sense has no build id. Like the kernel (`lib/buildid.c`, Linux 6.18), this looks in the
//! note segments alone, and takes ids of up to 20 bytes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use object::elf::{FileHeader32, FileHeader64, NT_GNU_BUILD_ID, PN_XNUM, PT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use rustix::fs::{FileType, Mode, OFlags};

use crate::model::record::FileId;

/// The longest build id that records can carry.
const MAX_BYTES: usize = 20;
/// A note segment longer than this isn't read: real ones have some hundred bytes.
const MAX_NOTES_BYTES: u64 = 1 << 20;

/// A build id of 1 to 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BuildId {
    bytes: [u8; MAX_BYTES],
    len: u8,
}

impl BuildId {
    /// `None` for an empty or too long one.
    pub fn new(id: &[u8]) -> Option<Self> {
        if id.is_empty() || id.len() > MAX_BYTES {
            return None;
        }
        let mut bytes = [0; MAX_BYTES];
        bytes[..id.len()].copy_from_slice(id);
        Some(Self { bytes, len: id.len() as u8 })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl From<BuildId> for FileId {
    fn from(id: BuildId) -> Self {
        Self::BuildId(id.bytes, id.len)
    }
}

/// The build id of the ELF file at `path`; `None` when it has none or isn't a well-formed one.
///
/// Symbolic links are followed, so that `/proc/TGID/map_files/…` and `/proc/TGID/root/…` work.
///
/// # Errors
/// When the file can't be opened or is no regular file. A device or named pipe is not opened.
pub fn of_file(path: &Path) -> io::Result<Option<BuildId>> {
    Ok(of_open_file(open_regular(path, None)?))
}

/// Like [`of_file`], for a file that must have the inode number `inode`.
///
/// # Errors
/// Like those of [`of_file`], or when there is another file at `path`.
pub fn of_file_with_inode(path: &Path, inode: u64) -> io::Result<Option<BuildId>> {
    Ok(of_open_file(open_regular(path, Some(inode))?))
}

/// The build id of the running kernel, if it tells.
pub fn of_kernel() -> Option<BuildId> {
    of_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

/// The build id of a module of the running kernel, if it tells.
pub fn of_module(name: &str) -> Option<BuildId> {
    let path = format!("/sys/module/{name}/notes/.note.gnu.build-id");
    of_notes(&std::fs::read(path).ok()?)
}

/// Opens a regular file for reading, without as much as touching anything else.
fn open_regular(path: &Path, inode: Option<u64>) -> io::Result<File> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&place)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if inode.is_some_and(|inode| inode != stat.st_ino) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "another file is there by now"));
    }
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

fn of_open_file(file: File) -> Option<BuildId> {
    let data = ReadCache::new(file);
    match FileKind::parse(&data).ok()? {
        FileKind::Elf32 => of_elf::<FileHeader32<Endianness>, _>(&data),
        FileKind::Elf64 => of_elf::<FileHeader64<Endianness>, _>(&data),
        _ => None,
    }
}

/// Looks through the note segments of an ELF file.
fn of_elf<'data, Elf, R>(data: R) -> Option<BuildId>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_phnum(endian) == PN_XNUM {
        // The true number, of up to 2^32, is elsewhere. No program has that many segments.
        return None;
    }
    header
        .program_headers(endian, data)
        .ok()?
        .iter()
        .filter(|segment| segment.p_type(endian) == PT_NOTE)
        .filter(|segment| segment.p_filesz(endian).into() <= MAX_NOTES_BYTES)
        .filter_map(|segment| segment.notes(endian, data).ok().flatten())
        .find_map(|notes| build_id_in(notes, endian))
}

/// Looks through notes of the running kernel, as sysfs shows them.
fn of_notes(notes: &[u8]) -> Option<BuildId> {
    /// What notes in memory are aligned to.
    const ALIGN: u64 = 4;
    let endian = if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };
    let notes = NoteIterator::<FileHeader64<Endianness>>::new(endian, ALIGN, notes).ok()?;
    build_id_in(notes, endian)
}

fn build_id_in<Elf: FileHeader>(
    mut notes: NoteIterator<'_, Elf>,
    endian: Elf::Endian,
) -> Option<BuildId> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == object::elf::ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
            return BuildId::new(note.desc());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn own_executable() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    fn of_bytes(bytes: &[u8]) -> Option<BuildId> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        of_file(file.path()).unwrap()
    }

    /// The build id that binutils' `readelf` finds.
    fn by_readelf(path: &str) -> String {
        let output = std::process::Command::new("readelf").args(["-n", path]).output();
        let output = output.expect("readelf not found: `cargo xtask setup` installs it");
        let text = String::from_utf8(output.stdout).unwrap();
        let id = text.split("Build ID: ").nth(1).expect("a file with a build id");
        id.lines().next().unwrap().trim().to_owned()
    }

    fn hex(id: BuildId) -> String {
        id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn agrees_with_readelf() {
        let own = std::env::current_exe().unwrap().into_os_string().into_string().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().find(|line| line.contains("/libc.so")).unwrap();
        for path in [&own, &libc[libc.find('/').unwrap()..]] {
            let id = of_file(Path::new(path)).unwrap().unwrap();
            assert_eq!(hex(id), by_readelf(path), "{path}");
        }
    }

    #[test]
    fn opens_regular_files_alone() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        for path in [&fifo, dir.path(), Path::new("/dev/null")] {
            let error = of_file(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        assert!(of_file(&dir.path().join("none")).is_err());
    }

    #[test]
    fn takes_no_other_inode() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let inode = rustix::fs::fstat(&file).unwrap().st_ino;
        assert_eq!(of_file_with_inode(file.path(), inode).unwrap(), None);
        assert!(of_file_with_inode(file.path(), inode + 1).is_err());
    }

    #[test]
    fn what_is_no_elf_has_none() {
        assert_eq!(of_bytes(b""), None);
        assert_eq!(of_bytes(b"#!/bin/sh\n"), None);
        assert_eq!(of_bytes(&own_executable()[..64]), None);
    }

    #[test]
    fn reads_little_of_a_file_that_lies_about_its_size() {
        // A note segment of a terabyte in a sparse file of that size.
        let mut bytes = own_executable();
        bytes.truncate(1 << 20);
        let segments = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes(bytes[56..58].try_into().unwrap()) as usize;
        for segment in bytes[segments..segments + count * 56].chunks_exact_mut(56) {
            segment[..4].copy_from_slice(&4_u32.to_le_bytes());
            segment[32..40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        file.as_file().set_len(1 << 41).unwrap();
        assert_eq!(of_file(file.path()).unwrap(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        #[test]
        fn damage_is_no_panic(at in 0_usize..2048, with: u8, cut in 0_usize..8192) {
            let mut bytes = own_executable();
            bytes.truncate(cut.max(at + 1));
            bytes[at] = with;
            let _ = of_bytes(&bytes);
            let _ = of_notes(&bytes[at..]);
        }
    }
}
