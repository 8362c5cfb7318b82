//! Containers that the API server would take.

use serde_json::{Map, Value, json};

use super::Dice;
use super::pools::{DEVICES, GPU, IMAGES, OTHER_GPU, OWN_VARIABLES, PATHS, VARIABLES};

/// A container with this name; its mounts are of these volumes.
pub(crate) fn container(dice: &mut Dice, name: &str, volumes: &[Value]) -> Value {
    let mut container = json!({"name": name, "image": dice.pick(&IMAGES)});
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            container[key] = value;
        }
    };
    add("resources", resources(dice));
    add("env", env(dice));
    add("volumeMounts", mounts(dice, volumes));
    add("securityContext", security_context(dice));
    add("ports", ports(dice));
    for (key, value) in [
        ("command", json!(["train"])),
        ("args", json!(["--nodes", "2"])),
        ("workingDir", json!("/train")),
        ("imagePullPolicy", json!("Always")),
        ("envFrom", json!([{"configMapRef": {"name": "all"}}, {"prefix": "S_", "secretRef": {"name": "s"}}])),
        ("terminationMessagePolicy", json!("FallbackToLogsOnError")),
        ("tty", json!(true)),
    ] {
        if dice.chance(15) {
            container[key] = value;
        }
    }
    if dice.chance(10) {
        container["fieldOfTheFuture"] = json!({"nested": [1, null, {"x": 1.5}]});
    }
    container
}

/// Probes and hooks, which only containers that keep running may have.
pub(crate) fn add_probes(dice: &mut Dice, container: &mut Value) {
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if dice.chance(10) {
            container[key] = dice.pick(&[
                json!({"httpGet": {"port": 8080}}),
                json!({"httpGet": {"port": "http", "path": "/healthz", "scheme": "HTTPS"}, "periodSeconds": 5}),
                json!({"exec": {"command": ["true"]}, "failureThreshold": 30}),
                json!({"tcpSocket": {"port": 22}, "initialDelaySeconds": 3}),
                json!({"grpc": {"port": 9000}}),
            ]);
        }
    }
    if dice.chance(8) {
        container["lifecycle"] = dice.pick(&[
            json!({"preStop": {"exec": {"command": ["sleep", "5"]}}}),
            json!({"postStart": {"httpGet": {"port": 80}}}),
        ]);
    }
}

fn env(dice: &mut Dice) -> Option<Value> {
    if dice.chance(30) {
        return dice.chance(40).then(|| dice.pick(&[Value::Null, json!([])]));
    }
    let mut list: Vec<Value> = Vec::new();
    for name in VARIABLES.iter().chain(&OWN_VARIABLES) {
        if !dice.chance(30) {
            continue;
        }
        let mut entry = json!({"name": name});
        match dice.below(8) {
            0 => {}
            1 => entry["value"] = json!(""),
            2 => entry["valueFrom"] = dice.pick(&value_sources()),
            3 => entry["value"] = json!("/opt/own/lib:/usr/lib"),
            4 => entry["value"] = json!("$(MINE)/x"),
            _ => entry["value"] = json!(dice.pick(&["1", "0", "x", "mlx5", "small.1"])),
        }
        if dice.chance(4) {
            entry["fieldOfTheFuture"] = json!([]);
        }
        list.push(entry);
    }
    // The API server takes two entries of one name; the last one counts.
    if !list.is_empty() && dice.chance(3) {
        let mut twice = list[0].clone();
        twice["value"] = json!("again");
        twice.as_object_mut().map(|entry| entry.remove("valueFrom"));
        list.push(twice);
    }
    Some(list.into())
}

/// The sources of a variable's value.
pub(crate) fn value_sources() -> Vec<Value> {
    vec![
        json!({"configMapKeyRef": {"name": "c", "key": "k"}}),
        json!({"secretKeyRef": {"name": "c", "key": "k", "optional": true}}),
        json!({"fieldRef": {"fieldPath": "status.podIP"}}),
        json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}),
        json!({"resourceFieldRef": {"resource": "limits.memory"}}),
    ]
}

fn mounts(dice: &mut Dice, volumes: &[Value]) -> Option<Value> {
    if dice.chance(30) {
        return dice.chance(30).then(|| dice.pick(&[Value::Null, json!([])]));
    }
    let mut list: Vec<Value> = Vec::new();
    let mut taken: Vec<&str> = Vec::new();
    for path in PATHS {
        let plain = path.trim_end_matches('/');
        if volumes.is_empty() || taken.contains(&plain) || !dice.chance(30) {
            continue;
        }
        taken.push(plain);
        let mut mount = json!({"name": dice.pick(volumes)["name"], "mountPath": path});
        if dice.chance(20) {
            mount["readOnly"] = json!(true);
        }
        if dice.chance(10) {
            mount["subPath"] = json!("part");
            mount["mountPath"] = json!(format!("{plain}/part"));
        }
        list.push(mount);
    }
    Some(list.into())
}

