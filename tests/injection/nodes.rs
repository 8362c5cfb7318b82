//! Injection with the nodes of a cluster.

#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod earlier;
mod slices;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{NODES, Outcome, STAMP};
use fabric_injector::builtin;
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::objects::{KnownObjects, NamedObject};
use serde_json::{Value, json};

use crate::helpers::{self, reason};

fn all_policies() -> &'static PolicySet {
    static POLICIES: LazyLock<PolicySet> = LazyLock::new(|| {
        let definitions =
            builtin::POLICIES.iter().map(|policy| (policy.definition().unwrap(), BTreeMap::new()));
        PolicySet::by_nodes(definitions.collect()).unwrap()
    });
    &POLICIES
}

fn node(name: &str, provider_id: &str, labels: Value, capacity: Value) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider_id},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn context(nodes: &[Value]) -> PodContext {
    let nodes = Nodes::read(&json!({"kind": "NodeList", "items": nodes})).unwrap();
    PodContext { nodes: Some(Arc::new(nodes)), ..PodContext::default() }
}

fn pod(selector: Value) -> Value {
    json!({
        "metadata": {"annotations": {"nmp.nvidia.com/enable-multi-node-networking": "true"}},
        "spec": {"nodeSelector": selector, "containers": [
            {"name": "train", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}]},
    })
}

const TYPE: &str = "node.kubernetes.io/instance-type";

/// Clusters that differ in what decides.
fn clusters() -> Vec<Vec<Value>> {
    let p5 = |name| {
        let capacity = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"});
        node(name, "aws:///use1-az4/i-1", json!({TYPE: "p5.48xlarge"}), capacity)
    };
    let p4d = |efa: u8| {
        let capacity = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": efa.to_string()});
        node("p4d", "aws:///use1-az4/i-2", json!({TYPE: "p4d.24xlarge"}), capacity)
    };
    let own = |resource: &str| {
        let capacity = json!({"nvidia.com/gpu": "8", resource: "8"});
        node("own", "", json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}), capacity)
    };
    vec![
        vec![],
        vec![p5("a")],
        vec![p5("a"), p4d(4)],
        vec![p4d(4)],
        vec![p4d(0)],
        vec![p5("a"), p5("b"), own("rdma/ib")],
        vec![own("rdma/ib")],
        vec![own("nvidia.com/hostdev")],
    ]
}

/// The result of injecting a pod; the pod as it was if nothing changes.
fn injected(policies: &PolicySet, pod: &Value, context: &PodContext) -> Value {
    match mutate(policies, pod.clone(), context).outcome {
        Outcome::Mutated(mutated) => mutated.pod,
        Outcome::Skipped { marked, .. } => marked.pod,
        Outcome::Unchanged { pod, .. } => pod,
        Outcome::Refused { reason } => panic!("{reason}"),
    }
}

#[test]
fn what_was_decided_stays_decided_when_the_nodes_change() {
    for policy in builtin::POLICIES {
        let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
        for first in clusters() {
            for selector in [json!({}), json!({TYPE: "p4d.24xlarge"}), json!({TYPE: "unknown"})] {
                let once = injected(&policies, &pod(selector), &context(&first));
                for then in clusters() {
                    assert_eq!(injected(&policies, &once, &context(&then)), once, "{}", policy.name);
                }
                assert_eq!(injected(&policies, &once, &PodContext::default()), once, "{}", policy.name);
            }
        }
    }
}

#[test]
fn the_stamp_does_not_depend_on_the_nodes() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let stamp = |nodes: &[Value]| {
        injected(&policies, &pod(json!({})), &context(nodes))["metadata"]["annotations"][STAMP].clone()
    };
    let stamps: Vec<Value> = clusters().iter().map(|nodes| stamp(nodes)).collect();
    assert!(stamps.iter().all(|other| other.is_string() && *other == stamps[0]), "{stamps:?}");
}

