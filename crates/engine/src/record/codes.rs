//! The stable codes of reasons and warnings: metric labels, audit annotations, the report as JSON.

use super::report::{Reason, ValueKind, Warning, WarningKind};

/// The code of the warning about an object that does not exist.
pub(crate) const NOT_THERE_YET: &str = "not_there_yet";

/// The codes of the findings about workloads. A policy declares no check with one of them.
pub const FINDINGS: &[&str] = &[
    "misspelled_trigger",
    "trigger_as_label",
    "trigger_on_workload",
    "misplaced_trigger",
    "trigger_not_a_string",
    "other_trigger_value",
    "misspelled_gpu",
    "misplaced_gpu",
    "gpu_without_limit",
    "more_ranks_than_gpus",
    "no_gpu_request",
    "peer_without_trigger",
    "different_nodes",
    "workload_without_trigger",
    "adapters_by_path",
    "data_over_tcp",
    "nixl_over_ucx",
    "mesh_sidecar",
    "interface_not_in_pod",
    "other_gloo_interface",
    "small_shared_memory",
    "capability_prefix",
    "requested_by_hand",
    "turned_off_by_hand",
    "device_without_network",
    "no_locked_memory",
    "fewer_devices",
    "not_checked",
];

impl Reason {
    /// Codes of the reasons why a pod is left alone.
    pub const LEFT_ALONE: &[&str] = &[
        "no_policy_matches",
        "trigger_value",
        "match_failed",
        "opted_out",
        "mirror_pod",
        "windows_pod",
        "no_gpu_container",
        "nothing_to_add",
        "annotation_limit",
        "pod_limit",
        "malformed_pod",
    ];

    /// Codes of the reasons why a pod is skipped.
    pub const SKIPPED: &[&str] = &["condition_false", "no_rule_applies", "no_gpu_container"];

    /// Codes of the reasons why a pod is refused, apart from those that policies declare.
    pub const REFUSED: &[&str] = &[
        "several_policies_match",
        "several_providers",
        "other_provider",
        "setting_undecided",
        "conflict",
        "cost",
    ];

    /// Codes of the reasons why injection fails through no fault of the pod.
    pub const FAULTS: &[&str] = &["evaluation_failed", "not_idempotent", "nodes_unknown"];

    /// The stable code, for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::NoPolicyMatches => "no_policy_matches",
            Self::TriggerValue { .. } => "trigger_value",
            Self::MatchFailed { .. } => "match_failed",
            Self::OptedOut { .. } => "opted_out",
            Self::MirrorPod => "mirror_pod",
            Self::WindowsPod => "windows_pod",
            Self::NoGpuContainer { .. } => "no_gpu_container",
            Self::NothingToAdd => "nothing_to_add",
            Self::NoRuleApplies => "no_rule_applies",
            Self::ConditionFalse { .. } => "condition_false",
            Self::NodesUnknown => "nodes_unknown",
            Self::OtherProvider { .. } => "other_provider",
            Self::SeveralProviders { .. } => "several_providers",
            Self::SettingUndecided { .. } => "setting_undecided",
            Self::AnnotationLimit { .. } => "annotation_limit",
            Self::PodLimit => "pod_limit",
            Self::MalformedPod { .. } => "malformed_pod",
            Self::SeveralPoliciesMatch { .. } => "several_policies_match",
            Self::Conflict { .. } => "conflict",
            Self::Policy { code, .. } => code,
            Self::NotIdempotent { .. } | Self::ChangesMatch => "not_idempotent",
            // As for a review that the server could not evaluate in time.
            Self::Stopped => "overload",
            Self::Cost { .. } => "cost",
            Self::EvaluationFailed { .. } => "evaluation_failed",
        }
    }
}

impl Warning {
    /// The codes of all warnings except those that policies declare.
    pub const CODES: &[&str] = &[
        "kept_env",
        "kept_mount",
        "kept_device",
        "kept_annotation",
        "kept_container",
        "kept_field",
        "replaced",
        "renamed_volume",
        "mount_without_volume",
        "parameter_assumed",
        "parameter_contradicts",
        "nodes_offer_less",
        "nodes_offer_more",
        "nodes_disagree",
        "no_node_fits",
        "capability_without_root",
        "device_denied",
        "host_network_denied",
        "privilege_conflict",
        "excluded",
        "other_nodes",
        "no_such_container",
        "claim_without_pod_claim",
        "claim_by_name",
        "too_many_objects",
        NOT_THERE_YET,
        "restamped",
        "annotation_contradicted",
        "provider_assumed",
        "injected_before",
        "huge_pages_alone",
        "host_network",
        "settings_elsewhere",
        "not_in_file",
        "kept_fabric",
        "too_few_resources",
        "too_few_networks",
        "value_unread",
    ];

