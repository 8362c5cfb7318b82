//! Names that an operator chooses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cases::{certificates, enabled, providers, render, with};
use crate::helm::Helm;
use crate::objects::{identity, read_objects, selects};

/// What has to be a string is one, also where YAML would read the name as a number.
pub(crate) fn names_that_look_like_numbers_are_names(helm: &Helm) {
    let numbers = json!({
        "nameOverride": "34", "serviceAccount": {"name": "56"}, "priorityClassName": "78",
        "webhook": {"excludedNamespaces": ["90", "true"]}, "test": {"namespace": "11"},
        "dashboard": {"enabled": true}, "serviceMonitor": {"enabled": true},
        "prometheusRule": {"enabled": true}, "extraPolicies": {"1.yaml": crate::cases::lab_policy("aws")},
    });
    // The name of a Service begins with a letter, and YAML 1.1 reads this one as a boolean.
    let named = json!({"fullnameOverride": "on"});
    for certificate in certificates() {
        for values in [certificate.clone(), with(certificate, &numbers)] {
            let text = helm.template_in("123", "456", &with(enabled("aws"), &with(values, &named))).unwrap();
            let objects = read_objects(&text);
            assert!(objects.0.len() > 10);
            for object in &objects.0 {
                names(&identity(object), object);
                let labels = &object["metadata"]["labels"];
                assert_eq!(labels["app.kubernetes.io/instance"], "123", "{}", identity(object));
                assert!(labels.as_object().unwrap().values().all(Value::is_string), "{labels}");
            }
            let deployment = objects.the("Deployment");
            assert_eq!(deployment["metadata"]["namespace"], "456");
            let selector = &deployment["spec"]["selector"]["matchLabels"];
            assert!(selects(selector, &objects.pod()["metadata"]["labels"]));
            let webhook = &objects.the("MutatingWebhookConfiguration")["webhooks"][0];
            let excluded = &webhook["namespaceSelector"]["matchExpressions"][0]["values"];
            assert!(excluded.as_array().unwrap().contains(&json!("456")), "{excluded}");
        }
    }
}

/// Whatever stands where a name does is a string.
fn names(place: &str, value: &Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let of_names = ["resourceNames", "values", "matchLabels"].contains(&key.as_str());
                let is_name = key.to_lowercase().ends_with("name") || key == "namespace";
                if is_name {
                    assert!(value.is_string(), "{place}: `{key}: {value}`");
                } else if of_names {
                    let mut inner = value.as_array().into_iter().flatten();
                    assert!(inner.all(Value::is_string), "{place}: `{key}: {value}`");
                }
                names(place, value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(place, item)),
        _ => {}
    }
}

pub(crate) fn the_test_can_be_left_out(helm: &Helm) {
    let values = with(enabled("aws"), &json!({"test": {"enabled": false}}));
    assert!(!render(helm, &values).0.iter().any(crate::objects::is_test));
    let notes = helm.notes(&values);
    assert!(!notes.contains("helm test") && notes.contains("  fabric-injector check --namespace"), "{notes}");
}

/// Without a provider, the nodes choose, and the chart does not know which there are: neither notes nor test have a pod for
/// a cloud that may not be this one.
pub(crate) fn without_a_provider_notes_say_that_the_nodes_choose_and_name_no_cloud(helm: &Helm) {
    let names = providers()
        .into_iter()
        .flat_map(|(provider, policies)| policies.into_iter().map(|policy| policy.name).chain([provider]));
    let names: Vec<String> = names.collect();
    for (values, says) in [
        (json!({}), "gives annotated GPU pods the fast network of the nodes that they can run on"),
        (
            json!({"webhook": {"mode": "audit"}}),
            "reports which annotated GPU pods would get the fast network",
        ),
    ] {
        let notes = helm.notes(&values);
        assert!(notes.contains(says) && notes.contains("  fabric-injector nodes\n"), "{notes}");
        let audit = if values["webhook"]["mode"] == "audit" { " --audit" } else { "" };
        assert!(notes.contains(&format!("  fabric-injector check{audit} --namespace default\n")), "{notes}");
        assert!(notes.contains("Run the same in the cluster:\n\n  helm test fabric-injector"), "{notes}");
        let objects = render(helm, &values);
        let test = objects.of_kind("Pod").next().unwrap()["spec"]["containers"][0]["args"].to_string();
        let words = |text: &str| {
            let word = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
            text.split(word).map(str::to_owned).collect::<BTreeSet<_>>()
        };
        for text in [&notes, &test] {
            let found: Vec<_> = names.iter().filter(|name| words(text).contains(*name)).collect();
            assert!(found.is_empty() && !text.contains("instance-type"), "{found:?}: {text}");
        }
    }
    // A provider that is enabled has its policies.
    for provider in providers().keys() {
        let notes = helm.notes(&enabled(provider));
        assert!(
            notes.contains("injects pods with `") && notes.contains("  fabric-injector check"),
            "{notes}"
        );
        assert!(!notes.contains("fabric-injector nodes"), "{notes}");
    }
}

pub(crate) fn there_is_no_test_in_an_excluded_namespace(helm: &Helm) {
    let excluded = json!({"webhook": {"excludedNamespaces": ["default"]}});
    for values in [
        excluded.clone(),
        json!({"test": {"namespace": "fabric-injector"}}),
        json!({"test": {"namespace": "kube-system"}}),
    ] {
        let values = with(enabled("aws"), &values);
        let objects = render(helm, &values);
        assert!(!objects.0.iter().any(crate::objects::is_test), "{values}");
        let notes = helm.notes(&values);
        assert!(notes.contains("There is no `helm test`: pods in `test.namespace`"), "{notes}");
    }
    let elsewhere = with(with(enabled("aws"), &excluded), &json!({"test": {"namespace": "jobs"}}));
    assert_eq!(render(helm, &elsewhere).of_kind("Pod").count(), 1);
}

pub(crate) fn notes_warn_about_the_namespace_of_the_release(helm: &Helm) {
    for certificate in certificates() {
        let notes = helm.notes(&with(enabled("aws"), &certificate));
        let wanted =
            "annotated GPU pods in the namespace of the release, `fabric-injector`, are not injected";
        assert!(notes.contains(wanted), "{notes}");
    }
}
