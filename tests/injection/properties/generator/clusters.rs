//! The nodes of a cluster, with the labels and devices that policies and pods of these tests know.

use serde_json::{Value, json};

use super::Dice;
use super::pools::{GPU, INSTANCE_TYPE, INSTANCE_TYPES, POOL, POOLS};

pub(crate) fn nodes(dice: &mut Dice) -> Vec<Value> {
    (0..dice.below(4)).map(|at| node(dice, at)).collect()
}

fn node(dice: &mut Dice, at: usize) -> Value {
    let mut labels = json!({});
    for (label, values) in [(INSTANCE_TYPE, &INSTANCE_TYPES[..]), (POOL, &POOLS[..])] {
        if dice.chance(80) {
            labels[label] = json!(dice.pick(values));
        }
    }
    let devices = dice.pick(&["rdma/hca", "fabric.test/policy-0", "example.com/nic"]);
    let capacity = json!({GPU: dice.pick(&["8", "8", "16"]), devices: dice.pick(&["8", "4", "0"])});
    json!({
        "kind": "Node", "metadata": {"name": format!("n{at}"), "labels": labels}, "spec": {},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}
