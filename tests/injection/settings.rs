//! Settings that reach the ranks, and warnings about values that keep them from working.

#![allow(clippy::needless_pass_by_value, reason = "pods are written where they are used")]

use std::collections::BTreeMap;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::Definition;
use serde_json::{Value, json};

use crate::helpers::{gpu_container, injected, with};

const POLICY: &str = "\
apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: lab
spec:
  provider: lab
  description: For a test
  gpus: {resources: [nvidia.com/gpu]}
  match:
    labels: {fabric: fast}
  parameters:
    file:
      type: boolean
      description: Write the settings file
      default: true
  files:
    /etc/nccl.conf:
      variables: [NCCL_*, FI_PROVIDER]
      when: file
      env: NCCL_CONF_FILE
  variables:
    profiles:
      fast: {hca: mlx5_0, count: 8, names: [a, b]}
      slow: {hca: '', count: 0}
    profile: ${profiles['fast']}
  checks:
    - name: fabric_disabled
      env: NCCL_IB_DISABLE
      when: value == '1'
      message: turns InfiniBand off, so that NCCL uses TCP
    - name: one_adapter
      env: NCCL_IB_HCA
      when: value in profile.names
      message: ${value} is one of ${profile.count} adapters
    - name: many_gpus
      containers: gpus > 8
      message: ${gpus} GPUs are more than a node has
  rules:
    - name: nccl
      containers: gpus > 0 || container.name == 'launcher'
      env:
        NCCL_IB_HCA: '${profile.hca}'
        NCCL_NET: IB
        FI_PROVIDER: efa
        UCX_TLS: tcp
        OTHER: x
";

fn policies(text: &str, values: &[(&str, Value)]) -> PolicySet {
    let definition = Definition::read("test.yaml", text).unwrap_or_else(|error| panic!("{error}"));
    let values: BTreeMap<_, _> =
        values.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect();
    PolicySet::new(vec![(definition, values)]).unwrap_or_else(|error| panic!("{error}"))
}

fn worker(extra: Value) -> Value {
    with(gpu_container("worker", 8), &extra)
}

fn pod(containers: Vec<Value>) -> Value {
    json!({"metadata": {"labels": {"fabric": "fast"}}, "spec": {"containers": containers}})
}

/// The content of a file of a container, as the kubelet projects it.
fn file(pod: &Value, container: usize, path: &str) -> Option<String> {
    let mounts = pod["spec"]["containers"][container]["volumeMounts"].as_array()?;
    let mount = mounts.iter().find(|mount| mount["mountPath"] == path)?;
    assert_eq!(mount["readOnly"], true);
    let volumes = pod["spec"]["volumes"].as_array()?;
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"])?;
    let items = volume["downwardAPI"]["items"].as_array()?;
    let item = items.iter().find(|item| item["path"] == mount["subPath"])?;
    let field = item["fieldRef"]["fieldPath"].as_str()?;
    let key = field.strip_prefix("metadata.annotations['")?.strip_suffix("']")?;
    pod["metadata"]["annotations"][key].as_str().map(str::to_owned)
}

#[test]
fn a_file_has_the_settings_of_its_variables() {
    let (pod, warnings) = injected(&policies(POLICY, &[]), pod(vec![worker(json!({}))]));
    let lines = file(&pod, 0, "/etc/nccl.conf").unwrap();
    assert_eq!(lines, "NCCL_IB_HCA=mlx5_0\nNCCL_NET=IB\nFI_PROVIDER=efa\n");
    assert_eq!(warnings, []);
    // The environment has them, too.
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "NCCL_NET", "value": "IB"})));
}

#[test]
fn a_value_of_the_container_is_the_one_in_the_file() {
    let own = worker(json!({"env": [{"name": "NCCL_NET", "value": "Socket"}]}));
    let (pod, warnings) = injected(&policies(POLICY, &[]), pod(vec![own]));
    assert!(file(&pod, 0, "/etc/nccl.conf").unwrap().contains("NCCL_NET=Socket\n"));
    assert_eq!(warnings[0].0, "kept_env");
}

