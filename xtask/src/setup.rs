//! `cargo xtask setup`: installs what building the BPF programs and running the tests needs.
//!
//! What is there is found by looking for what is used, not for packages, so that it makes no
//! difference where it came from. On Debian the missing is installed; elsewhere it is named. Plain
//! `cargo build` and `cargo xtask demo` need none of it.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{find_program, is_root, output, run as run_command, say};
use crate::toolchain::{BPF_LINKER_VERSION, Toolchain, bpf_linker_version};
use crate::workspace::Workspace;

/// Where Debian's `llvm-22-dev` lies: the LLVM of its `rustc-web`.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

/// Something that must be there.
struct Need {
    what: &'static str,
    is_here: fn(&Workspace) -> bool,
    /// The Debian packages that it, or building it, takes.
    packages: &'static [&'static str],
    /// What is to be done once the packages are there.
    install: Option<fn(&Workspace) -> Result<()>>,
    /// How to get it where there are no such packages.
    elsewhere: &'static str,
}

static NEEDS: [Need; 6] = [
    Need {
        what: "Rust for BPF",
        is_here: |_| Toolchain::detect().is_some(),
        packages: &["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"],
        install: None,
        elsewhere: "rustup toolchain install nightly --component rust-src",
    },
    Need {
        what: "clippy for BPF",
        is_here: |_| Toolchain::detect().is_some_and(Toolchain::has_clippy),
        packages: &["rust-web-clippy"],
        install: None,
        elsewhere: "rustup component add --toolchain nightly clippy",
    },
    Need {
        what: "bpf-linker",
        is_here: |_| bpf_linker_version().is_some_and(|version| version >= BPF_LINKER_VERSION),
        packages: &["llvm-22-dev"],
        install: Some(install_bpf_linker),
        elsewhere: "cargo install bpf-linker (its README says which LLVM that takes)",
    },
    Need {
        what: "rustfmt and clippy",
        is_here: has_rustfmt_and_clippy,
        packages: &[],
        install: Some(install_rustfmt_and_clippy),
        elsewhere: "rustup component add rustfmt clippy",
    },
    Need {
        what: "perf",
        is_here: |_| find_program("perf").is_some(),
        packages: &["linux-perf"],
        install: None,
        elsewhere: "the distribution's package of `perf`, often linux-tools",
    },
    Need {
        what: "bpftool",
        is_here: |_| find_program("bpftool").is_some(),
        packages: &["bpftool"],
        install: None,
        elsewhere: "the distribution's package of `bpftool`",
    },
];

/// Installs what is missing; under a second when nothing is.
pub fn run(workspace: &Workspace) -> Result<()> {
    let before = missing(workspace);
    if before.is_empty() {
        say(&format!("setup: everything is here ({})", names(&NEEDS.each_ref())));
        return Ok(());
    }
    say(&format!("setup: missing: {}", names(&before)));
    if !is_debian() {
        bail!("setup installs Debian's packages only; here, install\n{}", ways(&before));
    }
    install_packages(&before)?;
    for install in before.iter().filter_map(|need| need.install) {
        install(workspace)?;
    }
    let after = missing(workspace);
    if !after.is_empty() {
        bail!("still missing after setup:\n{}", ways(&after));
    }
    say(&format!("setup: installed {}", names(&before)));
    Ok(())
}

fn missing(workspace: &Workspace) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.is_here)(workspace)).collect()
}

fn names(needs: &[&Need]) -> String {
    needs.iter().map(|need| need.what).collect::<Vec<_>>().join(", ")
}

fn ways(needs: &[&Need]) -> String {
    let way = |need: &&Need| format!("  {}: {}", need.what, need.elsewhere);
    needs.iter().map(way).collect::<Vec<_>>().join("\n")
}

/// Others have apt too, but not these packages.
fn is_debian() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    find_program("apt-get").is_some() && release.lines().any(|line| line == "ID=debian")
}

/// The package lists of a fresh image are empty, so they are fetched first.
fn install_packages(needs: &[&Need]) -> Result<()> {
    let packages: Vec<_> = needs.iter().flat_map(|need| need.packages).copied().collect();
    if packages.is_empty() {
        return Ok(());
    }
    let install = || {
        run_command(apt_get()?.arg("update"))?;
        let options = ["install", "--yes", "--no-install-recommends"];
        run_command(apt_get()?.args(options).args(&packages))
    };
    install().with_context(|| format!("could not install {}", packages.join(" ")))
}

fn apt_get() -> Result<Command> {
    let mut command = if is_root() {
        Command::new("env")
    } else {
        let sudo = find_program("sudo")
            .context("installing packages takes root, and there is no sudo: run it as root")?;
        let mut command = Command::new(sudo);
        command.arg("env");
        command
    };
    command.args([
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "--quiet",
        "-oDPkg::Lock::Timeout=300",
    ]);
    Ok(command)
}

/// By the workspace's own Rust, since it is an ordinary program; against the LLVM that the
/// compiler for BPF uses, for it reads what that one writes.
fn install_bpf_linker(workspace: &Workspace) -> Result<()> {
    let version = BPF_LINKER_VERSION.to_string();
    let mut command = workspace.cargo("install");
    command.args(["bpf-linker", "--locked", "--force", "--version", &version]);
    command.args(["--no-default-features", "--features", "llvm-22"]);
    // Cargo then builds in a folder that it removes afterwards.
    run_command(command.env("LLVM_PREFIX", LLVM_PREFIX).env_remove("CARGO_TARGET_DIR"))
}

fn has_rustfmt_and_clippy(workspace: &Workspace) -> bool {
    ["fmt", "clippy"].iter().all(|tool| output(workspace.cargo(tool).arg("--version")).is_ok())
}

fn install_rustfmt_and_clippy(_: &Workspace) -> Result<()> {
    run_command(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
}
