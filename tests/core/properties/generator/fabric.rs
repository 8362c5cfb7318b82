//! Claims, devices of the pod's own, and lists that are replaced, added to policies and pods at random.

use serde_json::{Value, json};

use super::author::Author;
use super::expressions::{Expr, name};
use super::pools::{INTERFACES, NETWORKS};
use super::{Dice, items, set};

/// A resource that only pods request.
pub(crate) const OWN_DEVICE: &str = "fabric.test/vf";
/// The networks, claims and templates of pods that are devices of the fabric.
pub(crate) const OWN_NETWORK: &str = "own-rail";
const OWN_CLAIM: &str = "team-nics";

/// Adds to a policy; false if the model does not know what it asks for.
pub(crate) fn extend_policy(author: &mut Author<'_>, spec: &mut Value) -> bool {
    if author.dice.chance(15) {
        let names = author.dice.pick(&[json!(["team-gpus"]), json!(["*-gpus", "x"])]);
        spec["gpus"]["claims"] = json!({"names": names, "gpus": author.dice.pick(&[1, 4])});
    }
    replace_lists(author.dice, spec);
    if !author.dice.chance(15) {
        return true;
    }
    spec["fabric"] = json!({"resources": ["fabric.test/*"], "networks": ["own-*"], "claims": ["*-nics"]});
    let condition = author.write(Expr::Not(Box::new(name("ownFabric"))));
    let own = author.dice.chance(30);
    for rule in spec["rules"].as_array_mut().into_iter().flatten() {
        if rule["when"].is_null() && author.dice.chance(60) {
            rule["when"] = json!(condition);
        }
    }
    if own {
        let claim = json!([{"name": "nics", "resourceClaimTemplateName": "policy-nics"}]);
        let amounts = json!({"fabric.test/policy": author.dice.pick(&[json!(1), json!("${gpus}")])});
        let on_conflict = author.dice.pick(&["keep", "replace"]);
        let rule = json!({"name": "own", "when": condition, "onConflict": on_conflict,
            "container": {"resources": {"limits": amounts, "requests": amounts, "claims": [{"name": "nics"}]}},
            "pod": {"metadata": {"annotations": {NETWORKS: {"$append": ["own-rail-0", "own-rail-1"]}}},
                "spec": {"resourceClaims": claim}}});
        spec["rules"].as_array_mut().unwrap().push(rule);
    }
    !own
}

fn replace_lists(dice: &mut Dice, spec: &mut Value) {
    let tolerations = dice.chance(20).then(|| {
        dice.pick(&[
            json!([]),
            json!([{"key": "fabric", "operator": "Exists", "effect": "NoSchedule"}]),
            json!([{"key": "x", "value": "y"}, {"key": "nvidia.com/gpu", "operator": "Exists"}]),
        ])
    });
    for rule in spec["rules"].as_array_mut().into_iter().flatten() {
        let mut replaces = false;
        if dice.chance(8) && (rule["onConflict"] != "refuse") {
            rule["container"]["command"] = json!({"$replace": dice.pick(&[json!(["run"]), json!([])])});
            replaces = true;
        }
        if let (Some(list), true) = (&tolerations, !rule["pod"]["spec"]["tolerations"].is_null()) {
            set(rule, &["pod", "spec", "tolerations"], json!({"$replace": list}));
            replaces = true;
        }
        if replaces && rule["onConflict"] == "refuse" {
            rule["onConflict"] = json!("keep");
        }
    }
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
        let device = dice.pick(&[OWN_DEVICE, "fabric.test/policy"]);
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
    let brings = |target: &Value| {
        let target = target.as_str().unwrap_or_default();
        items(&spec["gpus"]["claims"]["names"]).iter().any(|name| {
            let name = name.as_str().unwrap_or_default();
            name == target || name.strip_prefix('*').is_some_and(|end| target.ends_with(end))
        })
    };
    let mut names: Vec<&Value> = Vec::new();
    for container in containers {
        for used in items(&container["resources"]["claims"]) {
            let claim =
                items(&pod["spec"]["resourceClaims"]).iter().find(|claim| claim["name"] == used["name"]);
            let brings = claim.is_some_and(|claim| {
                ["name", "resourceClaimName", "resourceClaimTemplateName"]
                    .iter()
                    .any(|key| brings(&claim[*key]))
            });
            if brings && !names.contains(&&used["name"]) {
                names.push(&used["name"]);
            }
        }
    }
    spec["gpus"]["claims"]["gpus"].as_i64().unwrap_or(0) * i64::try_from(names.len()).unwrap()
}

/// Whether a pod has a device of the fabric, where the policy adds none under such a name.
pub(crate) fn own_fabric(pod: &Value) -> bool {
    let spec = &pod["spec"];
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| items(&spec[list]));
    let device =
        containers.filter_map(|container| container["resources"]["limits"].as_object()).any(|limits| {
            limits.iter().any(|(name, amount)| {
                name.starts_with("fabric.test/") && *amount != json!(0) && *amount != json!("0")
            })
        });
    let network = pod["metadata"]["annotations"][NETWORKS].as_str().is_some_and(|text| text.contains("own-"));
    let claim = items(&spec["resourceClaims"]).iter().any(|claim| claim["resourceClaimName"] == OWN_CLAIM);
    device || network || claim
}
