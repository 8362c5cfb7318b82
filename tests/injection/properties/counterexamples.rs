//! Counterexamples that the generated pairs found beyond the faults that were known, as small as they can be: what a pod
//! may not have, and what is said of it.

use serde_json::json;

use super::cases::{after, container, holds, one, pod, refused};
use super::generator::pools::INSTANCE_TYPE;

/// `null` in a container is nothing, also to an expression that reads the whole of it.
#[test]
fn null_is_nothing_to_an_expression() {
    let own = "e.?name.orValue('') == 'MINE'";
    for condition in [
        format!("${{pod.spec.?containers.orValue([]).exists(c, c.?env.orValue([]).exists(e, {own}))}}"),
        format!("${{!container.?env.orValue([]).exists(e, {own})}}"),
        "${container.?securityContext.?runAsUser.orValue(0) == 0}".to_owned(),
    ] {
        let rules = json!([{"name": "r", "containers": condition, "container": {"env": [{"name": "A", "value": "1"}]}}]);
        let injection = holds(&rules, &one(&json!({"env": null, "securityContext": null})));
        after(&injection);
    }
}

/// A container that the pod does not have is not made of a few fields: it would have no image.
#[test]
fn a_container_without_an_image_is_not_added() {
    let rules = json!([{"name": "r", "pod": {"spec": {"containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}]}]}}}]);
    holds(&rules, &one(&json!({})));
}

/// A rule selects the sidecar of another one in the same call, or in none.
#[test]
fn the_policys_own_sidecar_is_as_a_condition_says_in_each_call() {
    let sidecar = json!({"name": "agent", "image": "i", "restartPolicy": "Always"});
    let rules = |condition: &str| {
        json!([
            {"name": "sidecar", "pod": {"spec": {"initContainers": [sidecar]}}},
            {"name": "all", "containers": condition, "container": {"env": [{"name": "A", "value": "1"}]}},
        ])
    };
    let mut pod = one(&json!({}));
    pod["spec"]["nodeSelector"] = json!({INSTANCE_TYPE: "huge.16"});
    pod["spec"]["hostNetwork"] = json!(true);
    holds(&rules("${hostNetwork && 'node.kubernetes.io/instance-type' in node}"), &pod);
    for condition in [
        "${node[?'node.kubernetes.io/instance-type'].orValue('') == 'huge.16'}",
        "${container.name == 'agent' || gpus > 0}",
    ] {
        holds(&rules(condition), &pod);
    }
}

/// A block device needs its volume, as a mount does.
#[test]
fn a_policy_adds_no_block_device() {
    let rules =
        json!([{"name": "r", "container": {"volumeDevices": [{"name": "block", "devicePath": "/dev/x"}]}}]);
    refused(&rules, "an overlay cannot set `volumeDevices`");
}

/// Two containers of one pod cannot have one port of the node, which all ports of a hostNetwork pod are.
#[test]
fn ports_do_not_meet_on_the_node() {
    let two = json!({"containers": [container("main", &json!({})), container("worker", &json!({}))]});
    let rules = json!([{"name": "r", "container": {"ports": [{"containerPort": 9000, "hostPort": 9000}]}}]);
    refused(&rules, "an overlay cannot set `hostPort`");
    let rules = json!([{"name": "r", "container": {"ports": [{"containerPort": 9000}]}}]);
    let mut host = pod(&two);
    host["spec"]["hostNetwork"] = json!(true);
    holds(&rules, &host);
    let rules = json!([{"name": "r", "container": {"ports": [{"containerPort": 9001, "name": "metrics"}]}}]);
    holds(&rules, &one(&json!({"ports": [{"containerPort": 80, "name": "metrics"}]})));
}

/// Probes and hooks are for containers that keep running, and each has one way to ask.
#[test]
fn probes_are_added_where_they_may_be() {
    let probe = json!({"tcpSocket": {"port": 1}});
    let init = json!({"initContainers": [container("first", &json!({}))], "containers": [container("main", &json!({}))]});
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        holds(&json!([{"name": "r", "container": {key: probe}}]), &pod(&init));
        holds(
            &json!([{"name": "r", "container": {key: probe}}]),
            &one(&json!({key: {"exec": {"command": ["true"]}}})),
        );
    }
    let lifecycle = json!({"preStop": {"exec": {"command": ["true"]}}});
    holds(&json!([{"name": "r", "container": {"lifecycle": lifecycle}}]), &pod(&init));
    holds(
        &json!([{"name": "r", "container": {"lifecycle": lifecycle}}]),
        &one(&json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}})),
    );
}

/// Fields of the pod that the API server refuses next to one another.
#[test]
fn fields_that_exclude_each_other_do_not_meet() {
    let sysctls = json!({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]});
    for (wanted, own) in [
        (json!({"hostPID": true}), json!({"shareProcessNamespace": true})),
        (json!({"shareProcessNamespace": true}), json!({"hostPID": true})),
        (json!({"securityContext": sysctls}), json!({"hostNetwork": true})),
        (json!({"hostNetwork": true}), json!({"securityContext": sysctls})),
    ] {
        let mut pod = one(&json!({}));
        pod["spec"].as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        holds(&json!([{"name": "r", "pod": {"spec": wanted}}]), &pod);
    }
    let mut two_ports = pod(&json!({"containers": [
        container("main", &json!({"ports": [{"containerPort": 80}]})),
        container("worker", &json!({"ports": [{"containerPort": 80}]})),
    ]}));
    two_ports["spec"]["restartPolicy"] = json!("Never");
    holds(&json!([{"name": "r", "pod": {"spec": {"hostNetwork": true}}}]), &two_ports);
}