#[test]
fn a_pod_that_was_injected_without_nodes_is_not_decided_by_them() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let once = injected(&policies, &pod(json!({})), &PodContext::default());
    assert_eq!(once["metadata"]["annotations"].get(NODES), None);
    for nodes in clusters() {
        assert_eq!(injected(&policies, &once, &context(&nodes)), once);
    }
}

#[test]
fn an_annotation_of_nodes_that_cannot_be_read_counts_as_absent() {
    let policy = builtin::find("aws-efa").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    for text in ["a", "", "{}", "[1]", "[{}]", r#"[{"labels":{},"gpus":8,"resources":{"a":"b"}}]"#] {
        let mut unreadable = pod(json!({}));
        unreadable["metadata"]["annotations"][NODES] = json!(text);
        for nodes in clusters() {
            let wanted = injected(&policies, &pod(json!({})), &context(&nodes));
            let once = injected(&policies, &unreadable, &context(&nodes));
            assert_eq!(once, wanted, "{text}");
            assert!(once["metadata"]["annotations"][STAMP].is_string());
            for then in clusters() {
                assert_eq!(injected(&policies, &once, &context(&then)), once, "{text}");
            }
        }
    }
}

#[test]
fn the_nodes_choose_the_provider() {
    let policies = all_policies();
    let outcome = |nodes: &[Value]| {
        let mutation = mutate(policies, pod(json!({})), &context(nodes));
        let policy = mutation.policy.clone();
        policy.unwrap_or_else(|| reason(&mutation).to_owned())
    };
    let chosen: Vec<String> = clusters().iter().map(|nodes| outcome(nodes)).collect();
    assert_eq!(chosen[0], "several_providers");
    assert_eq!(chosen[1..5], ["aws-efa"; 4]);
    // Nodes of no cloud count next to those of a cloud.
    assert_eq!(chosen[5..], ["several_providers", "onprem-rdma", "onprem-rdma"]);
}

/// One GPU node of a provider, by the beginning of its `spec.providerID`.
fn gpu_node(name: &str, provider_id: &str, labels: Value, devices: Value) -> Value {
    let mut capacity = devices;
    capacity["nvidia.com/gpu"] = json!("8");
    node(name, provider_id, labels, capacity)
}

fn aws() -> Value {
    gpu_node("aws", "aws:///a/i-1", json!({TYPE: "p5.48xlarge"}), json!({"vpc.amazonaws.com/efa": "32"}))
}

fn gke(name: &str, machine: &str) -> Value {
    gpu_node(name, "gce://a/b/c", json!({TYPE: machine, "pool": machine}), json!({}))
}

fn own() -> Value {
    gpu_node("own", "", json!({"pool": "own"}), json!({"rdma/ib": "8"}))
}

/// The policy that injects a pod, or the reason for which none does, and its text.
fn chosen(pod: Value, nodes: Option<&[Value]>) -> (String, String) {
    let context = nodes.map(context).unwrap_or_default();
    let mutation = mutate(all_policies(), pod, &context);
    match (&mutation.outcome, &mutation.policy) {
        (Outcome::Mutated(_), Some(policy)) => (policy.clone(), String::new()),
        (Outcome::Refused { reason }, _) => (format!("refused: {}", reason.code()), reason.to_string()),
        _ => (reason(&mutation).to_owned(), String::new()),
    }
}

fn launcher() -> Value {
    let mut pod = pod(json!({}));
    pod["metadata"]["labels"] = json!({"training.kubeflow.org/job-role": "launcher"});
    pod["spec"]["containers"][0]["resources"] = json!({});
    pod
}

