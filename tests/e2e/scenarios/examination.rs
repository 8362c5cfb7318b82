//! What `check` says about the installation, and about each fault that is made in it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fabric_injector::authority::Authority;
use serde_json::{Value, json};

use super::outages::{WEBHOOK, scale};
use super::values;
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::eventually;
use crate::processes::outcome;

pub(super) const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// The lines of a check: each with its status and its text. Whether it passed is seen in its exit status, too.
pub(super) async fn check(cluster: &Cluster, arguments: &[&str]) -> Vec<(String, String, String)> {
    let mut command = cluster.program(&[&["check", "-o", "json"], arguments].concat());
    lines(outcome(&mut command).await)
}

fn lines((passed, said): (bool, String)) -> Vec<(String, String, String)> {
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let lines: Vec<_> = report["checks"].as_array().unwrap().iter().collect();
    assert_eq!(passed, lines.iter().all(|line| line["status"] != "fail"), "{said}");
    let line = |line: &Value| {
        (text(line, "check"), text(line, "status"), text(line, "seen") + "\n" + &text(line, "remedy"))
    };
    lines.into_iter().map(line).collect()
}

/// Waits until every check passes, but for that of the nodes: those of other clouds fit no policy of this installation.
async fn passes(cluster: &Cluster) {
    eventually("every check passes", async || {
        check(cluster, &[]).await.iter().all(|(name, status, _)| name == "nodes" || status == "ok")
    })
    .await;
}

/// Waits until these lines are reported, and no others: API servers and caches hear of a change a moment later.
pub(super) async fn reports(cluster: &Cluster, arguments: &[&str], wanted: &[(&str, &str, &str)]) {
    let mut last = Vec::new();
    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let all = check(cluster, arguments).await;
        last.clone_from(&all);
        let mut found = all.iter().filter(|(name, status, _)| name != "nodes" && status != "ok");
        let is_wanted = |line: &(String, String, String)| {
            wanted
                .iter()
                .any(|(check, status, text)| line.0 == *check && line.1 == *status && line.2.contains(text))
        };
        let has = |name: &str| all.iter().any(|(check, status, _)| check == name && status != "ok");
        if found.all(is_wanted) && wanted.iter().all(|(name, ..)| has(name)) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "not {wanted:?}, but {last:#?}");
    }
}

