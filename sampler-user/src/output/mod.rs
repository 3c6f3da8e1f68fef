//! The forms in which results leave: recordings, tables, JSON, CSV.

pub mod perfdata;
