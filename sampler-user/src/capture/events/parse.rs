//! Lists of events.

use super::EventError;
use super::names::{Generic, find, near};
use crate::model::event::{Event, Sampling, Source, Unit};
use perf_event_open_sys::bindings::PERF_TYPE_RAW;

/// Reads lists such as `cycles:u,r1a8`, one an occurrence of the option; at most `most` events in
/// all. None of them samples yet.
///
/// # Errors
/// When a name is unknown or given twice, or has a modifier that makes no sense for it.
pub fn parse<S: AsRef<str>>(lists: &[S], most: usize) -> Result<Vec<Event>, EventError> {
    let mut events: Vec<Event> = Vec::new();
    for list in lists.iter().map(AsRef::as_ref) {
        for name in list.split(',') {
            if name.is_empty() {
                return Err(EventError::Empty { list: list.to_owned() });
            }
            let event = parse_one(name)?;
            if events.iter().any(|other| other.name == event.name) {
                return Err(EventError::Twice { name: event.name });
            }
            events.push(event);
        }
    }
    if events.len() > most {
        return Err(EventError::TooMany { count: events.len(), most });
    }
    Ok(events)
}

fn parse_one(text: &str) -> Result<Event, EventError> {
    let (name, modifier) = text.split_once(':').unwrap_or((text, ""));
    let (source, unit, perf_type, config) = match find(name) {
        Some(Generic { perf_type, config, source, unit }) => {
            (source, unit, perf_type, u64::from(config))
        }
        None => (Source::Counter, Unit::Events, PERF_TYPE_RAW, raw(name)?),
    };
    let (exclude_user, exclude_kernel) = excluded(text, modifier)?;
    if exclude_kernel && matches!(source, Source::Switches | Source::Migrations) {
        return Err(EventError::KernelOnly { name: text.to_owned() });
    }
    Ok(Event {
        name: text.to_owned(),
        unit,
        source,
        sampling: Sampling::Off,
        perf_type,
        config,
        exclude_user,
        exclude_kernel,
    })
}

/// The number in `rHEX`.
fn raw(name: &str) -> Result<u64, EventError> {
    let unknown = || EventError::Unknown { name: name.to_owned(), near: near(name) };
    let digits = name.strip_prefix('r').ok_or_else(unknown)?;
    let is_digit = |c: char| c.is_ascii_hexdigit();
    // `from_str_radix` would also take a sign.
    if digits.chars().all(is_digit)
        && let Ok(config) = u64::from_str_radix(digits, 16)
    {
        return Ok(config);
    }
    // A name that was misspelt, such as `ref-cycle`, may start like a raw event.
    if digits.starts_with(is_digit) && near(name).is_empty() {
        return Err(EventError::Raw { name: name.to_owned() });
    }
    Err(unknown())
}

/// Which of user space and the kernel is left out. Both letters, or none, mean both are counted.
fn excluded(text: &str, modifier: &str) -> Result<(bool, bool), EventError> {
    let known = modifier.chars().all(|c| matches!(c, 'u' | 'k'));
    if !known || text.ends_with(':') {
        let (name, modifier) = (text.to_owned(), modifier.to_owned());
        return Err(EventError::Modifier { name, modifier });
    }
    let (user, kernel) = (modifier.contains('u'), modifier.contains('k'));
    Ok((kernel && !user, user && !kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Event, EventError> {
        parse(&[text], 8).map(|mut events| events.remove(0))
    }

    #[test]
    fn names_and_aliases_are_the_kernels() {
        // Numbers of include/uapi/linux/perf_event.h.
        for (name, perf_type, config) in [
            ("cycles", 0, 0),
            ("cpu-cycles", 0, 0),
            ("instructions", 0, 1),
            ("branch-misses", 0, 5),
            ("ref-cycles", 0, 9),
            ("cpu-clock", 1, 0),
            ("task-clock", 1, 1),
            ("faults", 1, 2),
            ("cs", 1, 3),
            ("migrations", 1, 4),
            ("minor-faults", 1, 5),
            ("major-faults", 1, 6),
            ("r1a8", 4, 0x1a8),
            ("rFFFFFFFFFFFFFFFF", 4, u64::MAX),
            // Digits alone, though they look like `ref-cycles`.
            ("ref", 4, 0xef),
            ("refc", 4, 0xefc),
        ] {
            let event = one(name).unwrap();
            assert_eq!((event.perf_type, event.config), (perf_type, config), "{name}");
            assert_eq!(event.name, name);
        }
    }

    #[test]
    fn modifiers_leave_out_the_other_side() {
        for (name, exclude_user, exclude_kernel) in [
            ("cycles", false, false),
            ("cycles:u", false, true),
            ("cycles:k", true, false),
            ("cycles:uk", false, false),
            ("cycles:ku", false, false),
        ] {
            let event = one(name).unwrap();
            assert_eq!((event.exclude_user, event.exclude_kernel), (exclude_user, exclude_kernel));
        }
        for bad in ["cycles:", "cycles:x", "cycles:u:k"] {
            assert!(matches!(one(bad), Err(EventError::Modifier { .. })), "{bad}");
        }
        assert!(matches!(one("cs:u"), Err(EventError::KernelOnly { .. })));
        assert!(one("cs:k").is_ok());
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let message = |text| one(text).unwrap_err().to_string();
        assert_eq!(message("cylces"), "there is no event \"cylces\"; did you mean cycles?");
        assert!(message("instuctions").contains("did you mean instructions"));
        assert!(message("quux").contains("--help"));
        assert!(message("rxyz").contains("there is no event"));
        assert!(message("r").contains("there is no event"));
        assert!(message("ref-cycle").contains("did you mean ref-cycles"));
        assert!(message("r12g").contains("hexadecimal"));
        assert!(message("r12345678901234567").contains("hexadecimal"));
        assert!(message("cycles,").contains("missing"));
        assert_eq!(message("cs,cs"), "event \"cs\" is given twice");
    }

    #[test]
    fn lists_add_up_to_a_limit() {
        assert_eq!(parse(&["cycles,cs", "faults"], 3).unwrap().len(), 3);
        assert_eq!(
            parse(&["cycles,cs", "faults"], 2),
            Err(EventError::TooMany { count: 3, most: 2 })
        );
    }
}
