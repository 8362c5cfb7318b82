//! Claims, GPUs that come by claim, and pods that bring devices of the fabric.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::edits::{DEVICE_CLASS, inject, pod, policy};
use super::policy_errors::with_policy;

/// A pod with two claims, of which its container uses those that are named.
fn claiming(used: &[&str]) -> Value {
    let mut pod = pod();
    let used: Vec<Value> = used.iter().map(|name| json!({"name": name})).collect();
    pod["spec"]["containers"][0]["resources"] = json!({"claims": used});
    pod["spec"]["resourceClaims"] = json!([
        {"name": "mine", "resourceClaimName": "team-gpus"},
        {"name": "nic", "resourceClaimTemplateName": "nic-template"}]);
    pod
}

const CHANNEL: &str = "  rules:\n    - name: channel\n      \
    container: {resources: {claims: [{name: channel}]}}\n      \
    pod: {spec: {resourceClaims: [{name: channel, resourceClaimTemplateName: domain}]}}\n";

#[test]
fn claims_are_merged_and_reported() {
    let injected = inject(&policy(CHANNEL), &pod());
    assert_eq!(
        injected.pod["spec"]["resourceClaims"],
        json!([{"name": "channel", "resourceClaimTemplateName": "domain"}])
    );
    assert_eq!(injected.pod["spec"]["containers"][0]["resources"]["claims"], json!([{"name": "channel"}]));
    assert_eq!(
        injected.report["added"],
        json!([
            "a: claim channel",
            "pod: claim channel, annotation fabric-injector.io/claims fabric-injector.io/injected"
        ])
    );
}

#[test]
fn an_own_claim_of_the_same_name_stays() {
    let mut own = pod();
    own["spec"]["resourceClaims"] = json!([{"name": "channel", "resourceClaimName": "mine"}]);
    let injected = inject(&policy(CHANNEL), &own);
    assert_eq!(injected.pod["spec"]["resourceClaims"], own["spec"]["resourceClaims"]);
    assert_eq!(injected.pod["spec"]["containers"][0]["resources"]["claims"], json!([{"name": "channel"}]));
    assert_eq!(injected.codes(), ["kept_field"]);
    assert_eq!(injected.report["warnings"][0]["path"], "spec.resourceClaims[channel]");
    assert_eq!(injected.report["added"][0], "a: claim channel");
}