#[test]
fn a_pod_for_which_no_provider_can_be_chosen_is_refused_and_told_how_to_choose() {
    let two_clouds = [aws(), gke("gke", "a3-megagpu-8g")];
    let both = [aws(), own()];
    let mut plain = pod(json!({}));
    plain["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    for (nodes, code) in [
        (None, "refused: nodes_unknown"),
        (Some(&[][..]), "refused: several_providers"),
        (Some(&two_clouds[..]), "refused: several_providers"),
        (Some(&both[..]), "refused: several_providers"),
    ] {
        for pod in [pod(json!({})), launcher()] {
            let (outcome, text) = chosen(pod, nodes);
            assert_eq!(outcome, code);
            for remedy in ["instance type", "`fabric-injector.io/provider`"] {
                assert!(text.contains(remedy), "{text}");
            }
        }
        let mutation = mutate(all_policies(), plain.clone(), &nodes.map(context).unwrap_or_default());
        assert!(matches!(mutation.outcome, Outcome::Unchanged { pod, .. } if pod == plain));
        assert_eq!(chosen(plain.clone(), nodes).0, "no_gpu_container");
    }
}

#[test]
fn a_label_that_one_provider_has_comes_before_the_nodes_that_are_up() {
    let affinity = |terms: Value| {
        let mut pod = pod(json!({}));
        pod["spec"]["affinity"] = json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        pod
    };
    let term = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    for nodes in [None, Some(&[][..]), Some(&[aws()][..]), Some(&[aws(), own()][..])] {
        for (pod, wanted) in [
            (pod(json!({TYPE: "a3-megagpu-8g"})), "gcp-tcpxo"),
            (pod(json!({"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"})), "gcp-gib"),
            (
                pod(json!({"beta.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"})),
                "azure-infiniband",
            ),
            (pod(json!({"kubernetes.azure.com/agentpool": "gpus"})), "azure-infiniband"),
            (pod(json!({"eks.amazonaws.com/nodegroup": "gpus", "pool": "x"})), "aws-efa"),
            (pod(json!({"node.coreweave.cloud/class": "gpu"})), "coreweave-infiniband"),
            (affinity(json!([term("karpenter.k8s.aws/instance-gpu-count", "Gt", json!(["7"]))])), "aws-efa"),
            (affinity(json!([term(TYPE, "In", json!(["p5.48xlarge", "p5e.48xlarge"]))])), "aws-efa"),
            (
                affinity(json!([term(TYPE, "In", json!(["p5.48xlarge", "a3-megagpu-8g"]))])),
                "refused: several_providers",
            ),
            (
                affinity(json!([
                    term(TYPE, "In", json!(["p5.48xlarge"])),
                    term("kubernetes.azure.com/mode", "Exists", json!([]))
                ])),
                "refused: several_providers",
            ),
        ] {
            assert_eq!(chosen(pod, nodes).0, wanted);
        }
    }
    // A label that says nothing leaves the choice to the nodes, and a pool of one cloud may be at zero.
    for pod in [
        pod(json!({"pool": "x"})),
        pod(json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})),
        pod(json!({TYPE: "x"})),
    ] {
        assert_eq!(chosen(pod, Some(&[aws()])).0, "aws-efa");
    }
}

/// Nodes on premises that a cloud manages have labels of it.
#[test]
fn nodes_on_premises_with_labels_of_a_cloud_are_no_nodes_of_it() {
    let hybrid = json!({"eks.amazonaws.com/compute-type": "hybrid", "eks.amazonaws.com/hybrid-credential-provider": "ssm"});
    let nodes =
        [gpu_node("hybrid", "eks-hybrid:///us-west-2/a/mi-1", hybrid.clone(), json!({"rdma/ib": "8"}))];
    assert_eq!(chosen(pod(json!({})), Some(&nodes)).0, "onprem-rdma");
    assert_eq!(
        chosen(pod(json!({"eks.amazonaws.com/compute-type": "hybrid"})), Some(&nodes)).0,
        "onprem-rdma"
    );
    let nodes = [nodes[0].clone(), aws()];
    assert_eq!(
        chosen(pod(json!({"eks.amazonaws.com/compute-type": "hybrid"})), Some(&nodes)).0,
        "onprem-rdma"
    );
    assert_eq!(chosen(pod(json!({"eks.amazonaws.com/compute-type": "auto"})), Some(&nodes)).0, "aws-efa");
    assert_eq!(chosen(pod(json!({})), Some(&nodes)).0, "refused: several_providers");
}

