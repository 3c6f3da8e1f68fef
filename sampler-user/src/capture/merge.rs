//! Puts what comes from the CPUs' rings into one order of time.

use crate::model::record::Record;

/// Records that come later than this after what was read with them, nanoseconds, are out of order.
/// A record is stamped before it is in the ring; that takes as long as an overflow's program.
const SETTLE_NS: u64 = 2_000_000;

/// Collects records and gives them out in order of time, those of the last moments kept back until
/// nothing can come before them.
#[derive(Debug, Default)]
pub struct Merge {
    pending: Vec<Record>,
}

impl Merge {
    /// Takes a record in.
    pub fn push(&mut self, record: Record) {
        self.pending.push(record);
    }

    /// Gives out, in order, what is older than `read_ns`, the time at which the rings began to be
    /// read, less the time that records need to settle.
    pub fn settled(&mut self, read_ns: u64) -> Vec<Record> {
        let until = read_ns.saturating_sub(SETTLE_NS);
        self.sort();
        let count = self.pending.partition_point(|record| record.stamp().time_ns <= until);
        let later = self.pending.split_off(count);
        std::mem::replace(&mut self.pending, later)
    }

    /// Gives out all there is, in order.
    pub fn all(&mut self) -> Vec<Record> {
        self.sort();
        std::mem::take(&mut self.pending)
    }

    /// Stable: what a CPU stamped alike stays in its order.
    fn sort(&mut self) {
        self.pending.sort_by_key(|record| record.stamp().time_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::Stamp;

    fn at(time_ns: u64) -> Record {
        Record::Throttle(Stamp { time_ns, ..Stamp::default() }, true)
    }

    fn times(records: &[Record]) -> Vec<u64> {
        records.iter().map(|record| record.stamp().time_ns).collect()
    }

    #[test]
    fn what_may_still_be_overtaken_is_kept_back() {
        let mut merge = Merge::default();
        for time in [30, 10, 9 + SETTLE_NS, 20] {
            merge.push(at(time));
        }
        assert_eq!(times(&merge.settled(SETTLE_NS + 25)), [10, 20]);
        merge.push(at(26));
        assert_eq!(times(&merge.settled(SETTLE_NS + 30)), [26, 30]);
        assert_eq!(times(&merge.all()), [9 + SETTLE_NS]);
        assert_eq!(times(&merge.all()), [0; 0]);
    }
}
