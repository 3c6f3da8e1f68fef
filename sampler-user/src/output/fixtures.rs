//! Reports made by hand for the tests of the outputs, and the comparison with golden files.

use crate::model::event::{Event, Sampling, Source, Unit};
use crate::model::report::{
    Descriptors, ExitedGroup, Losses, Process, ProcessCount, Report, Thread, ThreadCount,
};
use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CACHE_MISSES,
    PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_PAGE_FAULTS, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE,
};
use std::path::Path;

/// Compares with a file of `tests/golden`, or rewrites it.
pub(super) fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, golden, "{} differs; UPDATE_GOLDEN=1 rewrites it", path.display());
}

pub(super) fn cpu_clock(sampling: Sampling) -> Event {
    Event {
        name: "cpu-clock".to_owned(),
        unit: Unit::Nanoseconds,
        source: Source::Clock,
        sampling,
        perf_type: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        exclude_user: false,
        exclude_kernel: false,
    }
}

pub(super) fn page_faults() -> Event {
    Event {
        name: "page-faults".to_owned(),
        unit: Unit::Events,
        source: Source::Counter,
        config: PERF_COUNT_SW_PAGE_FAULTS.into(),
        ..cpu_clock(Sampling::Off)
    }
}

pub(super) fn hardware(name: &str, config: u32) -> Event {
    let user_only = name.ends_with(":u");
    Event {
        name: name.to_owned(),
        perf_type: PERF_TYPE_HARDWARE,
        config: config.into(),
        exclude_kernel: user_only,
        ..page_faults()
    }
}

/// Counted all of the time.
pub(super) fn clock(count: u64, sampled: u64) -> ThreadCount {
    let residual = count as i64 - sampled as i64;
    ThreadCount {
        count,
        sampled,
        residual,
        enabled_ns: count,
        running_ns: count,
        ..ThreadCount::default()
    }
}

/// Counted so many per mille of a second.
pub(super) fn counted(count: u64, running_permille: u64) -> ThreadCount {
    let (enabled_ns, running_ns) = (1_000_000_000, running_permille * 1_000_000);
    ThreadCount { count, enabled_ns, running_ns, residual: count as i64, ..ThreadCount::default() }
}

pub(super) fn thread(tid: u32, comm: &str, state: char, counts: &[ThreadCount]) -> Thread {
    let sampled: u64 = counts.iter().map(|count| count.sampled).sum();
    Thread {
        tid,
        comm: comm.into(),
        start_ns: u64::from(tid) * 1_000_000_000_000 + 1,
        exited: state == 'X',
        state,
        samples: sampled / 1_001_001,
        counts: counts.to_vec(),
    }
}

pub(super) fn group(comm: &str, threads: u64, counts: &[ThreadCount]) -> ExitedGroup {
    let counts: Vec<_> = counts.iter().map(|count| ThreadCount { residual: 0, ..*count }).collect();
    let samples = counts.iter().map(|count| count.sampled).sum::<u64>() / 1_001_001;
    ExitedGroup { comm: comm.into(), threads, samples, counts }
}

/// A process whose totals follow from its threads and from what is unattributed, by both laws.
pub(super) fn process(
    tgid: u32,
    comm: &str,
    threads: Vec<Thread>,
    exited_groups: Vec<ExitedGroup>,
    unattributed: &[u64],
) -> Process {
    let events = threads.iter().map(|thread| thread.counts.len()).max().unwrap_or(1);
    let total = |event: usize| {
        let live = threads.iter().filter(|thread| !thread.exited).map(|t| &t.counts[event]);
        let ended = threads.iter().filter(|thread| thread.exited).map(|t| &t.counts[event]);
        let ended = ended.chain(exited_groups.iter().map(|group| &group.counts[event]));
        let mut total = ProcessCount { unattributed: unattributed[event], ..Default::default() };
        for count in live.clone() {
            total.live += count.count;
            total.residual += count.residual;
        }
        total.exited = ended.clone().map(|count| count.count).sum();
        for count in live.chain(ended) {
            total.sampled += count.sampled;
            total.enabled_ns += count.enabled_ns;
            total.running_ns += count.running_ns;
        }
        total.count = total.live + total.exited + total.unattributed;
        total.carry = (total.count - total.sampled) as i64 - total.residual;
        total
    };
    let counts = (0..events).map(total).collect();
    let exited = threads.iter().all(|thread| thread.exited);
    Process { tgid, comm: comm.into(), exited, counts, threads, exited_groups }
}

pub(super) fn report(events: Vec<Event>, processes: Vec<Process>) -> Report {
    Report {
        duration_ns: 5_003_217_000,
        events,
        processes,
        losses: Losses::default(),
        descriptors: Descriptors { capacity: 65_536, peak: 7, in_use_at_end: 0 },
    }
}

/// Two busy threads, one that starts and joins short ones, the main thread waiting.
pub(super) fn churn() -> Report {
    let threads = vec![
        thread(4711, "workload", 'S', &[clock(0, 0), clock(0, 0)]),
        thread(4712, "busy-0", 'R', &[clock(4_416_301_127, 4_415_940_000), counted(3, 1000)]),
        thread(4713, "busy-1", 'R', &[clock(4_252_718_330, 4_252_000_002), counted(2, 1000)]),
        thread(4714, "spawner", 'S', &[clock(239_104_512, 238_700_300), counted(6_044, 1000)]),
        thread(4715, "idle-0", 'S', &[clock(0, 0), clock(0, 0)]),
        thread(4716, "idle-1", 'S', &[clock(0, 0), clock(0, 0)]),
    ];
    let short = group("short", 3_021, &[clock(743_198_204, 742_650_001), counted(9_063, 1000)]);
    let cpu_clock = cpu_clock(Sampling::Frequency(999));
    let process = process(4711, "workload", threads, vec![short], &[0, 0]);
    report(vec![cpu_clock, page_faults()], vec![process])
}