#[test]
fn the_annotation_of_a_pod_names_its_provider_or_policy_before_all_else() {
    let named = |mut pod: Value, value: &str| {
        pod["metadata"]["annotations"]["fabric-injector.io/provider"] = json!(value);
        pod
    };
    let two_clouds = [aws(), gke("gke", "a3-megagpu-8g")];
    for nodes in [None, Some(&[][..]), Some(&two_clouds[..])] {
        for pod in [pod(json!({})), launcher()] {
            assert_eq!(chosen(named(pod.clone(), "aws"), nodes).0, "aws-efa");
            assert_eq!(chosen(named(pod.clone(), "azure"), nodes).0, "azure-infiniband");
            assert_eq!(chosen(named(pod.clone(), "gcp-gib"), nodes).0, "gcp-gib");
            let (outcome, text) = chosen(named(pod, "awz"), nodes);
            assert_eq!(outcome, "refused: other_provider");
            assert!(text.contains("`awz`") && text.contains("`aws`"), "{text}");
        }
        assert_eq!(chosen(named(pod(json!({TYPE: "a3-ultragpu-8g"})), "aws"), nodes).0, "aws-efa");
    }
    let policy = builtin::find("aws-efa").unwrap();
    let alone = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let mutation = mutate(&alone, named(pod(json!({})), "azure"), &PodContext::default());
    assert_eq!(reason(&mutation), "other_provider");
}

#[test]
fn the_fabric_within_a_provider_is_never_assumed() {
    let mixed = [gke("mega", "a3-megagpu-8g"), gke("ultra", "a3-ultragpu-8g")];
    let mega = &mixed[..1];
    assert_eq!(chosen(pod(json!({})), Some(mega)).0, "gcp-tcpxo");
    for pod in [pod(json!({})), launcher()] {
        let (outcome, text) = chosen(pod, Some(&mixed));
        assert_eq!(outcome, "refused: setting_undecided");
        for said in ["`fabric`", "a3-megagpu-8g", "a3-ultragpu-8g"] {
            assert!(text.contains(said), "{text}");
        }
    }
    assert_eq!(chosen(pod(json!({"pool": "a3-ultragpu-8g"})), Some(&mixed)).0, "gcp-gib");
    // A machine that no table knows.
    assert_eq!(chosen(pod(json!({})), Some(&[gke("new", "a9-megagpu-8g")])).0, "refused: setting_undecided");
    // A machine without a fabric is what the policy states.
    assert_eq!(chosen(pod(json!({})), Some(&[gke("l4", "g2-standard-96")])).0, "condition_false");
    let mut named = launcher();
    named["metadata"]["annotations"]["fabric-injector.io/provider"] = json!("gcp-gib");
    assert_eq!(chosen(named.clone(), Some(&mixed)).0, "gcp-gib");
    // A pod that was injected keeps its policy, also without what chose it.
    let mut injected = injected(all_policies(), &named, &PodContext::default());
    injected["metadata"]["annotations"].as_object_mut().unwrap().remove("fabric-injector.io/provider");
    assert_eq!(mutate(all_policies(), injected, &context(&mixed)).policy.as_deref(), Some("gcp-gib"));
}

/// On either node, the pod comes out the same; that a value of one of them is not there is still told.
#[test]
fn what_only_one_of_the_nodes_would_add_is_reported() {
    let body = "  parameters:
    scheduler: {type: string, description: d}
  machines:
    node.kubernetes.io/instance-type:
      small.1: {scheduler: gang}
  rules:
    - {name: r, pod: {spec: {schedulerName: '${scheduler}'}}}
";
    let policies = helpers::set(vec![helpers::policy(
        "lab",
        "anyAnnotation: {nmp.nvidia.com/enable-multi-node-networking: 'true'}",
        body,
    )]);
    let nodes = [("a", "small.1"), ("b", "big.8")]
        .map(|(name, machine)| node(name, "", json!({TYPE: machine}), json!({"nvidia.com/gpu": "8"})));
    let mut pod = pod(json!({}));
    pod["spec"]["schedulerName"] = json!("own");
    let mutation = mutate(&policies, pod, &context(&nodes));
    let kept = mutation.warnings.iter().find(|warning| warning.code() == "kept_field");
    assert!(kept.is_some_and(|warning| warning.to_string().contains("gang")), "{mutation:?}");
}