pub(super) async fn a_healthy_installation_passes_and_each_fault_is_named(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    passes(cluster).await;
    let (passed, said) = outcome(&mut cluster.program(&["check", "--context", "test"])).await;
    assert!(passed && said.starts_with("ok    kubernetes      the API server is v1."), "{said}");
    let output = cluster.program(&["check", "--context", "none"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    // The nodes of other clouds are a warning.
    for (fail_on, status) in [("warning=version", 0), ("warning", 1), ("warning=nodes", 1)] {
        let output = cluster.program(&["check", "--fail-on", fail_on]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(status), "{fail_on}: {output:?}");
    }

    namespaces(cluster).await;
    registration(cluster).await;
    nodes(cluster).await;
    admission_policy(
        cluster,
        "guard",
        "fail",
        "there is no ValidatingAdmissionPolicy `fabric-injector-guard`",
    )
    .await;
    admission_policy(
        cluster,
        "token",
        "fail",
        "there is no ValidatingAdmissionPolicy `fabric-injector-token`",
    )
    .await;
    unscheduled(cluster).await;
    servers(cluster).await;
    rights(cluster).await;
}

/// A namespace whose level refuses what the policy adds.
async fn namespaces(cluster: &Cluster) {
    let namespace = cluster.namespace("refusing").await;
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    cluster.api.merge(&format!("/api/v1/namespaces/{namespace}"), &label).await.ok();
    let refused = "`baseline` refuses what `aws-efa` adds: the capability `IPC_LOCK`";
    let warned = ("pod-security", "warn", refused);
    reports(cluster, &[], &[warned]).await;
    let rejected = ("pod", "fail", "violates PodSecurity");
    reports(cluster, &["--namespace", &namespace], &[warned, rejected]).await;
    cluster.remove(&namespace).await;
    reports(cluster, &["--namespace", "nowhere"], &[("pod", "warn", "namespaces \"nowhere\" not found")])
        .await;
    let excluded = ("pod", "fail", "excludes the namespace `kube-system`");
    reports(cluster, &["--namespace", "kube-system"], &[excluded]).await;
}

/// Conditions that someone has changed, and another webhook for the same pods.
async fn registration(cluster: &Cluster) {
    let path = "/webhooks/0/matchConditions/1/expression";
    let before = cluster.api.get(WEBHOOK).await.ok().pointer(path).unwrap().clone();
    let change = |value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    cluster.api.patch(WEBHOOK, &change(json!("false"))).await.ok();
    let wanted = [
        (
            "conditions",
            "fail",
            "the condition `policy-matches-pod` of `fabric-injector` is not that of the policies",
        ),
        ("servers", "warn", "`policy-matches-pod` of the webhook configuration"),
        ("pod", "fail", "correct what `conditions` reports"),
    ];
    reports(cluster, &[], &wanted).await;
    cluster.api.patch(WEBHOOK, &change(before)).await.ok();
    let other = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "sidecars"},
        "webhooks": [{
            "name": "sidecars.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore", "clientConfig": {"url": "https://sidecars.example.com"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "matchConditions": [{"name": "never", "expression": "false"}],
        }],
    });
    cluster.api.create(&other).await.ok();
    reports(cluster, &[], &[("other-webhooks", "warn", "`sidecars/sidecars.example.com`")]).await;
    cluster.api.delete(&format!("{ADMISSION}/mutatingwebhookconfigurations/sidecars")).await.ok();
    passes(cluster).await;
    // A selector of somebody else is named, and restored as the remedy says.
    let mut before = cluster.api.get(WEBHOOK).await.ok();
    let selector =
        |value: Value| json!([{"op": "replace", "path": "/webhooks/0/objectSelector", "value": value}]);
    cluster.api.patch(WEBHOOK, &selector(json!({"matchLabels": {"a": "b"}}))).await.ok();
    let edited = ("webhook", "fail", "its `objectSelector` is `");
    reports(cluster, &[], &[edited, ("pod", "fail", "")]).await;
    for key in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
        before["metadata"].as_object_mut().unwrap().remove(key);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), before.to_string()).unwrap();
    let file = file.path().to_str().unwrap();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", file];
    let (succeeded, said) = outcome(&mut cluster.kubectl(&apply)).await;
    assert!(succeeded, "{said}");
    passes(cluster).await;
}

/// The line about the nodes has what `nodes` finds wrong.
async fn nodes(cluster: &Cluster) {
    let lines = check(cluster, &[]).await;
    let (_, status, text) = lines.iter().find(|(name, ..)| name == "nodes").unwrap();
    let (_, said) = outcome(&mut cluster.program(&["nodes", "--policy", "aws-efa", "-o", "json"])).await;
    let found: Value = serde_json::from_str(&said).unwrap();
    let problems = found["pools"].as_array().unwrap().iter();
    let problems: usize = problems.map(|pool| pool["problems"].as_array().unwrap().len()).sum();
    assert!(problems > 1 && status == "warn", "{said}");
    assert!(text.starts_with(&format!("{} nodes; ", found["nodes"])), "{text}");
    assert!(
        text.contains(" with GPUs get aws-efa; ") && text.contains(&format!("; {problems} problems\n")),
        "{text}"
    );
}

