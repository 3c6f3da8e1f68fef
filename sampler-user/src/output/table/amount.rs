//! What a row counted of one event, and how much of the time the kernel counted it.

use crate::model::report::{ProcessCount, ThreadCount};
use sampler_common::account::scale;
use std::iter::Sum;
use std::ops::Add;

/// A count, scaled up where the kernel counted the event a part of the time only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    /// `None` if the event was never counted, though it was wanted.
    estimate: Option<u64>,
    enabled_ns: u64,
    running_ns: u64,
}

impl Amount {
    fn new(count: u64, enabled_ns: u64, running_ns: u64) -> Self {
        let whole = running_ns >= enabled_ns;
        let estimate = if whole { Some(count) } else { scale(count, enabled_ns, running_ns) };
        Self { estimate, enabled_ns, running_ns }
    }

    /// The part of a process's count that no thread is known for. It was counted as much of the
    /// time as all of the process.
    pub fn unattributed(count: &ProcessCount) -> Self {
        Self::new(count.unattributed, count.enabled_ns, count.running_ns)
    }

    /// A process's count. Where it has to be scaled, it is the sum of its parts, each of which was
    /// counted at times of its own.
    pub fn total(count: &ProcessCount, parts: impl Iterator<Item = Self>) -> Self {
        let all = Self::new(count.count, count.enabled_ns, count.running_ns);
        if all.is_whole() { all } else { Self { estimate: parts.sum::<Self>().estimate, ..all } }
    }

    /// The count; `None` if the event was never counted, though it was wanted.
    pub fn estimate(self) -> Option<u64> {
        self.estimate
    }

    /// The count, 0 for none: for sorting and shares.
    pub fn rank(self) -> u64 {
        self.estimate.unwrap_or(0)
    }

    /// Thousandths of the time that the event was counted, rounded down; `None` if that is all of
    /// it.
    pub fn measured_permille(self) -> Option<u64> {
        let permille = u128::from(self.running_ns) * 1000 / u128::from(self.enabled_ns.max(1));
        // Less than 1000, since it is not the whole.
        (!self.is_whole()).then_some(permille as u64)
    }

    fn is_whole(self) -> bool {
        self.running_ns >= self.enabled_ns
    }
}

impl From<&ThreadCount> for Amount {
    fn from(count: &ThreadCount) -> Self {
        Self::new(count.count, count.enabled_ns, count.running_ns)
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let estimate = match (self.estimate, other.estimate) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            estimate,
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Self::add)
    }
}
