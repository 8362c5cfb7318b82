//! Small policies that read what they write themselves, or what the program writes. Nothing of them is worked out: they
//! are for what holds whatever the outcome is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Dice;
use super::pools::{GPU, JOB_ROLE, TRIGGER};

/// What a condition of a pod may read: fields that the policy writes, and annotations of the program.
const OF_POD: [&str; 15] = [
    "pod.spec.?hostIPC.orValue(false)",
    "pod.metadata.?labels[?'x'].hasValue()",
    "'x' in pod.metadata.?labels.orValue({})",
    "pod.metadata.?annotations[?'note'].orValue('') == 'own'",
    "pod.metadata.?annotations[?'fabric-injector.io/injected'].hasValue()",
    "'fabric-injector.io/injected' in pod.metadata.?annotations.orValue({})",
    "pod.metadata.?annotations[?'fabric-injector.io/skipped'].hasValue()",
    "pod.metadata.?annotations.orValue({}).exists(k, k.startsWith('fabric-injector.io/'))",
    "pod.metadata.?annotations[?'settings.fabric-injector.io/nccl'].hasValue()",
    "pod.spec.?nodeSelector[?'fabric'].orValue('') == 'rdma'",
    "pod.spec.?initContainers.orValue([]).exists(c, c.name == 'daemon')",
    "pod.spec.containers.exists(c, c.name == 'agent')",
    "pod.spec.?volumes.orValue([]).exists(v, v.name == 'scratch')",
    "pod.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'A'))",
    "size(pod.spec.containers) > 1",
];
/// The same of a container.
const OF_CONTAINER: [&str; 7] = [
    "container.?env.orValue([]).exists(e, e.name == 'A')",
    "container.?env.orValue([]).exists(e, e.name == 'B' && e.?value.orValue('') == '1')",
    "'memory' in container.?resources.?requests.orValue({})",
    "['memory'].exists(k, container.?resources.?limits[?k].hasValue())",
    "container.?volumeMounts.orValue([]).exists(m, m.mountPath == '/data')",
    "container.?securityContext.?capabilities.?add.orValue([]).exists(c, c == 'IPC_LOCK')",
    "container.?image.orValue('') == 'registry.test/daemon:1'",
];
/// Conditions for some pods and containers of the tests, of which a sample at loading may be none.
const POD_GUARDS: [&str; 6] = [
    "pod.metadata.?labels[?'role'].orValue('') == 'launcher'",
    "totalGpus == 8",
    "totalGpus > 1 && totalGpus < 8",
    "launcher",
    "pod.spec.?schedulerName.orValue('') != 'other'",
    "pod.metadata.?name.orValue('p') == 'p'",
];
const CONTAINER_GUARDS: [&str; 8] = [
    "container.name == 'main'",
    "container.name == 'main'",
    "container.name == 'worker'",
    "container.name != 'daemon'",
    "container.?env.orValue([]).exists(e, e.name == 'MINE')",
    "gpus == 8",
    "gpus > 0",
    "true",
];

/// What only an edit has that an expression yields, which is no edit.
pub(crate) const BY_EXPRESSION: &str = "by-expression";

/// A document of a policy.
pub(crate) fn policy(dice: &mut Dice) -> Value {
    let mut spec = json!({
        "provider": "test", "description": "generated", "gpus": {"resources": [GPU]},
        "match": {"anyAnnotation": {TRIGGER: "true"}},
    });
    if dice.chance(25) {
        spec["variables"] = json!({"again": format!("${{{}}}", dice.pick(&OF_POD))});
    }
    let again = spec["variables"].is_object();
    if dice.chance(4) {
        spec["match"]["when"] = json!(condition(&negated(dice, dice_of_pod)));
    }
    if dice.chance(45) {
        let checks = (0..=dice.below(2)).map(|at| check(dice, at)).collect();
        spec["checks"] = Value::Array(checks);
    }
    if dice.chance(30) {
        spec["files"] = files(dice);
    }
    let rules = if dice.chance(25) {
        opposites(dice)
    } else {
        (0..2 + dice.below(3)).map(|at| rule(dice, at, again)).collect()
    };
    spec["rules"] = Value::Array(rules);
    json!({
        "apiVersion": "fabric-injector.io/v1alpha1", "kind": "FabricPolicy",
        "metadata": {"name": "generated"}, "spec": spec,
    })
}

fn condition(text: &str) -> String {
    format!("${{{text}}}")
}

fn dice_of_pod(dice: &mut Dice) -> String {
    if dice.chance(30) {
        return dice.pick(&POD_GUARDS).to_owned();
    }
    let read = dice.pick(&OF_POD).to_owned();
    if dice.chance(30) { format!("{} && {read}", dice.pick(&POD_GUARDS)) } else { read }
}