fn resources(dice: &mut Dice) -> Option<Value> {
    let (mut limits, mut requests) = (Map::new(), Map::new());
    let mut put = |dice: &mut Dice, name: &str, amount: Value| {
        // What cannot be overcommitted has a limit; its request is absent or equal.
        limits.insert(name.to_owned(), amount.clone());
        if dice.chance(40) {
            let other_form = amount.as_i64().map_or(amount.clone(), |number| json!(number.to_string()));
            requests.insert(name.to_owned(), if dice.chance(50) { other_form } else { amount });
        }
    };
    if dice.chance(85) {
        let amount = dice.pick(&[json!(8), json!("8"), json!(1), json!("3"), json!(4), json!(0)]);
        let name = if dice.chance(90) { GPU } else { OTHER_GPU };
        put(dice, name, amount);
    }
    for device in DEVICES {
        if dice.chance(12) {
            let amount = dice.pick(&[json!(1), json!("2"), json!(8)]);
            put(dice, device, amount);
        }
    }
    let mut native = false;
    for (name, request, limit) in [("cpu", json!("500m"), json!(4)), ("memory", json!("1Gi"), json!("64Gi"))]
    {
        if dice.chance(30) {
            limits.insert(name.to_owned(), limit);
            native = true;
        }
        if dice.chance(30) {
            requests.insert(name.to_owned(), request);
            native = true;
        }
    }
    if native && dice.chance(15) {
        limits.insert("hugepages-2Mi".to_owned(), json!("4Mi"));
    }
    let mut resources = Map::new();
    let order = dice.chance(50);
    for (key, amounts) in if order {
        [("limits", limits), ("requests", requests)]
    } else {
        [("requests", requests), ("limits", limits)]
    } {
        match (amounts.is_empty(), dice.below(10)) {
            (true, 0) => drop(resources.insert(key.to_owned(), Value::Null)),
            (true, 1) => drop(resources.insert(key.to_owned(), json!({}))),
            (true, _) => {}
            (false, _) => drop(resources.insert(key.to_owned(), amounts.into())),
        }
    }
    match (resources.is_empty(), dice.below(3)) {
        (true, 0) => None,
        (true, 1) => Some(Value::Null),
        _ => Some(resources.into()),
    }
}

fn security_context(dice: &mut Dice) -> Option<Value> {
    if dice.chance(45) {
        return None;
    }
    Some(dice.pick(&[
        Value::Null,
        json!({}),
        json!({"privileged": true}),
        json!({"privileged": false}),
        json!({"allowPrivilegeEscalation": true}),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
        json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true}),
        json!({"capabilities": {"add": ["SYS_PTRACE"]}, "seccompProfile": {"type": "Unconfined"}}),
        json!({"capabilities": {"add": ["CAP_IPC_LOCK"]}, "runAsUser": 1000}),
        json!({"capabilities": {"add": ["ALL"]}}),
        json!({"capabilities": {"add": ["SYS_ADMIN"]}}),
        json!({"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": true}),
        json!({"capabilities": null, "runAsNonRoot": true, "readOnlyRootFilesystem": true}),
        json!({"capabilities": {"add": null, "drop": ["IPC_LOCK"]}}),
        json!({"capabilities": {"add": ["sys_nice"]}, "procMount": "Default"}),
    ]))
}

fn ports(dice: &mut Dice) -> Option<Value> {
    let choices = [
        json!({"containerPort": 9000}),
        json!({"containerPort": 9001, "name": "metrics"}),
        json!({"containerPort": 8080, "protocol": "TCP", "name": "http"}),
        json!({"containerPort": 9000, "protocol": "UDP"}),
        json!({"containerPort": 22, "hostPort": 22}),
    ];
    let list = dice.some(&choices, 15);
    (!list.is_empty()).then(|| list.into())
}

/// Removes ports that would meet on the node, which the API server refuses.
pub(crate) fn without_port_conflicts(containers: &mut [Value], host_network: bool) {
    let mut taken: Vec<String> = Vec::new();
    for container in containers {
        let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) else { continue };
        ports.retain(|port| {
            let host = if host_network { &port["containerPort"] } else { &port["hostPort"] };
            let place = format!("{}/{host}", port["protocol"].as_str().unwrap_or("TCP"));
            let free = host.is_null() || !taken.contains(&place);
            taken.push(place);
            free
        });
    }
}

/// Whether a container asks for GPUs, as far as the policies of these tests count them.
pub(crate) fn gpus(container: &Value, resources: &[String]) -> i64 {
    let amount = |name: &String| {
        let found = ["limits", "requests"]
            .iter()
            .map(|list| &container["resources"][*list][name.as_str()])
            .find(|amount| !amount.is_null());
        found.map_or(0, |amount| {
            amount.as_i64().or_else(|| amount.as_str().and_then(|text| text.parse().ok())).unwrap_or(0)
        })
    };
    resources.iter().map(amount).sum()
}
