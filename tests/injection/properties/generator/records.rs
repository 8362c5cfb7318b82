//! What pods have of the program: annotations that it wrote, or that somebody else wrote in its name.

use serde_json::{Value, json};

use super::Dice;
use super::own_writes::job_role;
use super::pools::{GPU, INSTANCE_TYPE, INSTANCE_TYPES, POOL, POOLS};

const INJECTED: &str = "fabric-injector.io/injected";
const NODES: &str = "fabric-injector.io/nodes";
const CLAIMS: &str = "fabric-injector.io/claims";
const SKIPPED: &str = "fabric-injector.io/skipped";
const SETTINGS: &str = "settings.fabric-injector.io/nccl";
/// The type of nodes in the records of a manifest that was copied.
pub(crate) const OTHER_TYPE: &str = "copied";
const STAMPS: [&str; 5] = ["generated@000000000000", "base@000000000000", "other@000000000000", "x", ""];

/// Whether a pod may have records that decide, which the model does not read. The copy of a manifest for other nodes, whose
/// records count as absent, is one that it knows.
pub(crate) fn decide(pod: &Value) -> bool {
    let annotations = &pod["metadata"]["annotations"];
    let is_copy = annotations[NODES].as_str().is_some_and(|nodes| nodes.contains(OTHER_TYPE));
    [NODES, CLAIMS, SKIPPED].iter().any(|key| !annotations[*key].is_null()) && !is_copy
}

/// Writes records into a pod.
pub(crate) fn forge(dice: &mut Dice, pod: &mut Value) {
    if dice.chance(8) {
        let (label, role) = job_role(dice);
        pod["metadata"]["labels"][label] = role;
    }
    let annotations = &mut pod["metadata"]["annotations"];
    if !dice.chance(12) {
        return;
    }
    if dice.chance(50) {
        annotations[INJECTED] = json!(dice.pick(&STAMPS));
    }
    if dice.chance(40) {
        annotations[NODES] = json!(nodes(dice));
    }
    if dice.chance(30) {
        annotations[CLAIMS] = json!(claims(dice));
    }
    if dice.chance(15) {
        annotations[SKIPPED] = json!(dice.pick(&["x", "the pod has no GPU (generated@000000000000)"]));
    }
    if dice.chance(25) {
        annotations[SETTINGS] = json!(dice.pick(&["A=1\n", "A=forged\nB=x\n", "x", ""]));
    }
}

fn nodes(dice: &mut Dice) -> String {
    if dice.chance(15) {
        return dice
            .pick(&[
                "",
                "[]",
                "null",
                "{}",
                "[null]",
                "[{}]",
                "[{\"labels\":{},\"gpus\":1.5,\"resources\":{}}]",
            ])
            .to_owned();
    }
    let kinds: Vec<Value> = (0..=dice.below(2)).map(|_| kind(dice)).collect();
    Value::from(kinds).to_string()
}

fn kind(dice: &mut Dice) -> Value {
    let mut labels = json!({});
    for (label, values) in [(INSTANCE_TYPE, &INSTANCE_TYPES[..]), (POOL, &POOLS[..])] {
        if dice.chance(60) {
            labels[label] = json!(dice.pick(values).to_lowercase());
        }
    }
    let amount = dice.pick(&[0, 1, 4, 8, -1]);
    json!({"labels": labels, "gpus": dice.pick(&[8, 8, 4, 0]), "resources": {dice.pick(&["rdma/hca", "fabric.test/policy-0", GPU]): amount}})
}

fn claims(dice: &mut Dice) -> String {
    if dice.chance(20) {
        return dice.pick(&["", "[]", "null", "x", "{\"gpus/template/team-gpus\":1}"]).to_owned();
    }
    let request =
        dice.pick(&["gpu:class-a=4", "gpu:class-a", "nic:class-a|fabric=2", "::=", "gpu:class-a=-8"]);
    let claim = dice.pick(&[
        "gpus/template/team-gpus",
        "more/claim/other-gpus",
        "nics/claim/team-nics",
        "nics/template/other",
    ]);
    json!({claim: [request]}).to_string()
}

/// A pod that was injected, as somebody may copy and change its manifest.
pub(crate) fn copied(dice: &mut Dice, after: &Value) -> Value {
    let mut pod = after.clone();
    for key in [INJECTED, NODES, CLAIMS, SETTINGS] {
        if dice.chance(30) {
            pod["metadata"]["annotations"].as_object_mut().map(|known| known.shift_remove(key));
        }
    }
    if dice.chance(30) {
        pod["metadata"]["annotations"][INJECTED] = json!(dice.pick(&STAMPS));
    }
    if dice.chance(30) {
        pod["metadata"]["annotations"][NODES] = json!(nodes(dice));
    }
    if dice.chance(25) {
        pod["spec"]["nodeSelector"] = json!({INSTANCE_TYPE: dice.pick(&INSTANCE_TYPES)});
    }
    if dice.chance(25) {
        for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
            let kept = container["env"].as_array().map(|env| dice.some(env, 70));
            if let Some(kept) = kept {
                container["env"] = kept.into();
            }
        }
    }
    pod
}

/// Mounts a volume that the pod does not have, as a template on disk may, or that is one of settings in name alone.
pub(crate) fn mount_of_settings(dice: &mut Dice, pod: &mut Value) {
    let volume = dice.pick(&["nccl-settings", "nccl-settings", "scratch"]);
    let path = dice.pick(&["/etc/nccl.conf", "/etc//nccl.conf", "/data/nccl.conf"]);
    let container = &mut pod["spec"]["containers"][0];
    match container["volumeMounts"].as_array_mut() {
        Some(mounts) => mounts.push(json!({"name": volume, "mountPath": path})),
        None => container["volumeMounts"] = json!([{"name": volume, "mountPath": path}]),
    }
    if dice.chance(30) {
        let own = json!({"name": volume, "configMap": {"name": "own"}});
        match pod["spec"]["volumes"].as_array_mut() {
            Some(volumes) if volumes.iter().all(|known| known["name"] != volume) => volumes.push(own),
            Some(_) => {}
            None => pod["spec"]["volumes"] = json!([own]),
        }
    }
}
