//! The `fabric-injector` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    fabric_injector::cli::run()
}
