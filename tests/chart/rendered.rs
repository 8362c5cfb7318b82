//! The plain manifest, which is also the base for kustomize, is what the chart renders.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fabric_yaml as yaml;
use serde_json::{Value, json};

use crate::cases::enabled;
use crate::helm::{Helm, IMAGE};
use crate::objects::{identity, is_test, read_objects};
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

/// Each document that the chart renders for this provider, without those of `helm test` and what is Helm's. The policy
/// for the token is before the role that it restricts. Helm itself creates kinds in an order that a chart cannot change.
fn documents(helm: &Helm, provider: &str) -> Vec<String> {
    let text = helm.template(&enabled(provider)).unwrap();
    let (mut first, mut rest) = (vec![NAMESPACE.to_owned()], Vec::new());
    for document in text.trim_start_matches("---\n").split("\n---\n") {
        let lines = document.lines().map(str::trim_end);
        let lines = lines.filter(|line| !HELMS.iter().any(|start| line.trim_start().starts_with(start)));
        let kept = lines.collect::<Vec<_>>().join("\n") + "\n";
        let object = yaml::read_value(&kept).unwrap().root.unwrap();
        if !is_test(&object) {
            let limits_the_token = object["metadata"]["name"] == "fabric-injector-token";
            let documents = if limits_the_token { &mut first } else { &mut rest };
            documents.push(kept.trim_end().to_owned() + "\n");
        }
    }
    first.append(&mut rest);
    first
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

pub(crate) fn the_documented_overlay_replaces_the_image_of_the_file() {
    let page = read(&root().join("docs/install.md"));
    let (_, example) = page.split_once("# kustomization.yaml of an overlay\n").unwrap();
    let example = yaml::read_value(example.split_once("```").unwrap().0).unwrap().root.unwrap();
    assert_eq!(example["images"][0]["name"], IMAGE);
    assert!(read(&plain()).contains(&format!("image: {IMAGE}:")));
}
