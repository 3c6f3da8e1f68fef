//! Whatever goes wrong is told in one line, with the exit status that is promised, and an older
//! recording of the same name is kept as it was.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use sampler_tests::{Finished, Sampler, Workload, perf, procfs, skip};
use tempfile::TempDir;

/// What stands in the older recording.
const PRECIOUS: &str = "an older recording";
/// Above any `kernel.pid_max`.
const NOBODY: &str = "99999999";

/// A folder with an older recording in it.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
        fs::write(folder.path().join("out.data"), PRECIOUS)?;
        Ok(Self { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `sampler record -o out.data args...`.
    fn record(&self, args: &[&str]) -> Result<Finished> {
        self.run_with(&[], args)
    }

    /// The same, started by another program.
    fn run_with(&self, wrapper: &[&str], args: &[&str]) -> Result<Finished> {
        let mut all = vec!["record", "-o", "out.data"];
        all.extend(args);
        let sampler = match wrapper {
            [] => Sampler::new(&all)?,
            wrapper => Sampler::wrapped(wrapper, &all)?,
        };
        sampler.within(self.folder.path()).run()
    }

    fn assert_untouched(&self) -> Result<()> {
        assert_eq!(fs::read_to_string(self.path("out.data"))?, PRECIOUS, "the older recording");
        assert!(!self.path("out.data.old").exists(), "the older recording was put aside");
        Ok(())
    }
}

/// One line, this status, and each of these words.
fn assert_told(finished: &Finished, status: i32, words: &[&str]) {
    let told = finished.stderr.trim_end();
    assert_eq!(finished.code(), status, "{finished:?}");
    assert_eq!(told.lines().count(), 1, "one line: {told}");
    for word in words {
        assert!(told.to_lowercase().contains(&word.to_lowercase()), "no {word:?} in {told:?}");
    }
    for word in ["panicked", "backtrace", "src/"] {
        assert!(!told.contains(word), "{word:?} in {told:?}");
    }
    assert_eq!(finished.stdout, "");
}

#[test]
fn no_such_process_or_thread() -> Result<()> {
    let desk = Desk::new()?;
    for target in ["-p", "-t"] {
        let finished = desk.record(&["-e", "cpu-clock", target, NOBODY])?;
        assert_told(&finished, 1, &[NOBODY, "no such"]);
    }
    desk.assert_untouched()
}

#[test]
fn not_permitted() -> Result<()> {
    let desk = Desk::new()?;
    // Where anybody can execute it, wherever it was built.
    let program = desk.path("sampler");
    fs::copy(Sampler::program()?, &program)?;
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&program)
        .args(["record", "-o", "new.data", "-e", "cpu-clock", "-p", "1"])
        .current_dir(desk.folder.path())
        .output()
        .context("running setpriv")?;
    let finished = Finished {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert_told(&finished, 1, &["permi"]);
    let names_a_cause = ["CAP_", "perf_event_paranoid", "lockdown"];
    let told = &finished.stderr;
    assert!(names_a_cause.iter().any(|cause| told.contains(cause)), "no cause in {told:?}");
    assert!(!desk.path("new.data").exists());
    desk.assert_untouched()
}

#[test]
fn no_btf() -> Result<()> {
    let desk = Desk::new()?;
    let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", hide, "sh"];
    let finished = desk.run_with(&wrapper, &["-e", "cpu-clock", "-p", "1"])?;
    assert_told(&finished, 1, &["BTF"]);
    desk.assert_untouched()
}

/// `setarch --uname-2.6` lets the kernel tell a version of long ago.
#[test]
fn kernel_too_old() -> Result<()> {
    let desk = Desk::new()?;
    let finished = desk.run_with(&["setarch", "--uname-2.6"], &["-e", "cpu-clock", "-p", "1"])?;
    assert_told(&finished, 1, &["kernel", "5.15", "2.6."]);
    desk.assert_untouched()
}

#[test]
fn unknown_event() -> Result<()> {
    let desk = Desk::new()?;
    let finished = desk.record(&["-e", "cpu-clok", "-p", "1"])?;
    assert_told(&finished, 1, &["cpu-clok", "cpu-clock"]);
    let finished = desk.record(&["-e", "cpu-clock:x", "-p", "1"])?;
    assert_told(&finished, 1, &["cpu-clock:x"]);
    desk.assert_untouched()
}

#[test]
fn event_that_this_machine_cannot_count() -> Result<()> {
    if perf::counts_here("cycles")? {
        skip("event_that_this_machine_cannot_count", "cycles can be counted")?;
        return Ok(());
    }
    let desk = Desk::new()?;
    let finished = desk.record(&["-e", "cycles", "-p", "1"])?;
    assert_told(&finished, 1, &["cycles", "cpu-clock"]);
    desk.assert_untouched()
}

#[test]
fn too_many_open_files() -> Result<()> {
    let desk = Desk::new()?;
    let limit = ["prlimit", "--nofile=12:12"];
    let finished = desk.run_with(&limit, &["-e", "cpu-clock", "-p", "1"])?;
    assert_told(&finished, 1, &["open files"]);
    desk.assert_untouched()
}

#[test]
fn period_and_frequency() -> Result<()> {
    let desk = Desk::new()?;
    let sysctl = "kernel/perf_event_max_sample_rate";
    let before = procfs::sysctl(sysctl)?;
    let above = (before + 1).to_string();
    let refused = desk.record(&["-e", "cpu-clock", "-F", &above, "-p", "1"])?;
    assert_told(&refused, 1, &["perf_event_max_sample_rate", &before.to_string(), &above]);
    assert_eq!(procfs::sysctl(sysctl)?, before, "the limit is left as it was");

    let zero = desk.record(&["-e", "cpu-clock", "-c", "0", "-p", "1"])?;
    assert!(matches!(zero.code(), 1 | 2), "{zero:?}");
    assert_told(&zero, zero.code(), &["period", "0"]);

    let both = desk.record(&["-e", "cpu-clock", "-c", "1000000", "-F", "999", "-p", "1"])?;
    assert_told(&both, 2, &["-c", "-F"]);
    desk.assert_untouched()
}

#[test]
fn wrong_usage() -> Result<()> {
    let desk = Desk::new()?;
    let nothing = desk.record(&["-e", "cpu-clock"])?;
    assert!(matches!(nothing.code(), 1 | 2), "{nothing:?}");
    assert_told(&nothing, nothing.code(), &["-p"]);
    assert_told(&desk.record(&["--no-such-option"])?, 2, &["--no-such-option"]);
    assert_told(&desk.record(&["-p", "many"])?, 2, &["many"]);
    desk.assert_untouched()
}

#[test]
fn command_that_cannot_run() -> Result<()> {
    let desk = Desk::new()?;
    for subcommand in ["record", "stat"] {
        let run = |command: &str| {
            let args = [subcommand, "-e", "cpu-clock", "-o", "out.data", "--", command];
            Sampler::new(args)?.within(desk.folder.path()).run()
        };
        assert_told(&run("no-such-command")?, 127, &["no-such-command", "not found"]);
        fs::write(desk.path("plain"), "")?;
        assert_told(&run("./plain")?, 126, &["./plain", "permission denied"]);
        desk.assert_untouched()?;
    }
    Ok(())
}

#[test]
fn output_that_cannot_be_written() -> Result<()> {
    let desk = Desk::new()?;
    let marker = desk.path("started");
    let start = format!("touch {}", marker.display());
    for output in ["no-such-folder/out.data", "."] {
        let command = ["-o", output, "-e", "cpu-clock", "--", "sh", "-c", &start];
        let finished = Sampler::new(["record"])?.args(command).within(desk.folder.path()).run()?;
        assert_told(&finished, 1, &[output]);
        assert!(!marker.exists(), "the command was started all the same");
    }
    desk.assert_untouched()
}

#[test]
fn output_that_is_a_symbolic_link() -> Result<()> {
    let desk = Desk::new()?;
    for target in ["out.data", "new.data"] {
        let link = desk.path("link.data");
        symlink(target, &link)?;
        let args = ["record", "-e", "cpu-clock", "-o", "link.data", "--", "true"];
        let finished = Sampler::new(args)?.within(desk.folder.path()).run()?;
        assert_told(&finished, 1, &["link.data", "symbolic link"]);
        assert_eq!(fs::read_link(&link)?, Path::new(target), "the link itself");
        fs::remove_file(&link)?;
    }
    assert!(!desk.path("new.data").exists(), "the link was followed");
    desk.assert_untouched()
}

/// A target may end at any step of the attach: what there was is recorded, or it wasn't there.
#[test]
fn target_that_ends_while_attaching() -> Result<()> {
    for wait_ms in [0, 1, 5, 10, 20, 30, 40, 60] {
        let desk = Desk::new()?;
        let mut workload = Workload::start(&["faults", "--pages", "1"])?;
        let args = ["record", "-q", "--json", "-e", "cpu-clock", "-o", "new.data", "-p"];
        let args = args.into_iter().map(str::to_owned).chain([workload.tgid_arg()]);
        let running = Sampler::new(args)?.within(desk.folder.path()).spawn()?;
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        workload.go()?;
        workload.finish()?;
        let finished = running.finish()?;
        match finished.code() {
            0 => {
                assert_eq!(finished.report()?.descriptors.in_use_at_end, 0);
                perf::samples(&desk.path("new.data"))?;
            }
            code => assert_told(&finished, code, &["no such"]),
        }
    }
    Ok(())
}
