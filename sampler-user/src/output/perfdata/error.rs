//! What can go wrong with a recording.

use std::io;
use std::path::PathBuf;

/// A recording could not be created or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is a symbolic link at the path, and links are not followed.
    #[error("cannot record to {}: it is a symbolic link; name the file itself", .path.display())]
    Symlink {
        /// The path of the recording.
        path: PathBuf,
    },
    /// There is something at the path that a recording can't replace.
    #[error("cannot record to {}: it is a {kind}, not a regular file", .path.display())]
    NotRegular {
        /// The path of the recording.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The file could not be created.
    #[error("cannot create the recording {}", .path.display())]
    Create {
        /// The path of the recording.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The recording that was there before could not be moved out of the way.
    #[error("cannot keep the previous recording as {}", .old.display())]
    Keep {
        /// Where it was to go.
        old: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Writing failed; what was written before is kept and readable.
    #[error("cannot write to the recording {}", .path.display())]
    Write {
        /// The path of the recording.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nothing more is written, since an earlier write failed.
    #[error("the recording {} ended at an earlier write error", .path.display())]
    Stopped {
        /// The path of the recording.
        path: PathBuf,
    },
}
