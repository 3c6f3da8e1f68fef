//! From the start of a session to whatever ends it: the recording is readable, and nothing of the
//! session is left behind.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use sampler_tests::{
    Finished, Running, Sampler, Workload, laws::assert_laws, perf, procfs, workload_program,
};

/// A recording under way, of a workload that is at work.
struct Session {
    folder: tempfile::TempDir,
    workload: Workload,
    sampler: Running,
}

impl Session {
    fn start(args: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut workload = Workload::start(&["churn", "--seconds", "60"])?;
        let sampler = Sampler::new(["record", "--json", "-e", "cpu-clock", "-F", "4000", "-p"])?
            .args([workload.tgid_arg()])
            .args(args)
            .within(folder.path())
            .spawn()?;
        sampler.wait_until_armed()?;
        workload.go()?;
        Ok(Self { folder, workload, sampler })
    }

    fn recording(&self) -> PathBuf {
        self.folder.path().join("sampler.data")
    }

    /// Lets it record until something has come to the disk, or a while is over.
    fn record_a_while(&self) -> Result<()> {
        for _ in 0..40 {
            thread::sleep(Duration::from_millis(100));
            if fs::metadata(self.recording())?.len() > 256 * 1024 {
                break;
            }
        }
        Ok(())
    }
}

/// Records a command to its end.
fn record_true(folder: &Path, args: &[&str]) -> Result<Finished> {
    Sampler::new(["record", "-e", "cpu-clock"])?
        .args(args)
        .args(["--", "true"])
        .within(folder)
        .run()?
        .success()
}

#[test]
fn the_last_recording_is_kept_as_old() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (new, old) = (folder.path().join("sampler.data"), folder.path().join("sampler.data.old"));
    fs::write(&new, "the first")?;
    record_true(folder.path(), &[])?;
    assert_eq!(fs::read_to_string(&old)?, "the first");
    perf::samples(&new)?;

    let second = fs::read(&new)?;
    record_true(folder.path(), &[])?;
    assert_eq!(fs::read(&old)?, second, "the second has taken the place of the first");
    Ok(())
}

#[test]
fn a_recording_is_for_its_owner_only() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let wrapper = ["sh", "-c", "umask 0; exec \"$@\"", "sh"];
    let record = ["record", "-e", "cpu-clock", "--", "true"];
    Sampler::wrapped(&wrapper, &record)?.within(folder.path()).run()?.success()?;
    let mode = fs::metadata(folder.path().join("sampler.data"))?.permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "{mode:o}");
    Ok(())
}

#[test]
fn an_interrupt_ends_it_and_the_target_goes_on() -> Result<()> {
    for signal in [Signal::INT, Signal::TERM] {
        let session = Session::start(&[])?;
        thread::sleep(Duration::from_millis(500));
        session.sampler.signal(signal)?;
        let recording = session.recording();
        let Session { folder, mut workload, sampler } = session;
        let report = sampler.finish()?.success()?.report()?;
        assert_laws(&report);
        let process = report.process(workload.tgid())?;
        assert!(!process.exited);
        let weight: i64 = perf::samples(&recording)?.iter().map(|s| s.period).sum();
        assert_eq!(weight, process.total("cpu-clock")?.sampled);
        workload.mark().context("the target was hurt")?;
        drop(folder);
    }
    Ok(())
}

#[test]
fn a_second_interrupt_leaves_a_readable_recording() -> Result<()> {
    let session = Session::start(&[])?;
    session.record_a_while()?;
    session.sampler.signal(Signal::INT)?;
    session.sampler.signal(Signal::INT)?;
    let recording = session.recording();
    let finished = session.sampler.finish()?;
    assert!(!finished.stderr.contains("panicked"), "{finished:?}");
    assert!(!perf::samples_of_a_part(&recording)?.is_empty(), "no samples");
    Ok(())
}

#[test]
fn a_killed_session_leaves_a_readable_recording_and_nothing_else() -> Result<()> {
    let before = procfs::bpf_objects()?;
    let session = Session::start(&[])?;
    let ours = loaded_since(&before)?;
    session.record_a_while()?;
    session.sampler.signal(Signal::KILL)?;
    let recording = session.recording();
    session.sampler.finish()?;
    let samples = perf::samples_of_a_part(&recording)?;
    assert!(!samples.is_empty(), "no samples");
    assert!(samples.iter().all(|s| s.tgid == session.workload.tgid()), "{samples:?}");
    assert_gone(&ours)
}

