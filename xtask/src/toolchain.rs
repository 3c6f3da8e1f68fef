//! The Rust that compiles for BPF, and the linker it needs.
//!
//! Two kinds are supported: Debian's `rustc-web`, which ships `core` for the BPF targets, and
//! rustup's nightly with `rust-src`, which builds it. This module finds and describes them; it
//! installs nothing (see `setup`) and knows no crate (see `ebpf`).

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use cargo_metadata::semver::Version;

use crate::process::{find_program, output, search_path};

/// The one target: what it gives runs on every little-endian architecture.
pub const TARGET: &str = "bpfel-unknown-none";

/// The oldest bpf-linker that works, and the one that `setup` installs.
pub const BPF_LINKER_VERSION: Version = Version::new(0, 13, 0);

const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_RUSTLIB: &str = "/usr/lib/rustlib";

/// What `cargo xtask` (a rustup proxy, then `cargo run`) leaves in the environment, and what a
/// developer may have set for stable Rust: another toolchain must see none of it.
const FOREIGN_ENV: [&str; 14] = [
    "CARGO",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "LD_LIBRARY_PATH",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "RUST_RECURSION_COUNT",
];

/// A Rust that compiles for BPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// Debian's packages `rustc-web`, `cargo-web` and `libstd-rust-web-dev-bpf`.
    Debian,
    /// rustup's toolchain `nightly` with the component `rust-src`.
    Nightly,
}

impl Toolchain {
    /// The one to use here, if there is any; Debian's first, since it takes no time to ask for.
    pub fn detect() -> Option<Self> {
        if debian_is_complete() {
            Some(Self::Debian)
        } else if nightly_has_source() {
            Some(Self::Nightly)
        } else {
            None
        }
    }

    /// The same, or an error that says what to do.
    pub fn require() -> Result<Self> {
        Self::detect().context("there is no Rust for BPF here: run `cargo xtask setup`")
    }

    /// This toolchain's cargo for a build of the BPF target with `rustflags`. The folder to run it
    /// in and the packages to build are the caller's to add.
    pub fn cargo(self, subcommand: &str, rustflags: &[String]) -> Result<Command> {
        let mut command = match self {
            Self::Debian => Command::new(DEBIAN_CARGO),
            Self::Nightly => Command::new("rustup"),
        };
        scrub(&mut command);
        match self {
            // The programs use unstable intrinsics, and clippy's driver is named by no variable.
            Self::Debian => {
                command.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1").arg(subcommand)
            }
            Self::Nightly => {
                command.args(["run", "nightly", "cargo", subcommand, "-Zbuild-std=core"])
            }
        };
        command
            .env("PATH", self.path()?)
            .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\x1f"))
            .args(["--target", TARGET]);
        Ok(command)
    }

    /// Whether it has clippy.
    pub fn has_clippy(self) -> bool {
        match self {
            Self::Debian => {
                Path::new("/usr/bin/cargo-clippy").exists()
                    && Path::new("/usr/bin/clippy-driver").exists()
            }
            Self::Nightly => output(&mut nightly(&["cargo", "clippy", "--version"])).is_ok(),
        }
    }

    /// The compiler and the linker with their versions, to tell later what made an object.
    pub fn versions(self) -> Result<String> {
        let rustc = match self {
            Self::Debian => output(scrub(&mut Command::new(DEBIAN_RUSTC)).arg("--version"))?,
            Self::Nightly => output(&mut nightly(&["rustc", "--version"]))?,
        };
        let linker = bpf_linker_version().context("bpf-linker is not here or does not start")?;
        Ok(format!("{rustc}, bpf-linker {linker}"))
    }

    /// The folder of the standard library's sources, as the compiler writes it into an object.
    pub fn sysroot(self) -> Result<PathBuf> {
        match self {
            Self::Debian => Ok(PathBuf::from("/usr")),
            Self::Nightly => {
                output(&mut nightly(&["rustc", "--print", "sysroot"])).map(PathBuf::from)
            }
        }
    }

    /// `PATH` with bpf-linker on it. Debian's cargo finds its subcommands by `PATH` and would
    /// otherwise take rustup's proxies for them.
    fn path(self) -> Result<OsString> {
        let path = search_path()?;
        let first = match self {
            Self::Debian => Some(PathBuf::from("/usr/bin")),
            Self::Nightly => None,
        };
        let dirs = first.into_iter().chain(env::split_paths(&path));
        env::join_paths(dirs).context("could not extend PATH")
    }
}

/// The version of the bpf-linker here; `None` if there is none, or it can't start (it is linked
/// against one version of LLVM's library).
pub fn bpf_linker_version() -> Option<Version> {
    let program = find_program("bpf-linker")?;
    parse_version(&output(Command::new(program).arg("--version")).ok()?)
}

/// `bpf-linker 0.13.0` → 0.13.0.
fn parse_version(line: &str) -> Option<Version> {
    line.split_whitespace().find_map(|word| Version::parse(word).ok())
}

fn debian_is_complete() -> bool {
    Path::new(DEBIAN_CARGO).exists()
        && Path::new(DEBIAN_RUSTC).exists()
        && has_core(Path::new(DEBIAN_RUSTLIB))
}

/// Debian's `rustc` without `core` for BPF is there far more often than with it.
fn has_core(rustlib: &Path) -> bool {
    let Ok(files) = fs::read_dir(rustlib.join(TARGET).join("lib")) else { return false };
    files
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .any(|name| name.starts_with("libcore-") && name.ends_with(".rlib"))
}

fn nightly_has_source() -> bool {
    let sysroot = output(&mut nightly(&["rustc", "--print", "sysroot"]));
    sysroot.is_ok_and(|sysroot| {
        Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/src/lib.rs").exists()
    })
}

/// A tool of rustup's nightly, never installing it on the way.
fn nightly(args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    scrub(&mut command).env("RUSTUP_AUTO_INSTALL", "0").args(["run", "nightly"]).args(args);
    command
}

fn scrub(command: &mut Command) -> &mut Command {
    for name in FOREIGN_ENV {
        command.env_remove(name);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_in_what_the_linker_prints() {
        assert_eq!(parse_version("bpf-linker 0.13.0"), Some(Version::new(0, 13, 0)));
        assert_eq!(parse_version("bpf-linker 0.14.1\n"), Some(Version::new(0, 14, 1)));
        assert_eq!(parse_version("command not found"), None);
    }

    #[test]
    fn debian_without_core_for_bpf_is_not_enough() {
        let rustlib = tempfile::tempdir().unwrap();
        assert!(!has_core(rustlib.path()));
        let lib = rustlib.path().join(TARGET).join("lib");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("liballoc-216f9b299ea3c956.rlib"), b"").unwrap();
        assert!(!has_core(rustlib.path()));
        fs::write(lib.join("libcore-8056e5e5b270ef4d.rlib"), b"").unwrap();
        assert!(has_core(rustlib.path()));
    }
}
