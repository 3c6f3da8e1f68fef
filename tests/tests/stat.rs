//! `sampler stat`: the same exact counts, without a sample.

use std::time::Duration;

use anyhow::{Context as _, Result};
use sampler_tests::{
    Bounds, Sampler, Workload, assert_near,
    laws::assert_laws,
    measure_with, perf,
    protocol::{Message, SHORT, Truth},
    report::Report,
    workload_program,
};

fn truth_in(stdout: &str) -> Result<Truth> {
    let truth = stdout.lines().find_map(|line| match serde_json::from_str(line) {
        Ok(Message::Truth(truth)) => Some(truth),
        _ => None,
    });
    truth.with_context(|| format!("no truth in {stdout:?}"))
}

#[test]
fn churn_is_counted_and_not_sampled() -> Result<()> {
    let measured =
        measure_with("stat", &["-e", "cpu-clock,page-faults"], &["churn", "--seconds", "3"])?;
    let process = measured.process()?;
    let total = process.total("cpu-clock")?;
    assert_near("churn", total.count, measured.truth.process_ns, Bounds::percent(2.0));
    assert_eq!(process.exited_threads_named(SHORT), measured.truth.short_threads);
    assert_eq!((total.sampled, process.samples()), (0, 0));
    for event in &measured.report.events {
        assert_eq!((event.sample_period, event.sample_frequency_hz), (None, None));
    }
    Ok(())
}

#[test]
fn each_exited_thread_when_asked_for() -> Result<()> {
    let measured =
        measure_with("stat", &["-e", "cpu-clock", "--all-threads"], &["churn", "--seconds", "1"])?;
    let process = measured.process()?;
    let short = process.threads.iter().filter(|t| t.comm == SHORT);
    assert_eq!(short.clone().count() as u64, measured.truth.short_threads);
    assert!(process.exited_groups.is_empty(), "nothing is folded");
    // 50 µs each, by their own clocks; then they exit.
    let least = short.clone().filter_map(|t| t.counts.get("cpu-clock")).map(|c| c.count).min();
    assert!(least.context("no short thread")? >= 50_000, "{least:?}");
    assert!(short.clone().all(|t| t.exited && t.start_ns > 0));
    Ok(())
}

#[test]
fn intervals_add_up_to_the_whole() -> Result<()> {
    let mut workload = Workload::start(&["churn", "--seconds", "3"])?;
    let tgid = workload.tgid();
    let sampler = Sampler::new(["stat", "--json", "-e", "cpu-clock", "-I", "200", "-p"])?
        .args([workload.tgid_arg()])
        .spawn()?;
    sampler.wait_until_armed()?;
    workload.go()?;
    let truth = workload.finish()?;
    let finished = sampler.finish()?.success()?;
    let lines = finished.stdout.lines().filter(|line| line.starts_with('{')).count();
    let reports = finished.reports()?;
    assert_eq!(reports.len(), lines, "one object a line");
    assert!(reports.len() > 1, "more than one interval");

    let (mut count, mut ended, mut covered_ns) = (0, 0, 0);
    for report in &reports {
        covered_ns += report.duration_ns;
        if let Ok(process) = report.process(tgid) {
            count += process.total("cpu-clock")?.count;
            ended += process.exited_threads_named(SHORT);
        }
    }
    assert_near("all intervals", count, truth.process_ns, Bounds::percent(2.0));
    assert_eq!(ended, truth.short_threads, "each exit is in one interval");
    assert!(covered_ns >= truth.wall_ns, "the intervals leave no gap");
    Ok(())
}

#[test]
fn a_table_for_programs() -> Result<()> {
    let mut workload = Workload::start(&["steady", "--threads", "2", "--seconds", "2"])?;
    let tids = workload.ready().tids.clone();
    let folder = tempfile::tempdir()?;
    let table = folder.path().join("counts.csv");
    let sampler = Sampler::new(["stat", "--csv", "--all-threads", "-e", "cpu-clock", "-p"])?
        .args([workload.tgid_arg()])
        .args(["-o".as_ref(), table.as_os_str()])
        .spawn()?;
    sampler.wait_until_armed()?;
    workload.go()?;
    let truth = workload.finish()?;
    sampler.finish()?.success()?;

    let text = std::fs::read_to_string(&table)?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let (head, rows) = rows.split_first().context("an empty table")?;
    assert!(head.contains(&"tid") && head.contains(&"comm"), "{head:?}");
    assert!(rows.iter().all(|row| row.len() == head.len()), "a row of another width: {text}");
    for (name, tid) in tids {
        let tid = tid.to_string();
        let row = rows.iter().find(|r| r.contains(&tid.as_str()) && r.contains(&name.as_str()));
        let row = row.with_context(|| format!("no row for {name} ({tid}): {text}"))?;
        let cpu_ns = truth.threads[&name].cpu_ns;
        let near =
            |field: &&str| field.parse::<u64>().is_ok_and(|n| n.abs_diff(cpu_ns) <= cpu_ns / 100);
        assert!(row.iter().any(near), "{name} used {cpu_ns} ns: {row:?}");
    }
    Ok(())
}

