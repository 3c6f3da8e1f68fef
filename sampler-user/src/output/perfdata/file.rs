//! Creates the file of a recording, keeping what was there before.
//!
//! A previous recording is moved to `PATH.old`, as perf does, but only once the new file has been
//! created under a temporary name: if anything fails, the previous one is where it was.

use std::ffi::OsString;
use std::fs::{File, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::error::RecordingError;

/// A new file that has no place yet. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Unplaced {
    temporary: PathBuf,
    path: PathBuf,
    previous: bool,
    placed: bool,
}

/// Creates an empty file beside `path`, readable and writable by its owner alone.
///
/// # Errors
/// When `path` is a symbolic link or no regular file, or when its directory takes no new file.
pub(super) fn create(path: &Path) -> Result<(File, Unplaced), RecordingError> {
    let previous = regular_file_at(path)?;
    let temporary = with_suffix(path, &format!(".new-{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| RecordingError::Create { path: path.to_owned(), source: errno.into() })?;
    let unplaced = Unplaced { temporary, path: path.to_owned(), previous, placed: false };
    Ok((File::from(file), unplaced))
}

impl Unplaced {
    /// Gives the file its name, after moving a previous one to `PATH.old`.
    ///
    /// # Errors
    /// When either fails; the previous file is then back in its place.
    pub(super) fn place(mut self) -> Result<(), RecordingError> {
        let old = with_suffix(&self.path, ".old");
        if self.previous {
            std::fs::rename(&self.path, &old)
                .map_err(|source| RecordingError::Keep { old: old.clone(), source })?;
        }
        if let Err(source) = rename_to_free(&self.temporary, &self.path) {
            if self.previous {
                // Best effort: the error worth reporting is the one that led here.
                let _ = rename_to_free(&old, &self.path);
            }
            return Err(RecordingError::Create { path: self.path.clone(), source });
        }
        self.placed = true;
        Ok(())
    }
}

impl Drop for Unplaced {
    fn drop(&mut self) {
        if !self.placed {
            // Nothing can be done about it, and the reason is already being reported.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Whether a regular file is at `path`; an error for anything else but nothing.
fn regular_file_at(path: &Path) -> Result<bool, RecordingError> {
    let file_type = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(RecordingError::Create { path: path.to_owned(), source }),
    };
    if file_type.is_symlink() {
        return Err(RecordingError::Symlink { path: path.to_owned() });
    }
    match kind_of_irregular(file_type) {
        Some(kind) => Err(RecordingError::NotRegular { path: path.to_owned(), kind }),
        None => Ok(true),
    }
}

fn kind_of_irregular(file_type: FileType) -> Option<&'static str> {
    if file_type.is_file() {
        None
    } else if file_type.is_dir() {
        Some("directory")
    } else if file_type.is_fifo() {
        Some("named pipe")
    } else if file_type.is_socket() {
        Some("socket")
    } else {
        Some("device")
    }
}

/// Renames without replacing anything, where the file system can promise that.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(from, to),
        result => result.map_err(io::Error::from),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn create_and_place(path: &Path) -> Result<(), RecordingError> {
        create(path)?.1.place()
    }

    #[test]
    fn is_private_and_keeps_the_previous_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.data");
        std::fs::write(&path, "first").unwrap();
        std::fs::write(dir.path().join("r.data.old"), "before").unwrap();
        create_and_place(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        assert_eq!(std::fs::read(dir.path().join("r.data.old")).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn follows_no_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("link"), dir.path().join("target"));
        for there in [false, true] {
            symlink(&target, &path).unwrap();
            let error = create_and_place(&path).unwrap_err();
            assert!(matches!(error, RecordingError::Symlink { .. }), "{error}");
            assert_eq!(target.exists(), there);
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&target, "mine").unwrap();
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"mine");
    }

    #[test]
    fn refuses_what_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = create_and_place(dir.path()).unwrap_err();
        assert!(error.to_string().ends_with("it is a directory, not a regular file"), "{error}");
        let error = create_and_place(Path::new("/dev/null")).unwrap_err();
        assert!(error.to_string().contains("it is a device"), "{error}");
        let error = create_and_place(&dir.path().join("none/r.data")).unwrap_err();
        assert!(matches!(error, RecordingError::Create { .. }), "{error}");
    }

    #[test]
    fn loses_nothing_when_the_previous_one_cannot_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.data");
        std::fs::write(&path, "first").unwrap();
        std::fs::create_dir(dir.path().join("r.data.old")).unwrap();
        let error = create_and_place(&path).unwrap_err();
        assert!(matches!(error, RecordingError::Keep { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
