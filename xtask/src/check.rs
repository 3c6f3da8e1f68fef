//! `cargo xtask check`: formatting, lints, documentation, and the checked-in BPF object.
//!
//! Every check is run even if an earlier one fails, so that one run shows all there is to repair.
//! No test is run here.

use anyhow::{Result, bail};

use crate::ebpf::{self, FLAGS, PACKAGE};
use crate::process::{run as run_command, say};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

type Check = fn(&Workspace) -> Result<()>;

const CHECKS: [(&str, Check); 5] = [
    ("formatting", formatting),
    ("lints", lints),
    ("lints of the BPF programs", bpf_lints),
    ("documentation", documentation),
    ("checked-in BPF object", ebpf::check),
];

/// Runs every check, and fails if any does.
pub fn run(workspace: &Workspace) -> Result<()> {
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        if let Err(error) = check(workspace) {
            say(&format!("error: {name}: {error:#}"));
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("failed checks: {}", failed.join(", "));
    }
    say("all checks passed");
    Ok(())
}

fn formatting(workspace: &Workspace) -> Result<()> {
    run_command(workspace.cargo("fmt").args(["--all", "--check"]))
}

fn lints(workspace: &Workspace) -> Result<()> {
    let args = ["--all-targets", "--keep-going", "--locked", "--", "-Dwarnings"];
    run_command(workspace.cargo("clippy").args(args))
}

/// By the compiler for BPF, whose clippy not everybody has installed; its own warnings count in
/// any case. In a folder of its own, so that the flag does not rebuild what `build-ebpf` built.
fn bpf_lints(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::require()?;
    let subcommand = if toolchain.has_clippy() { "clippy" } else { "check" };
    let mut flags = FLAGS.map(str::to_owned).to_vec();
    flags.push("-Dwarnings".to_owned());
    let mut command = toolchain.cargo(subcommand, &flags)?;
    command.args(["--release", "--locked", "--package", PACKAGE]);
    command
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", workspace.target.join("bpf-check"));
    run_command(&mut command)
}

fn documentation(workspace: &Workspace) -> Result<()> {
    let args = ["--no-deps", "--document-private-items", "--locked"];
    run_command(workspace.cargo("doc").args(args).env("RUSTDOCFLAGS", "-Dwarnings"))
}
