//! The plain manifest, which is also the base for kustomize, is what the chart renders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

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

/// Each document that the chart renders for these values, without those of `helm test` and what is Helm's. The policy
/// for the token is before the role that it restricts. Helm itself creates kinds in an order that a chart cannot change.
fn documents(helm: &Helm, values: &Value) -> Vec<String> {
    let text = helm.template(values).unwrap();
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
    compare_or_write(&plain(), &file(&documents(helm, &json!({}))));
}

/// The objects that `manifests` prints, by their identity, without the label that Helm replaces.
fn printed(options: &[&str]) -> BTreeMap<String, Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    let image = format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION"));
    let output = command.args(["manifests", "--image", &image]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects = read_objects(&String::from_utf8(output.stdout).unwrap()).0;
    objects.into_iter().map(|object| (identity(&object), compared(object))).collect()
}

/// An object without the label that names the installer. Values are compared as they are read.
fn compared(mut object: Value) -> Value {
    object["metadata"]["labels"].as_object_mut().unwrap().remove("app.kubernetes.io/managed-by");
    if let Some(text) = object["data"]["values.yaml"].as_str() {
        object["data"]["values.yaml"] = yaml::read_value(text).unwrap().root.unwrap();
    }
    object
}

pub(crate) fn manifests_prints_the_objects_that_helm_installs(helm: &Helm) {
    let folder = tempfile::tempdir().unwrap();
    let parameters =
        json!({"multinodeNetworking": {"aws": {"efaDevicesPerGPU": 0.5}, "oci": {"ipcLock": false}}});
    let file = folder.path().join("values.yaml");
    std::fs::write(&file, parameters.to_string()).unwrap();
    let audit = json!({"webhook": {"mode": "audit"}});
    let cases = [
        (json!({}), vec![]),
        (audit, vec!["--mode", "audit"]),
        (parameters, vec!["--values", file.to_str().unwrap()]),
        (enabled("aws"), vec!["--policy", "aws-efa"]),
        (enabled("oci"), vec!["--policy", "oci-sriov"]),
    ];
    for (values, options) in cases {
        let of_chart = documents(helm, &values).into_iter().map(|text| {
            let object = compared(yaml::read_value(&text).unwrap().root.unwrap());
            (identity(&object), object)
        });
        let (of_chart, printed) = (of_chart.collect::<BTreeMap<_, _>>(), printed(&options));
        assert_eq!(of_chart.keys().collect::<Vec<_>>(), printed.keys().collect::<Vec<_>>(), "{options:?}");
        for (identity, object) in &of_chart {
            assert_eq!(object, &printed[identity], "{options:?}: {identity}");
        }
    }
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
