//! The events as a recording describes them: one `perf_event_attr` each, and the ids of its
//! counters.

use perf_event_open_sys::bindings as sys;

use super::header::Header;
use crate::model::event::{Event, Sampling};

/// Bytes written of each `perf_event_attr`: those of Linux 4.1, which every reader knows.
pub(super) const ATTR_BYTES: u32 = sys::PERF_ATTR_SIZE_VER5;

/// The ids that tie records to events: one for each event on each CPU, from 1, as 0 means none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    cpus: u32,
}

impl Ids {
    pub(super) fn new(possible_cpus: u32) -> Self {
        Self { cpus: possible_cpus.max(1) }
    }

    /// The id of an event on a CPU. One that isn't among the possible ones counts as CPU 0.
    pub(super) fn of(self, event: usize, cpu: u32) -> u64 {
        let cpu = if cpu < self.cpus { cpu } else { 0 };
        event as u64 * u64::from(self.cpus) + u64::from(cpu) + 1
    }

    /// The ids of an event, by CPU.
    pub(super) fn all_of(self, event: usize) -> impl ExactSizeIterator<Item = u64> {
        (0..self.cpus).map(move |cpu| self.of(event, cpu))
    }
}

/// What each sample carries; `encode` writes these fields, in the order of their bits.
fn sample_type(header: &Header) -> u64 {
    let fields = sys::PERF_SAMPLE_IDENTIFIER
        | sys::PERF_SAMPLE_IP
        | sys::PERF_SAMPLE_TID
        | sys::PERF_SAMPLE_TIME
        | sys::PERF_SAMPLE_CPU
        | sys::PERF_SAMPLE_PERIOD;
    let chain = if header.call_chains { sys::PERF_SAMPLE_CALLCHAIN } else { 0 };
    u64::from(fields | chain)
}

/// The first [`ATTR_BYTES`] of the `perf_event_attr` that would open `event` like this.
pub(super) fn attr_bytes(header: &Header, event: &Event) -> Vec<u8> {
    let attr = attr(header, event);
    // SAFETY: a repr(C) struct of integers without padding, all set to zero by its `Default`, and
    // longer than what is read of it (asserted below).
    let bytes =
        unsafe { std::slice::from_raw_parts((&raw const attr).cast::<u8>(), ATTR_BYTES as usize) };
    bytes.to_vec()
}

const _: () = assert!(size_of::<sys::perf_event_attr>() >= ATTR_BYTES as usize);

fn attr(header: &Header, event: &Event) -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr {
        type_: event.perf_type,
        size: ATTR_BYTES,
        config: event.config,
        sample_type: sample_type(header),
        read_format: u64::from(
            sys::PERF_FORMAT_TOTAL_TIME_ENABLED
                | sys::PERF_FORMAT_TOTAL_TIME_RUNNING
                | sys::PERF_FORMAT_ID,
        ),
        clockid: rustix::time::ClockId::Monotonic as i32,
        ..Default::default()
    };
    match event.sampling {
        Sampling::Off => {}
        Sampling::Period(period) => attr.sample_period = period,
        Sampling::Frequency(frequency) => {
            attr.set_freq(1);
            attr.sample_period = frequency;
        }
    }
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_exclude_user(u64::from(event.exclude_user));
    attr.set_exclude_kernel(u64::from(event.exclude_kernel));
    attr.set_inherit(u64::from(header.inherit));
    attr.set_inherit_stat(u64::from(header.inherit));
    set_side_band(&mut attr);
    attr
}

/// Marks the kinds of records that a recording has beside samples.
fn set_side_band(attr: &mut sys::perf_event_attr) {
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_build_id(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_a_strange_cpu_has_one_too() {
        let ids = Ids::new(3);
        let all: Vec<u64> = (0..2).flat_map(|event| ids.all_of(event)).collect();
        assert_eq!(all, [1, 2, 3, 4, 5, 6]);
        assert_eq!(ids.of(1, u32::MAX), 4);
    }
}
