//! The command line: a thin shell around the engine.

mod certs;
mod check;
mod cluster;
mod manifests;
mod mutate;
mod output;
mod parse;
mod policies;
mod render;
mod report;
mod policy_sources;
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
    Policies(policies::Arguments),
    Serve(Box<serve::Arguments>),
    Certs(certs::Arguments),
    Check(check::Arguments),
    Manifests(manifests::Arguments),
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    /// Done, whether or not anything changed.
    Done,
    /// A pod was refused, or requests were cut off when the server ended.
    Refused,
    /// Bad usage, input or policy.
    Bad,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => ExitCode::SUCCESS,
            Status::Refused => ExitCode::from(1),
            Status::Bad => ExitCode::from(2),
        }
    }
}

/// Runs the program with the arguments of the process.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to standard output and are no error; clap knows which is which.
            let _ = error.print();
            return if error.use_stderr() { Status::Bad.into() } else { Status::Done.into() };
        }
    };
    let mut output = Output::standard();
    let result = match &arguments.command {
        Command::Mutate(arguments) => mutate::run(arguments, &mut output),
        Command::Policies(arguments) => policies::run(arguments, &mut output),
        Command::Certs(arguments) => certs::run(arguments, &mut output),
        Command::Check(arguments) => check::run(arguments, &mut output),
        Command::Manifests(arguments) => manifests::run(arguments, &mut output),
        Command::Serve(arguments) => {
            // Other threads log to the streams that an output holds.
            drop(output);
            match serve::run(arguments) {
                // What they could not write because nobody reads it, nobody waits for.
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
        // Whoever reads our output has seen enough.
        Err(error) if output::is_broken_pipe(&error) => Status::Done.into(),
        Err(error) => {
            output.error(&error);
            Status::Bad.into()
        }
    }
}