#[test]
fn a_policy_that_reads_the_claims_it_adds_settles_or_is_refused() {
    let flipping = CHANNEL.replace(
        "- name: channel\n",
        "- name: channel\n      onConflict: replace\n      when: \"!('domain' in claimNames)\"\n",
    );
    assert_eq!(inject(&policy(&flipping), &pod()).codes(), Vec::<&str>::new());
    let counting = |value: &str| {
        format!("{CHANNEL}    - {{name: count, onConflict: replace, env: {{COUNT: \"${{{value}}}\"}}}}\n")
    };
    let counted = inject(&policy(&counting("string(size(claimNames))")), &pod());
    assert_eq!(counted.pod["spec"]["containers"][0]["env"][0]["value"], "2");
    let turning = counting("container.?env.orValue([]).exists(e, e.?value.orValue('') == '2') ? '3' : '2'");
    assert_snapshot!(with_policy(&policy(&turning), &pod().to_string()).recorded(), @r#"
    exit status: 2
    ----- stderr -----
    error: the policy is not idempotent: `spec.containers[a].env[COUNT].value` of a sample pod (one container with GPUs) changes by the rule `count` each time that it is injected
      --> lab.yaml:13:48
       |
    13 |     - {name: count, onConflict: replace, env: {COUNT: "${container.?env.orValue([]).exists(e, e.?value.orValue('') == '2') ? '3' : '...
       |                                                ^^^^^
       |
       = hint: a value must not depend on what the policy itself adds
    "#);
}

const SHOWN: &str = "  rules:\n    - name: r\n      containers: gpus > 0\n      env:\n        \
    GPUS: ${gpus} of ${totalGpus}\n        \
    COUNTS: ${gpuCounts['nvidia.com/gpu']} ${gpuCounts['claims']}\n        \
    CLAIMS: ${claimNames.join(',')}\n";

fn shown(pod: &Value, container: usize) -> Vec<&str> {
    let env = pod["spec"]["containers"][container]["env"].as_array();
    env.into_iter().flatten().map(|entry| entry["value"].as_str().unwrap()).collect()
}

fn by_claim(claims: &str) -> String {
    by_claim_with(claims, "")
}

fn by_claim_with(claims: &str, head: &str) -> String {
    policy(&format!("{head}{SHOWN}")).replacen("]}\n", &format!("], claims: {claims}}}\n"), 1)
}

const FOUR: &str = "{'*-gpus': 4, b200: 4}";

#[test]
fn pods_whose_gpus_come_by_claim_alone_are_injected() {
    let injected = inject(&by_claim(FOUR), &claiming(&["mine", "nic"]));
    assert_eq!(shown(&injected.pod, 0), ["4 of 4", "0 4", "mine,team-gpus,nic,nic-template"]);
    let other = inject(&by_claim(FOUR), &claiming(&["nic"]));
    assert_eq!(other.report["reason"], "no_gpu_container");
    let message = other.report["message"].as_str().unwrap();
    assert!(
        message.contains("the claim `nic`") && message.contains("ResourceClaimTemplate `nic-template`"),
        "{message}"
    );
}

#[test]
fn names_and_gpus_of_claims_can_be_parameters() {
    let head = "  parameters:\n    gpuClaimNames: {type: stringList, description: d, default: [team-gpus]}\n    \
                gpusPerClaim: {type: integer, description: d, default: 2}\n";
    let policy = by_claim_with("{\"${gpuClaimNames}\": \"${gpusPerClaim * 4}\"}", head);
    assert_eq!(shown(&inject(&policy, &claiming(&["mine"])).pod, 0)[0], "8 of 8");
}

#[test]
fn a_container_with_gpus_of_a_device_plugin_has_none_by_claim() {
    let mut pod = claiming(&["mine", "mine"]);
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": 2});
    let other = json!({"name": "b", "image": "i", "resources": {"claims": [{"name": "mine"}]}});
    pod["spec"]["containers"].as_array_mut().unwrap().push(other);
    let injected = inject(&by_claim(FOUR), &pod);
    assert_eq!(shown(&injected.pod, 0)[..2], ["2 of 6", "2 0"]);
    assert_eq!(shown(&injected.pod, 1)[..2], ["4 of 6", "0 4"]);
}

#[test]
fn a_claim_that_containers_share_counts_once() {
    let mut pod = claiming(&["mine", "mine"]);
    let other = json!({"name": "b", "image": "i", "resources": {"claims": [{"name": "mine"}]}});
    pod["spec"]["containers"].as_array_mut().unwrap().push(other);
    let injected = inject(&by_claim(FOUR), &pod);
    assert_eq!(shown(&injected.pod, 0)[..2], ["4 of 4", "0 4"]);
    assert_eq!(shown(&injected.pod, 1)[..2], ["4 of 4", "0 4"]);
}

#[test]
fn the_first_name_that_matches_a_claim_has_its_number_of_gpus() {
    let gpus = |names: &str| {
        let injected = inject(&by_claim(&format!("{{{names}}}")), &claiming(&["mine"]));
        injected.report["reason"]
            .as_str()
            .map_or_else(|| shown(&injected.pod, 0)[0].to_owned(), str::to_owned)
    };
    assert_eq!(gpus("'team-*': 2, '*gpus*': 8"), "2 of 2");
    assert_eq!(gpus("'*gpus*': 8, 'team-*': 2"), "8 of 8");
    assert_eq!(gpus("mine: 3, '*gpus*': 8"), "3 of 3");
    // No GPUs at all decide wherever they stand.
    assert_eq!(gpus("'*m*e*': 0, '*gpus*': 8"), "no_gpu_container");
    assert_eq!(gpus("'*gpus*': 8, '*m*e*': 0"), "no_gpu_container");
    // An expression yields one name, several or none.
    assert_eq!(
        gpus("'${null}': 1, '${[]}': 1, \"${['other', 'mine']}\": '${2 + 3}', '${\"*gpus*\"}': 8"),
        "5 of 5"
    );
}

#[test]
fn gpus_can_be_requested_by_device_class() {
    let mut pod = pod();
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({DEVICE_CLASS: 8});
    let rules = format!(
        "  rules:\n    - name: r\n      pod:\n        metadata:\n          annotations:\n            \
         count: \"${{podRequests[?'{DEVICE_CLASS}'].orValue(0)}} of ${{totalGpus}}\"\n"
    );
    let injected = inject(&policy(&rules), &pod);
    assert_eq!(injected.pod["metadata"]["annotations"]["count"], "8 of 8");
}

const DEVICES: &str = "  parameters:\n    resource: {type: string, description: d, default: rdma/vf}\n  \
    devices:\n    resources: ['${resource}', 'rdma/*']\n    \
    claims: {'*-nics': 1}\n    add:\n      - name: devices\n        resources: {'${resource}': '${gpus}'}\n        \
    networks: rdma-vf\n      - name: claim\n        claims: {nics: policy-nics}\n  \
    rules:\n    - {name: settings, env: {A: b}}\n";

fn with(pointer: &str, value: Value) -> Value {
    let mut pod = pod();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let target = if pod.pointer(parent).is_some() {
        pod.pointer_mut(parent).unwrap()
    } else {
        pod["metadata"]["annotations"] = json!({});
        &mut pod["metadata"]["annotations"]
    };
    target[key.replace("~1", "/")] = value;
    pod
}

const LIMIT: &str = "/spec/containers/0/resources/limits";
const NETWORKS: &str = "/metadata/annotations/k8s.v1.cni.cncf.io~1networks";

#[test]
fn a_pod_that_brings_its_devices_keeps_them_and_gets_the_rest() {
    for (pod, name) in [
        (with(&format!("{LIMIT}/rdma~1ib"), json!(8)), "rdma/ib"),
        (
            with("/spec/resourceClaims", json!([{"name": "x", "resourceClaimTemplateName": "my-nics"}])),
            "my-nics",
        ),
        (with("/spec/resourceClaims", json!([{"name": "x", "resourceClaimName": "my-nics"}])), "my-nics"),
        // With the policy's claim in addition, the pod would ask for twice the devices of the template.
        (
            with("/spec/resourceClaims", json!([{"name": "x", "resourceClaimTemplateName": "policy-nics"}])),
            "policy-nics",
        ),
    ] {
        let injected = inject(&policy(DEVICES), &pod);
        assert_eq!(injected.codes()[0], "kept_fabric", "{name}");
        let message = injected.report["warnings"][0]["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{name}`")), "{message}");
        let record = if pod["spec"]["resourceClaims"].is_null() { "" } else { "fabric-injector.io/claims " };
        assert_eq!(
            injected.report["added"],
            json!(["a: env A", format!("pod: annotation {record}fabric-injector.io/injected")]),
            "{name}"
        );
    }
}

#[test]
fn the_names_that_the_policy_adds_are_not_the_pods_own() {
    for pod in [
        pod(),
        with(&format!("{LIMIT}/rdma~1vf"), json!(8)),
        with(&format!("{LIMIT}/rdma~1ib"), json!(0)),
        with(NETWORKS, json!("default/rdma-vf,storage")),
        with("/spec/resourceClaims", json!([{"name": "nics", "resourceClaimTemplateName": "policy-nics"}])),
    ] {
        let injected = inject(&policy(DEVICES), &pod);
        assert_eq!(injected.codes(), Vec::<&str>::new());
        let container = &injected.pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["claims"], json!([{"name": "nics"}]));
        assert!(
            container["resources"]["limits"]["rdma/vf"] == json!("8")
                || container["resources"]["limits"]["rdma/vf"] == json!(8)
        );
    }
}

