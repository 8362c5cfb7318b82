//! Helm and the program generate the same conditions, so that neither undoes what the other wrote.

use std::collections::BTreeMap;

use fabric_injector::core::policy::Definition;
use fabric_injector::core::policy_set::PolicySet;
use fabric_injector::core::registration::{Condition, guard_conditions, webhook_condition};
use fabric_injector::shell::builtin;
use serde_json::json;

use crate::cases::{PROVIDERS, enabled, lab_policy, render, with};
use crate::conditions::{Conditions, of_guard, of_webhook};
use crate::helm::Helm;
use crate::objects::Objects;

fn text(condition: Condition) -> (String, String) {
    (condition.name.to_owned(), condition.expression)
}

#[track_caller]
fn agree(objects: &Objects, definitions: Vec<Definition>) {
    let definitions = definitions.into_iter().map(|definition| (definition, BTreeMap::new())).collect();
    let policies = PolicySet::new(definitions).unwrap();
    assert_eq!(of_webhook(objects), [text(webhook_condition(&policies))]);
    let guard: Conditions = of_guard(objects).into_iter().take(2).collect();
    assert_eq!(guard, guard_conditions(&policies).map(text));
}

pub(crate) fn helm_and_the_program_agree_about_every_built_in_policy(helm: &Helm) {
    for (provider, policy) in PROVIDERS {
        let definition = builtin::find(policy).unwrap().definition().unwrap();
        agree(&render(helm, &enabled(provider)), vec![definition]);
    }
}

pub(crate) fn helm_and_the_program_agree_about_policies_of_an_operator(helm: &Helm) {
    let values = json!({"extraPolicies": {"lab.yaml": lab_policy("aws")}});
    let lab = || Definition::read("lab.yaml", &lab_policy("aws")).unwrap();
    agree(&render(helm, &values), vec![lab()]);
    let aws = builtin::find("aws-efa").unwrap().definition().unwrap();
    agree(&render(helm, &with(enabled("aws"), &values)), vec![lab(), aws]);
}
