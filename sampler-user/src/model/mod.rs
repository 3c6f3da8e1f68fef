//! What was measured, as plain values: events, records, processes, threads, reports.
//!
//! Nothing here does I/O or reads a clock; `capture` fills these types and `output` reads them.

pub mod event;
pub mod ledger;
pub mod record;
pub mod report;
pub mod snapshot;