/// A ValidatingAdmissionPolicy that someone has deleted, and not its binding.
async fn admission_policy(cluster: &Cluster, suffix: &str, status: &str, text: &str) {
    let path = format!("{ADMISSION}/validatingadmissionpolicies/fabric-injector-{suffix}");
    let mut policy = cluster.api.get(&path).await.ok();
    cluster.api.delete(&path).await.ok();
    reports(cluster, &[], &[(suffix, status, text)]).await;
    policy["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|key, _| ["name", "labels", "annotations"].contains(&key.as_str()));
    cluster.api.post(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy).await.ok();
    passes(cluster).await;
}

/// An upgrade whose new server finds no node: the scheduler says why.
async fn unscheduled(cluster: &Cluster) {
    let select = |value: Value| json!({"spec": {"template": {"spec": {"nodeSelector": {"no-node": value}}}}});
    cluster.api.merge(DEPLOYMENT, &select(json!("has-it"))).await.ok();
    let waits = ("release", "warn", "nodes are available: ");
    reports(cluster, &[], &[waits]).await;
    cluster.api.merge(DEPLOYMENT, &select(Value::Null)).await.ok();
    passes(cluster).await;
}

/// No server, and then a CA that is not that of the certificate, which no server corrects.
async fn servers(cluster: &Cluster) {
    scale(cluster, 0).await;
    let stopped = [
        ("release", "fail", "is scaled to 0"),
        ("endpoints", "fail", "the Service `fabric-injector/fabric-injector` has no ready replica"),
        ("policies", "warn", "no server runs: see the line `release`"),
        ("servers", "warn", "no server runs: see the line `release`"),
        ("pod", "fail", "failed calling webhook"),
    ];
    reports(cluster, &[], &stopped).await;
    let other = Authority::new(std::time::SystemTime::now()).unwrap();
    let bundle = json!([{
        "op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": BASE64_STANDARD.encode(&other.cert),
    }]);
    cluster.api.patch(WEBHOOK, &bundle).await.ok();
    let certificate =
        ("certificate", "fail", "do not accept the certificate of the Secret `fabric-injector-tls`");
    reports(cluster, &[], &[&stopped[..], &[certificate]].concat()).await;
    let advice = format!("{ADMISSION}/validatingwebhookconfigurations/fabric-injector");
    cluster.api.patch(&advice, &bundle).await.ok();
    let different = ("advice", "warn", "webhooks of the configuration have different ones");
    reports(cluster, &[], &[&stopped[..], &[certificate, different]].concat()).await;
    let mut both = bundle.clone();
    both[0]["path"] = json!("/webhooks/1/clientConfig/caBundle");
    cluster.api.patch(&advice, &both).await.ok();
    let untrusted = (
        "advice",
        "warn",
        "for `workloads.fabric-injector.io` and `policies.fabric-injector.io`: invalid peer certificate",
    );
    reports(cluster, &[], &[&stopped[..], &[certificate, untrusted]].concat()).await;
    scale(cluster, 2).await;
    passes(cluster).await;
}

/// Without rights, each line names the one that is missing.
async fn rights(cluster: &Cluster) {
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let text = cluster.service_account_kubeconfig("default", "default").await;
    std::fs::write(kubeconfig.path(), text).unwrap();
    let mut command = cluster.program(&["check", "-o", "json"]);
    let lines = lines(outcome(command.env("KUBECONFIG", kubeconfig.path())).await);
    for (name, right) in [
        ("webhook", "cannot list resource \"mutatingwebhookconfigurations\""),
        ("release", "cannot list resource \"deployments\""),
        ("endpoints", "the Service is not known: see the line `webhook`"),
        ("guard", "the installation is not known: see the line `webhook`"),
        ("workloads", "the Deployment is not known: see the line `release`"),
        ("pod", "cannot create resource \"pods\""),
    ] {
        let (_, status, text) = lines.iter().find(|(check, ..)| check == name).unwrap();
        assert!(status == "warn" && text.contains(right), "{name}: {text}");
    }
    let failed: Vec<_> = lines.iter().filter(|(_, status, _)| status == "fail").collect();
    assert!(matches!(failed[..], [(name, ..)] if name == "rights"), "{lines:#?}");
    let empty = |text: &str| {
        let text = text.replace("in API group \"\"", "");
        ["``", "`/", "/`", "\"\"", "\"-", "\":", "//"].iter().any(|empty| text.contains(empty))
    };
    assert!(!lines.iter().any(|(.., text)| empty(text)), "{lines:#?}");
}
