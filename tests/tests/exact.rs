//! Counts are exact, however short a thread lives: against the kernel's own clocks and books.

use anyhow::{Context as _, Result};
use sampler_tests::{
    Bounds, Measured, Sampler, Workload, assert_near,
    laws::assert_laws,
    measure, measure_unhidden, measure_with,
    procfs::cpus,
    protocol::{SHORT, SPAWNER, ThreadTruth},
    skip,
};

/// What the process clock leaves out of each thread's exit.
const EXIT_NS: u64 = 5_000;

/// The target has ended, so nothing of it is alive, and nothing is kept for it.
fn assert_all_ended(measured: &Measured, event: &str) -> Result<()> {
    let process = measured.process()?;
    assert!(process.exited, "the process has ended");
    assert!(process.threads.iter().all(|t| t.exited), "live threads of an ended process");
    let total = process.total(event)?;
    assert_eq!((total.live, total.residual), (0, 0), "live counts of an ended process");
    assert_eq!(measured.report.descriptors.in_use_at_end, 0);
    // The main thread, those that live as long as the window, and the short ones.
    let started = 1 + measured.ready.tids.len() as u64 + measured.truth.short_threads;
    assert_eq!(process.exited_threads(), started, "threads that ended");
    Ok(())
}

fn thread<'a>(measured: &'a Measured, name: &str) -> Result<&'a ThreadTruth> {
    measured.truth.threads.get(name).with_context(|| format!("no thread {name}"))
}

/// `exit_ns` is allowed for each exited thread, whose end the process clock leaves out.
fn churn_is_exact(sampler: &[&str], exit_ns: u64) -> Result<()> {
    let measured = measure(sampler, &["churn", "--seconds", "5"])?;
    let process = measured.process()?;
    let total = process.total("cpu-clock")?;
    let left_out = exit_ns * process.exited_threads();
    let bounds = Bounds { left_out, ..Bounds::percent(2.0) };
    assert_near("churn", total.count, measured.truth.process_ns, bounds);
    assert_eq!(total.unattributed, 0);
    assert_all_ended(&measured, "cpu-clock")?;
    assert_eq!(process.exited_threads_named(SHORT), measured.truth.short_threads);
    for name in ["busy-0", "busy-1"] {
        let truth = thread(&measured, name)?.cpu_ns;
        let count = process.named(name, "cpu-clock").count;
        assert_near(name, count, truth, Bounds { around: 1_000_000, ..Bounds::percent(1.0) });
    }
    Ok(())
}

#[test]
fn churn_at_the_default_frequency() -> Result<()> {
    churn_is_exact(&["-e", "cpu-clock"], 0)
}

/// 10 µs is the shortest period of the kernel's software clock (Linux 6.18,
/// `kernel/events/core.c`, `perf_swevent_init_hrtimer` and `perf_swevent_start_hrtimer`). The exit path
/// of each thread is then mostly interrupts, and takes several times as long.
#[test]
fn churn_at_the_shortest_period() -> Result<()> {
    churn_is_exact(&["-e", "cpu-clock", "-c", "10000"], EXIT_NS)
}

#[test]
fn nothing_but_short_threads() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock"], &["spawn-only", "--seconds", "3"])?;
    let process = measured.process()?;
    let left_out = EXIT_NS * process.exited_threads();
    let bounds = Bounds { left_out, ..Bounds::percent(2.0) };
    let total = process.total("cpu-clock")?;
    assert_near("spawn-only", total.count, measured.truth.process_ns, bounds);
    assert_all_ended(&measured, "cpu-clock")
}

#[test]
fn steady_threads_by_their_own_clocks() -> Result<()> {
    let workload = ["steady", "--threads", "4", "--seconds", "3"];
    for subcommand in ["record", "stat"] {
        let measured = measure_with(subcommand, &["-e", "cpu-clock"], &workload)?;
        for (name, truth) in &measured.truth.threads {
            let count = measured.process()?.named(name, "cpu-clock").count;
            assert_near(&format!("{subcommand} {name}"), count, truth.cpu_ns, Bounds::percent(1.0));
        }
        assert_all_ended(&measured, "cpu-clock")?;
    }
    Ok(())
}

/// Whoever runs through the end of the session is counted up to it, not up to the last switch.
#[test]
fn a_window_in_the_middle_of_running_threads() -> Result<()> {
    let mut workload = Workload::start(&["steady", "--threads", "2", "--seconds", "30"])?;
    workload.go()?;
    let sampler = Sampler::new(["stat", "-e", "cpu-clock", "--json", "-p"])?
        .args([workload.tgid_arg()])
        .spawn()?;
    sampler.wait_until_armed()?;
    let begin = workload.mark()?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    let end = workload.mark()?;
    let report = sampler.interrupt()?.success()?.report()?;
    assert_laws(&report);
    let process = report.process(workload.tgid())?;
    for (name, tid) in &workload.ready().tids {
        let listed = process.threads.iter().find(|t| t.tid == *tid);
        let listed = listed.with_context(|| format!("{name} is not listed"))?;
        assert!(!listed.exited, "{name} is alive");
        let count = listed.counts["cpu-clock"].count;
        let truth = end.threads[name].cpu_ns - begin.threads[name].cpu_ns;
        // Arming and stopping lie around the marks.
        let bounds = Bounds { left_out: 100_000_000, ..Bounds::percent(1.0) };
        assert_near(name, count, truth, bounds);
    }
    Ok(())
}

