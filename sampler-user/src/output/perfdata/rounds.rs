//! Keeps the promise that a `FINISHED_ROUND` record makes to readers.
//!
//! Readers sort records by time, holding back two rounds: at the end of a round they hand out all
//! records up to the latest time of the round before (`tools/perf/util/ordered-events.c`, Linux
//! 6.1). A record older than that would come out of order, and perf warns of it.

/// Latest times of the rounds written so far.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    latest: u64,
    latest_of_previous: u64,
    handed_out: u64,
    open: bool,
    late: u64,
}

impl Rounds {
    /// The time under which to write a record of time `time_ns`: the same, unless readers have
    /// handed out later ones by now. Then it is the earliest time they still put in order.
    pub(super) fn admit(&mut self, time_ns: u64) -> u64 {
        self.open = true;
        if time_ns < self.handed_out {
            self.late += 1;
            return self.handed_out;
        }
        self.latest = self.latest.max(time_ns);
        time_ns
    }

    /// Ends a round. `false` when it is empty: then there is nothing to mark.
    pub(super) fn finish(&mut self) -> bool {
        if !self.open {
            return false;
        }
        self.open = false;
        self.handed_out = self.latest_of_previous;
        self.latest_of_previous = self.latest;
        true
    }

    /// Records that came too late to keep their time.
    pub(super) fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_may_be_one_round_late() {
        let mut rounds = Rounds::default();
        assert!(!rounds.finish());
        assert_eq!(rounds.admit(10), 10);
        assert!(rounds.finish());
        assert_eq!(rounds.admit(5), 5);
        assert_eq!(rounds.admit(20), 20);
        assert!(rounds.finish());
        // Handed out by now: up to 10.
        assert_eq!(rounds.admit(11), 11);
        assert_eq!(rounds.late(), 0);
        assert_eq!(rounds.admit(9), 10);
        assert_eq!(rounds.late(), 1);
        assert!(rounds.finish());
        assert!(!rounds.finish());
        assert_eq!(rounds.admit(15), 20);
    }
}
