//! Whoever the target starts or becomes is followed: threads, children, other programs.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use sampler_tests::{
    Bounds, Measured, Sampler, Workload, assert_near,
    laws::assert_laws,
    measure, measure_with, perf, procfs,
    protocol::{EXECED, LONG, Message, SHORT, Truth},
    report::Report,
    workload_program,
};

/// A process forks, reports, and takes its memory down outside of what its own clock told.
const AROUND_A_PROCESS: Bounds = Bounds { percent: 2.0, around: 1_000_000, left_out: 4_000_000 };

/// Each process of the tree in its own right, and nobody else.
fn assert_tree(report: &Report, truth: &Truth) -> Result<()> {
    let there: BTreeSet<u32> = report.processes.iter().map(|p| p.tgid).collect();
    let started: BTreeSet<u32> = truth.processes.iter().map(|p| p.tgid).collect();
    assert_eq!(there, started, "the processes");
    for process in &truth.processes {
        let counted = report.process(process.tgid)?;
        let total = counted.total("cpu-clock")?;
        let who = format!("process {}", process.tgid);
        assert_near(&who, total.count, process.cpu_ns, AROUND_A_PROCESS);
        assert!(counted.exited, "{who} has ended");
        assert_eq!(counted.exited_threads(), 1, "{who} has one thread");
    }
    assert_eq!(report.descriptors.in_use_at_end, 0);
    Ok(())
}

#[test]
fn a_fork_tree() -> Result<()> {
    let tree = ["fork-tree", "--depth", "3", "--width", "2", "--millis", "100"];
    for subcommand in ["record", "stat"] {
        let measured = measure_with(subcommand, &["-e", "cpu-clock"], &tree)?;
        assert_eq!(measured.truth.processes.len(), 15);
        assert_tree(&measured.report, &measured.truth)?;
    }
    Ok(())
}

#[test]
fn a_command_that_forks() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let finished = Sampler::new(["record", "--json", "-e", "cpu-clock", "--"])?
        .args([workload_program()?])
        .args(["--now", "fork-tree", "--millis", "100"])
        .within(folder.path())
        .run()?
        .success()?;
    assert!(Report::find_all(&finished.stdout)?.is_empty(), "standard output is the command's");
    let report = finished.report()?;
    assert_laws(&report);
    let truth = finished.stdout.lines().find_map(|line| match serde_json::from_str(line) {
        Ok(Message::Truth(truth)) => Some(truth),
        _ => None,
    });
    let mut truth = truth.with_context(|| format!("no truth in {:?}", finished.stdout))?;
    // The root starts up before its window, the others don't.
    let root = truth.processes.pop().context("no root")?;
    let counted = report.process(root.tgid)?.total("cpu-clock")?;
    let bounds = Bounds { left_out: 20_000_000, ..AROUND_A_PROCESS };
    assert_near("the root", counted.count, root.cpu_ns, bounds);
    let others: Vec<_> = report.processes.iter().filter(|p| p.tgid != root.tgid).collect();
    assert_eq!(others.len(), truth.processes.len());
    for process in &truth.processes {
        let total = report.process(process.tgid)?.total("cpu-clock")?;
        assert_near("a child", total.count, process.cpu_ns, AROUND_A_PROCESS);
    }
    Ok(())
}

#[test]
fn no_inherit_follows_no_child() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock", "--no-inherit"], &["fork-tree"])?;
    assert_eq!(measured.report.processes.len(), 1);
    let total = measured.process()?.total("cpu-clock")?;
    assert_near("the root", total.count, measured.truth.process_ns, AROUND_A_PROCESS);
    Ok(())
}

#[test]
fn no_inherit_follows_no_new_thread() -> Result<()> {
    let sampler = ["-e", "cpu-clock", "--no-inherit"];
    let measured = measure(&sampler, &["churn", "--seconds", "2"])?;
    let process = measured.process()?;
    assert_eq!(process.exited_threads_named(SHORT), 0);
    assert_eq!(process.named(SHORT, "cpu-clock").count, 0);
    for name in ["busy-0", "busy-1"] {
        let truth = measured.truth.threads[name].cpu_ns;
        assert_near(name, process.named(name, "cpu-clock").count, truth, Bounds::percent(1.0));
    }
    Ok(())
}

fn assert_exec_followed(measured: &Measured) -> Result<()> {
    assert_eq!(measured.report.processes.len(), 1, "an exec makes no process");
    let process = measured.process()?;
    assert_eq!(process.comm, EXECED, "its new name");
    assert!(process.exited);
    let total = process.total("cpu-clock")?;
    let bounds = Bounds { left_out: 5_000_000, ..Bounds::percent(2.0) };
    assert_near("before and after", total.count, measured.truth.process_ns, bounds);
    assert_eq!(measured.report.descriptors.in_use_at_end, 0);
    Ok(())
}

#[test]
fn an_exec_by_the_main_thread() -> Result<()> {
    assert_exec_followed(&measure(&["-e", "cpu-clock"], &["exec-chain"])?)
}

/// The thread takes over the process's id, and all others end.
#[test]
fn an_exec_by_another_thread() -> Result<()> {
    assert_exec_followed(&measure(&["-e", "cpu-clock"], &["exec-chain", "--from-thread"])?)
}

