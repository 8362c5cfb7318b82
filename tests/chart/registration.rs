//! The webhook configuration and the guard.

use cel::{Context, Program};
use serde_json::{Value, json};

use crate::cases::{certificates, enabled, render, with};
use crate::helm::{Helm, NAMESPACE};
use crate::objects::Objects;

pub(crate) fn check(values: &Value, objects: &Objects) {
    webhook(values, objects);
    advice(values, objects);
    plain_pods_are_left_alone(objects);
    if values["guard"]["enabled"] == false {
        assert!(objects.ending("ValidatingAdmissionPolicy", "-guard").is_none());
    } else {
        guard(values, objects);
    }
    let token = objects.ending("ValidatingAdmissionPolicy", "-token");
    let manages = objects.arguments().iter().any(|argument| argument.starts_with("--manage-webhook="));
    assert_eq!(token.is_some(), manages);
    if let Some(token) = token {
        for_servers(objects, token);
    }
}

/// Pods that ask for nothing, of every kind that the parts of a `match` tell apart.
fn plain_pods() -> Vec<Value> {
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}]);
    vec![
        json!({"name": "bare"}),
        json!({"annotations": {}, "labels": {}, "ownerReferences": []}),
        json!({"annotations": {"example.com/a": "true"}, "labels": {"app": "web"}, "ownerReferences": owner}),
    ]
}

/// The first condition of the webhook and of the guard is that a pod has a trigger, and a plain pod does not meet it.
pub(crate) fn plain_pods_are_left_alone(objects: &Objects) {
    let webhooks = &objects.the("MutatingWebhookConfiguration")["webhooks"];
    let guard = objects.ending("ValidatingAdmissionPolicy", "-guard").map(|guard| &guard["spec"]);
    for parent in webhooks.as_array().unwrap().iter().chain(guard) {
        let first = &parent["matchConditions"][0];
        assert_eq!(first["name"], "has-trigger", "{parent}");
        let program = Program::compile(first["expression"].as_str().unwrap()).unwrap();
        for metadata in plain_pods() {
            let mut context = Context::default();
            context.add_variable("object", json!({"metadata": metadata})).unwrap();
            let met = program.execute(&context);
            assert_eq!(met.unwrap(), cel::Value::Bool(false), "{metadata} meets {first}");
        }
    }
}

/// The policy is about the account of the servers, and denies.
fn for_servers(objects: &Objects, token: &Value) {
    let account = objects.pod()["spec"]["serviceAccountName"].as_str().unwrap();
    let expression = &token["spec"]["matchConditions"][0]["expression"];
    assert_eq!(
        *expression,
        format!("request.userInfo.username == \"system:serviceaccount:{NAMESPACE}:{account}\"")
    );
    let binding = objects.ending("ValidatingAdmissionPolicyBinding", "-token").unwrap();
    assert_eq!(
        binding["spec"],
        json!({"policyName": token["metadata"]["name"], "validationActions": ["Deny"]})
    );
    let webhook = objects.the("MutatingWebhookConfiguration")["metadata"]["name"].as_str().unwrap();
    let own = token["spec"]["validations"][0]["expression"].as_str().unwrap();
    assert!(own.ends_with(&format!("request.name == \"{webhook}\"")), "{own}");
}

