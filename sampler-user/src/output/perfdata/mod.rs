//! The recording: a `perf.data` file that `perf report`, `perf script` and other readers open.
//!
//! It is written as a stream: after each [`Recording::flush`] the file is complete up to there, so
//! that one cut off by `kill -9` or a full disk still reads. The feature sections (machine, command
//! line, build ids, …) follow the records and are written by [`Recording::finish`] alone.
//!
//! The format is that of `tools/perf/Documentation/perf.data-file-format.txt` and of
//! `include/uapi/linux/perf_event.h`. Not done here: compression, pipe mode, and reading.

mod attr;
mod buildids;
mod encode;
mod error;
mod features;
mod file;
mod header;
mod recording;
mod rounds;

pub use error::RecordingError;
pub use header::{Clock, Cpus, Header};
pub use recording::{Recording, Summary};
