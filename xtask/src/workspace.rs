//! The workspace's folders, and cargo as it is run on it.
//!
//! Does not know the BPF toolchain, which has its own cargo: see `toolchain`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use cargo_metadata::MetadataCommand;

/// Where the workspace and what is built from it lie; both paths are absolute.
pub struct Workspace {
    /// The folder of the top `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's target folder, wherever `CARGO_TARGET_DIR` or a configuration puts it.
    pub target: PathBuf,
}

impl Workspace {
    /// Asks cargo about the workspace around the current folder.
    pub fn find() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("could not ask cargo where the workspace lies")?;
        Ok(Self { root: metadata.workspace_root.into(), target: metadata.target_directory.into() })
    }

    /// The cargo that runs this xtask, to be run at the top of the workspace.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target).arg(subcommand);
        command
    }

    /// Where the checked-in BPF object and the record of its sources lie.
    pub fn prebuilt(&self) -> PathBuf {
        self.root.join("sampler-ebpf/prebuilt")
    }

    /// Where release builds of this workspace's programs lie.
    pub fn release(&self) -> PathBuf {
        self.target.join("release")
    }

    /// `path` as it reads from the top of the workspace.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}
