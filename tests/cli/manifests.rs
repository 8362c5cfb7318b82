//! `manifests`: the objects that install the webhook.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{ROOT, run, run_in};

/// The command, without the options that differ.
const MANIFESTS: [&str; 3] = ["manifests", "--image", IMAGE];
const IMAGE: &str = "registry.example/fi:1";

fn manifests(args: &[&str]) -> Vec<Value> {
    manifests_in(Path::new(ROOT), args)
}

fn manifests_in(folder: &Path, args: &[&str]) -> Vec<Value> {
    run_in(folder, &[&MANIFESTS, args].concat(), "").exits(0).documents()
}

fn of_kind<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    found.next().unwrap_or_else(|| panic!("no {kind}"))
}

fn named<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let mut found = objects.iter().filter(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {kind} `{name}`"))
}

fn guard(objects: &[Value]) -> &Value {
    named(objects, "ValidatingAdmissionPolicy", "fabric-injector-guard")
}

fn condition<'o>(parent: &'o Value, name: &str) -> &'o str {
    let conditions = parent["matchConditions"].as_array().unwrap();
    let found: Vec<&Value> = conditions.iter().filter(|one| one["name"] == name).collect();
    assert_eq!(found.len(), 1, "{parent}");
    found[0]["expression"].as_str().unwrap()
}

fn settings(objects: &[Value]) -> Value {
    let config =
        objects.iter().find(|object| object["metadata"]["name"] == "fabric-injector-values").unwrap();
    let text = config["data"]["values.yaml"].as_str().unwrap();
    fabric_yaml::read_value(text).unwrap().root.unwrap()
}

fn arguments(objects: &[Value]) -> Vec<&str> {
    let server = &of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    server["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

#[test]
fn everything_is_in_the_namespace_that_is_asked_for() {
    let objects = manifests(&["--policy", "aws-efa", "--namespace", "gpu-fabric"]);
    for object in &objects {
        let namespace = &object["metadata"]["namespace"];
        assert!(namespace.is_null() || namespace == "gpu-fabric", "{object}");
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["namespace"], "gpu-fabric", "{object}");
        }
    }
    let webhook = &of_kind(&objects, "MutatingWebhookConfiguration")["webhooks"][0];
    assert_eq!(webhook["clientConfig"]["service"]["namespace"], "gpu-fabric");
    let constraints = &guard(&objects)["spec"]["matchConstraints"];
    for (selector, own) in [(&webhook["namespaceSelector"], true), (&constraints["namespaceSelector"], false)]
    {
        let left_out = selector["matchExpressions"][0]["values"].as_array().unwrap();
        assert!(left_out.contains(&json!("kube-system")), "{selector}");
        assert_eq!(left_out.contains(&json!("gpu-fabric")), own, "{selector}");
        assert!(!left_out.contains(&json!("fabric-injector")), "{selector}");
    }
    let message = &guard(&objects)["spec"]["validations"][0]["message"];
    assert!(message.as_str().unwrap().contains("namespace `gpu-fabric`"), "{message}");
    let token = named(&objects, "ValidatingAdmissionPolicy", "fabric-injector-token");
    assert_eq!(
        token["spec"]["matchConditions"][0]["expression"],
        "request.userInfo.username == \"system:serviceaccount:gpu-fabric:fabric-injector\""
    );
}

