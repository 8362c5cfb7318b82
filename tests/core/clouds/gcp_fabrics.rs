//! The fabrics of Google Cloud behind one annotation and one block of values: TCPX, TCPXO and gIB.

use std::sync::{Arc, LazyLock};

use fabric_injector::core::engine::{Mutation, Outcome};
use fabric_injector::core::policy::PodContext;
use fabric_injector::core::policy_set::PolicySet;
use fabric_injector::core::values::Values;
use fabric_injector::shell::builtin;

use serde_json::{Value, json};

use crate::helpers::{Served, items, on, on_host_network, serve_as, served, worker, worker_with};

const ACCELERATOR: &str = "cloud.google.com/gke-accelerator";
const INTERFACES: &str = "networking.gke.io/interfaces";
const POLICIES: [&str; 3] = ["gcp-gib", "gcp-tcpx", "gcp-tcpxo"];

/// All policies of the provider, with the values that an operator has who only enables it.
fn enabled() -> Arc<PolicySet> {
    static LOADED: LazyLock<Arc<PolicySet>> = LazyLock::new(|| {
        let values = Values::read("values.yaml", "multinodeNetworking: {gcp: {enabled: true}}\n").unwrap();
        let definitions = POLICIES.map(|name| {
            let definition = builtin::find(name).unwrap().definition().unwrap();
            let overrides = values.overrides(&definition).unwrap();
            (definition, overrides)
        });
        Arc::new(PolicySet::new(definitions.into()).unwrap())
    });
    Arc::clone(&LOADED)
}

fn injected_by_one(pod: Value) -> Mutation {
    serve_as(&enabled(), pod, &PodContext::default())
}

fn with_accelerator(accelerator: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeSelector"] = json!({ACCELERATOR: accelerator});
    pod
}

/// The policy that injected the pod.
fn policy(served: &Served) -> &str {
    served.annotation("fabric-injector.io/injected").unwrap().split_once('@').unwrap().0
}

/// The networks of a pod's interfaces, without the default one.
fn networks(served: &Served) -> Vec<String> {
    let Some(text) = served.annotation(INTERFACES) else { return Vec::new() };
    let interfaces: Value = serde_json::from_str(text).unwrap();
    items(&interfaces)[1..].iter().map(|entry| entry["network"].as_str().unwrap().to_owned()).collect()
}

/// One values file for a cluster with a pool of each machine.
#[test]
fn gcp_each_machine_gets_its_fabric_from_one_values_file() {
    for (machine, accelerator, gpus, wanted, count) in [
        ("a3-highgpu-8g", "nvidia-h100-80gb", 8, "gcp-tcpx", 4),
        ("a3-megagpu-8g", "nvidia-h100-mega-80gb", 8, "gcp-tcpxo", 8),
        ("a3-ultragpu-8g", "nvidia-h200-141gb", 8, "gcp-gib", 8),
        ("a4-highgpu-8g", "nvidia-b200", 8, "gcp-gib", 8),
        ("a4x-highgpu-4g", "nvidia-gb200", 4, "gcp-gib", 4),
        ("a4x-maxgpu-4g-metal", "nvidia-gb300", 4, "gcp-gib", 0),
    ] {
        for pod in [on(machine, worker(gpus)), with_accelerator(accelerator, worker(gpus))] {
            let served = Served::of(injected_by_one(pod));
            assert_eq!((policy(&served), networks(&served).len()), (wanted, count), "{machine}");
            let claims = items(&served.container("worker")["resources"]["claims"]);
            assert_eq!(claims.len(), usize::from(machine == "a4x-maxgpu-4g-metal"), "{machine}");
            assert!(!served.codes().contains(&"parameter_assumed"), "{machine}: {:?}", served.codes());
        }
    }
    // The values of NVIDIA's chart, and pods that select nothing.
    assert_eq!(policy(&Served::of(injected_by_one(worker(8)))), "gcp-tcpxo");
}

