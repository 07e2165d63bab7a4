//! Prints what torchlean would run where, and why. Exit status 0 only where buffers can be made.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let report = torchlean::runtime::report();
    let text = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => report.to_string(),
        ["--json"] => format!("{:#}", report.to_json()),
        _ => {
            eprintln!("usage: torchlean-doctor [--json]");
            return ExitCode::from(2);
        }
    };
    // A reader that has gone is no reason to panic, but it did not get the report.
    let printed = writeln!(std::io::stdout(), "{text}").is_ok();
    if printed && report.buffers.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
