//! What `perf` makes of a recording.

use std::collections::{BTreeMap, BTreeSet};

use sampler::model::record::{Comm, FileId, Record, Sample, Stamp};
use sampler::output::perfdata::Recording;

use crate::perf::perf;
use crate::session::{KERNEL_FUNCTION, Session, Sum, Sums};

/// A sample as `perf script` prints it: tid, cpu, time in nanoseconds, weight, event.
type Line = (u32, u32, u64, u64, String);

fn script_line(line: &str) -> Line {
    let mut fields = line.split_ascii_whitespace();
    let mut field = || fields.next().unwrap_or_else(|| panic!("too few fields in {line:?}"));
    let tid = field().parse().unwrap();
    let cpu = field().trim_matches(['[', ']']).parse().unwrap();
    let time = field().trim_end_matches(':').replace('.', "").parse().unwrap();
    let weight = field().parse().unwrap();
    let event = field().trim_end_matches(':').to_owned();
    (tid, cpu, time, weight, event)
}

fn expected_line(session: &Session, sample: &Sample) -> Line {
    let Stamp { tid, cpu, time_ns, .. } = sample.stamp;
    (tid, cpu, time_ns, sample.weight, session.header.events[sample.event].name.clone())
}

#[test]
fn script_prints_each_sample() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let script = perf(&path, &["script", "--ns", "-F", "tid,cpu,time,event,period"]);
    let printed: Vec<Line> = script.lines().map(script_line).collect();
    let expected: Vec<Line> =
        session.samples_in_order().map(|sample| expected_line(&session, sample)).collect();
    assert_eq!(printed, expected);
}

#[test]
fn script_resolves_each_chain() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let script = perf(&path, &["script", "-F", "ip,sym"]);
    let chains = script.split("\n\n").filter(|chain| !chain.trim().is_empty());
    let printed: Vec<Vec<&str>> =
        chains.map(|chain| chain.split_ascii_whitespace().skip(1).step_by(2).collect()).collect();
    let expected: Vec<Vec<&str>> = session
        .samples_in_order()
        .map(|sample| {
            let kernel = sample.kernel_chain.iter().map(|_| KERNEL_FUNCTION);
            kernel.chain(sample.user_chain.iter().map(|_| "function_of_samples")).collect()
        })
        .collect();
    assert_eq!(printed, expected);
}

/// Reads the lines `OVERHEAD;SAMPLES;PERIOD;TID:COMM;COMM` below each event's title.
fn sums_of_report(report: &str) -> Sums {
    let mut event = String::new();
    let mut sums = Sums::new();
    for line in report.lines() {
        if let Some((_, title)) = line.split_once("of event '") {
            event = title.trim_end_matches('\'').to_owned();
        } else if !line.starts_with('#') && line.contains(';') {
            let fields: Vec<&str> = line.split(';').map(str::trim).collect();
            let (tid, _) = fields[3].split_once(':').unwrap();
            let (samples, weight) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
            sums.insert((tid.parse().unwrap(), event.clone()), Sum { samples, weight });
        }
    }
    sums
}

#[test]
fn report_sums_up_threads() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    // In perf's vocabulary `pid` is the thread here.
    let mut args = vec!["report", "--stdio", "-g", "none", "--no-children"];
    args.extend(["-n", "--show-total-period", "--sort", "pid,comm", "-t", ";"]);
    let report = perf(&path, &args);
    assert_eq!(sums_of_report(&report), session.sums());
    assert!(report.contains("Total Lost Samples: 3\n"), "{report}");
}

#[test]
fn report_shows_the_counts_of_all_threads() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let report = perf(&path, &["report", "--stdio", "-g", "none", "-T"]);
    let (_, table) = report.split_once("#     PID").expect("a table of counts");
    let mut lines = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let events: Vec<&str> = session.header.events.iter().map(|event| &event.name[..]).collect();
    assert_eq!(lines.next().unwrap()[1..], events);
    let printed: BTreeMap<u32, Vec<u64>> = lines
        .map(|line| {
            let counts = line[2..].iter().map(|count| count.parse().unwrap());
            (line[1].parse().unwrap(), counts.collect())
        })
        .collect();
    let mut expected = BTreeMap::<u32, Vec<u64>>::new();
    for read in session.reads() {
        expected.entry(read.stamp.tid).or_default().push(read.count);
    }
    assert_eq!(printed, expected);
}

