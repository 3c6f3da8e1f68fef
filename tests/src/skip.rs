//! A test that can't run here says so, and is counted.

use std::{env, fs::OpenOptions, io::Write as _, path::Path};

/// Prints why `test` can't run here, and appends it to the file named by `SAMPLER_SKIP_LOG`.
///
/// The caller returns after it: the log is how a skipped test differs from one that passed.
///
/// # Errors
/// When the log can't be written: a skip that isn't counted would pass as a success.
pub fn skip(test: &str, reason: &str) -> std::io::Result<()> {
    let kernel = rustix::system::uname();
    let kernel = kernel.release().to_string_lossy();
    let line = format!("SKIPPED: {test}: {reason} (kernel {kernel})");
    #[expect(clippy::print_stderr, reason = "the skip is told to whoever runs the test")]
    {
        eprintln!("{line}");
    }
    let Some(log) = env::var_os("SAMPLER_SKIP_LOG") else { return Ok(()) };
    let mut log = OpenOptions::new().create(true).append(true).open(Path::new(&log))?;
    writeln!(log, "{line}")
}
