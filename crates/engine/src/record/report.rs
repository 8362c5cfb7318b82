//! The reasons and warnings of a report. Each has a stable code and a sentence.

mod choice;
mod reason;

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use fabric_policy::SelectedLabel;
use fabric_policy::objects::ObjectName;
use fabric_yaml::counted;
use fabric_yaml::pointer::field_path;

pub use choice::NodesLookedAt;
pub(crate) use reason::evaluation_failed;
pub use reason::{OrReason, Reason, UnknownClaim, turns_on};

/// A fact about a pod that its author should know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Warning {
    /// Field path within the pod, as in `spec.containers[nim].env[UCX_TLS]`; empty for the whole pod.
    pub path: String,
    pub kind: WarningKind,
    /// The rule of the policy; empty if the warning is not about one rule.
    pub rule: String,
}

/// The kinds of [`Warning`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WarningKind {
    /// The pod's value stays. The code names the kind of value.
    Kept { what: ValueKind, seen: String, wanted: String },
    /// The policy's value replaced the pod's.
    Replaced { seen: String, wanted: String },
    /// The policy's volume has another name, because the pod uses its name for another volume.
    RenamedVolume { from: String, to: String },
    /// A mount was left out, because the pod has no such volume.
    MountWithoutVolume { volume: String },
    /// Neither the operator nor a table gave the value of a parameter with a table by these labels.
    ParameterAssumed {
        parameter: String,
        value: String,
        labels: Vec<SelectedLabel>,
        /// The GPUs of the pod, if a table reads them.
        gpus: Option<i64>,
        /// False for a launcher, which must not select the nodes of its workers.
        has_gpus: bool,
        /// True if the labels are those of nodes that the pod can be scheduled to.
        of_nodes: bool,
    },
    /// The operator's value differs from that of the table.
    ParameterContradicts { parameter: String, value: String, table: String, selected: SelectedLabel },
    /// The nodes offer fewer devices than the table states for them.
    NodesOfferLess { parameter: String, value: String, table: String, selected: SelectedLabel },
    /// The nodes offer more devices than the table has for them, which counts.
    NodesOfferMore { parameter: String, value: String, offered: String, selected: SelectedLabel },
    /// The nodes that the pod may get have different numbers. The pod gets the lowest above zero.
    NodesDisagree {
        parameter: String,
        value: String,
        /// The kinds of nodes, and what each of them offers.
        kinds: String,
    },
    /// The pod requests more of a device than any node has that it can be scheduled to.
    NoNodeFits { resource: String, requested: i64, most: i64 },
    /// A capability that the kernel does not grant.
    CapabilityWithoutRoot {
        capability: String,
        /// The setting that keeps the container from running as root.
        because: String,
    },
    /// A value was left out because the API server rejects it next to another value of the pod.
    Excluded {
        what: ValueKind,
        /// The value that was left out.
        setting: String,
        /// The value of the pod that excludes it.
        against: String,
    },
    /// A container was not added: the overlay has no image for it, and the pod has no container of that name.
    NoSuchContainer { name: String },
    /// A claim was left out, because the pod has no claim of that name.
    ClaimWithoutPodClaim { claim: String },
    /// The class of a claim is unknown, so that its name decides.
    ClaimByName { claims: Vec<String> },
    /// The namespace has more objects about claims than are known, so that names decide about a claim of the pod.
    TooManyObjects { namespace: String },
    /// The pod names an object that the cluster does not have.
    NotThereYet {
        object: ObjectName,
        /// The device class of a template that brings the devices of the policy.
        class: Option<String>,
    },
    /// The pod had the stamp of another policy, or of another version of this one.
    Restamped {
        /// The stamp that the pod came with.
        before: String,
        /// The stamp that it has now.
        after: String,
    },
    /// Neither the pod nor a node names its provider, and no node has GPUs.
    ProviderAssumed { provider: String },
    /// The annotations of an earlier injection are of other nodes than the pod selects.
    AnnotationContradicted { selected: String, recorded: String },
    /// A pod that is skipped has the stamp of an earlier injection.
    InjectedBefore { stamp: String },
    /// Huge pages were left out: the API server requires a request for CPU or memory next to them.
    HugePagesAlone { resource: String },
    /// Rules were left out, because the pod requests devices of the fabric itself, under these names.
    KeptFabric { names: Vec<String> },
    /// A container gets fewer devices of a list than its amount: the list has no other names, or other containers
    /// request them.
    TooFewResources { given: usize, wanted: usize },
    /// The list of networks has none for some devices of the pod.
    TooFewNetworks { given: usize, wanted: usize },
    /// No networks are attached to a hostNetwork pod.
    HostNetwork,
    /// The container has another settings file, so the settings of the policy are only in its environment.
    SettingsElsewhere {
        /// The variable that names the other file.
        variable: String,
        file: String,
    },
    /// A variable is only in the environment, because a settings file cannot hold its value.
    NotInFile { variable: String, file: String },
    /// A check reads this variable, whose value only the kubelet knows.
    ValueUnread { variable: String },
    /// A warning that the policy itself declares.
    Policy { code: String, message: String, leaves_tcp: bool },
}

