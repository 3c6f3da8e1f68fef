//! The generic names of `perf list`, with their aliases.

use crate::model::event::{Source, Unit};
use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_BUS_CYCLES,
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CPU_CYCLES,
    PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_REF_CPU_CYCLES, PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
    PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, PERF_COUNT_SW_ALIGNMENT_FAULTS,
    PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_CPU_MIGRATIONS,
    PERF_COUNT_SW_EMULATION_FAULTS, PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_HARDWARE,
    PERF_TYPE_SOFTWARE,
};

/// A generic event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generic {
    /// The kernel's type and number.
    pub perf_type: u32,
    /// See `perf_type`.
    pub config: u32,
    pub source: Source,
    pub unit: Unit,
}

const fn hardware(config: u32) -> Generic {
    Generic { perf_type: PERF_TYPE_HARDWARE, config, source: Source::Counter, unit: Unit::Events }
}

const fn software(config: u32, source: Source) -> Generic {
    Generic { perf_type: PERF_TYPE_SOFTWARE, config, source, unit: Unit::Events }
}

/// A clock between switches is a thread's own; the kernel's per-CPU `task-clock` is not.
const fn clock(config: u32) -> Generic {
    Generic {
        perf_type: PERF_TYPE_SOFTWARE,
        config,
        source: Source::Clock,
        unit: Unit::Nanoseconds,
    }
}

/// All names.
pub(super) const NAMES: &[(&str, Generic)] = &[
    ("cycles", hardware(PERF_COUNT_HW_CPU_CYCLES)),
    ("cpu-cycles", hardware(PERF_COUNT_HW_CPU_CYCLES)),
    ("instructions", hardware(PERF_COUNT_HW_INSTRUCTIONS)),
    ("cache-references", hardware(PERF_COUNT_HW_CACHE_REFERENCES)),
    ("cache-misses", hardware(PERF_COUNT_HW_CACHE_MISSES)),
    ("branches", hardware(PERF_COUNT_HW_BRANCH_INSTRUCTIONS)),
    ("branch-instructions", hardware(PERF_COUNT_HW_BRANCH_INSTRUCTIONS)),
    ("branch-misses", hardware(PERF_COUNT_HW_BRANCH_MISSES)),
    ("bus-cycles", hardware(PERF_COUNT_HW_BUS_CYCLES)),
    ("stalled-cycles-frontend", hardware(PERF_COUNT_HW_STALLED_CYCLES_FRONTEND)),
    ("idle-cycles-frontend", hardware(PERF_COUNT_HW_STALLED_CYCLES_FRONTEND)),
    ("stalled-cycles-backend", hardware(PERF_COUNT_HW_STALLED_CYCLES_BACKEND)),
    ("idle-cycles-backend", hardware(PERF_COUNT_HW_STALLED_CYCLES_BACKEND)),
    ("ref-cycles", hardware(PERF_COUNT_HW_REF_CPU_CYCLES)),
    ("cpu-clock", clock(PERF_COUNT_SW_CPU_CLOCK)),
    ("task-clock", clock(PERF_COUNT_SW_TASK_CLOCK)),
    ("page-faults", software(PERF_COUNT_SW_PAGE_FAULTS, Source::Counter)),
    ("faults", software(PERF_COUNT_SW_PAGE_FAULTS, Source::Counter)),
    ("minor-faults", software(PERF_COUNT_SW_PAGE_FAULTS_MIN, Source::Counter)),
    ("major-faults", software(PERF_COUNT_SW_PAGE_FAULTS_MAJ, Source::Counter)),
    ("alignment-faults", software(PERF_COUNT_SW_ALIGNMENT_FAULTS, Source::Counter)),
    ("emulation-faults", software(PERF_COUNT_SW_EMULATION_FAULTS, Source::Counter)),
    ("context-switches", software(PERF_COUNT_SW_CONTEXT_SWITCHES, Source::Switches)),
    ("cs", software(PERF_COUNT_SW_CONTEXT_SWITCHES, Source::Switches)),
    ("cpu-migrations", software(PERF_COUNT_SW_CPU_MIGRATIONS, Source::Migrations)),
    ("migrations", software(PERF_COUNT_SW_CPU_MIGRATIONS, Source::Migrations)),
];

/// The event of a name.
pub(super) fn find(name: &str) -> Option<Generic> {
    NAMES.iter().find(|(known, _)| *known == name).map(|&(_, event)| event)
}

/// The names that look most like one that does not exist, best first.
pub(super) fn near(name: &str) -> Vec<&'static str> {
    /// How like they must be, of 1.
    const LIKE: f64 = 0.8;
    let mut near: Vec<(f64, &str)> = NAMES
        .iter()
        .map(|&(known, _)| (strsim::jaro_winkler(name, known), known))
        .filter(|&(like, _)| like >= LIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.truncate(3);
    near.into_iter().map(|(_, name)| name).collect()
}
