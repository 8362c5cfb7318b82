//! The built-in policies with generated pods, and with a Pod that has every field which the Kubernetes API knows.

use serde_json::{Value, json};

use crate::helpers::TRIGGER;

use super::adapter::{self, Context, Loaded, Result as Outcome};
use super::all::ALL;
use super::full_pod;
use super::generator::policies::Policy;
use super::generator::pools::INSTANCE_TYPE;
use super::generator::{Dice, pods};
use super::lost;
use super::pair::{Group, Pair};
use super::pairs::{number, number_of_pairs};

/// A pod that the built-in policies match, with what they add in part.
fn pod(dice: &mut Dice) -> Value {
    let mut pod = pods::pod(dice);
    pod["metadata"]["annotations"][TRIGGER] = json!("true");
    let types =
        ["p5.48xlarge", "ml.p4d.24xlarge", "Standard_ND96isr_H100_v5", "BM.GPU.H100.8", "a3-megagpu-8g"];
    if dice.chance(60) {
        pod["spec"]["nodeSelector"] = json!({INSTANCE_TYPE: dice.pick(&types)});
    }
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let limits = container["resources"].get_mut("limits").and_then(Value::as_object_mut);
            for (device, limits) in dice.some(&adapter::DEVICES, 15).into_iter().zip(limits) {
                limits.insert(device.to_owned(), json!(2));
            }
        }
    }
    pod
}

fn groups() -> Vec<Group> {
    let group =
        |(text, loaded)| Group { policy: Policy::unknown(), text, loaded, permuted: None, curious: None };
    adapter::built_in().into_iter().map(group).collect()
}

#[test]
fn every_property_holds_for_the_built_in_policies() {
    let mut dice = Dice::new(number("FABRIC_SEED", 1));
    let groups = groups();
    for _ in 0..number_of_pairs() / 10 {
        let pod = pod(&mut dice);
        for group in &groups {
            let pair = Pair::new(group, pod.clone(), Context::default());
            assert_eq!(pair.refusals, Vec::<String>::new(), "the generator makes valid pods: {pod}");
            for (name, property) in ALL {
                if let Err(failure) = property(&pair) {
                    panic!("{name} [{}]: {}\n{pod}", failure.class, failure.detail);
                }
            }
        }
    }
}

fn mutated(policies: &Loaded, pod: &Value) -> Option<(Value, String, json_patch::Patch)> {
    match adapter::inject(policies, pod, &Context::default()).outcome {
        Outcome::Mutated { pod, stamp, patch, .. } => Some((pod, stamp, patch)),
        _ => None,
    }
}

/// A GPU container that another webhook adds in between is injected, and only it.
#[test]
fn a_container_added_in_between_is_injected_and_only_it() {
    let mut dice = Dice::new(number("FABRIC_SEED", 1));
    let groups = groups();
    let mut injected = 0;
    for _ in 0..number_of_pairs() / 10 {
        let pod = pod(&mut dice);
        for Group { loaded, .. } in &groups {
            let Some((mut pod, stamp, _)) = mutated(loaded, &pod) else { continue };
            injected += 1;
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers.push(
                json!({"name": "added-later", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}),
            );
            let own = format!("/spec/containers/{}/", containers.len() - 1);
            let (pod, again, patch) = mutated(loaded, &pod).expect("the new container is injected");
            let pointers: Vec<String> =
                patch.0.iter().map(|operation| operation.path().to_string()).collect();
            for pointer in &pointers {
                let elsewhere = pointer.starts_with("/spec/containers/") && !pointer.starts_with(&own);
                assert!(!elsewhere, "{pointer} is changed again");
            }
            assert!(pointers.iter().any(|pointer| pointer.starts_with(&own)));
            assert_eq!(stamp, again);
            assert!(mutated(loaded, &pod).is_none());
        }
    }
    assert!(injected > number_of_pairs() / 4, "{injected} pods are injected");
}

/// A Pod with every field that the API's own types describe, and fields that no release knows, survives untouched
/// apart from the additions.
#[test]
fn a_fully_populated_pod_survives() {
    let pod = full_pod::full_pod();
    assert!(full_pod::count_fields(&pod) > 700, "{} fields", full_pod::count_fields(&pod));
    let groups = groups();
    // The others are for nodes that the pod does not select.
    let injected = groups.iter().filter_map(|Group { loaded, .. }| mutated(loaded, &pod)).collect::<Vec<_>>();
    assert!(injected.len() >= 9, "{} policies", injected.len());
    for (after, _, patch) in injected {
        assert_eq!(lost::lost(&pod, &after), Vec::new());
        assert!(!patch.0.is_empty());
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, after);
    }
}
