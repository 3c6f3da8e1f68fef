//! Cost is bounded: file descriptors by CPUs and events, descriptors by `--max-threads`.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use sampler_tests::{
    Bounds, Sampler, Workload, assert_near,
    laws::assert_laws,
    measure,
    procfs::{self, cpus, fd_count},
    skip,
};

/// Everything that doesn't grow: maps, programs, rings, the recording, the runtime's own.
const CONSTANT_FDS: usize = 64;
const IDLE_THREADS: u64 = 10_000;

/// Prints what is measured and not asserted.
fn report_attach(what: &str, took: Duration) {
    #[expect(clippy::print_stderr, reason = "reported, not asserted")]
    {
        eprintln!("REPORTED: attaching to {what} took {} ms", took.as_millis());
    }
}

#[test]
fn ten_thousand_threads_take_no_more_descriptors_than_one() -> Result<()> {
    if procfs::sysctl("kernel/threads-max")?.cast_unsigned() < IDLE_THREADS * 2 {
        skip("ten_thousand_threads", "kernel.threads-max is too low")?;
        return Ok(());
    }
    let count = IDLE_THREADS.to_string();
    let workload = Workload::start(&["idle-threads", "--count", &count, "--seconds", "60"])?;
    let folder = tempfile::tempdir()?;
    let events = ["cpu-clock", "page-faults", "context-switches"];
    let sampler = Sampler::new(["record", "--json", "-e", &events.join(","), "-p"])?
        .args([workload.tgid_arg()])
        .within(folder.path())
        .spawn()?;
    report_attach("10,000 threads", sampler.wait_until_armed()?);

    let open = fd_count(sampler.tgid())?;
    let most = cpus()? * events.len() + CONSTANT_FDS;
    assert!(open <= most, "{open} file descriptors, {most} allowed");

    let alive: BTreeSet<u32> = procfs::threads(workload.tgid())?.into_keys().collect();
    let report = sampler.interrupt()?.success()?.report()?;
    assert_laws(&report);
    let process = report.process(workload.tgid())?;
    let listed: BTreeSet<u32> = process.threads.iter().map(|t| t.tid).collect();
    assert_eq!(listed.len(), process.threads.len(), "a thread is listed twice");
    assert_eq!(listed, alive, "the threads of /proc");
    assert_eq!(alive.len() as u64, IDLE_THREADS + 1);
    // Threads that do not run need no descriptor.
    assert!(report.descriptors.peak < IDLE_THREADS);
    Ok(())
}

#[test]
fn a_full_free_cache_loses_no_count() -> Result<()> {
    let sampler = ["-e", "cpu-clock", "--max-threads", "64"];
    let measured = measure(&sampler, &["busy-many", "--count", "1000", "--seconds", "3"])?;
    let total = measured.process()?.total("cpu-clock")?;
    // The exits of a thousand threads are left out by the oracle.
    let bounds = Bounds { left_out: 1_000 * 5_000, ..Bounds::percent(2.0) };
    assert_near("all threads", total.count, measured.truth.process_ns, bounds);
    assert!(total.unattributed > 0, "{total:?}");
    assert!(measured.report.loss("descriptors_exhausted") > 0);
    let descriptors = measured.report.descriptors;
    assert_eq!(descriptors.capacity, 64);
    assert!(descriptors.peak <= 64);
    assert_eq!(descriptors.in_use_at_end, 0);
    let told = measured.finished.stderr.to_lowercase();
    assert!(told.contains("max-threads"), "the way out is named: {told}");
    Ok(())
}

/// A free cache that is full for a while serves again afterwards.
#[test]
fn a_small_free_cache_serves_any_number_of_short_threads() -> Result<()> {
    let sampler = ["-e", "cpu-clock", "--max-threads", "64"];
    let measured = measure(&sampler, &["churn", "--seconds", "2"])?;
    let process = measured.process()?;
    let total = process.total("cpu-clock")?;
    assert_near("churn", total.count, measured.truth.process_ns, Bounds::percent(2.0));
    assert_eq!(total.unattributed, 0, "at no time are there 64 threads");
    assert_eq!(measured.report.loss("descriptors_exhausted"), 0);
    assert!(measured.truth.short_threads > 64);
    assert!(process.exited_threads() > measured.truth.short_threads);
    assert!(measured.report.descriptors.peak <= 64);
    Ok(())
}
