//! The example of a policy that makes an exception for the injected fields, next to Pod Security itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use fabric_injector::builtin;
use fabric_yaml as yaml;
use serde_json::{Value, json};

use super::values;
use crate::api::Reply;
use crate::cluster::Cluster;
use crate::eventually;
use crate::workloads::{annotated_template, is_injected, plain_template, pod, template};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
/// The status of what Pod Security denies, and of what a policy denies.
const FORBIDDEN: u16 = 403;
const INVALID: u16 = 422;
/// The name of an exception for the network of the node alone.
const HOST_NETWORK: &str = "on-host";
const LABEL: &str = "fabric-injector.io/pod-security";

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The values of the exception by network, from the table of the page.
fn exceptions() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut exceptions = BTreeMap::<_, BTreeMap<_, _>>::new();
    let mut networks: Vec<String> = Vec::new();
    let page = read("docs/pod-security.md");
    let (_, table) = page.split_once("| network | variable | value |\n|---|---|---|\n").unwrap();
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> =
            row.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect();
        if !cells[0].is_empty() {
            networks = cells[0].split("`, `").map(str::to_owned).collect();
        }
        for network in &networks {
            exceptions.entry(network.clone()).or_default().insert(cells[1].to_owned(), cells[2].to_owned());
        }
    }
    // For the test of what is forbidden in the network of the node, too.
    exceptions
        .insert(HOST_NETWORK.to_owned(), BTreeMap::from([("hostNetwork".to_owned(), "true".to_owned())]));
    exceptions
}

/// The example with another name, label and exception.
fn example(name: &str, exception: &BTreeMap<String, String>) -> [Value; 2] {
    let text = read("deploy/examples/pod-security.yaml");
    let documents: Vec<Value> =
        text.split("\n---\n").map(|document| yaml::read_value(document).unwrap().root.unwrap()).collect();
    let [mut policy, mut binding] = <[Value; 2]>::try_from(documents).unwrap();
    for object in [&mut policy, &mut binding] {
        object["metadata"]["name"] = json!(name);
    }
    binding["spec"]["policyName"] = json!(name);
    binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"][LABEL] = json!(name);
    let mut left: Vec<&str> = exception.keys().map(String::as_str).collect();
    // The first variable that is not part of the exception is `spec`.
    for variable in policy["spec"]["variables"].as_array_mut().unwrap() {
        let key = variable["name"].as_str().unwrap();
        if key == "spec" {
            break;
        }
        let empty = if key == "hostNetwork" { "false" } else { "[]" };
        left.retain(|name| *name != key);
        variable["expression"] = json!(exception.get(key).map_or(empty, String::as_str));
    }
    assert!(left.is_empty(), "the example does not have {left:?}");
    [policy, binding]
}

