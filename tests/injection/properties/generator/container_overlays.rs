//! Overlays for containers.

use serde_json::{Map, Value, json};

use super::author::{Author, Phase};
use super::containers::value_sources;
use super::expressions::{Expr, literal};
use super::pools::{CLEAN_PATHS, DEVICES, VARIABLES, VOLUMES};
use super::wild;

/// A piece of a container. `volumes` are the names that the rule may mount.
pub(crate) fn overlay(author: &mut Author<'_>, phase: Phase, volumes: &[&str]) -> Map<String, Value> {
    let mut overlay = Map::new();
    let mut put = |key: &str, value: Value| {
        overlay.insert(key.to_owned(), value);
    };
    if author.dice.chance(55) {
        put("env", env(author, phase));
    }
    if author.dice.chance(35) {
        put("resources", resources(author, phase));
    }
    let mounts = mounts(author, phase, volumes);
    if mounts != json!([]) {
        put("volumeMounts", mounts);
    }
    if author.dice.chance(25) {
        put("securityContext", security_context(author, phase));
    }
    if author.dice.chance(12) {
        put("ports", ports(author, phase));
    }
    if author.dice.chance(25) {
        let (key, value) = other_field(author, phase);
        put(key, value);
    }
    if author.dice.chance(author.wild) {
        let (key, value) = wild::field(author.dice, false);
        put(&key, value);
    }
    overlay
}

fn env(author: &mut Author<'_>, phase: Phase) -> Value {
    let mut names = author.dice.some(&VARIABLES, 25);
    if names.is_empty() {
        names.push(author.dice.pick(&VARIABLES));
    }
    let mut entries = Vec::new();
    for name in names {
        let mut entry = json!({"name": name});
        match author.dice.below(12) {
            0 => entry["valueFrom"] = author.dice.pick(&value_sources()),
            1 if name == "LD_LIBRARY_PATH" || author.dice.chance(20) => {
                entry["value"] = edit(author, phase);
            }
            _ => entry["value"] = author.text_field(phase),
        }
        if name == "LD_LIBRARY_PATH" && author.dice.chance(60) {
            entry = json!({"name": name, "value": edit(author, phase)});
        }
        if !entry["value"].is_object() && author.dice.chance(4) {
            entry["name"] = author.write(literal(name)).into();
        }
        entries.push(entry);
    }
    entries.into()
}

/// An edit of the list that a string holds.
fn edit(author: &mut Author<'_>, phase: Phase) -> Value {
    let text = match author.dice.below(4) {
        0 => author.text_field(phase),
        1 => json!("/opt/lib:/opt/own/lib"),
        _ => json!(author.dice.pick(&["/opt/lib", "/usr/lib"])),
    };
    json!({author.dice.pick(&["$prepend", "$append"]): text})
}

pub(crate) fn amounts(author: &mut Author<'_>, phase: Phase) -> Map<String, Value> {
    let mut amounts = Map::new();
    for _ in 0..=author.dice.below(2) {
        let mut name = json!(author.dice.pick(&DEVICES)).as_str().unwrap_or_default().to_owned();
        if author.dice.chance(10) {
            name = author.write(literal(name));
        }
        let amount = match author.dice.below(5) {
            0 => json!(author.dice.pick(&["4", "1"])),
            1 => json!(author.dice.pick(&[4, 0])),
            _ => {
                let devices = author.devices(phase);
                author.write(devices).into()
            }
        };
        amounts.insert(name, amount);
    }
    amounts
}

fn resources(author: &mut Author<'_>, phase: Phase) -> Value {
    if author.dice.chance(5) {
        let devices = author.devices(phase);
        let amounts = Expr::Map(vec![(author.dice.pick(&DEVICES).to_owned(), devices)]);
        let both = Expr::Map(vec![("limits".to_owned(), amounts.clone()), ("requests".to_owned(), amounts)]);
        return author.write(both).into();
    }
    let mut amounts = amounts(author, phase);
    let native = author.dice.below(10);
    match native {
        0 => drop(amounts.insert("memory".to_owned(), json!("2Gi"))),
        1 => drop(amounts.insert("cpu".to_owned(), json!(author.dice.pick(&[json!("8"), json!(2)])))),
        2 | 3 => {
            amounts.insert("hugepages-2Mi".to_owned(), json!("512Mi"));
            if native == 2 {
                amounts.insert("memory".to_owned(), json!("8Gi"));
            }
        }
        _ => {}
    }
    let (limits, requests) = (Value::from(amounts.clone()), Value::from(amounts));
    match author.dice.below(8) {
        0..4 => json!({"limits": limits, "requests": requests}),
        4 => json!({"requests": requests, "limits": limits}),
        5 | 6 => json!({"limits": limits}),
        _ => json!({"requests": requests}),
    }
}

