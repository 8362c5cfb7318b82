//! The command line.

mod certs;
mod check;

mod cluster;
mod completions;
mod diagnose;
mod diff;
mod fail_on;
mod lint;
mod man;
mod manifests;
mod mutate;
mod nccl_test;
mod node_options;
mod nodes;
mod object_files;
mod output;
mod parse;
mod policy;
mod program;
mod render;
mod report;
mod serve;
mod usage;

use std::process::ExitCode;

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
    NcclTest(nccl_test::Arguments),
    Policy(policy::Arguments),
    Serve(Box<serve::Arguments>),
    Certs(certs::Arguments),
    Check(check::Arguments),
    Nodes(nodes::Arguments),
    Manifests(manifests::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ExitStatus {
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

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Done => ExitCode::SUCCESS,
            ExitStatus::Refused | ExitStatus::Warned => ExitCode::from(1),
            ExitStatus::Bad => ExitCode::from(2),
            ExitStatus::Unknown => ExitCode::from(3),
        }
    }
}

/// Runs the program with the arguments of the process.
pub fn run() -> ExitCode {
    let program = Program::of_process();
    if program == Program::KubectlCompletion {
        let mut output = Output::standard();
        let result = completions::answer_kubectl(&mut output).map(|()| ExitStatus::Done);
        return finish(result, output);
    }
    let arguments = match arguments(program) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return finish(Ok(ExitStatus::Done), Output::standard()),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return ExitStatus::Bad.into();
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
        Command::NcclTest(arguments) => nccl_test::run(arguments, &mut output),
        Command::Policy(arguments) => policy::run(arguments, &mut output),
        Command::Certs(arguments) => certs::run(arguments, &mut output),
        Command::Check(arguments) => check::run(arguments, &mut output),
        Command::Nodes(arguments) => nodes::run(arguments, &mut output),
        Command::Manifests(arguments) => manifests::run(arguments, &mut output),
        Command::Completions(arguments) => completions::run(arguments, &mut output),
        Command::Man(arguments) => man::run(arguments, &mut output),
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
    finish(result, output)
}

/// The arguments of the process; `None` after writing completions, if they were requested.
fn arguments(program: Program) -> Result<Option<Arguments>, clap::Error> {
    if completions::answer_shell()? {
        return Ok(None);
    }
    let mut command = program.command();
    let arguments: Vec<_> = std::env::args_os().collect();
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .map_err(|error| usage::with_hint(error, &command, &arguments))?;
    Arguments::from_arg_matches(&matches).map(Some).map_err(|error| error.format(&mut command))
}

fn finish(result: anyhow::Result<ExitStatus>, mut output: Output) -> ExitCode {
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
