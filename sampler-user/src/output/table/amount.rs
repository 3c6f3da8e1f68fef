//! What a row counted of one event, and how much of the time the kernel counted it.

use crate::model::report::{ProcessCount, ThreadCount};
use sampler_common::account::scale;
use std::iter::Sum;
use std::ops::Add;

/// A count with the times that scale it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    count: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Amount {
    /// The part of a process's count that no thread is known for. It was counted as much of the time
    /// as all of the process.
    pub fn unattributed(count: &ProcessCount) -> Self {
        Self { count: count.unattributed, ..Self::from(count) }
    }

    /// The count, scaled up where the kernel counted the event a part of the time; `None` if it never
    /// did, though the event was wanted.
    pub fn estimate(self) -> Option<u64> {
        if self.is_whole() {
            Some(self.count)
        } else {
            scale(self.count, self.enabled_ns, self.running_ns)
        }
    }

    /// The [`estimate`](Self::estimate), 0 for none: for sorting and shares.
    pub fn rank(self) -> u64 {
        self.estimate().unwrap_or(0)
    }

    /// Thousandths of the time that the event was counted, rounded down; `None` if that is all of it.
    pub fn measured_permille(self) -> Option<u64> {
        let permille = u128::from(self.running_ns) * 1000 / u128::from(self.enabled_ns.max(1));
        // Less than 1000, since the quotient is below 1.
        (!self.is_whole()).then_some(permille as u64)
    }

    /// Nothing was counted, and nothing missed.
    pub fn is_zero(self) -> bool {
        self.estimate() == Some(0)
    }

    fn is_whole(self) -> bool {
        self.running_ns >= self.enabled_ns
    }
}

impl From<&ThreadCount> for Amount {
    fn from(count: &ThreadCount) -> Self {
        Self { count: count.count, enabled_ns: count.enabled_ns, running_ns: count.running_ns }
    }
}

impl From<&ProcessCount> for Amount {
    fn from(count: &ProcessCount) -> Self {
        Self { count: count.count, enabled_ns: count.enabled_ns, running_ns: count.running_ns }
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
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
