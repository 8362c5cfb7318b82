//! The sentences about the choice of a policy for a pod, and those of the warnings about a whole pod.

use std::fmt;

use serde_json::json;

use super::WarningKind;
use fabric_policy::SelectedLabel;
use fabric_policy::objects::{ObjectKind, ObjectName};
use fabric_yaml::counted;

use crate::record::stamp::{CLAIMS, NODES, PROVIDER, STAMP};

/// The nodes in which the engine looks for the provider of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodesLookedAt {
    /// Those that the pod names by labels that one provider has.
    Selected,
    /// Those that it fits now.
    Fitting,
    /// All of the cluster, because it fits none now.
    All,
}

/// The ways in which a pod can decide its provider.
pub(super) const NAME_PROVIDER: &str = "select one by a label that only it has, such as an instance type, or by the \
                                        annotation `fabric-injector.io/provider`";

/// The ways in which a pod can decide its policy, as the end of a sentence.
pub(super) const NAME_POLICY: &str = "; select its nodes by one of these labels, or name the policy in the annotation \
                                      `fabric-injector.io/provider`";

/// The sentence about a provider for which no policy is in use.
pub(super) fn other_provider(named: Option<&str>, known: &[String]) -> String {
    let known = quoted(known);
    match named {
        Some(named) => format!(
            "the annotation `{PROVIDER}` names `{named}`, but the policies in use are for {known}: correct it, or enable \
             that provider"
        ),
        None => format!(
            "no policy in use is for the nodes that the pod fits, judging by their `spec.providerID` and labels; of \
             {known}, {NAME_PROVIDER}"
        ),
    }
}

/// The providers whose nodes the pod may get, as the beginning of a sentence.
pub(super) fn nodes_of(providers: &[String], looked_at: NodesLookedAt) -> String {
    let known = quoted(providers);
    match looked_at {
        _ if providers.is_empty() => "no node of the cluster identifies the provider of the pod".to_owned(),
        NodesLookedAt::Selected => format!("the pod selects nodes of {known}"),
        NodesLookedAt::Fitting => format!("the pod fits nodes of {known}"),
        NodesLookedAt::All => format!("the pod fits no node now, and the cluster has nodes of {known}"),
    }
}

/// The sentence about policies whose conditions are false.
pub(super) fn false_conditions(policies: &[String], parameters: &[(String, String)]) -> String {
    let policies = match policies {
        [policy] => format!("the condition `match.when` of the policy `{policy}` is false for this pod"),
        _ => {
            format!("the conditions `match.when` of the policies {} are false for this pod", quoted(policies))
        }
    };
    let values: Vec<String> =
        parameters.iter().map(|(name, value)| format!("`{name}` is `{value}`")).collect();
    if values.is_empty() { policies } else { format!("{policies}: {}", values.join(", ")) }
}

