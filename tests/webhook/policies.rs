//! Reviews of ConfigMaps with policies and values.

use fabric_engine::admission::OnError;
use serde_json::{Value, json};

use crate::answers::warnings;
use crate::reviews::UID;
use crate::server::{Server, post};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The response to a ConfigMap with these files, of this release.
async fn reviewed(release: Option<&str>, files: &Value) -> Value {
    let is_values = files.as_object().is_some_and(|files| files.contains_key("values.yaml"));
    let name = if is_values { "fabric-injector-values" } else { "fabric-injector-policies" };
    let labels = release.map(|release| json!({"app.kubernetes.io/version": release}));
    let metadata = json!({"name": name, "labels": labels});
    response(name, &json!({"metadata": metadata, "data": files}), &Value::Null).await
}

/// The response to a review of an object, which was another one before.
async fn response(name: &str, object: &Value, old: &Value) -> Value {
    respond(&Server::on_error(OnError::Deny), name, object, old).await
}

async fn respond(server: &Server, name: &str, object: &Value, old: &Value) -> Value {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": UID, "operation": "UPDATE", "namespace": "fabric-injector", "name": name,
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "object": object, "oldObject": old}});
    let reply = server.send(post("/validate-policies", review.to_string())).await;
    // A refusal has a line for each finding.
    let answer: Value = serde_json::from_str(reply.text()).unwrap();
    assert_eq!((reply.status, &answer["response"]["uid"]), (200, &json!(UID)), "{answer}");
    answer["response"].clone()
}

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: acme}}\nspec:\n  extends: aws-efa\n  \
         description: a\n{spec}"
    )
}

/// What is wrong in a ConfigMap alone is refused at its place, and nothing else is.
#[tokio::test]
async fn what_is_wrong_in_an_object_alone_is_refused() {
    let wrong = policy("  rulez: []\n");
    let right = policy("  rules: [{name: own, env: {A: b}}]\n");
    let other_base = policy("").replace("aws-efa", "of-another-config-map");
    for (files, refused) in [
        (json!({"acme.yaml": right}), None),
        (json!({"acme.yaml": wrong}), Some("fabric-injector: acme.yaml:7:3: ")),
        (json!({"acme.yml": "a: [", "README.md": "a: ["}), Some("fabric-injector: acme.yml:1:")),
        (json!({"README.md": "a: ["}), None),
        (json!({"acme.yaml": other_base}), None),
        (json!({"values.yaml": "multinodeNetworking: {aws: {enabled: true}}"}), None),
        (
            json!({"values.yaml": "multinodeNetworking: {aws: {enabled: maybe}}"}),
            Some("fabric-injector: values.yaml:1:"),
        ),
        (json!({}), None),
        (json!(null), None),
    ] {
        let response = reviewed(Some(VERSION), &files).await;
        assert_eq!(response["allowed"], refused.is_none(), "{files}: {response}");
        if let Some(place) = refused {
            let message = response["status"]["message"].as_str().unwrap();
            assert!(message.starts_with(place), "{message}");
            assert_eq!(response["status"]["code"], 422);
        }
        // Without the label, the object is a team's own.
        assert_eq!(reviewed(None, &files).await["allowed"], response["allowed"], "{files}");
        // Another release may know more.
        let other = reviewed(Some("9.9.9"), &files).await;
        assert_eq!(other["allowed"], true);
        if refused.is_some() {
            let warned = warnings(&other);
            assert!(warned[0].contains("of release 9.9.9") && warned.len() > 1, "{warned:?}");
        }
    }
}

#[tokio::test]
async fn the_first_ten_findings_are_shown() {
    let rule = |at| format!("    - {{name: r{at}, containers: \"gpus >\", env: {{A{at}: b}}}}");
    let rules = (0..14).map(rule).collect::<Vec<_>>().join("\n");
    let response = reviewed(None, &json!({"acme.yaml": policy(&format!("  rules:\n{rules}"))})).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert_eq!(message.lines().count(), 11, "{message}");
    assert!(message.ends_with("more, which `fabric-injector policy check` shows"), "{message}");
}

/// What is stored already can be labelled and removed, and what is no policy by its name or place is not read.
#[tokio::test]
async fn what_does_not_change_and_what_is_not_read_is_not_refused() {
    let broken = json!({"acme.yaml": "a: ["});
    let is_allowed =
        async |name: &str, object: Value, old: Value| response(name, &object, &old).await["allowed"] == true;
    let name = "fabric-injector-policies";
    let data = |files: &Value| json!({"metadata": {"name": name}, "data": files});
    assert!(!is_allowed(name, data(&broken), Value::Null).await);
    assert!(!is_allowed(name, data(&broken), data(&json!({"acme.yaml": "b: ["}))).await);
    assert!(is_allowed(name, data(&broken), data(&broken)).await);
    let ending = json!({"metadata": {"deletionTimestamp": "2026-11-30T08:00:00Z"}, "data": broken});
    assert!(is_allowed(name, ending, Value::Null).await);
    for file in [".acme.yaml", "acme.txt", "acme"] {
        assert!(is_allowed(name, data(&json!({file: "a: ["})), Value::Null).await, "{file}");
    }
    // Each file where the servers read it.
    let values = "replicas: 3\n";
    assert!(is_allowed(name, data(&json!({"values.yaml": values})), Value::Null).await);
    assert!(!is_allowed("fabric-injector-values", data(&json!({"values.yaml": values})), Value::Null).await);
    let both = json!({"values.yaml": "multinodeNetworking: {}", "acme.yaml": "a: ["});
    assert!(is_allowed("fabric-injector-values", data(&both), Value::Null).await);
    assert!(!is_allowed("policies-and-values", data(&broken), Value::Null).await);
    // A base that is there is no other object.
    for spec in ["  without: [none]\n", "  parameters: {none: 1}\n"] {
        assert!(!is_allowed(name, data(&json!({"acme.yaml": policy(spec)})), Value::Null).await, "{spec}");
    }
    let binary = json!({"metadata": {}, "binaryData": {"acme.yaml": "/w=="}});
    let answer = response(name, &binary, &Value::Null).await;
    assert!(warnings(&answer)[0].contains("`acme.yaml` is no text in UTF-8"), "{answer}");
}

/// More than a ConfigMap can have is told at once, and not checked.
#[tokio::test]
async fn an_object_that_is_too_large_is_not_checked() {
    let name = "fabric-injector-policies";
    let many: Value =
        (0..50_000).map(|at| (format!("a{at}.yaml"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    let long = json!({"acme.yaml": "a: [".to_owned() + &"1,".repeat(600_000)});
    for files in [many, long] {
        let answer = response(name, &json!({"metadata": {}, "data": files}), &Value::Null).await;
        assert_eq!(answer["allowed"], true);
        assert!(warnings(&answer)[0].contains("were not checked"), "{answer}");
    }
}

/// One is checked at a time, and no other waits for it.
#[tokio::test]
async fn while_one_is_checked_others_are_not() {
    let server = Server::on_error(OnError::Deny);
    let object = json!({"metadata": {}, "data": {"acme.yaml": policy("  rulez: []\n")}});
    let one = || respond(&server, "fabric-injector-policies", &object, &Value::Null);
    let (first, second) = tokio::join!(one(), one());
    assert_eq!((&first["allowed"], &second["allowed"]), (&json!(false), &json!(true)));
    assert!(warnings(&second)[0].contains("since the server checks others"), "{second}");
    assert_eq!(one().await["allowed"], false);
}
