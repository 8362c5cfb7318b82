//! `fabric-injector policy new`: writes a policy to start from, and its first cases.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;

use fabric_policy::is_policy_name;
use fabric_tools::policy_schema;
use fabric_yaml::scalar::{self, Scalar};

use super::super::ExitStatus;
use super::super::output::Output;
use super::super::parse::valid;

const POLICY: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/template/policy.yaml"));
const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/template/cases.yaml"));

/// Write a commented policy for a provider to start from, and its first cases
///
/// The files are NAME.yaml and tests/NAME.yaml, and the schemas of both for editors, in the folder `schemas`, unless
/// the folder above has one. An existing file stays as it is. For changes of a built-in policy, write an extension of it
/// instead: docs/extending.md has one to copy.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Exit status: 0 the files were written; 2 bad usage, or a file that cannot be written."
)]
pub(super) struct Arguments {
    /// The provider: lower-case letters, digits and hyphens
    #[arg(long, value_name = "NAME", value_parser = name)]
    provider: String,
    /// The name of the policy [default: the provider and `-rdma`]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// The folder of the policy
    #[arg(value_name = "DIR", default_value = ".")]
    folder: String,
}

fn name(text: &str) -> Result<String, String> {
    // The template has it without quotes.
    let is_name = is_policy_name(text) && matches!(scalar::resolve(text), Scalar::String(_));
    let otherwise = "use lower-case letters, digits and hyphens, at most 63, which are no number and no word such as `true`";
    valid(is_name, text, otherwise)
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let provider = &arguments.provider;
    let policy = arguments.name.clone().unwrap_or_else(|| format!("{provider}-rdma"));
    if !is_policy_name(&policy) {
        bail!("`{policy}` is too long for the name of a policy; give another one with `--name`");
    }
    let folder = Path::new(if arguments.folder == "." { "" } else { &arguments.folder });
    let tests = folder.join("tests");
    let file = format!("{policy}.yaml");
    let above =
        folder.parent().map(|parent| parent.join("schemas")).filter(|path| path.join("policy.json").exists());
    let (schemas, up) = above.map_or_else(|| (folder.join("schemas"), ""), |above| (above, "../"));
    let filled = |schema: &str, text: &str| {
        let line = format!("# yaml-language-server: $schema={up}schemas/{schema}.json\n");
        line + &text.replace("{provider}", provider).replace("{name}", &policy)
    };
    let cases = filled("cases", CASES).replacen("$schema=", "$schema=../", 1);
    let mut files = vec![(folder.join(&file), filled("policy", POLICY)), (tests.join(&file), cases)];
    for (path, _) in &files {
        if path.exists() {
            bail!("{} exists already; give the policy another name with `--name`", path.display());
        }
    }
    for (schema, name) in [(policy_schema::policy(), "policy.json"), (policy_schema::cases(), "cases.json")] {
        let path = schemas.join(name);
        if !path.exists() {
            files.push((path, serde_json::to_string_pretty(&schema)? + "\n"));
        }
    }
    for folder in [&tests, &schemas] {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    }
    for (path, text) in &files {
        let shown = path.display();
        let file = File::create_new(path).with_context(|| format!("{shown} cannot be created"));
        file?.write_all(text.as_bytes()).with_context(|| format!("{shown} cannot be written"))?;
        output.data(format!("{shown}\n").as_bytes())?;
    }
    output.message(&format!("next: fabric-injector policy test {}", arguments.folder));
    Ok(ExitStatus::Done)
}
