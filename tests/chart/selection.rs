//! What the chart mounts and names is what the server takes: the files are read as the server reads them.

use std::fs;
use std::path::Path;

use fabric_injector::shell::policy_sources::PolicySources;
use serde_json::{Value, json};

use crate::cases::{PROVIDERS, enabled, lab_policy, render, with};
use crate::helm::Helm;
use crate::objects::Objects;

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
    PolicySources { policies: named("--policy="), values: named("--values=").pop(), sets: Vec::new() }
}

/// The names of the policies that are in use.
fn loaded(helm: &Helm, values: &Value) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let set = policy_sources(&render(helm, values), folder.path()).load().unwrap();
    set.policies().iter().map(|policy| policy.name().to_owned()).collect()
}

pub(crate) fn the_policy_of_the_enabled_provider_is_in_use(helm: &Helm) {
    for (provider, policies) in PROVIDERS {
        assert_eq!(loaded(helm, &enabled(provider)), policies);
    }
}

pub(crate) fn a_policy_of_the_operator_is_in_use_beside_it_or_alone(helm: &Helm) {
    for (provider, policies) in PROVIDERS {
        let extra = json!({"extraPolicies": {"lab.yaml": lab_policy(provider)}});
        let wanted = [policies, &["lab-roce"]].concat();
        assert_eq!(loaded(helm, &with(enabled(provider), &extra)), wanted);
    }
    let lab = json!({"extraPolicies": {"lab.yaml": lab_policy("lab")}});
    assert_eq!(loaded(helm, &lab), ["lab-roce"]);
    // Its provider may be enabled, too, as it is with `mutate --values`.
    assert_eq!(loaded(helm, &with(lab, &enabled("lab"))), ["lab-roce"]);
}

pub(crate) fn what_the_operator_sets_arrives_and_what_he_does_not_set_follows_the_node(helm: &Helm) {
    let overrides = |settings: Value| {
        let values = with(enabled("aws"), &json!({"multinodeNetworking": {"aws": settings}}));
        let folder = tempfile::tempdir().unwrap();
        let set = policy_sources(&render(helm, &values), folder.path()).load().unwrap();
        let settings = set.policies()[0].settings();
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
