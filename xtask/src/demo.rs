//! `cargo xtask demo`: records the built-in churn workload for a few seconds and prints the result.
//!
//! Needs stable Rust and the right to use BPF and perf events, no BPF toolchain: it runs the
//! checked-in object, as an installed sampler does.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process::{find_program, is_root, run as run_command, say};
use crate::workspace::Workspace;

/// `CAP_SYS_ADMIN`, `CAP_PERFMON` and `CAP_BPF` of `linux/capability.h`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Args {
    /// How long the workload runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// Builds sampler and the workload, and records one with the other.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    // Asked for first: nobody wants to wait for a build to be told.
    let mut sampler = privileged(&workspace.release().join("sampler"))?;
    let mut build = workspace.cargo("build");
    build.args(["--release", "--locked", "--package", "sampler-user", "--package"]);
    build.args(["sampler-tests", "--bin", "sampler", "--bin", "workload"]);
    run_command(build.env_remove("SAMPLER_BPF_OBJECT"))?;

    let recording = workspace.target.join("demo.data");
    sampler.arg("record").arg("-o").arg(&recording).arg("--");
    sampler.arg(workspace.release().join("workload"));
    sampler.args(["churn", "--now", "--seconds", &args.seconds.to_string()]);
    // There the workload tells tests what it did; sampler's own report is on standard error.
    run_command(sampler.stdout(Stdio::null()))?;
    say(&format!("look into the recording with `perf report -i {}`", recording.display()));
    Ok(())
}

/// `program` with the right to use BPF and perf events: its own, or the superuser's by `sudo`.
fn privileged(program: &Path) -> Result<Command> {
    if may_use_bpf()? {
        return Ok(Command::new(program));
    }
    if is_root() {
        bail!(
            "the superuser lacks CAP_BPF and CAP_PERFMON here, as in a container: run it outside, \
             or give the container both"
        );
    }
    let Some(sudo) = find_program("sudo") else {
        bail!("recording needs CAP_BPF and CAP_PERFMON: run `cargo xtask demo` as root");
    };
    say("recording needs CAP_BPF and CAP_PERFMON: running sampler by sudo");
    let mut command = Command::new(sudo);
    command.arg(program);
    Ok(command)
}

/// Whether this process has what loading the programs and opening per-CPU events takes.
fn may_use_bpf() -> Result<bool> {
    let path = "/proc/self/status";
    let status = fs::read_to_string(path).with_context(|| format!("could not read {path}"))?;
    effective_capabilities(&status)
        .map(allow_bpf)
        .with_context(|| format!("{path} names no effective capabilities"))
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let digits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

fn allow_bpf(capabilities: u64) -> bool {
    let has = |capability: u32| capabilities & (1 << capability) != 0;
    has(CAP_SYS_ADMIN) || (has(CAP_PERFMON) && has(CAP_BPF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_as_the_kernel_prints_them() {
        let status = "Name:\tcat\nCapPrm:\t0000000000000000\nCapEff:\t000000c000000000\n";
        assert_eq!(effective_capabilities(status), Some((1 << 38) | (1 << 39)));
        assert_eq!(effective_capabilities("Name:\tcat\n"), None);
    }

    #[test]
    fn both_capabilities_or_the_old_one_are_needed() {
        assert!(allow_bpf((1 << CAP_PERFMON) | (1 << CAP_BPF)));
        assert!(allow_bpf(1 << CAP_SYS_ADMIN));
        assert!(!allow_bpf(1 << CAP_PERFMON));
        assert!(!allow_bpf(1 << CAP_BPF));
    }
}