/// A pod of this network as the program injects it, without the annotation, so that no webhook changes it again.
fn injected(policy: &str) -> Value {
    let machine = match policy {
        "gcp-gib" => "a3-ultragpu-8g",
        "gcp-tcpx" => "a3-highgpu-8g",
        "gcp-tcpxo" => "a3-megagpu-8g",
        _ => "p5.48xlarge",
    };
    let mut template = template(false, machine);
    template["spec"]["containers"][0]["image"] = json!("registry.example.com/training/train:1");
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    fs::write(file.path(), pod("default", "asked", &template).to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command
        .args(["mutate", "--assume-annotated", "--require-mutated", "--policy", policy, "-f"])
        .arg(file.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Creates a pod as a dry run in another namespace than its own.
async fn asked(cluster: &Cluster, namespace: &str, pod: &Value) -> Reply {
    let mut pod = pod.clone();
    pod["metadata"]["namespace"] = json!(namespace);
    cluster.api.post(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), &pod).await
}

/// Adds a container with these fields.
fn container(fields: Value) -> impl Fn(&mut Value) {
    move |pod| {
        let mut container = json!({"name": "other", "image": "registry.example/other:1"});
        container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        pod["spec"]["containers"].as_array_mut().unwrap().push(container);
    }
}

/// Merges fields into the pod.
fn fields(fields: Value) -> impl Fn(&mut Value) {
    move |pod| json_patch::merge(pod, &fields)
}

type Change = (&'static str, Box<dyn Fn(&mut Value)>);

/// Changes that `baseline` forbids, each with a part of the message of the example.
fn forbidden() -> Vec<Change> {
    let context = |context: Value| container(json!({"securityContext": context}));
    let host = json!({"host": "198.51.100.1", "port": 80});
    vec![
        ("`hostPID`", Box::new(fields(json!({"spec": {"hostPID": true}})))),
        ("`hostPID`", Box::new(fields(json!({"spec": {"hostIPC": true}})))),
        ("may be privileged", Box::new(context(json!({"privileged": true})))),
        ("the capabilities", Box::new(context(json!({"capabilities": {"add": ["SYS_ADMIN"]}})))),
        ("the capabilities", Box::new(context(json!({"capabilities": {"add": ["ALL"]}})))),
        (
            "the capabilities",
            Box::new(|pod| {
                let context = json!({"capabilities": {"add": ["NET_RAW"]}});
                let other =
                    json!({"name": "init", "image": "registry.example/other:1", "securityContext": context});
                let init = &mut pod["spec"]["initContainers"];
                if init.is_null() {
                    *init = json!([]);
                }
                init.as_array_mut().unwrap().push(other);
            }),
        ),
        (
            "the paths of the exception",
            Box::new(|pod| {
                let volumes = &mut pod["spec"]["volumes"];
                if volumes.is_null() {
                    *volumes = json!([]);
                }
                volumes.as_array_mut().unwrap().push(json!({"name": "other", "hostPath": {"path": "/etc"}}));
            }),
        ),
        ("may not name a host", Box::new(container(json!({"livenessProbe": {"httpGet": host}})))),
        ("may not name a host", Box::new(container(json!({"readinessProbe": {"tcpSocket": host}})))),
        ("may not name a host", Box::new(container(json!({"startupProbe": {"httpGet": host}})))),
        ("may not name a host", Box::new(container(json!({"lifecycle": {"postStart": {"httpGet": host}}})))),
        ("may not name a host", Box::new(container(json!({"lifecycle": {"preStop": {"httpGet": host}}})))),
        ("AppArmor", Box::new(context(json!({"appArmorProfile": {"type": "Unconfined"}})))),
        ("seccomp", Box::new(context(json!({"seccompProfile": {"type": "Unconfined"}})))),
        (
            "seccomp",
            Box::new(fields(
                json!({"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}),
            )),
        ),
        ("SELinux", Box::new(context(json!({"seLinuxOptions": {"type": "spc_t"}})))),
        (
            "SELinux",
            Box::new(fields(json!({"spec": {"securityContext": {"seLinuxOptions": {"user": "root"}}}}))),
        ),
        ("SELinux", Box::new(context(json!({"seLinuxOptions": {"role": "sysadm_r"}})))),
        (
            "safe sysctls",
            Box::new(fields(
                json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}}),
            )),
        ),
    ]
}

/// The same that are allowed where the exception has the network of the node.
fn forbidden_without_host_network() -> Vec<Change> {
    vec![
        ("`hostNetwork`", Box::new(fields(json!({"spec": {"hostNetwork": true}})))),
        ("`hostPort`", Box::new(container(json!({"ports": [{"containerPort": 80, "hostPort": 80}]})))),
    ]
}

async fn assert_refused(cluster: &Cluster, namespace: &str, pod: &Value, message: &str) {
    let reply = asked(cluster, namespace, pod).await;
    let said = reply.message();
    assert!(
        reply.status == INVALID && said.contains(message),
        "{namespace}, {message}: {} {said}\n{pod}",
        reply.status
    );
}

/// The namespace and the policy of a network.
async fn make(cluster: &Cluster, name: &str, exception: &BTreeMap<String, String>) {
    let [policy, binding] = example(name, exception);
    cluster.api.post(POLICIES, &policy).await.ok();
    cluster.api.post(BINDINGS, &binding).await.ok();
    label(cluster, &cluster.namespace(name).await, json!({LABEL: name})).await;
}

async fn label(cluster: &Cluster, namespace: &str, labels: Value) {
    let change = json!({"metadata": {"labels": labels}});
    cluster.api.merge(&format!("/api/v1/namespaces/{namespace}"), &change).await.ok();
}

/// Waits until the policy is in use, and asserts that the API server finds nothing wrong with it.
async fn is_in_use(cluster: &Cluster, name: &str) {
    let mut bad = pod(name, "asked", &plain_template());
    bad["spec"]["hostPID"] = json!(true);
    eventually("the policy is in use", async || asked(cluster, name, &bad).await.status == INVALID).await;
    let path = format!("{POLICIES}/{name}");
    let mut policy = Value::Null;
    eventually("the policy is checked", async || {
        policy = cluster.api.get(&path).await.ok();
        policy["status"]["observedGeneration"] == 1
    })
    .await;
    assert!(policy["status"]["typeChecking"]["expressionWarnings"].is_null(), "{}", policy["status"]);
}

pub(super) async fn the_exception_admits_injected_pods_and_forbids_the_rest_of_baseline(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let strict = cluster.namespace("pod-security").await;
    label(cluster, &strict, json!({"pod-security.kubernetes.io/enforce": "baseline"})).await;
    let plain = pod("default", "asked", &plain_template());
    eventually("Pod Security is in use", async || {
        let mut bad = plain.clone();
        bad["spec"]["hostPID"] = json!(true);
        asked(cluster, &strict, &bad).await.status == FORBIDDEN
    })
    .await;
    let exceptions = exceptions();
    for (name, exception) in &exceptions {
        make(cluster, name, exception).await;
    }
    for policy in builtin::POLICIES {
        // Only what Pod Security forbids needs an exception, and has one.
        let reply = asked(cluster, &strict, &injected(policy.name)).await;
        let wanted = if exceptions.contains_key(policy.name) { FORBIDDEN } else { 201 };
        assert_eq!(reply.status, wanted, "{}: {}", policy.name, reply.message());
    }
    for name in exceptions.keys() {
        is_in_use(cluster, name).await;
        let on_host = name == HOST_NETWORK;
        let mut injected = if on_host { plain.clone() } else { injected(name) };
        if on_host {
            injected["spec"]["hostNetwork"] = json!(true);
        }
        for pod in [&injected, &plain] {
            let reply = asked(cluster, name, pod).await;
            assert_eq!(reply.status, 201, "{name}: {}\n{pod}", reply.message());
        }
        let more = if on_host { Vec::new() } else { forbidden_without_host_network() };
        for (message, change) in forbidden().into_iter().chain(more) {
            let mut pod = injected.clone();
            change(&mut pod);
            assert_refused(cluster, name, &pod, message).await;
        }
    }
    // The same changes as Pod Security itself forbids.
    assert_eq!(asked(cluster, &strict, &plain).await.status, 201);
    for (message, change) in forbidden().into_iter().chain(forbidden_without_host_network()) {
        let mut pod = plain.clone();
        change(&mut pod);
        let reply = asked(cluster, &strict, &pod).await;
        assert_eq!(reply.status, FORBIDDEN, "{message}: {}", reply.message());
        assert!(reply.message().contains("violates PodSecurity"), "{message}: {}", reply.message());
    }
    what_only_the_exception_forbids(cluster).await;
    what_exists_can_be_updated(cluster).await;
    let annotated = pod("aws-efa", "asked", &annotated_template());
    let reply = asked(cluster, "aws-efa", &annotated).await;
    assert!(reply.status == 201 && is_injected(&reply.body), "{reply:?}");
    for name in exceptions.keys() {
        cluster.api.delete(&format!("{BINDINGS}/{name}")).await.ok();
        cluster.api.delete(&format!("{POLICIES}/{name}")).await.ok();
        cluster.remove(name).await;
    }
    cluster.remove(&strict).await;
}

/// The mounts of the volumes with a path of the node, in a list of containers.
fn mounts<'p>(pod: &'p mut Value, list: &str, path: &str) -> Vec<&'p mut Value> {
    let volumes = pod["spec"]["volumes"].as_array().unwrap().iter();
    let mut volume =
        volumes.filter(|volume| volume["hostPath"]["path"] == path).map(|volume| volume["name"].clone());
    let volume = volume.next_back().unwrap();
    let containers = pod["spec"][list].as_array_mut().unwrap().iter_mut();
    containers
        .filter_map(|container| container["volumeMounts"].as_array_mut())
        .flatten()
        .filter(|mount| mount["name"] == volume)
        .collect()
}

