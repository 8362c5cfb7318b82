//! `fabric-injector completions`: completion by the shell, which gets candidates from the program.
//!
//! The script of a shell calls the program with [`VARIABLE`] set. kubectl calls it as `kubectl_complete-fabric`, with
//! the words after `kubectl fabric` as arguments.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Arg, Args, Command, ValueHint};
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete,
};
use clap_complete::env::{CompleteEnv, Shells};

use crate::builtin;

use crate::cli::ExitStatus;
use crate::cli::output::Output;
use crate::cli::program::Program;

/// The variable that requests candidates, with the name of the shell as its value.
const VARIABLE: &str = "FABRIC_INJECTOR_COMPLETE";
const NAME: &str = "fabric-injector";

/// Print the script with which a shell completes the arguments of this program
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let shells = Shells::builtins();
    let shell = shells.completer(&arguments.shell.to_string()).context("the shell is not known")?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    output.data(&script)?;
    Ok(ExitStatus::Done)
}

/// Writes candidates if the script of a shell requests them; false if it does not.
pub(crate) fn answer_shell() -> clap::error::Result<bool> {
    let factory = || with_candidates(Program::Own.command());
    CompleteEnv::with_factory(factory).var(VARIABLE).try_complete(env::args_os(), current_folder().as_deref())
}

/// Writes candidates in the form that kubectl reads: one per line, and a number for how to show them.
pub(crate) fn answer_kubectl(output: &mut Output) -> anyhow::Result<()> {
    const NO_SPACE: u8 = 2;
    const NO_FILES: u8 = 4;
    let words: Vec<OsString> = [NAME.into()].into_iter().chain(env::args_os().skip(1)).collect();
    let last = words.len() - 1;
    let mut command = with_candidates(Program::KubectlCompletion.command());
    // Words that are not a command line have no candidates.
    let candidates = complete(&mut command, words, last, current_folder().as_deref()).unwrap_or_default();
    let mut directive = NO_FILES;
    for candidate in candidates.iter().filter(|candidate| !candidate.is_hide_set()) {
        let Some(value) = candidate.get_value().to_str() else { continue };
        if value.ends_with('/') {
            directive |= NO_SPACE;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let line = match help.lines().next() {
            Some(help) => format!("{value}\t{help}\n"),
            None => format!("{value}\n"),
        };
        output.data(line.as_bytes())?;
    }
    output.data(format!(":{directive}\n").as_bytes())
}

fn current_folder() -> Option<PathBuf> {
    env::current_dir().ok()
}

/// Adds candidates for values by their names in the usage: paths for `FILE`, `PATH` and `DIR`, and the built-in
/// policies where a policy can be named.
fn with_candidates(command: Command) -> Command {
    command.mut_args(with_values).mut_subcommands(with_candidates)
}

fn with_values(argument: Arg) -> Arg {
    let names = argument.get_value_names().unwrap_or_default();
    let kinds: Vec<&str> = names.iter().flat_map(|name| name.split('|')).collect();
    let is_path = kinds.iter().any(|kind| ["FILE", "PATH", "DIR"].contains(kind));
    if kinds.contains(&"POLICY") || is_path && kinds.contains(&"NAME") {
        argument.add(ArgValueCompleter::new(policies))
    } else if is_path {
        argument.value_hint(ValueHint::AnyPath)
    } else {
        argument
    }
}

/// The built-in policies and the paths that begin with this text.
fn policies(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_str().unwrap_or_default();
    let names = builtin::POLICIES.iter().map(|policy| policy.name).filter(|name| name.starts_with(text));
    let mut candidates: Vec<CompletionCandidate> = names.map(CompletionCandidate::new).collect();
    candidates.extend(PathCompleter::any().complete(current));
    candidates
}
