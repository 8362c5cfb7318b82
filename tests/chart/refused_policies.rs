//! Policies of an operator that are wrong, each in one place: the chart refuses those that it cannot read, and no other
//! makes plain pods depend on the webhook.

use fabric_engine::policy_set::PolicySet;
use fabric_engine::registration::webhook_conditions;
use fabric_injector::builtin;
use fabric_policy::{Definition, PolicyFile, definitions};
use serde_json::{Value, json};

use crate::cases::{certificates, enabled, render, with};
use crate::conditions::of_webhook;
use crate::helm::Helm;
use crate::refused::refused;
use crate::registration::plain_pods_are_left_alone;

const TRIGGER: &str = "anyAnnotation: {lab.example/fabric: \"on\"}";

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: lab}}\nspec: {{{spec}}}\n"
    )
}

/// A policy with this `match`.
fn matching(parts: &str) -> String {
    policy(&format!(
        "provider: lab, description: d, gpus: {{resources: [nvidia.com/gpu]}}, match: {parts}, rules: [{RULE}]"
    ))
}

const RULE: &str = "{name: r, env: {A: b}}";

/// An extension of a built-in policy with this `match`.
fn extension(parts: &str) -> String {
    policy(&format!("extends: aws-efa, match: {parts}"))
}

/// As servers read it: what they say against it, if they refuse it.
fn read(text: &str) -> Result<Vec<Definition>, String> {
    let file = PolicyFile::read("lab.yaml", text).map_err(|errors| errors.to_string())?;
    definitions(&[file], builtin::files()).map_err(|errors| errors.to_string())
}

fn values(text: &str) -> Value {
    json!({"extraPolicies": {"lab.yaml": text}})
}

/// Values of keys of `match` that the chart refuses, and those that only servers refuse.
fn wrong_values_of_match() -> Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)> {
    let map =
        ["7", "true", "text", "[[a]]", "[7]", "[]", "[a]", "{a: null}", "{a: 7}", "{a: on}", "{a: [b]}"];
    let list = ["7", "true", "text", "[[a]]", "[null]", "[7]", "[on]", "{a: b}"];
    let keys = [
        "null",
        "",
        "{'a b': x}",
        "{'': x}",
        "{a/b/c: x}",
        "{a..b/c: x}",
        "{yes: x}",
        "{True: x}",
        "{1: x}",
        "{-0: x}",
        "{010: x}",
        "{1.50: x}",
        "{1e30: x}",
    ];
    let keys_and = |one: &'static str| [&keys[..], &[one]].concat();
    vec![
        ("anyAnnotation", map.to_vec(), keys_and("{a: '*'}")),
        ("exceptAnnotation", map.to_vec(), keys.to_vec()),
        ("labels", map.to_vec(), keys_and("{a: 'b c'}")),
        ("namespaces", list.to_vec(), vec!["null", "", "['*']", "[Lab]"]),
        ("ownerKinds", list.to_vec(), vec!["null", "", "[batch/v1/Job]", "[Job.-]", "[Job..x]"]),
    ]
}

/// A policy, or an extension in turn, for each value of a key of `match`.
fn with_values(key: &str, values: &[&str]) -> Vec<String> {
    let trigger = if key == "anyAnnotation" { "labels: {fabric: lab}" } else { TRIGGER };
    let text = |(at, value): (usize, &&str)| {
        let parts = format!("{{{trigger}, {key}: {value}}}");
        if at % 3 == 0 { extension(&parts) } else { matching(&parts) }
    };
    values.iter().enumerate().map(text).collect()
}

