//! Why a pod is unchanged, skipped or refused.

use serde_json::Value;

use fabric_policy::interpolation::EvaluationError;
use fabric_policy::work;
use fabric_yaml::Span;
use fabric_yaml::pointer::field_path;

use super::choice::{
    NAME_POLICY, NAME_PROVIDER, NodesLookedAt, false_conditions, nodes_of, other_provider, quoted,
};

/// A value, or why the pod is unchanged or refused.
pub type OrReason<T = ()> = Result<T, Reason>;

/// Why a pod is unchanged or refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No policy matches the pod.
    #[error("no policy matches this pod")]
    NoPolicyMatches,
    /// The trigger's annotation has a value that does not trigger.
    #[error("{}", other_value(.key, .seen, .wanted, *.not_a_string))]
    TriggerValue {
        key: String,
        seen: String,
        wanted: String,
        /// The type of the value, if it is not a string.
        not_a_string: Option<&'static str>,
    },
    /// The pod has the trigger of this policy, but does not meet another key of its `match`.
    #[error(
        "the pod has the annotation of the policy `{policy}`, whose `match.{key}` needs `{wanted}`, but the pod has {}",
        if .seen.is_empty() { "none".to_owned() } else { format!("`{}`", .seen) }
    )]
    MatchFailed { policy: String, key: &'static str, seen: String, wanted: String },
    /// An annotation excludes the pod.
    #[error("the annotation `{key}: {value}` opts the pod out")]
    OptedOut { key: String, value: String },
    /// The kubelet's copy of a static pod, which cannot be changed.
    #[error("the pod is the kubelet's copy of a static pod")]
    MirrorPod,
    /// A Windows pod. The API server rejects Linux security settings in it.
    #[error("the pod runs on Windows")]
    WindowsPod,
    /// No container requests a GPU, and no rule applies to pods without GPUs.
    #[error("no container requests GPUs, {}", as_with(.resource, .other.as_deref(), .unknown_claim.as_deref()))]
    NoGpuContainer {
        /// The first resource of GPUs of the policy.
        resource: String,
        /// A resource of the same vendor that a container requests instead, such as a part of a GPU.
        other: Option<String>,
        /// A claim that may bring GPUs.
        unknown_claim: Option<Box<UnknownClaim>>,
    },
    /// The pod has everything that the policy would add.
    #[error("the pod already has everything that the policy would add")]
    NothingToAdd,
    /// The pod requests GPUs, and no rule of the policy applies to it.
    #[error(
        "no rule of the policy applies to this pod; change what the conditions of its rules read, or remove the \
         annotation"
    )]
    NoRuleApplies,
    /// The conditions of all policies that match the pod otherwise are false.
    #[error("{}", false_conditions(.policies, .parameters))]
    ConditionFalse {
        policies: Vec<String>,
        /// The parameters that the conditions read, with their values.
        parameters: Vec<(String, String)>,
    },
    /// Policies of several providers are in use, and the nodes that choose one are not known.
    #[error("the nodes of the cluster, which choose the provider, are not known; {NAME_PROVIDER}")]
    NodesUnknown,
    /// No policy in use is for the nodes of the pod.
    #[error("{}", other_provider(.named.as_deref(), .known))]
    OtherProvider {
        /// The provider that the pod names; if it names none, it is that of the nodes that it fits.
        named: Option<String>,
        /// The providers of the policies in use.
        known: Vec<String>,
    },
    /// The pod may get nodes of several providers.
    #[error("{}; {NAME_PROVIDER}", nodes_of(.providers, *.looked_at))]
    SeveralProviders {
        /// None if the cluster has no nodes.
        providers: Vec<String>,
        looked_at: NodesLookedAt,
    },
    /// A setting depends on the node and has no lowest value, and the pod does not choose the node.
    #[error("`{setting}` depends on the node, and {why}{}", if *.chooses_policy { NAME_POLICY } else { "" })]
    SettingUndecided {
        /// A parameter, or the path of a field.
        setting: String,
        why: String,
        /// True if the choice of the policy depends on it.
        chooses_policy: bool,
    },
    /// With the additions of the policy, the annotations would exceed the API server's limit.
    #[error("with `{key}`, the pod's annotations would exceed the 256 KiB limit; shorten them")]
    AnnotationLimit { key: String },
    /// The additions of the policy alone are larger than the objects that the API server accepts.
    #[error(
        "with the additions of the policy, the pod would exceed the 3 MiB limit; give it fewer containers, or the policy \
         shorter values"
    )]
    PodLimit,
    /// A value of the pod has the wrong type. The API server will reject the pod.
    #[error("`{path}` must be {wanted}, but is `{seen}`; the API server will refuse the pod")]
    MalformedPod { path: String, wanted: &'static str, seen: String },
    /// More than one policy matches the pod.
    #[error(
        "the policies {} all match this pod, but only one can inject it; make their conditions (`match.when`) exclude \
         each other, or load only one of them",
        quoted(.policies)
    )]
    SeveralPoliciesMatch { policies: Vec<String> },
    /// The pod has another claim of the name that an entry of `devices.add` uses.
    #[error("`{path}` is `{seen}`, but rule `{rule}` requires `{wanted}`; remove it, or set that value")]
    Conflict { rule: String, path: String, seen: String, wanted: String },
    /// A reason that the policy itself declares, for which the pod is refused or skipped.
    #[error("{}{message}", if .path.is_empty() { String::new() } else { format!("`{path}`: ") })]
    Policy {
        code: String,
        message: String,
        skips: bool,
        /// JSON Pointer to the container or variable; empty for the pod.
        path: String,
    },
    /// The policy changes its own result each time that it is applied.
    #[error(
        "the policy is not idempotent for this pod: `{path}` changes each time that it is applied; correct {author}, which \
         sets it"
    )]
    NotIdempotent {
        /// The field path of a value that changes again.
        path: String,
        /// The rule or file of the policy, with its place.
        author: String,
        /// That place.
        span: Span,
    },
    /// Other policies match the result of the policy.
    #[error(
        "the policy is not idempotent for this pod: what is added to it changes the decision about it; correct the `match` \
         or the check that reads it"
    )]
    ChangesMatch,
    /// The caller ended the evaluation.
    #[error("the evaluation took too long")]
    Stopped,
    /// The pod takes more work than allowed for its size.
    #[error("{}", too_costly(*.ended))]
    Cost {
        /// The limit that it exceeds.
        ended: work::Ended,
    },
    /// An expression of the policy has no value for this pod.
    #[error(
        "`{}` of {place} cannot be evaluated for this pod: {}; correct the policy, or the value of the pod that it reads",
        .error.expression, .error.message
    )]
    EvaluationFailed { place: String, error: Box<EvaluationError> },
}

