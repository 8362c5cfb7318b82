//! Policies and pods of a few lines, for which every property has to hold.

use serde_json::{Value, json};

use super::adapter::{Context, Injection, Result as Outcome};
use super::all::ALL;
use super::generator::policies::Policy;
use super::generator::pools::{GPU, TRIGGER};
use super::generator::yaml;
use super::pair::{Group, Pair};

/// A policy with these rules for triggered pods.
pub(crate) fn policy(rules: &Value) -> Value {
    json!({
        "apiVersion": "fabric-injector.io/v1alpha1", "kind": "FabricPolicy", "metadata": {"name": "generated"},
        "spec": {
            "provider": "test", "description": "A counterexample", "gpus": {"resources": [GPU]},
            "match": {"anyAnnotation": {TRIGGER: "true"}}, "rules": rules,
        },
    })
}

/// A triggered pod.
pub(crate) fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {TRIGGER: "true"}}, "spec": spec})
}

/// A container with a GPU and these fields.
pub(crate) fn container(name: &str, fields: &Value) -> Value {
    let mut container =
        json!({"name": name, "image": "registry.test/train:1", "resources": {"limits": {GPU: 1}}});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    container
}

pub(crate) fn one(fields: &Value) -> Value {
    pod(&json!({"containers": [container("main", fields)]}))
}

/// Checks every property that needs no model of the expressions. The policy has to load.
pub(crate) fn holds(rules: &Value, pod: &Value) -> Injection {
    let policy = Policy::of(policy(rules));
    let group = Group::load(&policy).unwrap_or_else(|why| panic!("{why}\n{}", policy.text()));
    let context = Context { namespace: Some("default".to_owned()), ..Context::default() };
    let pair = Pair::new(&group, pod.clone(), context);
    for (name, property) in ALL {
        if let Err(failure) = property(&pair) {
            panic!("{name} [{}]: {}\n{}{}", failure.class, failure.detail, policy.text(), yaml::text(pod));
        }
    }
    pair.first
}

/// Fails unless the policy does not load, and the error says this.
pub(crate) fn refused(rules: &Value, says: &str) {
    let policy = Policy::of(policy(rules));
    let Err(why) = Group::load(&policy) else { panic!("the policy loads:\n{}", policy.text()) };
    assert!(why.contains(says), "no `{says}` in: {why}");
}

pub(crate) fn after(injection: &Injection) -> &Value {
    match &injection.outcome {
        Outcome::Mutated { pod, .. } | Outcome::Skipped { pod, .. } | Outcome::Unchanged { pod, .. } => pod,
        Outcome::Refused { text, .. } => panic!("refused: {text}"),
    }
}

pub(crate) fn main_container(injection: &Injection) -> &Value {
    &after(injection)["spec"]["containers"][0]
}
