//! What somebody with the token of a server can change.

use hyper::Method;
use serde_json::{Value, json};

use super::values;
use crate::api::{Api, Reply};
use crate::cluster::Cluster;
use crate::eventually;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const WEBHOOK: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";
const ADVICE: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fabric-injector";
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A patch of the webhook configuration: its content type and body.
type Patch = (&'static str, Value);

/// Patches of fields that the servers do not write; `now` is the configuration.
fn attacks(now: &Value) -> Vec<Patch> {
    let entry = |field: &str, value: Value| {
        (JSON, json!([{"op": "add", "path": format!("/webhooks/0/{field}"), "value": value}]))
    };
    let metadata = |field: &str, value: Value| {
        (JSON, json!([{"op": "add", "path": format!("/metadata/{field}"), "value": value}]))
    };
    let everything = json!([{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*",
    }]);
    let owner = json!([{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "u"}]);
    let mut second = now["webhooks"][0].clone();
    second["name"] = json!("second.example.com");
    let mut foreign = now.clone();
    foreign["metadata"] = json!({"name": "fabric-injector"});
    foreign["webhooks"][0]["rules"] = everything.clone();
    let applied = |webhook: Value| {
        let mut body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "fabric-injector"},
        });
        body["webhooks"] = webhook;
        (APPLY, body)
    };
    vec![
        entry("rules", everything),
        entry("rules/0/operations/0", json!("UPDATE")),
        entry("clientConfig", json!({"url": "https://198.51.100.1/mutate"})),
        entry("clientConfig/service/name", json!("another")),
        entry("clientConfig/service/path", json!("/another")),
        entry("clientConfig/service/port", json!(8443)),
        entry("failurePolicy", json!("Ignore")),
        entry("namespaceSelector", json!({})),
        entry("objectSelector", json!({"matchLabels": {"a": "b"}})),
        entry("matchConditions", json!([])),
        entry("matchConditions/0/expression", json!("true")),
        entry("matchPolicy", json!("Exact")),
        entry("timeoutSeconds", json!(30)),
        entry("sideEffects", json!("None")),
        entry("reinvocationPolicy", json!("Never")),
        entry("admissionReviewVersions", json!(["v1", "v1beta1"])),
        entry("name", json!("renamed.example.com")),
        (JSON, json!([{"op": "replace", "path": "/webhooks", "value": []}])),
        (JSON, json!([{"op": "remove", "path": "/webhooks/0/matchConditions"}])),
        (JSON, json!([{"op": "add", "path": "/webhooks/-", "value": second}])),
        (JSON, json!([{"op": "add", "path": "/webhooks/0", "value": second}])),
        metadata("labels/added", json!("x")),
        metadata("annotations/added", json!("x")),
        metadata("finalizers", json!(["example.com/kept"])),
        metadata("ownerReferences", owner),
        (JSON, json!([{"op": "remove", "path": "/metadata/labels"}])),
        (MERGE, json!({"webhooks": null})),
        (MERGE, json!({"webhooks": foreign["webhooks"]})),
        (MERGE, json!({"metadata": {"annotations": null}})),
        applied(foreign["webhooks"].clone()),
        applied(json!([second])),
        (
            APPLY,
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "fabric-injector", "annotations": {"added": "x"}},
            }),
        ),
    ]
}

/// Patches of `caBundle` alone.
fn of_the_bundle(now: &Value) -> Vec<Patch> {
    let (bundle, path) = ("UEVN", "/webhooks/0/clientConfig/caBundle");
    let mut webhooks = now["webhooks"].clone();
    webhooks[0]["clientConfig"]["caBundle"] = json!(bundle);
    vec![
        (JSON, json!([{"op": "add", "path": path, "value": bundle}])),
        (JSON, json!([{"op": "remove", "path": path}])),
        (MERGE, json!({"webhooks": webhooks})),
        (
            APPLY,
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "fabric-injector"},
                "webhooks": [{"name": webhooks[0]["name"], "clientConfig": {"caBundle": bundle}}],
            }),
        ),
    ]
}

/// Patches an object as a dry run, as somebody who takes fields over from others.
async fn patch(api: &Api, path: &str, (content_type, body): &Patch) -> Reply {
    let force = if *content_type == APPLY { "&force=true&fieldManager=token" } else { "" };
    let path = format!("{path}?dryRun=All{force}");
    api.try_send(Method::PATCH, &path, content_type, Some(body)).await.unwrap()
}

