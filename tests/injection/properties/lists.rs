//! The devices of a list in pods with containers of all kinds, some of which request devices themselves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use fabric_engine::{Mutation, Outcome, Reason};

use crate::helpers::{gpu_container, inject, policy, set};

use super::generator::{Dice, items};
use super::pairs::number;

const NAMES: [&str; 6] = ["rdma/a", "rdma/b", "rdma/c", "rdma/d", "rdma/e", "rdma/f"];
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

fn pod(dice: &mut Dice) -> Value {
    let brings = dice.chance(60);
    let mut list = |name: &str, most: usize| -> Value {
        let container = |at: usize| {
            let gpus = dice.below(4);
            let mut container = gpu_container(&format!("{name}-{at}"), u32::try_from(gpus).unwrap());
            let own = if brings && dice.chance(40) { dice.some(&NAMES, 30) } else { Vec::new() };
            for device in own {
                let amount = dice.pick(&[json!(1), json!("1"), json!(2), json!(0)]);
                for amounts in ["limits", "requests"] {
                    container["resources"][amounts][device] = amount.clone();
                }
            }
            if name == "i" && dice.chance(50) {
                container["restartPolicy"] = json!("Always");
            }
            container
        };
        (0..most).map(container).collect()
    };
    let spec = json!({"initContainers": list("i", 2), "containers": list("c", 3)});
    json!({"metadata": {"name": "p", "labels": {"fabric": "fast"}}, "spec": spec})
}

/// The containers of a pod, each with the names of the list that it requests, and whether it ends before others start.
fn requested(pod: &Value) -> Vec<(&Value, BTreeSet<&'static str>, bool)> {
    let of_list = |list: &'static str| {
        items(&pod["spec"][list]).iter().map(move |container| {
            let amount = |name: &&str| container["resources"]["limits"][*name].clone();
            let has = |name: &&str| ![Value::Null, json!(0), json!("0")].contains(&amount(name));
            let ends = list == "initContainers" && container["restartPolicy"].is_null();
            (container, NAMES.into_iter().filter(has).collect(), ends)
        })
    };
    of_list("initContainers").chain(of_list("containers")).collect()
}

#[test]
fn containers_share_a_list_and_keep_what_they_bring() {
    let networks = NAMES.map(|name| name.replace("rdma/", "n"));
    let body = format!(
        "  devices: {{resources: ['rdma/*'], add: [{{name: nics, resources: {{\"${{{}}}\": '${{gpus}}'}}, networks: {}}}]}}\n",
        json!(NAMES).to_string().replace('"', "'"),
        json!(networks),
    );
    let policies = set(vec![policy("test", "labels: {fabric: fast}", &body)]);
    let mut dice = Dice::new(number("FABRIC_SEED", 1));
    let (mut shared, mut kept, mut short) = (0, 0, 0);
    for _ in 0..2_000 {
        let before = pod(&mut dice);
        let first = inject(&policies, before.clone());
        let Outcome::Mutated(mutated) = &first.outcome else { continue };
        let after = &mutated.pod;
        let again = inject(&policies, after.clone());
        // Of a container with fewer devices than it needs, the second call cannot tell whether it brought them.
        let warned = |mutation: &Mutation| -> BTreeSet<String> {
            let containers =
                mutation.warnings.iter().filter_map(|warning| warning.path.split(".resources").next());
            containers.map(str::to_owned).collect()
        };
        let same = matches!(again.outcome, Outcome::Unchanged { reason: Reason::NothingToAdd, .. });
        assert!(same && warned(&again) == warned(&first), "{before}\n{first:#?}\n{again:#?}");
        let (own, given) = (requested(&before), requested(after));
        for (at, (container, names, ends)) in given.iter().enumerate() {
            let gpus = container["resources"]["limits"]["nvidia.com/gpu"].as_str().unwrap_or("0");
            let wanted: usize = gpus.parse().unwrap();
            let (container, brought, _) = &own[at];
            if !brought.is_empty() || wanted == 0 {
                assert_eq!(names, brought, "{before}\n{after}");
                kept += usize::from(!brought.is_empty());
                continue;
            }
            // Those that run next to it: for an init container that ends, the sidecars before it.
            let beside = |other: usize| other != at && !given[other].2 && (!ends || other < at);
            let others: BTreeSet<&str> = (0..given.len())
                .filter(|other| beside(*other))
                .flat_map(|other| given[other].1.clone())
                .collect();
            assert!(names.is_disjoint(&others) && names.len() <= wanted, "{before}\n{after}");
            let left = NAMES.iter().filter(|name| !others.contains(*name)).count();
            let denies = NAMES.iter().any(|name| !container["resources"]["limits"][*name].is_null());
            assert!(denies || *ends || names.len() == wanted.min(left), "{before}\n{after}");
            shared += usize::from(!others.is_empty());
            short += usize::from(names.len() < wanted);
        }
        let all: BTreeSet<&str> = given.iter().flat_map(|(_, names, _)| names.iter().copied()).collect();
        let attached: Vec<String> = all.iter().map(|name| name.replace("rdma/", "n")).collect();
        let expected = if attached.is_empty() { Value::Null } else { json!(attached.join(",")) };
        assert_eq!(after["metadata"]["annotations"][NETWORKS], expected, "{before}");
    }
    assert!(shared > 500 && kept > 500 && short > 50, "{shared} {kept} {short}");
}
