//! Which rows a table has: processes, their busiest threads, and sums of what is left out.

use super::amount::Amount;
use crate::model::report::{ExitedGroup, Process, Report, Thread};
use crate::output::text::{escape, thousands};
use crate::output::{sample_count, thread_count};
use std::cmp::Reverse;

/// What stands before the names of threads.
const INDENT: &str = "  ";

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// The thread's id, or the process's; sums have none.
    pub id: Option<u32>,
    /// Whose it is, escaped, threads indented.
    pub name: String,
    /// The letter of the state.
    pub state: Option<char>,
    /// What was counted, one an event.
    pub amounts: Vec<Amount>,
    /// Samples delivered.
    pub samples: u64,
    /// Threads it stands for.
    threads: u64,
}

/// A process's rows, its total first; or a sum over processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// The total.
    pub total: Row,
    /// What it is the sum of, as far as it is listed; nothing if it isn't.
    pub parts: Vec<Row>,
}

/// The rows of a report, with at most so many threads. The last total is that of everything.
pub(super) fn sections(report: &Report, max_rows: usize) -> Vec<Section> {
    let mut drafts: Vec<Draft> = report.processes.iter().map(Draft::of).collect();
    drafts.sort_by_cached_key(|draft| draft.total.busiest_first());
    let grand_total = (drafts.len() > 1).then(|| Section {
        total: sum("total".to_owned(), drafts.iter().map(|draft| &draft.total)),
        parts: Vec::new(),
    });
    let shown = choose(&drafts, max_rows);
    let (mut sections, mut folded) = (Vec::new(), Vec::new());
    for (at, (draft, shown)) in drafts.into_iter().zip(shown).enumerate() {
        if at < max_rows || shown != 0 || draft.unattributed.is_some() {
            sections.push(draft.finish(shown));
        } else {
            folded.push(draft);
        }
    }
    sections.extend(fold(folded));
    sections.extend(grand_total);
    sections
}

/// A process with all its threads.
struct Draft {
    total: Row,
    /// Threads and groups, busiest first.
    threads: Vec<Row>,
    unattributed: Option<Row>,
}

impl Draft {
    fn of(process: &Process) -> Self {
        let threads = process.threads.iter().map(Row::of_thread);
        let groups = process.exited_groups.iter().map(Row::of_group);
        let mut threads: Vec<Row> = threads.chain(groups).collect();
        threads.sort_by_cached_key(Row::busiest_first);
        let any = process.counts.iter().any(|count| count.unattributed != 0);
        let unattributed = any.then(|| Row {
            name: indented("[unattributed]"),
            amounts: process.counts.iter().map(Amount::unattributed).collect(),
            ..Row::default()
        });
        let total = |(event, count)| {
            let parts = threads.iter().chain(&unattributed);
            Amount::total(count, parts.filter_map(|row| row.amounts.get(event)).copied())
        };
        let total = Row {
            // 0 is no process: the ledger's sum of processes that ended long ago.
            id: (process.tgid != 0).then_some(process.tgid),
            name: escape(&process.comm),
            state: process.exited.then_some('X'),
            amounts: process.counts.iter().enumerate().map(total).collect(),
            samples: sample_count(process),
            threads: thread_count(process),
        };
        Self { total, threads, unattributed }
    }

    /// Lists the busiest so many threads.
    fn finish(mut self, shown: usize) -> Section {
        if let Some(thread) = self.only_thread() {
            let (name, state) = (thread.name.replacen(INDENT, "", 1), thread.state);
            return Section { total: Row { name, state, ..self.total }, parts: Vec::new() };
        }
        if shown == 0 && self.unattributed.is_none() {
            return Section { total: self.total, parts: Vec::new() };
        }
        let mut rest = self.threads.split_off(shown);
        if rest.len() > 1 {
            let name = format!("… and {} more", thousands(threads_of(&rest)));
            rest = vec![sum(indented(&name), &rest)];
        }
        let parts = self.threads.into_iter().chain(self.unattributed).chain(rest).collect();
        Section { total: self.total, parts }
    }

    /// The thread of a process that has just one, of its name: the total says everything.
    fn only_thread(&self) -> Option<&Row> {
        let [thread] = self.threads.as_slice() else { return None };
        let is_main = thread.id.is_none_or(|tid| Some(tid) == self.total.id);
        let is_named = self.total.name.is_empty() || thread.name == indented(&self.total.name);
        let is_only = thread.threads == 1 && self.unattributed.is_none();
        (is_only && is_main && is_named).then_some(thread)
    }
}

impl Row {
    fn of_thread(thread: &Thread) -> Self {
        Self {
            id: Some(thread.tid),
            name: indented(&escape(&thread.comm)),
            state: Some(thread.state),
            amounts: thread.counts.iter().map(Amount::from).collect(),
            samples: thread.samples,
            threads: 1,
        }
    }

    fn of_group(group: &ExitedGroup) -> Self {
        let comm = indented(&escape(&group.comm));
        let name = match group.threads {
            1 => comm,
            threads => format!("{comm} ×{}", thousands(threads)),
        };
        Self {
            id: None,
            name,
            state: Some('X'),
            amounts: group.counts.iter().map(Amount::from).collect(),
            samples: group.samples,
            threads: group.threads,
        }
    }

    /// Sorts by the first event, then the others; ids last, for an order that does not vary.
    fn busiest_first(&self) -> (Reverse<Vec<u64>>, Option<u32>) {
        (Reverse(self.amounts.iter().map(|amount| amount.rank()).collect()), self.id)
    }

    fn is_idle(&self) -> bool {
        self.samples == 0 && self.amounts.iter().all(|amount| amount.estimate() == Some(0))
    }
}

/// How many threads of each process are among the busiest of all.
fn choose(drafts: &[Draft], max_rows: usize) -> Vec<usize> {
    if max_rows == super::ALL_ROWS {
        return drafts.iter().map(|draft| draft.threads.len()).collect();
    }
    let mut ranked: Vec<_> = drafts
        .iter()
        .enumerate()
        .flat_map(|(at, draft)| draft.threads.iter().map(move |thread| (at, thread)))
        .filter(|(_, thread)| !thread.is_idle())
        .map(|(at, thread)| (thread.busiest_first(), at))
        .collect();
    ranked.sort_unstable();
    let mut shown = vec![0; drafts.len()];
    for (_, at) in ranked.into_iter().take(max_rows) {
        shown[at] += 1;
    }
    shown
}

/// One row for processes that are not listed; a single one is, as it takes no more room.
fn fold(folded: Vec<Draft>) -> Option<Section> {
    let totals: Vec<Row> = folded.into_iter().map(|draft| draft.total).collect();
    let total = match totals.as_slice() {
        [] => return None,
        [one] => one.clone(),
        many => sum(format!("… and {} processes", thousands(many.len() as u64)), many),
    };
    Some(Section { total, parts: Vec::new() })
}

fn sum<'a>(name: String, rows: impl IntoIterator<Item = &'a Row> + Clone) -> Row {
    let events = rows.clone().into_iter().map(|row| row.amounts.len()).max().unwrap_or(0);
    let of = |event: usize| {
        rows.clone().into_iter().filter_map(|row| row.amounts.get(event)).copied().sum()
    };
    Row {
        name,
        amounts: (0..events).map(of).collect(),
        samples: rows.clone().into_iter().map(|row| row.samples).sum(),
        ..Row::default()
    }
}

fn threads_of(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.threads).sum()
}

fn indented(name: &str) -> String {
    format!("{INDENT}{name}")
}
