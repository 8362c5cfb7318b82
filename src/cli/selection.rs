//! Which policies are in use, with which values: `--policy`, `--values` and `--set` together.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::builtin;
use crate::policy::Definition;
use crate::policy_set::PolicySet;
use crate::values::Values;

/// The options that choose policies.
#[derive(Debug, clap::Args)]
pub(super) struct Selection {
    /// A built-in policy, or the path of a policy file; may be given several times
    #[arg(long = "policy", value_name = "NAME|PATH")]
    policies: Vec<String>,
    /// A file with a `multinodeNetworking:` block, such as a Helm values file as it is
    #[arg(long, value_name = "FILE")]
    values: Option<String>,
    /// A parameter of the one policy in use; wins over the values file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl Selection {
    pub(super) fn load(&self) -> anyhow::Result<PolicySet> {
        let values = self.values.as_deref().map(read_values).transpose()?;
        let enabled = values.as_ref().map(Values::enabled).transpose()?.flatten().map(str::to_owned);
        let mut definitions =
            self.policies.iter().map(|name| read_policy(name)).collect::<anyhow::Result<Vec<_>>>()?;
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
        Ok(PolicySet::new(with_values)?)
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

/// A policy by the name of a built-in one, else by the path of a file.
fn read_policy(name: &str) -> anyhow::Result<Definition> {
    if let Some(policy) = builtin::find(name) {
        return Ok(policy.definition()?);
    }
    if !name.contains(['/', '.']) && !Path::new(name).exists() {
        bail!("there is no built-in policy `{name}`, nor a file of that name\n{}", available()?);
    }
    let text = fs::read_to_string(name).with_context(|| format!("{name} cannot be read"))?;
    Ok(Definition::read(name, &text)?)
}

fn read_values(path: &str) -> anyhow::Result<Values> {
    let text = fs::read_to_string(path).with_context(|| format!("{path} cannot be read"))?;
    Ok(Values::read(path, &text)?)
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
    Ok(format!("built-in policies:\n{}", super::policies::listing()?.trim_end()))
}
