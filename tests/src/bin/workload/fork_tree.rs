//! A tree of processes, each of which does known work.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, WaitOptions, waitpid};
use sampler_tests::{clock::own_process_ns, protocol::ProcessTruth};

use crate::{control::Session, work::burn_own_process};

/// A process that forks a tree of working ones.
#[derive(clap::Args)]
pub struct ForkTree {
    /// Levels of children.
    #[arg(long, default_value_t = 2)]
    depth: u32,
    /// Children of each process.
    #[arg(long, default_value_t = 3)]
    width: u32,
    /// CPU time that each uses.
    #[arg(long, default_value_t = 50)]
    millis: u64,
}

/// Runs it.
pub fn fork_tree(mut session: Session, args: &ForkTree) -> Result<()> {
    session.begin(std::iter::empty().collect(), Session::truth)?;
    let (reader, writer) = io::pipe()?;
    let mut writer = File::from(std::os::fd::OwnedFd::from(writer));
    let children = fork_children(args, 0, &mut writer)?;
    burn_own_process(args.millis * 1_000_000)?;
    drop(writer);
    let processes = read_reports(reader)?;
    wait_all(&children)?;

    let mut truth = session.truth()?;
    let root = ProcessTruth { tgid: std::process::id(), parent: 0, cpu_ns: truth.process_ns };
    truth.processes = processes;
    truth.processes.push(root);
    session.end(truth)
}

/// The whole life of a process that isn't the root.
fn node(args: &ForkTree, level: u32, parent: u32, writer: &mut File) -> Result<()> {
    let children = fork_children(args, level, writer)?;
    burn_own_process(args.millis * 1_000_000)?;
    wait_all(&children)?;
    let report = ProcessTruth { tgid: std::process::id(), parent, cpu_ns: own_process_ns()? };
    // One write of less than PIPE_BUF, which the kernel doesn't mix with others.
    let line = format!("{}\n", serde_json::to_string(&report)?);
    Ok(writer.write_all(line.as_bytes())?)
}

fn fork_children(args: &ForkTree, level: u32, writer: &mut File) -> Result<Vec<Pid>> {
    let mut children = Vec::new();
    if level == args.depth {
        return Ok(children);
    }
    let parent = std::process::id();
    for _ in 0..args.width {
        // SAFETY: the process has a single thread, so the child's copy of it is whole.
        match unsafe { libc::fork() } {
            0 => {
                let failed = node(args, level + 1, parent, writer).is_err();
                // SAFETY: ends the child without running what belongs to its parent.
                unsafe { libc::_exit(i32::from(failed)) }
            }
            child => children.push(Pid::from_raw(child).context("forking")?),
        }
    }
    Ok(children)
}

fn read_reports(mut reader: io::PipeReader) -> Result<Vec<ProcessTruth>> {
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    text.lines().map(|line| serde_json::from_str(line).context("reading a report")).collect()
}

fn wait_all(children: &[Pid]) -> Result<()> {
    for &child in children {
        waitpid(Some(child), WaitOptions::empty())?;
    }
    Ok(())
}