impl WarningKind {
    /// Returns whether a value was left out because of the rest of the pod, which another rule may change.
    pub(crate) fn is_left_out(&self) -> bool {
        matches!(
            self,
            Self::Excluded { .. }
                | Self::NoSuchContainer { .. }
                | Self::ClaimWithoutPodClaim { .. }
                | Self::MountWithoutVolume { .. }
                | Self::HugePagesAlone { .. }
        )
    }

    /// Returns whether another merge may have a different result.
    pub(crate) fn may_differ_again(&self) -> bool {
        self.is_left_out() || matches!(self, Self::Replaced { .. })
    }
}

/// The kinds of values about which a pod and a policy differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    Env,
    Mount,
    /// The amount of a resource.
    Device,
    /// The amount 0 of a device.
    DeniedDevice,
    Annotation,
    /// A container with the name of one of the policy's.
    Container,
    HostNetwork,
    /// A field of a security context.
    SecurityContext,
    /// A label of nodes that the pod selects, or the node affinity that it requires.
    Nodes,
    /// Any other field.
    Field,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind, rule } = self;
        let text = match kind {
            WarningKind::Kept { seen, wanted, .. } if self.leaves_tcp() => format!(
                "`{path}` stays `{seen}`, and NCCL falls back to TCP: remove it, so that rule `{rule}` sets `{wanted}`"
            ),
            WarningKind::Excluded { setting, against, .. } if self.leaves_tcp() => format!(
                "the pod has `{against}`, and NCCL falls back to TCP: remove it, so that rule `{rule}` sets `{setting}`"
            ),
            WarningKind::Kept { seen, wanted, .. } => {
                format!("`{path}` stays `{seen}`; rule `{rule}` would set `{wanted}`")
            }
            WarningKind::Replaced { seen, wanted } => {
                format!("`{path}` was `{seen}`; rule `{rule}` set `{wanted}`")
            }
            WarningKind::RenamedVolume { from, to } => format!(
                "the pod has a different volume `{from}`, so the volume of rule `{rule}` is named `{to}`"
            ),
            WarningKind::MountWithoutVolume { volume } => {
                format!("`{path}`: rule `{rule}` mounts the volume `{volume}`, which the pod does not have")
            }
            WarningKind::CapabilityWithoutRoot { capability, because } => format!(
                "run `{path}` as root, or raise the memory lock limit of the container runtime on the nodes \
                 (`LimitMEMLOCK=infinity`): `{capability}` has no effect for a non-root user ({because}), and NCCL \
                 falls back to TCP"
            ),
            WarningKind::Excluded { what: ValueKind::Nodes, setting, against } => format!(
                "`{setting}` of rule `{rule}` is left out, because the pod has `{against}`: \
                 the nodes that the pod fits may lack the fabric"
            ),
            WarningKind::Excluded { setting, against, .. } => {
                format!("`{path}`: `{setting}` of rule `{rule}` is left out, because the pod has `{against}`")
            }
            WarningKind::NoSuchContainer { name } => {
                format!("`{path}`: rule `{rule}` changes the container `{name}`, which the pod does not have")
            }
            WarningKind::ClaimWithoutPodClaim { claim } => format!(
                "`{path}`: the claim `{claim}` of rule `{rule}` is left out, because the pod has no claim of that \
                 name"
            ),
            WarningKind::HugePagesAlone { resource } => format!(
                "`{path}`: `{resource}` of rule `{rule}` is left out; it needs a request for cpu or memory next to it"
            ),
            WarningKind::TooFewResources { given, wanted } => format!(
                "`{path}`: `{rule}` has {} left for a container that needs {wanted}: extend its list, or request \
                 fewer GPUs",
                counted(*given, "resource")
            ),
            WarningKind::TooFewNetworks { given, wanted } => format!(
                "`{path}`: `{rule}` has {} for {wanted} devices of the pod: extend its list of networks",
                counted(*given, "network")
            ),
            WarningKind::HostNetwork => format!(
                "what `{rule}` attaches is left out: a hostNetwork pod has no network of its own to attach NICs to"
            ),
            WarningKind::SettingsElsewhere { variable, file } => format!(
                "remove `{variable}` from `{path}`, or add the settings `{rule}` to its file: it names a file \
                 other than `{file}`, and ranks that are started over ssh do not inherit the environment"
            ),
            WarningKind::NotInFile { variable, file } => format!(
                "`{path}`: `{variable}` is only in the environment, because `{file}` cannot hold its value"
            ),
            WarningKind::ValueUnread { variable } => format!(
                "`{path}`: write the value of `{variable}` out, or check it yourself: it comes from `valueFrom`, and \
                 admission cannot see whether the fabric is used with it"
            ),
            WarningKind::Policy { message, .. } if path.is_empty() => message.clone(),
            WarningKind::Policy { message, .. } => format!("`{path}`: {message}"),
            of_pod => return of_pod.fmt_of_pod(f),
        };
        f.write_str(&text)
    }
}

