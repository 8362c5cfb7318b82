//! Tests that the remedy of each warning is in its first 256 bytes, which the API server never cuts.

use fabric_policy::SelectedLabel;
use fabric_policy::objects::{ObjectKind, ObjectName};

use super::*;

/// The length of a warning that the API server never cuts.
const KEPT_BY_API_SERVER: usize = 256;
const PREFIX: &str = "fabric-injector: ";

/// The last words of the remedy; none for a warning that states a fact.
fn remedy(kind: &WarningKind) -> Option<&'static str> {
    match kind {
        WarningKind::ParameterAssumed { has_gpus: true, .. } => Some("select nodes that a table knows"),
        WarningKind::ParameterAssumed { has_gpus: false, .. } => Some("set it for the workers"),
        WarningKind::NodesDisagree { .. } => Some("select one kind of node"),
        WarningKind::NodesOfferLess { .. } => Some("check how these nodes are created"),
        WarningKind::NodesOfferMore { .. } => Some("upgrade the device plugin of the nodes"),
        WarningKind::NoNodeFits { most: 0, .. } => Some("device plugin runs there"),
        WarningKind::NoNodeFits { .. } => Some("select other nodes"),
        WarningKind::CapabilityWithoutRoot { .. } => Some("`LimitMEMLOCK=infinity`"),
        WarningKind::Restamped { .. } => Some("inject the original manifest again"),
        WarningKind::ProviderAssumed { .. } => Some("`fabric-injector.io/provider`"),
        WarningKind::AnnotationContradicted { .. } => Some("from the manifest"),
        WarningKind::InjectedBefore { .. } => Some("start from the original manifest"),
        WarningKind::TooFewResources { .. } => Some("or request fewer GPUs"),
        WarningKind::TooFewNetworks { .. } => Some("extend its list of networks"),
        WarningKind::HugePagesAlone { .. } => Some("it needs a request for cpu or memory"),
        WarningKind::SettingsElsewhere { .. } => Some("or add the settings `nccl` to its file"),
        WarningKind::TooManyObjects { .. } => Some("that no pod uses"),
        WarningKind::NotThereYet { .. } => Some("create it"),
        WarningKind::ValueUnread { .. } => Some("check it yourself"),
        WarningKind::Kept { .. }
        | WarningKind::Replaced { .. }
        | WarningKind::RenamedVolume { .. }
        | WarningKind::MountWithoutVolume { .. }
        | WarningKind::ParameterContradicts { .. }
        | WarningKind::Excluded { .. }
        | WarningKind::NoSuchContainer { .. }
        | WarningKind::ClaimWithoutPodClaim { .. }
        | WarningKind::ClaimByName { .. }
        | WarningKind::KeptFabric { .. }
        | WarningKind::HostNetwork
        | WarningKind::NotInFile { .. }
        | WarningKind::Policy { .. } => None,
    }
}