impl WarningKind {
    /// Writes the sentence of a warning about the whole pod: about a value that nodes and tables give differently, about
    /// the choice of the policy, or about its devices.
    pub(super) fn fmt_of_pod(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParameterAssumed { parameter, value, labels, gpus, has_gpus, of_nodes } => write!(
                f,
                "`{parameter}` is assumed to be {value}; {}: no table has a value for {} {}{}",
                if *has_gpus {
                    "set it, or select nodes that a table knows"
                } else {
                    "set it for the workers"
                },
                if *of_nodes { "nodes with" } else { "a pod that selects" },
                some_labels(labels),
                gpus.map(|count| format!(", with {}", counted(count, "GPU"))).unwrap_or_default()
            ),
            Self::ParameterContradicts { parameter, value, table, selected } => {
                write!(f, "`{parameter}` is set to {value}, and the table has {table} for {selected}")
            }
            Self::NodesOfferLess { parameter, value, table, selected } => write!(
                f,
                "`{parameter}` is {value}, which the nodes offer, and the table has {table} for {selected}: check how \
                 these nodes are created"
            ),
            Self::NodesOfferMore { parameter, value, offered, selected } => write!(
                f,
                "upgrade the device plugin of the nodes: they offer {offered} for `{parameter}`, and {selected} has \
                 {value}, which counts"
            ),
            Self::NodesDisagree { parameter, value, kinds } => write!(
                f,
                "`{parameter}` is {value}, the lowest value of the nodes that the pod fits; for more, select one \
                 kind of node: {kinds}"
            ),
            Self::NoNodeFits { resource, requested, most: 0 } => write!(
                f,
                "the pod requests {requested} of `{resource}`, and no node that it fits offers any: check whether the \
                 device plugin runs there"
            ),
            Self::NoNodeFits { resource, requested, most } => write!(
                f,
                "the pod requests {requested} of `{resource}`, and the nodes that it fits have at most {most}: request \
                 fewer, or select other nodes"
            ),
            Self::ClaimByName { claims } => write!(
                f,
                "no device class is known of {}: the name of such a claim decides what it brings",
                claims.iter().map(|name| format!("the claim `{name}`")).collect::<Vec<_>>().join(" and ")
            ),
            Self::TooManyObjects { namespace } => write!(
                f,
                "delete claims, ResourceClaimTemplates and {}s that no pod uses: the namespace `{namespace}` has more of \
                 them than are read, and the name of a claim decides what it brings",
                ObjectKind::Domain.api().kind
            ),
            Self::NotThereYet { object, class } => not_there_yet(f, object, class.as_deref()),
            Self::KeptFabric { names } => write!(
                f,
                "the pod requests {} itself, so the devices of this policy are left out",
                quoted(names)
            ),
            Self::Restamped { before, after } => write!(
                f,
                "inject the original manifest again for the values of `{after}`, the stamp that the pod has now: \
                 it came with the stamp `{before}`, and keeps the values that it has"
            ),
            Self::ProviderAssumed { provider } => write!(
                f,
                "enable only one provider (`multinodeNetworking.PROVIDER.enabled`), or set the annotation \
                 `{PROVIDER}`: `{provider}` is assumed, because no node has GPUs, a providerID or label of a cloud"
            ),
            Self::AnnotationContradicted { selected, recorded } => write!(
                f,
                "remove the annotations `{STAMP}`, `{NODES}` and `{CLAIMS}` from the manifest, which count as absent: they are \
                 for {recorded}, and the pod selects {selected}"
            ),
            Self::InjectedBefore { stamp } => write!(
                f,
                "to remove what `{stamp}` added, start from the original manifest: the pod came with that stamp, \
                 and is now skipped"
            ),
            _ => Ok(()),
        }
    }
}

fn not_there_yet(f: &mut fmt::Formatter<'_>, object: &ObjectName, class: Option<&str>) -> fmt::Result {
    let ObjectName { kind, namespace, name } = object;
    let of_namespace =
        if namespace.is_empty() { String::new() } else { format!(" in the namespace `{namespace}`") };
    let of_kind = &kind.api().kind;
    write!(
        f,
        "the {of_kind} `{name}` is not there yet{of_namespace}, and the pod does not start without it: "
    )?;
    match (kind, class) {
        (ObjectKind::Class, _) => f.write_str("install the driver that has it"),
        (ObjectKind::Template, None) => {
            write!(f, "create it, or the {} that names it", ObjectKind::Domain.api().kind)
        }
        (ObjectKind::Template, Some(class)) => {
            let request =
                json!({"name": "devices", "exactly": {"deviceClassName": class, "allocationMode": "All"}});
            let template = json!({
                "apiVersion": format!("{}/{}", kind.api().group, kind.api().versions[0]),
                "kind": of_kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"spec": {"devices": {"requests": [request]}}},
            });
            write!(f, "create it: `kubectl apply -f - <<< '{template}'`")
        }
        _ => f.write_str("create it, or correct the name"),
    }
}

/// The labels that a pod does not select. A policy may look at many; pods select the first ones most often.
fn some_labels(labels: &[SelectedLabel]) -> String {
    let (first, others) = labels.split_at(if labels.len() > 3 { 2 } else { labels.len() });
    let mut texts: Vec<String> = first.iter().map(ToString::to_string).collect();
    if !others.is_empty() {
        texts.push(format!("nor one of {}", counted(others.len(), "other label")));
    }
    texts.join(", ")
}

pub(super) fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
