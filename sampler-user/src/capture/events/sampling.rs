//! How often each event of a session is sampled.

use super::EventError;
use crate::model::event::{Event, Sampling, Source};

/// Samples a second when nothing is said: not a multiple of anything that happens regularly.
pub const DEFAULT_HZ: u64 = 999;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingRequest {
    /// Counting only.
    None,
    /// 999 samples a second, or as many as the kernel allows if that is less.
    Default,
    /// A sample every so many events.
    Period(u64),
    /// So many samples a second.
    Frequency(u64),
}

/// Has each event sampled as asked for, unless it can't be. The kernel allows `max_hz` samples a
/// second.
///
/// # Errors
/// When the request is 0 or more than the kernel allows, or the first event can't be sampled.
pub fn resolve(
    events: &mut [Event],
    request: SamplingRequest,
    max_hz: u64,
) -> Result<(), EventError> {
    let sampling = match request {
        SamplingRequest::None => return Ok(()),
        SamplingRequest::Default => Sampling::Frequency(DEFAULT_HZ.min(max_hz)),
        SamplingRequest::Period(0) => return Err(EventError::ZeroPeriod),
        SamplingRequest::Period(period) => Sampling::Period(period),
        SamplingRequest::Frequency(0) => return Err(EventError::ZeroFrequency),
        SamplingRequest::Frequency(hz) if hz > max_hz => {
            return Err(EventError::FrequencyTooHigh { hz, most: max_hz });
        }
        SamplingRequest::Frequency(hz) => Sampling::Frequency(hz),
    };
    if let Some(first) = events.first()
        && !can_sample(first)
    {
        return Err(EventError::CannotSample { name: first.name.clone() });
    }
    for event in events.iter_mut().filter(|event| can_sample(event)) {
        event.sampling = sampling;
    }
    Ok(())
}

/// It has an overflow. What is counted at the switch itself has none.
fn can_sample(event: &Event) -> bool {
    !matches!(event.source, Source::Switches | Source::Migrations)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn resolved(list: &str, request: SamplingRequest) -> Result<Vec<Sampling>, EventError> {
        let mut events = parse(&[list], 8).unwrap();
        resolve(&mut events, request, 1000)?;
        Ok(events.into_iter().map(|event| event.sampling).collect())
    }

    #[test]
    fn every_event_samples_that_can() {
        assert_eq!(
            resolved("cycles,cs,faults", SamplingRequest::Period(7)).unwrap(),
            [Sampling::Period(7), Sampling::Off, Sampling::Period(7)]
        );
        assert_eq!(resolved("cs", SamplingRequest::None).unwrap(), [Sampling::Off]);
    }

    #[test]
    fn the_kernels_limit_is_named_and_kept() {
        assert_eq!(
            resolved("cycles", SamplingRequest::Default).unwrap(),
            [Sampling::Frequency(999)]
        );
        assert_eq!(
            resolved("cycles", SamplingRequest::Frequency(1000)).unwrap(),
            [Sampling::Frequency(1000)]
        );
        let error = resolved("cycles", SamplingRequest::Frequency(1001)).unwrap_err().to_string();
        assert!(error.contains("kernel.perf_event_max_sample_rate") && error.contains("1000"));
    }

    #[test]
    fn nothing_is_clamped() {
        for request in [SamplingRequest::Period(0), SamplingRequest::Frequency(0)] {
            assert!(resolved("cycles", request).is_err());
        }
        let error = resolved("cs,cycles", SamplingRequest::Default).unwrap_err().to_string();
        assert!(error.contains("put one first that can"), "{error}");
    }
}
