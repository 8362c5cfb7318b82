//! The API server's defaulting of a Pod, from Kubernetes' `pkg/apis/core/v1/defaults.go` and
//! `zz_generated.defaults.go` of release 1.36.
//!
//! The API server also drops `null`, empty lists and empty maps that its types leave out when they are written.

use serde_json::{Map, Value, json};

use super::amounts::aggregate;

/// Flags that the API server does not write unless they are set.
pub(crate) const ZERO_IS_NOTHING: [&str; 7] =
    ["stdin", "stdinOnce", "tty", "hostNetwork", "hostPID", "hostIPC", "readOnly"];

/// Completes a pod as the API server does before it calls webhooks, and between two calls.
pub(crate) fn complete(pod: &mut Value) {
    drop_nothing(pod);
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for list in ["containers", "initContainers"] {
        for container in entries(spec, list) {
            complete_container(container);
        }
    }
    pod_resources(spec);
    default(spec, "enableServiceLinks", json!(true));
    if spec.get("hostNetwork") == Some(&json!(true)) {
        for list in ["containers", "initContainers"] {
            entries(spec, list).for_each(host_ports);
        }
    }
    for (key, value) in [
        ("dnsPolicy", json!("ClusterFirst")),
        ("restartPolicy", json!("Always")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
        ("schedulerName", json!("default-scheduler")),
    ] {
        default(spec, key, value);
    }
    entries(spec, "volumes").for_each(complete_volume);
    // What admission plugins add to every pod: priority, and the tolerations of a node that is not ready.
    default(spec, "priority", json!(0));
    default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    default(spec, "serviceAccountName", json!("default"));
}

fn entries<'v>(
    map: &'v mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'v mut Map<String, Value>> {
    let list = map.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a field that is absent, or that holds what Go takes for absent.
fn default(map: &mut Map<String, Value>, key: &str, value: Value) {
    let absent = map.get(key).is_none_or(|present| present.is_null() || *present == "");
    if absent {
        map.insert(key.to_owned(), value);
    }
}

/// `null` anywhere, and empty values of optional fields, are not there after decoding and encoding.
fn drop_nothing(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                drop_nothing(value);
                let is_map =
                    ["labels", "annotations", "nodeSelector", "limits", "requests"].contains(&key.as_str());
                let empty = *value == json!([]) || (is_map && *value == json!({}));
                let false_is_nothing = ZERO_IS_NOTHING.contains(&key.as_str()) && *value == false;
                !(value.is_null() || empty || false_is_nothing || (key == "value" && *value == ""))
            });
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nothing),
        _ => {}
    }
}

fn complete_container(container: &mut Map<String, Value>) {
    default(container, "resources", json!({}));
    if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
        let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
        if !limits.is_empty() {
            default(resources, "requests", json!({}));
            if let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut) {
                for (name, amount) in limits {
                    requests.entry(name).or_insert(amount);
                }
            }
        }
        for amounts in ["limits", "requests"] {
            // Quantities are written as strings.
            let amounts = resources.get_mut(amounts).and_then(Value::as_object_mut);
            for amount in amounts.into_iter().flat_map(Map::values_mut).filter(|amount| amount.is_number()) {
                *amount = json!(amount.to_string());
            }
        }
    }
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default().to_owned();
    default(container, "imagePullPolicy", json!(pull_policy(&image)));
    default(container, "terminationMessagePath", json!("/dev/termination-log"));
    default(container, "terminationMessagePolicy", json!("File"));
    entries(container, "ports").for_each(|port| default(port, "protocol", json!("TCP")));
    for variable in entries(container, "env") {
        let Some(source) = variable.get_mut("valueFrom").and_then(Value::as_object_mut) else { continue };
        if let Some(field) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
            default(field, "apiVersion", json!("v1"));
        }
        // A quantity of Go's that is always written.
        if let Some(field) = source.get_mut("resourceFieldRef").and_then(Value::as_object_mut) {
            default(field, "divisor", json!("0"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            complete_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        let hook = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook));
        if let Some(get) = hook.and_then(|hook| hook.get_mut("httpGet")).and_then(Value::as_object_mut) {
            default(get, "path", json!("/"));
            default(get, "scheme", json!("HTTP"));
        }
    }
}

/// `Always` for the tag `latest`, or without tag and digest.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = name.ends_with(":latest") || !name.contains([':', '@']);
    if latest { "Always" } else { "IfNotPresent" }
}

fn complete_probe(probe: &mut Map<String, Value>) {
    for (key, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.get(key).is_none_or(|value| *value == 0) {
            probe.insert(key.to_owned(), json!(value));
        }
    }
    if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        default(get, "path", json!("/"));
        default(get, "scheme", json!("HTTP"));
    }
    if let Some(call) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        call.entry("service").or_insert_with(|| json!(""));
    }
}

fn host_ports(container: &mut Map<String, Value>) {
    for port in entries(container, "ports") {
        if port.get("hostPort").is_none_or(|number| *number == 0)
            && let Some(number) = port.get("containerPort").cloned()
        {
            port.insert("hostPort".to_owned(), number);
        }
    }
}

/// Requests of the pod as a whole, once it has limits: what its containers need, or else its limits.
fn pod_resources(spec: &mut Map<String, Value>) {
    let needed = aggregate(spec, "requests");
    let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    default(resources, "requests", json!({}));
    let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut) else { return };
    for name in ["cpu", "memory"] {
        if let Some(amount) = needed.get(name) {
            // In thousandths, so that nothing is lost.
            requests.entry(name).or_insert(json!(format!("{:.0}m", amount * 1000.0)));
        }
    }
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

fn complete_volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|key| key == "name" || key == "fieldOfTheFuture") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for (source, key, value) in [
        ("hostPath", "type", json!("")),
        ("secret", "defaultMode", json!(0o644)),
        ("configMap", "defaultMode", json!(0o644)),
        ("downwardAPI", "defaultMode", json!(0o644)),
        ("projected", "defaultMode", json!(0o644)),
    ] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            source.entry(key).or_insert(value);
        }
    }
    let mut files: Vec<&mut Map<String, Value>> = Vec::new();
    let mut tokens: Vec<&mut Map<String, Value>> = Vec::new();
    for (key, source) in volume.iter_mut() {
        let Some(source) = source.as_object_mut() else { continue };
        match key.as_str() {
            "downwardAPI" => files.extend(entries(source, "items")),
            "projected" => {
                for part in entries(source, "sources") {
                    for (key, part) in part.iter_mut() {
                        let Some(part) = part.as_object_mut() else { continue };
                        match key.as_str() {
                            "downwardAPI" => files.extend(entries(part, "items")),
                            "serviceAccountToken" => tokens.push(part),
                            _ => {}
                        }
                    }
                }
            }
            _ => {}
        }
    }
    for file in files {
        if let Some(field) = file.get_mut("fieldRef").and_then(Value::as_object_mut) {
            default(field, "apiVersion", json!("v1"));
        }
    }
    for token in tokens {
        token.entry("expirationSeconds").or_insert(json!(3600));
    }
}
