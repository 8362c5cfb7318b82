//! The objects that pods name, and what is said where the cluster does not have them.

use std::sync::Arc;

use fabric_policy::PodContext;
use fabric_policy::objects::{KnownObjects, NamedObject, ObjectKind};
use serde_json::{Value, json};

use crate::helpers::{gpu_container, pod, policy_set, serve_as};

fn template(namespace: &str, class: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "efa", "namespace": namespace}, "spec": {"spec": {"devices": {"requests": [
            {"name": "nic", "exactly": {"deviceClassName": class}}]}}}})
}

fn class(name: &str, driver: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{driver}'")}}]}})
}

fn domain(template: &str) -> Value {
    json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
        "metadata": {"name": "domain", "namespace": "team"},
        "spec": {"channel": {"resourceClaimTemplate": {"name": template}}}})
}

fn network(api: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "team"}})
}

fn all_kinds() -> Vec<ObjectKind> {
    ObjectKind::all().collect()
}

/// What is said about a pod in the namespace `team` of a cluster with these objects, of which these kinds are known.
fn said(
    policy: &str,
    sets: &[(&str, &str)],
    pod: &Value,
    objects: &[Value],
    whole: &[ObjectKind],
) -> Vec<String> {
    let read = |object| NamedObject::read(object, "team").expect("an object that pods name");
    let mut known: KnownObjects = objects.iter().map(read).collect();
    known.whole = whole.iter().copied().collect();
    said_of(policy, sets, pod, known)
}

fn said_of(policy: &str, sets: &[(&str, &str)], pod: &Value, known: KnownObjects) -> Vec<String> {
    let namespace = Some("team".to_owned());
    let context = PodContext { namespace, objects: Some(Arc::new(known)), ..PodContext::default() };
    let mutation = serve_as(&policy_set(policy, sets), pod.clone(), &context);
    let about = mutation.warnings.iter().filter(|warning| warning.code() == "not_there_yet");
    about.map(ToString::to_string).collect()
}

const BY_CLAIM: [(&str, &str); 1] = [("efaAttachment", "claim")];

fn gpu_pod() -> Value {
    pod(&json!({"containers": [gpu_container("train", 8)],
        "nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}))
}

#[test]
fn an_injected_template_that_is_absent_is_told_with_what_creates_it() {
    let own = class("efa.example.com", "dra.net");
    let create = "the ResourceClaimTemplate `efa` is not there yet in the namespace `team`, and the pod does not start \
                  without it: create it";
    let apply = |class: &str| {
        format!(
            "{create}: `kubectl apply -f - <<< '{{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\
             \"ResourceClaimTemplate\",\"metadata\":{{\"name\":\"efa\",\"namespace\":\"team\"}},\"spec\":{{\"spec\":\
             {{\"devices\":{{\"requests\":[{{\"name\":\"devices\",\"exactly\":\
             {{\"deviceClassName\":\"{class}\",\"allocationMode\":\"All\"}}}}]}}}}}}}}'`"
        )
    };
    let said =
        |objects: &[Value], whole: &[ObjectKind]| said("aws-efa", &BY_CLAIM, &gpu_pod(), objects, whole);
    let all = all_kinds();
    let other = class("gpu.example.com", "gpu.nvidia.com");
    assert_eq!(said(&[own.clone(), other], &all), [apply("efa.example.com")]);
    assert_eq!(said(&[], &all), [format!("{create}, or the ComputeDomain that names it")]);
    // In another namespace, there, and made by the driver of a domain that names it.
    assert_eq!(said(&[own.clone(), template("other", "efa.example.com")], &all), [apply("efa.example.com")]);
    assert!(said(&[own.clone(), template("team", "efa.example.com")], &all).is_empty());
    let of_domain = [domain("efa"), class("compute-domain-default-channel.nvidia.com", "a.example")];
    assert!(said(&of_domain, &all).is_empty());
    // The class is absent.
    assert_eq!(
        said(&[template("team", "efa.example.com")], &all),
        [
            "the DeviceClass `efa.example.com` is not there yet, and the pod does not start without it: install the driver \
          that has it"
        ]
    );
    // Each kind that decides is known, or nothing is said.
    for unknown in [ObjectKind::Template, ObjectKind::Domain] {
        let whole: Vec<_> = all_kinds().into_iter().filter(|kind| *kind != unknown).collect();
        assert!(said(&[], &whole).is_empty(), "{unknown:?}");
    }
    assert!(said(&[], &[]).is_empty());
}

#[test]
fn nothing_is_said_about_a_namespace_with_more_objects_than_are_known() {
    for (over, warnings) in [("team", 0), ("other", 1)] {
        let mut known = KnownObjects::default();
        known.whole.extend(ObjectKind::all());
        known.over.insert(over.to_owned());
        assert_eq!(said_of("aws-efa", &BY_CLAIM, &gpu_pod(), known).len(), warnings, "{over}");
    }
}

#[test]
fn claims_classes_and_networks_that_the_pod_itself_names_are_looked_for() {
    let mut own = gpu_pod();
    own["spec"]["resourceClaims"] = json!([{"name": "a", "resourceClaimName": "mine"}]);
    own["spec"]["containers"][0]["resources"]["limits"]["deviceclass.resource.kubernetes.io/nic"] =
        json!("1");
    own["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!("ops/rail-0@net1, rail-1,rail-1");
    own["metadata"]["annotations"]["networking.gke.io/interfaces"] = json!(
        r#"[{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth1","network":"vpc"},{"a":1},2]"#
    );
    let objects = |said: Vec<String>| -> Vec<String> {
        said.iter().map(|one| one.split_once(" is not").unwrap().0.to_owned()).collect()
    };
    let found = |pod: &Value, known: &[Value]| objects(said("aws-efa", &[], pod, known, &all_kinds()));
    assert_eq!(
        found(&own, &[]),
        [
            "the ResourceClaim `mine`",
            "the DeviceClass `nic`",
            "the NetworkAttachmentDefinition `rail-0`",
            "the NetworkAttachmentDefinition `rail-1`",
            "the Network `vpc`"
        ]
    );
    let there = [
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "mine", "namespace": "team"}, "spec": {"devices": {"requests": [
                {"name": "a", "exactly": {"deviceClassName": "gone"}}]}}}),
        class("nic", "nic.example.com"),
        network("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "rail-1"),
        network("networking.gke.io/v1", "Network", "vpc"),
    ];
    assert_eq!(found(&own, &there), ["the NetworkAttachmentDefinition `rail-0`"]);
    // In JSON, and of a pod in the network of its node, which has no other networks.
    own["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!(r#"[{"name":"rail-7"}]"#);
    assert_eq!(found(&own, &there), ["the NetworkAttachmentDefinition `rail-7`"]);
    own["spec"]["hostNetwork"] = json!(true);
    assert!(found(&own, &there).is_empty());
}

#[test]
fn of_alternatives_no_class_has_to_exist() {
    let mut template = template("team", "x");
    let alternatives = json!([{"name": "a", "deviceClassName": "x"}, {"name": "b", "deviceClassName": "y"}]);
    template["spec"]["spec"]["devices"]["requests"] =
        json!([{"name": "nic", "firstAvailable": alternatives}]);
    assert!(said("aws-efa", &BY_CLAIM, &gpu_pod(), &[template], &all_kinds()).is_empty());
}