#[test]
fn containers_share_a_file_unless_their_values_differ() {
    let second = gpu_container("second", 8);
    let other = json!({"name": "other", "image": "i"});
    let (same, _) = injected(&policies(POLICY, &[]), pod(vec![worker(json!({})), second.clone(), other]));
    assert_eq!(same["spec"]["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(file(&same, 0, "/etc/nccl.conf"), file(&same, 1, "/etc/nccl.conf"));
    assert_eq!(file(&same, 2, "/etc/nccl.conf"), None);

    let own = worker(json!({"env": [{"name": "NCCL_NET", "value": "Socket"}]}));
    let (differ, _) = injected(&policies(POLICY, &[]), pod(vec![second, own]));
    assert_eq!(differ["spec"]["volumes"].as_array().unwrap().len(), 2);
    assert!(file(&differ, 0, "/etc/nccl.conf").unwrap().contains("NCCL_NET=IB\n"));
    assert!(file(&differ, 1, "/etc/nccl.conf").unwrap().contains("NCCL_NET=Socket\n"));
}

#[test]
fn the_containers_own_file_stays() {
    let mount = json!({"name": "own", "mountPath": "/etc/nccl.conf/"});
    let mut own = pod(vec![worker(json!({"volumeMounts": [mount]}))]);
    own["spec"]["volumes"] = json!([{"name": "own", "configMap": {"name": "nccl"}}]);
    let (pod, warnings) = injected(&policies(POLICY, &[]), own);
    assert_eq!(warnings[0].0, "kept_mount");
    assert_eq!(pod["metadata"]["annotations"].as_object().unwrap().len(), 1, "the stamp only");

    let elsewhere = worker(json!({"env": [{"name": "NCCL_CONF_FILE", "value": "/x"}]}));
    let (pod, warnings) = injected(&policies(POLICY, &[]), self::pod(vec![elsewhere]));
    assert_eq!(warnings[0].0, "settings_elsewhere");
    assert_eq!(file(&pod, 0, "/etc/nccl.conf"), None);
}

#[test]
fn a_value_that_a_file_cannot_hold_is_in_the_environment_only() {
    for (entry, count) in [
        (json!({"name": "NCCL_NET", "value": "$(OTHER)"}), 2),
        (json!({"name": "NCCL_NET", "value": "a\nb"}), 2),
        (json!({"name": "NCCL_NET", "value": "x".repeat(1024)}), 2),
        (json!({"name": "NCCL_NET", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}), 2),
        (json!({"name": "NCCL_NET", "value": "x".repeat(1023)}), 3),
    ] {
        let (pod, warnings) = injected(&policies(POLICY, &[]), pod(vec![worker(json!({"env": [entry]}))]));
        assert_eq!(file(&pod, 0, "/etc/nccl.conf").unwrap().lines().count(), count);
        assert_eq!(warnings.iter().any(|(code, _)| code == "not_in_file"), count == 2, "{warnings:?}");
    }
}

/// A check of a variable needs its value.
#[test]
fn a_value_that_only_the_kubelet_knows_is_named_once_for_all_checks() {
    let check =
        |name: &str| format!("    - {{name: {name}, env: NCCL_NET, when: value == 'Socket', message: m}}\n");
    let checks = format!("  checks:\n{}{}", check("one"), check("two"));
    let policy = POLICY.replace("  checks:\n", &checks);
    let from = json!({"name": "NCCL_NET", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}});
    let (_, warnings) = injected(&policies(&policy, &[]), pod(vec![worker(json!({"env": [from]}))]));
    let codes = warnings.iter().filter(|(code, _)| code == "value_unread");
    let texts: Vec<&String> = codes.map(|(_, text)| text).collect();
    assert!(
        matches!(&texts[..], [text] if text.contains("write the value of `NCCL_NET` out")),
        "{warnings:?}"
    );
    let (_, warnings) = injected(&policies(&policy, &[]), pod(vec![worker(json!({}))]));
    assert!(warnings.iter().all(|(code, _)| code != "value_unread"), "{warnings:?}");
}

#[test]
fn a_file_has_the_value_that_the_container_sees() {
    let own = worker(json!({"env": [{"name": "NCCL_NET", "value": "a$$b"}]}));
    let (pod, warnings) = injected(&policies(POLICY, &[]), pod(vec![own]));
    assert!(file(&pod, 0, "/etc/nccl.conf").unwrap().contains("NCCL_NET=a$b\n"));
    assert!(warnings.iter().all(|(code, _)| code != "not_in_file"), "{warnings:?}");
}

#[test]
fn settings_do_not_share_a_volume_with_rules_or_with_other_settings() {
    let rule = "  rules:\n    - name: cache\n      pod: {spec: {volumes: [{name: nccl-settings, emptyDir: {}}]}}\n      \
                container: {volumeMounts: [{name: nccl-settings, mountPath: /cache}]}\n";
    let (with_volume, _) =
        injected(&policies(&POLICY.replace("  rules:\n", rule), &[]), pod(vec![worker(json!({}))]));
    assert!(file(&with_volume, 0, "/etc/nccl.conf").unwrap().contains("NCCL_NET=IB\n"));
    let volume = with_volume["spec"]["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|volume| !volume["emptyDir"].is_null());
    let mounts = with_volume["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
    assert_eq!(
        mounts.iter().find(|mount| mount["mountPath"] == "/cache").unwrap()["name"],
        volume.unwrap()["name"]
    );

    let other = "  files:\n    /etc/nccl-2.conf: {variables: [NCCL_*, FI_PROVIDER]}\n";
    let text = POLICY.replace("  files:\n", other);
    // The second container has the second file of `nccl`, and the first one that of the file `nccl-2`.
    let own = worker(json!({"name": "own", "env": [{"name": "NCCL_NET", "value": "Socket"}]}));
    let containers = vec![worker(json!({"name": "other"})), own, worker(json!({}))];
    let (pod, _) = injected(&policies(&text, &[]), pod(containers));
    assert!(file(&pod, 0, "/etc/nccl-2.conf").unwrap().contains("NCCL_NET=IB\n"));
    assert!(file(&pod, 1, "/etc/nccl.conf").unwrap().contains("NCCL_NET=Socket\n"));
    assert!(file(&pod, 2, "/etc/nccl.conf").unwrap().contains("NCCL_NET=IB\n"));
}

#[test]
fn a_parameter_turns_the_file_off() {
    let (pod, _) = injected(&policies(POLICY, &[("file", json!(false))]), pod(vec![worker(json!({}))]));
    assert_eq!(file(&pod, 0, "/etc/nccl.conf"), None);
    assert!(pod["spec"]["volumes"].is_null());
}

#[test]
fn a_pod_of_an_earlier_version_gets_the_present_lines() {
    let (mut earlier, _) = injected(&policies(POLICY, &[]), pod(vec![worker(json!({}))]));
    let text = POLICY.replace("OTHER: x", "NCCL_NEW: 1");
    earlier["metadata"]["annotations"]["fabric-injector.io/injected"] = json!("lab@000000000000");
    let (pod, warnings) = injected(&policies(&text, &[]), earlier);
    assert!(file(&pod, 0, "/etc/nccl.conf").unwrap().ends_with("NCCL_NEW=1\n"));
    assert!(warnings.iter().any(|(code, _)| code == "replaced"), "{warnings:?}");
}

#[test]
fn a_value_that_defeats_the_fabric_is_reported_as_such() {
    let env = json!([{"name": "NCCL_IB_HCA", "value": "a"}, {"name": "NCCL_IB_DISABLE", "value": "1"}]);
    let (_, warnings) = injected(&policies(POLICY, &[]), pod(vec![worker(json!({"env": env}))]));
    let texts: Vec<&str> = warnings.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "`spec.containers[worker].env[NCCL_IB_DISABLE]`: turns InfiniBand off, so that NCCL uses TCP",
            "`spec.containers[worker].env[NCCL_IB_HCA]`: a is one of 8 adapters",
        ]
    );
    // The policy's own value is none of the container's.
    let (_, warnings) = injected(&policies(POLICY, &[]), pod(vec![worker(json!({}))]));
    assert_eq!(warnings, []);
    let many = json!({"resources": {"limits": {"nvidia.com/gpu": 9}}});
    let (_, warnings) = injected(&policies(POLICY, &[]), pod(vec![worker(many)]));
    assert_eq!(warnings[0].1, "`spec.containers[worker]`: 9 GPUs are more than a node has");
}

#[test]
fn mistakes_in_settings_are_found_at_their_line() {
    for (from, to, message) in [
        ("/etc/nccl.conf:", "etc/nccl.conf:", "test.yaml:17:5"),
        // The kubelet reserves names that begin with `..` in a volume.
        ("/etc/nccl.conf:", "/etc/..nccl.conf:", "the path of a file is `/etc/..nccl.conf`"),
        ("[NCCL_*, FI", "[NCCL-*, FI", "`NCCL-*` is not the name of a variable"),
        (
            "  files:\n",
            "  files:\n    /opt/nccl.conf: {variables: [UCX_*]}\n",
            "two entries of `files` have the name `nccl`",
        ),
        ("when: file", "when: gpus > 0", "`gpus` is known only for a container"),
        ("when: value == '1'", "when: podRequests == null", "`podRequests` is known only after"),
        ("    profiles:\n", "    value: x\n    profiles:\n", "the policy has a name `value` of its own"),
        ("message: ${gpus} GPUs", "message: ${value} GPUs", "`value` is neither a parameter nor a variable"),
    ] {
        let text = POLICY.replacen(from, to, 1);
        assert_ne!(text, POLICY, "{from}");
        let error = Definition::read("test.yaml", &text).expect_err(to).to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
}
