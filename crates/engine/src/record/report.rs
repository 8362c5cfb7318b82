//! The reasons and warnings of a report. Each has a stable code and a sentence.

mod choice;

use std::fmt;

use serde_json::Value;

use fabric_policy::interpolation::EvaluationError;
use fabric_policy::work;
use fabric_policy::{Fault, SelectedLabel};
use fabric_yaml::counted;
use fabric_yaml::pointer::field_path;

pub use choice::NodesLookedAt;

/// Why a pod is unchanged or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No policy matches the pod.
    NoPolicyMatches,
    /// The trigger's annotation has a value that does not trigger.
    TriggerValue {
        key: String,
        seen: String,
        wanted: String,
        /// The type of the value, if it is not a string.
        not_a_string: Option<&'static str>,
    },
    /// The pod has the trigger of this policy, but does not meet another key of its `match`.
    MatchFailed { policy: String, key: &'static str, seen: String, wanted: String },
    /// An annotation excludes the pod.
    OptedOut { key: String, value: String },
    /// The kubelet's copy of a static pod, which cannot be changed.
    MirrorPod,
    /// A Windows pod. The API server rejects Linux security settings in it.
    WindowsPod,
    /// No container requests a GPU, and no rule applies to pods without GPUs.
    NoGpuContainer {
        /// The first resource of GPUs of the policy.
        resource: String,
    },
    /// The pod has everything that the policy would add.
    NothingToAdd,
    /// The pod requests GPUs, and no rule of the policy applies to it.
    NoRuleApplies,
    /// The conditions of all policies that match the pod otherwise are false.
    ConditionFalse {
        policies: Vec<String>,
        /// The parameters that the conditions read, with their values.
        parameters: Vec<(String, String)>,
    },
    /// Policies of several providers are in use, and the nodes that choose one are not known.
    NodesUnknown,
    /// No policy in use is for the nodes of the pod.
    OtherProvider {
        /// The provider that the pod names; if it names none, it is that of the nodes that it fits.
        named: Option<String>,
        /// The providers of the policies in use.
        known: Vec<String>,
    },
    /// The pod may get nodes of several providers.
    SeveralProviders {
        /// None if the cluster has no nodes.
        providers: Vec<String>,
        looked_at: NodesLookedAt,
    },
    /// A setting depends on the node and has no lowest value, and the pod does not choose the node.
    SettingUndecided {
        /// A parameter, or the path of a field.
        setting: String,
        why: String,
        /// True if the choice of the policy depends on it.
        chooses_policy: bool,
    },
    /// With the additions of the policy, the annotations would exceed the API server's limit.
    AnnotationLimit { key: String },
    /// The additions of the policy alone are larger than the objects that the API server accepts.
    PodLimit,
    /// A value of the pod has the wrong type. The API server will reject the pod.
    MalformedPod { path: String, wanted: &'static str, seen: String },
    /// More than one policy matches the pod.
    SeveralPoliciesMatch { policies: Vec<String> },
    /// The pod has another claim of the name that an entry of `devices.add` uses.
    Conflict { rule: String, path: String, seen: String, wanted: String },
    /// A reason that the policy itself declares, for which the pod is refused or skipped.
    Policy { code: String, message: String },
    /// The policy changes its own result each time that it is applied.
    NotIdempotent {
        /// JSON Pointer to a value that changes again.
        path: String,
    },
    /// The caller ended the evaluation.
    Stopped,
    /// The pod takes more work than allowed for its size.
    Cost {
        /// The limit that it exceeds.
        ended: work::Ended,
    },
    /// An expression of the policy has no value for this pod.
    EvaluationFailed {
        place: String,
        expression: String,
        message: String,
        /// The place of the expression in the policy.
        fault: Box<Fault>,
    },
}

impl Reason {
    /// Replaces the JSON Pointer in it by a field path.
    pub(crate) fn with_field_path(mut self, pod: &Value) -> Self {
        if let Self::Conflict { path, .. } | Self::MalformedPod { path, .. } | Self::NotIdempotent { path } =
            &mut self
            && path.starts_with('/')
        {
            *path = field_path(pod, path);
        }
        self
    }
}

impl From<work::Ended> for Reason {
    fn from(ended: work::Ended) -> Self {
        match ended {
            work::Ended::Limit { .. } | work::Ended::Memory { .. } => Self::Cost { ended },
            work::Ended::Stopped => Self::Stopped,
        }
    }
}

pub(crate) fn evaluation_failed(place: &str, error: EvaluationError) -> Reason {
    let EvaluationError { expression, message, fault } = error;
    Reason::EvaluationFailed { place: place.to_owned(), expression, message, fault: Box::new(fault) }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicyMatches => write!(f, "no policy matches this pod"),
            Self::TriggerValue { key, seen, wanted, not_a_string: Some(kind) } => write!(
                f,
                "the annotation `{key}` is the {kind} `{seen}`, but only the string `\"{wanted}\"` requests the \
                 fabric"
            ),
            Self::TriggerValue { key, seen, wanted, .. } => {
                write!(f, "the annotation `{key}` is `{seen}`, but only `{wanted}` requests the fabric")
            }
            Self::MatchFailed { policy, key, seen, wanted } => {
                let seen = if seen.is_empty() { "none".to_owned() } else { format!("`{seen}`") };
                write!(
                    f,
                    "the pod has the annotation of the policy `{policy}`, whose `match.{key}` needs `{wanted}`, but \
                     the pod has {seen}"
                )
            }
            Self::OptedOut { key, value } => write!(f, "the annotation `{key}: {value}` opts the pod out"),
            Self::MirrorPod => write!(f, "the pod is the kubelet's copy of a static pod"),
            Self::WindowsPod => write!(f, "the pod runs on Windows"),
            Self::NoGpuContainer { resource } => {
                write!(f, "no container requests GPUs, as with `{resource}` or a claim")
            }
            Self::NothingToAdd => write!(f, "the pod already has everything that the policy would add"),
            Self::NodesUnknown
            | Self::OtherProvider { .. }
            | Self::SeveralProviders { .. }
            | Self::SettingUndecided { .. }
            | Self::ConditionFalse { .. } => self.fmt_choice(f),
            Self::NoRuleApplies => write!(
                f,
                "no rule of the policy applies to this pod; change what the conditions of its rules read, or remove the \
                 annotation"
            ),
            Self::AnnotationLimit { key } => {
                write!(f, "with `{key}`, the pod's annotations would exceed the 256 KiB limit; shorten them")
            }
            Self::PodLimit => {
                write!(
                    f,
                    "with the additions of the policy, the pod would exceed the 3 MiB limit; give it fewer containers, or \
                     the policy shorter values"
                )
            }
            Self::MalformedPod { path, wanted, seen } => {
                write!(f, "`{path}` must be {wanted}, but is `{seen}`; the API server will refuse the pod")
            }
            Self::SeveralPoliciesMatch { policies } => {
                write!(
                    f,
                    "the policies {} all match this pod, but only one can inject it; make their conditions \
                     (`match.when`) exclude each other, or load only one of them",
                    quoted(policies)
                )
            }
            Self::Policy { message, .. } => f.write_str(message),
            Self::Conflict { rule, path, seen, wanted } => {
                write!(
                    f,
                    "`{path}` is `{seen}`, but rule `{rule}` requires `{wanted}`; remove it, or set that value"
                )
            }
            Self::NotIdempotent { path } => {
                write!(
                    f,
                    "the policy is not idempotent for this pod: `{path}` changes each time that it is applied; correct the \
                     rule that sets it"
                )
            }
            Self::Cost { ended: work::Ended::Memory { bytes } } => write!(
                f,
                "the pod takes more than the {} MiB of memory that one may take; give it fewer containers and values",
                bytes >> 20
            ),
            Self::Stopped | Self::Cost { ended: work::Ended::Stopped } => {
                write!(f, "the evaluation took too long")
            }
            Self::Cost { ended: work::Ended::Limit { steps } } => write!(
                f,
                "the pod takes more than the {steps} steps of work that one of its size may take, usually because \
                 of many node selector terms and values, or a loop within a loop in the policy; shorten them"
            ),
            Self::EvaluationFailed { place, expression, message, .. } => {
                write!(
                    f,
                    "`{expression}` of {place} cannot be evaluated for this pod: {message}; correct the policy, or the \
                     value of the pod that it reads"
                )
            }
        }
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

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
#[non_exhaustive]
pub enum WarningKind {
    /// The pod's value stays. The code names the kind of value.
    Kept { what: Kept, seen: String, wanted: String },
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
    /// A warning that the policy itself declares.
    Policy { code: String, message: String },
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
    pub(crate) fn may_pass(&self) -> bool {
        self.is_left_out() || matches!(self, Self::Replaced { .. })
    }
}

/// The kinds of values of the pod that can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    Env,
    Mount,
    /// The amount of a resource.
    Device,
    Annotation,
    /// A container with the name of one of the policy's.
    Container,
    /// Any other field.
    Field,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind, rule } = self;
        match kind {
            WarningKind::Kept { seen, wanted, .. } if self.leaves_tcp() => write!(
                f,
                "`{path}` stays `{seen}`, and NCCL falls back to TCP: remove it, so that rule `{rule}` sets `{wanted}`"
            ),
            WarningKind::Excluded { setting, against } if self.leaves_tcp() => write!(
                f,
                "the pod has `{against}`, and NCCL falls back to TCP: remove it, so that rule `{rule}` sets `{setting}`"
            ),
            WarningKind::Kept { seen, wanted, .. } => {
                write!(f, "`{path}` stays `{seen}`; rule `{rule}` would set `{wanted}`")
            }
            WarningKind::Replaced { seen, wanted } => {
                write!(f, "`{path}` was `{seen}`; rule `{rule}` set `{wanted}`")
            }
            WarningKind::RenamedVolume { from, to } => write!(
                f,
                "the pod has a different volume `{from}`, so the volume of rule `{rule}` is named `{to}`"
            ),
            WarningKind::MountWithoutVolume { volume } => {
                write!(f, "`{path}`: rule `{rule}` mounts the volume `{volume}`, which the pod does not have")
            }
            WarningKind::ParameterAssumed { parameter, value, labels, gpus, has_gpus, of_nodes } => {
                let gpus = gpus.map(|count| format!(", with {}", counted(count, "GPU"))).unwrap_or_default();
                let remedy = if *has_gpus {
                    "set it, or select nodes that a table knows"
                } else {
                    "set it for the workers"
                };
                write!(
                    f,
                    "`{parameter}` is assumed to be {value}; {remedy}: no table has a value for {} {}{gpus}",
                    if *of_nodes { "nodes with" } else { "a pod that selects" },
                    some_labels(labels)
                )
            }
            WarningKind::ParameterContradicts { .. }
            | WarningKind::NodesOfferLess { .. }
            | WarningKind::NodesOfferMore { .. }
            | WarningKind::NodesDisagree { .. } => kind.fmt_nodes(f),
            WarningKind::NoNodeFits { resource, requested, most } => {
                no_node_fits(f, resource, *requested, *most)
            }
            WarningKind::CapabilityWithoutRoot { capability, because } => write!(
                f,
                "run `{path}` as root, or raise the memory lock limit of the container runtime on the nodes \
                 (`LimitMEMLOCK=infinity`): `{capability}` has no effect for a non-root user ({because}), and NCCL \
                 falls back to TCP"
            ),
            WarningKind::Excluded { setting, against } => write!(
                f,
                "`{path}`: `{setting}` of rule `{rule}` is left out, because the pod has `{against}`"
            ),
            WarningKind::NoSuchContainer { name } => write!(
                f,
                "`{path}`: rule `{rule}` changes the container `{name}`, which the pod does not have"
            ),
            WarningKind::ClaimWithoutPodClaim { claim } => write!(
                f,
                "`{path}`: the claim `{claim}` of rule `{rule}` is left out, because the pod has no claim of that \
                 name"
            ),
            WarningKind::ClaimByName { claims } => write!(
                f,
                "no device class is known of {}: the name of such a claim decides what it brings",
                claims.iter().map(|name| format!("the claim `{name}`")).collect::<Vec<_>>().join(" and ")
            ),
            WarningKind::Restamped { .. }
            | WarningKind::ProviderAssumed { .. }
            | WarningKind::AnnotationContradicted { .. }
            | WarningKind::InjectedBefore { .. } => kind.fmt_choice(f),
            WarningKind::HugePagesAlone { resource } => write!(
                f,
                "`{path}`: `{resource}` of rule `{rule}` is left out; it needs a request for cpu or memory next to it"
            ),
            WarningKind::TooFewResources { given, wanted } => self.fmt_too_few(f, *given, *wanted),
            WarningKind::HostNetwork => write!(
                f,
                "what `{rule}` attaches is left out: a hostNetwork pod has no network of its own to attach NICs to"
            ),
            WarningKind::KeptFabric { names } => write!(
                f,
                "the pod requests {} itself, so the devices of this policy are left out",
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
            WarningKind::SettingsElsewhere { variable, file } => write!(
                f,
                "remove `{variable}` from `{path}`, or add the settings `{rule}` to its file: it names a file \
                 other than `{file}`, and ranks that are started over ssh do not inherit the environment"
            ),
            WarningKind::NotInFile { variable, file } => write!(
                f,
                "`{path}`: `{variable}` is only in the environment, because `{file}` cannot hold its value"
            ),
            WarningKind::Policy { message, .. } if path.is_empty() => f.write_str(message),
            WarningKind::Policy { message, .. } => write!(f, "`{path}`: {message}"),
        }
    }
}

impl Warning {
    fn fmt_too_few(&self, f: &mut fmt::Formatter<'_>, given: usize, wanted: usize) -> fmt::Result {
        let (Self { path, rule, .. }, given) = (self, counted(given, "resource"));
        write!(
            f,
            "`{path}`: the list of rule `{rule}` has {given} left for a container that needs {wanted}: extend it, or \
             request fewer GPUs"
        )
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

fn no_node_fits(f: &mut fmt::Formatter<'_>, resource: &str, requested: i64, most: i64) -> fmt::Result {
    if most == 0 {
        return write!(
            f,
            "the pod requests {requested} of `{resource}`, and no node that it fits offers any: check whether the \
             device plugin runs there"
        );
    }
    write!(
        f,
        "the pod requests {requested} of `{resource}`, and the nodes that it fits have at most {most}: request fewer, or \
         select other nodes"
    )
}

#[cfg(test)]
mod remedies;