/// A mount that stays without what the policy wants of it is reported.
#[test]
fn what_a_mount_lacks_is_reported() {
    for (key, value) in
        [("readOnly", json!(true)), ("subPath", json!("sub")), ("mountPropagation", json!("HostToContainer"))]
    {
        let rules = json!([{
            "name": "r", "pod": {"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}},
            "container": {"volumeMounts": [{"name": "scratch", "mountPath": "/data", key: value}]},
        }]);
        let mut pod = one(&json!({"volumeMounts": [{"name": "scratch", "mountPath": "/data"}]}));
        pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        let injection = holds(&rules, &pod);
        assert!(!injection.warnings.is_empty(), "{key}: {injection:?}");
    }
}

/// The path of a warning is a place that there is.
#[test]
fn a_container_that_stays_where_it_is_is_named() {
    let rules = json!([{"name": "r", "pod": {"spec": {"initContainers": [{"name": "main", "image": "i"}]}}}]);
    let injection = holds(&rules, &one(&json!({})));
    assert!(!injection.warnings.is_empty());
}

/// The API server drops an empty list, so that one in an overlay would be added on every pass.
#[test]
fn an_empty_list_is_no_overlay() {
    for field in ["ports", "envFrom", "args"] {
        refused(&json!([{"name": "r", "container": {field: [], "tty": true}}]), "an empty list adds nothing");
    }
}

/// What the pod requests is counted once the overlays of the pod have added to it, or they may not add to it.
#[test]
fn requests_are_those_of_the_finished_pod() {
    let rails = "${lists.range(podRequests[?'example.com/nic'].orValue(0)).map(i, 'team/rail-' + string(i))}";
    let networks = json!({"k8s.v1.cni.cncf.io/networks": rails});
    let worker = json!({"name": "worker", "resources": {"limits": {"example.com/nic": 2}}});
    for sets in [json!({"containers": [worker]}), json!({"initContainers": [worker]})] {
        let rules = json!([
            {"name": "amounts", "pod": {"spec": sets}},
            {"name": "networks", "pod": {"metadata": {"annotations": networks}}},
        ]);
        let list = if sets["containers"].is_null() { "initContainers" } else { "containers" };
        let mut pod = one(&json!({}));
        let worker = container("worker", &json!({"resources": {}}));
        match pod["spec"][list].as_array_mut() {
            Some(containers) => containers.push(worker),
            None => pod["spec"][list] = json!([worker]),
        }
        holds(&rules, &pod);
    }
}

/// A policy does not change when a container of the pod ends.
#[test]
fn an_init_container_does_not_become_a_sidecar() {
    let init = json!({"resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"memory": "1Gi"}}});
    let main = json!({"resources": {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}}});
    let mut pod = pod(&json!({
        "initContainers": [container("first", &init)], "containers": [container("main", &main)],
        "resources": {"limits": {"memory": "256Gi"}},
    }));
    super::generator::defaults::complete(&mut pod);
    for rules in [
        json!([{"name": "r", "container": {"restartPolicy": "Always"}}]),
        json!([{"name": "r", "pod": {"spec": {"initContainers": [{"name": "first", "restartPolicy": "Always"}]}}}]),
    ] {
        let injection = holds(&rules, &pod);
        assert!(after(&injection)["spec"]["initContainers"][0]["restartPolicy"].is_null(), "{injection:?}");
    }
}

/// Constants that contradict each other are found when the policy is loaded, whatever the pod of the sample is.
#[test]
fn a_request_above_its_limit_is_no_policy() {
    let rules = json!([{
        "name": "r", "containers": "${pod.spec.?securityContext.?runAsNonRoot.orValue(false)}",
        "container": {"resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}}},
    }]);
    refused(&rules, "the request \"2Gi\" of `memory` does not go with the limit \"1Gi\"");
}
