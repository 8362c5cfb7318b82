//! Policies of an operator that are wrong: plain pods start in every namespace, whoever makes the certificate.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fabric_injector::authority::Authority;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::values;
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::eventually;
use crate::helm::RELEASE;
use crate::workloads::{plain_template, pod, template};

const WEBHOOK: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";
const SECRETS: &str = "/api/v1/namespaces/fabric-injector/secrets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const HOST: &str = "fabric-injector.fabric-injector.svc";

pub(super) const GOOD: &str = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: lab}
spec:
  provider: lab
  description: For a test
  gpus: {resources: [nvidia.com/gpu]}
  match:
    anyAnnotation: {lab.example/fabric: \"on\"}
  rules:
    - {name: r, env: {A: b}}
";

/// Faults of `match`, each by what stands for its trigger. The chart refuses them.
const UNREADABLE: [&str; 7] = [
    "anyAnotation: {lab.example/fabric: \"on\"}",
    "anyAnnotation: {}",
    "anyAnnotation:",
    "anyAnnotation: lab.example/fabric",
    "exceptAnnotation: {lab.example/plain: \"true\"}",
    "namespaces: [default]",
    "ownerKinds: [Job]",
];

/// Faults that only servers find: what they replace, and by what. Of two equal keys, Helm takes the last.
const REFUSED_BY_SERVERS: [(&str, &str); 4] = [
    ("A: b", "A: '${nothing}'"),
    ("\"on\"}", "\"on\", yes: \"on\"}"),
    ("lab.example/fabric: \"on\"}", "lab.example/fabric: \"on\"}\n    exceptAnotation: {a: b}"),
    ("match:\n", "match:\n    anyAnnotation: {other.example/fabric: \"on\"}\n"),
];

fn unreadable() -> impl Iterator<Item = String> {
    UNREADABLE.iter().map(|fault| GOOD.replace("anyAnnotation: {lab.example/fabric: \"on\"}", fault))
}

fn refused_by_servers() -> impl Iterator<Item = String> {
    REFUSED_BY_SERVERS.iter().map(|(from, to)| GOOD.replace(from, to))
}

/// The values with one policy, and with what belongs to a kind of certificate. No policy is refused before servers read it.
fn with_policy(text: &str, certificate: &Value) -> Value {
    let mut values = values();
    values["multinodeNetworking"] = json!({});
    values["extraPolicies"] = json!({"lab.yaml": text});
    values["policyReview"] = json!({"enabled": false});
    values.as_object_mut().unwrap().extend(certificate.as_object().unwrap().clone());
    values
}

/// Installs the chart or upgrades the release, and does not wait for the servers.
async fn install(cluster: &Cluster, values: &Value) -> (bool, String) {
    cluster.helm.run_with(&["upgrade", "--install", RELEASE], values).await
}

/// Pods that do not ask for the fabric are created in every namespace.
async fn plain_pods_start(cluster: &Cluster) {
    for namespace in cluster.api.list("/api/v1/namespaces").await {
        if namespace["status"]["phase"] != "Active" {
            continue;
        }
        let namespace = namespace["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        for template in [plain_template(), template(false, "p5.48xlarge")] {
            let reply = cluster.api.post(&path, &pod(namespace, "plain", &template)).await;
            assert_eq!(reply.status, 201, "{namespace}: {reply:?}");
        }
    }
}

/// A pod that asks for the fabric.
async fn asks(cluster: &Cluster) -> u16 {
    let mut asking = pod("default", "asking", &template(false, "p5.48xlarge"));
    asking["metadata"]["annotations"] = json!({"lab.example/fabric": "on"});
    cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asking).await.status
}

/// Plain pods start with this registration, with the servers as they come, and without any.
async fn is_harmless(cluster: &Cluster) {
    let webhook = cluster.api.get(WEBHOOK).await.ok();
    assert_eq!(webhook["webhooks"][0]["matchConditions"][0]["name"], "has-trigger");
    for _ in 0..5 {
        plain_pods_start(cluster).await;
        sleep(Duration::from_millis(500)).await;
    }
    cluster.api.merge(DEPLOYMENT, &json!({"spec": {"replicas": 0}})).await.ok();
    eventually("pods that ask are rejected without servers", async || asks(cluster).await == 500).await;
    plain_pods_start(cluster).await;
}