async fn what_only_the_exception_forbids(cluster: &Cluster) {
    let message = "has to be mounted read-only";
    for (name, path) in [("aws-efa", "/opt/amazon-efa-ofi"), ("gcp-gib", "/home/kubernetes/bin/gib")] {
        let mut pod = injected(name);
        for mount in mounts(&mut pod, "containers", path) {
            mount["readOnly"] = json!(false);
        }
        assert_refused(cluster, name, &pod, message).await;
    }
    for name in ["gcp-tcpx", "gcp-tcpxo"] {
        // Another container than the daemon, and another image under its name.
        let mut pod = injected(name);
        let mount = mounts(&mut pod, "initContainers", "/proc/sys")[0].clone();
        pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
        assert_refused(cluster, name, &pod, message).await;
        let mut pod = injected(name);
        pod["spec"]["initContainers"][0]["image"] = json!("registry.example/other:1");
        assert_refused(cluster, name, &pod, "the capabilities").await;
    }
    let mut pod = injected("nebius-infiniband");
    assert_eq!(pod["spec"]["containers"][0]["securityContext"]["privileged"], true);
    pod["spec"]["containers"][0]["image"] = json!("registry.example/other:1");
    assert_refused(cluster, "nebius-infiniband", &pod, "may be privileged").await;
    let plain = crate::workloads::pod("default", "asked", &plain_template());
    let mut unmasked = plain.clone();
    container(json!({"securityContext": {"procMount": "Unmasked"}}))(&mut unmasked);
    unmasked["spec"]["hostUsers"] = json!(false);
    assert_refused(cluster, "aws-efa", &unmasked, "`procMount`").await;
    let mut windows = plain.clone();
    windows["spec"]["hostNetwork"] = json!(true);
    windows["spec"]["os"] = json!({"name": "windows"});
    windows["spec"]["securityContext"] = json!({"windowsOptions": {"hostProcess": true}});
    assert_refused(cluster, HOST_NETWORK, &windows, "`hostProcess`").await;
    let mut annotated = plain;
    annotated["metadata"]["annotations"] =
        json!({"container.apparmor.security.beta.kubernetes.io/main": "unconfined"});
    assert_refused(cluster, "aws-efa", &annotated, "AppArmor").await;
}