fn main_thread_ends_first(workload: &[&str]) -> Result<()> {
    let measured = measure(&["-e", "cpu-clock"], workload)?;
    let process = measured.process()?;
    let total = process.total("cpu-clock")?;
    assert_near("the process", total.count, measured.truth.process_ns, Bounds::percent(2.0));
    for (name, truth) in &measured.truth.threads {
        let count = process.named(name, "cpu-clock").count;
        assert_near(name, count, truth.cpu_ns, Bounds::percent(1.0));
    }
    assert!(process.exited);
    assert_eq!(measured.report.descriptors.in_use_at_end, 0);
    Ok(())
}

#[test]
fn the_main_thread_ends_before_the_others() -> Result<()> {
    main_thread_ends_first(&["main-exits-first"])
}

#[test]
fn the_main_thread_ended_before_the_attach() -> Result<()> {
    main_thread_ends_first(&["main-exits-first", "--early"])
}

#[test]
fn two_processes_by_a_list() -> Result<()> {
    let mut first = Workload::start(&["steady", "--threads", "1", "--seconds", "2"])?;
    let mut second = Workload::start(&["sleep-mix", "--seconds", "2"])?;
    let list = format!("{},{}", first.tgid(), second.tgid());
    let sampler = Sampler::new(["stat", "--json", "-e", "cpu-clock", "-p", &list])?.spawn()?;
    sampler.wait_until_armed()?;
    first.go()?;
    second.go()?;
    let tgids = [first.tgid(), second.tgid()];
    let truths = [first.finish()?, second.finish()?];
    let report = sampler.finish()?.success()?.report()?;
    assert_laws(&report);
    for (tgid, truth) in tgids.into_iter().zip(truths) {
        let total = report.process(tgid)?.total("cpu-clock")?;
        let bounds = Bounds { around: 2_000_000, ..Bounds::percent(2.0) };
        assert_near("a process", total.count, truth.process_ns, bounds);
    }
    Ok(())
}

#[test]
fn everything_with_all_cpus() -> Result<()> {
    let mut workload = Workload::start(&["churn", "--seconds", "3"])?;
    let sampler = Sampler::new(["stat", "--json", "-e", "cpu-clock", "-a"])?.spawn()?;
    sampler.wait_until_armed()?;
    workload.go()?;
    let tgid = workload.tgid();
    let truth = workload.finish()?;
    let report = sampler.interrupt()?.success()?.report()?;
    assert_laws(&report);
    let process = report.process(tgid)?;
    let total = process.total("cpu-clock")?;
    assert_near("the workload among all", total.count, truth.process_ns, Bounds::percent(2.0));
    assert_eq!(process.exited_threads_named(SHORT), truth.short_threads);
    Ok(())
}

/// Whoever is alive at the end is in the report, whether started before, during or after the attach,
/// and whether it ever ran meanwhile.
#[test]
fn attached_again_and_again_in_a_storm() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut workload = Workload::start(&["storm", "--seconds", "120"])?;
    workload.go()?;
    for round in 0..20 {
        let subcommand = if round % 2 == 0 { "record" } else { "stat" };
        let sampler = Sampler::new([subcommand, "--json", "-e", "cpu-clock", "-p"])?
            .args([workload.tgid_arg()])
            .within(folder.path())
            .spawn()?;
        sampler.wait_until_armed()?;
        let alive = procfs::threads(workload.tgid())?;
        let report = sampler.interrupt()?.success()?.report()?;
        assert_laws(&report);
        let process = report.process(workload.tgid())?;
        let live = process.threads.iter().filter(|t| !t.exited);
        let tids: BTreeSet<u32> = live.clone().map(|t| t.tid).collect();
        assert_eq!(tids.len(), live.clone().count(), "round {round}: a thread is there twice");
        for (tid, comm) in alive.iter().filter(|(_, comm)| comm.starts_with(LONG)) {
            let thread = live.clone().find(|t| t.tid == *tid);
            let thread =
                thread.with_context(|| format!("round {round}: {comm} ({tid}) is missing"))?;
            assert_eq!(&thread.comm, comm, "round {round}: the name of {tid}");
        }
    }
    workload.kill()
}

/// The thread goes on under the process's id; to measure it alone is to follow it there.
#[test]
fn an_exec_by_a_thread_that_is_measured_alone() -> Result<()> {
    let mut workload = Workload::start(&["exec-chain", "--from-thread"])?;
    let ready = workload.ready().clone();
    let execer = ready.tids["execer"].to_string();
    let folder = tempfile::tempdir()?;
    let sampler = Sampler::new(["record", "--json", "-e", "cpu-clock", "-t", &execer])?
        .within(folder.path())
        .spawn()?;
    sampler.wait_until_armed()?;
    workload.go()?;
    workload.finish()?;
    let report = sampler.finish()?.success()?.report()?;
    assert_laws(&report);
    let count = report.process(ready.tgid)?.total("cpu-clock")?.count;
    // 300 ms before the exec and 300 ms after it, and nothing of the thread beside it.
    assert!((550_000_000..700_000_000).contains(&count), "{count} ns");
    assert_eq!(report.descriptors.in_use_at_end, 0);
    Ok(())
}

/// A child's records can be read before those of the fork that made it, from another CPU's ring.
#[test]
fn each_process_of_a_tree_has_a_name() -> Result<()> {
    for _ in 0..5 {
        let measured = measure(&["-e", "cpu-clock"], &["fork-tree"])?;
        let recording = measured.recording.to_string_lossy();
        let text = perf::run_clean(["script", "-i", &recording, "-G", "-F", "comm,tid"])?;
        let unnamed = text.lines().find(|line| line.trim_start().starts_with(':'));
        assert_eq!(unnamed, None, "a thread that is known by its number alone");
    }
    Ok(())
}
