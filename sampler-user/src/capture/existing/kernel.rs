//! The code of the kernel and its modules, as mappings.

use std::fs::File;
use std::io::{BufRead, BufReader};

use rustc_hash::FxHashMap;

use super::super::buildid::{self, BuildId};
use crate::model::record::{FileId, Mmap, Record, Stamp};

/// Owner of the kernel's mappings: process -1, thread 0.
const KERNEL_TGID: u32 = u32::MAX;

/// The mappings of the kernel and its modules, as of `time_ns`.
///
/// Without the right to see kernel addresses (`kernel.kptr_restrict`) there are none, since they
/// could only be wrong.
pub fn kernel_records(time_ns: u64) -> Vec<Record> {
    let stamp = Stamp { time_ns, tgid: KERNEL_TGID, tid: 0, cpu: 0 };
    let image = image().map(|image| image.into_mmap(stamp, buildid::of_kernel()));
    let modules = modules().into_iter().map(|module| {
        let id = buildid::of_module(&module.name);
        module.code.into_mmap(stamp, id)
    });
    image.into_iter().chain(modules).map(Record::Mmap).collect()
}

/// A piece of kernel code.
#[derive(Debug, PartialEq, Eq)]
struct Code {
    start: u64,
    len: u64,
    offset: u64,
    path: Vec<u8>,
}

impl Code {
    fn into_mmap(self, stamp: Stamp, build_id: Option<BuildId>) -> Mmap {
        let none = FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 };
        Mmap {
            stamp,
            start: self.start,
            len: self.len,
            offset: self.offset,
            prot: 0,
            flags: 0,
            file: build_id.map_or(none, FileId::from),
            path: self.path,
            kernel: true,
        }
    }
}

fn image() -> Option<Code> {
    image_in(BufReader::new(File::open("/proc/kallsyms").ok()?))
}

/// Finds the kernel's code among its symbols, lines such as `ffffffff81000000 T _text`.
///
/// As perf does, its offset is the address of the symbol that its name ends in: by that, readers
/// tell how far the kernel was moved at boot.
fn image_in(symbols: impl BufRead) -> Option<Code> {
    let (mut text, mut stext) = (None, None);
    for line in symbols.split(b'\n').map_while(Result::ok) {
        let Some((address, name)) = symbol(&line) else { continue };
        match name {
            b"_text" => text = Some(address),
            b"_stext" => stext = Some(address),
            // The rest of the list, most of it, need not be read.
            b"_etext" => {
                let text = text.map(|address| (address, "_text"));
                let (start, name) = text.or(stext.map(|address| (address, "_stext")))?;
                let len = address.checked_sub(start).filter(|&len| len > 0)?;
                let path = format!("[kernel.kallsyms]{name}").into_bytes();
                return Some(Code { start, len, offset: start, path });
            }
            _ => {}
        }
    }
    None
}

fn symbol(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut fields = line.splitn(3, |&byte| byte == b' ');
    let address = std::str::from_utf8(fields.next()?).ok()?;
    let name = fields.nth(1)?;
    Some((u64::from_str_radix(address, 16).ok()?, name))
}

/// A loaded module.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: String,
    code: Code,
}

fn modules() -> Vec<Module> {
    // A kernel without modules has no such file.
    let list = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let dir = format!("/lib/modules/{release}");
    let files = std::fs::read_to_string(format!("{dir}/modules.dep")).unwrap_or_default();
    let files = module_files(&dir, &files);
    list.lines().filter_map(|line| module(line, &files)).collect()
}

/// Reads a line of `/proc/modules`: `NAME SIZE REFERENCES USERS STATE ADDRESS`.
fn module(line: &str, files: &FxHashMap<String, String>) -> Option<Module> {
    let mut fields = line.split_ascii_whitespace();
    let name = fields.next()?.to_owned();
    let len = fields.next()?.parse().ok()?;
    let address = fields.nth(3)?.strip_prefix("0x")?;
    let start = u64::from_str_radix(address, 16).ok().filter(|&start| start != 0)?;
    let path = files.get(&name).cloned().unwrap_or_else(|| format!("[{name}]"));
    Some(Module { name, code: Code { start, len, offset: 0, path: path.into_bytes() } })
}

/// The files of modules by name, from `modules.dep`: lines such as `kernel/fs/x/a-b.ko.xz: …`.
fn module_files(dir: &str, list: &str) -> FxHashMap<String, String> {
    let paths = list.lines().filter_map(|line| line.split_once(':')).map(|(path, _)| path);
    let named = paths.filter_map(|path| {
        let file = path.rsplit('/').next()?;
        let name = file.split(".ko").next()?.replace('-', "_");
        Some((name, format!("{dir}/{path}")))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_image() {
        let symbols: &[u8] =
            b"0000 A fixed\nff00 T _stext\nff00 T _text\nff10 T x\nff80 T _etext\n";
        let path = b"[kernel.kallsyms]_text".to_vec();
        let image = Code { start: 0xff00, len: 0x80, offset: 0xff00, path };
        assert_eq!(image_in(symbols), Some(image));
    }

    #[test]
    fn hidden_addresses_are_no_image() {
        let hidden: &[u8] = b"0000 T _stext\n0000 T _text\n0000 T _etext\n";
        assert_eq!(image_in(hidden), None);
        assert_eq!(image_in(&b""[..]), None);
    }

    #[test]
    fn finds_modules_and_their_files() {
        let files = module_files("/lib/modules/6", "kernel/a/b-c.ko.zst: kernel/d.ko\nx");
        let loaded = module("b_c 20480 1 d,e, Live 0xffffffffc0000000 (OE)", &files).unwrap();
        assert_eq!((loaded.code.start, loaded.code.len), (0xffff_ffff_c000_0000, 20480));
        assert_eq!(loaded.code.path, b"/lib/modules/6/kernel/a/b-c.ko.zst");
        let unknown = module("f 4096 0 - Live 0xffffffffc0010000", &files).unwrap();
        assert_eq!(unknown.code.path, b"[f]");
        assert_eq!(module("f 4096 0 - Live 0x0000000000000000", &files), None);
    }
}