/// A machine with another fabric, or with none, was given the daemon, the networks and the devices of TCPXO, so that
/// the pod could not start.
#[test]
fn gcp_audit_2_a_machine_without_tcpxo_gets_nothing_of_it() {
    for (pod, gets) in [
        (on("a3-ultragpu-8g", worker(8)), Some("gcp-gib")),
        (on("a4-highgpu-8g", worker(8)), Some("gcp-gib")),
        (on("a3-highgpu-8g", worker(8)), Some("gcp-tcpx")),
        (on("a3-ultragpu-8g-nolssd", worker(8)), Some("gcp-gib")),
        (on("a4-highgpu-8g-lowmem", worker(8)), Some("gcp-gib")),
        (on("a4x-highgpu-4g-nolssd", worker(4)), Some("gcp-gib")),
        (on("a4x-maxgpu-4g-metal-nolssd", worker(4)), Some("gcp-gib")),
        (on("a3-edgegpu-8g", worker(8)), Some("gcp-tcpx")),
        (on("a3-highgpu-8g-nolssd", worker(8)), Some("gcp-tcpx")),
        (on("a3-highgpu-4g-nolssd", worker(4)), None),
        (on("g2-standard-4", worker(1)), None),
        (on("g4-standard-6", worker(1)), None),
        (on("n1-standard-8", worker(1)), None),
        (with_accelerator("nvidia-tesla-p100", worker(4)), None),
        (on("a3-highgpu-1g", worker(1)), None),
        (on("a2-highgpu-8g", worker(8)), None),
        (on("g4-standard-384", worker(8)), None),
        (with_accelerator("nvidia-tesla-a100", worker(8)), None),
        (with_accelerator("nvidia-rtx-pro-6000", worker(8)), None),
    ] {
        let mutation = injected_by_one(pod.clone());
        let mut after = mutation.outcome.changed().unwrap().pod.clone();
        for stamp in ["fabric-injector.io/injected", "fabric-injector.io/skipped"] {
            after["metadata"]["annotations"].as_object_mut().unwrap().remove(stamp);
        }
        for word in ["tcpxo", "gpu-nic", "aperture", "FASTRAK"] {
            assert!(!after.to_string().contains(word), "{word} in {after}");
        }
        match (gets, mutation.outcome) {
            (Some(wanted), Outcome::Mutated(mutated)) => {
                let served = Served { pod: mutated.pod, warnings: mutation.warnings };
                assert_eq!(policy(&served), wanted);
            }
            (None, Outcome::Skipped { marked, reason }) => {
                assert_eq!(reason.code(), "condition_false");
                assert_eq!(marked.pod["spec"], pod["spec"]);
            }
            (_, outcome) => panic!("{outcome:#?}"),
        }
    }
}

/// Without an adapter, NCCL with gIB would use TCP and say nothing. TCPXO and TCPX name no network.
#[test]
fn gcp_gib_names_the_network_unless_the_job_has_one_node() {
    let gib = |sets: &[(&str, &str)], pod: Value| served("gcp-gib", sets, on("a4-highgpu-8g", pod));
    assert_eq!(gib(&[], worker(8)).env("worker", "NCCL_NET"), Some("gIB"));
    assert_eq!(gib(&[("onMissingFabric", "fallback")], worker(8)).env("worker", "NCCL_NET"), None);
    let mut one_node = worker(8);
    one_node["metadata"]["annotations"]["nmp.nvidia.com/num-nodes"] = json!("1");
    assert_eq!(gib(&[], one_node).env("worker", "NCCL_NET"), None);
    let own = worker_with(8, &json!({"env": [{"name": "NCCL_NET", "value": "Socket"}]}));
    assert_eq!(gib(&[], own).codes(), ["socket_network"]);
    for (policy, machine) in [("gcp-tcpxo", "a3-megagpu-8g"), ("gcp-tcpx", "a3-highgpu-8g")] {
        let served = served(policy, &[("onMissingFabric", "fail")], on(machine, worker(8)));
        assert_eq!(served.env("worker", "NCCL_NET"), None);
        assert_eq!(served.codes(), ["no_fail_mode"]);
    }
}

