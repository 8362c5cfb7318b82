//! What holds for the objects whatever the values are.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cases::{enabled, every_case, providers, with};
use crate::helm::{Helm, NAMESPACE};
use crate::objects::{Objects, identity, is_test, selects, strings};
use crate::{chart, pods, registration, rights};

pub(crate) fn helm_has_nothing_against_the_chart(helm: &Helm) {
    for provider in providers().keys() {
        let output = helm.lint(&chart(), &enabled(provider));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Values of every kind give objects that belong together. A test for each provider, so that they run at once.
fn combinations(helm: &Helm, provider: &str) {
    every_case(helm, provider, |values, objects| {
        identities(objects);
        hooks(objects);
        selectors(objects);
        references(objects);
        scaling(objects);
        pods::check(values, objects);
        rights::check(values, objects);
        registration::check(values, objects);
    });
}

pub(crate) fn values_for_aws_give_objects_that_belong_together(helm: &Helm) {
    combinations(helm, "aws");
}

pub(crate) fn values_for_azure_give_objects_that_belong_together(helm: &Helm) {
    combinations(helm, "azure");
}

pub(crate) fn values_for_gcp_give_objects_that_belong_together(helm: &Helm) {
    combinations(helm, "gcp");
}

pub(crate) fn values_for_oci_give_objects_that_belong_together(helm: &Helm) {
    combinations(helm, "oci");
}

/// Every object has a kind, a name and the labels of the release; none is there twice.
fn identities(objects: &Objects) {
    let cluster = [
        "ClusterRole",
        "ClusterRoleBinding",
        "MutatingWebhookConfiguration",
        "PriorityClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ];
    let mut seen = BTreeSet::new();
    for object in &objects.0 {
        assert!(object["apiVersion"].is_string() && object["metadata"]["name"].is_string(), "{object}");
        assert!(seen.insert(identity(object)), "{} is there twice", identity(object));
        let kind = object["kind"].as_str().unwrap();
        assert_eq!(
            object["metadata"]["namespace"].is_string(),
            !cluster.contains(&kind),
            "{}",
            identity(object)
        );
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/instance"], "fabric-injector", "{object}");
    }
}

/// Uninstalling leaves nothing: no hook but those of `helm test`, which go at its end, or with the release if it was
/// interrupted. Nothing is kept.
fn hooks(objects: &Objects) {
    for object in &objects.0 {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/resource-policy"], Value::Null, "{}", identity(object));
        if annotations["helm.sh/hook"] != Value::Null {
            assert!(is_test(object), "{}", identity(object));
            let policy = annotations["helm.sh/hook-delete-policy"].as_str().unwrap();
            assert_eq!(policy, "before-hook-creation,hook-succeeded,hook-failed", "{}", identity(object));
            let hook = if object["kind"] == "Pod" { "test" } else { "test,post-delete" };
            assert_eq!(annotations["helm.sh/hook"], hook, "{}", identity(object));
        }
    }
}

/// Whatever selects pods selects those of the servers, and not that of `helm test`.
fn selectors(objects: &Objects) {
    let labels = &objects.pod()["metadata"]["labels"];
    let deployment = &objects.the("Deployment")["spec"];
    let mut selectors =
        vec![&deployment["selector"]["matchLabels"], &objects.the("Service")["spec"]["selector"]];
    selectors.push(&objects.the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]);
    if let Some(policy) = objects.find("NetworkPolicy") {
        selectors.push(&policy["spec"]["podSelector"]["matchLabels"]);
    }
    for spread in objects.pod()["spec"]["topologySpreadConstraints"].as_array().unwrap() {
        selectors.push(&spread["labelSelector"]["matchLabels"]);
    }
    for selector in selectors {
        assert!(selects(selector, labels), "{selector} {labels}");
        for test in objects.of_kind("Pod") {
            assert!(
                !selects(selector, &test["metadata"]["labels"]),
                "{selector} selects the pod of `helm test`"
            );
        }
    }
    if let Some(monitor) = objects.find("ServiceMonitor") {
        let service = objects.the("Service");
        assert!(selects(&monitor["spec"]["selector"]["matchLabels"], &service["metadata"]["labels"]));
        let ports: Vec<&Value> =
            service["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["name"]).collect();
        assert!(ports.contains(&&monitor["spec"]["endpoints"][0]["port"]));
    }
}

/// What an object names is there.
fn references(objects: &Objects) {
    let spec = &objects.pod()["spec"];
    let container_ports = objects.server()["ports"].as_array().unwrap();
    for port in objects.the("Service")["spec"]["ports"].as_array().unwrap() {
        assert!(container_ports.iter().any(|container| container["name"] == port["targetPort"]), "{port}");
    }
    let account = spec["serviceAccountName"].as_str().unwrap();
    assert!(objects.named("ServiceAccount", account).is_some(), "{account}");
    for volume in spec["volumes"].as_array().unwrap() {
        if let Some(name) = volume["configMap"]["name"].as_str() {
            assert!(objects.named("ConfigMap", name).is_some(), "{name}");
        }
        let mounts = objects.server()["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["name"] == volume["name"]).expect("a volume is mounted");
        assert_eq!(mount["subPath"], Value::Null, "the kubelet would never update it");
    }
    match spec["priorityClassName"].as_str().unwrap() {
        "system-cluster-critical" => assert!(objects.find("PriorityClass").is_none()),
        class => assert!(objects.named("PriorityClass", class).is_some(), "{class}"),
    }
}

/// A rolling update never takes a replica away, and a drain can take one.
fn scaling(objects: &Objects) {
    assert_eq!(objects.the("Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    assert_eq!(objects.the("PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
}

pub(crate) fn two_servers_are_spread_over_zones_and_nodes(helm: &Helm) {
    let objects = crate::cases::render(helm, &enabled("aws"));
    assert_eq!(objects.the("Deployment")["spec"]["replicas"], 2);
    let spread = objects.pod()["spec"]["topologySpreadConstraints"].as_array().unwrap();
    let keys: Vec<&str> = spread.iter().map(|spread| spread["topologyKey"].as_str().unwrap()).collect();
    assert_eq!(keys, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]);
}

pub(crate) fn servers_reach_the_api_server_only_if_they_need_it(helm: &Helm) {
    let egress = |values: &Value| {
        let objects = crate::cases::render(helm, &with(enabled("aws"), values));
        objects.the("NetworkPolicy")["spec"]["egress"].clone()
    };
    let ports = |rule: &Value| {
        rule["ports"].as_array().unwrap().iter().map(|p| p["port"].as_u64().unwrap()).collect()
    };
    let (unwatched, own) = (json!({"nodes": {"watch": false}}), json!({"certManager": {"enabled": true}}));
    let silent = json!({"events": {"enabled": false}});
    let one_use =
        [with(own.clone(), &silent), with(own.clone(), &unwatched), with(unwatched.clone(), &silent)];
    for needs in one_use.iter().chain([&json!({})]) {
        let rules: Vec<Vec<u64>> = egress(needs).as_array().unwrap().iter().map(ports).collect();
        assert_eq!(rules, [vec![53, 53], vec![443, 6443]], "{needs}");
    }
    assert_eq!(egress(&with(with(own, &unwatched), &silent)), json!([]));
}

pub(crate) fn the_ports_are_open_to_the_clients_that_the_operator_names(helm: &Helm) {
    let ingress = |values: &Value| {
        let objects = crate::cases::render(helm, &with(enabled("aws"), values));
        let rules = objects.the("NetworkPolicy")["spec"]["ingress"].as_array().unwrap().clone();
        rules.iter().map(|rule| (rule["ports"][0]["port"].clone(), rule["from"].clone())).collect::<Vec<_>>()
    };
    let (https, admin) = (json!("https"), json!("admin"));
    let anybody = [(https.clone(), Value::Null), (admin.clone(), Value::Null)];
    assert_eq!(ingress(&json!({})), anybody);
    let nodes = json!([{"ipBlock": {"cidr": "10.0.0.0/28"}}, {"podSelector": {}, "namespaceSelector": {}}]);
    let named = ingress(&json!({"networkPolicy": {"webhookFrom": nodes}}));
    assert_eq!(named, [(https.clone(), nodes.clone()), (admin.clone(), Value::Null)]);
    let named = ingress(&json!({"networkPolicy": {"adminFrom": nodes}}));
    assert_eq!(named, [(https, Value::Null), (admin, nodes)]);
}

pub(crate) fn every_object_is_in_the_namespace_of_the_release_but_what_the_test_may_do_elsewhere(
    helm: &Helm,
) {
    let objects = crate::cases::render(helm, &with(enabled("aws"), &json!({"test": {"namespace": "jobs"}})));
    for object in &objects.0 {
        let elsewhere = is_test(object) && object["metadata"]["name"] == "fabric-injector-test-pod";
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE);
        assert_eq!(namespace, if elsewhere { "jobs" } else { NAMESPACE }, "{}", identity(object));
    }
    let test = objects.of_kind("Pod").next().unwrap();
    assert!(strings(&test["spec"]["containers"][0]["args"]).contains(&"--namespace=jobs"));
}
