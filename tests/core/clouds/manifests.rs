//! Faults of how NVIDIA's policies are written, set up and tried out on a manifest.

use std::collections::{BTreeMap, BTreeSet};

use fabric_injector::core::engine::Outcome;
use fabric_injector::core::manifest::RawDocument;
use fabric_injector::core::manifest::{self, Document, InjectedDocument, Wanted};
use fabric_injector::core::policy::PodContext;
use fabric_injector::core::policy_set::{LoadError, PolicySet};
use fabric_injector::core::values::Values;
use fabric_injector::core::yaml;
use fabric_injector::shell::builtin::{self, BuiltIn};
use serde_json::{Value, json};

use crate::api_server::assert_api_server_would_accept;
use crate::helpers::{self, EVERY_POLICY, TRIGGER, policy_set, serve_as, worker};

/// Serves a document as the command does.
fn serve(policy: &str, document: &Value) -> InjectedDocument {
    let piece = RawDocument::new(document.to_string().into_bytes());
    let mut document = Document::read(&piece).unwrap();
    manifest::inject(
        &policy_set(policy, &[]),
        &mut document,
        &piece,
        Wanted { summary: true, patches: true, ..Wanted::default() },
    )
    .unwrap()
}

/// A pod template with the trigger and 8 GPUs.
fn template() -> Value {
    let pod = worker(8);
    json!({"metadata": {"annotations": {TRIGGER: "true"}}, "spec": pod["spec"]})
}

fn workload(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "train"}, "spec": spec})
}

/// Trying a policy on a Job manifest changed nothing, since matching by annotation turns that off.
#[test]
fn templates_inside_a_workload_are_served() {
    let replicas = |names: &[&str]| -> Value {
        names.iter().map(|name| ((*name).to_owned(), json!({"template": template()}))).collect()
    };
    for (document, templates) in [
        (workload("batch/v1", "Job", &json!({"template": template()})), 1),
        (workload("batch/v1", "CronJob", &json!({"jobTemplate": {"spec": {"template": template()}}})), 1),
        (
            workload(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                &json!({"replicatedJobs": [{"template": {"spec": {"template": template()}}}]}),
            ),
            1,
        ),
        (
            workload(
                "kubeflow.org/v1",
                "PyTorchJob",
                &json!({"pytorchReplicaSpecs": replicas(&["Master", "Worker"])}),
            ),
            2,
        ),
        (
            workload(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                &json!({"leaderWorkerTemplate": {"leaderTemplate": template(), "workerTemplate": template()}}),
            ),
            2,
        ),
        (
            workload(
                "ray.io/v1",
                "RayCluster",
                &json!({"headGroupSpec": {"template": template()}, "workerGroupSpecs": [{"template": template()}]}),
            ),
            2,
        ),
    ] {
        let found = manifest::find(&document);
        assert_eq!(found.len(), templates, "{}", document["kind"]);
        for policy in EVERY_POLICY {
            let served = serve(policy, &document);
            let after = served.value.as_ref().unwrap();
            let alone = helpers::served(policy, &[], worker(8)).pod;
            for place in &found {
                let pod = after.pointer(&place.pointer).unwrap();
                assert_api_server_would_accept(pod);
                assert_eq!(pod["spec"], alone["spec"], "{policy}: {}{}", document["kind"], place.pointer);
            }
            let mut patched = document.clone();
            json_patch::patch(&mut patched, &served.patch()).unwrap();
            assert_eq!(&patched, after, "{policy}: {}", document["kind"]);
        }
    }
}

/// For a Job that was not changed at all, the command said `Mutation has been applied successfully`.
#[test]
fn a_template_that_is_not_changed_is_not_called_served() {
    let mut document = workload("batch/v1", "Job", &json!({"template": template()}));
    document["spec"]["template"]["metadata"] = json!({});
    for policy in EVERY_POLICY {
        let served = serve(policy, &document);
        assert_eq!(served.value, None, "{policy}");
        assert!(served.patch().0.is_empty(), "{policy}");
        let [template] = served.templates.as_slice() else { panic!("{policy}: {:?}", served.templates) };
        let Outcome::Unchanged { reason, .. } = &template.mutation.outcome else {
            panic!("{policy}: {template:?}")
        };
        assert_eq!(reason.code(), "no_policy_matches", "{policy}");
        assert_eq!(template.added, Vec::<String>::new(), "{policy}");
    }
}

/// The launcher template of an `MPIJob` has not yet the label that its pods will have.
#[test]
fn the_launcher_of_an_mpijob_manifest_is_known_by_its_place() {
    let launcher = json!({
        "metadata": {"annotations": {TRIGGER: "true"}},
        "spec": {"containers": [{"name": "launcher", "image": "nemo"}]},
    });
    let replicas = json!({"Launcher": {"template": launcher}, "Worker": {"template": template()}});
    let document = workload("kubeflow.org/v2beta1", "MPIJob", &json!({"mpiReplicaSpecs": replicas}));
    for policy in EVERY_POLICY {
        let after = serve(policy, &document).value.unwrap();
        let container = &after["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0];
        let names: BTreeSet<&str> =
            helpers::items(&container["env"]).iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert!(names.contains("NCCL_SOCKET_IFNAME"), "{policy}: {names:?}");
        let keys: Vec<&String> = container.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "image", "env"], "{policy}");
    }
}