pub(super) async fn the_token_of_a_server_changes_the_bundle_and_nothing_else(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let server = cluster.service_account_client("fabric-injector", "fabric-injector").await;
    let now = cluster.api.get(WEBHOOK).await.ok();
    let attacks = attacks(&now);
    for attack in &attacks {
        let reply = patch(&server, WEBHOOK, attack).await;
        assert_eq!(reply.status, 403, "{attack:?} {reply:?}");
        assert!(reply.message().contains("fabric-injector-token"), "{attack:?} {reply:?}");
    }
    for change in of_the_bundle(&now) {
        let reply = patch(&server, WEBHOOK, &change).await;
        assert_eq!(reply.status, 200, "{change:?} {reply:?}");
    }
    the_advice_is_as_well_protected(cluster, &server).await;
    the_role_forbids_the_rest(&server).await;
    // It is for the servers only.
    assert_eq!(patch(&cluster.api, WEBHOOK, &attacks[0]).await.status, 200);
    no_expression_is_mistyped(cluster).await;

    // Without the policy, each of these patches is accepted: it is not refused for another reason.
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/fabric-injector-token");
    cluster.api.delete(&binding).await.ok();
    cluster.forget().await;
    eventually("the policy is no longer in force", async || {
        patch(&server, WEBHOOK, &attacks[0]).await.status == 200
    })
    .await;
    let accepted = attacks.len();
    for attack in &attacks {
        let reply = patch(&server, WEBHOOK, attack).await;
        assert_eq!(reply.status, 200, "{attack:?} {reply:?}");
    }
    eprintln!("{accepted} patches accepted without the policy and denied with it");
    cluster.ensure(&values()).await;
    eventually("the policy is in force again", async || {
        patch(&server, WEBHOOK, &attacks[0]).await.status == 403
    })
    .await;
}

/// A validating webhook can reject what it gets, so that nobody may send it more.
async fn the_advice_is_as_well_protected(cluster: &Cluster, server: &Api) {
    let mut second = cluster.api.get(ADVICE).await.ok()["webhooks"][0].clone();
    second["name"] = json!("second.example.com");
    let replace = |field: &str, value: Value| {
        (JSON, json!([{"op": "add", "path": format!("/webhooks/0/{field}"), "value": value}]))
    };
    for attack in [
        replace("failurePolicy", json!("Fail")),
        replace("timeoutSeconds", json!(30)),
        replace("clientConfig", json!({"url": "https://198.51.100.1/validate-workloads"})),
        replace("rules/0/resources", json!(["*"])),
        replace("matchConditions", json!([])),
        replace("namespaceSelector", json!({})),
        (JSON, json!([{"op": "add", "path": "/webhooks/-", "value": second}])),
        (MERGE, json!({"metadata": {"annotations": null}})),
    ] {
        let reply = patch(server, ADVICE, &attack).await;
        assert_eq!(reply.status, 403, "{attack:?} {reply:?}");
        assert!(reply.message().contains("fabric-injector-token"), "{attack:?} {reply:?}");
        // The patch is valid.
        assert_eq!(patch(&cluster.api, ADVICE, &attack).await.status, 200, "{attack:?}");
    }
    let bundle = replace("clientConfig/caBundle", json!("UEVN"));
    assert_eq!(patch(server, ADVICE, &bundle).await.status, 200);
    assert_eq!(server.delete(ADVICE).await.status, 403);
}

async fn the_role_forbids_the_rest(server: &Api) {
    let label = (MERGE, json!({"metadata": {"labels": {"added": "x"}}}));
    for object in [
        "mutatingwebhookconfigurations/another",
        "validatingwebhookconfigurations/another",
        "validatingadmissionpolicies/fabric-injector-token",
        "validatingadmissionpolicies/fabric-injector-guard",
        "validatingadmissionpolicybindings/fabric-injector-token",
    ] {
        let reply = patch(server, &format!("{GROUP}/{object}"), &label).await;
        assert_eq!(reply.status, 403, "{object} {reply:?}");
    }
    assert_eq!(server.delete(WEBHOOK).await.status, 403);
    let another = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "another"},
    });
    assert_eq!(server.create(&another).await.status, 403);
}

/// The controllers check the types of the expressions.
async fn no_expression_is_mistyped(cluster: &Cluster) {
    for name in ["fabric-injector-token", "fabric-injector-guard"] {
        let path = format!("{GROUP}/validatingadmissionpolicies/{name}");
        let mut status = Value::Null;
        eventually("the types of its expressions are checked", async || {
            status = cluster.api.get(&path).await.ok()["status"].clone();
            status["typeChecking"].is_object()
        })
        .await;
        assert_eq!(status["typeChecking"], json!({}), "{name}");
    }
}
