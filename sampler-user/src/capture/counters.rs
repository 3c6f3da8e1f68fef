//! The events of a session on each CPU: what the programs read at a switch, and what interrupts to
//! sample. File descriptors grow with CPUs × events, never with threads.

use super::bpf::Programs;
use super::error::CaptureError;
use super::ring::{Purpose, Ring, output_attr};
use super::sys;
use crate::model::event::{Event, Sampling, Source};
use perf_event_open_sys::bindings::{PERF_TYPE_SOFTWARE, perf_event_attr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The open events. They are closed, and the programs detached, when this is dropped.
#[derive(Debug, Default)]
pub struct Counters {
    events: Vec<OwnedFd>,
    links: Vec<OwnedFd>,
}

impl Counters {
    /// Opens every event that needs it on every CPU, stopped; `lives` are the CPUs' rings for what
    /// happens to events. An event other than the
    /// first that can be counted but not sampled has its sampling turned off in `events`.
    ///
    /// # Errors
    /// When this machine has no such event, or the kernel refuses it; with the reason.
    pub fn open(
        programs: &Programs,
        events: &mut [Event],
        lives: &[(u32, Ring)],
    ) -> Result<Self, CaptureError> {
        let mut counters = Self::default();
        for (index, event) in events.iter_mut().enumerate() {
            for (cpu, ring) in lives {
                let Some(fd) = open_on_cpu(event, index == 0, *cpu)? else { break };
                if event.source == Source::Counter {
                    sys::set_map_fd(programs.counters_map(index)?, *cpu, fd.as_fd()).map_err(
                        |source| CaptureError::Map {
                            action: "add an event to",
                            map: "COUNTERS",
                            source,
                        },
                    )?;
                }
                if event.sampling != Sampling::Off {
                    counters.sample(programs, event, index, *cpu, &fd, ring)?;
                }
                counters.events.push(fd);
            }
        }
        Ok(counters)
    }

    fn sample(
        &mut self,
        programs: &Programs,
        event: &Event,
        index: usize,
        cpu: u32,
        fd: &OwnedFd,
        ring: &Ring,
    ) -> Result<(), CaptureError> {
        let link = sys::attach_to_event(programs.overflow_program()?, fd.as_fd(), index as u64)
            .map_err(|source| refused(event, cpu, source))?;
        self.links.push(link);
        sys::redirect_records(fd.as_fd(), ring.as_fd())
            .map_err(|source| CaptureError::Output { cpu, source })
    }

    /// Starts them all.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&self) -> Result<(), CaptureError> {
        for event in &self.events {
            sys::enable_event(event.as_fd()).map_err(|source| CaptureError::Machine {
                what: "an event: it can't be started".to_owned(),
                source,
            })?;
        }
        Ok(())
    }
}

/// `None` for an event that needs none: it is counted by the programs and not sampled.
fn open_on_cpu(
    event: &mut Event,
    must_sample: bool,
    cpu: u32,
) -> Result<Option<OwnedFd>, CaptureError> {
    let needs_none = event.source != Source::Counter && event.sampling == Sampling::Off;
    if needs_none {
        return Ok(None);
    }
    match sys::open_event_on_cpu(&mut attr(event), cpu) {
        Ok(fd) => Ok(Some(fd)),
        Err(error) if !must_sample && event.sampling != Sampling::Off && cannot_sample(&error) => {
            event.sampling = Sampling::Off;
            open_on_cpu(event, false, cpu)
        }
        Err(error) => Err(refused(event, cpu, error)),
    }
}

fn attr(event: &Event) -> perf_event_attr {
    // Records about the event, such as that it was throttled, go to the CPU's ring: they have to be
    // laid out and timed like the ring's own.
    let ring = output_attr(Purpose::Lives);
    let mut attr = perf_event_attr {
        type_: event.perf_type,
        config: event.config,
        sample_type: ring.sample_type,
        clockid: ring.clockid,
        ..Default::default()
    };
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.set_disabled(1);
    attr.set_exclude_user(event.exclude_user.into());
    attr.set_exclude_kernel(event.exclude_kernel.into());
    attr.set_exclude_hv(event.exclude_kernel.into());
    // An idle CPU need not be woken for samples that nobody wants. Hardware may not offer it.
    attr.set_exclude_idle((event.perf_type == PERF_TYPE_SOFTWARE).into());
    match event.sampling {
        Sampling::Off => {}
        Sampling::Period(period) => attr.__bindgen_anon_1.sample_period = period,
        Sampling::Frequency(hz) => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = hz;
        }
    }
    attr
}

/// The kernel's answers for an event that counts but has no overflow interrupt.
fn cannot_sample(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

fn refused(event: &Event, cpu: u32, source: io::Error) -> CaptureError {
    let event_name = event.name.clone();
    let reason = match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP | libc::EINVAL) => {
            let hint = if event.perf_type == PERF_TYPE_SOFTWARE {
                ""
            } else {
                "; virtual machines often have no hardware counters: try -e cpu-clock"
            };
            return CaptureError::EventUnsupported { event: event_name, hint, source };
        }
        Some(libc::EACCES | libc::EPERM) => format!(
            "not permitted; it needs CAP_PERFMON, or kernel.perf_event_paranoid (now {}) at 0 or less",
            sysctl("perf_event_paranoid")
        ),
        Some(libc::EMFILE) => {
            "too many open files; raise the limit with `ulimit -n`, or measure fewer events"
                .to_owned()
        }
        Some(libc::ENFILE) => "too many open files in the system; raise fs.file-max".to_owned(),
        Some(libc::EBUSY) => {
            "the counter is in use, by another profiler or the NMI watchdog (kernel.nmi_watchdog)"
                .to_owned()
        }
        Some(libc::ENOSPC) => "there are no more counters; measure fewer events".to_owned(),
        _ => "the kernel refuses it".to_owned(),
    };
    CaptureError::EventRefused { event: event_name, cpu, reason, source }
}

fn sysctl(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}"))
        .map_or_else(|_| "unknown".to_owned(), |value| value.trim().to_owned())
}
