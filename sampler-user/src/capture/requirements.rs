//! What the machine must have and the user must be allowed, looked at before anything is set up.

use super::btf::VMLINUX_BTF;
use super::error::CaptureError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::PathBuf;
use std::{fs, io};

/// The oldest kernel supported: BPF cookies for perf events came with it.
const OLDEST_KERNEL: (u32, u32) = (5, 15);

/// Inode of the initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h, v3.8 to v6.18).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Bit numbers of capabilities (include/uapi/linux/capability.h).
const CAPABILITIES: [(&str, u32); 2] = [("CAP_PERFMON", 38), ("CAP_BPF", 39)];
const CAP_SYS_ADMIN: u32 = 21;

/// Checks what can be checked beforehand, so that the message names the cause and not a symptom.
///
/// # Errors
/// [`CaptureError::KernelTooOld`], [`NoBtf`](CaptureError::NoBtf),
/// [`NotPermitted`](CaptureError::NotPermitted), [`LockedDown`](CaptureError::LockedDown),
/// [`PidNamespace`](CaptureError::PidNamespace).
pub fn check() -> Result<(), CaptureError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    check_kernel(&release)?;
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|source| CaptureError::Machine { what: "/proc/self/status".to_owned(), source })?;
    check_capabilities(&status)?;
    check_lockdown(&fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default())?;
    fs::metadata(VMLINUX_BTF)
        .map_err(|source| CaptureError::NoBtf { path: PathBuf::from(VMLINUX_BTF), source })?;
    check_pid_namespace(fs::read_link("/proc/self/ns/pid"))
}

/// Allows this process as many file descriptors as it may have: there is one an event and CPU.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Refused only when it is no change; then opening says what is missing.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn check_kernel(release: &str) -> Result<(), CaptureError> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < OLDEST_KERNEL => {
            Err(CaptureError::KernelTooOld { release: release.to_owned() })
        }
        // A release that can't be read is not refused: the kernel will say what it lacks.
        _ => Ok(()),
    }
}

fn check_capabilities(status: &str) -> Result<(), CaptureError> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let Some(effective) = effective else { return Ok(()) };
    let has = |bit: u32| effective & (1 << bit | 1 << CAP_SYS_ADMIN) != 0;
    let missing: Vec<&str> =
        CAPABILITIES.iter().filter(|&&(_, bit)| !has(bit)).map(|&(name, _)| name).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(CaptureError::NotPermitted { missing: missing.join(" and ") })
    }
}

/// The file lists the modes and brackets the one in force.
fn check_lockdown(lockdown: &str) -> Result<(), CaptureError> {
    if lockdown.contains("[confidentiality]") {
        Err(CaptureError::LockedDown { mode: "confidentiality".to_owned() })
    } else {
        Ok(())
    }
}

fn check_pid_namespace(namespace: io::Result<PathBuf>) -> Result<(), CaptureError> {
    match namespace {
        Ok(link) if link.as_os_str() != INITIAL_PID_NAMESPACE => Err(CaptureError::PidNamespace),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_before_5_15_are_refused() {
        for old in ["4.19.0", "5.10.0-32-cloud-arm64", "5.14.21"] {
            let error = check_kernel(old).unwrap_err().to_string();
            assert!(error.contains(old) && error.contains("5.15"), "{error}");
        }
        for new in ["5.15.0", "6.1.0-9", "6.18.44-custom", "7.3", "unreadable"] {
            assert!(check_kernel(new).is_ok(), "{new}");
        }
    }

    #[test]
    fn each_missing_capability_is_named() {
        let missing = |mask: &str| match check_capabilities(&format!("Name:\tx\nCapEff:\t{mask}\n"))
        {
            Ok(()) => String::new(),
            Err(CaptureError::NotPermitted { missing }) => missing,
            Err(other) => panic!("{other}"),
        };
        assert_eq!(missing("0000000000000000"), "CAP_PERFMON and CAP_BPF");
        assert_eq!(missing("0000004000000000"), "CAP_BPF");
        assert_eq!(missing("0000008000000000"), "CAP_PERFMON");
        assert_eq!(missing("000000c000000000"), "");
        assert_eq!(missing("0000000000200000"), "", "CAP_SYS_ADMIN stands for both");
    }

    #[test]
    fn only_confidentiality_forbids_reading() {
        assert!(check_lockdown("none [integrity] confidentiality").is_ok());
        assert!(check_lockdown("none integrity [confidentiality]").is_err());
    }

    #[test]
    fn another_pid_namespace_is_refused() {
        assert!(check_pid_namespace(Ok(PathBuf::from(INITIAL_PID_NAMESPACE))).is_ok());
        assert!(check_pid_namespace(Ok(PathBuf::from("pid:[4026532000]"))).is_err());
    }
}
