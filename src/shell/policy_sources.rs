//! The policies and values that an operator names, and the set of policies that they make.
//!
//! Reading and compiling are separate steps, so that a server can read files often and compile them only when they
//! change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

use crate::core::policy::{Definition, Setting};
use crate::core::policy_set::PolicySet;
use crate::core::values::Values;
use crate::shell::builtin;
use crate::shell::files::{Allowed, read_bounded};

const POLICY: Allowed = Allowed { what: "policy", mebibytes: 4, pipes: false };
const VALUES: Allowed = Allowed { what: "values file", mebibytes: 4, pipes: false };

/// The policies and values that an operator names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySources {
    /// Names of built-in policies, paths of policy files, and directories of them.
    pub policies: Vec<String>,
    /// The path of a values file.
    pub values: Option<String>,
    /// Parameters of the only policy, `key=value`.
    pub sets: Vec<String>,
}

/// The policies and values as they were read, before parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawPolicies {
    /// The name and text of each policy file.
    policies: Vec<(String, String)>,
    /// The path and text of the values file.
    values: Option<(String, String)>,
    sets: Vec<String>,
}

impl PolicySources {
    /// Reads all files. None may be a pipe, so that they can be read again.
    pub(crate) fn read(&self) -> anyhow::Result<RawPolicies> {
        self.read_files(false)
    }

    fn read_files(&self, pipes: bool) -> anyhow::Result<RawPolicies> {
        let mut policies = Vec::new();
        for name in &self.policies {
            policies.extend(read_policies(name, Allowed { pipes, ..POLICY })?);
        }
        let values = match &self.values {
            Some(path) => Some((path.clone(), read_file(path, Allowed { pipes, ..VALUES })?)),
            None => None,
        };
        Ok(RawPolicies { policies, values, sets: self.sets.clone() })
    }

    /// Reads all files, which may be pipes, and compiles the policies.
    pub fn load(&self) -> anyhow::Result<PolicySet> {
        self.read_files(true)?.compile()
    }
}

impl RawPolicies {
    /// Compiles all policies.
    pub(crate) fn compile(&self) -> anyhow::Result<PolicySet> {
        Ok(PolicySet::new(self.chosen()?)?)
    }

    /// The `multinodeNetworking` block with the values file and `--set` combined.
    pub(crate) fn settings(&self) -> anyhow::Result<Value> {
        let mut block = Map::new();
        for (definition, overrides) in self.chosen()? {
            let settings = block.entry(definition.provider).or_insert_with(|| json!({"enabled": true}));
            if let Some(settings) = settings.as_object_mut() {
                settings.extend(overrides.iter().map(|(name, setting)| (name.clone(), setting.to_json())));
            }
        }
        Ok(Value::Object(block))
    }

    /// The policies in use, each with the parameters that the operator sets.
    fn chosen(&self) -> anyhow::Result<Vec<(Definition, BTreeMap<String, Setting>)>> {
        let values = self.values.as_ref().map(|(path, text)| Values::read(path, text)).transpose()?;
        let enabled = values.as_ref().map(Values::enabled).transpose()?.flatten().map(str::to_owned);
        let definitions = self.policies.iter().map(|(name, text)| Definition::read(name, text));
        let mut definitions = definitions.collect::<Result<Vec<_>, _>>()?;
        if let Some(values) = &values {
            check_values(values, &definitions, enabled.as_deref())?;
        }
        if definitions.is_empty() {
            definitions = built_in_of(enabled.as_deref())?;
        }
        let sets = self.parse_sets(&definitions)?;
        let mut with_values = Vec::new();
        for definition in definitions {
            let mut overrides = match &values {
                Some(values) => values.overrides(&definition)?,
                None => BTreeMap::new(),
            };
            overrides.extend(sets.clone());
            with_values.push((definition, overrides));
        }
        Ok(with_values)
    }

