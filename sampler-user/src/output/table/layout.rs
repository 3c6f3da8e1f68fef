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
        whole: report
            .processes
            .iter()
            .filter_map(|process| process.counts.first())
            .map(Amount::from)
            .map(Amount::rank)
            .sum(),
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
        let mut cells: Vec<String> = LABELS.map(|(title, _)| title.to_owned()).into();
        cells.extend(self.events.iter().map(title));
        cells.push("share".to_owned());
        if self.samples {
            cells.push("samples".to_owned());
        }
        cells.extend(self.derived.iter().map(|column| column.title.to_owned()));
        cells
    }

    fn row(&self, row: &Row) -> Vec<String> {
        let mut cells = vec![
            row.id.map(|id| id.to_string()).unwrap_or_default(),
            row.name.clone(),
            row.state.map(String::from).unwrap_or_default(),
        ];
        cells.extend(
            self.events.iter().zip(&row.amounts).map(|(event, amount)| count(event, *amount)),
        );
        cells.push(row.amounts.first().map(|amount| self.share(*amount)).unwrap_or_default());
        if self.samples {
            cells.push(thousands(row.samples));
        }
        cells.extend(self.derived.iter().map(|column| column.cell(row)));
        cells
    }

    fn share(&self, amount: Amount) -> String {
        let (part, whole) = (u128::from(amount.rank()), u128::from(self.whole));
        (part * 1000 + whole / 2).checked_div(whole).map(percent).unwrap_or_default()
    }
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