impl Reason {
    /// Returns whether an injection that ends for this reason marks the pod as skipped.
    pub(crate) fn skips(&self) -> bool {
        matches!(self, Self::NoRuleApplies | Self::Policy { skips: true, .. })
    }

    /// Returns whether an injection that ends for this reason refuses the pod. For the others, the pod stays unchanged.
    pub(crate) fn refuses(&self) -> bool {
        // A policy declares codes of its own, and the caller ends the evaluation by another one.
        matches!(self, Self::Stopped | Self::Policy { skips: false, .. })
            || [Self::REFUSED, Self::FAULTS].iter().any(|codes| codes.contains(&self.code()))
    }

    /// Returns whether no policy in use is for the pod.
    pub fn is_unmatched(&self) -> bool {
        matches!(self, Self::NoPolicyMatches | Self::MatchFailed { .. })
    }

    /// Returns whether the pod requests the fabric in a way that has no effect.
    pub(crate) fn is_near_miss(&self) -> bool {
        matches!(self, Self::TriggerValue { .. } | Self::MatchFailed { .. })
    }

    /// Returns whether a pod that is unchanged for this reason requests the fabric, and may have GPUs.
    pub(crate) fn is_unmet_request(&self) -> bool {
        match self {
            Self::AnnotationLimit { .. } | Self::PodLimit => true,
            Self::TriggerValue { seen, wanted, .. } => turns_on(&Value::from(seen.as_str()), wanted),
            _ => false,
        }
    }

    /// Returns whether the fault lies with the policy or the server rather than with the pod.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::EvaluationFailed { .. }
                | Self::NotIdempotent { .. }
                | Self::ChangesMatch
                | Self::NodesUnknown
        )
    }

    /// Replaces the JSON Pointer in it by a field path.
    pub(crate) fn with_field_path(mut self, pod: &Value) -> Self {
        if let Self::Conflict { path, .. } | Self::MalformedPod { path, .. } | Self::Policy { path, .. } =
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
    Reason::EvaluationFailed { place: place.to_owned(), error: Box::new(error) }
}

/// A claim of a pod of which nothing is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnknownClaim {
    /// Within the pod.
    pub name: String,
    /// The kind of the object that would tell what the claim brings.
    pub kind: &'static str,
    /// The name of that object.
    pub target: String,
    pub namespace: String,
}

/// The end of the sentence about a pod without GPUs.
fn as_with(resource: &str, other: Option<&str>, unknown_claim: Option<&UnknownClaim>) -> String {
    match unknown_claim {
        None if other.is_some() => format!(
            "as with `{resource}` or a claim: the fabric is for whole GPUs, and `{}` is none",
            other.unwrap_or_default()
        ),
        None if resource.is_empty() => "as with a claim".to_owned(),
        None => format!("as with `{resource}` or a claim"),
        Some(UnknownClaim { name, kind, target, namespace }) => format!(
            "unless the claim `{name}` brings some: its {kind} `{target}` must be in the namespace `{namespace}`, or in \
             the input of a command"
        ),
    }
}

/// The sentence about an annotation whose value does not trigger.
fn other_value(key: &str, seen: &str, wanted: &str, not_a_string: Option<&str>) -> String {
    match not_a_string {
        None => format!("the annotation `{key}` is `{seen}`, but only `{wanted}` requests the fabric"),
        Some(kind) => format!(
            "the annotation `{key}` is read as the {kind} `{seen}`, but only the string `\"{wanted}\"` requests the fabric"
        ),
    }
}

/// The sentence about a pod that takes more work than allowed.
fn too_costly(ended: work::Ended) -> String {
    match ended {
        work::Ended::Stopped => Reason::Stopped.to_string(),
        work::Ended::Memory { bytes } => format!(
            "the pod takes more than the {} MiB of memory that one may take; give it fewer containers and values",
            bytes >> 20
        ),
        work::Ended::Limit { steps } => format!(
            "the pod takes more than the {steps} steps of work that one of its size may take, usually because of many \
             node selector terms and values, or a loop within a loop in the policy; shorten them"
        ),
    }
}

/// Returns whether a value turns something on: any scalar that does not turn it off.
pub fn turns_on(value: &Value, wanted: &str) -> bool {
    const OFF: [&str; 11] = ["", "false", "f", "no", "n", "off", "0", "disable", "disabled", "none", "never"];
    match value {
        Value::String(text) => text == wanted || !OFF.contains(&text.trim().to_lowercase().as_str()),
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}
