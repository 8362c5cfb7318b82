//! The command line.

mod certs;
mod check;
mod cluster;
mod diff;
mod manifests;
mod mutate;
mod output;
mod parse;
mod policy;
mod policy_sources;
mod render;
mod report;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::Output;

/// Gives multi-node GPU pods their cloud's fast network.
#[derive(Debug, Parser)]
#[command(name = "fabric-injector", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Mutate(mutate::Arguments),
    Policy(policy::Arguments),
    Serve(Box<serve::Arguments>),
    Certs(certs::Arguments),
    Check(check::Arguments),
    Manifests(manifests::Arguments),
}

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ExitStatus {
    /// The command has finished, with or without changes.
    Done,
    /// A pod was refused, or the server cut off requests at its end.
    Refused,
    /// The usage, the input or a policy is invalid.
    Bad,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Done => ExitCode::SUCCESS,
            ExitStatus::Refused => ExitCode::from(1),
            ExitStatus::Bad => ExitCode::from(2),
        }
    }
}

/// Runs the program with the arguments of the process.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors: clap writes them to standard output.
            let _ = error.print();
            return if error.use_stderr() { ExitStatus::Bad.into() } else { ExitStatus::Done.into() };
        }
    };
    let mut output = Output::standard();
    let result = match &arguments.command {
        Command::Mutate(arguments) => mutate::run(arguments, &mut output),
        Command::Policy(arguments) => policy::run(arguments, &mut output),
        Command::Certs(arguments) => certs::run(arguments, &mut output),
        Command::Check(arguments) => check::run(arguments, &mut output),
        Command::Manifests(arguments) => manifests::run(arguments, &mut output),
        Command::Serve(arguments) => {
            // The output locks the stream to which other threads log.
            drop(output);
            match serve::run(arguments) {
                // No flush: log lines without a reader must not delay the exit.
                Ok(status) => return status.into(),
                Err(error) => {
                    output = Output::standard();
                    Err(error)
                }
            }
        }
    };
    let result = result.and_then(|status| output.flush().map(|()| status));
    match result {
        Ok(status) => status.into(),
        // The reader of the output has closed it.
        Err(error) if output::is_broken_pipe(&error) => ExitStatus::Done.into(),
        Err(error) => {
            output.error(&error);
            ExitStatus::Bad.into()
        }
    }
}
