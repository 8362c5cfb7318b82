//! An expression reads what is there: alone, it has the value that it has next to one that reads the whole pod.
//!
//! An analysis finds the parts of a pod that expressions may see, because the whole of a pod takes ten times as long to
//! convert. Where the analysis is not sure, expressions see the whole.

mod author;
mod kinds;

use std::collections::BTreeMap;

use fabric_engine::Outcome;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::Definition;
use serde_json::{Value, json};

use crate::golden::masked::without_digests;
use crate::helpers::{inject, lab};
use crate::properties::generator::Dice;
use author::Author;
use kinds::Kind;

const EXPRESSIONS: u64 = 2_000;

/// The containers of each pod.
const CONTAINERS: usize = 3;

/// No sample pod has as many GPUs, so that expressions without a value for a sample load, too.
const MATCHER: &str = "labels: {fabric: fast}\n    when: totalGpus == 3";

/// What the pods have already: an addition would be seen by expressions of a second run.
const RULES: &str = "  rules:\n    - {name: base, pod: {spec: {schedulerName: gang}}}\n";

/// The check that reads all there is.
const WHOLE: &str = "    - {name: whole, containers: size(pod) < 0 || size(container) < 0 || size(containerEnv) < 0 || \
                     size(node) < 0, message: never}\n";

/// A pod with every field that the expressions read.
fn full_pod() -> Value {
    let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 5});
    let volumes = json!([
        {"name": "data", "hostPath": {"path": "/data"}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]);
    let container = |name: &str, gpus: &str| {
        let amounts = json!({"nvidia.com/gpu": gpus, "memory": "64Gi"});
        json!({
            "name": name, "image": "registry.test/train:1", "command": ["sh", "-c", "run"], "tty": true,
            "env": [{"name": "MINE", "value": "a"},
                {"name": "pool", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/dev/shm"}],
            "securityContext": {"runAsUser": 1000, "runAsNonRoot": true},
            "livenessProbe": probe,
            "resources": {"limits": amounts, "requests": amounts},
        })
    };
    json!({
        "metadata": {"name": "train", "namespace": "team", "labels": {"fabric": "fast", "app": "a", "MINE": "a"},
            "annotations": {"app": "train", "memory": ""}},
        "spec": {
            "containers": [container("train", "2"), container("side", "1")],
            "initContainers": [container("first", "0")],
            "volumes": volumes, "nodeSelector": {"pool": "Fast", "app": "x"},
            "tolerations": [{"key": "app", "operator": "Exists"}, {"key": "pool", "value": "Fast", "effect": "NoSchedule"}],
            "securityContext": {"runAsUser": 0, "runAsNonRoot": false},
            "schedulerName": "gang", "hostIPC": true, "restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
        },
    })
}

/// The pod without some of its fields, and with `null` in place of others.
fn thinned(dice: &mut Dice, value: &mut Value) {
    const KEPT: [&str; 10] = [
        "schedulerName",
        "metadata",
        "labels",
        "fabric",
        "spec",
        "containers",
        "name",
        "resources",
        "limits",
        "nvidia.com/gpu",
    ];
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let kept = KEPT.contains(&key.as_str());
            if !kept && dice.chance(4) {
                *value = Value::Null;
            } else {
                thinned(dice, value);
            }
            kept || !dice.chance(4)
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| thinned(dice, item)),
        _ => {}
    }
}

/// A policy that reports the value of an expression, or in which containers it is true.
fn checks(expression: &str, form: usize) -> String {
    let quoted = |text: &str| json!(text).to_string();
    let probe = |condition: &str, message: &str| {
        format!("  checks:\n    - {{name: probe, containers: {condition}, message: {}}}\n", quoted(message))
    };
    match form {
        0 => probe(&quoted(expression), "true"),
        1 => probe("'true'", &format!("${{{expression}}}")),
        _ => {
            let variable = format!("  variables:\n    found: {}\n", quoted(&format!("${{{expression}}}")));
            variable + &probe("'true'", "${found}")
        }
    }
}

/// The policy with these checks; the codes of the errors if it does not load.
fn load(checks: &str) -> Result<PolicySet, String> {
    let text = lab("test", MATCHER, &format!("{checks}{RULES}"));
    let definition = Definition::read("test.yaml", &text).map_err(|errors| errors.to_string())?;
    PolicySet::new(vec![(definition, BTreeMap::new())]).map_err(|errors| errors.to_string())
}

/// What a policy reports of a pod; an error for a pod for which the expression has no value.
fn reported(policies: &PolicySet, pod: &Value) -> Result<Vec<String>, String> {
    let mutation = inject(policies, pod.clone());
    match mutation.outcome {
        Outcome::Refused { reason } => Err(reason.to_string()),
        _ => Ok(mutation
            .warnings
            .iter()
            .map(|warning| format!("{} {warning}", warning.path))
            .map(|text| without_digests(&text))
            .collect()),
    }
}

/// Numbers of pods, by what an expression comes to for them.
#[derive(Debug, Default)]
struct Tally {
    with_value: usize,
    without_value: usize,
    /// Those with a container for which a condition holds, and with one for which it does not.
    holds: usize,
    fails: usize,
    /// The expressions that no policy can have.
    refused: Vec<String>,
}

impl Tally {
    fn add(&mut self, form: usize, reported: &Result<Vec<String>, String>) {
        let Ok(values) = reported else {
            self.without_value += 1;
            return;
        };
        self.with_value += 1;
        self.holds += usize::from(values.iter().any(|value| value.ends_with(": true")));
        let is_false = |value: &String| value.ends_with(": false");
        self.fails += usize::from(values.iter().any(is_false) || form == 0 && values.len() < CONTAINERS);
    }
}

/// The differences between an expression alone and beside one that reads the whole pod.
fn differences(seed: u64, tally: &mut Tally) -> Option<String> {
    let mut dice = Dice::new(seed);
    let form = dice.below(3);
    let kind = (form == 0 || dice.chance(50)).then_some(Kind::Flag);
    let expression = Author::new(&mut dice).expression(kind);
    let alone = checks(&expression, form);
    let (alone, beside) = match (load(&alone), load(&format!("{alone}{WHOLE}"))) {
        (Ok(alone), Ok(beside)) => (alone, beside),
        (Err(error), Err(_)) => {
            tally.refused.push(error);
            return None;
        }
        (alone, beside) => {
            let [alone, beside] = [alone, beside].map(Result::err);
            return Some(format!("{seed}: {expression}\n  {alone:?}\n  {beside:?}"));
        }
    };
    let mut pods = [full_pod(), full_pod(), full_pod()];
    pods.iter_mut().skip(1).for_each(|pod| thinned(&mut dice, pod));
    pods.iter().find_map(|pod| {
        let (alone, beside) = (reported(&alone, pod), reported(&beside, pod));
        tally.add(form, &alone);
        (alone != beside).then(|| format!("{seed}: {expression}\n  {alone:?}\n  {beside:?}\n  {pod}"))
    })
}

#[test]
fn an_expression_has_the_same_value_beside_one_that_reads_the_whole_pod() {
    let mut tally = Tally::default();
    let different: Vec<String> = (1..=EXPRESSIONS).filter_map(|seed| differences(seed, &mut tally)).collect();
    println!("{tally:#?}");
    let Tally { with_value, without_value, holds, fails, refused } = tally;
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    assert!(refused.len() < 40, "policies can have most of the expressions");
    assert!(with_value > 5 * without_value, "most expressions have a value for most pods");
    assert!(holds > 1_000 && fails > 1_000, "conditions hold, and others do not");
}