#[test]
fn a_command_keeps_its_output_and_its_exit_status() -> Result<()> {
    for subcommand in ["stat", "record"] {
        let folder = tempfile::tempdir()?;
        let finished = Sampler::new([subcommand, "-e", "cpu-clock", "--"])?
            .args([workload_program()?])
            .args(["command-exit", "--status", "37"])
            .within(folder.path())
            .run()?;
        assert_eq!(finished.code(), 37, "{subcommand}: {finished:?}");
        assert_eq!(finished.stdout, "the command's own output\n", "{subcommand}");
        assert!(finished.stderr.contains("cpu-clock"), "{subcommand}: {}", finished.stderr);
        assert!(finished.stderr.contains("workload"), "{subcommand}: {}", finished.stderr);
    }
    Ok(())
}

#[test]
fn a_command_is_counted_from_its_exec_on() -> Result<()> {
    let program = workload_program()?;
    let command = ["--now", "churn", "--seconds", "2"];
    let finished = Sampler::new(["stat", "--json", "-e", "cpu-clock", "--"])?
        .args([&program])
        .args(command)
        .run()?
        .success()?;
    let truth = truth_in(&finished.stdout)?;
    assert!(Report::find_all(&finished.stdout)?.is_empty(), "standard output is the command's");
    let report = finished.report()?;
    assert_laws(&report);
    let [process] = report.processes.as_slice() else {
        anyhow::bail!("one process, not {:?}", report.processes)
    };
    assert_eq!(process.comm, "workload");
    assert_eq!(process.exited_threads_named(SHORT), truth.short_threads);
    // From the exec to the window: the dynamic loader and the start of the threads.
    let bounds = Bounds { left_out: 30_000_000, ..Bounds::percent(2.0) };
    assert_near("churn", process.total("cpu-clock")?.count, truth.process_ns, bounds);
    Ok(())
}

/// `perf stat` counts from the exec on, too: page faults are the same on every run, or nearly so.
#[test]
fn a_command_faults_as_often_as_perf_stat_says() -> Result<()> {
    let program = workload_program()?;
    let command = ["--now", "faults", "--pages", "5000"];
    let args = ["stat", "-x,", "-e", "page-faults"].map(Into::into);
    let args = args.into_iter().chain([program.clone().into_os_string()]);
    let output = perf::run(args.chain(command.map(Into::into)))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let truth = text.split(',').next().unwrap_or_default().parse::<u64>();
    let truth = truth.with_context(|| format!("perf stat says {text:?}"))?;

    let finished = Sampler::new(["stat", "--json", "-e", "page-faults", "--"])?
        .args([&program])
        .args(command)
        .run()?
        .success()?;
    let report = finished.report()?;
    let total = report.processes.first().context("no process")?.total("page-faults")?;
    assert_near("page-faults", total.count, truth, Bounds::around(16));
    Ok(())
}

#[test]
fn a_duration_ends_it_and_the_target_goes_on() -> Result<()> {
    let mut workload = Workload::start(&["steady", "--seconds", "3"])?;
    workload.go()?;
    let report = Sampler::new(["stat", "--json", "-e", "cpu-clock", "--duration", "1", "-p"])?
        .args([workload.tgid_arg()])
        .run()?
        .success()?
        .report()?;
    assert_laws(&report);
    let process = report.process(workload.tgid())?;
    assert!(!process.exited);
    let total = process.total("cpu-clock")?;
    assert!(total.count > 0 && total.enabled_ns > 0, "{total:?}");
    assert!(report.duration_ns >= Duration::from_secs(1).as_nanos().try_into()?);
    workload.finish()?;
    Ok(())
}
