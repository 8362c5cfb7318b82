//! Why a pod is unchanged, skipped or refused.

use std::fmt;

use serde_json::Value;

use fabric_policy::Fault;
use fabric_policy::interpolation::EvaluationError;
use fabric_policy::work;
use fabric_yaml::pointer::field_path;

use super::NodesLookedAt;

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

pub(super) fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
