//! Every counterexample that the generated pairs found, as small as it can be, and the first eight faults of
//! issue 9. Each policy is refused when it is loaded, or every property holds for the pair.

use serde_json::{Value, json};

use crate::adapter::{self, Context, Injection, Result as Outcome, STAMP};
use crate::generator::policies::Policy;
use crate::generator::pools::{GPU, INSTANCE_TYPE, TRIGGER};
use crate::generator::yaml;
use crate::properties::{ALL, Group, Pair};

/// A policy with these rules for triggered pods.
fn policy(rules: &Value) -> Value {
    json!({
        "apiVersion": "fabric-injector.io/v1alpha1", "kind": "FabricPolicy", "metadata": {"name": "generated"},
        "spec": {
            "provider": "test", "description": "A counterexample", "gpuResources": [GPU],
            "match": {"anyAnnotation": {TRIGGER: "true"}}, "rules": rules,
        },
    })
}

/// A triggered pod.
fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {TRIGGER: "true"}}, "spec": spec})
}

/// A container with a GPU and these fields.
fn container(name: &str, fields: &Value) -> Value {
    let mut container =
        json!({"name": name, "image": "registry.test/train:1", "resources": {"limits": {GPU: 1}}});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    container
}

fn one(fields: &Value) -> Value {
    pod(&json!({"containers": [container("main", fields)]}))
}

/// Checks every property that needs no model of the expressions; none if the policy is refused.
fn holds(rules: &Value, pod: &Value) -> Option<Injection> {
    let policy = Policy::of(policy(rules));
    let group = Group::load(&policy).ok()?;
    let context = Context { namespace: Some("default".to_owned()), ..Context::default() };
    let pair = Pair::new(&group, pod.clone(), context);
    for (name, property) in ALL {
        if let Err(failure) = property(&pair) {
            panic!("{name} [{}]: {}\n{}{}", failure.class, failure.detail, policy.text(), yaml::text(pod));
        }
    }
    Some(pair.first)
}

/// The same for a policy that has to load.
fn loads_and_holds(rules: &Value, pod: &Value) -> Injection {
    if let Err(why) = adapter::load(&yaml::text(&policy(rules))) {
        panic!("{why}");
    }
    holds(rules, pod).unwrap()
}

fn after(injection: &Injection) -> &Value {
    match &injection.outcome {
        Outcome::Mutated { pod, .. } | Outcome::Unchanged { pod, .. } => pod,
        Outcome::Refused { text, .. } => panic!("refused: {text}"),
    }
}

fn main_container(injection: &Injection) -> &Value {
    &after(injection)["spec"]["containers"][0]
}

/// Fault 1: keys of computed look-ups were not scanned for what an expression reads.
#[test]
fn a_computed_key_is_read() {
    let rules = json!([{
        "name": "r", "when": "${pod.metadata.?labels[?podNamespace].orValue('no') == 'no'}",
        "container": {"env": [{"name": "A", "value": "1"}]},
    }]);
    let mut pod = one(&json!({}));
    pod["metadata"]["labels"] = json!({"default": "launcher"});
    let injection = loads_and_holds(&rules, &pod);
    assert!(main_container(&injection)["env"].is_null(), "the rule does not hold: {injection:?}");
}

