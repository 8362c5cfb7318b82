//! What the servers may do with the API.

use fabric_policy::objects::ObjectKind;
use serde_json::{Value, json};

use crate::cases::{enabled, render, with};
use crate::helm::Helm;
use crate::objects::{Objects, identity, is_test, strings};

const READS: [&str; 3] = ["get", "list", "watch"];

pub(crate) fn check(values: &Value, objects: &Objects) {
    let managed = values["certManager"]["enabled"] != true && values["tls"]["secretName"].is_null();
    let roles: Vec<&Value> = objects.of_kind("ClusterRole").chain(objects.of_kind("Role")).collect();
    let own: Vec<&&Value> = roles.iter().filter(|role| !is_test(role)).collect();
    let watches = values["nodes"]["watch"] != false;
    let events = values["events"]["enabled"] != false;
    let wanted = if managed { 2 } else { 0 } + usize::from(watches) + usize::from(events);
    assert_eq!(
        own.len(),
        wanted,
        "without a certificate to manage, nodes to watch and Events, there are no rights"
    );
    for role in own {
        for rule in role["rules"].as_array().unwrap() {
            harmless(role, rule);
        }
    }
    for role in roles.iter().filter(|role| is_test(role)) {
        for rule in role["rules"].as_array().unwrap() {
            of_test(values, role, rule);
        }
    }
    bindings(objects);
}

/// A rule names its objects, is about no pods, and lets nobody find out about Secrets.
fn harmless(owner: &Value, rule: &Value) {
    let place = identity(owner);
    let verbs = strings(&rule["verbs"]);
    let resources = strings(&rule["resources"]);
    assert!(!verbs.contains(&"*") && !resources.contains(&"*"), "{place}");
    assert!(!verbs.contains(&"delete") && !verbs.contains(&"deletecollection"), "{place}");
    assert!(!resources.iter().any(|resource| resource.starts_with("pods")), "{place}");
    let names = rule["resourceNames"].as_array().map_or(0, Vec::len);
    // Events are of pods anywhere, and whoever may only create them can take none away.
    if resources == ["events"] {
        assert!(verbs == ["create"], "{place}: {verbs:?}");
    } else if verbs.iter().any(|verb| !READS.contains(verb)) {
        assert_eq!(names, 1, "{place}: {verbs:?} of {resources:?}");
    }
    if resources.contains(&"secrets") {
        assert!(!verbs.contains(&"list") && !verbs.contains(&"watch") && names == 1, "{place}");
        assert_eq!(owner["kind"], "Role", "{place}: of one namespace");
    }
}

/// The test creates pods in its own namespace, and only reads everything else; what is secret by its name.
fn of_test(values: &Value, role: &Value, granted: &Value) {
    let place = identity(role);
    let (verbs, resources) = (strings(&granted["verbs"]), strings(&granted["resources"]));
    if resources == ["pods"] {
        let namespace = values["test"]["namespace"].as_str().unwrap_or("default");
        assert!(verbs == ["create"] && role["metadata"]["namespace"] == namespace, "{place}");
        return;
    }
    assert!(!resources.contains(&"*") && verbs.iter().all(|verb| ["get", "list"].contains(verb)), "{place}");
    if resources == ["pods/proxy"] {
        let is_of_release = role["metadata"]["namespace"] != "default";
        assert!(verbs == ["get"] && role["kind"] == "Role" && is_of_release, "{place}");
        return;
    }
    if ["secrets", "configmaps"].iter().any(|name| resources.contains(name)) {
        let names = granted["resourceNames"].as_array().map_or(0, Vec::len);
        assert!(verbs == ["get"] && names > 0 && role["kind"] == "Role", "{place}");
    }
}

/// Every binding leads to a role and an account that are there.
fn bindings(objects: &Objects) {
    for binding in objects.of_kind("ClusterRoleBinding").chain(objects.of_kind("RoleBinding")) {
        let role = binding["roleRef"]["name"].as_str().unwrap();
        assert!(objects.named(binding["roleRef"]["kind"].as_str().unwrap(), role).is_some(), "{role}");
        for subject in binding["subjects"].as_array().unwrap() {
            let account =
                objects.named("ServiceAccount", subject["name"].as_str().unwrap()).expect("an account");
            assert_eq!(account["metadata"]["namespace"], subject["namespace"]);
            assert_eq!(account["automountServiceAccountToken"], false);
        }
    }
}

pub(crate) fn a_server_may_write_three_objects_read_nodes_and_create_events_and_nothing_else(helm: &Helm) {
    let objects = render(helm, &enabled("aws"));
    let wanted = json!([
        {
            "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["fabric-injector"], "verbs": ["get", "watch", "patch"],
        },
        {
            "apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"],
            "resourceNames": ["fabric-injector"], "verbs": ["get", "patch"],
        },
    ]);
    assert_eq!(objects.named("ClusterRole", "fabric-injector").unwrap()["rules"], wanted);
    let without = render(
        helm,
        &with(enabled("aws"), &json!({"advice": {"enabled": false}, "policyReview": {"enabled": false}})),
    );
    assert_eq!(without.named("ClusterRole", "fabric-injector").unwrap()["rules"], json!([wanted[0]]));
    let mut wanted = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list", "watch"]},
    ]);
    let mut kinds: Vec<_> = ObjectKind::all().map(ObjectKind::api).collect();
    kinds.sort_by_key(|api| &api.name);
    let named = kinds.iter().map(
        |api| json!({"apiGroups": [api.group], "resources": [api.resource], "verbs": ["list", "watch"]}),
    );
    wanted.as_array_mut().unwrap().extend(named);
    assert_eq!(objects.named("ClusterRole", "fabric-injector-nodes").unwrap()["rules"], wanted);
    let objects_of =
        |values: &Value| render(helm, &with(enabled("aws"), &json!({"nodes": {"objects": values}})));
    for (at, api) in kinds.iter().enumerate() {
        let objects = objects_of(&json!({api.name.as_str(): false}));
        let mut wanted = wanted.clone();
        wanted.as_array_mut().unwrap().remove(at + 2);
        assert_eq!(objects.named("ClusterRole", "fabric-injector-nodes").unwrap()["rules"], wanted);
        assert!(objects.arguments().contains(&format!("--unwatched={}", api.name).as_str()), "{}", api.name);
    }
    let isolated = "--networks-of-other-namespaces=false";
    assert!(!objects.arguments().contains(&isolated));
    let nodes = json!({"nodes": {"networksOfOtherNamespaces": false}});
    assert!(render(helm, &with(enabled("aws"), &nodes)).arguments().contains(&isolated));
    let wanted = json!([{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}]);
    assert_eq!(objects.named("ClusterRole", "fabric-injector-events").unwrap()["rules"], wanted);
    assert_eq!(objects.of_kind("ClusterRole").filter(|role| !is_test(role)).count(), 3);
    let wanted = json!([{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["fabric-injector-tls"],
        "verbs": ["get", "create", "patch"],
    }]);
    assert_eq!(objects.named("Role", "fabric-injector").unwrap()["rules"], wanted);
}