fn of_container(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..6 => dice.pick(&CONTAINER_GUARDS).to_owned(),
        6 => dice.pick(&OF_CONTAINER).to_owned(),
        7 => format!(
            "{} && {}",
            dice.pick(&CONTAINER_GUARDS),
            negated(dice, |dice| dice.pick(&OF_POD).to_owned())
        ),
        _ => format!(
            "{} && {}",
            dice.pick(&CONTAINER_GUARDS),
            negated(dice, |dice| dice.pick(&OF_CONTAINER).to_owned())
        ),
    }
}

fn negated(dice: &mut Dice, of: fn(&mut Dice) -> String) -> String {
    let read = of(dice);
    if dice.chance(40) { format!("!({read})") } else { format!("({read})") }
}

fn check(dice: &mut Dice, at: usize) -> Value {
    let mut check = json!({"name": format!("generated_{at}"), "message": "seen"});
    let action = dice.pick(&["warn", "refuse", "skip"]);
    if action != "warn" || dice.chance(50) {
        check["action"] = json!(action);
    }
    match dice.below(3) {
        0 => check["when"] = json!(condition(&negated(dice, dice_of_pod))),
        1 => {
            let of = dice.pick(&["gpus == 0", "gpus == 0 && container.name != 'worker'"]).to_owned();
            let of = if dice.chance(50) { of } else { of_container(dice) };
            check["containers"] = json!(condition(&of));
        }
        _ => {
            check["env"] = json!(dice.pick(&["A", "B", "LD_LIBRARY_PATH"]));
            let value =
                dice.pick(&["value == '1'", "value.contains('/opt/lib')", "value == 'two'", "value != ''"]);
            let also = if dice.chance(40) { format!(" && {}", dice.pick(&OF_POD)) } else { String::new() };
            check["when"] = json!(condition(&format!("{value}{also}")));
            if dice.chance(50) {
                check["containers"] = json!(condition(dice.pick(&CONTAINER_GUARDS)));
            }
        }
    }
    check
}

/// Files of settings: one with the name that pods of the tests use as well.
pub(crate) fn files(dice: &mut Dice) -> Value {
    let mut file = json!({"variables": dice.pick(&[json!(["A"]), json!(["*"]), json!(["NCCL_*", "B"]), json!(["LD_*", "A"])])});
    if file["variables"] == json!(["*"]) {
        file["variables"] = json!(["A", "B", "NCCL_*", "LD_*"]);
    }
    if dice.chance(20) {
        file["env"] = json!("NCCL_CONF_FILE");
    }
    let mut files = BTreeMap::from([(dice.pick(&["/etc/nccl.conf", "/data/nccl.conf"]), file)]);
    if dice.chance(15) {
        files.insert("/etc/ucx.conf", json!({"variables": ["B"], "when": "totalGpus > 0"}));
    }
    json!(files)
}

/// Two rules for one variable, of which one applies before another rule writes what its condition reads, and the other one
/// after it.
fn opposites(dice: &mut Dice) -> Vec<Value> {
    let sidecar = json!({"name": "daemon", "image": "registry.test/daemon:1", "restartPolicy": "Always"});
    let (read, written) = dice.pick(&[
        (OF_POD[0], json!({"spec": {"hostIPC": true}})),
        (OF_POD[1], json!({"metadata": {"labels": {"x": "1"}}})),
        (OF_POD[2], json!({"metadata": {"labels": {"x": "1"}}})),
        (OF_POD[3], json!({"metadata": {"annotations": {"note": "own"}}})),
        (OF_POD[9], json!({"spec": {"nodeSelector": {"fabric": "rdma"}}})),
        (OF_POD[10], json!({"spec": {"initContainers": [sidecar]}})),
    ]);
    let guard = |dice: &mut Dice| condition(dice.pick(&CONTAINER_GUARDS[..6]));
    let before = json!({
        "name": "before", "when": condition(&format!("!({read})")), "containers": guard(dice),
        "container": {"env": [{"name": "A", "value": dice.pick(&[Value::Null, json!("1"), json!("/ours")])}]},
    });
    let mut after = json!({"name": "after", "containers": guard(dice)});
    let value = dice.pick(&[json!("two"), json!({"$prepend": "/base"}), json!({"$append": "sm"})]);
    after["container"] = json!({"env": [{"name": "A", "value": value}]});
    if dice.chance(50) {
        after["when"] = json!(condition(&format!("({read})")));
    }
    let mut writes = json!({"name": "writes", "containers": guard(dice), "pod": written});
    if dice.chance(50) {
        writes["container"] = json!({"env": [{"name": "B", "value": "x"}]});
    }
    let mut rules = vec![before, after];
    rules.insert(dice.below(3), writes);
    rules
}

