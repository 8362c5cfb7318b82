//! Combinations of values with which the chart is rendered.

use std::collections::BTreeMap;

use fabric_injector::builtin;
use fabric_policy::Definition;
use serde_json::{Value, json};

use crate::helm::Helm;
use crate::objects::{Objects, read_objects};

/// The built-in policies by their provider.
pub(crate) fn providers() -> BTreeMap<String, Vec<Definition>> {
    let mut providers = BTreeMap::<_, Vec<_>>::new();
    for policy in builtin::POLICIES {
        let definition = policy.definition().unwrap();
        providers.entry(definition.provider.clone()).or_default().push(definition);
    }
    providers
}

/// A policy with all that a `match` may have, for pods of one provider.
pub(crate) fn lab_policy(provider: &str) -> String {
    format!(
        r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: lab-roce
spec:
  provider: {provider}
  description: Two RoCE NICs for each GPU
  gpus: {{resources: [nvidia.com/gpu, lab.example/gpu]}}
  match:
    anyAnnotation:
      lab.example/fabric: "<on> & \"off\""
    exceptAnnotation:
      lab.example/plain: "true"
      lab.example/later: "true"
      lab.example/ever: "*"
    labels: {{team: research, lab.example/tier: gold}}
    namespaces: [research, staging]
    ownerKinds: [Job, RayCluster, Job.batch.volcano.sh]
    when: totalGpus > 1
  rules:
    - name: nics
      container:
        resources:
          limits:
            nvidia.com/roce: ${{devices(gpus, 2)}}
"#
    )
}

pub(crate) fn enabled(provider: &str) -> Value {
    json!({"multinodeNetworking": {provider: {"enabled": true}}})
}

/// These values and those; where both have a key, those win.
pub(crate) fn with(mut values: Value, others: &Value) -> Value {
    merge(&mut values, others);
    values
}

fn merge(values: &mut Value, others: &Value) {
    match (values, others) {
        (Value::Object(values), Value::Object(others)) => {
            for (key, other) in others {
                merge(values.entry(key.clone()).or_insert(Value::Null), other);
            }
        }
        (value, other) => *value = other.clone(),
    }
}

/// What the chart takes for a CA.
pub(crate) const CA: &str = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n";

pub(crate) fn certificates() -> [Value; 4] {
    [
        json!({}),
        json!({"certManager": {"enabled": true}}),
        json!({"certManager": {"enabled": true, "issuerRef": {"name": "company", "kind": "ClusterIssuer"}}}),
        json!({"tls": {"secretName": "own", "caBundle": CA}}),
    ]
}

fn guards() -> [Value; 3] {
    [
        json!({"guard": {"enabled": false}}),
        json!({"guard": {"action": "Warn"}}),
        json!({"guard": {"action": "Deny"}, "webhook": {"failurePolicy": "Ignore"}}),
    ]
}

fn rest(provider: &str) -> [Value; 3] {
    [
        json!({}),
        // Everything that is off by default.
        json!({
            "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": true},
            "dashboard": {"enabled": true},
            "image": {"tag": "1.2.3", "digest": format!("sha256:{}", "0".repeat(64))},
            "imagePullSecrets": [{"name": "registry"}],
            "server": {"log": "debug", "clientCaBundle": CA, "extraArgs": ["--max-in-flight=64"],
                "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "fabric"}]},
            "podLabels": {"team": "platform"}, "podAnnotations": {"a": "b"},
            "tolerations": [{"operator": "Exists"}],
            "networkPolicy": {"webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/28"}}], "adminFrom": [{"podSelector": {}}], "apiServerTo": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]},
            "webhook": {"excludedNamespaces": ["monitoring"],
                "namespaceSelectorExpressions": [{"key": "team", "operator": "Exists"}]},
            "commonLabels": {"cost": "gpu"},
        }),
        // Everything that can be switched off, other names, and a policy besides the built-in one.
        json!({
            "nodes": {"watch": false}, "advice": {"enabled": false}, "events": {"enabled": false},
            "policyReview": {"enabled": false}, "networkPolicy": {"enabled": false}, "priorityClassName": "system-cluster-critical",
            "fullnameOverride": "fabric", "serviceAccount": {"name": "servers"},
            "extraPolicies": {"lab.yaml": lab_policy(provider)}, "replicas": 1, "nodeSelector": null,
        }),
    ]
}

/// Combinations for this provider with what they render: for AWS every one, for the others each certificate with each
/// guard, and the rest in turn. What the rest does has nothing to do with the provider.
pub(crate) fn every_case(helm: &Helm, provider: &str, check: impl Fn(&Value, &Objects)) {
    for (turn, certificate) in certificates().iter().enumerate() {
        for (offset, guard) in guards().iter().enumerate() {
            for (place, rest) in rest(provider).iter().enumerate() {
                if provider == "aws" || (turn + offset) % 3 == place {
                    let values = with(with(with(enabled(provider), certificate), guard), rest);
                    check(&values, &render(helm, &values));
                }
            }
        }
    }
}

/// The objects that come out for these values.
pub(crate) fn render(helm: &Helm, values: &Value) -> Objects {
    read_objects(&helm.template(values).unwrap_or_else(|error| panic!("{values:#}\n{error}")))
}
