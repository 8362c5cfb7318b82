//! `fabric-injector policy new`: writes a policy to start from, and its first cases.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;

use serde_json::Value;

use fabric_engine::validate::sample;
use fabric_policy::source::suggest;
use fabric_policy::{Parameter, is_policy_name};
use fabric_tools::policy_schema;
use fabric_yaml::scalar::{self, Scalar};

use super::super::ExitStatus;
use super::super::output::Output;
use super::super::parse::valid;
use crate::builtin;
use crate::policy_sources::PolicySources;

const POLICY: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/template/policy.yaml"));
const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/template/cases.yaml"));
const EXTENSION: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/template/extension.yaml"));
const EXTENSION_CASES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/template/extension-cases.yaml"));

/// Write a commented policy for a provider, or an extension of a built-in policy, and its first cases
///
/// The files are NAME.yaml and tests/NAME.yaml, and the schemas of both for editors, in the folder `schemas`, unless
/// the folder above has one. An existing file stays as it is.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Exit status: 0 the files were written; 2 bad usage, or a file that cannot be written."
)]
pub(super) struct Arguments {
    /// The provider: lower-case letters, digits and hyphens
    #[arg(long, value_name = "NAME", value_parser = name, required_unless_present = "extends")]
    provider: Option<String>,
    /// A built-in policy that the new one extends
    #[arg(long, value_name = "POLICY", conflicts_with = "provider")]
    extends: Option<String>,
    /// The name of the policy [default: the provider and `-rdma`, or `our-` and the policy that it extends]
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
    let (default, (template, cases)) = match (&arguments.extends, &arguments.provider) {
        (Some(base), _) => (format!("our-{base}"), extension(base)?),
        (None, provider) => {
            let provider = provider.as_deref().unwrap_or_default();
            let filled = |text: &str| text.replace("{provider}", provider);
            (format!("{provider}-rdma"), (filled(POLICY), filled(CASES)))
        }
    };
    let policy = arguments.name.clone().unwrap_or(default);
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
        line + &text.replace("{name}", &policy)
    };
    let cases = filled("cases", &cases).replacen("$schema=", "$schema=../", 1);
    let mut files = vec![(folder.join(&file), filled("policy", &template)), (tests.join(&file), cases)];
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

/// The extension of a built-in policy, with its parameters to choose from, and a case with a pod that it injects.
fn extension(base: &str) -> anyhow::Result<(String, String)> {
    if builtin::find(base).is_none() {
        let hint = suggest(base, builtin::POLICIES.iter().map(|known| known.name));
        bail!("there is no built-in policy `{base}`; {hint}");
    }
    let named = PolicySources { policies: vec![base.to_owned()], ..PolicySources::default() };
    let policies = named.load()?;
    let policy = policies.policies().first().context("a built-in policy is one")?;
    let parameter = |parameter: &Parameter| {
        let default = [(parameter.name.clone(), parameter.default.clone())].into_iter().collect();
        let text = fabric_yaml::write(&Value::Object(default));
        format!("    # {}\n{}", parameter.description.trim(), indented("    # ", &text))
    };
    let parameters: Vec<String> = policy.definition().parameters.iter().map(parameter).collect();
    let pod = indented("  ", &fabric_yaml::write(&sample(policy)));
    let policy = EXTENSION.replace("{base}", base).replace("{parameters}", parameters.concat().trim_end());
    Ok((policy, EXTENSION_CASES.replace("{pod}", pod.trim_end())))
}

fn indented(start: &str, text: &str) -> String {
    text.lines().flat_map(|line| [start, line, "\n"]).collect()
}
