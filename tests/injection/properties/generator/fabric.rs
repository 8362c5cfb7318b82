//! Claims, devices of the pod's own, and lists that are replaced, added to policies and pods at random.

use serde_json::{Value, json};

use super::author::{Author, Phase};
use super::expressions::{Expr, literal, name};
use super::pools::{INTERFACES, NETWORKS};
use super::{Dice, items, set};

/// A resource that only pods request.
pub(crate) const OWN_DEVICE: &str = "fabric.test/vf";
/// The networks, claims and templates of pods that are devices of the fabric.
pub(crate) const OWN_NETWORK: &str = "own-rail";
const OWN_CLAIM: &str = "team-nics";

/// Adds to a policy. Returns whether the model knows what comes of it.
pub(crate) fn extend_policy(author: &mut Author<'_>, spec: &mut Value) -> bool {
    if author.dice.chance(15) {
        spec["gpus"]["claims"] = author.dice.pick(&[
            json!({"team-gpus": 1}),
            json!({"*-gpus": 4, "x": 1}),
            json!({"*-gpus": 4, "team*": 0}),
        ]);
    }
    if !author.dice.chance(25) {
        return true;
    }
    spec["devices"] = json!({"resources": ["fabric.test/*"], "claims": {"*-nics": 1}});
    let condition = author.write(Expr::Not(Box::new(name("ownDevices"))));
    for rule in spec["rules"].as_array_mut().into_iter().flatten() {
        if rule["when"].is_null() && author.dice.chance(30) {
            rule["when"] = json!(condition);
        }
        if rule["containers"].is_null() && author.dice.chance(30) {
            rule["containers"] = json!(author.write(name("hasDevice")));
        }
    }
    if author.dice.chance(70) {
        let entries: Vec<Value> = (0..=author.dice.below(2)).map(|at| device(author, at)).collect();
        let is_list = |entry: &Value| entry["resources"].to_string().contains("${[");
        let known = !entries.iter().any(is_list);
        spec["devices"]["add"] = entries.into();
        return known;
    }
    true
}

/// An entry of `devices.add`.
fn device(author: &mut Author<'_>, at: usize) -> Value {
    let mut entry = json!({"name": format!("device-{at}")});
    if author.dice.chance(40) {
        let condition = author.condition(Phase::Pod, 2);
        entry["when"] = author.write(condition).into();
    }
    let kinds = author.dice.below(7) + 1;
    if kinds & 1 != 0 {
        let devices = author.devices(Phase::Container);
        let amount = author.write(devices);
        let amount = author.dice.pick(&[json!(1), json!(0), json!(amount)]);
        let mut key = format!("fabric.test/policy-{at}");
        if author.dice.chance(15) {
            // A list of names, each for one device.
            let names = (0..4).map(|rail| literal(format!("fabric.test/rail-{at}{rail}"))).collect();
            key = author.write(Expr::List(names));
        }
        entry["resources"] = json!({key: amount});
    }
    if kinds & 2 != 0 {
        entry["networks"] = author.dice.pick(&[
            json!("net/rdma-net"),
            json!("own-rail-0"),
            json!(["own-rail-0", "own-rail-1"]),
        ]);
    }
    if kinds & 4 != 0 {
        entry["claims"] = json!({format!("nics-{at}"): "policy-nics"});
    }
    entry
}