    /// Returns whether the warning requires action: the pod gets less than the policy has for it, or a value that may
    /// be wrong. A value of the pod that stays is the choice of its author, unless it leaves TCP.
    pub fn asks_for_action(&self) -> bool {
        let is_choice = match &self.kind {
            WarningKind::Kept { .. }
            | WarningKind::Replaced { .. }
            | WarningKind::RenamedVolume { .. }
            | WarningKind::NotInFile { .. }
            | WarningKind::ClaimByName { .. } => true,
            // Claims are how vendors attach adapters next to the GPUs. The names of resources have a `/`.
            WarningKind::KeptFabric { names } => !names.iter().any(|name| name.contains('/')),
            _ => false,
        };
        !is_choice || self.leaves_tcp()
    }

    /// Returns whether the data of the injected pod uses TCP all the same.
    pub fn leaves_tcp(&self) -> bool {
        match self.kind {
            WarningKind::Kept { what, .. } | WarningKind::Excluded { what, .. } => {
                matches!(what, ValueKind::DeniedDevice | ValueKind::HostNetwork)
            }
            WarningKind::Policy { leaves_tcp, .. } => leaves_tcp,
            WarningKind::CapabilityWithoutRoot { .. } => true,
            _ => false,
        }
    }

    /// The stable code, for programs.
    pub fn code(&self) -> &str {
        match &self.kind {
            WarningKind::Kept { what, .. } => match what {
                ValueKind::Env => "kept_env",
                ValueKind::Mount => "kept_mount",
                ValueKind::Device => "kept_device",
                ValueKind::DeniedDevice => "device_denied",
                ValueKind::Annotation => "kept_annotation",
                ValueKind::Container => "kept_container",
                ValueKind::HostNetwork => "host_network_denied",
                ValueKind::SecurityContext | ValueKind::Nodes | ValueKind::Field => "kept_field",
            },
            WarningKind::Excluded { what, .. } => match what {
                ValueKind::HostNetwork => "host_network_denied",
                ValueKind::SecurityContext => "privilege_conflict",
                ValueKind::Nodes => "other_nodes",
                _ => "excluded",
            },
            WarningKind::Replaced { .. } => "replaced",
            WarningKind::RenamedVolume { .. } => "renamed_volume",
            WarningKind::MountWithoutVolume { .. } => "mount_without_volume",
            WarningKind::ParameterAssumed { .. } => "parameter_assumed",
            WarningKind::ParameterContradicts { .. } => "parameter_contradicts",
            WarningKind::NodesOfferLess { .. } => "nodes_offer_less",
            WarningKind::NodesOfferMore { .. } => "nodes_offer_more",
            WarningKind::NodesDisagree { .. } => "nodes_disagree",
            WarningKind::NoNodeFits { .. } => "no_node_fits",
            WarningKind::CapabilityWithoutRoot { .. } => "capability_without_root",
            WarningKind::NoSuchContainer { .. } => "no_such_container",
            WarningKind::ClaimWithoutPodClaim { .. } => "claim_without_pod_claim",
            WarningKind::ClaimByName { .. } => "claim_by_name",
            WarningKind::TooManyObjects { .. } => "too_many_objects",
            WarningKind::NotThereYet { .. } => NOT_THERE_YET,
            WarningKind::Restamped { .. } => "restamped",
            WarningKind::ProviderAssumed { .. } => "provider_assumed",
            WarningKind::AnnotationContradicted { .. } => "annotation_contradicted",
            WarningKind::InjectedBefore { .. } => "injected_before",
            WarningKind::HugePagesAlone { .. } => "huge_pages_alone",
            WarningKind::HostNetwork => "host_network",
            WarningKind::SettingsElsewhere { .. } => "settings_elsewhere",
            WarningKind::NotInFile { .. } => "not_in_file",
            WarningKind::ValueUnread { .. } => "value_unread",
            WarningKind::KeptFabric { .. } => "kept_fabric",
            WarningKind::TooFewResources { .. } => "too_few_resources",
            WarningKind::TooFewNetworks { .. } => "too_few_networks",
            WarningKind::Policy { code, .. } => code,
        }
    }
}
