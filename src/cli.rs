//! The command line.

mod diagnose;
mod diff;
mod fail_on;
#[cfg(not(target_family = "wasm"))]
mod host;
mod lint;
mod mutate;
mod node_options;
mod object_files;
mod output;
mod parallel;
mod parse;
mod policy;
mod program;
mod render;
mod report;
mod usage;

use clap::{FromArgMatches, Parser, Subcommand};

use output::Output;
use program::Program;

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
    Lint(lint::Arguments),
    Diagnose(diagnose::Arguments),
    Policy(policy::Arguments),
    #[cfg(not(target_family = "wasm"))]
    Serve(Box<host::serve::Arguments>),
    #[cfg(not(target_family = "wasm"))]
    #[command(flatten)]
    Host(host::Command),
}

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitStatus {
    /// The command has finished, with or without changes.
    Done,
    /// A pod was refused, or the server cut off requests at its end.
    Refused,
    /// There are warnings, and an option makes them a failure.
    Warned,
    /// The usage, the input or a policy is invalid.
    Bad,
    /// The input does not show it.
    Unknown,
}

impl ExitStatus {
    /// The number that the process ends with.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused | Self::Warned => 1,
            Self::Bad => 2,
            Self::Unknown => 3,
        }
    }
}

/// Runs the program with the arguments of the process.
pub fn run() -> ExitStatus {
    let program = Program::of_process();
    #[cfg(not(target_family = "wasm"))]
    if program == Program::KubectlCompletion {
        let mut output = Output::standard();
        let result = host::completions::answer_kubectl(&mut output).map(|()| ExitStatus::Done);
        return finish(result, output);
    }
    let arguments = match arguments(program) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return finish(Ok(ExitStatus::Done), Output::standard()),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return ExitStatus::Bad;
        }
        Err(help) => {
            let (mut output, text) = (Output::standard(), help.render());
            let text = if Output::data_has_colour() { text.ansi().to_string() } else { text.to_string() };
            let result = output.data(text.as_bytes()).map(|()| ExitStatus::Done);
            return finish(result, output);
        }
    };
    let mut output = Output::standard();
    let result = match &arguments.command {
        Command::Mutate(arguments) => mutate::run(arguments, &mut output),
        Command::Lint(arguments) => lint::run(arguments, &mut output),
        Command::Diagnose(arguments) => diagnose::run(arguments, &mut output),
        Command::Policy(arguments) => policy::run(arguments, &mut output),
        #[cfg(not(target_family = "wasm"))]
        Command::Host(command) => command.run(&mut output),
        #[cfg(not(target_family = "wasm"))]
        Command::Serve(arguments) => {
            // The output locks the stream to which other threads log.
            drop(output);
            match host::serve::run(arguments) {
                // No flush: log lines without a reader must not delay the exit.
                Ok(status) => return status,
                Err(error) => {
                    output = Output::standard();
                    Err(error)
                }
            }
        }
    };
    finish(result, output)
}

/// The arguments of the process; `None` after writing completions, if they were requested.
fn arguments(program: Program) -> Result<Option<Arguments>, clap::Error> {
    #[cfg(not(target_family = "wasm"))]
    if host::completions::answer_shell()? {
        return Ok(None);
    }
    let mut command = program.command();
    let arguments: Vec<_> = std::env::args_os().collect();
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .map_err(|error| usage::with_hint(error, &command, &arguments))?;
    Arguments::from_arg_matches(&matches).map(Some).map_err(|error| error.format(&mut command))
}

fn finish(result: anyhow::Result<ExitStatus>, mut output: Output) -> ExitStatus {
    let result = result.and_then(|status| output.flush().map(|()| status));
    match result {
        Ok(status) => status,
        // The reader of the output has closed it.
        Err(error) if output::is_broken_pipe(&error) => ExitStatus::Done,
        Err(error) => {
            output.error(&error);
            ExitStatus::Bad
        }
    }
}
