//! The executable mappings of a process, from `/proc/TID/maps`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::super::buildid::{self, BuildId};
use crate::model::record::{FileId, Mmap, Stamp};

/// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`, the bits of the letters `rwx`.
const PROT_BITS: [u32; 3] =
    [libc::PROT_READ as u32, libc::PROT_WRITE as u32, libc::PROT_EXEC as u32];

/// Device (major, minor) and inode number of a file.
pub(super) type FileKey = (u32, u32, u64);

/// The executable mappings that thread `tid` sees; none when it has ended.
///
/// `build_id` is asked for the build id of each file, with a way to find it.
pub(super) fn executable(
    tid: u32,
    stamp: Stamp,
    mut build_id: impl FnMut(FileKey, &dyn Fn() -> Option<BuildId>) -> Option<BuildId>,
) -> Vec<Mmap> {
    let maps = std::fs::read(format!("/proc/{tid}/maps")).unwrap_or_default();
    let lines = maps.split(|&byte| byte == b'\n').filter_map(Line::parse);
    lines
        .filter(|line| line.prot & libc::PROT_EXEC as u32 != 0)
        .map(|line| {
            let is_file = line.key.2 != 0 && line.path.starts_with(b"/");
            let id = if is_file { build_id(line.key, &|| find_build_id(tid, &line)) } else { None };
            line.into_mmap(stamp, id)
        })
        .collect()
}

/// The mapped file itself is asked first, also if it has been deleted; where that isn't permitted,
/// the file of its name as the process sees it.
fn find_build_id(tid: u32, line: &Line<'_>) -> Option<BuildId> {
    let mapped = format!("/proc/{tid}/map_files/{:x}-{:x}", line.start, line.end);
    buildid::of_file(mapped.as_ref()).ok().unwrap_or_else(|| {
        let mut path = PathBuf::from(format!("/proc/{tid}/root"));
        path.as_mut_os_string().push(OsStr::from_bytes(line.path));
        buildid::of_file_with_inode(&path, line.key.2).ok().flatten()
    })
}

/// A line of `/proc/TID/maps`: `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH`.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    start: u64,
    end: u64,
    prot: u32,
    shared: bool,
    offset: u64,
    key: FileKey,
    path: &'a [u8],
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let mut field = || std::str::from_utf8(fields.next()?).ok();
        let (start, end) = field()?.split_once('-')?;
        let permissions = field()?.as_bytes();
        let offset = field()?;
        let (major, minor) = field()?.split_once(':')?;
        let inode = field()?.parse().ok()?;
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        let letters = permissions.iter().zip(PROT_BITS);
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            prot: letters.filter(|(letter, _)| **letter != b'-').map(|(_, bit)| bit).sum(),
            shared: permissions.get(3) == Some(&b's'),
            offset: u64::from_str_radix(offset, 16).ok()?,
            key: (
                u32::from_str_radix(major, 16).ok()?,
                u32::from_str_radix(minor, 16).ok()?,
                inode,
            ),
            path,
        })
    }

    fn into_mmap(self, stamp: Stamp, build_id: Option<BuildId>) -> Mmap {
        let (major, minor, inode) = self.key;
        let by_inode = FileId::Inode { major, minor, inode, generation: 0 };
        // The kernel's own records call memory without a file so, whatever name it was given.
        let anonymous = self.path.is_empty() || self.path.starts_with(b"[anon");
        Mmap {
            stamp,
            start: self.start,
            len: self.end.saturating_sub(self.start),
            offset: self.offset,
            prot: self.prot,
            flags: if self.shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE } as u32,
            file: build_id.map_or(by_inode, FileId::from),
            path: if anonymous { b"//anon".to_vec() } else { self.path.to_vec() },
            kernel: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines() {
        let line =
            b"7f31a000-7f31c000 r-xp 00001000 fd:1a 4711                      /a b/c\xff (deleted)";
        let expected = Line {
            start: 0x7f31_a000,
            end: 0x7f31_c000,
            prot: 5,
            shared: false,
            offset: 0x1000,
            key: (0xfd, 0x1a, 4711),
            path: b"/a b/c\xff (deleted)",
        };
        assert_eq!(Line::parse(line), Some(expected));
        let anonymous = Line::parse(b"7f00-7f01 rwxs 00000000 00:00 0 ").unwrap();
        assert!(anonymous.shared);
        assert_eq!(anonymous.into_mmap(Stamp::default(), None).path, b"//anon");
        assert_eq!(Line::parse(b""), None);
        assert_eq!(Line::parse(b"7f00 rwxs 0 00:00 0"), None);
    }

    /// The loader's own list of what it has mapped.
    fn loaded_by_the_linker() -> Vec<(u64, Vec<u8>)> {
        unsafe extern "C" fn add(
            info: *mut libc::dl_phdr_info,
            _: usize,
            list: *mut libc::c_void,
        ) -> i32 {
            // SAFETY: the loader passes a valid entry, and `list` as it was given below.
            let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<(u64, Vec<u8>)>>()) };
            // SAFETY: the loader's names end in NUL and its tables have `dlpi_phnum` entries.
            let (name, segments) = unsafe {
                let segments = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
                (std::ffi::CStr::from_ptr(info.dlpi_name), segments)
            };
            let code = segments.iter().find(|s| s.p_type == libc::PT_LOAD && s.p_flags & 1 != 0);
            list.extend(code.map(|s| (info.dlpi_addr + s.p_vaddr, name.to_bytes().to_vec())));
            0
        }
        let mut list = Vec::new();
        // SAFETY: `add` takes the list as what it is.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut list).cast()) };
        list
    }

    #[test]
    fn finds_all_that_the_loader_has_loaded() {
        let loaded = loaded_by_the_linker();
        assert!(loaded.len() >= 3, "{loaded:?}");
        let maps = executable(std::process::id(), Stamp::default(), |_, find| find());
        for (address, name) in loaded {
            let map = maps.iter().find(|map| (map.start..map.start + map.len).contains(&address));
            let map = map.unwrap_or_else(|| panic!("no mapping at {address:#x}"));
            if name.starts_with(b"/") {
                let same = |path: &[u8]| std::fs::canonicalize(OsStr::from_bytes(path)).unwrap();
                assert_eq!(same(&map.path), same(&name));
                assert!(matches!(map.file, FileId::BuildId(..)), "{map:?}");
            }
        }
    }
}