/// Adds claims and devices to a pod.
pub(crate) fn extend_pod(dice: &mut Dice, pod: &mut Value) {
    if dice.chance(20) {
        let claims = dice.some(
            &[
                json!({"name": "gpus", "resourceClaimTemplateName": "team-gpus"}),
                json!({"name": "more", "resourceClaimName": "other-gpus"}),
                json!({"name": "nics", "resourceClaimName": OWN_CLAIM}),
                json!({"name": "fabric", "resourceClaimName": "own"}),
            ],
            40,
        );
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                let used: Vec<Value> =
                    dice.some(&claims, 50).iter().map(|claim| json!({"name": claim["name"]})).collect();
                if !used.is_empty() {
                    container["resources"]["claims"] = used.into();
                }
            }
        }
        if !claims.is_empty() {
            pod["spec"]["resourceClaims"] = claims.into();
        }
    }
    if dice.chance(8) {
        let amount = dice.pick(&[json!(1), json!("2"), json!(0)]);
        let device = dice.pick(&[OWN_DEVICE, "fabric.test/policy-0"]);
        let container = &mut pod["spec"]["containers"][0];
        if let Some(request) = container["resources"]["requests"].as_object_mut() {
            request.insert(device.to_owned(), amount.clone());
        }
        set(container, &["resources", "limits", device], amount);
    }
    let annotations = &mut pod["metadata"]["annotations"];
    if dice.chance(6) && annotations[NETWORKS].is_null() {
        annotations[NETWORKS] = json!(dice.pick(&[OWN_NETWORK, "own-rail-0", "[{\"name\":\"own-rail\"}]"]));
    }
    if dice.chance(12) {
        annotations[INTERFACES] = json!(dice.pick(&[
            "",
            "[]",
            "eth0",
            "[{\"i\":\"eth0\",\"net\":\"default\"}]",
            "[ {\"i\": \"eth1\", \"net\": \"other\", \"mtu\": 1.0}, {\"i\":\"eth0\"} ]",
            "[\n  {\n    \"i\": \"eth0\"\n  }\n]\n",
            "[\n  {\"i\":\"eth2\"},\n]",
            "[{i: eth1, net: r1}]",
            "- i: eth0\n  net: other\n",
            "- i: eth1 # mine\n",
        ]));
    }
}

/// The GPUs that containers have by claim; a claim that several of them use counts once.
pub(crate) fn claimed<'c>(spec: &Value, pod: &Value, containers: impl IntoIterator<Item = &'c Value>) -> i64 {
    let names = spec["gpus"]["claims"].as_object().into_iter().flatten();
    let names: Vec<(&str, i64)> = names.map(|(name, gpus)| (name.as_str(), gpus.as_i64().unwrap())).collect();
    let names = || names.iter().filter(|name| name.1 == 0).chain(names.iter().filter(|name| name.1 > 0));
    let brought = |claim: &Value| {
        let matches = |pattern: &str, key: &str| {
            let known = claim[key].as_str().unwrap_or_default();
            match pattern.strip_suffix('*') {
                Some(start) => known.starts_with(start),
                None => pattern == known || pattern.strip_prefix('*').is_some_and(|end| known.ends_with(end)),
            }
        };
        let keys = ["name", "resourceClaimName", "resourceClaimTemplateName"];
        names().find(|(name, _)| keys.iter().any(|key| matches(name, key))).map_or(0, |(_, gpus)| *gpus)
    };
    let mut counted: Vec<&Value> = Vec::new();
    let mut gpus = 0;
    for container in containers {
        for used in items(&container["resources"]["claims"]) {
            let claim =
                items(&pod["spec"]["resourceClaims"]).iter().find(|claim| claim["name"] == used["name"]);
            if !counted.contains(&&used["name"]) {
                counted.push(&used["name"]);
                gpus += claim.map_or(0, brought);
            }
        }
    }
    gpus
}

/// Whether a container requests a device of the fabric, of other names than these.
pub(crate) fn requests_device(container: &Value, but: &[&str]) -> bool {
    let limits = container["resources"]["limits"].as_object();
    limits.into_iter().flatten().any(|(name, amount)| {
        let is_device = name.starts_with("fabric.test/") && !but.contains(&name.as_str());
        is_device && *amount != json!(0) && *amount != json!("0")
    })
}

/// Whether a claim of the pod brings devices of the fabric.
pub(crate) fn brings_device(claim: &Value) -> bool {
    let names = ["name", "resourceClaimName", "resourceClaimTemplateName"];
    names.iter().any(|key| claim[*key].as_str().is_some_and(|name| name.ends_with("-nics")))
}

/// Whether a pod brings devices of the fabric, apart from those that the policy may have added.
pub(crate) fn own_devices(spec: &Value, pod: &Value) -> bool {
    if spec["devices"].is_null() {
        return false;
    }
    let added = items(&spec["devices"]["add"]);
    let keys = |key: &str| -> Vec<&str> {
        added
            .iter()
            .filter_map(|entry| entry[key].as_object())
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect()
    };
    let (resources, claims) = (keys("resources"), keys("claims"));
    let of_pod = &pod["spec"];
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| items(&of_pod[list]));
    let device = containers.into_iter().any(|container| requests_device(container, &resources));
    let is_foreign = |claim: &&Value| !claims.contains(&claim["name"].as_str().unwrap_or_default());
    let claim = items(&of_pod["resourceClaims"]).iter().filter(is_foreign).any(brings_device);
    device || claim
}
