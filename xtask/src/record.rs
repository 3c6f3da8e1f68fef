//! What the checked-in BPF object was built from, and whether that is still so.
//!
//! The record lies beside the object and holds a SHA-256 of each source file and of the object
//! itself, in the format of `sha256sum` (which can check it), and as comments the compiler's flags
//! and the version of each crate whose code is in the object. Nothing else of `Cargo.lock` counts:
//! other parts of the workspace change their dependencies without a rebuild of the object.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind};
use sha2::{Digest as _, Sha256};

use crate::ebpf::{FLAGS, OBJECT, PACKAGE};
use crate::toolchain::TARGET;
use crate::workspace::Workspace;

/// The record's name, beside the object.
const FILE: &str = "sources.sha256";

/// Starts the line that tells which programs built the object. It is for the reader: another
/// compiler's object is as current.
const BUILT_BY: &str = "# built by: ";

/// One line a thing that the object depends on.
#[derive(Debug, PartialEq, Eq)]
pub struct Record(BTreeSet<String>);

impl Record {
    /// The record of the sources as they are now, without the object.
    pub fn of_sources(workspace: &Workspace) -> Result<Self> {
        let metadata = metadata(workspace)?;
        let mut lines = BTreeSet::from([format!("# flags: {}", FLAGS.join(" "))]);
        for package in packages(&metadata)? {
            if package.source.is_some() {
                lines.insert(format!("# crate: {} {}", package.name, package.version));
                continue;
            }
            for file in source_files(package)? {
                lines.insert(digest_line(workspace, &file)?);
            }
        }
        Ok(Self(lines))
    }

    /// The same with the checked-in object as it is now.
    pub fn with_object(mut self, workspace: &Workspace) -> Result<Self> {
        self.0.insert(digest_line(workspace, &workspace.prebuilt().join(OBJECT))?);
        Ok(self)
    }

    /// Writes the record beside the object, which `versions` have built.
    pub fn write(&self, workspace: &Workspace, versions: &str) -> Result<()> {
        let path = workspace.prebuilt().join(FILE);
        let mut text = format!(
            "# What {OBJECT} is built from. Written by `cargo xtask build-ebpf`.\n\
             {BUILT_BY}{versions}\n"
        );
        let mut lines: Vec<_> = self.0.iter().collect();
        lines.sort_by_key(|line| (!line.starts_with('#'), subject(line)));
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))
    }

    fn parse(text: &str) -> Self {
        let kept = text.lines().filter(|line| {
            !line.starts_with('#') || line.starts_with("# flags: ") || line.starts_with("# crate: ")
        });
        Self(kept.map(str::to_owned).collect())
    }

    /// The names of what differs between two records.
    fn differences(&self, other: &Self) -> BTreeSet<String> {
        self.0.symmetric_difference(&other.0).map(|line| subject(line)).collect()
    }
}

