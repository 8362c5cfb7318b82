//! `fabric-injector policies`: the built-in policies.

use anyhow::bail;
use clap::{Args, Subcommand};

use crate::shell::builtin;
use crate::shell::policy_sources::listing;

use super::ExitStatus;
use super::output::Output;

/// List the built-in policies, or print one
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the file of a built-in policy
    Show {
        /// The name of the policy
        name: String,
    },
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    match &arguments.command {
        None => output.data(listing()?.as_bytes())?,
        Some(Command::Show { name }) => match builtin::find(name) {
            Some(policy) => output.data(policy.text.as_bytes())?,
            None => bail!("there is no built-in policy `{name}`\n{}", listing()?),
        },
    }
    Ok(ExitStatus::Done)
}
