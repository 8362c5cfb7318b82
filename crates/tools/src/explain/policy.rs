//! The facts about a policy: its triggers, parameters, additions and messages, and its needs.
//!
//! They come from the definition and the values of the parameters, without a pod.

mod additions;
mod constants;
mod needs;
mod text;

use serde::Serialize;
use serde_json::{Map, Value};

use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::Interpolation;
use fabric_policy::matcher::NodeMatch;
use fabric_policy::{About, Definition, Policy, PolicyCheck};

use super::columns::brief;
use super::lines::{FileLine, item};
use super::parameters::{ParameterFact, Sources, declared, machines};
use additions::rules;
pub use additions::{AdditionFact, RuleFact};
use needs::needs;
pub use needs::{NeedFact, NeedKind};
pub use text::policy_text;

/// A policy with the values of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFact {
    pub name: String,
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    pub provider: String,
    pub description: String,
    pub r#match: TriggerFact,
    pub gpus: GpuFact,
    pub own_devices: OwnDevicesFact,
    pub parameters: Vec<ParameterFact>,
    pub variables: Vec<VariableFact>,
    pub rules: Vec<RuleFact>,
    pub files: Vec<FileFact>,
    pub checks: Vec<CheckFact>,
    pub needs: Vec<NeedFact>,
}

/// The pods that a policy matches: every key that is present must hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerFact {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_annotation: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except_annotation: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_kinds: Vec<String>,
    /// The nodes of the policy, if policies of several providers are in use: `providerID`, or a label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// The resources and claims that count as GPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuFact {
    pub resources: Vec<String>,
    /// The names of claims and of templates, each with the GPUs of such a claim; `*` is any text.
    pub claims: Vec<String>,
}

/// The names of devices with which a pod brings its own fabric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnDevicesFact {
    pub resources: Vec<String>,
    pub claims: Vec<String>,
}

/// A variable, with the expressions that it consists of, and its rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariableFact {
    pub name: String,
    pub expressions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Map<String, Value>>,
    /// Its expressions, or its value where it has none, as text.
    #[serde(skip)]
    pub(crate) fallback: String,
}

/// A file with variables for processes that do not inherit the environment of their container.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileFact {
    pub path: String,
    pub variables: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The variable with which a container reads another file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
}

/// A check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckFact {
    pub code: String,
    pub place: Option<FileLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The containers, of a check of each or of a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<String>,
    /// The variable that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The consequence for the pod: `warn`, `refuse` or `skip`.
    pub effect: &'static str,
    pub message: String,
}

/// The facts about a policy with the values of its parameters.
pub fn policy(policy: &Policy, sources: &Sources<'_>) -> PolicyFact {
    let definition = policy.definition();
    let (devices, matcher) = (policy.devices(), &definition.matcher);
    let rules = rules(policy);
    let nodes = definition.provider_nodes.iter().flat_map(NodeMatch::alternatives);
    let own_claims = devices.own.claims.iter().map(|name| name.to_string().trim_end_matches("=1").to_owned());
    let strings = |list: &[_]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyFact {
        name: definition.name.clone(),
        file: definition.file.clone(),
        extends: definition.extends.clone(),
        provider: definition.provider.clone(),
        description: definition.description.clone(),
        r#match: TriggerFact {
            any_annotation: matcher.any_annotation.clone(),
            except_annotation: matcher.except_annotation.clone(),
            labels: matcher.labels.clone(),
            namespaces: matcher.namespaces.clone(),
            owner_kinds: matcher.owner_kinds.clone(),
            nodes: nodes.map(|(key, pattern)| (key, pattern.to_string())).collect(),
            when: matcher.when.as_ref().map(Interpolation::on_one_line),
        },
        gpus: GpuFact {
            resources: devices.gpu_resources.clone(),
            claims: devices.gpu_claims.iter().map(ToString::to_string).collect(),
        },
        own_devices: OwnDevicesFact {
            resources: strings(&devices.own.resources),
            claims: own_claims.collect(),
        },
        parameters: declared(policy, sources),
        variables: variables(policy),
        files: files(policy),
        checks: checks(definition),
        needs: needs(policy, &rules),
        rules,
    }
}

fn variables(policy: &Policy) -> Vec<VariableFact> {
    let fact = |variable: &fabric_policy::Variable| {
        let mut expressions = Vec::new();
        variable.value.texts(&mut |text: &Interpolation| expressions.push(text.on_one_line()));
        let constant =
            || variable.value.evaluate(&Bindings::default()).map(|value| brief(&value)).unwrap_or_default();
        VariableFact {
            name: variable.name.clone(),
            fallback: if expressions.is_empty() { constant() } else { expressions.join("; ") },
            expressions,
            machines: variable.column.iter().flat_map(|column| machines(column)).collect(),
        }
    };
    policy.definition().variables.iter().map(fact).collect()
}

fn files(policy: &Policy) -> Vec<FileFact> {
    let fact = |file: &fabric_policy::definition::SettingsFile| FileFact {
        path: file.path.clone(),
        variables: file.variables.clone(),
        when: file.when.as_ref().map(Interpolation::on_one_line),
        env: file.env.clone(),
    };
    policy.definition().files.iter().map(fact).collect()
}

fn checks(definition: &Definition) -> Vec<CheckFact> {
    let fact = |check: &PolicyCheck| CheckFact {
        code: check.code.clone(),
        place: item(definition, "checks", &check.code),
        when: check.when.as_ref().map(Interpolation::on_one_line),
        containers: match &check.about {
            About::Pod => None,
            About::Containers(condition) => Some(condition.on_one_line()),
            About::Variable(_, containers) => containers.condition().map(Interpolation::on_one_line),
        },
        env: if let About::Variable(name, _) = &check.about { Some(name.clone()) } else { None },
        effect: check.effect.key(),
        message: check.message.on_one_line(),
    };
    definition.checks.iter().map(fact).collect()
}