fn webhook(values: &Value, objects: &Objects) {
    let configuration = objects.the("MutatingWebhookConfiguration");
    let [webhook] = configuration["webhooks"].as_array().unwrap().as_slice() else {
        panic!("there is one webhook");
    };
    assert_eq!(webhook["name"], "pods.fabric-injector.io");
    assert_eq!(webhook["rules"], pods());
    let policy = values["webhook"]["failurePolicy"].as_str().unwrap_or("Fail");
    assert_eq!(webhook["failurePolicy"], policy);
    assert_eq!(webhook["timeoutSeconds"], 5);
    let events = values["events"]["enabled"] != false;
    assert_eq!(webhook["sideEffects"], if events { "NoneOnDryRun" } else { "None" });
    assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
    assert_eq!(webhook["matchPolicy"], "Equivalent");
    assert_eq!(webhook["admissionReviewVersions"], json!(["v1"]));
    let service = json!({
        "name": objects.the("Service")["metadata"]["name"], "namespace": NAMESPACE, "path": "/mutate", "port": 443,
    });
    assert_eq!(webhook["clientConfig"]["service"], service);
    let known = values["tls"]["secretName"].is_string();
    assert_eq!(webhook["clientConfig"]["caBundle"].is_string(), known, "else it is written in the cluster");
    let injected = &configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
    assert_eq!(injected.is_string(), values["certManager"]["enabled"] == true);
    namespaces(values, &webhook["namespaceSelector"], &[NAMESPACE]);
}

/// The advice has the servers, the annotations and the namespaces of the webhook, and nothing depends on it. Next to it,
/// the ConfigMaps with policies are reviewed.
fn advice(values: &Value, objects: &Objects) {
    let is_on = ["advice", "policyReview"].map(|key| values[key]["enabled"] != false);
    let enabled = is_on.contains(&true);
    let advice = objects.find("ValidatingWebhookConfiguration");
    assert_eq!(advice.is_some(), enabled);
    let managed = objects.arguments().iter().any(|argument| argument.starts_with("--manage-webhook="));
    let pods = objects.the("MutatingWebhookConfiguration");
    let argument = format!("--manage-advice={}", pods["metadata"]["name"].as_str().unwrap());
    assert_eq!(objects.arguments().contains(&argument.as_str()), enabled && managed);
    let Some(configuration) = advice else { return };
    assert_eq!(configuration["metadata"]["name"], pods["metadata"]["name"]);
    assert_eq!(configuration["metadata"]["annotations"], pods["metadata"]["annotations"]);
    let webhooks = configuration["webhooks"].as_array().unwrap();
    assert_eq!(webhooks.len(), is_on.iter().filter(|is_on| **is_on).count());
    if is_on[1] {
        review_of_policies(values, objects, webhooks.last().unwrap());
    }
    let Some(webhook) = webhooks.first().filter(|_| is_on[0]) else { return };
    let mut client = pods["webhooks"][0]["clientConfig"].clone();
    client["service"]["path"] = json!("/validate-workloads");
    assert_eq!(webhook["clientConfig"], client);
    assert_eq!(webhook["namespaceSelector"], pods["webhooks"][0]["namespaceSelector"]);
    assert_eq!(webhook["failurePolicy"], "Ignore");
    assert_eq!(webhook["timeoutSeconds"], 1);
    assert_eq!(webhook["sideEffects"], "None");
    for rule in webhook["rules"].as_array().unwrap() {
        assert_eq!(rule["operations"], json!(["CREATE", "UPDATE"]));
        let resources = rule["resources"].as_array().unwrap();
        // Controllers make these.
        assert!(!resources.contains(&json!("pods")) && !resources.contains(&json!("replicasets")), "{rule}");
    }
}

/// It gets the ConfigMaps that the servers mount, in the namespace of the release.
fn review_of_policies(values: &Value, objects: &Objects, webhook: &Value) {
    let mut client = objects.the("MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"].clone();
    client["service"]["path"] = json!("/validate-policies");
    assert_eq!(webhook["clientConfig"], client);
    assert_eq!(
        webhook["namespaceSelector"],
        json!({"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}})
    );
    let fields = ["name", "failurePolicy", "timeoutSeconds", "sideEffects"].map(|key| &webhook[key]);
    assert_eq!(fields, [&json!("policies.fabric-injector.io"), &json!("Ignore"), &json!(5), &json!("None")]);
    let expression = webhook["matchConditions"][0]["expression"].as_str().unwrap();
    let volumes = &objects.the("Deployment")["spec"]["template"]["spec"]["volumes"];
    let mounted = volumes.as_array().unwrap().iter().flat_map(|volume| {
        let sources = volume["projected"]["sources"].as_array().cloned().unwrap_or_default();
        sources
            .into_iter()
            .chain([volume.clone()])
            .filter_map(|one| one["configMap"]["name"].as_str().map(str::to_owned))
    });
    let mounted: Vec<String> = mounted.collect();
    assert!(!mounted.is_empty(), "{volumes}");
    for name in mounted {
        assert!(expression.contains(&format!("\"{name}\"")), "{expression}: {name} {values}");
    }
}

/// Only the creation of pods.
fn pods() -> Value {
    json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
        "scope": "Namespaced",
    }])
}

