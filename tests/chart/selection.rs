//! What the chart mounts and names is what the server takes: the files are read as the server reads them.

use std::fs;
use std::path::Path;

use fabric_injector::policy_sources::PolicySources;
use fabric_yaml as yaml;
use serde_json::{Value, json};

use crate::cases::{enabled, lab_policy, providers, render, with};
use crate::conditions::{of_guard, of_webhook};
use crate::helm::Helm;
use crate::objects::{Objects, read_objects};
use crate::registration::plain_pods_are_left_alone;

/// Lays the files of every `ConfigMap` where it is mounted, below this folder, and reads what the arguments name.
fn policy_sources(objects: &Objects, folder: &Path) -> PolicySources {
    let spec = &objects.pod()["spec"];
    for mount in objects.server()["volumeMounts"].as_array().unwrap() {
        let volumes = spec["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let Some(name) = volume["configMap"]["name"].as_str() else { continue };
        let path = folder.join(mount["mountPath"].as_str().unwrap().trim_start_matches('/'));
        fs::create_dir_all(&path).unwrap();
        let map = objects.named("ConfigMap", name).unwrap();
        for (file, text) in map["data"].as_object().unwrap() {
            fs::write(path.join(file), text.as_str().unwrap()).unwrap();
        }
    }
    let below = |path: &str| match path.strip_prefix('/') {
        Some(path) => folder.join(path).to_string_lossy().into_owned(),
        None => path.to_owned(),
    };
    let arguments = objects.arguments();
    let named = |option: &str| -> Vec<String> {
        arguments.iter().filter_map(|argument| argument.strip_prefix(option)).map(below).collect()
    };
    let (policies, values) = (named("--policy="), named("--values=").pop());
    PolicySources { policies, values, ..PolicySources::default() }
}

/// The names of the policies that are in use.
fn loaded(helm: &Helm, values: &Value) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let set = policy_sources(&render(helm, values), folder.path()).load().unwrap();
    set.policies().iter().map(|policy| policy.name().to_owned()).collect()
}

pub(crate) fn the_policies_of_the_enabled_provider_are_in_use(helm: &Helm) {
    for (provider, definitions) in providers() {
        let names: Vec<_> = definitions.into_iter().map(|policy| policy.name).collect();
        assert_eq!(loaded(helm, &enabled(&provider)), names);
    }
}

pub(crate) fn a_new_file_in_the_folder_is_a_provider_without_another_change(helm: &Helm) {
    let text = lab_policy("lab").replace(
        "  rules:",
        "  parameters:\n    rails: {type: integer, description: Rails, default: 4, maximum: 8}\n  rules:",
    );
    let render = |rails: Value| {
        let values = json!({"multinodeNetworking": {"lab": {"enabled": true, "rails": rails}}});
        helm.template_with_policy(&text, &values)
    };
    let objects = read_objects(&render(json!(2)).unwrap());
    assert!(of_webhook(&objects)[0].1.contains("lab.example/fabric"));
    assert!(of_guard(&objects)[2].1.contains("lab.example/gpu"));
    let values = &objects.named("ConfigMap", "fabric-injector-values").unwrap()["data"]["values.yaml"];
    let values = yaml::read_value(values.as_str().unwrap()).unwrap().root.unwrap();
    assert_eq!(values, json!({"multinodeNetworking": {"lab": {"enabled": true, "rails": 2}}}));
    let error = render(json!(9)).unwrap_err();
    assert!(error.contains("/multinodeNetworking/lab/rails") && error.contains("got 9, want 8"), "{error}");
}

pub(crate) fn a_policy_of_the_operator_is_in_use_beside_it_or_alone(helm: &Helm) {
    for (provider, definitions) in providers() {
        let extra = json!({"extraPolicies": {"lab.yaml": lab_policy(&provider)}});
        let mut names: Vec<_> = definitions.into_iter().map(|policy| policy.name).collect();
        names.push("lab-roce".to_owned());
        assert_eq!(loaded(helm, &with(enabled(&provider), &extra)), names);
    }
    let lab = json!({"extraPolicies": {"lab.yaml": lab_policy("lab")}});
    assert_eq!(loaded(helm, &lab), ["lab-roce"]);
    // Its provider may be enabled, too, as it is with `mutate --values`.
    assert_eq!(loaded(helm, &with(lab, &enabled("lab"))), ["lab-roce"]);
}

/// The chart reads no limit of a parameter in `extraPolicies`.
pub(crate) fn a_value_beyond_the_limit_of_an_extension_is_refused_by_the_servers(helm: &Helm) {
    let narrowed = "{apiVersion: fabric-injector.io/v1alpha1, kind: FabricPolicy, metadata: {name: ours}, spec: \
                    {extends: aws-efa, parameters: {efaDevicesPerGPU: {maximum: 4}}}}";
    let narrowed = json!({"extraPolicies": {"a.yaml": narrowed}});
    let settings = json!({"multinodeNetworking": {"aws": {"efaDevicesPerGPU": 5}}});
    let objects = render(helm, &with(narrowed, &settings));
    plain_pods_are_left_alone(&objects);
    let folder = tempfile::tempdir().unwrap();
    let error = policy_sources(&objects, folder.path()).load().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`efaDevicesPerGPU` is 5, more than its maximum 4"), "{error}");
}

pub(crate) fn what_the_operator_sets_arrives_and_what_he_does_not_set_follows_the_node(helm: &Helm) {
    let overrides = |settings: Value| {
        let values = with(enabled("aws"), &json!({"multinodeNetworking": {"aws": settings}}));
        let folder = tempfile::tempdir().unwrap();
        let set = policy_sources(&render(helm, &values), folder.path()).load().unwrap();
        let settings = set.policies()[0].overrides();
        settings.iter().map(|(name, setting)| (name.clone(), setting.to_json())).collect::<Value>()
    };
    assert_eq!(overrides(json!({})), json!({}));
    let settings =
        json!({"efaDevicesPerGPU": 0.5, "ipcLock": false, "hugePages2Mi": "5120Mi", "efaLibraryPath": ""});
    assert_eq!(overrides(settings.clone()), settings);
    let table = json!({"efaDevicesPerGPU": {"pool": {"p4d": 0.5, "a100": {"8": 0.5}}, "default": 1.0}});
    assert_eq!(overrides(table.clone()), table);
    // As Helm takes it, `null` is as if it were not there.
    assert_eq!(overrides(json!({"efaDevicesPerGPU": null})), json!({}));
}