/// The policies are of a kind that the engine they are written for calls deprecated and is to remove.
#[test]
fn policies_are_of_no_deprecated_kind() {
    assert!(EVERY_POLICY.iter().all(|name| builtin::find(name).is_some()));
    for policy in builtin::POLICIES {
        let root = root(policy);
        assert_eq!(root["apiVersion"], "fabric-injector.io/v1alpha1", "{}", policy.name);
        assert_eq!(root["kind"], "FabricPolicy", "{}", policy.name);
        assert!(!policy.text.contains("kyverno.io"), "{}", policy.name);
    }
}

/// Values went as strings through Helm's templates and `JMESPath` inside of YAML: three languages in one file.
#[test]
fn a_policy_is_plain_yaml_and_its_parameters_are_typed() {
    for policy in builtin::POLICIES {
        assert!(!policy.text.contains("{{"), "{}: a template language around the YAML", policy.name);
    }
    let values = "multinodeNetworking:\n  aws:\n    enabled: true\n    efaDevicesPerGPU: four\n";
    let aws = builtin::find("aws-efa").unwrap().definition().unwrap();
    let error = Values::read("values.yaml", values).unwrap().overrides(&aws).unwrap_err().to_string();
    assert!(error.contains("values.yaml:4:23"), "{error}");
    assert!(error.contains("`efaDevicesPerGPU` has to be a number, and `\"four\"` is not"), "{error}");
}

/// The block of the values file keeps working as NVIDIA's documentation writes it.
#[test]
fn the_values_of_the_chart_work_unchanged() {
    for (policy, block, resource, devices) in [
        ("aws-efa", "aws: {enabled: true, efaDevicesPerGPU: 4}", "vpc.amazonaws.com/efa", 32),
        (
            "azure-infiniband",
            "azure: {enabled: true, rdmaDevicesPerGPU: 1, rdmaDeviceName: hca_shared_devices_b}",
            "rdma/hca_shared_devices_b",
            8,
        ),
        ("gcp-tcpxo", "gcp: {enabled: true}", "nvidia.com/gpu", 8),
        ("oci-sriov", "oci: {enabled: true, rdmaDevicesPerGPU: 8}", "nvidia.com/mlnxnics", 64),
    ] {
        let definition = builtin::find(policy).unwrap().definition().unwrap();
        let text = format!("global: {{}}\nmultinodeNetworking:\n  {block}\n");
        let values = Values::read("values.yaml", &text).unwrap();
        assert_eq!(values.enabled().unwrap(), Some(definition.provider.as_str()));
        let overrides = values.overrides(&definition).unwrap();
        let policies = PolicySet::new(vec![(definition, overrides)]).unwrap();
        let served = helpers::Served::of(serve_as(&policies, worker(8), &PodContext::default()));
        assert_eq!(served.devices("worker", resource), devices, "{policy}");
    }
}

/// Two providers at once stay an error, and it names both.
#[test]
fn two_providers_at_once_are_an_error_that_names_both() {
    let both = "multinodeNetworking: {aws: {enabled: true}, oci: {enabled: true}}";
    let error = Values::read("values.yaml", both).unwrap().enabled().unwrap_err().to_string();
    assert!(error.contains("`aws` and `oci` are both enabled"), "{error}");
    let definitions = ["aws-efa", "oci-sriov"]
        .map(|name| (builtin::find(name).unwrap().definition().unwrap(), BTreeMap::new()));
    let error = PolicySet::new(definitions.into()).unwrap_err();
    assert!(matches!(error, LoadError::SeveralProviders { .. }));
    assert!(error.to_string().contains("`aws-efa`") && error.to_string().contains("`oci-sriov`"), "{error}");
}

/// `policy check` looks for what a policy itself declares and nothing reads. A part may have more than one policy reads.
#[test]
fn what_a_part_declares_is_read_somewhere() {
    let specs = || builtin::POLICIES.iter().chain(builtin::PARTS).map(|file| root(file)["spec"].take());
    let texts: Vec<_> = specs().flat_map(|spec| expressions(&spec)).collect();
    for (part, spec) in builtin::PARTS.iter().zip(specs().skip(builtin::POLICIES.len())) {
        let names = ["parameters", "variables"].into_iter().filter_map(|section| spec[section].as_object());
        for name in names.flat_map(serde_json::Map::keys) {
            let is_read = texts.iter().any(|(place, text)| {
                let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                place != name && words.any(|word| word == name)
            });
            assert!(is_read, "{}: nothing reads `{name}`", part.name);
        }
    }
}

fn root(policy: &BuiltIn) -> Value {
    yaml::read_value(policy.text).unwrap().root.unwrap()
}

/// The texts of a policy that may have expressions in them: keys and values, each with the variable that it
/// defines, if it does.
fn expressions(spec: &Value) -> Vec<(String, String)> {
    fn collect(value: &Value, place: &str, found: &mut Vec<(String, String)>) {
        match value {
            Value::String(text) if text.contains("${") => found.push((place.to_owned(), text.clone())),
            Value::Array(items) => items.iter().for_each(|item| collect(item, place, found)),
            Value::Object(map) => {
                for (key, value) in map {
                    found.extend(key.contains("${").then(|| (place.to_owned(), key.clone())));
                    collect(value, place, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (name, value) in spec["variables"].as_object().into_iter().flatten() {
        collect(value, name, &mut found);
    }
    for section in ["fabric", "gpuClaims", "match", "rules", "settings", "warnings"] {
        collect(&spec[section], "", &mut found);
    }
    found
}
