//! The fabrics of Google Cloud behind one annotation and one block of values: TCPX, TCPXO and gIB.

use std::sync::{Arc, LazyLock};

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{Mutation, Outcome};
use fabric_injector::builtin;
use fabric_policy::PodContext;
use fabric_tools::helm_values::Values;

use serde_json::{Value, json};

use crate::helpers::{Served, items, on, serve_as, worker};

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
    // A pod that selects nothing would get the fabric of another machine.
    let Outcome::Refused { reason } = injected_by_one(worker(8)).outcome else { panic!("not refused") };
    assert_eq!(reason.code(), "setting_undecided");
    for said in ["`fabric`", "`cloud.google.com/gke-accelerator`", "`fabric-injector.io/provider`"] {
        assert!(reason.to_string().contains(said), "{reason}");
    }
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