/// 64 descriptors for 1,000 busy threads.
pub(super) fn exhausted() -> Report {
    let threads = (0..64).map(|n| {
        let counts = [clock(9_000_000 + u64::from(n) * 1_000, 8_990_000)];
        thread(70_001 + n, "crowd", 'R', &counts)
    });
    let process = process(70_000, "crowd", threads.collect(), Vec::new(), &[8_424_000_000]);
    Report {
        losses: Losses { descriptors_exhausted: 5_172, ..Losses::default() },
        descriptors: Descriptors { capacity: 64, peak: 64, in_use_at_end: 0 },
        ..report(vec![cpu_clock(Sampling::Period(1_000_000))], vec![process])
    }
}

/// A shell, a compiler run that ended, and more small processes than are listed.
pub(super) fn everything() -> Report {
    let mut processes = vec![
        process(
            2_104_377,
            "rustc",
            vec![
                thread(2_104_377, "rustc", 'S', &[clock(812_000_000, 811_000_000)]),
                thread(2_104_380, "opt cgu.0", 'R', &[clock(2_700_500_000, 2_700_000_000)]),
                thread(2_104_381, "opt cgu.1", 'R', &[clock(1_930_250_000, 1_930_000_000)]),
            ],
            vec![group("opt cgu.2", 1, &[clock(77_000_000, 76_000_000)])],
            &[0],
        ),
        process(901, "bash", vec![thread(901, "bash", 'S', &[clock(1_204_000, 0)])], vec![], &[0]),
        // Its name was not seen, its only thread's was.
        process(950, "", vec![], vec![group("cc", 1, &[clock(45_310_000, 45_000_000)])], &[0]),
    ];
    processes.extend((0..40).map(|n| {
        let main = thread(1_000 + n, "worker", 'S', &[clock(u64::from(n) * 10_000, 0)]);
        process(1_000 + n, "worker", vec![main], vec![], &[0])
    }));
    processes.sort_by_key(|process| process.tgid);
    report(vec![cpu_clock(Sampling::Frequency(4000))], processes)
}

/// Names chosen to break a terminal or a table.
pub(super) fn hostile() -> Report {
    let names: [&[u8]; 6] = [
        b"\x1b[2J\x1b[1;1Hroot",
        b"a,\"b\"\n1,2",
        b"\xff\xfe\x80",
        "\u{202e}gnp.exe".as_bytes(),
        "線程-1".as_bytes(),
        "zero\u{200b}width".as_bytes(),
    ];
    let threads = names.iter().zip(801..).map(|(name, tid)| Thread {
        comm: name.to_vec(),
        ..thread(tid, "", 'R', &[clock(1_000_000_000 - u64::from(tid) * 1_000, 0)])
    });
    let mut process = process(800, "", threads.collect(), Vec::new(), &[0]);
    process.comm = b"[unattributed]\\".to_vec();
    report(vec![cpu_clock(Sampling::Off)], vec![process])
}

/// Hardware events that share counters: each counted a part of the time, one thread's never.
pub(super) fn multiplexed() -> Report {
    let counts = |cycles: u64, permille: u64| {
        [
            clock(cycles / 3, 0),
            counted(cycles, permille),
            counted(cycles * 3 / 2, permille),
            counted(cycles / 200, permille),
            counted(cycles / 40_000, permille),
            counted(cycles / 5, permille),
            counted(cycles / 500, permille),
        ]
    };
    let threads = vec![
        thread(51, "server", 'S', &counts(9_131_007, 1000)),
        thread(52, "io-0", 'R', &counts(7_311_204_918, 875)),
        thread(53, "io-1", 'D', &counts(1_004_918, 429)),
        thread(54, "rare", 'S', &counts(0, 0)),
    ];
    let events = vec![
        cpu_clock(Sampling::Off),
        hardware("cycles:u", PERF_COUNT_HW_CPU_CYCLES),
        hardware("instructions:u", PERF_COUNT_HW_INSTRUCTIONS),
        hardware("cache-references", PERF_COUNT_HW_CACHE_REFERENCES),
        hardware("cache-misses", PERF_COUNT_HW_CACHE_MISSES),
        hardware("branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
        hardware("branch-misses", PERF_COUNT_HW_BRANCH_MISSES),
    ];
    report(events, vec![process(51, "server", threads, Vec::new(), &[0; 7])])
}

/// Each kind of loss, each with a number of its own.
pub(super) fn lossy() -> Report {
    let losses = Losses {
        samples: 1,
        exit_records: 2,
        descriptors_exhausted: 3,
        processes_exhausted: 4,
        read_errors: 5,
        switches_missed: 6,
        hits_in_switch: 7,
        truncated_chains: 9,
        throttled: 10,
        sideband_records: 11,
        unknown_records: 12,
        leaked_descriptors: 1_300,
    };
    Report { losses, ..churn() }
}