/// Containers for debugging are pods' as others are, and what is older than the policy can still be changed.
async fn what_exists_can_be_updated(cluster: &Cluster) {
    let (name, path) = ("aws-efa", "/api/v1/namespaces/aws-efa/pods");
    let running = pod(name, "running", &plain_template());
    label(cluster, name, json!({LABEL: null})).await;
    let mut older = pod(name, "older", &plain_template());
    older["spec"]["hostPID"] = json!(true);
    eventually("the policy is not in use", async || asked(cluster, name, &older).await.status == 201).await;
    cluster.api.post(path, &running).await.ok();
    cluster.api.post(path, &older).await.ok();
    label(cluster, name, json!({LABEL: name})).await;
    is_in_use(cluster, name).await;
    let change = json!({"metadata": {"labels": {"changed": "true"}}});
    cluster.api.merge(&format!("{path}/older"), &change).await.ok();
    for (context, status) in [(json!({}), 200), (json!({"privileged": true}), INVALID)] {
        let debugger =
            json!({"name": "debug", "image": "registry.example/debug:1", "securityContext": context});
        let change = json!({"spec": {"ephemeralContainers": [debugger]}});
        let reply = cluster
            .api
            .merge_strategically(&format!("{path}/running/ephemeralcontainers?dryRun=All"), &change)
            .await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
}
