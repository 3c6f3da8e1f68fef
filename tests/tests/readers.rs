//! Other programs read the recording, without a complaint, and find in it what our own report says.

use std::{collections::BTreeMap, fs::File, io::BufReader, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use linux_perf_data::{
    PerfFileReader, PerfFileRecord,
    linux_perf_event_reader::{EventRecord, RecordType},
};
use sampler_tests::{Measured, measure, perf, protocol::CHAIN, skip, workload_program};

const CHURN: [&str; 3] = ["churn", "--seconds", "2"];

/// By process and event: how many samples, and what they stand for.
type Sums = BTreeMap<(u32, String), (i64, i64)>;

fn sums_of_report(measured: &Measured) -> Sums {
    let mut sums = Sums::new();
    for process in &measured.report.processes {
        for (event, total) in process.counts.iter().filter(|(_, total)| total.sampled > 0) {
            sums.insert((process.tgid, event.clone()), (process.samples(), total.sampled));
        }
    }
    sums
}

#[test]
fn perf_script_agrees_on_samples_and_weights() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock", "--all-threads"], &CHURN)?;
    let samples = perf::samples(&measured.recording)?;
    let mut sums = Sums::new();
    let mut by_thread: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    for sample in samples {
        let sum = sums.entry((sample.tgid, sample.event)).or_default();
        *sum = (sum.0 + 1, sum.1 + sample.period);
        let thread = by_thread.entry(sample.tid).or_default();
        *thread = (thread.0 + 1, thread.1 + sample.period);
    }
    assert!(!sums.is_empty(), "there are samples");
    assert_eq!(sums, sums_of_report(&measured), "samples and weights by process and event");

    let mut ours: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    for thread in measured.process()?.threads.iter().filter(|t| t.samples > 0) {
        // A tid can come back: perf script can't tell its threads apart.
        let sum = ours.entry(thread.tid).or_default();
        *sum = (sum.0 + thread.samples, sum.1 + thread.counts["cpu-clock"].sampled);
    }
    assert_eq!(by_thread, ours, "samples and weights by thread");
    Ok(())
}

#[test]
fn perf_script_agrees_for_a_tree_of_processes_and_two_events() -> Result<()> {
    let sampler = ["-e", "cpu-clock,page-faults", "-F", "4000"];
    let measured = measure(&sampler, &["fork-tree", "--millis", "100"])?;
    let mut weights: BTreeMap<(u32, String), i64> = BTreeMap::new();
    let mut samples: BTreeMap<u32, i64> = BTreeMap::new();
    for sample in perf::samples(&measured.recording)? {
        *weights.entry((sample.tgid, sample.event)).or_default() += sample.period;
        *samples.entry(sample.tgid).or_default() += 1;
    }
    for process in &measured.report.processes {
        assert_eq!(samples.get(&process.tgid).copied().unwrap_or(0), process.samples());
        for (event, total) in &process.counts {
            let weight = weights.get(&(process.tgid, event.clone())).copied().unwrap_or(0);
            assert_eq!(weight, total.sampled, "{event} of {}", process.tgid);
        }
    }
    Ok(())
}

#[test]
fn perf_report_agrees_on_the_count_of_each_thread() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock,page-faults", "--all-threads"], &CHURN)?;
    let process = measured.process()?;
    let mut ours = BTreeMap::new();
    for thread in &process.threads {
        for (event, count) in &thread.counts {
            *ours.entry((process.tgid, thread.tid, event.clone())).or_insert(0) += count.count;
        }
    }
    assert!(ours.len() as u64 > measured.truth.short_threads, "each short thread is there");
    // perf shows no row for a thread of which all counts are 0; nor does it matter who shows a 0.
    let not_zero = |counts: BTreeMap<(u32, u32, String), i64>| -> BTreeMap<_, _> {
        counts.into_iter().filter(|(_, count)| *count != 0).collect()
    };
    assert_eq!(not_zero(perf::read_counts(&measured.recording)?), not_zero(ours));
    Ok(())
}

#[test]
fn perf_report_agrees_on_events_and_samples() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock"], &CHURN)?;
    let recording = measured.recording.to_string_lossy();
    // `pid` is the thread here; perf before 6.3 has no key `tid`.
    let sort = ["report", "-i", &recording, "--stdio", "--sort", "pid,comm", "--show-nr-samples"];
    let text = perf::run_clean(sort)?;
    for name in ["busy-0", "busy-1"] {
        let tid = measured.ready.tids[name].to_string();
        let row = text.lines().find(|l| l.contains(&tid) && l.contains(name));
        ensure!(row.is_some(), "no row for {name} ({tid}) in {text}");
    }
    let counted = text.lines().find_map(|l| l.strip_prefix("# Event count (approx.): "));
    let counted: i64 = counted.context("no event count")?.trim().parse()?;
    assert_eq!(counted, measured.process()?.total("cpu-clock")?.sampled);
    let lost = text.lines().find_map(|l| l.strip_prefix("# Total Lost Samples: "));
    let lost: u64 = lost.context("no lost samples")?.trim().parse()?;
    assert_eq!(lost, measured.report.loss("samples"));
    perf::run_clean(["report", "-i", &recording, "--stdio"])?;
    perf::run_clean(["script", "-i", &recording])?;
    Ok(())
}

