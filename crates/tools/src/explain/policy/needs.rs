//! The devices, objects and rights that the rules of a policy need, and the labels that it reads.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use fabric_policy::expression::Step;
use fabric_policy::interpolation::{JOB_ROLE, text_of};
use fabric_policy::matcher::LabelsRead;
use fabric_policy::{NETWORKS, Policy};

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

/// The needs of the rules of a `spec`, and the labels and annotations that the policy reads.
pub(super) fn needs(policy: &Policy, spec: &Value) -> Vec<NeedFact> {
    let mut found = Needs(Vec::new());
    items(&spec["devices"]["add"]).for_each(|entry| found.of_devices(&text_of(&entry["name"]), entry));
    items(&spec["rules"]).for_each(|rule| found.of_rule(&text_of(&rule["name"]), rule));
    match &policy.nodes.labels {
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

    /// Adds a value, or each item of a list. One that is left out is not needed.
    fn add_all(&mut self, kind: NeedKind, names: &Value, rule: &str) {
        match names {
            Value::Null => {}
            Value::Array(names) => names.iter().for_each(|name| self.add(kind, &text_of(name), rule)),
            name => self.add(kind, &text_of(name), rule),
        }
    }

    /// Adds the resources of a map that devices have.
    fn add_devices(&mut self, amounts: &Value, rule: &str) {
        let names = amounts.as_object().into_iter().flat_map(Map::keys);
        let devices = names.filter(|name| name.contains(['/', '-', '$']));
        devices.for_each(|name| self.add(NeedKind::Device, name, rule));
    }

    fn of_devices(&mut self, rule: &str, entry: &Value) {
        self.add_devices(&entry["resources"], rule);
        let networks = &entry["networks"];
        let networks = if networks.is_object() { &networks[NETWORKS] } else { networks };
        self.add_all(NeedKind::Network, networks, rule);
        let claims = entry["claims"].as_object().into_iter().flatten();
        claims.for_each(|(_, template)| self.add_all(NeedKind::Claim, template, rule));
    }

    fn of_rule(&mut self, name: &str, rule: &Value) {
        let pod = &rule["pod"]["spec"];
        let added = ["containers", "initContainers"].into_iter().flat_map(|list| items(&pod[list]));
        for container in [&rule["container"]].into_iter().chain(added) {
            let security = &container["securityContext"];
            self.add_devices(&container["resources"]["limits"], name);
            self.add_all(NeedKind::Image, &container["image"], name);
            self.add_all(NeedKind::Privilege, &security["capabilities"]["add"], name);
            self.of_switch("privileged", security, name);
        }
        self.add_all(NeedKind::Network, &rule["pod"]["metadata"]["annotations"][NETWORKS], name);
        for claim in items(&pod["resourceClaims"]) {
            self.add_all(NeedKind::Claim, &claim["resourceClaimTemplateName"], name);
            self.add_all(NeedKind::Claim, &claim["resourceClaimName"], name);
        }
        items(&pod["volumes"]).for_each(|volume| self.of_volume(name, volume));
        for switch in ["hostNetwork", "hostPID", "hostIPC"] {
            self.of_switch(switch, pod, name);
        }
    }

    fn of_switch(&mut self, switch: &str, object: &Value, rule: &str) {
        if !object[switch].is_null() && object[switch] != false {
            self.add(NeedKind::Privilege, switch, rule);
        }
    }

    fn of_volume(&mut self, rule: &str, volume: &Value) {
        let path = &volume["hostPath"]["path"];
        self.add_all(NeedKind::HostPath, path, rule);
        if !path.is_null() {
            self.add(NeedKind::Privilege, "hostPath volumes", rule);
        }
        for (kind, name) in [
            ("ConfigMap", &volume["configMap"]["name"]),
            ("Secret", &volume["secret"]["secretName"]),
            ("PersistentVolumeClaim", &volume["persistentVolumeClaim"]["claimName"]),
        ] {
            if !name.is_null() {
                self.add(NeedKind::Object, &format!("{kind} {}", text_of(name)), rule);
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
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