fn mounts(author: &mut Author<'_>, phase: Phase, volumes: &[&str]) -> Value {
    let mut mounts = Vec::new();
    for name in volumes.iter().copied().chain(author.dice.chance(8).then(|| author.dice.pick(&VOLUMES))) {
        let mut mount = json!({"name": name, "mountPath": author.dice.pick(&CLEAN_PATHS)});
        match author.dice.below(12) {
            0 => mount["readOnly"] = json!(true),
            1 => mount["subPath"] = json!("sub"),
            2 => mount["mountPropagation"] = json!("HostToContainer"),
            3 => {
                let path = author.perhaps(phase);
                mount["subPath"] = author.write(path).into();
            }
            4 => {
                let suffix = author.text(Phase::Fixed);
                mount["mountPath"] = format!("/mnt/{}", author.write(suffix)).into();
            }
            _ => {}
        }
        mounts.push(mount);
    }
    mounts.into()
}

fn security_context(author: &mut Author<'_>, phase: Phase) -> Value {
    if author.dice.chance(6) {
        let capabilities = Expr::Map(vec![("add".to_owned(), Expr::List(vec![literal("IPC_LOCK")]))]);
        let context = Expr::Map(vec![("capabilities".to_owned(), capabilities)]);
        return author.write(context).into();
    }
    let mut context = Map::new();
    if author.dice.chance(50) {
        let mut add: Vec<Value> = vec![json!(author.dice.pick(&[
            "IPC_LOCK",
            "SYS_ADMIN",
            "CAP_SYS_ADMIN",
            "CAP_IPC_LOCK",
            "NET_ADMIN",
            "SYS_PTRACE",
            "ALL",
        ]))];
        if author.dice.chance(20) {
            let text = author.condition(phase, 1);
            let perhaps =
                Expr::Choose(Box::new(text), Box::new(literal("SYS_NICE")), Box::new(literal(Value::Null)));
            add.push(author.write(perhaps).into());
        }
        context.insert("capabilities".to_owned(), json!({"add": add}));
        if author.dice.chance(15) {
            context["capabilities"]["drop"] = json!(author.dice.pick(&[["ALL"], ["NET_RAW"], ["IPC_LOCK"]]));
        }
    }
    for (key, value) in [
        ("privileged", json!(true)),
        ("allowPrivilegeEscalation", json!(false)),
        ("allowPrivilegeEscalation", json!(true)),
        ("runAsUser", json!(0)),
        ("runAsNonRoot", json!(true)),
        ("readOnlyRootFilesystem", json!(false)),
        ("seccompProfile", json!({"type": "Unconfined"})),
        ("seccompProfile", json!({"type": "Localhost", "localhostProfile": "p.json"})),
        ("seLinuxOptions", json!({"level": "s0"})),
    ] {
        if author.dice.chance(10) {
            context.insert(key.to_owned(), value);
        }
    }
    if context.is_empty() || author.dice.chance(10) {
        let privileged = author.condition(phase, 1);
        context.insert("privileged".to_owned(), author.write(privileged).into());
    }
    context.into()
}

fn ports(author: &mut Author<'_>, phase: Phase) -> Value {
    let mut port = json!({"containerPort": author.dice.pick(&[9000, 9001, 8080, 22])});
    if author.dice.chance(30) {
        port["name"] = json!(author.dice.pick(&["metrics", "rdma"]));
    }
    if author.dice.chance(35) {
        port["protocol"] = json!(author.dice.pick(&["TCP", "UDP"]));
    }
    if author.dice.chance(3) {
        port["hostPort"] = port["containerPort"].clone();
    }
    if author.dice.chance(10) {
        let number = author.integer(phase);
        port["containerPort"] = author
            .write(Expr::Choose(
                Box::new(super::expressions::binary(number, ">", literal(0))),
                Box::new(literal(9000)),
                Box::new(literal(9001)),
            ))
            .into();
    }
    json!([port])
}

/// Any other field of a container.
fn other_field(author: &mut Author<'_>, phase: Phase) -> (&'static str, Value) {
    let probe = author.dice.pick(&[
        json!({"exec": {"command": ["true"]}}),
        json!({"httpGet": {"port": 8080}, "periodSeconds": 5}),
        json!({"tcpSocket": {"port": "metrics"}}),
        json!({"grpc": {"port": 9000}}),
    ]);
    let choices = [
        ("command", json!(["run"])),
        ("args", json!(["--fabric"])),
        ("args", json!([author.text_field(phase), "--x"])),
        ("workingDir", json!("/fabric")),
        ("imagePullPolicy", json!("IfNotPresent")),
        ("envFrom", json!([{"configMapRef": {"name": "fabric"}}])),
        ("envFrom", json!([{"configMapRef": {"name": "all"}}, {"prefix": "P_", "secretRef": {"name": "s"}}])),
        ("terminationMessagePolicy", json!("File")),
        ("terminationMessagePath", json!("/tmp/log")),
        ("stdin", json!(true)),
        ("tty", json!(true)),
        ("livenessProbe", probe.clone()),
        ("readinessProbe", probe.clone()),
        ("startupProbe", probe),
        ("lifecycle", json!({"preStop": {"exec": {"command": ["sleep", "1"]}}})),
        ("lifecycle", json!({"postStart": {"httpGet": {"port": 1}}})),
        ("restartPolicy", json!("Always")),
    ];
    author.dice.pick(&choices)
}
