//! The command `sampler`. Only this file writes errors and chooses the exit code.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match sampler::cli::run(std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            let (code, line) = sampler::cli::exit_code(&error);
            report(code, line);
            code
        }
    }
}

/// What was asked for, such as help, goes to standard output, an error to standard error. There is
/// nobody left to tell if that is closed.
fn report(code: ExitCode, line: Option<String>) {
    let Some(line) = line else { return };
    let _ = if code == ExitCode::SUCCESS {
        writeln!(std::io::stdout(), "{line}")
    } else {
        writeln!(std::io::stderr(), "sampler: {line}")
    };
}
