//! The plain and kustomize manifests are what the chart renders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fabric_injector::core::yaml;
use serde_json::Value;

use crate::cases::{PROVIDERS, enabled};
use crate::helm::Helm;
use crate::objects::{Objects, identity, is_test, read_objects};
use crate::{compare_or_write, read, root};

const HEAD: &str = "\
# Rendered from the chart in deploy/helm/fabric-injector. Do not edit: change the chart, and then
#   UPDATE_DEPLOY=1 cargo test --test chart
";

/// Helm expects the namespace to be there; whoever applies files gets it with them.
const NAMESPACE: &str = "\
# Nothing here needs more than the profile `restricted`.
apiVersion: v1
kind: Namespace
metadata:
  name: fabric-injector
  labels:
    app.kubernetes.io/name: fabric-injector
    pod-security.kubernetes.io/enforce: restricted
";

fn plain() -> PathBuf {
    root().join("deploy/manifests/fabric-injector.yaml")
}

fn kustomize() -> PathBuf {
    root().join("deploy/kustomize")
}

/// What differs from one provider to the other.
fn of_provider(object: &Value) -> bool {
    let values = object["kind"] == "ConfigMap" && object["metadata"]["name"] == "fabric-injector-values";
    values || object["kind"] == "ValidatingAdmissionPolicy"
}

/// Each document that the chart renders for this provider, without those of `helm test` and what is Helm's.
fn documents(helm: &Helm, provider: &str) -> Vec<String> {
    let text = helm.template(&enabled(provider)).unwrap();
    let helms = ["# Source: ", "helm.sh/chart: ", "app.kubernetes.io/managed-by: "];
    let mut documents = vec![NAMESPACE.to_owned()];
    for document in text.trim_start_matches("---\n").split("\n---\n") {
        let lines = document.lines().map(str::trim_end);
        let lines = lines.filter(|line| !helms.iter().any(|start| line.trim_start().starts_with(start)));
        let kept = lines.collect::<Vec<_>>().join("\n") + "\n";
        let object = yaml::read_value(&kept).unwrap().root.unwrap();
        if !is_test(&object) {
            documents.push(kept.trim_end().to_owned() + "\n");
        }
    }
    documents
}

fn is_of_provider(document: &str) -> bool {
    of_provider(&yaml::read_value(document).unwrap().root.unwrap())
}

fn file(documents: &[String]) -> String {
    format!("{HEAD}---\n{}", documents.join("---\n"))
}

pub(crate) fn the_files_are_what_the_chart_renders(helm: &Helm) {
    compare_or_write(&plain(), &file(&documents(helm, "aws")));
    for (provider, _) in PROVIDERS {
        let (own, common): (Vec<_>, Vec<_>) =
            documents(helm, provider).into_iter().partition(|document| is_of_provider(document));
        assert_eq!(own.len(), 2, "{provider}");
        compare_or_write(&kustomize().join("base/fabric-injector.yaml"), &file(&common));
        let overlay = kustomize().join("overlays").join(provider);
        compare_or_write(&overlay.join("provider.yaml"), &file(&own));
    }
}

/// Every object that `kubectl apply -k` would apply: the files of a folder, and of those that it builds on.
fn built(folder: &Path) -> Vec<Value> {
    let kustomization = yaml::read_value(&read(&folder.join("kustomization.yaml"))).unwrap().root.unwrap();
    let keys: Vec<&String> = kustomization.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["apiVersion", "kind", "resources"], "this test knows no others");
    let mut objects = Vec::new();
    for resource in kustomization["resources"].as_array().unwrap() {
        let path = folder.join(resource.as_str().unwrap());
        if path.is_dir() {
            objects.extend(built(&path));
        } else {
            objects.extend(read_objects(&read(&path)).0);
        }
    }
    objects
}

fn by_identity(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let count = objects.len();
    let map: BTreeMap<_, _> = objects.into_iter().map(|object| (identity(&object), object)).collect();
    assert_eq!(map.len(), count, "an object is there twice");
    map
}

pub(crate) fn kustomize_and_plain_manifests_have_the_same_objects() {
    let plain = by_identity(read_objects(&read(&plain())).0);
    assert_eq!(by_identity(built(&kustomize().join("overlays/aws"))), plain);
    let names: Vec<&String> = plain.keys().collect();
    assert!(names.iter().any(|name| name.as_str() == "Namespace /fabric-injector"), "{names:?}");
    for object in plain.values() {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/name"], "fabric-injector");
        assert_eq!(labels["helm.sh/chart"], Value::Null);
        assert_eq!(labels["app.kubernetes.io/managed-by"], Value::Null);
    }
}

pub(crate) fn each_overlay_enables_its_provider_alone() {
    let folders = std::fs::read_dir(kustomize().join("overlays")).unwrap();
    let mut found: Vec<String> =
        folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, PROVIDERS.map(|(provider, _)| provider));
    for provider in found {
        let objects = Objects(built(&kustomize().join("overlays").join(&provider)));
        let map = objects.named("ConfigMap", "fabric-injector-values").unwrap();
        let block = yaml::read_value(map["data"]["values.yaml"].as_str().unwrap()).unwrap().root.unwrap();
        for (name, settings) in block["multinodeNetworking"].as_object().unwrap() {
            assert_eq!(settings["enabled"], *name == provider, "{provider}: {name}");
        }
        assert!(objects.find("ValidatingAdmissionPolicy").is_some(), "{provider}");
    }
}