#[test]
fn nothing_is_left_in_the_kernel() -> Result<()> {
    let before = procfs::bpf_objects()?;
    let session = Session::start(&[])?;
    let ours = loaded_since(&before)?;
    session.sampler.interrupt()?.success()?;
    assert_gone(&ours)
}

fn loaded_since(before: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let ours: BTreeSet<_> = procfs::bpf_objects()?.difference(before).cloned().collect();
    ensure!(ours.iter().any(|object| object.starts_with("program")), "no programs: {ours:?}");
    Ok(ours)
}

/// Programs and maps are freed a grace period after their last user is gone, so it takes a moment.
fn assert_gone(ours: &BTreeSet<String>) -> Result<()> {
    let mut left = Vec::new();
    for _ in 0..50 {
        left = procfs::bpf_objects()?.intersection(ours).cloned().collect();
        if left.is_empty() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("left in the kernel: {left:?}")
}

/// A small file system of its own, seen by nobody else, that ends with the session.
#[test]
fn a_full_disk_is_told_and_keeps_what_there_was() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (small, kept) = (folder.path().join("small"), folder.path().join("kept.data"));
    fs::create_dir(&small)?;
    let script = "mount -t tmpfs -o size=256k none \"$1\" && cd \"$1\" || exit 99; \
                  kept=$2; shift 2; \"$@\"; status=$?; cp sampler.data \"$kept\"; exit $status";
    let small = small.to_string_lossy();
    let kept_arg = kept.to_string_lossy();
    let wrapper = ["unshare", "--mount", "sh", "-c", script, "sh", &small, &kept_arg];
    let mut workload = Workload::start(&["churn", "--seconds", "20"])?;
    let tgid = workload.tgid_arg();
    let args = ["record", "-e", "cpu-clock", "-c", "10000", "-p", &tgid];
    let sampler = Sampler::wrapped(&wrapper, &args)?.spawn()?;
    sampler.wait_until_armed()?;
    workload.go()?;
    let finished = sampler.finish()?;
    assert_eq!(finished.code(), 1, "{finished:?}");
    let told = finished.stderr.to_lowercase();
    assert!(told.contains("no space left") && told.contains("sampler.data"), "{told}");
    assert!(!told.contains("panicked"), "{told}");
    assert!(!perf::samples_of_a_part(&kept)?.is_empty(), "no samples");
    workload.mark().context("the target was hurt")?;
    Ok(())
}

#[test]
fn the_default_event_is_the_best_that_counts_here() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let finished = Sampler::new(["record", "--json", "--"])?
        .args([workload_program()?])
        .args(["command-exit"])
        .within(folder.path())
        .run()?
        .success()?;
    let report = finished.report()?;
    assert_laws(&report);
    let [event] = report.events.as_slice() else {
        anyhow::bail!("one event, not {:?}", report.events)
    };
    assert_eq!(event.sample_frequency_hz, Some(999));
    let told = finished.stderr.lines().filter(|l| l.contains("cycles")).count();
    if perf::counts_here("cycles")? {
        assert_eq!((event.name.as_str(), told), ("cycles", 0), "{}", finished.stderr);
    } else {
        assert_eq!((event.name.as_str(), told), ("cpu-clock", 1), "{}", finished.stderr);
    }
    Ok(())
}

#[test]
fn quiet_says_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let finished = record_true(folder.path(), &["-q"])?;
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
    ensure!(folder.path().join("sampler.data").exists(), "there is no recording");
    Ok(())
}

/// All that is told to people at the end goes to stderr, with each kind of thread in it.
#[test]
fn the_table_at_the_end_names_the_threads() -> Result<()> {
    let mut workload = Workload::start(&["churn", "--seconds", "2"])?;
    let folder = tempfile::tempdir()?;
    let sampler = Sampler::new(["record", "-e", "cpu-clock", "-p"])?
        .args([workload.tgid_arg()])
        .within(folder.path())
        .spawn()?;
    sampler.wait_until_armed()?;
    workload.go()?;
    let truth = workload.finish()?;
    let finished = sampler.finish()?.success()?;
    assert_eq!(finished.stdout, "");
    for name in ["busy-0", "busy-1", "spawner", "short"] {
        assert!(finished.stderr.contains(name), "no {name} in {}", finished.stderr);
    }
    // The number of short threads, whatever separates its thousands.
    let digits: String = finished.stderr.chars().filter(|c| !",_' ".contains(*c)).collect();
    assert!(digits.contains(&truth.short_threads.to_string()), "{}", finished.stderr);
    Ok(())
}
