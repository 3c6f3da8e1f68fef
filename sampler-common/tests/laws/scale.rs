//! Scaling of multiplexed counts, against arithmetic in floating point and against its own bounds.

use proptest::prelude::*;
use sampler_common::account::scale;

#[test]
fn what_was_never_counted_has_no_scale() {
    assert_eq!(scale(0, 0, 0), None);
    assert_eq!(scale(5, 10, 0), None);
    assert_eq!(scale(u64::MAX, u64::MAX, 0), None);
}

#[test]
fn known_shares() {
    assert_eq!(scale(1000, 100, 100), Some(1000));
    assert_eq!(scale(1000, 400, 100), Some(4000));
    assert_eq!(scale(1000, 3, 2), Some(1500));
    assert_eq!(scale(1, 3, 2), Some(1), "rounded down");
    assert_eq!(scale(0, 400, 100), Some(0));
    assert_eq!(scale(u64::MAX, u64::MAX, u64::MAX), Some(u64::MAX));
    assert_eq!(scale(u64::MAX, 2, 1), Some(u64::MAX), "saturated");
    assert_eq!(scale(u64::MAX, u64::MAX, 1), Some(u64::MAX), "saturated");
    assert_eq!(scale(u64::MAX - 1, 1 << 63, 1 << 63), Some(u64::MAX - 1));
}

proptest! {
    #[test]
    fn a_part_of_the_time_makes_no_less(count: u64, a in 1_u64.., b in 1_u64..) {
        let (running_ns, enabled_ns) = (a.min(b), a.max(b));
        let scaled = scale(count, enabled_ns, running_ns);
        prop_assert!(scaled.is_some_and(|scaled| scaled >= count));
    }

    #[test]
    fn all_of_the_time_changes_nothing(count: u64, time_ns in 1_u64..) {
        prop_assert_eq!(scale(count, time_ns, time_ns), Some(count));
    }

    #[test]
    fn it_is_the_share(count in 0_u64..1 << 40, enabled_ns in 1_u64..1 << 40, running_ns in 1_u64..1 << 40) {
        let share = count as f64 * (enabled_ns as f64 / running_ns as f64);
        let scaled = scale(count, enabled_ns, running_ns).map_or(0.0, |scaled| scaled as f64);
        let expected = share.min(u64::MAX as f64);
        prop_assert!((scaled - expected).abs() <= 1.0 + expected * 1e-12, "{} {}", scaled, expected);
    }
}
