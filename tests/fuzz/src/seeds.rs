//! The first inputs of each target, made of the files of this repository.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fabric_engine::admission::sample_review;
use fabric_injector::authority::Authority;
use fabric_injector::builtin;
use fabric_injector::stream::RawDocuments;
use fabric_tools::policy_test::{CaseFile, Subject};
use fabric_workloads::manifest::Document;
use serde_json::{Map, Value, json};

use crate::{NOW, load};

/// Larger files are left out: most executions are of small ones.
const MOST: usize = 64 << 10;

/// The seeds by their targets and names.
type Seeds = BTreeMap<(&'static str, String), Vec<u8>>;

/// Writes the seeds of each target to its folder.
pub fn write(root: &Path, to: &Path) {
    let mut seeds = Seeds::new();
    for (number, (path, bytes)) in files(root).into_iter().enumerate() {
        // Loading one takes long, and there are 740.
        if !path.starts_with("tests/corpus/broken") || number % 4 == 0 {
            of_file(&path, bytes, &mut seeds);
        }
    }
    for policy in builtin::POLICIES {
        of_policy(policy.name, policy.name, &mut seeds);
    }
    certificates(&mut seeds);
    for ((target, name), bytes) in seeds.into_iter().filter(|(_, bytes)| bytes.len() <= MOST) {
        let folder = to.join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name.replace('/', "_")), bytes).unwrap();
    }
}

/// The files of the folders with cases and samples, by their paths below the root.
fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![]);
    for folder in ["certs", "crates/nccl/tests", "deploy", "policies", "signatures", "tests"] {
        folders.push(root.join(folder));
    }
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with("tests/fuzz") && !name.contains("/.") {
                folders.push(path);
            } else if path.is_file() {
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    found
}

fn of_file(path: &str, bytes: Vec<u8>, seeds: &mut Seeds) {
    let mut add = |target, name: String, bytes: Vec<u8>| drop(seeds.insert((target, name), bytes));
    let name = || path.to_owned();
    if path.starts_with("signatures/cases") || path.ends_with("samples.tsv") || path.ends_with("counters.sh")
    {
        add("logs", name(), bytes);
        return;
    }
    let is_yaml = path.ends_with(".yaml") || path.ends_with(".json");
    let Ok(text) = String::from_utf8(bytes) else { return };
    if !is_yaml {
        return;
    }
    if let Ok(cases) = CaseFile::read(path, &text) {
        let value = fabric_yaml::read_value(&text).ok().and_then(|file| file.root).unwrap_or_default();
        let mut settings = HashSet::new();
        for (number, case) in cases.cases.iter().enumerate() {
            // Other settings are loaded once more.
            if !value["cases"][number]["parameters"].is_null() && !settings.insert(case.given()) {
                continue;
            }
            let seed = of_case(&case.subject, &case.policies, &value["cases"][number]);
            let target = if seed["objects"].is_null() { "injection" } else { "nodes" };
            add(target, format!("{path}-{number}"), seed.to_string().into_bytes());
            add("review", format!("{path}-{number}"), review(&seed["pod"]).to_string().into_bytes());
        }
        add("policy", name(), text.into_bytes());
    } else if text.contains("kind: FabricPolicy") {
        of_policy(path, &text, seeds);
        seeds.insert(("policy", name()), text.into_bytes());
    } else {
        for document in RawDocuments::new(text.as_bytes()).map_while(Result::ok) {
            let Some(value) = Document::read(&document).ok().and_then(|document| document.value) else {
                continue;
            };
            if value["kind"] == "AdmissionReview" {
                add("review", name(), value.to_string().into_bytes());
            } else if value["kind"].is_string() {
                add("review", name(), review(&value).to_string().into_bytes());
            } else if value["multinodeNetworking"].is_object() {
                add("policy", name(), text.clone().into_bytes());
            }
        }
        add("manifests", name(), text.into_bytes());
    }
}

/// A pod that a policy matches, for the policy and for the server.
fn of_policy(name: &str, policy: &str, seeds: &mut Seeds) {
    let Some(set) = load(policy, &Map::new()) else { return };
    let review = sample_review(&set.policies()[0]);
    let input = json!({"policy": policy, "pod": review["request"]["object"]});
    seeds.insert(("injection", name.to_owned()), input.to_string().into_bytes());
    seeds.insert(("review", name.to_owned()), review.to_string().into_bytes());
}

fn review(object: &Value) -> Value {
    let kind = object["kind"].as_str().unwrap_or("Pod");
    let (group, version) =
        object["apiVersion"].as_str().and_then(|api| api.split_once('/')).unwrap_or(("", "v1"));
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": {"group": group, "version": version, "kind": kind}, "operation": "CREATE",
            "namespace": "default", "object": object,
        },
    })
}

fn of_case(subject: &Subject, policies: &[fabric_tools::policy_test::Reference], case: &Value) -> Value {
    let policy = policies.first().map_or("", |policy| policy.text.as_str());
    let policy = policy.trim_start_matches("../").trim_end_matches(".yaml");
    let pod = match subject {
        Subject::Pod(pod) => pod.clone(),
        Subject::Workload(workload) => workload.pointer("/spec/template").unwrap_or(workload).clone(),
        Subject::File(_) => json!({}),
    };
    let context = &case["context"];
    let mut input = json!({"policy": policy, "pod": pod});
    for (key, value) in [
        ("settings", &case["parameters"]),
        ("namespace", &context["namespace"]),
        ("owner", &context["owner"]),
    ] {
        if !value.is_null() {
            input[key] = value.clone();
        }
    }
    let mut objects = Vec::new();
    for node in context["nodes"].as_array().into_iter().flatten() {
        objects.push(json!({
            "kind": "Node", "metadata": {"name": format!("n{}", objects.len()), "labels": node["labels"]},
            "spec": {"providerID": node["providerID"], "taints": node["taints"]},
            "status": {"capacity": node["capacity"], "conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }
    objects.extend(context["claims"].as_array().into_iter().flatten().cloned());
    for (name, resource) in context["networks"].as_object().into_iter().flatten() {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        objects.push(json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "name": name, "namespace": namespace,
                "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource},
            },
        }));
    }
    if !objects.is_empty() {
        input["objects"] = objects.into();
    }
    input
}

/// Secrets of a CA and its certificates, at the times of a rotation.
fn certificates(seeds: &mut Seeds) {
    let day = Duration::from_secs(24 * 60 * 60);
    let names = ["fabric-injector.fabric-system.svc".to_owned()];
    let now = SystemTime::UNIX_EPOCH + NOW;
    let before = Authority::new(now - day * 3000).unwrap();
    for (name, made, issued, lasts) in
        [("new", 1, 1, 90), ("renewed", 400, 80, 90), ("old", 3649, 80, 81), ("expired", 4000, 3999, 90)]
    {
        let ca = Authority::new(now - day * made).unwrap();
        let serving = ca.issue(&names, &[[10, 0, 0, 1].into()], now - day * issued, day * lasts).unwrap();
        let secret =
            json!({"ca.crt": ca.cert, "ca.key": ca.key, "tls.crt": serving.cert, "tls.key": serving.key});
        let mut with_previous = secret.clone();
        with_previous["previous-ca.crt"] = before.cert.clone().into();
        with_previous["previous-ca.until"] = "2030-01-01T00:00:00Z".into();
        for (kind, data) in [("", secret), ("-previous", with_previous)] {
            let input = json!({"data": data, "trusted": format!("{}{}", before.cert, ca.cert)});
            seeds.insert(("pem", format!("{name}{kind}")), input.to_string().into_bytes());
        }
    }
}
