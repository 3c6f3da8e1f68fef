//! The files that were mapped, and their build ids: the `BUILD_ID` section of a recording.

use rustc_hash::FxHashSet;

use crate::model::record::{FileId, Mmap};

/// So many files are listed; the mappings themselves name the build ids of any more.
const MAX_FILES: usize = 1 << 16;

/// A mapped file with its build id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MappedFile {
    /// Its path, or `[kernel.kallsyms]`.
    pub(super) path: Vec<u8>,
    /// The kernel or a module of it.
    pub(super) kernel: bool,
    /// The build id.
    pub(super) id: [u8; 20],
    /// Bytes of `id`.
    pub(super) id_len: u8,
}

/// Each file once.
#[derive(Debug, Default)]
pub(super) struct BuildIds {
    files: FxHashSet<MappedFile>,
}

impl BuildIds {
    /// Notes the file of a mapping.
    pub(super) fn add(&mut self, mmap: &Mmap) {
        let FileId::BuildId(id, id_len) = mmap.file else { return };
        if self.files.len() >= MAX_FILES {
            return;
        }
        let path = file_name(mmap).to_vec();
        self.files.insert(MappedFile { path, kernel: mmap.kernel, id, id_len: id_len.min(20) });
    }

    /// All files, in the order of their paths.
    pub(super) fn sorted(&self) -> Vec<&MappedFile> {
        let mut files: Vec<&MappedFile> = self.files.iter().collect();
        files.sort_by(|a, b| (&a.path, &a.id).cmp(&(&b.path, &b.id)));
        files
    }
}

/// The name of the file. The kernel's mapping has a symbol's name after that.
fn file_name(mmap: &Mmap) -> &[u8] {
    if mmap.kernel && mmap.path.starts_with(b"[kernel.kallsyms]") {
        return b"[kernel.kallsyms]";
    }
    &mmap.path
}
