//! Small helpers around other programs: finding them, running them, saying so.
//!
//! Which programs are run, and with what arguments, is the subcommands' business.

use std::env;
use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Where programs lie that an ordinary `PATH` may leave out.
const SYSTEM_DIRS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Tells the developer something, on standard error as cargo does.
#[expect(clippy::print_stderr, reason = "the one place where xtask reports what it does")]
pub fn say(message: &str) {
    eprintln!("{message}");
}

/// Runs `command`, after saying so, and fails unless it succeeds.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    say(&format!("+ {shown}"));
    let status = command.status().with_context(|| format!("could not run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// What `command` prints on standard output, without the white space around it.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not run `{shown}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}): {}", output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command line of `command`, as a developer would type it.
pub fn show(command: &Command) -> String {
    let program = command.get_program();
    let is_own_cargo = env::var_os("CARGO").is_some_and(|cargo| cargo == program);
    let program = if is_own_cargo { OsStr::new("cargo") } else { program };
    let words = iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The file that running `name` would start, also if it lies where cargo installs programs or
/// where Debian keeps the administrator's.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = search_path().ok()?;
    which::which_in(name, Some(path), env::current_dir().ok()?).ok()
}

/// `PATH`, with the folders added in which `find_program` looks besides.
pub fn search_path() -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path)
        .chain(cargo_home().map(|home| home.join("bin")))
        .chain(SYSTEM_DIRS.map(PathBuf::from));
    env::join_paths(dirs).context("could not extend PATH")
}

/// Whether this process is the superuser.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn cargo_home() -> Option<PathBuf> {
    let of_user = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(of_user)
}
