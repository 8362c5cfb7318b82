//! The devices, objects and rights that the additions of a policy need, and the labels that it reads.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use fabric_policy::expression::Step;
use fabric_policy::interpolation::JOB_ROLE;
use fabric_policy::matcher::LabelsRead;
use fabric_policy::{NETWORKS, Policy};

use super::additions::{AdditionFact, RuleFact};
use crate::explain::columns::shown;

/// A requirement of a policy on the nodes, the cluster or the pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NeedFact {
    pub kind: NeedKind,
    pub name: String,
    /// The rules with this need; none for a label or an annotation that expressions read.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub rules: BTreeSet<String>,
}

/// The kinds of needs, in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NeedKind {
    /// A resource that a device plugin, or the kubelet, offers on the nodes.
    Device,
    /// A network attachment definition.
    Network,
    /// A resource claim, or a template of one, in the namespace of the pod.
    Claim,
    /// A path of the node.
    HostPath,
    /// An object that a volume projects, in the namespace of the pod.
    Object,
    Image,
    /// A right that Pod Security, or another admission policy, may deny.
    Privilege,
    /// A label of nodes that tables and expressions read.
    NodeLabel,
    /// A label or an annotation of the pod that expressions read.
    PodMetadata,
}

impl NeedKind {
    pub(super) const ALL: [Self; 9] = [
        Self::Device,
        Self::Network,
        Self::Claim,
        Self::HostPath,
        Self::Object,
        Self::Image,
        Self::Privilege,
        Self::NodeLabel,
        Self::PodMetadata,
    ];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Device => "devices of the nodes",
            Self::Network => "networks (NetworkAttachmentDefinition)",
            Self::Claim => "claim templates in the namespace",
            Self::HostPath => "paths of the nodes",
            Self::Object => "objects in the namespace",
            Self::Image => "images",
            Self::Privilege => "privileges (Pod Security)",
            Self::NodeLabel => "labels of nodes that it reads",
            Self::PodMetadata => "labels and annotations of the pod that it reads",
        }
    }
}

/// The needs of the rules, and the labels and annotations that the policy reads.
pub(super) fn needs(policy: &Policy, rules: &[RuleFact]) -> Vec<NeedFact> {
    let mut found = Needs(Vec::new());
    for rule in rules {
        for addition in rule.container.iter().chain(&rule.pod) {
            found.of_addition(&rule.name, addition);
        }
    }
    match policy.labels() {
        LabelsRead::These(labels) => {
            for label in labels {
                found.add(NeedKind::NodeLabel, label, "");
            }
        }
        LabelsRead::All => found.add(NeedKind::NodeLabel, "every label", ""),
    }
    for name in pod_metadata(policy) {
        found.add(NeedKind::PodMetadata, &name, "");
    }
    found.0.sort_by_key(|need| need.kind);
    found.0
}

struct Needs(Vec<NeedFact>);

impl Needs {
    fn add(&mut self, kind: NeedKind, name: &str, rule: &str) {
        let at = self.0.iter().position(|need| need.kind == kind && need.name == name).unwrap_or_else(|| {
            self.0.push(NeedFact { kind, name: name.to_owned(), rules: BTreeSet::new() });
            self.0.len() - 1
        });
        if !rule.is_empty() {
            self.0[at].rules.insert(rule.to_owned());
        }
    }

    fn of_addition(&mut self, rule: &str, AdditionFact { path, value, constant }: &AdditionFact) {
        let value = constant.as_ref().filter(|value| !value.is_null()).unwrap_or(value);
        let within =
            |start: &str| path.rsplit_once(start).map(|(_, rest)| rest.trim_end_matches(']').to_owned());
        if let Some(name) = within("resources.limits[").filter(|name| name.contains(['/', '-'])) {
            self.add(NeedKind::Device, &name, rule);
        }
        if path.ends_with(&format!("annotations[{NETWORKS}]")) {
            for network in networks(value) {
                self.add(NeedKind::Network, &network, rule);
            }
        }
        if path.starts_with("spec.resourceClaims") {
            let target = [&value["resourceClaimTemplateName"], &value["resourceClaimName"]];
            if let Some(target) = target.into_iter().find(|target| !target.is_null()) {
                self.add(NeedKind::Claim, &shown(target), rule);
            }
        }
        if path.starts_with("spec.volumes") {
            self.of_volume(rule, value);
        }
        if path.ends_with("].image") {
            self.add(NeedKind::Image, &shown(value), rule);
        }
        if let Some(name) = within("securityContext.capabilities.add[") {
            self.add(NeedKind::Privilege, &name, rule);
        }
        let switches = ["securityContext.privileged", "spec.hostNetwork", "spec.hostPID", "spec.hostIPC"];
        if let Some(switch) = switches.into_iter().find(|switch| path.ends_with(switch)) {
            let name = switch.rsplit('.').next().unwrap_or(switch);
            self.add(NeedKind::Privilege, name, rule);
        }
    }

    fn of_volume(&mut self, rule: &str, volume: &Value) {
        if !volume["hostPath"]["path"].is_null() {
            self.add(NeedKind::HostPath, &shown(&volume["hostPath"]["path"]), rule);
            self.add(NeedKind::Privilege, "hostPath volumes", rule);
        }
        for (kind, name) in [
            ("ConfigMap", &volume["configMap"]["name"]),
            ("Secret", &volume["secret"]["secretName"]),
            ("PersistentVolumeClaim", &volume["persistentVolumeClaim"]["claimName"]),
        ] {
            if !name.is_null() {
                self.add(NeedKind::Object, &format!("{kind} {}", shown(name)), rule);
            }
        }
    }
}

/// The networks of an edit, or of a whole annotation.
fn networks(value: &Value) -> Vec<String> {
    let mut names = match &value["$append"] {
        Value::Null => value,
        names => names,
    };
    let whole = Value::Array(vec![names.clone()]);
    if !names.is_array() {
        names = &whole;
    }
    let mut found: Vec<String> = names.as_array().into_iter().flatten().map(shown).collect();
    found.dedup();
    found
}

/// The labels and annotations of the pod that expressions read by a constant key.
fn pod_metadata(policy: &Policy) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if ["launcher", "ranks"].iter().any(|name| policy.definition().reads(name)) {
        found.insert(format!("labels[{JOB_ROLE}]"));
    }
    policy.definition().texts(&mut |text| {
        for expression in text.expressions() {
            for path in expression.reads_of("pod") {
                if let [Step::Field(metadata), Step::Field(map), Step::Field(key), ..] = path.as_slice()
                    && metadata == "metadata"
                {
                    found.insert(format!("{map}[{key}]"));
                }
            }
        }
    });
    found
}