#[test]
fn perf_finds_the_header_of_this_machine() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock"], &["steady", "--seconds", "1"])?;
    let recording = measured.recording.to_string_lossy();
    let header = perf::run_clean(["report", "-i", &recording, "--header-only"])?;
    let uname = rustix::system::uname();
    let told = |what: &str, value: &str| {
        let row = format!("# {what} : {value}");
        ensure!(header.lines().any(|l| l.starts_with(&row)), "no {row:?} in {header}");
        Ok(())
    };
    told("hostname", &uname.nodename().to_string_lossy())?;
    told("os release", &uname.release().to_string_lossy())?;
    told("arch", &uname.machine().to_string_lossy())?;
    told("nrcpus online", &sampler_tests::procfs::cpus()?.to_string())?;
    told("event", "name = cpu-clock")?;
    ensure!(header.contains("# cmdline : "), "no command line in {header}");
    Ok(())
}

#[test]
fn perf_lists_the_build_id_of_the_target() -> Result<()> {
    let program = workload_program()?;
    let Some(wanted) = build_id_of(&program)? else {
        skip("perf_lists_the_build_id_of_the_target", "the workload is linked without one")?;
        return Ok(());
    };
    let measured = measure(&["-e", "cpu-clock"], &["steady", "--seconds", "1"])?;
    let listed = perf::run_clean(["buildid-list", "-i", &measured.recording.to_string_lossy()])?;
    let path = program.canonicalize()?.to_string_lossy().into_owned();
    let row = listed.lines().find(|line| line.ends_with(&path));
    let row = row.with_context(|| format!("{path} is not in {listed}"))?;
    assert_eq!(row.split_whitespace().next(), Some(wanted.as_str()));
    Ok(())
}

/// From the ELF note itself, by `readelf`.
fn build_id_of(program: &Path) -> Result<Option<String>> {
    let output =
        Command::new("readelf").arg("-n").arg(program).output().context("running readelf")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().find_map(|l| l.trim().strip_prefix("Build ID: ")).map(str::to_owned))
}

#[test]
fn the_known_call_chain_is_there() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock"], &["fp-chain", "--seconds", "2"])?;
    let recording = measured.recording.to_string_lossy();
    let text = perf::run_clean(["script", "-i", &recording, "-F", "tid,ip,sym"])?;
    let [outer, middle, inner] = CHAIN;
    let (mut hits, mut whole) = (0, 0);
    for stack in text.split("\n\n").map(symbols) {
        let Some(at) = stack.iter().position(|symbol| symbol == inner) else { continue };
        hits += 1;
        let callers = stack[at + 1..].iter().take(2).map(String::as_str);
        whole += i32::from(callers.eq([middle, outer]));
    }
    assert!(hits > 100, "{hits} samples in {inner}");
    // A hit on the two instructions that set up or take down a frame shows one caller less.
    assert!(whole * 100 >= hits * 99, "{whole} of {hits} chains are whole");
    Ok(())
}

/// The functions of one stack of `perf script`, innermost first: `address symbol`.
fn symbols(stack: &str) -> Vec<String> {
    let rows = stack.lines().filter_map(|line| line.split_whitespace().nth(1));
    rows.map(str::to_owned).collect()
}

#[test]
fn no_call_chain_where_none_is_asked_for() -> Result<()> {
    let sampler = ["-e", "cpu-clock", "--call-graph", "none"];
    let measured = measure(&sampler, &["fp-chain", "--seconds", "1"])?;
    let recording = measured.recording.to_string_lossy();
    let text = perf::run_clean(["script", "-i", &recording, "-F", "tid,ip,sym"])?;
    let samples = measured.report.samples();
    assert!(samples > 0);
    assert_eq!(text.lines().filter(|l| !l.trim().is_empty()).count() as i64, samples);
    Ok(())
}

#[test]
fn linux_perf_data_agrees() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock"], &CHURN)?;
    let file = BufReader::new(File::open(&measured.recording)?);
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(file)?;
    let names: Vec<_> =
        perf_file.event_attributes().iter().map(|a| a.name().map(str::to_owned)).collect();
    assert!(names.contains(&Some("cpu-clock".to_owned())), "{names:?}");
    let (mut samples, mut weight, mut reads, mut exits, mut unordered) =
        (0, 0_i64, 0_u64, 0_u64, 0);
    let mut last = 0;
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        let PerfFileRecord::EventRecord { record, .. } = record else { continue };
        reads += u64::from(record.record_type == RecordType::READ);
        match record.parse()? {
            EventRecord::Sample(sample) => {
                samples += 1;
                weight += i64::try_from(sample.period.context("a sample without a period")?)?;
                let time = sample.timestamp.context("a sample without a time")?;
                unordered += i32::from(time < last);
                last = time;
            }
            EventRecord::Exit(_) => exits += 1,
            _ => {}
        }
    }
    let process = measured.process()?;
    assert_eq!(samples, process.samples());
    assert_eq!(weight, process.total("cpu-clock")?.sampled);
    assert_eq!(unordered, 0, "the reader sorts by time and round: none may come too late");
    assert_eq!(reads, process.exited_threads(), "a count for each thread");
    assert!(exits >= process.exited_threads(), "{exits} exits");
    Ok(())
}
