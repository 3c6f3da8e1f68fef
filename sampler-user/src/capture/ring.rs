//! A CPU's ways out: rings of `perf_event`s. One is for samples; into the other the kernel puts its
//! side-band records (names, mappings, starts and ends of threads) and the BPF programs the final
//! counts, so that a flood of samples displaces none of them.

use super::sys;
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_BPF_OUTPUT, PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_RAW,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr, perf_event_header,
    perf_event_mmap_page,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of data in all rings together, at most, as long as each has the smallest size.
const ALL_RINGS_BYTES: usize = 64 << 20;

/// Smallest and largest ring, bytes. At 100,000 samples a second of 400 bytes on one CPU the largest
/// holds 0.1 s.
const RING_BYTES: (usize, usize) = (512 << 10, 4 << 20);

/// Length of a record's header.
const HEADER_BYTES: usize = size_of::<perf_event_header>();

/// What a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Samples.
    Samples,
    /// Names, mappings, starts and ends.
    Lives,
}

/// A ring of one CPU.
pub struct Ring {
    event: OwnedFd,
    memory: MmapRaw,
    data_offset: usize,
    /// A power of two.
    data_len: usize,
    /// A record that wraps around the end is put together here.
    wrapped: Vec<u8>,
}

/// What a ring's event asks of the kernel. Records are laid out alike in both; the decoder needs to
/// know how.
pub fn output_attr(purpose: Purpose) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_BPF_OUTPUT.into(),
        sample_type: u64::from(
            PERF_SAMPLE_IDENTIFIER
                | PERF_SAMPLE_TID
                | PERF_SAMPLE_TIME
                | PERF_SAMPLE_CPU
                | PERF_SAMPLE_RAW,
        ),
        size: size_of::<perf_event_attr>() as u32,
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    // Nobody waits for a ring: it is looked at in short intervals. So no overflow has to wake
    // anybody up.
    attr.__bindgen_anon_2.wakeup_watermark = u32::MAX;
    attr.set_watermark(1);
    attr.set_disabled(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    let lives = u64::from(purpose == Purpose::Lives);
    attr.set_mmap(lives);
    attr.set_mmap2(lives);
    attr.set_build_id(lives);
    attr.set_comm(lives);
    attr.set_comm_exec(lives);
    attr.set_task(lives);
    attr
}

impl Ring {
    /// Opens a ring of a CPU, one of `rings` in all. Nothing comes before [`enable`](Self::enable).
    ///
    /// # Errors
    /// When the kernel refuses the event, or has no memory for the ring.
    pub fn open(purpose: Purpose, cpu: u32, rings: usize) -> io::Result<Self> {
        let event = sys::open_event_on_cpu(&mut output_attr(purpose), cpu)?;
        let data_offset = rustix::param::page_size();
        let data_len = ring_len(rings);
        let memory = MmapOptions::new().len(data_offset + data_len).map_raw(&event)?;
        Ok(Self { event, memory, data_offset, data_len, wrapped: Vec::new() })
    }

    /// Lets records come.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&self) -> io::Result<()> {
        sys::enable_event(self.event.as_fd())
    }

    /// Gives each record that is there to `each`, header included, and frees its room.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let head = self.head().load(Ordering::Acquire);
        let mut tail = self.tail().load(Ordering::Relaxed);
        while tail < head {
            let len = self.record_len(tail);
            if len < HEADER_BYTES || len as u64 > head - tail {
                // Can't be: the kernel writes whole records. Give up on what is there.
                tail = head;
                break;
            }
            self.with_record(tail, len, &mut each);
            tail += len as u64;
        }
        self.tail().store(tail, Ordering::Release);
    }

    fn record_len(&self, at: u64) -> usize {
        // Records start at multiples of 8 and the ring's length is one, so a header never wraps.
        let header: *const perf_event_header = self.data(at).cast();
        // SAFETY: inside the mapping; the kernel does not write what lies between tail and head.
        usize::from(unsafe { (*header).size })
    }

    fn with_record(&mut self, at: u64, len: usize, each: &mut impl FnMut(&[u8])) {
        let until_end = self.data_len - (at as usize & (self.data_len - 1));
        if len <= until_end {
            // SAFETY: inside the mapping; the kernel does not write what lies between tail and head.
            each(unsafe { std::slice::from_raw_parts(self.data(at), len) });
            return;
        }
        let mut wrapped = std::mem::take(&mut self.wrapped);
        wrapped.clear();
        // SAFETY: as above, for both parts.
        unsafe {
            wrapped.extend_from_slice(std::slice::from_raw_parts(self.data(at), until_end));
            let rest = len - until_end;
            wrapped.extend_from_slice(std::slice::from_raw_parts(
                self.data(at + until_end as u64),
                rest,
            ));
        }
        each(&wrapped);
        self.wrapped = wrapped;
    }

    fn data(&self, at: u64) -> *const u8 {
        let offset = self.data_offset + (at as usize & (self.data_len - 1));
        // SAFETY: less than the length of the mapping.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    fn head(&self) -> &AtomicU64 {
        let page: *mut perf_event_mmap_page = self.memory.as_mut_ptr().cast();
        // SAFETY: the first page of the mapping; the kernel writes the field as one word.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) }
    }

    fn tail(&self) -> &AtomicU64 {
        let page: *mut perf_event_mmap_page = self.memory.as_mut_ptr().cast();
        // SAFETY: the first page of the mapping; only this program writes the field.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_tail) }
    }
}

/// Bytes of each of so many rings.
fn ring_len(rings: usize) -> usize {
    let (least, most) = RING_BYTES;
    let share = (ALL_RINGS_BYTES / rings.max(1)).clamp(least, most);
    // The largest power of two that is not larger.
    1 << share.ilog2()
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_their_memory() {
        assert_eq!(ring_len(1), 4 << 20);
        assert_eq!(ring_len(16), 4 << 20);
        assert_eq!(ring_len(24), 2 << 20);
        assert_eq!(ring_len(128), 512 << 10);
        assert_eq!(ring_len(4096), 512 << 10);
    }
}