#[test]
fn the_header_describes_machine_and_events() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let header = perf(&path, &["report", "--header-only"]);
    let uname = std::process::Command::new("uname").arg("-nrm").output().unwrap().stdout;
    let uname = String::from_utf8(uname).unwrap();
    let mut uname = uname.split_ascii_whitespace();
    for title in ["hostname", "os release", "arch"] {
        let line = format!("# {title} : {}\n", uname.next().unwrap());
        assert!(header.contains(&line), "no {line:?} in {header}");
    }
    assert!(header.contains("# cmdline : sampler record -p 1 \n"), "{header}");
    assert!(header.contains("# clockid: monotonic (1)\n"), "{header}");
    assert!(header.contains("# time of first sample : 1.001000\n"), "{header}");
    let script = perf(&path, &["script", "--header"]);
    assert!(script.starts_with(header.trim_end_matches("#\n")), "{script:.2000}");
}

#[test]
fn evlist_knows_the_events() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let list = perf(&path, &["evlist", "-v"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert!(lines[0].starts_with("cpu-clock: type: 1, "), "{list}");
    assert!(lines[0].contains(" { sample_period, sample_freq }: 999, "), "{list}");
    assert!(lines[0].contains(" freq: 1, ") && lines[0].ends_with(" clockid: 1"), "{list}");
    assert!(lines[1].starts_with("page-faults:u: type: 1, "), "{list}");
    assert!(lines[1].contains(", exclude_kernel: 1, ") && !lines[1].contains(" freq:"), "{list}");
    assert!(lines[2].starts_with("context-switches: "), "{list}");
    assert!(!lines[2].contains("sample_freq"), "{list}");
}

#[test]
fn buildid_list_knows_the_files() {
    let session = Session::new();
    let (_dir, path) = session.record_somewhere();
    let list = perf(&path, &["buildid-list"]);
    let printed: BTreeSet<&str> = list.lines().collect();
    let ids = session.mmaps().filter_map(|mmap| match &mmap.file {
        FileId::BuildId(id, len) => Some((&id[..usize::from(*len)], &mmap.path)),
        FileId::Inode { .. } => None,
    });
    let lines: Vec<String> = ids
        .map(|(id, path)| {
            let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            let path = String::from_utf8_lossy(path);
            format!("{hex} {}", path.strip_suffix("_text").unwrap_or(&path))
        })
        .collect();
    assert!(lines.iter().any(|line| line.ends_with(" [kernel.kallsyms]")), "{lines:?}");
    assert_eq!(printed, lines.iter().map(String::as_str).collect());
}

#[test]
fn late_records_are_put_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("late.data");
    let mut recording = Recording::create(&path, Session::new().header).unwrap();
    recording.place().unwrap();
    let stamp = |time_ns| Stamp { time_ns, tgid: 7, tid: 7, cpu: 0 };
    let comm = Comm { stamp: stamp(1), comm: b"late".to_vec(), exec: false };
    recording.write(&Record::Comm(comm)).unwrap();
    for round in 1..=20 {
        // One of the round, one as old as may be, one that is much too old.
        for time_ns in [round * 1000, round * 1000 - 900, round * 300] {
            let sample = Sample { stamp: stamp(time_ns), weight: 1, ip: 1, ..Sample::default() };
            recording.write(&Record::Sample(sample)).unwrap();
        }
        recording.round().unwrap();
    }
    let summary = recording.finish().unwrap();
    assert!((15..=18).contains(&summary.late_records), "{summary:?}");
    let script = perf(&path, &["script", "--ns", "-F", "tid,cpu,time,event,period"]);
    let times: Vec<u64> = script.lines().map(|line| script_line(line).2).collect();
    assert_eq!(times.len(), 60);
    assert!(times.is_sorted(), "{times:?}");
}