/// It would go with the installation, and what is in it as well.
#[test]
fn the_namespace_is_made_only_if_it_is_made_for_this() {
    let namespaces = |objects: &[Value]| objects.iter().filter(|one| one["kind"] == "Namespace").count();
    let own = manifests(&["--policy", "aws-efa"]);
    assert_eq!((namespaces(&own), &own[0]["kind"]), (1, &json!("Namespace")));
    assert_eq!(namespaces(&manifests(&["--policy", "aws-efa", "--namespace", "shared"])), 0);
    let left_out = ["default", "kube-system", "kube-public"];
    let answers = left_out.map(|namespace| refused(&["--namespace", namespace]));
    assert_snapshot!(answers.join("\n"), @"
    exit status: 2
    ----- stderr -----
    error: invalid value 'default' for '--namespace <NAME>': pods in the namespace of the server are not injected; choose a namespace for the server alone

    For more information, try '--help'.

    exit status: 2
    ----- stderr -----
    error: invalid value 'kube-system' for '--namespace <NAME>': pods in the namespace of the server are not injected; choose a namespace for the server alone

    For more information, try '--help'.

    exit status: 2
    ----- stderr -----
    error: invalid value 'kube-public' for '--namespace <NAME>': pods in the namespace of the server are not injected; choose a namespace for the server alone

    For more information, try '--help'.
    ");
}

#[test]
fn the_webhook_is_registered_for_the_policies_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let built_in = run(&["policy", "show", "aws-efa"], "").exits(0);
    let own = built_in.text().replace("name: aws-efa\n", "name: ours\n").replace(
        "anyAnnotation:\n      nmp.nvidia.com/enable-multi-node-networking: \"true\"\n",
        "anyAnnotation:\n      example.com/fabric: \"yes\"\n",
    );
    fs::write(folder.path().join("ours.yaml"), own).unwrap();
    let objects = manifests_in(folder.path(), &["--policy", "aws-efa", "--policy", "ours.yaml"]);
    let webhook = &of_kind(&objects, "MutatingWebhookConfiguration")["webhooks"][0];
    let expression = condition(webhook, "policy-matches-pod");
    assert!(expression.contains("\"example.com/fabric\":\"yes\""), "{expression}");
    assert!(expression.contains("\"nmp.nvidia.com/enable-multi-node-networking\":\"true\""), "{expression}");
    let spec = &guard(&objects)["spec"];
    assert!(condition(spec, "policy-matches-pod").contains("annotations[key] == {\"example.com/fabric\":"));
    condition(spec, "requests-gpus");
    for parent in [webhook, spec] {
        let first = &parent["matchConditions"][0];
        assert_eq!(first["name"], "has-trigger");
        let expression = first["expression"].as_str().unwrap();
        assert_eq!(expression.matches("{\"example.com/fabric\":\"yes\"").count(), 1);
        assert!(!expression.contains('!') && !expression.contains("request"), "{expression}");
    }
    let advice = &of_kind(&objects, "ValidatingWebhookConfiguration")["webhooks"][0];
    let expression = condition(advice, "requests-gpus-or-asks");
    for part in ["[\"^example.com/fabric$\"", "\"multi-node-networking\"].exists(name"] {
        assert!(expression.contains(part), "{expression}");
    }
    let mounted = objects.iter().find(|one| one["metadata"]["name"] == "fabric-injector-policies").unwrap();
    assert!(mounted["data"]["ours.yaml"].as_str().unwrap().contains("name: ours\n"));
    let arguments = arguments(&objects);
    assert!(arguments.contains(&"--policy=aws-efa"), "{arguments:?}");
    assert!(arguments.contains(&"--policy=/etc/fabric-injector/policies"), "{arguments:?}");
    let pod = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"];
    assert!(pod["volumes"].as_array().unwrap().iter().any(|one| one["name"] == "policies"));
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|one| one["mountPath"] == "/etc/fabric-injector/policies"));
}

