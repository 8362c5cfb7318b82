//! Which policies are in use, with which values: reading the files that were named, and making one set of
//! policies of them.
//!
//! Reading and compiling are apart, so that a server can read often and compile only what changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

use crate::core::policy::Definition;
use crate::core::policy_set::PolicySet;
use crate::core::values::Values;
use crate::shell::builtin;
use crate::shell::files::{Allowed, read_bounded};

/// A policy file.
const POLICY: Allowed = Allowed { what: "policy", mebibytes: 4, pipes: false };
/// A values file.
const VALUES: Allowed = Allowed { what: "values file", mebibytes: 4, pipes: false };

/// What an operator chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySources {
    /// Names of built-in policies, paths of policy files, and folders of them.
    pub policies: Vec<String>,
    /// The path of a values file.
    pub values: Option<String>,
    /// Parameters of the one policy in use, `key=value`.
    pub sets: Vec<String>,
}

/// The files of a selection as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPolicies {
    /// Name and text of each policy file.
    policies: Vec<(String, String)>,
    /// Path and text of the values file.
    values: Option<(String, String)>,
    sets: Vec<String>,
}

impl PolicySources {
    /// Reads all files, as often as one likes: none may be a pipe.
    pub fn read(&self) -> anyhow::Result<RawPolicies> {
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

    /// Reads all files once, pipes as well, and makes the set of policies of them.
    pub fn load(&self) -> anyhow::Result<PolicySet> {
        self.read_files(true)?.compile()
    }
}

impl RawPolicies {
    /// Makes the set of policies: all of them, or an error.
    pub fn compile(&self) -> anyhow::Result<PolicySet> {
        Ok(PolicySet::new(self.chosen()?)?)
    }

    /// The `multinodeNetworking` block that says the same as values and `--set` together.
    pub fn settings(&self) -> anyhow::Result<Value> {
        let mut block = Map::new();
        for (definition, overrides) in self.chosen()? {
            let of_provider = block.entry(definition.provider).or_insert_with(|| json!({"enabled": true}));
            if let Some(of_provider) = of_provider.as_object_mut() {
                of_provider.extend(overrides);
            }
        }
        Ok(Value::Object(block))
    }

    /// The policies in use, each with what the operator set for it.
    fn chosen(&self) -> anyhow::Result<Vec<(Definition, BTreeMap<String, Value>)>> {
        let values = self.values.as_ref().map(|(path, text)| Values::read(path, text)).transpose()?;
        let enabled = values.as_ref().map(Values::enabled).transpose()?.flatten().map(str::to_owned);
        let definitions = self.policies.iter().map(|(name, text)| Definition::read(name, text));
        let mut definitions = definitions.collect::<Result<Vec<_>, _>>()?;
        if let Some(values) = &values {
            check_values(values, &definitions, enabled.as_deref())?;
        }
        if definitions.is_empty() {
            definitions = of_provider(enabled.as_deref())?;
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

    fn parse_sets(&self, definitions: &[Definition]) -> anyhow::Result<BTreeMap<String, Value>> {
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

/// Every built-in policy with its provider and description, a line each.
pub fn listing() -> anyhow::Result<String> {
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

/// The text of a built-in policy by its name, else of the file of that path, else of all in that folder.
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

/// The policies of a folder by name. Hidden files are left out: a mounted ConfigMap has two.
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

/// The values file has to be about policies that exist, and must not enable another provider than theirs.
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
fn of_provider(enabled: Option<&str>) -> anyhow::Result<Vec<Definition>> {
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
