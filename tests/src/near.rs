//! Nearness of a count to what an outside oracle says.

/// How far a count may be from the truth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// To either side, as a share of the truth.
    pub percent: f64,
    /// To either side, in the event's own unit: what happens around the window.
    pub around: u64,
    /// Above the truth only: what the oracle is known to leave out.
    pub left_out: u64,
}

impl Bounds {
    /// A share of the truth, and nothing else.
    #[must_use]
    pub fn percent(percent: f64) -> Self {
        Self { percent, ..Self::default() }
    }

    /// So many more or less, and nothing else.
    #[must_use]
    pub fn around(around: u64) -> Self {
        Self { around, ..Self::default() }
    }
}

/// Asserts that `count` is near `truth`.
///
/// # Panics
/// When it isn't; the message says by how much.
pub fn assert_near(what: &str, count: i64, truth: u64, bounds: Bounds) {
    let (count, truth) = (i128::from(count), i128::from(truth));
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a tolerance")]
    let share = (truth as f64 * bounds.percent / 100.0) as i128;
    let around = share + i128::from(bounds.around);
    let (least, most) = (truth - around, truth + around + i128::from(bounds.left_out));
    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    let ratio = count as f64 / truth as f64 * 100.0;
    assert!(
        (least..=most).contains(&count),
        "{what}: counted {count}, the truth is {truth} ({ratio:.2} %), allowed {least} to {most}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_are_in() {
        let bounds = Bounds { percent: 1.0, around: 5, left_out: 10 };
        assert_near("least", 985, 1000, bounds);
        assert_near("most", 1025, 1000, bounds);
    }

    #[test]
    #[should_panic(expected = "allowed 990 to 1010")]
    fn beyond_is_out() {
        assert_near("too much", 1011, 1000, Bounds::percent(1.0));
    }
}
