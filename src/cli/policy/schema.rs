//! `fabric-injector policy schema`: the JSON Schema of the files that authors write.

use clap::Args;

use crate::cli::output::Output;
use fabric_tools::policy_schema;

/// Print the JSON Schema of policy files
///
/// An editor with the YAML language server reads the schema if the first line of a policy is
/// `# yaml-language-server: $schema=FILE`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The schema of the files of cases for `policy test` instead
    #[arg(long)]
    cases: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<()> {
    let schema = if arguments.cases { policy_schema::cases() } else { policy_schema::policy() };
    output.json(&schema)
}