/// Fault 2: a container that a rule reaches two ways had its variables twice in the patch.
#[test]
fn a_container_that_is_reached_two_ways_gets_each_field_once() {
    let rules = json!([{
        "name": "r",
        "container": {"env": [{"name": "A", "value": "1"}]},
        "pod": {"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "1"}]}]}},
    }]);
    if let Some(injection) = holds(&rules, &one(&json!({}))) {
        let names: Vec<&Value> = main_container(&injection)["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["name"])
            .collect();
        assert_eq!(names, ["A", "B"]);
    }
}

/// Fault 3: expressions that give a whole list or map loaded and added nothing.
#[test]
fn an_expression_for_a_whole_value_gives_that_value() {
    for (field, expression, value) in [
        ("env", "${[{'name': 'A', 'value': 'x'}]}", json!([{"name": "A", "value": "x"}])),
        (
            "securityContext",
            "${{'capabilities': {'add': ['IPC_LOCK']}}}",
            json!({"capabilities": {"add": ["IPC_LOCK"]}}),
        ),
        ("args", "${['--a', '--b']}", json!(["--a", "--b"])),
    ] {
        let rules = json!([{"name": "r", "container": {field: expression}}]);
        if let Some(injection) = holds(&rules, &one(&json!({}))) {
            assert_eq!(main_container(&injection)[field], value, "{field}");
        }
    }
    let rules = json!([{"name": "r", "container": {"resources": "${{'limits': {'rdma/hca': 2}}}"}}]);
    if let Some(injection) = holds(&rules, &one(&json!({}))) {
        assert_eq!(
            adapter::compare_amounts(
                &main_container(&injection)["resources"]["limits"]["rdma/hca"],
                &json!(2)
            ),
            Some(std::cmp::Ordering::Equal)
        );
    }
}

/// Fault 4: a request for huge pages came without its limit, and a second pass changed the pod again.
#[test]
fn huge_pages_come_with_the_memory_that_they_need() {
    let amounts = json!({"hugepages-2Mi": "512Mi", "memory": "8Gi"});
    for resources in [
        json!({"limits": amounts, "requests": amounts}),
        json!({"limits": amounts}),
        json!({"requests": amounts, "limits": amounts}),
    ] {
        let rules = json!([{"name": "r", "container": {"resources": resources}}]);
        holds(&rules, &one(&json!({})));
    }
    let rules = json!([
        {"name": "pages", "container": {"resources": {"limits": {"hugepages-2Mi": "512Mi"}}}},
        {"name": "memory", "container": {"resources": {"limits": {"memory": "8Gi"}}}},
    ]);
    holds(&rules, &one(&json!({})));
}

/// Fault 5: a port was added again once the API server had set its protocol.
#[test]
fn a_port_is_added_once() {
    let rules = json!([{"name": "r", "container": {"ports": [{"containerPort": 9000}]}}]);
    for ports in
        [json!([]), json!([{"containerPort": 9000, "protocol": "TCP"}]), json!([{"containerPort": 9000}])]
    {
        if let Some(injection) = holds(&rules, &one(&json!({"ports": ports}))) {
            assert_eq!(main_container(&injection)["ports"].as_array().unwrap().len(), 1);
        }
    }
}

/// Fault 6: a pod that another policy stamped was reported as mutated by this one, and kept the other stamp.
#[test]
fn the_stamp_in_the_pod_is_the_one_that_is_reported() {
    let rules = json!([{"name": "r", "container": {"env": [{"name": "A", "value": "1"}]}}]);
    for stamp in ["other@000000000000", "generated@000000000000", "x"] {
        let mut pod = one(&json!({}));
        pod["metadata"]["annotations"][STAMP] = json!(stamp);
        loads_and_holds(&rules, &pod);
    }
}

/// Fault 7: a policy with limits only took the pod's smaller request for its limit, and did not say so.
#[test]
fn a_limit_other_than_the_policys_is_reported() {
    let rules = json!([{"name": "r", "container": {"resources": {"limits": {"rdma/hca": 4}}}}]);
    let pod = one(&json!({"resources": {"limits": {GPU: 1}, "requests": {"rdma/hca": 1}}}));
    let injection = loads_and_holds(&rules, &pod);
    let limit = &main_container(&injection)["resources"]["limits"]["rdma/hca"];
    let wanted = adapter::compare_amounts(limit, &json!(4)) == Some(std::cmp::Ordering::Equal);
    let said = injection.warnings.iter().any(|warning| warning.path.contains("rdma/hca"));
    assert!(wanted || said, "{injection:?}");
}

/// Fault 8: mpi-operator makes the launcher of an `MPIJob` as a `Job`, so that the webhook sees a `Job` as its owner.
#[test]
fn the_launcher_of_an_mpi_job_is_owned_by_a_job() {
    let template = json!({"metadata": {"annotations": {TRIGGER: "true"}}, "spec": {"containers": [container("main", &json!({}))]}});
    let job = json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "j"},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template}, "Worker": {"template": template}}},
    });
    for (kind, injected) in [("MPIJob", "Worker"), ("Job", "Launcher")] {
        let rules = json!([{"name": "r", "container": {"env": [{"name": "A", "value": "1"}]}}]);
        let mut document = policy(&rules);
        document["spec"]["match"]["ownerKinds"] = json!([kind]);
        let policies = adapter::load(&yaml::text(&document)).unwrap();
        let (_, templates) = adapter::command(&policies, &job.to_string());
        let mutated: Vec<&str> = templates
            .iter()
            .filter(|(_, injection)| matches!(injection.outcome, Outcome::Mutated { .. }))
            .map(|(pointer, _)| pointer.split('/').nth(3).unwrap())
            .collect();
        assert_eq!(mutated, [injected], "for pods owned by a {kind}");
    }
}

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
        let injection = loads_and_holds(&rules, &one(&json!({"env": null, "securityContext": null})));
        after(&injection);
    }
}

