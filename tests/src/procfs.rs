//! What `/proc` and `bpftool` say about other processes and the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// How many file descriptors a process has open.
///
/// # Errors
/// When the process is gone or not ours to look at.
pub fn fd_count(tgid: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{tgid}/fd"))?.count())
}

/// The threads of a process by tid, with their names. A thread that ends meanwhile is left out.
///
/// # Errors
/// When the process is gone.
pub fn threads(tgid: u32) -> io::Result<BTreeMap<u32, String>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{tgid}/task"))? {
        let path = entry?.path();
        let tid = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        if let (Some(tid), Ok(comm)) = (tid, fs::read_to_string(path.join("comm"))) {
            threads.insert(tid, comm.trim_end().to_owned());
        }
    }
    Ok(threads)
}

/// Whether there is such a process, be it a zombie.
#[must_use]
pub fn exists(tgid: u32) -> bool {
    fs::exists(format!("/proc/{tgid}")).unwrap_or(false)
}

/// A number from `/proc/sys`, such as `kernel/perf_event_max_sample_rate`.
///
/// # Errors
/// When there is no such file or it holds no number.
pub fn sysctl(name: &str) -> Result<i64> {
    let path = format!("/proc/sys/{name}");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    text.trim().parse().with_context(|| format!("{path} is no number: {text}"))
}

/// How many CPUs are online.
///
/// # Errors
/// When the kernel doesn't say.
pub fn cpus() -> io::Result<usize> {
    std::thread::available_parallelism().map(usize::from)
}

/// The ids of all BPF programs and maps in the kernel: `program 7`, `map 9`.
///
/// # Errors
/// When `bpftool` is missing or fails.
pub fn bpf_objects() -> Result<BTreeSet<String>> {
    let mut objects = list_bpf("prog", "program")?;
    objects.extend(list_bpf("map", "map")?);
    Ok(objects)
}

#[derive(Deserialize)]
struct BpfObject {
    id: u32,
    #[serde(default)]
    name: String,
}

fn list_bpf(what: &str, label: &str) -> Result<BTreeSet<String>> {
    let output =
        Command::new("bpftool").args(["-j", what, "show"]).output().context("running bpftool")?;
    ensure!(output.status.success(), "bpftool {what} show: {}", output.status);
    let objects: Vec<BpfObject> = serde_json::from_slice(&output.stdout)?;
    Ok(objects.iter().map(|o| format!("{label} {} {}", o.id, o.name)).collect())
}