/// Those of the cluster and of the operator are left out. By the webhook the servers' own is, too: they have to start
/// when none is there. By the guard it is not: whoever starts a job there has to be told.
fn namespaces(values: &Value, selector: &Value, own: &[&str]) {
    let expressions = selector["matchExpressions"].as_array().unwrap();
    let mut excluded = vec!["kube-system", "kube-public", "kube-node-lease"];
    excluded.extend(
        values["webhook"]["excludedNamespaces"].as_array().into_iter().flatten().filter_map(Value::as_str),
    );
    excluded.extend(own);
    let wanted = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded});
    assert_eq!(expressions[0], wanted);
    let further = values["webhook"]["namespaceSelectorExpressions"].as_array().cloned().unwrap_or_default();
    assert_eq!(expressions[1..], further);
}

fn guard(values: &Value, objects: &Objects) {
    let policy = objects.ending("ValidatingAdmissionPolicy", "-guard").unwrap();
    let binding = objects.ending("ValidatingAdmissionPolicyBinding", "-guard").unwrap();
    let action = values["guard"]["action"].as_str().unwrap_or("Warn");
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    assert_eq!(binding["spec"]["validationActions"], json!([action, "Audit"]));
    let spec = &policy["spec"];
    assert_eq!(spec["failurePolicy"], if action == "Deny" { "Fail" } else { "Ignore" });
    assert_eq!(spec["matchConstraints"]["resourceRules"], pods());
    assert_eq!(spec["matchConstraints"]["matchPolicy"], "Equivalent");
    namespaces(values, &spec["matchConstraints"]["namespaceSelector"], &[]);
    let [validation] = spec["validations"].as_array().unwrap().as_slice() else {
        panic!("there is one validation");
    };
    let (stamp, skipped) = (fabric_engine::STAMP, fabric_engine::SKIPPED);
    let wanted = format!(
        "has(object.metadata.annotations) && (\"{stamp}\" in object.metadata.annotations || \"{skipped}\" in \
         object.metadata.annotations)"
    );
    assert_eq!(validation["expression"], wanted);
    let message = validation["message"].as_str().unwrap();
    assert!(!message.contains('\n') && !message.ends_with('.'), "{message}");
    assert!(message.contains("did not inject it: NCCL would fall back to TCP; check whether"), "{message}");
}

pub(crate) fn who_writes_the_bundle_is_whoever_makes_the_certificate(helm: &Helm) {
    let [managed, own_ca, issuer, secret] =
        certificates().map(|values| render(helm, &with(enabled("aws"), &values)));
    let webhook = |objects: &Objects| objects.the("MutatingWebhookConfiguration").clone();
    for objects in [&managed, &secret] {
        let annotations = &webhook(objects)["metadata"]["annotations"];
        assert_eq!(annotations["cert-manager.io/inject-ca-from"], Value::Null);
    }
    for objects in [&own_ca, &issuer] {
        let annotations = &webhook(objects)["metadata"]["annotations"];
        assert_eq!(annotations["cert-manager.io/inject-ca-from"], "fabric-injector/fabric-injector");
    }
    assert_eq!(own_ca.of_kind("Certificate").count(), 2);
    let serving = issuer.the("Certificate");
    let company = json!({"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "company"});
    assert_eq!(serving["spec"]["issuerRef"], company);
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tClRVbEoKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    assert_eq!(webhook(&secret)["webhooks"][0]["clientConfig"]["caBundle"], pem);
}
