//! Tables of hand-made reports: as golden files, and that their rows add up.

use super::*;
use crate::model::event::Sampling;
use crate::model::report::Losses;
use crate::output::fixtures::*;
use crate::output::text::millis;

fn shown(report: &Report, options: Options) -> String {
    let mut out = Vec::new();
    write_threads(&mut out, report, options).unwrap();
    String::from_utf8(out).unwrap()
}

fn recorded() -> Options {
    Options { samples: true, ..Options::default() }
}

fn counted_only() -> Options {
    Options { derived: true, ..Options::default() }
}

/// The numbers of a column of the first event, in hundredths of a millisecond, by kind of row.
fn clock_column(text: &str) -> (Vec<u64>, Vec<u64>) {
    let (mut totals, mut parts) = (Vec::new(), Vec::new());
    let rows: Vec<&str> = text.lines().skip(1).collect();
    let end = rows[0].find("cpu-clock ms").unwrap() + "cpu-clock ms".len();
    let name = rows[0].find("comm").unwrap();
    for row in &rows[1..] {
        let row: Vec<char> = row.chars().collect();
        let head: String = row[..end].iter().collect();
        let number = head.rsplit(' ').next().unwrap().replace([',', '.'], "");
        let list = if row[name] == ' ' { &mut parts } else { &mut totals };
        list.push(number.parse().unwrap());
    }
    (totals, parts)
}

#[test]
fn a_process_with_short_threads() {
    assert_golden("table-churn.txt", &shown(&churn(), recorded()));
}

#[test]
fn more_threads_than_descriptors() {
    assert_golden("table-exhausted.txt", &shown(&exhausted(), recorded()));
}

#[test]
fn many_processes() {
    assert_golden("table-everything.txt", &shown(&everything(), recorded()));
}

#[test]
fn hostile_names() {
    let text = shown(&hostile(), counted_only());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert_golden("table-hostile.txt", &text);
}

#[test]
fn ratios_and_multiplexed_counts() {
    assert_golden("table-multiplexed.txt", &shown(&multiplexed(), counted_only()));
}

#[test]
fn all_rows_has_idle_threads_too() {
    let text = shown(&churn(), Options { max_rows: ALL_ROWS, ..recorded() });
    for thread in &churn().processes[0].threads {
        let tid = thread.tid.to_string();
        assert!(text.lines().any(|line| line.trim_start().starts_with(&tid)), "{tid}: {text}");
    }
}

#[test]
fn nothing_vanishes_however_few_rows() {
    for report in [churn(), exhausted(), everything()] {
        let all: u64 = report.processes.iter().map(|process| process.counts[0].count).sum();
        for max_rows in [0, 1, 2, 5, 40, ALL_ROWS] {
            let text = shown(&report, Options { max_rows, ..recorded() });
            let (mut totals, parts) = clock_column(&text);
            let whole = if report.processes.len() > 1 { totals.pop().unwrap() } else { totals[0] };
            assert_eq!(whole, millis(all).replace([',', '.'], "").parse::<u64>().unwrap());
            // Each row is rounded for itself, by at most half of a hundredth.
            let near = |sum: u64, rows: usize| sum.abs_diff(whole) <= rows as u64;
            assert!(near(totals.iter().sum(), totals.len()), "{max_rows}: {text}");
            if report.processes.len() == 1 && max_rows != 0 {
                assert!(near(parts.iter().sum(), parts.len()), "{max_rows}: {text}");
            }
        }
    }
}

#[test]
fn no_more_rows_of_threads_than_asked_for() {
    let report = exhausted();
    for max_rows in [1, 7, 63] {
        let text = shown(&report, Options { max_rows, ..recorded() });
        let listed =
            text.lines().filter(|line| line.contains("  crowd ") && line.contains(" R ")).count();
        // A single thread more takes the room of the row that would stand for it.
        assert_eq!(listed, if max_rows == 63 { 64 } else { max_rows }, "{text}");
    }
}

#[test]
fn one_or_two_events_fit_a_terminal() {
    let mut two = churn();
    two.events[1].name = "context-switches".to_owned();
    for report in [churn(), exhausted(), everything(), two] {
        for options in [recorded(), counted_only()] {
            let text = shown(&report, options);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }
}

#[test]
fn ratios_need_events_of_one_mode() {
    let mut report = multiplexed();
    report.events[1].exclude_kernel = false;
    let text = shown(&report, counted_only());
    assert!(!text.contains("IPC") && text.contains("CPUs"), "{text}");
    report.events.truncate(1);
    report.events[0] = page_faults();
    let text = shown(&report, counted_only());
    assert!(!text.contains("CPUs"), "{text}");
}

#[test]
fn nothing_measured() {
    let text = shown(&report(vec![cpu_clock(Sampling::Off)], Vec::new()), recorded());
    assert_eq!(text, "5.00 s, 0 processes, 0 threads live, 0 exited\n");
}

#[test]
fn each_loss_is_told() {
    assert_eq!(losses(&churn()), Vec::<String>::new());
    let lines = losses(&lossy());
    let fields = format!("{:?}", Losses::default()).matches(": ").count();
    assert_eq!(lines.len(), fields, "one line a field");
    assert_golden("losses.txt", &(lines.join("\n") + "\n"));
    assert!(losses(&exhausted())[0].contains("--max-threads"));
}