/// Policies, each with what Helm says.
fn unreadable() -> Vec<(String, &'static str)> {
    let mut cases = Vec::new();
    for (key, wrong, _) in wrong_values_of_match() {
        cases.extend(with_values(key, &wrong).into_iter().map(|text| (text, key)));
    }
    for parts in [
        "{}",
        "{anyAnnotation: {}}",
        "{exceptAnnotation: {a: b}}",
        "{namespaces: [default], ownerKinds: [Job]}",
        "{when: 'totalGpus > 1'}",
    ] {
        cases.push((matching(parts), "match"));
    }
    cases.push((extension("{anyAnnotation: {}}"), "`match` selects pods that do not request the fabric"));
    cases.push((
        extension("{anyAnnotation: {}, namespaces: [default]}"),
        "`match` selects pods that do not request the fabric",
    ));
    for parts in ["7", "text", "[a]", "[]"] {
        cases.push((matching(parts), "`spec.match` must be a map"));
        cases.push((extension(parts), "`spec.match` must be a map"));
    }
    for parts in ["null", ""] {
        cases.push((matching(parts), "`match` selects pods that do not request the fabric"));
    }
    cases.extend(unreadable_elsewhere());
    cases
}

/// The same outside of `match`.
fn unreadable_elsewhere() -> Vec<(String, &'static str)> {
    let good = matching(&format!("{{{TRIGGER}}}"));
    let mut cases = Vec::new();
    let mut replaced = |from: &str, to: &[&str], says: &'static str| {
        for to in to {
            assert!(good.contains(from));
            cases.push((good.replacen(from, to, 1), says));
        }
    };
    replaced(
        "metadata: {name: lab}",
        &["metadata: null", "metadata: lab", "metadata: [lab]"],
        "`metadata.name` must be a text",
    );
    replaced("{name: lab}", &["{}", "{name: null}", "{name: 7}", "{name: [lab]}"], "`metadata.name` must be");
    replaced("spec: {", &["specs: {"], "`spec` must be a map");
    replaced("match:", &["matches:"], "`match` selects pods that do not request the fabric");
    replaced("provider: lab", &["provider: 7", "provider: [lab]"], "`spec.provider` must be");
    replaced("[nvidia.com/gpu]", &["[7]", "nvidia.com/gpu", "{a: b}"], "spec.gpus.resources");
    replaced("provider: lab", &["extends: 7", "extends: {a: b}", "extends: [7]"], "`spec.extends` must be");
    replaced("provider: lab", &["extends: ''", "extends: [nccl, '']"], "`lab` extends ``, which is neither");
    cases.extend([
        ("spec: null\n".to_owned() + good.split_once("spec").unwrap().0, "`spec` must be a map"),
        ("a: [b".to_owned(), "there is no valid YAML"),
        ("[a, b]".to_owned(), "there is no valid YAML"),
        ("text".to_owned(), "there is no valid YAML"),
        (good.replace("lab.example/fabric", "~"), "there is no valid YAML"),
        (good.replace("lab.example/fabric", "lab\u{7f}"), "there is no valid YAML"),
        ("# nothing".to_owned(), "`metadata.name` must be "),
        (" ".to_owned(), "`metadata.name` must be "),
    ]);
    cases
}

pub(crate) fn what_the_chart_reads_of_a_policy_has_the_form_that_servers_require(helm: &Helm) {
    for (text, says) in unreadable() {
        assert!(read(&text).is_err(), "servers take it, and the chart would not:\n{text}");
        let error = refused(helm, &values(&text), &[says, "extraPolicies: ", "hint: "]);
        assert!(error.contains("in `lab.yaml`, ") || error.contains("`lab` extends "), "{error}");
        assert!(error.contains("execution error"), "an error of a template instead of a sentence: {error}");
    }
    // To the chart, these are parts of policies.
    let good = matching(&format!("{{{TRIGGER}}}"));
    for provider in ["", "provider: null, ", "extends: null, ", "extends: [nccl], ", "extends: nccl, "] {
        let text = good.replace("provider: lab, ", provider);
        assert!(read(&text).is_err(), "{text}");
        refused(helm, &values(&text), &["no provider is enabled", "policies of your own, with a `provider`"]);
    }
    let text = matching(&format!("{{{TRIGGER}}}"));
    for file in ["lab.txt", ".lab.yaml", "a/lab.yaml", "yaml"] {
        let extra = json!({"extraPolicies": {file: text}});
        refused(helm, &extra, &["/extraPolicies'", &format!("invalid propertyName '{file}'")]);
    }
    refused(helm, &values(""), &["extraPolicies"]);
    let object = json!({"extraPolicies": {"lab.yaml": {"kind": "FabricPolicy"}}});
    refused(helm, &object, &["got object, want string"]);
}