/// Every kind, with names and values as long as those of the built-in policies and sample workloads.
fn samples() -> Vec<WarningKind> {
    let text = str::to_owned;
    let selected = |values: &[&str]| SelectedLabel {
        label: text("node.kubernetes.io/instance-type"),
        values: values.iter().map(|value| text(value)).collect(),
    };
    let assumed = |has_gpus| WarningKind::ParameterAssumed {
        parameter: text("rdmaDevicesPerGPU"),
        value: text("1"),
        labels: vec![selected(&[]), selected(&["lab-h100-eight", "lab-h100-four"])],
        gpus: Some(8),
        has_gpus,
        of_nodes: false,
    };
    let (seen, wanted) = (text("eth0,eth1"), text("^lo,docker,veth,eni,pod-id-link0"));
    vec![
        WarningKind::Kept { what: ValueKind::Env, seen: seen.clone(), wanted: wanted.clone() },
        WarningKind::Replaced { seen, wanted },
        WarningKind::RenamedVolume { from: text("nv-shared-memory"), to: text("nv-shared-memory-1") },
        WarningKind::MountWithoutVolume { volume: text("nv-shared-memory") },
        assumed(true),
        assumed(false),
        WarningKind::ParameterContradicts {
            parameter: text("rdmaDevicesPerGPU"),
            value: text("1"),
            table: text("2"),
            selected: selected(&["BM.GPU.H100.8"]),
        },
        WarningKind::NodesOfferLess {
            parameter: text("rdmaDevicesPerGPU"),
            value: text("0.125"),
            table: text("4"),
            selected: selected(&["Standard_Lab96isr_H100_v5"]),
        },
        WarningKind::NodesOfferMore {
            parameter: text("rdmaDevicesPerGPU"),
            value: text("1"),
            offered: text("1.25"),
            selected: selected(&["Standard_Lab96isr_H100_v5"]),
        },
        WarningKind::NodesDisagree {
            parameter: text("rdmaDevicesPerGPU"),
            value: text("1"),
            kinds: text(
                "`lab-h100-eight` with 8 GPUs and 32 of `example.com/fabric-nic`, `lab-h100-four` with 8 GPUs and 4",
            ),
        },
        WarningKind::NoNodeFits { resource: text("example.com/fabric-nic"), requested: 32, most: 0 },
        WarningKind::NoNodeFits { resource: text("example.com/fabric-nic"), requested: 32, most: 4 },
        WarningKind::CapabilityWithoutRoot {
            capability: text("IPC_LOCK"),
            because: text("runAsNonRoot: true"),
        },
        WarningKind::Excluded {
            what: ValueKind::SecurityContext,
            setting: text("privileged: true"),
            against: text("allowPrivilegeEscalation: false"),
        },
        WarningKind::Excluded {
            what: ValueKind::Nodes,
            setting: text("node.kubernetes.io/instance-type: lab-h100-eight"),
            against: text("nodeAffinity: node.kubernetes.io/instance-type In lab-h100-four"),
        },
        WarningKind::NoSuchContainer { name: text("fabric-daemon") },
        WarningKind::ClaimWithoutPodClaim { claim: text("compute-domain-channel") },
        WarningKind::ClaimByName { claims: vec![text("compute-domain-channel"), text("adapters")] },
        WarningKind::TooManyObjects { namespace: text("team-training") },
        WarningKind::NotThereYet {
            object: ObjectName::new(ObjectKind::Template, "team-training", "compute-domain-channel"),
            class: Some(text("fabric.networking.example.com")),
        },
        WarningKind::Restamped {
            before: text("lab-roce@13bef0de6c37"),
            after: text("lab-roce@77f1c2a0b3de"),
        },
        WarningKind::ProviderAssumed { provider: text("lab-roce") },
        WarningKind::AnnotationContradicted {
            selected: text("a label of `lab-roce`"),
            recorded: text("nodes of `lab`"),
        },
        WarningKind::InjectedBefore { stamp: text("lab-roce@13bef0de6c37") },
        WarningKind::HugePagesAlone { resource: text("hugepages-2Mi") },
        WarningKind::KeptFabric { names: vec![text("example.com/shared-nic")] },
        WarningKind::TooFewResources { given: 2, wanted: 8 },
        WarningKind::TooFewNetworks { given: 4, wanted: 8 },
        WarningKind::HostNetwork,
        WarningKind::SettingsElsewhere { variable: text("NCCL_CONF_FILE"), file: text("/etc/nccl.conf") },
        WarningKind::NotInFile { variable: text("NCCL_SOCKET_IFNAME"), file: text("/etc/nccl.conf") },
        WarningKind::ValueUnread { variable: text("NCCL_SOCKET_IFNAME") },
    ]
}

#[test]
fn each_remedy_is_in_the_first_256_characters() {
    let mut codes = Vec::new();
    for kind in samples() {
        let wanted = remedy(&kind);
        let rule = if matches!(kind, WarningKind::SettingsElsewhere { .. }) { "nccl" } else { "devices" };
        let path = "spec.containers[trainer].securityContext".to_owned();
        let warning = Warning { path, kind, rule: rule.to_owned() };
        let shown = format!("{PREFIX}{warning}");
        assert_ne!(shown, PREFIX, "{warning:?}");
        match wanted {
            Some(remedy) => {
                let end = shown.find(remedy).map(|at| at + remedy.len());
                assert!(end.is_some_and(|end| end <= KEPT_BY_API_SERVER), "{end:?}: {shown}");
            }
            None => assert!(shown.len() <= KEPT_BY_API_SERVER, "{}: {shown}", shown.len()),
        }
        codes.push(warning.code().to_owned());
    }
    let missing: Vec<_> =
        Warning::CODES.iter().filter(|code| !codes.iter().any(|known| known == *code)).collect();
    // The codes of other kinds of values, and of values outside of a security context.
    assert_eq!(
        missing,
        [
            &"kept_mount",
            &"kept_device",
            &"kept_annotation",
            &"kept_container",
            &"kept_field",
            &"device_denied",
            &"host_network_denied",
            &"excluded",
        ]
    );
}