/// Names, rails and profiles have no least.
#[test]
fn a_pod_that_would_come_out_differently_on_nodes_that_it_fits_is_refused() {
    let azure = |name: &str, size: &str| {
        gpu_node(name, "azure:///subscriptions/a", json!({TYPE: size}), json!({"rdma/ib": "8"}))
    };
    let (a100, h100) = (azure("a", "Standard_ND96asr_v4"), azure("b", "Standard_ND96isr_H100_v5"));
    assert_eq!(chosen(pod(json!({})), Some(&[a100.clone(), a100.clone()])).0, "azure-infiniband");
    let (outcome, text) = chosen(pod(json!({})), Some(&[a100.clone(), h100.clone()]));
    assert_eq!(outcome, "refused: setting_undecided");
    for said in ["nccl-topology", "standard_nd96asr_v4", "standard_nd96isr_h100_v5"] {
        assert!(text.contains(said), "{text}");
    }
    assert_eq!(chosen(pod(json!({TYPE: "Standard_ND96asr_v4"})), Some(&[a100, h100])).0, "azure-infiniband");
    let with = |name: &str, resource: &str| {
        gpu_node(name, "", json!({"nvidia.com/gpu.product": name}), json!({resource: "8"}))
    };
    let names = [with("a", "rdma/a"), with("b", "rdma/b")];
    assert_eq!(chosen(pod(json!({})), Some(&names)).0, "refused: setting_undecided");
    // The operator's name decides.
    let policy = builtin::find("onprem-rdma").unwrap().definition().unwrap();
    let name = policy.parameters.iter().find(|one| one.name == "rdmaResourceName").unwrap();
    let own = name.parse("rdma/b").unwrap().into();
    let own = PolicySet::new(vec![(policy, BTreeMap::from([("rdmaResourceName".to_owned(), own)]))]).unwrap();
    let mutation = mutate(&own, pod(json!({})), &context(&names));
    assert!(matches!(mutation.outcome, Outcome::Mutated(_)), "{:?}", mutation.outcome);
}

/// The codes of the warnings of a pod, and the pod; a second injection must change nothing.
fn settled(policies: &PolicySet, pod: Value, context: &PodContext) -> (Vec<String>, Value) {
    let first = mutate(policies, pod.clone(), context);
    let codes = first.warnings.iter().map(|warning| warning.code().to_owned()).collect();
    let injected = match &first.outcome {
        Outcome::Mutated(mutated) | Outcome::Skipped { marked: mutated, .. } => {
            let mut patched = pod.clone();
            json_patch::patch(&mut patched, &mutated.patch()).unwrap();
            assert_eq!(patched.to_string(), mutated.pod.to_string());
            mutated.pod.clone()
        }
        other => panic!("{other:?}"),
    };
    let again = mutate(policies, injected.clone(), context);
    let is_same = match &again.outcome {
        Outcome::Unchanged { pod, .. } => *pod == injected,
        Outcome::Skipped { marked, .. } => marked.pod == injected,
        _ => false,
    };
    assert!(is_same, "{:?}", again.outcome);
    (codes, injected)
}

