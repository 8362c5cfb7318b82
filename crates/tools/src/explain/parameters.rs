//! The parameters of a policy: their declarations, and the sources of their values for a pod, with the lines of policy
//! files and values files that have them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use fabric_policy::matcher::Selection;
use fabric_policy::nodes::NodeKind;
use fabric_policy::{Definition, Origin, Override, Parameter, Policy, Resolution};
use fabric_yaml::{Entry, Node, Span, counted, each_once};

use crate::helm_values::Values;
use crate::policy_list::Bounds;

/// The files and options from which an operator's values come.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    pub values: Option<&'a Values>,
    /// The options `--set` by the name of their parameter.
    pub sets: &'a BTreeMap<String, String>,
}

/// A parameter as its policy declares it, with the setting of the operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterFact {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub description: String,
    pub default: Value,
    #[serde(flatten)]
    pub bounds: Bounds,
    /// The operator's value or tables; none if the operator sets nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<Value>,
    /// The value for a pod that selects no nodes, and its source.
    pub value: ValueFact,
}

/// The value of a parameter for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueFact {
    pub name: String,
    pub value: Value,
    pub source: SourceKind,
    /// The text of the option, or the label with the value that the pod selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The line that has the value; none for an option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<FileLine>,
}

/// The kinds of sources of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    /// The option `--set`.
    Set,
    /// A value of the values file.
    Values,
    /// A table of the values file.
    ValuesTable,
    /// The resources of the nodes that the pod can be scheduled to.
    Nodes,
    /// The networks of these resources.
    Networks,
    /// A row of the policy's machines.
    Machines,
    /// A value of an extension, for every pod.
    Extension,
    /// `default` in a table of the values file.
    ValuesDefault,
    /// The default of the policy.
    Default,
    /// Neither the operator nor the policy gives a value.
    None,
}

impl SourceKind {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Set => "option",
            Self::Values => "values file",
            Self::ValuesTable => "table of the values file",
            Self::Nodes => "nodes",
            Self::Networks => "networks",
            Self::Machines => "machine",
            Self::Extension => "extension",
            Self::ValuesDefault => "default of the values file",
            Self::Default => "default",
            Self::None => "no default",
        }
    }
}

/// The declarations of all parameters of a policy.
pub(super) fn declared(policy: &Policy, sources: &Sources<'_>) -> Vec<ParameterFact> {
    let nodes = Selection::default();
    let value = |parameter: &Parameter| {
        let Resolution { value, origin, .. } =
            parameter.resolve(policy.overrides().get(&parameter.name), &nodes.each());
        value_of(policy, parameter, &value, &origin, &nodes, sources)
    };
    let fact = |parameter: &Parameter| ParameterFact {
        name: parameter.name.clone(),
        kind: parameter.kind.name(),
        description: parameter.description.clone(),
        default: parameter.default.clone(),
        bounds: Bounds::new(parameter),
        setting: policy.overrides().get(&parameter.name).map(Override::to_json),
        value: value(parameter),
    };
    policy.definition().parameters.iter().map(fact).collect()
}

/// A value of a parameter, for a pod that selects these nodes.
pub(super) fn value_of(
    policy: &Policy,
    parameter: &Parameter,
    value: &Value,
    origin: &Origin,
    selection: &Selection,
    sources: &Sources<'_>,
) -> ValueFact {
    let (name, definition) = (&parameter.name, policy.definition());
    // The place in the values file of the setting, or of a part of it.
    let in_values = |span_of: &dyn Fn(&Entry<Node>) -> Option<Span>| {
        let (file, entries) = sources.values?.entries(&definition.provider);
        let span = span_of(entries.iter().find(|entry| entry.key == *name)?)?;
        Some(FileLine { file: file.to_owned(), line: span.line })
    };
    let selected = |label: &str| format!("{label}: {}", selection.values(label).join(" | "));
    let (source, detail, place) = match origin {
        Origin::Override => match sources.sets.get(name) {
            Some(set) => (SourceKind::Set, Some(format!("--set {set}")), None),
            None => (SourceKind::Values, None, in_values(&|setting| Some(setting.span))),
        },
        Origin::OverrideTable(label, span) => {
            (SourceKind::ValuesTable, Some(selected(label)), in_values(&|_| Some(*span)))
        }
        Origin::Extension(span) => (SourceKind::Extension, None, Some(in_file(definition, *span))),
        Origin::Nodes => {
            let place = place_of(definition, name, Some("fromNodes"));
            (SourceKind::Nodes, Some(of_nodes(parameter, selection)), place)
        }
        Origin::Networks => {
            let place = place_of(definition, name, Some("fromNetworks"));
            (SourceKind::Networks, Some(of_nodes(parameter, selection)), place)
        }
        Origin::Machines(label, span) => {
            (SourceKind::Machines, Some(selected(label)), Some(in_file(definition, *span)))
        }
        Origin::OverrideDefault => {
            let default = |setting: &Entry<Node>| Some(setting.value.entry("default")?.span);
            (SourceKind::ValuesDefault, None, in_values(&default))
        }
        Origin::PolicyDefault if value.is_null() => {
            (SourceKind::None, None, place_of(definition, name, None))
        }
        Origin::PolicyDefault => {
            let place =
                place_of(definition, name, Some("default")).or_else(|| place_of(definition, name, None));
            (SourceKind::Default, None, place)
        }
    };
    ValueFact { name: name.clone(), value: value.clone(), source, detail, place }
}

/// What each kind of nodes offers of the resources that a parameter looks for.
fn of_nodes(parameter: &Parameter, selection: &Selection) -> String {
    let looked_for = |name: &str| parameter.from_nodes.as_ref().is_some_and(|from| from.looks_for(name));
    let text = |kind: &NodeKind| {
        let resources = kind.resources.iter().filter(|(name, _)| looked_for(name));
        let resources: Vec<String> = resources.map(|(name, count)| format!("{count} of {name}")).collect();
        format!("{} by node with {}", resources.join(", "), counted(kind.gpus, "GPU"))
    };
    each_once(selection.kinds.iter().map(text)).join("; ")
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileLine {
    pub file: String,
    pub line: usize,
}

impl std::fmt::Display for FileLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The place of a key of a parameter, such as `default`, or of the parameter itself.
fn place_of(definition: &Definition, name: &str, key: Option<&str>) -> Option<FileLine> {
    let parameter = definition.spec.get("parameters")?.entry(name)?;
    let entry = key.map_or(Some(parameter), |key| parameter.value.entry(key));
    entry.map(|entry| in_file(definition, entry.span))
}

/// The lines of the files of a policy count on from one to the next, its own file last.
pub(super) fn in_file(definition: &Definition, span: Span) -> FileLine {
    let (file, line) = definition.line_in_file(span);
    FileLine { file: file.to_owned(), line }
}