/// The chart has the same default; its tests compare the objects.
#[test]
fn without_a_policy_the_nodes_choose_among_all_and_named_ones_of_several_clouds_are_named_to_the_server() {
    let policies = |objects: &[Value]| {
        let arguments = arguments(objects);
        assert!(arguments.contains(&"--watch-nodes"), "{arguments:?}");
        arguments
            .iter()
            .filter_map(|one| one.strip_prefix("--policy="))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let default = manifests(&[]);
    assert_eq!(settings(&default), json!({"multinodeNetworking": {}}));
    assert!(policies(&default).is_empty());
    let two = manifests(&["--policy", "aws-efa,azure-infiniband", "--set", "efaDevicesPerGPU=2"]);
    assert_eq!(settings(&two), json!({"multinodeNetworking": {"aws": {"efaDevicesPerGPU": 2.0}}}));
    assert_eq!(policies(&two), ["aws-efa", "azure-infiniband"]);
    let gpus = |objects: &[Value]| condition(&guard(objects)["spec"], "requests-gpus").to_owned();
    assert_ne!(gpus(&default), gpus(&manifests(&["--policy", "azure-infiniband"])));
}

#[test]
fn values_and_settings_reach_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let values = "image: {tag: x}\nmultinodeNetworking:\n  azure: {enabled: true, rdmaDevicesPerGPU: 1, rdmaDeviceName: hca}\n";
    fs::write(folder.path().join("values.yaml"), values).unwrap();
    let args = ["--values", "values.yaml", "--set", "rdmaDevicesPerGPU=2"];
    let objects = manifests_in(folder.path(), &args);
    assert_eq!(
        settings(&objects),
        json!({"multinodeNetworking": {"azure": {"enabled": true, "rdmaDevicesPerGPU": 2.0, "rdmaDeviceName": "hca"}}})
    );
    // What the server gets says the same once more.
    let again = settings(&objects).to_string();
    fs::write(folder.path().join("again.yaml"), again).unwrap();
    let same = manifests_in(folder.path(), &["--values", "again.yaml"]);
    assert_eq!(same, objects);
}

#[test]
fn what_is_built_in_is_chosen_by_the_values_alone() {
    let objects = manifests(&["--policy", "gcp-tcpxo"]);
    assert_eq!(settings(&objects), json!({"multinodeNetworking": {"gcp": {"enabled": true}}}));
    assert!(!arguments(&objects).iter().any(|one| one.starts_with("--policy")));
    assert!(!objects.iter().any(|one| one["metadata"]["name"] == "fabric-injector-policies"));
}

#[test]
fn what_happens_without_a_server_is_for_the_operator_to_say() {
    let webhook = |objects: &[Value]| of_kind(objects, "MutatingWebhookConfiguration")["webhooks"][0].clone();
    let actions = |objects: &[Value]| {
        named(objects, "ValidatingAdmissionPolicyBinding", "fabric-injector-guard")["spec"]["validationActions"].clone()
    };
    let default = manifests(&["--policy", "aws-efa"]);
    assert_eq!(webhook(&default)["failurePolicy"], "Fail");
    assert_eq!(actions(&default), json!(["Warn", "Audit"]));
    let other = manifests(&["--policy", "aws-efa", "--failure-policy", "Ignore", "--guard", "Deny"]);
    assert_eq!(webhook(&other)["failurePolicy"], "Ignore");
    assert_eq!(actions(&other), json!(["Deny", "Audit"]));
    assert_eq!(guard(&other)["spec"]["failurePolicy"], "Fail");
    assert!(arguments(&default).contains(&"--on-error=deny"));
    assert!(arguments(&other).contains(&"--on-error=allow"));
    let none = manifests(&["--policy", "aws-efa", "--guard", "none"]);
    assert!(!none.iter().any(|one| one["metadata"]["name"] == "fabric-injector-guard"));
    // The policy for the servers does not depend on it.
    assert_eq!(of_kind(&none, "ValidatingAdmissionPolicy")["metadata"]["name"], "fabric-injector-token");
}

#[test]
fn in_audit_mode_no_pod_depends_on_the_webhook_and_there_is_no_guard() {
    let args = ["--policy", "aws-efa", "--mode", "audit", "--failure-policy", "fail", "--guard", "deny"];
    let objects = manifests(&args);
    let webhook = &of_kind(&objects, "MutatingWebhookConfiguration")["webhooks"][0];
    assert_eq!(webhook["failurePolicy"], "Ignore");
    let given = arguments(&objects);
    assert!(given.contains(&"--mode=audit") && given.contains(&"--on-error=allow"), "{given:?}");
    assert!(!objects.iter().any(|one| one["metadata"]["name"] == "fabric-injector-guard"));
    assert!(arguments(&manifests(&["--policy", "aws-efa"])).contains(&"--mode=inject"));
}