/// Policies that the servers refuse for what only they read.
fn refused_by_servers() -> Vec<String> {
    let good = matching(&format!("{{{TRIGGER}}}"));
    let all = [
        good.replace(RULE, ""),
        good.replace(&format!("[{RULE}]"), "7"),
        good.replace("A: b", "A: '${nothing}'"),
        good.replace("A: b", "A: '${1 + }'"),
        good.replace("env:", "enf:"),
        good.replace("provider: lab", "provider: lab, variable: {a: b}"),
        good.replace("description: d, ", ""),
        good.replace("match: {", "match: {when: 'nothing', "),
        // YAML reads the last of two keys, or neither.
        good.replace("match: {", "match: {namespaces: [default]}, match: {"),
        good.replace("match: {", &format!("match: {{{TRIGGER}, ")),
        good.replace("\"on\"}", "\"on\", lab.example/fabric: other}"),
        good.replace(TRIGGER, &format!("{TRIGGER}, labels: {{a: b}}, labels: {{a: c}}")),
        good.replace(TRIGGER, &format!("{TRIGGER}, namespaces: [default], namespaces: [lab]")),
        good.replace("metadata: {", "metadata: {name: other, "),
        extension("{namespaces: [default]}, rules: [{name: nccl}]"),
        extension("{labels: {a: b}}, description: 7"),
        extension("{labels: {a: b}}, fabric: {resources: [a]}"),
        extension("{labels: {a: b}}, gpus: {claims: null}"),
        good.replace("{name: lab}", "{name: lab, labels: {}}"),
        good.replace("spec: {", "status: {}\nspec: {"),
        good.replace("provider: lab", "extends: aws-efa, provider: aws"),
        good.replace("{name: lab}", "{name: Lab}"),
        good.replace("kind: FabricPolicy\n", ""),
        good.replace("FabricPolicy", "ConfigMap"),
        good.replace("FabricPolicy", "[a]"),
        good.replace("v1alpha1", "v2"),
        good.replace("apiVersion: fabric-injector.io/v1alpha1\n", ""),
        good.replace("provider: lab", "provider: ' '"),
        good.replace("gpus:", "gpu:"),
        good.replace("[nvidia.com/gpu]", "null"),
        good.replace("[nvidia.com/gpu]", "[]"),
        good.replace("[nvidia.com/gpu]", "['']"),
        extension("null"),
        format!("{good}---\n{good}"),
        format!("{good}...\n---\na: b\n"),
    ];
    // What follows a line separator is a comment for some readers, and a key for Helm.
    let separated =
        ["\u{85}", "\u{2028}", "\u{2029}"].map(|separator| format!("{good}# {separator}kind: Other\n"));
    let values = wrong_values_of_match().into_iter().flat_map(|(key, _, wrong)| {
        let trigger = if key == "anyAnnotation" { "labels: {fabric: lab}" } else { TRIGGER };
        let misspelled = format!("{{{trigger}, {}: {{a: b}}}}", &key[..key.len() - 1]);
        with_values(key, &wrong).into_iter().chain([matching(&misspelled), extension(&misspelled)])
    });
    let conditions = ["null", "7", "[[a]]", "{a: b}", "[]", "'${totalGpus > 0}'"];
    let conditions = conditions.map(|when| matching(&format!("{{{TRIGGER}, when: {when}}}")));
    let parameters = [
        "null",
        "[a]",
        "{a: null}",
        "{a: 7}",
        "{a: {type: int, description: d}}",
        "{a: {type: [string], description: d}}",
        "{a: {description: d}}",
        "{a: {type: integer, description: d, minimum: x}}",
        "{a: {type: stringList, description: d, maximum: '3'}}",
        "{a: {type: string, description: d, enum: [7]}}",
    ];
    let parameters =
        parameters.map(|one| good.replace("provider: lab", &format!("provider: lab, parameters: {one}")));
    let all = all.into_iter().chain(separated).chain(values).chain(conditions).chain(parameters);
    let all: Vec<String> = all.collect();
    assert!(all.iter().all(|text| *text != good));
    all
}