impl Warning {
    /// A warning about the whole pod.
    pub(crate) fn of_pod(kind: WarningKind) -> Self {
        Self { path: String::new(), kind, rule: String::new() }
    }
}

#[cfg(test)]
mod remedies;

/// Warnings have JSON Pointers while the pod changes; this gives them field paths.
pub(crate) fn with_field_paths(mut warnings: Vec<Warning>, pod: &Value) -> Vec<Warning> {
    for warning in &mut warnings {
        if warning.path.starts_with('/') {
            warning.path = field_path(pod, &warning.path);
        }
    }
    warnings.dedup();
    warnings
}

/// The warnings, with only one for each value that rules replace: other rules may have kept it before, or replaced it
/// again.
pub(crate) fn reconciled(warnings: Vec<Warning>) -> Vec<Warning> {
    let mut result: Vec<Warning> = Vec::with_capacity(warnings.len());
    // The values of each path before and after a replacement, and the index of the warning about it.
    let mut values: HashMap<(String, String), usize> = HashMap::new();
    for warning in warnings {
        if let WarningKind::Replaced { seen, wanted } = &warning.kind {
            let value = |text: &String| (warning.path.clone(), text.clone());
            let known = values.get(&value(seen)).copied();
            let at = known.unwrap_or(result.len());
            values.extend([(value(seen), at), (value(wanted), at)]);
            if let Some(WarningKind::Replaced { wanted: last, .. }) =
                known.and_then(|at| result.get_mut(at)).map(|first| &mut first.kind)
            {
                last.clone_from(wanted);
                result[at].rule = warning.rule;
                continue;
            }
        }
        result.push(warning);
    }
    result
}
