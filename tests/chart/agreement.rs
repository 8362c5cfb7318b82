//! Helm and the program generate the same conditions, whichever of them installs the webhook.

use std::collections::BTreeMap;

use fabric_engine::policy_set::PolicySet;
use fabric_engine::registration::{Condition, advice_condition, guard_conditions, webhook_conditions};
use fabric_injector::builtin;
use fabric_policy::{Definition, PolicyFile, definitions};
use serde_json::json;

use crate::cases::{enabled, lab_policy, providers, render, with};
use crate::conditions::{Conditions, of_advice, of_guard, of_webhook};
use crate::helm::Helm;
use crate::objects::Objects;

fn text(condition: Condition) -> (String, String) {
    (condition.name.to_owned(), condition.expression)
}

#[track_caller]
fn agree(objects: &Objects, definitions: Vec<Definition>) {
    let definitions = definitions.into_iter().map(|definition| (definition, BTreeMap::new())).collect();
    let policies = PolicySet::new(definitions).unwrap();
    assert_eq!(of_webhook(objects), webhook_conditions(&policies).map(text));
    let guard: Conditions = of_guard(objects).into_iter().take(3).collect();
    assert_eq!(guard, guard_conditions(&policies).map(text));
    let of_policies = of_advice(objects).pop().unwrap();
    assert_eq!(of_policies, text(advice_condition(&policies)));
}

pub(crate) fn helm_and_the_program_agree_about_every_built_in_policy(helm: &Helm) {
    for (provider, definitions) in providers() {
        agree(&render(helm, &enabled(&provider)), definitions);
    }
}

pub(crate) fn helm_and_the_program_agree_about_policies_of_an_operator(helm: &Helm) {
    let values = json!({"extraPolicies": {"lab.yaml": lab_policy("aws")}});
    let lab = || Definition::read("lab.yaml", &lab_policy("aws")).unwrap();
    agree(&render(helm, &values), vec![lab()]);
    let aws = builtin::find("aws-efa").unwrap().definition().unwrap();
    agree(&render(helm, &with(enabled("aws"), &values)), vec![lab(), aws]);
}

/// An extension of a built-in policy with a key of its own in `match`.
const EXTENSION: &str = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: our-efa}
spec:
  extends: aws-efa
  match:
    exceptAnnotation: {ours: '*'}
  rules:
    - {name: ours, env: {OURS: \"1\"}}
";

pub(crate) fn helm_and_the_program_agree_about_extensions(helm: &Helm) {
    let second = EXTENSION
        .replace("extends: aws-efa", "extends: our-efa")
        .replace("name: our-efa", "name: our-second")
        .replace("exceptAnnotation: {ours: '*'}", "namespaces: [research]")
        .replace("name: ours", "name: second");
    let read = |text: &str| PolicyFile::read("ours.yaml", text).unwrap();
    // A policy of parts, and a part of its own.
    let part = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: ours}\nspec:\n  \
                extends: nccl\n  gpus: {resources: [lab.example/gpu]}\n";
    let parts = lab_policy("aws")
        .replace("  provider: ", "  extends: [ours, nccl-file, shared-memory]\n  provider: ")
        .replace("  gpus: {resources: [nvidia.com/gpu, lab.example/gpu]}\n", "");
    for texts in [vec![EXTENSION], vec![EXTENSION, &second], vec![part, &parts, EXTENSION]] {
        let files: Vec<PolicyFile> = texts.iter().map(|text| read(text)).collect();
        let extra: serde_json::Map<_, _> =
            texts.iter().enumerate().map(|(at, text)| (format!("{at}.yaml"), json!(text))).collect();
        for with_base in [false, true] {
            let values = if with_base { enabled("aws") } else { json!({}) };
            let objects = render(helm, &with(values, &json!({"extraPolicies": extra})));
            let mut in_use = definitions(&files, builtin::files()).unwrap();
            if with_base {
                in_use.push(builtin::find("aws-efa").unwrap().definition().unwrap());
            }
            agree(&objects, in_use);
            let server = &objects.the("Deployment")["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(
                server["args"].to_string().contains("--policy=aws-efa"),
                with_base,
                "{}",
                server["args"]
            );
        }
    }
}
