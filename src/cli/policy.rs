//! `fabric-injector policy`: commands for authors and operators of policy files.

mod check;
mod explain;
pub(super) mod formats;
mod new;
mod schema;
mod test;

use anyhow::bail;
use clap::{Args, Subcommand};

use crate::builtin;
use crate::policy_sources::{facts_of_built_in, listing, policy_texts};
use fabric_policy::{PolicyFile, composed_text};

use super::ExitStatus;
use super::output::{Format, Output};

/// Check, test, explain, show and write policies
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Arguments),
    Explain(explain::Arguments),
    /// List the built-in policies
    List {
        /// The form of the output; the JSON array has the provider, `match` and parameters of each policy
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
        output: Format,
    },
    /// Print a policy with everything that it extends
    Show {
        /// The name of a built-in policy or part, or the path of a policy file
        #[arg(value_name = "NAME|FILE")]
        policy: String,
        /// Files that it extends, apart from built-in ones
        #[arg(value_name = "BASE")]
        bases: Vec<String>,
        /// Print the file as it is, with its comments and without what it extends
        #[arg(long)]
        source: bool,
    },
    Schema(schema::Arguments),
    Test(test::Arguments),
    New(new::Arguments),
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    match &arguments.command {
        Command::Check(arguments) => return check::run(arguments, output),
        Command::Explain(arguments) => return explain::run(arguments, output),
        Command::List { output: Format::Text } => output.text(&listing()?)?,
        Command::List { output: Format::Json } => output.json(&facts_of_built_in()?)?,
        Command::Show { policy, bases, source } => show(policy, bases, *source, output)?,
        Command::Schema(arguments) => schema::run(arguments, output)?,
        Command::Test(arguments) => return test::run(arguments, output),
        Command::New(arguments) => return new::run(arguments, output),
    }
    Ok(ExitStatus::Done)
}

fn show(policy: &str, bases: &[String], source: bool, output: &mut Output) -> anyhow::Result<()> {
    let texts = policy_texts(policy)?;
    let [(file, text)] = texts.as_slice() else {
        bail!("{policy} is a folder with several policies; name one of its files");
    };
    if source {
        return output.data(text.as_bytes());
    }
    let mut files = Vec::new();
    for base in bases {
        for (file, text) in policy_texts(base)? {
            files.push(PolicyFile::read(&file, &text)?);
        }
    }
    output.data(composed_text(&PolicyFile::read(file, text)?, &files, builtin::files())?.as_bytes())
}