#[test]
fn a_launcher_has_the_provider_of_the_nodes_without_gpus_that_it_fits() {
    let cpu = |name: &str, provider_id: &str, machine: &str| {
        let labels = json!({TYPE: machine, "kubernetes.io/hostname": name});
        node(name, provider_id, labels, json!({"cpu": "8"}))
    };
    let of_azure = node(
        "nd",
        "azure:///subscriptions/x",
        json!({TYPE: "Standard_ND96isr_H100_v5"}),
        json!({"nvidia.com/gpu": "8", "rdma/ib": "8"}),
    );
    let mut nodes = vec![aws(), of_azure, cpu("cpu-0", "aws:///a/i-9", "m7i.2xlarge")];
    let on = |selector: Value, nodes: &[Value]| {
        let mut pod = launcher();
        pod["spec"]["nodeSelector"] = selector;
        chosen(pod, Some(nodes))
    };
    for selector in [json!({TYPE: "m7i.2xlarge"}), json!({"kubernetes.io/hostname": "cpu-0"})] {
        let (policy, told) = on(selector.clone(), &nodes);
        assert_eq!(policy, "aws-efa", "{told}");
        // A pod with GPUs does not fit there.
        let (_, told) = chosen(pod(selector), Some(&nodes));
        assert!(told.contains("fits no node now, and the cluster has nodes of `aws`, `azure`"), "{told}");
    }
    let (_, told) = on(json!({}), &nodes);
    assert!(told.contains("the pod fits nodes of `aws`, `azure`"), "{told}");
    // Where nodes without GPUs leave several, those with GPUs decide.
    nodes.remove(1);
    nodes.push(cpu("cpu-1", "azure:///subscriptions/x", "Standard_D8s_v5"));
    for node in &mut nodes[1..] {
        node["metadata"]["labels"]["pool"] = json!("cpu");
    }
    assert_eq!(on(json!({"pool": "cpu"}), &nodes).0, "aws-efa");
    nodes.remove(0);
    let (_, told) = on(json!({"pool": "cpu"}), &nodes);
    assert!(told.contains("the pod fits nodes of `aws`, `azure`"), "{told}");
}

#[test]
fn devices_that_one_provider_has_identify_nodes_without_an_id_of_a_cloud() {
    let offers =
        |id: &str, resource: &str| node("a", id, json!({}), json!({"nvidia.com/gpu": "8", resource: "32"}));
    for id in ["", "k3s://a"] {
        let (policy, told) = chosen(pod(json!({})), Some(&[offers(id, "vpc.amazonaws.com/efa")]));
        assert_eq!(policy, "aws-efa", "{told}");
        // Several providers' policies name these, and that of other nodes names one of them alone.
        for resource in ["rdma/ib", "nvidia.com/mlnxnics", "nvidia.com/hostdev"] {
            let (policy, told) = chosen(pod(json!({})), Some(&[offers(id, resource)]));
            assert_eq!(policy, "onprem-rdma", "{resource} {told}");
        }
    }
    // The ID of a cloud comes first.
    let (policy, _) = chosen(pod(json!({})), Some(&[offers("ocid1.instance.x", "vpc.amazonaws.com/efa")]));
    assert_eq!(policy, "oci-sriov");
}

#[test]
fn a_provider_that_nothing_names_is_assumed_with_a_warning() {
    let cpu = |id: &str| node("cpu", id, json!({}), json!({"cpu": "8"}));
    let codes = |nodes: &[Value], pod: Value| settled(all_policies(), pod, &context(nodes)).0;
    let is_assumed = |nodes: &[Value]| codes(nodes, pod(json!({}))).contains(&"provider_assumed".to_owned());
    for id in ["", "kind://docker/kind/kind-control-plane"] {
        assert!(is_assumed(&[cpu(id)]));
        assert!(codes(&[cpu(id)], launcher()).contains(&"provider_assumed".to_owned()));
    }
    assert!(!is_assumed(&[cpu("aws:///a/i-9")]));
    assert!(!is_assumed(&[cpu(""), own()]));
    let mut named = pod(json!({}));
    named["metadata"]["annotations"]["fabric-injector.io/provider"] = json!("onprem");
    assert!(!codes(&[cpu("")], named).contains(&"provider_assumed".to_owned()));
}
