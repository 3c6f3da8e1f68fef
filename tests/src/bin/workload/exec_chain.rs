//! A process that executes another program, from its main thread or from another.

use std::{
    convert::Infallible,
    env, fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::PathBuf,
    process::Command,
};

use anyhow::{Result, bail};
use sampler_tests::protocol::EXECED;

use crate::{
    control::Session,
    team::Team,
    work::{burn, burn_own},
};

/// A process that works, executes another program, and goes on working.
#[derive(clap::Args)]
pub struct ExecChain {
    /// CPU time that it uses before, and after, and a thread that doesn't survive besides.
    #[arg(long, default_value_t = 300)]
    millis: u64,
    /// Execute from a thread that isn't the main one.
    #[arg(long)]
    from_thread: bool,
    /// Be the second program: the process clock at the window's begin.
    #[arg(long, hide = true, requires = "folder")]
    resume_ns: Option<u64>,
    /// Be the second program: the folder made for it, which it removes.
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,
}

/// Runs it.
pub fn exec_chain(session: Session, args: ExecChain) -> Result<()> {
    match (args.resume_ns, args.folder) {
        (Some(base_ns), Some(folder)) => second(session, base_ns, args.millis, &folder),
        _ => match first(session, args.millis, args.from_thread)? {},
    }
}

fn first(mut session: Session, millis: u64, from_thread: bool) -> Result<Infallible> {
    let mut team = Team::default();
    team.add("doomed", |gate| burn(|| !gate.working()))?;
    let (send, receive) = std::sync::mpsc::channel::<u64>();
    if from_thread {
        team.add("execer", move |_| {
            if let Ok(base_ns) = receive.recv() {
                // Returns on failure only, which the waiting main thread reports.
                let _ = work_and_exec(base_ns, millis);
            }
        })?;
    }
    session.begin(team.tids(), |session| team.truth(session, |_| ()))?;
    team.start()?;
    if !from_thread {
        return work_and_exec(session.base_ns(), millis);
    }
    send.send(session.base_ns())?;
    std::thread::sleep(std::time::Duration::from_secs(30));
    bail!("the thread didn't execute the second program")
}

fn work_and_exec(base_ns: u64, millis: u64) -> Result<Infallible> {
    burn_own(millis * 1_000_000)?;
    // The kernel names a process after the last part of the path that is executed.
    let folder = tempfile::Builder::new().prefix("sampler-exec-").tempdir()?.keep();
    let program = folder.join(EXECED);
    symlink(env::current_exe()?, &program)?;
    let error = Command::new(program)
        .args(["--now", "exec-chain", "--millis", &millis.to_string()])
        .args(["--resume-ns", &base_ns.to_string(), "--folder"])
        .arg(&folder)
        .exec();
    fs::remove_dir_all(folder)?;
    Err(error.into())
}

fn second(mut session: Session, base_ns: u64, millis: u64, folder: &PathBuf) -> Result<()> {
    session.resume(base_ns);
    burn_own(millis * 1_000_000)?;
    fs::remove_dir_all(folder)?;
    let truth = session.truth()?;
    session.end(truth)
}
