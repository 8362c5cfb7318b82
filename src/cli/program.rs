//! The names of the program: its own, or those of a kubectl plugin.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::Arguments;

/// The name that the program was called by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Own,
    /// `kubectl-fabric`: kubectl runs it for `kubectl fabric`.
    KubectlPlugin,
    /// `kubectl_complete-fabric`: kubectl runs it to complete the arguments of `kubectl fabric`.
    KubectlCompletion,
}

impl Program {
    /// The name in the first argument of the process.
    pub(super) fn of_process() -> Self {
        let path = env::args_os().next().unwrap_or_default();
        match Path::new(&path).file_name().and_then(OsStr::to_str) {
            Some("kubectl-fabric") => Self::KubectlPlugin,
            Some("kubectl_complete-fabric") => Self::KubectlCompletion,
            _ => Self::Own,
        }
    }

    /// The definition of the command line, with the name that its user writes.
    pub(super) fn command(self) -> Command {
        let command = without_values(Arguments::command());
        match self {
            Self::Own => command,
            Self::KubectlPlugin | Self::KubectlCompletion => command.bin_name("kubectl fabric"),
        }
    }
}

/// Help names the variables of options, and not their values.
fn without_values(command: Command) -> Command {
    command.mut_args(|argument| argument.hide_env_values(true)).mut_subcommands(without_values)
}