/// `kubectl apply` creates them in this order.
#[test]
fn what_limits_the_token_is_created_before_the_role_that_it_limits() {
    let folder = tempfile::tempdir().unwrap();
    let own =
        run(&["policy", "show", "aws-efa"], "").exits(0).text().replace("name: aws-efa\n", "name: ours\n");
    fs::write(folder.path().join("ours.yaml"), own).unwrap();
    for objects in
        [manifests(&["--policy", "aws-efa"]), manifests_in(folder.path(), &["--policy", "ours.yaml"])]
    {
        let place = |kind: &str| objects.iter().position(|one| one["kind"] == kind).unwrap();
        assert_eq!(place("Namespace"), 0);
        let (policy, binding) =
            (place("ValidatingAdmissionPolicy"), place("ValidatingAdmissionPolicyBinding"));
        assert_eq!(objects[policy]["metadata"]["name"], "fabric-injector-token");
        assert_eq!(objects[binding]["metadata"]["name"], "fabric-injector-token");
        assert!(policy < binding && binding < place("ClusterRole") && binding < place("Deployment"));
    }
}

/// A name that the program brought along would be one that somebody else can push to.
#[test]
fn the_image_is_the_one_that_is_given_and_none_is_without() {
    let objects = manifests(&["--policy", "aws-efa"]);
    let image = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, IMAGE);
    assert_snapshot!(run(&["manifests", "--policy", "aws-efa"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the following required arguments were not provided:
      --image <IMAGE>

    Usage: fabric-injector manifests --image <IMAGE> --policy <NAME|PATH|DIR>

    For more information, try '--help'.
    ");
}

#[test]
fn every_object_has_what_it_takes_to_be_one_and_none_is_there_twice() {
    let objects = manifests(&["--policy", "oci-sriov"]);
    let mut names: Vec<String> = objects
        .iter()
        .map(|one| {
            let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{one}")).to_owned();
            text(&one["apiVersion"]);
            format!("{} {}", text(&one["kind"]), text(&one["metadata"]["name"]))
        })
        .collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(!names.iter().any(|name| name.starts_with("Pod ") || name.starts_with("Secret ")), "{names:?}");
}

fn refused(args: &[&str]) -> String {
    run(&[&MANIFESTS[..], &["--policy", "aws-efa"], args].concat(), "").recorded()
}

#[test]
fn what_cannot_be_installed_is_told() {
    assert_snapshot!(refused(&["--namespace", "GPU"]), @"
    exit status: 2
    ----- stderr -----
    error: invalid value 'GPU' for '--namespace <NAME>': the name of a namespace has at most 63 lower case letters, digits and `-`

    For more information, try '--help'.
    ");
    assert_snapshot!(refused(&["--guard", "loud"]), @"
    exit status: 2
    ----- stderr -----
    error: invalid value 'loud' for '--guard <GUARD>'
      [possible values: warn, deny, none]

    For more information, try '--help'.
    ");
    assert_snapshot!(refused(&["--set", "efaDevicesPerGPU=many"]), @r#"
    exit status: 2
    ----- stderr -----
    error: `--set efaDevicesPerGPU=many`: `efaDevicesPerGPU` must be a number, but is `"many"`
    "#);
}

#[test]
fn the_server_knows_every_option_that_it_is_given() {
    let help = run(&["serve", "--help"], "").exits(0);
    let given = manifests(&["--policy", "aws-efa"]);
    let given = arguments(&given);
    assert_eq!(given[0], "serve");
    assert!(given.len() > 5, "{given:?}");
    for option in &given[1..] {
        let (name, end) = option.split_once('=').map_or((*option, "\n"), |(name, _)| (name, " <"));
        assert!(help.text().contains(&format!(" {name}{end}")), "{name}");
    }
}