    fn parse_sets(&self, definitions: &[Definition]) -> anyhow::Result<BTreeMap<String, Setting>> {
        let mut sets = BTreeMap::new();
        if self.sets.is_empty() {
            return Ok(sets);
        }
        let [definition] = definitions else {
            bail!("`--set` is for one policy, and {} are in use; use `--values`", definitions.len());
        };
        for set in &self.sets {
            let Some((key, text)) = set.split_once('=') else {
                bail!("`--set {set}` has no `=`; write `--set KEY=VALUE`");
            };
            let prefixes = [
                format!("multinodeNetworking.{}.", definition.provider),
                format!("{}.", definition.provider),
            ];
            let name = prefixes.iter().find_map(|prefix| key.strip_prefix(prefix.as_str())).unwrap_or(key);
            let Some(parameter) = definition.parameters.iter().find(|parameter| parameter.name == name)
            else {
                let known: Vec<&str> =
                    definition.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
                bail!(
                    "policy `{}` has no parameter `{name}`\nhint: it has {}",
                    definition.name,
                    known.join(", ")
                );
            };
            let value =
                parameter.parse(text).map_err(|problem| anyhow::anyhow!("`--set {set}`: {problem}"))?;
            sets.insert(name.to_owned(), value);
        }
        Ok(sets)
    }
}

/// One line for each built-in policy, with its provider and description.
pub(crate) fn listing() -> anyhow::Result<String> {
    let mut lines = String::new();
    for policy in builtin::POLICIES {
        let definition = policy.definition()?;
        lines.push_str(&format!(
            "{:<18} {:<7} {}\n",
            definition.name, definition.provider, definition.description
        ));
    }
    Ok(lines)
}

/// The names and texts of the policies that `name` stands for: a built-in policy, a file, or a directory.
fn read_policies(name: &str, allowed: Allowed) -> anyhow::Result<Vec<(String, String)>> {
    if let Some(policy) = builtin::find(name) {
        return Ok(vec![(format!("policies/{name}.yaml"), policy.text.to_owned())]);
    }
    let path = Path::new(name);
    if !name.contains(['/', '.']) && !path.exists() {
        bail!("there is no built-in policy `{name}`, nor a file or folder of that name\n{}", available()?);
    }
    if !path.is_dir() {
        return Ok(vec![(name.to_owned(), read_file(name, allowed)?)]);
    }
    let files = policy_files(path).with_context(|| format!("{name} cannot be read"))?;
    ensure!(!files.is_empty(), "{name} has no policy in it; a policy is a file that ends with `.yaml`");
    files.iter().map(|file| Ok((file.clone(), read_file(file, allowed)?))).collect()
}

/// The policy files of a directory, sorted by name, without hidden ones: a mounted ConfigMap has two.
fn policy_files(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if !hidden && is_yaml {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &str, allowed: Allowed) -> anyhow::Result<String> {
    let bytes = read_bounded(Path::new(path), Path::new(path), allowed)?;
    String::from_utf8(bytes).with_context(|| format!("{path} cannot be read"))
}

/// Checks that the values file names known policies only, and enables no other provider than that of the policies
/// in use.
fn check_values(values: &Values, definitions: &[Definition], enabled: Option<&str>) -> anyhow::Result<()> {
    let built_in =
        builtin::POLICIES.iter().map(|policy| policy.definition()).collect::<Result<Vec<_>, _>>()?;
    let all: Vec<&Definition> = definitions.iter().chain(&built_in).collect();
    values.check(&all)?;
    if let (Some(enabled), Some(policy)) =
        (enabled, definitions.iter().find(|policy| Some(policy.provider.as_str()) != enabled))
    {
        bail!(
            "the values file enables `{enabled}`, and policy `{}` is for `{}`; one provider at a time",
            policy.name,
            policy.provider
        );
    }
    Ok(())
}

/// The built-in policy of the provider that the values file enables.
fn built_in_of(enabled: Option<&str>) -> anyhow::Result<Vec<Definition>> {
    let Some(enabled) = enabled else {
        bail!(
            "no policy is named; use `--policy NAME`, or `--values FILE` with a provider enabled\n{}",
            available()?
        );
    };
    let mut found = Vec::new();
    for policy in builtin::POLICIES {
        let definition = policy.definition()?;
        if definition.provider == enabled {
            found.push(definition);
        }
    }
    Ok(found)
}

fn available() -> anyhow::Result<String> {
    Ok(format!("built-in policies:\n{}", listing()?.trim_end()))
}