pub(crate) fn a_policy_that_only_servers_refuse_leaves_plain_pods_alone(helm: &Helm) {
    for (at, text) in refused_by_servers().into_iter().enumerate() {
        assert!(read(&text).is_err(), "{text}");
        let values = with(values(&text), &certificates()[at % 4]);
        let objects = render(helm, &values);
        plain_pods_are_left_alone(&objects);
        assert!(of_webhook(&objects)[0].1.contains(" in object.metadata."), "{text}");
    }
}

pub(crate) fn what_a_policy_may_have_is_taken(helm: &Helm) {
    let all = [
        format!("---\n# One policy.\n{}...\n", matching(&format!("{{{TRIGGER}}}"))),
        matching("{labels: {fabric: '', lab.example/tier: gold}}"),
        matching(
            "{anyAnnotation: {Lab.Example/Fabric: ''}, labels: {a: b}, namespaces: ['7'], ownerKinds: [Job.batch]}",
        ),
        matching("{anyAnnotation: {a: '**', 'y': 'yes', 7a: \"---\\n...\"}, when: ' totalGpus > 1'}"),
        // Without the quotes, servers refuse them.
        matching("{anyAnnotation: {'true': x, \"1\": x, '1e3': x, '010': x}}"),
        // Characters that YAML does not take unless they are escaped.
        matching(
            "{anyAnnotation: {a: \"\\x7f\\u0085\\ufeff\\uffff\\U0001fffe\"}, exceptAnnotation: {b: \"\\e\\L\\P\\0\"}}",
        ),
        matching("{anyAnnotation: {a: b}, exceptAnnotation: {c: '', d: '*'}}"),
        matching(&format!("{{{TRIGGER}}}")).replace(
            "provider: lab",
            "provider: lab, nodes: {providerIDs: ['lab://*'], labels: {lab.example/*: '*'}}",
        ),
        matching(&format!(
            "{{{TRIGGER}, exceptAnnotation: {{}}, labels: {{}}, namespaces: [], ownerKinds: []}}"
        )),
        extension("{exceptAnnotation: {}}"),
        extension("{anyAnnotation: {}, labels: {a: b}}"),
        policy("extends: aws-efa, parameters: {efaDevicesPerGPU: {minimum: 0, maximum: 4}}"),
        policy("extends: [aws-efa, nccl], parameters: {efaDevicesPerGPU: {minimum: 0, maximum: 4}}"),
    ];
    for text in all {
        let mut read = read(&text).unwrap_or_else(|error| panic!("{error}"));
        if text.contains("extends") {
            read.push(builtin::find("aws-efa").unwrap().definition().unwrap());
        }
        let values =
            if text.contains("extends") { with(enabled("aws"), &values(&text)) } else { values(&text) };
        let objects = render(helm, &values);
        plain_pods_are_left_alone(&objects);
        let policies = read.into_iter().map(|definition| (definition, std::collections::BTreeMap::new()));
        let policies = PolicySet::new(policies.collect()).unwrap();
        let wanted = webhook_conditions(&policies).map(|one| (one.name.to_owned(), one.expression));
        assert_eq!(of_webhook(&objects), wanted, "{text}");
    }
}

/// Helm takes the last of a key that is written out and merged; the servers, the one that is written out.
pub(crate) fn what_yaml_merges_is_written_out(helm: &Helm) {
    for merged in [
        "{anyAnnotation: {a/x: \"true\"}, <<: {anyAnnotation: {b/x: \"true\"}}}",
        "{anyAnnotation: {a/x: \"true\"}, labels: {team: one, \"<<\": {team: two}}}",
    ] {
        refused(helm, &values(&matching(merged)), &["in `lab.yaml`, there is a merge key (`<<`)", "hint: "]);
    }
}
