//! The plain manifest, which is also the base for kustomize, is what the chart renders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fabric_injector::core::yaml;
use serde_json::{Value, json};

use crate::cases::{enabled, providers};
use crate::helm::{Helm, IMAGE};
use crate::objects::{Objects, identity, is_test, read_objects};
use crate::{compare_or_write, read, root};

const HEAD: &str = "\
# Rendered from the chart in deploy/helm/fabric-injector. Do not edit: change the chart, and then
#   UPDATE_DEPLOY=1 cargo test --test chart
";

/// What Helm adds to objects.
const HELMS: [&str; 3] = ["# Source: ", "helm.sh/chart: ", "app.kubernetes.io/managed-by: "];

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

/// Each document that the chart renders for this provider, without those of `helm test` and what is Helm's.
fn documents(helm: &Helm, provider: &str) -> Vec<String> {
    let text = helm.template(&enabled(provider)).unwrap();
    let mut documents = vec![NAMESPACE.to_owned()];
    for document in text.trim_start_matches("---\n").split("\n---\n") {
        let lines = document.lines().map(str::trim_end);
        let lines = lines.filter(|line| !HELMS.iter().any(|start| line.trim_start().starts_with(start)));
        let kept = lines.collect::<Vec<_>>().join("\n") + "\n";
        let object = yaml::read_value(&kept).unwrap().root.unwrap();
        if !is_test(&object) {
            documents.push(kept.trim_end().to_owned() + "\n");
        }
    }
    documents
}

fn file(documents: &[String]) -> String {
    format!("{HEAD}---\n{}", documents.join("---\n"))
}

pub(crate) fn the_file_is_what_the_chart_renders(helm: &Helm) {
    compare_or_write(&plain(), &file(&documents(helm, "aws")));
}

pub(crate) fn the_objects_have_the_labels_of_the_chart_and_none_of_helm() {
    let objects = read_objects(&read(&plain())).0;
    assert!(objects.iter().any(|object| identity(object) == "Namespace /fabric-injector"));
    let names: BTreeSet<String> = objects.iter().map(identity).collect();
    assert_eq!(names.len(), objects.len(), "an object is there twice");
    for object in &objects {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/name"], "fabric-injector");
        assert_eq!(labels["helm.sh/chart"], Value::Null);
        assert_eq!(labels["app.kubernetes.io/managed-by"], Value::Null);
    }
}

pub(crate) fn the_kustomization_has_the_file() {
    let text = read(&root().join("deploy/manifests/kustomization.yaml"));
    let kustomization = yaml::read_value(&text).unwrap().root.unwrap();
    assert_eq!(kustomization["kind"], "Kustomization");
    assert_eq!(kustomization["resources"], json!(["fabric-injector.yaml"]));
}

/// The objects without the conditions of webhook and guard, which the servers write for the policies in use.
fn without_conditions(objects: Objects) -> BTreeMap<String, Value> {
    let objects = objects.0.into_iter().map(|mut object| {
        match object["kind"].as_str() {
            Some("ValidatingAdmissionPolicy") => object["spec"]["matchConditions"] = Value::Null,
            Some("MutatingWebhookConfiguration") => {
                object["webhooks"][0]["matchConditions"] = Value::Null;
                object["metadata"]["annotations"] = Value::Null;
            }
            _ => {}
        }
        (identity(&object), object)
    });
    objects.collect()
}

pub(crate) fn the_documented_patch_enables_each_provider(helm: &Helm) {
    let page = read(&root().join("docs/install.md"));
    let (_, example) = page.split_once("```yaml\n# kustomization.yaml\n").unwrap();
    let example = yaml::read_value(example.split_once("```").unwrap().0).unwrap().root.unwrap();
    assert_eq!(example["images"][0]["name"], IMAGE);
    let patch = example["patches"][0]["patch"].as_str().unwrap();
    assert!(patch.contains("oci:"), "{patch}");
    for provider in providers().keys() {
        let patch = yaml::read_value(&patch.replace("oci:", &format!("{provider}:"))).unwrap().root.unwrap();
        let mut patched = without_conditions(read_objects(&read(&plain())));
        let map = patched.get_mut(&identity(&patch)).expect("the patch has the name of an object");
        map["data"] = patch["data"].clone();
        let rendered = without_conditions(read_objects(&file(&documents(helm, provider))));
        assert_eq!(patched.keys().collect::<Vec<_>>(), rendered.keys().collect::<Vec<_>>());
        for (identity, object) in rendered {
            let values = |map: &Value| {
                map["data"]["values.yaml"].as_str().map(|text| yaml::read_value(text).unwrap().root)
            };
            assert_eq!(values(&patched[&identity]), values(&object), "{provider}");
            if values(&object).is_none() {
                assert_eq!(patched[&identity], object, "{provider}");
            }
        }
    }
}
