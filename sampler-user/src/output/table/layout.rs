//! Rows set in columns of plain text.

use super::Options;
use super::amount::Amount;
use super::derived::{self, Derived};
use super::rows::{Row, Section};
use crate::model::event::{Event, Unit};
use crate::model::report::Report;
use crate::output::text::{millis, thousands};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Names of events longer than this are broken at their last hyphen.
const LONG_NAME: usize = 13;

/// Columns of the id, the name and the state. The others are numbers.
const LABELS: [(&str, CellAlignment); 3] =
    [("tid", CellAlignment::Right), ("comm", CellAlignment::Left), ("S", CellAlignment::Left)];

/// The table.
pub(super) fn table(report: &Report, sections: &[Section], options: Options) -> Table {
    let layout = Layout {
        events: &report.events,
        whole: sections
            .last()
            .and_then(|all| all.total.amounts.first())
            .map_or(0, |all| all.rank()),
        derived: if options.derived { derived::columns(report) } else { Vec::new() },
        samples: options.samples,
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(layout.header());
    for section in sections {
        table.add_row(layout.row(&section.total));
        table.add_rows(section.parts.iter().map(|row| layout.row(row)));
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_cell_alignment(LABELS.get(at).map_or(CellAlignment::Right, |label| label.1));
    }
    table
}

struct Layout<'a> {
    events: &'a [Event],
    /// All of the first event.
    whole: u64,
    derived: Vec<Derived>,
    samples: bool,
}

impl Layout<'_> {
    fn header(&self) -> Vec<String> {
        let mut titles: Vec<String> = LABELS.map(|(title, _)| title.to_owned()).into();
        let mut events = self.events.iter().map(title);
        titles.extend(events.next());
        titles.push("share".to_owned());
        titles.extend(events);
        if self.samples {
            titles.push("samples".to_owned());
        }
        titles.extend(self.derived.iter().map(|column| column.title.to_owned()));
        stand_on_one_line(titles)
    }

    fn row(&self, row: &Row) -> Vec<String> {
        let mut cells = vec![
            row.id.map(|id| id.to_string()).unwrap_or_default(),
            row.name.clone(),
            row.state.map(String::from).unwrap_or_default(),
        ];
        let mut counts =
            self.events.iter().zip(&row.amounts).map(|(event, amount)| count(event, *amount));
        cells.extend(counts.next());
        cells.push(row.amounts.first().map(|amount| self.share(*amount)).unwrap_or_default());
        cells.extend(counts);
        if self.samples {
            cells.push(thousands(row.samples));
        }
        cells.extend(self.derived.iter().map(|column| column.cell(row)));
        cells
    }

    /// The share of all that was counted of the first event.
    fn share(&self, amount: Amount) -> String {
        let whole = u128::from(self.whole);
        amount
            .estimate()
            .and_then(|part| (u128::from(part) * 1000 + whole / 2).checked_div(whole))
            .map(percent)
            .unwrap_or_default()
    }
}

/// Moves titles of one line down where others have two.
fn stand_on_one_line(mut titles: Vec<String>) -> Vec<String> {
    if titles.iter().any(|title| title.contains('\n')) {
        for title in titles.iter_mut().filter(|title| !title.contains('\n')) {
            title.insert(0, '\n');
        }
    }
    titles
}

fn title(event: &Event) -> String {
    let title = match event.unit {
        Unit::Nanoseconds => format!("{} ms", event.name),
        Unit::Events => event.name.clone(),
    };
    match title.rsplit_once('-') {
        Some((start, end)) if title.len() > LONG_NAME => format!("{start}-\n{end}"),
        _ => title,
    }
}

/// A count, with the share of the time it was measured for if that is not all of it.
fn count(event: &Event, amount: Amount) -> String {
    let Some(estimate) = amount.estimate() else { return "<not counted>".to_owned() };
    let number = match event.unit {
        Unit::Nanoseconds => millis(estimate),
        Unit::Events => thousands(estimate),
    };
    match amount.measured_permille() {
        Some(permille) => format!("{number} ({})", percent(permille.into())),
        None => number,
    }
}

fn percent(permille: u128) -> String {
    format!("{}.{}%", permille / 10, permille % 10)
}