/// Fails, naming what differs, unless the record says what is there now.
pub fn verify(workspace: &Workspace) -> Result<()> {
    let path = workspace.prebuilt().join(FILE);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("could not read {}", workspace.relative(&path).display()))?;
    let current = Record::of_sources(workspace)?.with_object(workspace)?;
    let differences = Record::parse(&text).differences(&current);
    if !differences.is_empty() {
        bail!("{} changed", differences.into_iter().collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

/// The folders in which the sources of the object's crates lie, those of the workspace excepted.
pub fn registry_folders(workspace: &Workspace) -> Result<BTreeSet<PathBuf>> {
    let metadata = metadata(workspace)?;
    let folders = packages(&metadata)?
        .into_iter()
        .filter(|package| package.source.is_some())
        .filter_map(|package| Some(package.manifest_path.parent()?.parent()?.into()));
    Ok(folders.collect())
}

/// What a line of a record is about: a file, a crate, or the flags.
fn subject(line: &str) -> String {
    match line.strip_prefix("# ") {
        Some(comment) => comment.split(' ').take(2).collect::<Vec<_>>().join(" "),
        None => line.split_whitespace().last().unwrap_or(line).to_owned(),
    }
}

fn digest_line(workspace: &Workspace, file: &Path) -> Result<String> {
    let name = workspace.relative(file).display();
    let data = fs::read(file).with_context(|| format!("could not read {name}"))?;
    let digest: String = Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{digest}  {name}"))
}

/// The files that a crate of the workspace is compiled from.
fn source_files(package: &Package) -> Result<Vec<PathBuf>> {
    let manifest = package.manifest_path.clone().into_std_path_buf();
    let folder = manifest.parent().context("a manifest lies in a folder")?;
    let mut files = Vec::new();
    collect_files(&folder.join("src"), &mut files)?;
    let build_script = folder.join("build.rs");
    files.extend(build_script.exists().then_some(build_script));
    files.push(manifest);
    Ok(files)
}

/// Hidden files are editors', not sources.
fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let context = || format!("could not read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().with_context(context)?.is_dir() {
            collect_files(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn metadata(workspace: &Workspace) -> Result<Metadata> {
    let options = ["--locked", "--filter-platform", TARGET].map(str::to_owned).to_vec();
    MetadataCommand::new()
        .current_dir(&workspace.root)
        .other_options(options)
        .exec()
        .context("could not ask cargo for the dependencies")
}

/// The packages whose code is in the object: the BPF package and what it depends on.
fn packages(metadata: &Metadata) -> Result<Vec<&Package>> {
    let root = metadata.packages.iter().find(|package| package.name.as_str() == PACKAGE);
    let root = root.with_context(|| format!("the workspace has no package {PACKAGE}"))?;
    let resolve = metadata.resolve.as_ref().context("cargo named no dependencies")?;
    let mut graph = BTreeMap::new();
    for node in &resolve.nodes {
        let is_linked = |dep: &&cargo_metadata::NodeDep| {
            dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        };
        let deps = node.deps.iter().filter(is_linked).map(|dep| &dep.pkg).collect();
        graph.insert(&node.id, if is_macro(&metadata[&node.id]) { Vec::new() } else { deps });
    }
    Ok(closure(&graph, &root.id).into_iter().map(|id: &PackageId| &metadata[id]).collect())
}

/// A macro's own code decides what is in the object; what the macro is built with does not.
fn is_macro(package: &Package) -> bool {
    package.targets.iter().any(|target| target.kind.contains(&TargetKind::ProcMacro))
}

/// `root` and everything that can be reached from it.
fn closure<T: Ord + Copy>(graph: &BTreeMap<T, Vec<T>>, root: T) -> BTreeSet<T> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![root];
    while let Some(node) = pending.pop() {
        if reached.insert(node) {
            pending.extend(graph.get(&node).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closure_follows_shared_and_circular_edges_and_leaves_out_the_rest() {
        let graph = BTreeMap::from([
            ("ebpf", vec!["common", "aya-ebpf"]),
            ("aya-ebpf", vec!["bindings", "common"]),
            ("bindings", vec!["aya-ebpf"]),
            ("user", vec!["common", "tokio"]),
        ]);
        let expected = BTreeSet::from(["aya-ebpf", "bindings", "common", "ebpf"]);
        assert_eq!(closure(&graph, "ebpf"), expected);
    }

    #[test]
    fn differences_are_named_and_the_compiler_is_not_one() {
        let old = Record::parse(
            "# What it is built from.\n# built by: rustc 1\n# flags: -C a\n# crate: aya-ebpf 0.2.1\n\
             aa  src/main.rs\nbb  src/maps.rs\ncc  src/gone.rs\n",
        );
        let new = Record::parse(
            "# built by: rustc 2\n# flags: -C a\n# crate: aya-ebpf 0.2.2\n\
             ab  src/main.rs\nbb  src/maps.rs\ndd  src/new.rs\n",
        );
        let expected = ["crate: aya-ebpf", "src/gone.rs", "src/main.rs", "src/new.rs"];
        assert_eq!(old.differences(&new), expected.map(str::to_owned).into());
        assert_eq!(old.differences(&old), BTreeSet::new());
    }

    #[test]
    fn dependencies_of_the_object_are_its_own() {
        let workspace = Workspace::find().unwrap();
        let metadata = metadata(&workspace).unwrap();
        let names: BTreeSet<&str> =
            packages(&metadata).unwrap().iter().map(|package| package.name.as_str()).collect();
        // As `cargo tree --package sampler-ebpf --edges normal` shows them; `syn` builds a macro,
        // `proptest` and `tokio` belong to other parts of the workspace.
        for name in ["sampler-ebpf", "sampler-common", "aya-ebpf", "aya-ebpf-macros"] {
            assert!(names.contains(name), "{name}");
        }
        for name in ["syn", "proptest", "tokio", "aya", "aya-build"] {
            assert!(!names.contains(name), "{name}");
        }
    }
}
