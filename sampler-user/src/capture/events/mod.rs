//! Events as they are typed: from text to what is counted. Opening them is done in `counters`.
//!
//! The syntax is perf's: names and aliases of `perf list`, raw events `rHEX`, modifiers after a
//! colon, lists with commas.

mod names;
mod parse;
mod sampling;

pub use parse::parse;
pub use sampling::{DEFAULT_HZ, SamplingRequest, resolve};

use thiserror::Error;

/// Why a list of events can't be measured. Each message names the text it is about.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventError {
    /// No such name.
    #[error("there is no event {name:?}{}", suggestion(.near))]
    Unknown {
        /// As typed.
        name: String,
        /// Names that look like it, best first.
        near: Vec<&'static str>,
    },
    /// Nothing between two commas.
    #[error("an event name is missing in {list:?}")]
    Empty {
        /// The whole list.
        list: String,
    },
    /// `rHEX` with something else than hexadecimal digits, or too many.
    #[error("the raw event {name:?} is not r and up to 16 hexadecimal digits")]
    Raw {
        /// As typed.
        name: String,
    },
    /// Unknown letters after the colon.
    #[error(
        "event {name:?} has the modifier {modifier:?}: u (user space) and k (kernel) are known"
    )]
    Modifier {
        /// As typed.
        name: String,
        /// What stands after the colon.
        modifier: String,
    },
    /// The event happens in the kernel only.
    #[error(
        "event {name:?} happens in the kernel and can't be counted in user space alone; leave :u out"
    )]
    KernelOnly {
        /// As typed.
        name: String,
    },
    /// The same name twice.
    #[error("event {name:?} is given twice")]
    Twice {
        /// As typed.
        name: String,
    },
    /// More events than there is room for in a descriptor.
    #[error("{count} events are too many: at most {most} are measured at once")]
    TooMany {
        /// How many were given.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The first event has no overflow.
    #[error(
        "event {name:?} is counted at the switch and can't be sampled; put one first that can, for example -e cpu-clock,{name}"
    )]
    CannotSample {
        /// As typed.
        name: String,
    },
    /// Period 0.
    #[error("a sample period of 0 events is impossible; give -c at least 1")]
    ZeroPeriod,
    /// Frequency 0.
    #[error(
        "a sample frequency of 0 takes no samples; give -F at least 1, or count only with `sampler stat`"
    )]
    ZeroFrequency,
    /// More than the kernel allows.
    #[error(
        "{hz} samples a second are more than kernel.perf_event_max_sample_rate allows ({most}); lower -F, or raise it with `sysctl kernel.perf_event_max_sample_rate={hz}`"
    )]
    FrequencyTooHigh {
        /// What was asked for.
        hz: u64,
        /// What is allowed.
        most: u64,
    },
}

fn suggestion(near: &[&'static str]) -> String {
    match near {
        [] => "; `sampler record --help` lists those there are".to_owned(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}
