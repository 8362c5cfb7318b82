//! gIB beside TCPXO under one annotation, and A4X by DRANET.

use serde_json::{Value, json};

use super::{on, policies, refused, served, skipped};
use crate::helpers::{gpu_container, pod, with};

const INTERFACES: &str = "networking.gke.io/interfaces";
const ACCELERATOR: &str = "cloud.google.com/gke-accelerator";

fn accelerator(name: &str) -> Value {
    on(json!({ACCELERATOR: name}))
}

/// The networks of the interfaces, by name of the interface.
fn interfaces(annotation: &str) -> Vec<(String, String)> {
    let list: Vec<Value> = serde_json::from_str(annotation).unwrap();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    list.iter().map(|entry| (text(entry, "interfaceName"), text(entry, "network"))).collect()
}

#[test]
fn each_pool_of_one_annotation_gets_its_own_fabric() {
    let policies = policies(&["gib", "tcpxo"], &[]);
    for (name, tuner) in [("nvidia-h200-141gb", "a3u"), ("nvidia-b200", "a4")] {
        let gib = served(&policies, accelerator(name));
        assert_eq!(gib.env("worker", "NCCL_NET"), Some("gIB"));
        let path = format!("/usr/local/gib/configs/tuner_config_{tuner}.txtpb");
        assert_eq!(gib.env("worker", "NCCL_TUNER_CONFIG_PATH"), Some(path.as_str()));
        let interfaces = interfaces(gib.annotation(INTERFACES).unwrap());
        assert_eq!(interfaces.len(), 9);
        assert_eq!(interfaces[8], ("eth9".into(), "rdma-7".into()));
        assert!(gib.codes().is_empty(), "{:?}", gib.warnings);
    }
    let tcpxo = served(&policies, accelerator("nvidia-h100-mega-80gb"));
    assert!(tcpxo.annotation("fabric-injector.io/injected").unwrap().starts_with("lab-tcpxo@"));
    assert!(tcpxo.container("tcpxo-daemon")["image"].is_string());
    assert_eq!(tcpxo.env("worker", "NCCL_NET"), None);
}

#[test]
fn a_pod_of_another_pool_is_skipped_with_the_names_of_both() {
    let policies = policies(&["gib", "tcpxo"], &[]);
    for pod in [accelerator("nvidia-l4"), on(json!({}))] {
        let (reason, names) = skipped(&policies, pod);
        assert!(reason.starts_with("the conditions `match.when`"), "{reason}");
        assert_eq!(names, ["lab-gib", "lab-tcpxo"]);
    }
}

#[test]
fn interfaces_of_the_pod_stay_and_the_others_follow() {
    let policies = policies(&["gib", "tcpxo"], &["rdmaNetworks=a,b,c,d,e,f,g,h"]);
    let mut pod = accelerator("nvidia-b200");
    pod["metadata"]["annotations"][INTERFACES] = json!(
        "[{\"interfaceName\": \"eth0\", \"network\": \"default\"},\n {\"interfaceName\": \"eth2\", \"network\": \"mine\"}]"
    );
    let gib = served(&policies, pod);
    let interfaces = interfaces(gib.annotation(INTERFACES).unwrap());
    assert_eq!(interfaces[1..3], [("eth2".into(), "mine".into()), ("eth3".into(), "b".into())]);
    assert_eq!((interfaces.len(), gib.codes()), (9, vec!["kept_annotation"]));
}

fn claims(pod: &Value) -> Vec<(&str, &str)> {
    let claims = pod["spec"]["resourceClaims"].as_array().unwrap().iter();
    claims
        .map(|claim| (claim["name"].as_str().unwrap(), claim["resourceClaimTemplateName"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_pod_on_a4x_gets_its_claims_and_tolerates_the_architecture() {
    let policies = policies(&["a4x-dranet"], &["channelTemplate=train-channel"]);
    let a4x = served(&policies, pod(&json!({"containers": [gpu_container("worker", 4)]})));
    let expected = [("rdma", "default-rdma"), ("compute-domain-channel", "train-channel")];
    assert_eq!(claims(&a4x.pod), expected);
    let used = json!([{"name": "rdma"}, {"name": "compute-domain-channel"}]);
    assert_eq!(a4x.container("worker")["resources"]["claims"], used);
    assert_eq!(a4x.pod["spec"]["tolerations"][0]["value"], "arm64");
    assert_eq!(a4x.env("worker", "NCCL_MNNVL_ENABLE"), Some("1"));
    assert!(a4x.codes().is_empty(), "{:?}", a4x.warnings);
}

#[test]
fn without_a_compute_domain_nvlink_between_nodes_is_off_and_that_is_said() {
    let policies = policies(&["a4x-dranet"], &[]);
    let a4x = served(&policies, pod(&json!({"containers": [gpu_container("worker", 4)]})));
    assert_eq!(claims(&a4x.pod), [("rdma", "default-rdma")]);
    assert_eq!(a4x.env("worker", "NCCL_MNNVL_ENABLE"), Some("0"));
    assert_eq!(a4x.codes(), ["no_compute_domain"]);
}

#[test]
fn gpus_nics_and_channel_that_the_pod_claims_itself_count() {
    let policies = policies(&["a4x-dranet"], &["channelTemplate=train-channel"]);
    let used = json!([{"name": "gpus"}, {"name": "nics"}, {"name": "domain"}]);
    let worker = with(json!({"name": "worker", "image": "nemo"}), &json!({"resources": {"claims": used}}));
    let claimed = [("gpus", "four-gpus"), ("nics", "my-rdma"), ("domain", "my-channel")];
    let own = claimed.map(|(name, template)| json!({"name": name, "resourceClaimTemplateName": template}));
    let a4x = served(&policies, pod(&json!({"containers": [worker], "resourceClaims": own})));
    assert_eq!(claims(&a4x.pod), claimed);
    assert_eq!(a4x.container("worker")["resources"]["claims"], used);
    assert_eq!(a4x.env("worker", "NCCL_MNNVL_ENABLE"), Some("1"));
    assert_eq!(a4x.codes(), ["kept_fabric", "claim_by_name"]);
}

#[test]
fn a_pod_for_another_architecture_is_refused() {
    let (code, said) = refused(&policies(&["a4x-dranet"], &[]), on(json!({"kubernetes.io/arch": "amd64"})));
    assert_eq!(code, "other_architecture");
    assert!(said.contains("A4X nodes are arm64"), "{said}");
}
