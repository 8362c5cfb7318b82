//! `fabric-injector policy schema`: the JSON Schema of the files that authors write.

use clap::Args;

use crate::core::policy_schema;
use crate::shell::cli::output::Output;

/// Print the JSON Schema of policy files
///
/// For editors: an editor with the YAML language server reads it if the first line of a policy file is
/// `# yaml-language-server: $schema=FILE`.
#[derive(Debug, Args)]
pub(super) struct Arguments {}

pub(super) fn run(_arguments: &Arguments, output: &mut Output) -> anyhow::Result<()> {
    let schema = policy_schema::policy();
    output.data(format!("{schema:#}\n").as_bytes())
}
