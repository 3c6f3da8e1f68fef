//! Samples are in proportion: what they stand for is what each group of threads really used, also of
//! threads too short to be hit.

use anyhow::Result;
use sampler_tests::{
    Bounds, assert_near, measure,
    protocol::{SHORT, SPAWNER},
};

/// As a share of the process's total.
const ALLOWED_PERCENT: f64 = 3.0;

fn weights_are_in_proportion(sampler: &[&str]) -> Result<()> {
    let measured = measure(sampler, &["churn", "--seconds", "5"])?;
    let (process, truth) = (measured.process()?, &measured.truth);
    let clock = |name: &str| truth.threads[name].cpu_ns;
    let busy = clock("busy-0") + clock("busy-1");
    let spawner = clock(SPAWNER);
    // With what a short thread does after it has read its own clock for the last time.
    let short = truth.process_ns - busy - spawner;
    assert!(short >= truth.short_ns, "the clocks of the workload contradict each other");

    let weight = |name: &str| process.named(name, "cpu-clock").sampled;
    let groups = [
        ("busy", weight("busy-0") + weight("busy-1"), busy),
        ("spawner", weight(SPAWNER), spawner),
        ("short", weight(SHORT), short),
    ];
    #[expect(clippy::cast_precision_loss, reason = "a tolerance")]
    let total = truth.process_ns as f64;
    for (name, weight, truth) in groups {
        #[expect(clippy::cast_precision_loss, reason = "a tolerance")]
        let percent = ALLOWED_PERCENT * total / truth as f64;
        assert_near(&format!("weight of {name}"), weight, truth, Bounds::percent(percent));
    }
    let sampled = process.total("cpu-clock")?.sampled;
    assert_near("all weights", sampled, truth.process_ns, Bounds::percent(ALLOWED_PERCENT));
    Ok(())
}

#[test]
fn at_a_frequency() -> Result<()> {
    weights_are_in_proportion(&["-e", "cpu-clock", "-F", "999"])
}

#[test]
fn at_a_period() -> Result<()> {
    weights_are_in_proportion(&["-e", "cpu-clock", "-c", "1000000"])
}

/// A weight is the whole progress since the last sample: there are no more weights than counts, and
/// hardly any count is left without, also when almost nobody lives long enough to be hit.
#[test]
fn of_nothing_but_short_threads() -> Result<()> {
    let measured = measure(&["-e", "cpu-clock"], &["spawn-only", "--seconds", "3"])?;
    let total = measured.process()?.total("cpu-clock")?;
    assert!(total.sampled <= total.count, "{total:?}");
    let count = total.count.cast_unsigned();
    assert_near("weights of the count", total.sampled, count, Bounds::percent(ALLOWED_PERCENT));
    Ok(())
}