/// A second claim for the template would ask for twice the adapters of a machine.
#[test]
fn gcp_gib_a_pods_own_claim_is_not_doubled() {
    let mut pod = worker_with(
        8,
        &json!({"resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"},
                "claims": [{"name": "adapters"}]}}),
    );
    pod["spec"]["resourceClaims"] =
        json!([{"name": "adapters", "resourceClaimTemplateName": "default-rdma"}]);
    for attachment in ["interfaces", "claim", "hostNetwork"] {
        let served = served("gcp-gib", &[("gibAttachment", attachment)], on("a4-highgpu-8g", pod.clone()));
        assert_eq!(served.codes(), ["kept_fabric"], "{attachment}");
        assert_eq!(served.pod["spec"]["resourceClaims"], pod["spec"]["resourceClaims"], "{attachment}");
        assert_eq!(served.annotation(INTERFACES), None, "{attachment}");
        assert_eq!(served.pod["spec"].get("hostNetwork"), None, "{attachment}");
    }
}

/// In the host's network, the pod has the host's interfaces, whose names the policy does not know.
#[test]
fn gcp_gib_in_the_hosts_network_resolves_services_and_names_no_interface() {
    let of_policy = served("gcp-gib", &[("gibAttachment", "hostNetwork")], on("a4-highgpu-8g", worker(8)));
    let of_pod = served("gcp-gib", &[], on_host_network(on("a4-highgpu-8g", worker(8))));
    for served in [of_policy, of_pod] {
        assert_eq!(served.pod["spec"]["hostNetwork"], true);
        assert_eq!(served.pod["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
        assert_eq!(served.container("worker")["securityContext"]["privileged"], true);
        assert_eq!(served.annotation(INTERFACES), None);
        assert_eq!(served.env("worker", "NCCL_SOCKET_IFNAME"), None);
        assert_eq!(served.env("worker", "GLOO_SOCKET_IFNAME"), None);
        assert_eq!(served.codes(), ["replaced"]);
    }
    let mut own_dns = on_host_network(on("a4-highgpu-8g", worker(8)));
    own_dns["spec"]["dnsPolicy"] = json!("Default");
    assert_eq!(served("gcp-gib", &[], own_dns).pod["spec"]["dnsPolicy"], "Default");
}

/// Without a channel, NCCL ends with `NCCL_MNNVL_ENABLE=1`, on one node too.
#[test]
fn gcp_grace_pods_have_nvlink_between_nodes_only_with_a_channel() {
    let template = [("computeDomainTemplate", "domain"), ("computeDomainLabel", "job")];
    let without = served("gcp-gib", &[], on("a4x-highgpu-4g", worker(4)));
    assert_eq!(without.env("worker", "NCCL_MNNVL_ENABLE"), Some("0"));
    assert_eq!(without.env("worker", "NCCL_NVLS_ENABLE"), Some("0"));
    assert_eq!(without.codes(), ["no_compute_domain"]);
    let mut pod = on("a4x-highgpu-4g", worker(4));
    pod["metadata"]["labels"] = json!({"job": "a"});
    let with = served("gcp-gib", &template, pod);
    assert_eq!(with.env("worker", "NCCL_MNNVL_ENABLE"), Some("1"));
    assert_eq!(with.env("worker", "NCCL_NVLS_ENABLE"), None);
    assert_eq!(with.codes(), Vec::<&str>::new());
    assert_eq!(items(&with.pod["spec"]["resourceClaims"])[0]["resourceClaimTemplateName"], "domain");
    let terms =
        &with.pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms[0]["topologyKey"], "nvidia.com/gpu.clique");
    assert_eq!(terms[0]["labelSelector"]["matchLabels"], json!({"job": "a"}));
    assert_eq!(items(&with.pod["spec"]["tolerations"])[0]["value"], "arm64");
    let x86 = served("gcp-gib", &template, on("a4-highgpu-8g", worker(8)));
    assert_eq!(x86.pod["spec"].get("resourceClaims"), None);
    assert_eq!(x86.env("worker", "NCCL_MNNVL_ENABLE"), None);
}

/// Networks that are too few for the machine were an index out of range for the policy's author.
#[test]
fn gcp_gib_too_few_networks_are_refused_with_the_numbers() {
    let sets = [("rdmaNetworks", "a,b,c,d")];
    let small = served("gcp-gib", &sets, on("a4x-highgpu-4g", worker(4)));
    assert_eq!(networks(&small), ["a", "b", "c", "d"]);
    let refused = crate::helpers::serve("gcp-gib", &sets, on("a4-highgpu-8g", worker(8)));
    let Outcome::Refused { reason } = refused.outcome else { panic!("{refused:#?}") };
    assert_eq!(reason.code(), "too_few_networks");
}