/// A container that the pod does not have is not made of a few fields: it would have no image.
#[test]
fn a_container_without_an_image_is_not_added() {
    let rules = json!([{"name": "r", "pod": {"spec": {"containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}]}]}}}]);
    holds(&rules, &one(&json!({})));
}

/// The second pass does not inject the sidecar of the first, whatever a condition says of it.
#[test]
fn the_policys_own_sidecar_stays_as_it_is() {
    let sidecar = json!({"name": "agent", "image": "i", "restartPolicy": "Always"});
    for condition in [
        "${instanceType == 'huge.16'}",
        "${hostNetwork && instanceType != ''}",
        "${container.name == 'agent' || gpus > 0}",
    ] {
        let rules = json!([
            {"name": "sidecar", "pod": {"spec": {"initContainers": [sidecar]}}},
            {"name": "all", "containers": condition, "container": {"env": [{"name": "A", "value": "1"}]}},
        ]);
        let mut pod = one(&json!({}));
        pod["spec"]["nodeSelector"] = json!({INSTANCE_TYPE: "huge.16"});
        pod["spec"]["hostNetwork"] = json!(true);
        holds(&rules, &pod);
    }
}

/// A mount of the pod's own volume that is there as the policy wants it is no conflict.
#[test]
fn a_mount_that_is_there_is_no_conflict() {
    let mounts = json!([{"name": "scratch", "mountPath": "/opt/lib"}]);
    for on_conflict in ["replace", "refuse", "keep"] {
        let rules = json!([{"name": "r", "onConflict": on_conflict, "container": {"volumeMounts": mounts}}]);
        let mut pod = one(&json!({"volumeMounts": mounts}));
        pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        let injection = loads_and_holds(&rules, &pod);
        assert_eq!(main_container(&injection)["volumeMounts"], mounts, "{on_conflict}");
        assert!(injection.warnings.is_empty(), "{:?}", injection.warnings);
    }
}

/// Two values for one field of one container do not take turns.
#[test]
fn a_rule_does_not_replace_what_it_set_itself() {
    let memory = |amount: &str| json!({"limits": {"memory": amount}});
    let rules = json!([{
        "name": "r", "onConflict": "replace", "container": {"resources": memory("2Gi")},
        "pod": {"spec": {"containers": [{"name": "main", "resources": memory("8Gi")}]}},
    }]);
    holds(&rules, &one(&json!({})));
    let env = |value: &str| json!({"env": [{"name": "A", "value": value}]});
    let rules = json!([
        {"name": "one", "onConflict": "replace", "container": env("1")},
        {"name": "two", "onConflict": "replace", "container": env("2")},
    ]);
    holds(&rules, &one(&json!({})));
}

/// A block device needs its volume, as a mount does.
#[test]
fn a_block_device_without_its_volume_is_not_added() {
    let rules =
        json!([{"name": "r", "container": {"volumeDevices": [{"name": "block", "devicePath": "/dev/x"}]}}]);
    holds(&rules, &one(&json!({})));
}

/// Two containers of one pod cannot have one port of the node, which all ports of a hostNetwork pod are.
#[test]
fn ports_do_not_meet_on_the_node() {
    let two = json!({"containers": [container("main", &json!({})), container("worker", &json!({}))]});
    let rules = json!([{"name": "r", "container": {"ports": [{"containerPort": 9000, "hostPort": 9000}]}}]);
    holds(&rules, &pod(&two));
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
        let injection = loads_and_holds(&rules, &pod);
        assert!(!injection.warnings.is_empty(), "{key}: {injection:?}");
    }
}

/// The path of a warning is a place that there is.
#[test]
fn a_container_that_stays_where_it_is_is_named() {
    let rules = json!([{"name": "r", "pod": {"spec": {"initContainers": [{"name": "main", "image": "i"}]}}}]);
    let injection = loads_and_holds(&rules, &one(&json!({})));
    assert!(!injection.warnings.is_empty());
}

/// An edit of a list in a variable whose value comes from elsewhere.
#[test]
fn an_edit_next_to_a_source_happens_once() {
    let edit = |text: &str| json!({"env": [{"name": "LD_LIBRARY_PATH", "value": {"$append": text}}]});
    let rules = json!([
        {"name": "one", "container": edit("/a")},
        {"name": "two", "onConflict": "replace", "container": edit("/b")},
    ]);
    let own = json!({"env": [{"name": "LD_LIBRARY_PATH", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]});
    holds(&rules, &one(&own));
}

/// The API server drops an empty list, so that one in an overlay would be added on every pass.
#[test]
fn an_empty_list_is_not_added_on_every_pass() {
    for field in ["ports", "envFrom", "args"] {
        holds(&json!([{"name": "r", "container": {field: [], "tty": true}}]), &one(&json!({})));
    }
}

/// What the pod requests is counted once the overlays of the pod have added to it, or they may not add to it.
#[test]
fn requests_are_those_of_the_finished_pod() {
    let count = "${podRequests[?'example.com/nic'].orValue(0)}";
    let networks = json!({"k8s.v1.cni.cncf.io/networks": {"$networks": "team/storage", "$count": count}});
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
