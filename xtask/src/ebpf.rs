//! `cargo xtask build-ebpf`: builds the BPF object from source, for `cargo build` to embed.
//!
//! One object serves all little-endian architectures: nothing in it depends on the architecture,
//! since field offsets come from the running kernel when it is loaded. The object names no path of
//! the machine that built it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::process::{run as run_command, say};
use crate::record::{self, Record};
use crate::strip::strip_debug;
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::Workspace;

/// The package with the BPF programs.
pub const PACKAGE: &str = "sampler-ebpf";

/// The object's name, in the target folder and where it is checked in.
pub const OBJECT: &str = "sampler.bpf.o";

/// How the programs are compiled. Any architecture would do for `bpf_target_arch`, which selects
/// bindings to registers and helpers: the programs use only what is the same on all. The processor
/// `v3` has the atomic operations with a result that the counting needs, whatever the linker's
/// default.
pub const FLAGS: [&str; 4] =
    ["--cfg=bpf_target_arch=\"x86_64\"", "-Cdebuginfo=2", "-Clink-arg=--btf", "-Ctarget-cpu=v3"];

/// Options of `build-ebpf`.
#[derive(clap::Args)]
pub struct Args {
    /// Build nothing; fail unless the checked-in object was built from the current sources
    #[arg(long)]
    check: bool,
}

/// Builds the object and checks it in, or only checks what is there.
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.check {
        return check(workspace);
    }
    let toolchain = Toolchain::require()?;
    // Taken first: a file that is edited during the build must not pass for what was built.
    let sources = Record::of_sources(workspace)?;
    let fresh = build(workspace, toolchain)?;
    let prebuilt = workspace.prebuilt();
    fs::create_dir_all(&prebuilt)
        .with_context(|| format!("could not create {}", prebuilt.display()))?;
    let object = prebuilt.join(OBJECT);
    copy_if_changed(&fs::read(&fresh)?, &object)?;
    sources.with_object(workspace)?.write(workspace, &toolchain.versions()?)?;
    say(&format!("{} is built from the current sources", workspace.relative(&object).display()));
    Ok(())
}

/// Fails unless the checked-in object was built from the current sources.
pub fn check(workspace: &Workspace) -> Result<()> {
    record::verify(workspace).with_context(|| {
        format!(
            "the checked-in {OBJECT} is not the one that the current sources give: run `cargo \
             xtask build-ebpf` and commit"
        )
    })
}

/// Builds the object from source into the target folder, and returns its absolute path.
pub fn build(workspace: &Workspace, toolchain: Toolchain) -> Result<PathBuf> {
    let target = workspace.target.join("bpf");
    let mut flags = FLAGS.map(str::to_owned).to_vec();
    flags.extend(remapped_paths(workspace, toolchain)?);
    let mut command = toolchain.cargo("build", &flags)?;
    command.args(["--release", "--locked", "--package", PACKAGE]);
    run_command(command.current_dir(&workspace.root).env("CARGO_TARGET_DIR", &target))?;

    let linked = target.join(TARGET).join("release/sampler");
    let data = fs::read(&linked).with_context(|| format!("could not read {}", linked.display()))?;
    let stripped = strip_debug(&data)
        .with_context(|| format!("could not remove debug information from {}", linked.display()))?;
    let object = target.join(OBJECT);
    copy_if_changed(&stripped, &object)?;
    Ok(object)
}

/// Flags that keep this machine's paths out of the object, and with them its differences from one
/// built elsewhere.
fn remapped_paths(workspace: &Workspace, toolchain: Toolchain) -> Result<Vec<String>> {
    let mut prefixes: BTreeSet<(PathBuf, &str)> = record::registry_folders(workspace)?
        .into_iter()
        .map(|folder| (folder, "registry"))
        .collect();
    prefixes.insert((workspace.root.clone(), "."));
    prefixes.insert((toolchain.sysroot()?.join("lib/rustlib/src/rust"), "rust"));
    let flag =
        |(from, to): &(PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    Ok(prefixes.iter().map(flag).collect())
}

/// An unchanged file keeps its time stamp, so that cargo does not rebuild what embeds it.
fn copy_if_changed(data: &[u8], path: &Path) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == data) {
        return Ok(());
    }
    fs::write(path, data).with_context(|| format!("could not write {}", path.display()))
}
