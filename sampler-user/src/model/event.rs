//! Events: what is counted, and whether its overflows are sampled.

use std::fmt;

/// What one step of a count stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of a clock.
    Nanoseconds,
    /// Occurrences of the event.
    Events,
}

/// Where the count of an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The monotonic clock, read at the switch: `cpu-clock` and `task-clock`.
    Clock,
    /// A `perf_event` on each CPU, read at the switch.
    Counter,
    /// Each switch away from the thread.
    Switches,
    /// Each arrival on another CPU than the one the thread ran on last.
    Migrations,
}

/// How often the overflows of an event are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Counted only.
    Off,
    /// One overflow every so many events (at least 1).
    Period(u64),
    /// So many overflows a second (at least 1); the kernel adapts the period.
    Frequency(u64),
}

/// One event of a session, as it was asked for and resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name as typed, modifiers included: `cycles:u`.
    pub name: String,
    /// The unit of its counts.
    pub unit: Unit,
    /// Where its counts come from.
    pub source: Source,
    /// Whether and how often it is sampled.
    pub sampling: Sampling,
    /// `perf_event_attr.type`.
    #[doc(alias = "PERF_TYPE_HARDWARE")]
    pub perf_type: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// Not counted in user space (`:k`).
    pub exclude_user: bool,
    /// Not counted in the kernel (`:u`).
    pub exclude_kernel: bool,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nanoseconds => "ns",
            Self::Events => "events",
        })
    }
}
