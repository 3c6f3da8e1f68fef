//! The feature sections: what a recording says about itself, after its records.
//!
//! Their contents are those of `tools/perf/Documentation/perf.data-file-format.txt` (Linux 6.1).

use perf_event_open_sys::bindings as sys;

use super::attr::{ATTR_BYTES, Ids, attr_bytes};
use super::buildids::{BuildIds, MappedFile};
use super::header::Header;

/// Strings are padded to a multiple of this (`NAME_ALIGN`).
const NAME_ALIGN: usize = 64;
/// The process that the kernel's files are listed under (`HOST_KERNEL_ID`).
const HOST_KERNEL_ID: i32 = -1;
/// Bit of `perf_event_header.misc`: the build id comes with its length.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// A section: its bit in the file header, and its content.
pub(super) struct Feature {
    /// `HEADER_*` of `tools/perf/util/header.h`.
    pub(super) bit: u8,
    /// The content.
    pub(super) content: Vec<u8>,
}

/// All sections, in the order of their bits. `sample_times_ns`: of the first and the last sample.
pub(super) fn features(
    header: &Header,
    build_ids: &BuildIds,
    sample_times_ns: (u64, u64),
) -> Vec<Feature> {
    let mut features = Vec::new();
    let mut add = |bit: u8, content: Vec<u8>| features.push(Feature { bit, content });
    add(2, build_id_section(build_ids));
    add(3, string(&header.hostname));
    add(4, string(&header.release));
    add(5, string(header.tool_version.as_bytes()));
    add(6, string(&header.machine));
    add(7, u32s([header.cpus.present, header.cpus.online]));
    if let Some(description) = &header.cpu_description {
        add(8, string(description.as_bytes()));
    }
    if let Some(id) = &header.cpu_id {
        add(9, string(id.as_bytes()));
    }
    add(10, u64s([header.memory_kib]));
    add(11, strings(&header.command_line));
    add(12, event_desc(header));
    add(21, u64s([sample_times_ns.0, sample_times_ns.1]));
    add(23, u64s([header.clock.resolution_ns]));
    add(29, clock_data(header));
    features
}

fn build_id_section(build_ids: &BuildIds) -> Vec<u8> {
    build_ids.sorted().into_iter().flat_map(build_id_event).collect()
}

/// `struct perf_record_header_build_id`.
fn build_id_event(file: &MappedFile) -> Vec<u8> {
    let name = padded(&file.path);
    let mode = if file.kernel { sys::PERF_RECORD_MISC_KERNEL } else { sys::PERF_RECORD_MISC_USER };
    let size = 8 + 4 + 24 + name.len();
    let mut out = u32s([0]);
    out.extend((mode as u16 | MISC_BUILD_ID_SIZE).to_ne_bytes());
    out.extend((size as u16).to_ne_bytes());
    out.extend(HOST_KERNEL_ID.to_ne_bytes());
    out.extend(file.id);
    out.extend([file.id_len, 0, 0, 0]);
    out.extend(name);
    out
}

fn event_desc(header: &Header) -> Vec<u8> {
    let ids = Ids::new(header.cpus.possible);
    let mut out = u32s([header.events.len() as u32, ATTR_BYTES]);
    for (index, event) in header.events.iter().enumerate() {
        let ids = ids.all_of(index);
        out.extend(attr_bytes(header, event));
        out.extend(u32s([ids.len() as u32]));
        out.extend(string(event.name.as_bytes()));
        out.extend(u64s(ids));
    }
    out
}

fn clock_data(header: &Header) -> Vec<u8> {
    const VERSION: u32 = 1;
    let mut out = u32s([VERSION, rustix::time::ClockId::Monotonic as u32]);
    out.extend(u64s([header.clock.wall_ns, header.clock.monotonic_ns]));
    out
}

/// `struct perf_header_string_list`.
fn strings(strings: &[Vec<u8>]) -> Vec<u8> {
    let mut out = u32s([strings.len() as u32]);
    out.extend(strings.iter().flat_map(|s| string(s)));
    out
}

/// `struct perf_header_string`.
fn string(bytes: &[u8]) -> Vec<u8> {
    let padded = padded(bytes);
    let mut out = u32s([padded.len() as u32]);
    out.extend(padded);
    out
}

/// With NULs up to the next multiple of [`NAME_ALIGN`], at least one.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize((bytes.len() + 1).next_multiple_of(NAME_ALIGN), 0);
    out
}

fn u32s(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn u64s(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    values.into_iter().flat_map(u64::to_ne_bytes).collect()
}