#[test]
fn one_thread_alone_by_its_tid() -> Result<()> {
    let mut workload = Workload::start(&["steady", "--threads", "2", "--seconds", "2"])?;
    let tid = workload.ready().tids["steady-0"];
    let sampler = Sampler::new(["stat", "-e", "cpu-clock", "--json", "-t", &tid.to_string()])?;
    let sampler = sampler.spawn()?;
    sampler.wait_until_armed()?;
    workload.go()?;
    let tgid = workload.tgid();
    let truth = workload.finish()?;
    let report = sampler.finish()?.success()?.report()?;
    assert_laws(&report);
    let process = report.process(tgid)?;
    let total = process.total("cpu-clock")?;
    assert_near("-t", total.count, truth.threads["steady-0"].cpu_ns, Bounds::percent(1.0));
    assert_eq!(process.named("steady-1", "cpu-clock").count, 0, "a thread not asked for");
    Ok(())
}

#[test]
fn sleep_is_not_counted() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock,task-clock"], &["sleep-mix", "--seconds", "2"])?;
    let truth = thread(&measured, "mixed")?.cpu_ns;
    for event in ["cpu-clock", "task-clock"] {
        let count = measured.process()?.named("mixed", event).count;
        assert_near(event, count, truth, Bounds { around: 1_000_000, ..Bounds::percent(2.0) });
    }
    Ok(())
}

#[test]
fn page_faults_of_fresh_pages() -> Result<()> {
    let events = "page-faults,minor-faults,major-faults,page-faults:u,page-faults:k";
    for subcommand in ["record", "stat"] {
        let workload = ["faults", "--pages", "20000"];
        let measured = measure_unhidden(subcommand, &["-e", events], &workload)?;
        let truth = thread(&measured, "toucher")?.faults;
        assert!(truth >= measured.truth.pages, "the workload touched its pages");
        let process = measured.process()?;
        // A few before and after the thread looks at its own books.
        let few = Bounds { left_out: 16, ..Bounds::default() };
        for event in ["page-faults", "minor-faults", "page-faults:u"] {
            assert_near(event, process.named("toucher", event).count, truth, few);
        }
        for event in ["major-faults", "page-faults:k"] {
            assert_near(event, process.named("toucher", event).count, 0, few);
        }
        assert_all_ended(&measured, "page-faults")?;
    }
    Ok(())
}

#[test]
fn context_switches_by_the_kernels_books() -> Result<()> {
    let measured =
        measure_unhidden("stat", &["-e", "context-switches"], &["sleep-mix", "--seconds", "2"])?;
    let truth = thread(&measured, "mixed")?.switches;
    assert!(truth > 100, "the workload slept: {truth}");
    // Its start and its end: the wait for the window's begin, for its end, and the last switch.
    let few = Bounds { left_out: 8, ..Bounds::default() };
    let count = measured.process()?.named("mixed", "context-switches").count;
    assert_near("context-switches", count, truth, few);
    Ok(())
}

#[test]
fn migrations_that_were_forced() -> Result<()> {
    if cpus()? < 2 {
        skip("migrations_that_were_forced", "there is one CPU only")?;
        return Ok(());
    }
    let measured =
        measure_unhidden("stat", &["-e", "cpu-migrations"], &["migrate", "--count", "2000"])?;
    assert_eq!(measured.truth.migrations, 2_000);
    let count = measured.process()?.named("mover", "cpu-migrations").count;
    // The scheduler may move it too, before it ties itself to a CPU.
    assert_near("cpu-migrations", count, 2_000, Bounds::around(2));
    Ok(())
}

#[test]
fn eight_events_at_once() -> Result<()> {
    let events = "cpu-clock,task-clock,page-faults,minor-faults,major-faults,context-switches,\
                  cpu-migrations,alignment-faults";
    let measured = measure(&["-e", events], &["churn", "--seconds", "2"])?;
    assert_eq!(measured.report.events.len(), 8);
    let process = measured.process()?;
    for event in ["cpu-clock", "task-clock"] {
        let total = process.total(event)?;
        assert_near(event, total.count, measured.truth.process_ns, Bounds::percent(2.0));
    }
    let spawner = thread(&measured, SPAWNER)?;
    let count = process.named(SPAWNER, "context-switches").count;
    assert_near("spawner's switches", count, spawner.switches, Bounds::around(8));
    // Each short thread is switched away from at least once: when it ends.
    let switches = process.named(SHORT, "context-switches").count;
    assert!(switches.cast_unsigned() >= measured.truth.short_threads, "{switches}");
    assert_all_ended(&measured, "context-switches")
}