fn rule(dice: &mut Dice, at: usize, again: bool) -> Value {
    let mut rule = json!({"name": format!("rule-{at}")});
    match dice.below(10) {
        0..3 => rule["when"] = json!(condition(&negated(dice, dice_of_pod))),
        3 if again => rule["when"] = json!("${again}"),
        4 => rule["when"] = json!(condition(dice.pick(&POD_GUARDS))),
        _ => {}
    }
    if dice.chance(70) {
        rule["containers"] = json!(condition(&of_container(dice)));
    }
    if dice.chance(3) {
        let edit = format!("[{{'name': 'B', 'value': {{'$prepend': '{BY_EXPRESSION}'}}}}]");
        let env = json!(condition(&edit));
        rule["pod"] = json!({"spec": {"containers": [{"name": "main", "env": env}]}});
    }
    if dice.chance(20) {
        rule["onConflict"] = json!(dice.pick(&["replace", "keep"]));
    }
    for _ in 0..=dice.below(2) {
        write(dice, &mut rule, again);
    }
    rule
}

/// Adds something that a condition of [`OF_POD`] or [`OF_CONTAINER`] may read.
fn write(dice: &mut Dice, rule: &mut Value, again: bool) {
    let mut of_pod = |path: &[&str], value: Value| super::set(&mut rule["pod"], path, value);
    match dice.below(14) {
        0 => of_pod(&["spec", "hostIPC"], json!(true)),
        1 => of_pod(&["metadata", "labels", "x"], json!("1")),
        2 => of_pod(&["metadata", "annotations", "note"], json!("own")),
        3 => of_pod(&["spec", "nodeSelector"], json!({"fabric": "rdma"})),
        4 => {
            let sidecar =
                json!({"name": "daemon", "image": "registry.test/daemon:1", "restartPolicy": "Always"});
            of_pod(&["spec", "initContainers"], json!([sidecar]));
        }
        5 => of_pod(&["spec", "containers"], json!([{"name": "agent", "image": "registry.test/daemon:1"}])),
        6 => {
            let name = dice.pick(&["main", "worker"]);
            let env = json!([variable(dice, again)]);
            of_pod(&["spec", "containers"], json!([{"name": name, "env": env}]));
        }
        7 => super::set(rule, &["container", "resources"], json!({"requests": {"memory": "2Gi"}})),
        8 => {
            super::set(
                rule,
                &["container", "volumeMounts"],
                json!([{"name": "scratch", "mountPath": "/data"}]),
            );
            super::set(rule, &["pod", "spec", "volumes"], json!([{"name": "scratch", "emptyDir": {}}]));
        }
        9 => super::set(
            rule,
            &["container", "securityContext"],
            json!({"capabilities": {"add": ["IPC_LOCK"]}}),
        ),
        _ => {
            let entry = variable(dice, again);
            match rule["container"]["env"].as_array_mut() {
                Some(env) if env.iter().all(|known| known["name"] != entry["name"]) => env.push(entry),
                Some(_) => {}
                None => super::set(rule, &["container", "env"], json!([entry])),
            }
        }
    }
    // Indexing made them.
    for key in ["pod", "container"] {
        if rule[key].is_null() {
            rule.as_object_mut().map(|rule| rule.shift_remove(key));
        }
    }
    if let Some(container) = rule.get_mut("container").and_then(Value::as_object_mut) {
        container.retain(|_, value| !value.is_null());
    }
}

fn variable(dice: &mut Dice, again: bool) -> Value {
    let name = dice.pick(&["A", "B", "NCCL_DEBUG", "LD_LIBRARY_PATH"]);
    let edit = if name == "LD_LIBRARY_PATH" { 70 } else { 15 };
    let value = match dice.below(8) {
        _ if dice.chance(edit) => {
            json!({dice.pick(&["$prepend", "$append"]): dice.pick(&["/opt/lib", "sm"])})
        }
        0 if again => json!("${again ? 'two' : '1'}"),
        1 => json!(format!("${{{} ? 'two' : '1'}}", dice.pick(&OF_POD))),
        2 => Value::Null,
        // No two refer to each other.
        3 if name == "B" => json!("$(A)/x"),
        4 if name == "NCCL_DEBUG" => json!(dice.pick(&["$(A)/x", "$(B)/x"])),
        _ => json!(dice.pick(&["1", "x", "mlx5"])),
    };
    json!({"name": name, "value": value})
}

/// The label by which a pod is the launcher of an MPIJob.
pub(crate) fn job_role(dice: &mut Dice) -> (&'static str, Value) {
    (JOB_ROLE, json!(dice.pick(&["launcher", "worker"])))
}
