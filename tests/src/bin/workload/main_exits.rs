//! A process whose main thread ends first: it stays as a zombie, while the others work on.

use std::{
    fs, io,
    process::exit,
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use anyhow::Result;

use crate::{control::Session, team::Team, work::burn};

/// A process whose main thread ends long before its workers, `worker-0` and so on.
#[derive(clap::Args)]
pub struct MainExitsFirst {
    /// How many workers.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// How long the window is.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// End the main thread before the window already.
    #[arg(long)]
    early: bool,
}

/// Runs it; returns on failure only.
pub fn main_exits_first(session: Session, args: &MainExitsFirst) -> Result<()> {
    let mut team = Team::default();
    for number in 0..args.threads {
        team.add(&format!("worker-{number}"), |gate| burn(|| !gate.working()))?;
    }
    let (send, receive) = channel();
    let (seconds, early) = (args.seconds, args.early);
    thread::Builder::new().name("closer".to_owned()).spawn(move || {
        let failed = close(session, team, seconds, early, &send).is_err();
        exit(i32::from(failed));
    })?;
    receive.recv()?;
    // SAFETY: ends this thread alone. Its stack stays mapped, and nothing waits for it.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    Err(io::Error::last_os_error().into())
}

fn close(
    mut session: Session,
    mut team: Team,
    seconds: f64,
    early: bool,
    main: &Sender<()>,
) -> Result<()> {
    if early {
        main.send(())?;
        wait_main_gone()?;
    }
    session.begin(team.tids(), |session| team.truth(session, |_| ()))?;
    team.start()?;
    if !early {
        main.send(())?;
    }
    session.run_for(seconds, |session| team.truth(session, |_| ()))?;
    team.finish(session, |_| ())
}

/// Waits until the main thread is a zombie, which is all that is ever left of it.
fn wait_main_gone() -> Result<()> {
    let path = format!("/proc/self/task/{}/stat", std::process::id());
    while !fs::read_to_string(&path)?.contains(") Z ") {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
