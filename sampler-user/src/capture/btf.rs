//! Where the running kernel keeps what the BPF programs read: offsets from its BTF.

use super::error::CaptureError;
use btfparse::{
    Error as BtfError, ErrorKind, Offset, Readable, Result as BtfResult, TypeInformation,
};
use std::fs;
use std::path::Path;

/// The running kernel's type information.
pub const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Byte offsets in the running kernel's structs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.__state`, `state` before v5.14.
    pub task_state: u32,
    /// `task_struct.start_time`
    pub task_start_time: u32,
    /// `task_struct.se.sum_exec_runtime`
    pub task_exec_runtime: u32,
    /// `task_struct.comm`
    pub task_comm: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `signal_struct.live`
    pub signal_live: u32,
}

struct Bytes(Vec<u8>);

impl Readable for Bytes {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> BtfResult<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        let bytes = self
            .0
            .get(start..end)
            .ok_or_else(|| BtfError::new(ErrorKind::IOError, "read past the end"))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl Offsets {
    /// Reads them from a BTF file.
    ///
    /// # Errors
    /// [`CaptureError::NoBtf`] when it can't be read, [`CaptureError::BtfField`] when it lacks a
    /// struct or field.
    pub fn read(path: &Path) -> Result<Self, CaptureError> {
        let bytes = fs::read(path)
            .map_err(|source| CaptureError::NoBtf { path: path.to_owned(), source })?;
        let btf = TypeInformation::new(&Bytes(bytes)).map_err(|error| CaptureError::BtfField {
            field: "any type",
            message: format!("{error:?}"),
        })?;
        let field = |of: &'static str, name: &'static str| offset_of(&btf, of, name);
        Ok(Self {
            task_pid: field("task_struct", "pid")?,
            task_tgid: field("task_struct", "tgid")?,
            task_state: field("task_struct", "__state")
                .or_else(|_| field("task_struct", "state"))?,
            task_start_time: field("task_struct", "start_time")?,
            task_exec_runtime: field("task_struct", "se.sum_exec_runtime")?,
            task_comm: field("task_struct", "comm")?,
            task_signal: field("task_struct", "signal")?,
            signal_live: field("signal_struct", "live")?,
        })
    }
}

fn offset_of(btf: &TypeInformation, of: &str, name: &'static str) -> Result<u32, CaptureError> {
    let missing = |message: String| CaptureError::BtfField { field: name, message };
    let id = btf.id_of(of).ok_or_else(|| missing(format!("there is no struct {of}")))?;
    match btf.offset_of(id, name) {
        Ok((_, Offset::ByteOffset(offset))) => Ok(offset),
        Ok((_, other)) => Err(missing(format!("{of}.{name} is a bit field at {other:?}"))),
        Err(error) => Err(missing(format!("{error:?}"))),
    }
}