#[test]
fn another_name_of_the_policy_leaves_the_first_one_to_the_pod() {
    let other = policy(&DEVICES.replace("default: rdma/vf", "default: rdma/other"));
    assert_eq!(inject(&other, &with(&format!("{LIMIT}/rdma~1vf"), json!(8))).codes(), ["kept_fabric"]);
}

#[test]
fn a_warning_about_own_devices_is_not_doubled_where_nothing_depends_on_them() {
    let (head, rest) = DEVICES.split_once("    add:\n").unwrap();
    let rule = "    - name: devices\n      container:\n        resources:\n          \
                limits: {'${resource}': '${gpus}'}\n          requests: {'${resource}': '${gpus}'}\n";
    let (_, settings) = rest.split_once("  rules:\n").unwrap();
    let body = format!(
        "{head}  checks: [{{name: own, when: ownDevices, message: it has its own}}]\n  \
         rules:\n{rule}{settings}"
    );
    let injected = inject(&policy(&body), &with(&format!("{LIMIT}/rdma~1ib"), json!(8)));
    assert_eq!(injected.codes(), ["own"]);
    assert_eq!(injected.pod["spec"]["containers"][0]["resources"]["limits"]["rdma/vf"], "8");
}

#[test]
fn the_template_of_an_added_claim_may_depend_on_the_pod() {
    let job = DEVICES.replace("policy-nics", "'${podNamespace}-nics'");
    assert_eq!(inject(&policy(&job), &pod()).codes(), Vec::<&str>::new());
}