async fn no_broken_policy_stops_plain_pods(cluster: &Cluster, certificate: &Value, ready: impl AsyncFn()) {
    for text in unreadable() {
        let (succeeded, said) = install(cluster, &with_policy(&text, certificate)).await;
        assert!(!succeeded && said.contains("extraPolicies: in `lab.yaml`, "), "{said}");
        assert_eq!(cluster.api.get(WEBHOOK).await.status, 404, "{text}");
    }
    for text in refused_by_servers() {
        let (succeeded, said) = install(cluster, &with_policy(&text, certificate)).await;
        assert!(succeeded, "{said}");
        ready().await;
        is_harmless(cluster).await;
        cluster.uninstall().await;
    }

    // From a policy that is in use.
    let (succeeded, said) = install(cluster, &with_policy(GOOD, certificate)).await;
    assert!(succeeded, "{said}");
    ready().await;
    eventually("pods that ask are injected", async || asks(cluster).await == 201).await;
    let before = cluster.api.get(WEBHOOK).await.ok();
    for text in unreadable() {
        let (succeeded, said) = install(cluster, &with_policy(&text, certificate)).await;
        assert!(!succeeded && said.contains("extraPolicies: in `lab.yaml`, "), "{said}");
    }
    let after = cluster.api.get(WEBHOOK).await.ok();
    assert_eq!(after["webhooks"][0]["matchConditions"], before["webhooks"][0]["matchConditions"]);
    assert_eq!(asks(cluster).await, 201);
    let text = refused_by_servers().next().unwrap();
    let (succeeded, said) = install(cluster, &with_policy(&text, certificate)).await;
    assert!(succeeded, "{said}");
    is_harmless(cluster).await;
    cluster.uninstall().await;
}

async fn start(cluster: &Cluster) {
    if cluster.is_installed().await {
        cluster.uninstall().await;
    }
}

pub(super) async fn with_managed_certificates_plain_pods_start_whatever_the_policies_are(cluster: &Cluster) {
    start(cluster).await;
    no_broken_policy_stops_plain_pods(cluster, &json!({}), async || ()).await;
}

/// The data of a Secret with a new certificate of an authority.
pub(super) fn issue(authority: &Authority) -> Value {
    let (now, life) = (SystemTime::now(), Duration::from_hours(1));
    let issued = authority.issue(&[HOST.to_owned()], &[], now, life).unwrap();
    json!({"tls.crt": BASE64_STANDARD.encode(&issued.cert), "tls.key": BASE64_STANDARD.encode(&issued.key)})
}

/// A Secret with a certificate of an authority.
pub(super) async fn make_secret(cluster: &Cluster, name: &str, authority: &Authority) {
    let metadata = json!({"namespace": "fabric-injector", "name": name});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls",
        "data": issue(authority),
    });
    cluster.api.create(&secret).await.ok();
}

pub(super) async fn with_a_secret_of_the_operator_plain_pods_start_whatever_the_policies_are(
    cluster: &Cluster,
) {
    start(cluster).await;
    let authority = Authority::new(SystemTime::now()).unwrap();
    make_secret(cluster, "brought", &authority).await;
    let certificate = json!({"tls": {"secretName": "brought", "caBundle": authority.cert}});
    no_broken_policy_stops_plain_pods(cluster, &certificate, async || ()).await;
    cluster.api.delete(&format!("{SECRETS}/brought")).await.ok();
}

/// Kinds of cert-manager, of which only the objects exist.
fn kinds_of_cert_manager() -> [Value; 2] {
    ["Certificate", "Issuer"].map(|kind| {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.cert-manager.io")},
            "spec": {
                "group": "cert-manager.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
                ],
            },
        })
    })
}

pub(super) async fn with_cert_manager_plain_pods_start_whatever_the_policies_are(cluster: &Cluster) {
    start(cluster).await;
    for kind in kinds_of_cert_manager() {
        cluster.api.create(&kind).await.ok();
    }
    let certificates = "/apis/cert-manager.io/v1/namespaces/fabric-injector/certificates";
    eventually("the kinds are there", async || cluster.api.get(certificates).await.status == 200).await;
    // What cert-manager does: the Secret of the Certificate, and the CA in the registration.
    let authority = Authority::new(SystemTime::now()).unwrap();
    make_secret(cluster, "fabric-injector-serving", &authority).await;
    let bundle = BASE64_STANDARD.encode(&authority.cert);
    let patch = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]);
    let certificate = json!({"certManager": {"enabled": true}});
    no_broken_policy_stops_plain_pods(cluster, &certificate, async || {
        cluster.api.patch(WEBHOOK, &patch).await.ok();
    })
    .await;
    cluster.api.delete(&format!("{SECRETS}/fabric-injector-serving")).await.ok();
    for kind in kinds_of_cert_manager() {
        cluster.api.delete(&format!("{CRDS}/{}", kind["metadata"]["name"].as_str().unwrap())).await.ok();
    }
    eventually("the kinds are gone", async || cluster.api.get(certificates).await.status == 404).await;
}
