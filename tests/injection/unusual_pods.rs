//! Pods with unusual values, and pods of unusual size.

#![allow(clippy::needless_pass_by_value, reason = "pods are written where they are used")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fabric_engine::Outcome;
use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_policy::work::Work;
use fabric_policy::{Definition, PodContext};
use serde_json::{Value, json};

use crate::helpers::{gpu_container, inject, injected, lab, reason, with};

fn read(body: &str) -> Result<PolicySet, String> {
    let definition = Definition::read("test.yaml", &lab("test", "labels: {fabric: fast}", body))
        .map_err(|error| error.to_string())?;
    PolicySet::new(vec![(definition, BTreeMap::new())]).map_err(|error| error.to_string())
}

fn rules(rules: &str) -> PolicySet {
    read(&format!("  rules:\n{rules}")).unwrap_or_else(|error| panic!("{error}"))
}

fn container(extra: Value) -> Value {
    with(gpu_container("a", 8), &extra)
}

fn pod(metadata: Value, spec: Value) -> Value {
    let mut pod =
        json!({"metadata": {"labels": {"fabric": "fast"}}, "spec": {"containers": [container(json!({}))]}});
    pod["metadata"] = with(pod["metadata"].take(), &metadata);
    pod["spec"] = with(pod["spec"].take(), &spec);
    pod
}

fn of(extra: Value) -> Value {
    pod(json!({}), json!({"containers": [container(extra)]}))
}

#[test]
fn a_replaced_value_has_one_warning() {
    let policies = rules(
        "    - {name: keeps, env: {A: one}}\n    \
         - {name: replaces, onConflict: replace, env: {A: two}}\n    \
         - {name: last, onConflict: replace, env: {A: three}}\n    \
         - {name: keeps-too, env: {A: four, B: five}}\n",
    );
    let env = json!({"env": [{"name": "A", "value": "own"}, {"name": "B", "value": "own"}]});
    let (_, warnings) = injected(&policies, of(env));
    let warnings: Vec<&str> = warnings.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        warnings,
        [
            "`spec.containers[a].env[A]` was `own`; rule `last` set `three`",
            "`spec.containers[a].env[B]` stays `own`; rule `keeps-too` would set `five`"
        ]
    );
}

/// The path belongs to the first rule, whatever becomes of its mount.
#[test]
fn a_mount_without_a_volume_is_reported_whatever_comes_after_it() {
    let policies = rules(
        "    - {name: ghost, container: {volumeMounts: [{name: ghost, mountPath: /data}]}}\n    \
         - name: data\n      pod: {spec: {volumes: [{name: data, emptyDir: {}}]}}\n      \
         container: {volumeMounts: [{name: data, mountPath: /data}]}\n",
    );
    let (pod, warnings) = injected(&policies, of(json!({})));
    assert!(pod["spec"]["containers"][0]["volumeMounts"].is_null());
    assert!(warnings.iter().any(|(_, text)| text.contains("ghost")), "{warnings:?}");
}

#[test]
fn a_policy_does_not_set_the_annotations_of_the_program() {
    for key in [
        "fabric-injector.io/injected",
        "fabric-injector.io/skipped",
        "settings.fabric-injector.io/nccl",
        "${'fabric-injector.io/' + 'injected'}",
    ] {
        let rule =
            format!("  rules:\n    - {{name: r, pod: {{metadata: {{annotations: {{\"{key}\": x}}}}}}}}\n");
        let error = read(&rule).expect_err(key);
        assert!(error.contains("that the program does not set itself"), "{error}");
    }
}

#[test]
fn a_user_that_the_kubelet_refuses_is_left_out() {
    let root = rules("    - {name: r, container: {securityContext: {runAsUser: 0, privileged: true}}}\n");
    for (own, of_pod, expected) in [
        (json!({}), json!({}), json!({"runAsUser": 0, "privileged": true})),
        (json!({}), json!({"runAsNonRoot": true}), json!({"privileged": true})),
        (json!({"runAsNonRoot": true}), json!({}), json!({"runAsNonRoot": true, "privileged": true})),
        (
            json!({"runAsNonRoot": false}),
            json!({"runAsNonRoot": true}),
            json!({"runAsNonRoot": false, "runAsUser": 0, "privileged": true}),
        ),
    ] {
        let containers = [container(json!({"securityContext": own}))];
        let own = pod(json!({}), json!({"containers": containers, "securityContext": of_pod}));
        let (pod, warnings) = injected(&root, own);
        assert_eq!(pod["spec"]["containers"][0]["securityContext"], expected);
        let wanted = expected["runAsUser"].is_null().then_some("privilege_conflict");
        assert_eq!(warnings.first().map(|(code, _)| code.as_str()), wanted, "{warnings:?}");
    }
    let not_root = rules("    - {name: r, container: {securityContext: {runAsNonRoot: true}}}\n");
    let (pod, warnings) = injected(&not_root, pod(json!({}), json!({"securityContext": {"runAsUser": 0}})));
    assert!(pod["spec"]["containers"][0]["securityContext"].is_null());
    assert!(
        warnings[0]
            .1
            .contains("`runAsNonRoot: true` of rule `r` is left out, because the pod has `runAsUser: 0`")
    );
}

#[test]
fn a_number_where_a_pod_has_a_text_is_malformed() {
    let policies = rules("    - {name: r, env: {B: x}}\n");
    for (malformed, path) in [
        (
            of(json!({"env": [{"name": "A", "value": 8}]})),
            "`spec.containers[a].env[A].value` must be a string",
        ),
        (of(json!({"args": ["-x", 8]})), "`spec.containers[a].args[1]`"),
        (of(json!({"command": [true]})), "`spec.containers[a].command[0]`"),
        (pod(json!({"labels": {"fabric": "fast", "n": 1}}), json!({})), "`metadata.labels[n]`"),
        (pod(json!({"annotations": {"n": 1}}), json!({})), "`metadata.annotations[n]`"),
        (pod(json!({}), json!({"nodeSelector": {"n": 1}})), "`spec.nodeSelector[n]`"),
    ] {
        let mutation = inject(&policies, malformed.clone());
        let Outcome::Unchanged { pod, reason } = &mutation.outcome else { panic!("{path}: {mutation:?}") };
        assert_eq!((pod, reason.code()), (&malformed, "malformed_pod"));
        assert!(reason.to_string().contains(path), "{reason}");
    }
    injected(&policies, of(json!({"env": [{"name": "A", "value": null}], "args": [null]})));
}

#[test]
fn an_annotation_without_a_value_is_an_empty_one() {
    let own = || pod(json!({"annotations": {"a": null}}), json!({}));
    let (other, _) = injected(&rules("    - {name: r, pod: {metadata: {annotations: {b: x}}}}\n"), own());
    assert_eq!(other["metadata"]["annotations"]["a"], Value::Null);
    assert_eq!(other["metadata"]["annotations"]["b"], "x");
    let (kept, warnings) =
        injected(&rules("    - {name: r, pod: {metadata: {annotations: {a: x}}}}\n"), own());
    assert_eq!(
        (&kept["metadata"]["annotations"]["a"], warnings[0].0.as_str()),
        (&Value::Null, "kept_annotation")
    );
    let read = rules(
        "    - {name: r, when: \"pod.metadata.?annotations[?'a'].orValue('none') == ''\", env: {A: x}}\n",
    );
    assert_eq!(injected(&read, own()).0["spec"]["containers"][0]["env"][0]["value"], "x");
}

#[test]
fn a_list_in_yaml_stays_as_it_is() {
    let policies = rules(
        "    - name: r\n      pod:\n        metadata:\n          annotations:\n            \
         nets[i]: [{i: eth1, net: r1}]\n",
    );
    for text in ["- i: eth0\n", "[{i: eth0}]", "a: &a {b: c}\n<<: *a\n"] {
        let (pod, warnings) = injected(&policies, pod(json!({"annotations": {"nets": text}}), json!({})));
        assert_eq!(pod["metadata"]["annotations"]["nets"], text);
        assert_eq!(warnings[0].0, "kept_annotation");
    }
}

#[test]
fn a_request_of_its_own_is_in_the_report() {
    let policies = rules(
        "    - {name: r, container: {resources: {requests: {cpu: '4', lab/nic: 2}, limits: {lab/nic: 2, memory: 8Gi}}}}\n",
    );
    for own in [
        json!({}),
        json!({"resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"example.com/x": "1"}}}),
    ] {
        let Outcome::Mutated(mutated) = inject(&policies, of(own)).outcome else { panic!("not mutated") };
        let lines = mutated.summary();
        assert!(lines[0].contains("requests.cpu 4"), "{lines:?}");
        assert!(!lines[0].contains("requests.lab/nic"), "{lines:?}");
    }
}

const MANY: &str = "  files:
    /f:
      variables: [A]
  checks:
    - {name: own, env: B, when: \"value == 'own'\", message: set by the pod}
  rules:
    - name: r
      env: {A: x, B: z}
";

fn many(count: usize) -> Value {
    let of = |at: usize| container(json!({"name": format!("c{at}"), "env": [{"name": "B", "value": "own"}]}));
    pod(json!({}), json!({"containers": (0..count).map(of).collect::<Vec<_>>()}))
}

#[test]
fn the_cost_is_in_proportion_to_the_containers() {
    let policies = read(MANY).unwrap();
    let time = |count: usize, times: usize| -> Duration {
        let run = |_| {
            let pod = many(count);
            let began = Instant::now();
            let mutation = inject(&policies, pod);
            let taken = began.elapsed();
            assert_eq!((reason(&mutation), mutation.warnings.len()), ("mutated", count));
            taken
        };
        (0..times).map(run).min().unwrap()
    };
    // Twenty times the containers: 20 in proportion, 400 by the square. A busy machine gives up to 80.
    let ratio = time(20_000, 2).as_secs_f64() / time(1_000, 10).as_secs_f64();
    assert!(ratio < 150.0, "{ratio}");
}

#[test]
fn a_pod_that_would_be_larger_than_any_pod_stays_as_it_is() {
    let value = "x".repeat(1024);
    let policies = rules(&format!("    - {{name: r, env: {{A: {value}}}}}\n"));
    assert_eq!(reason(&inject(&policies, many(1_000))), "mutated");
    let own = many(4_000);
    let mutation = inject(&policies, own.clone());
    let Outcome::Unchanged { pod, reason } = mutation.outcome else { panic!("not unchanged") };
    assert_eq!((pod == own, reason.code()), (true, "pod_limit"));
}

#[test]
fn the_caller_can_end_an_evaluation() {
    let policies = read(MANY).unwrap();
    for (stop, expected) in [(true, "overload"), (false, "mutated")] {
        let work = Work::of_input(1_000);
        if stop {
            work.stop();
        }
        let context = PodContext { work: Some(work), ..PodContext::default() };
        let mutation = mutate(&policies, many(3), &context);
        assert_eq!(reason(&mutation), expected);
    }
}

#[test]
fn a_pod_that_says_no_to_the_network_of_the_host_keeps_its_own() {
    let spec = "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet";
    let on_conflict = |on_conflict: &str| {
        rules(&format!(
            "    - {{name: host, onConflict: {on_conflict}, containers: gpus > 0, pod: {{spec: {{{spec}}}}}}}\n    \
             - {{name: seen, env: {{HOST: '${{hostNetwork ? \"yes\" : \"no\"}}'}}}}\n"
        ))
    };
    let off = || pod(json!({}), json!({"hostNetwork": false}));
    let (kept, warnings) = injected(&on_conflict("keep"), off());
    assert_eq!(kept["spec"]["hostNetwork"], false);
    assert_eq!(kept["spec"]["dnsPolicy"], Value::Null);
    assert_eq!(kept["spec"]["containers"][0]["env"][0]["value"], "no");
    assert_eq!(
        warnings,
        [(
            "host_network_denied".to_owned(),
            "`spec.hostNetwork` stays `false`, and NCCL falls back to TCP: remove it, so that rule `host` sets `true`"
                .to_owned()
        )]
    );
    let (replaced, warnings) = injected(&on_conflict("replace"), off());
    assert_eq!(replaced["spec"]["hostNetwork"], true);
    assert_eq!(warnings[0].1, "`spec.hostNetwork` was `false`; rule `host` set `true`");
    // The API server leaves `false` out.
    let (absent, warnings) = injected(&on_conflict("keep"), of(json!({})));
    assert_eq!(absent["spec"]["hostNetwork"], true);
    assert!(warnings.iter().all(|(_, text)| !text.contains("hostNetwork")), "{warnings:?}");
}

#[test]
fn a_check_can_skip_a_pod_to_which_the_policy_then_adds_nothing() {
    let policies = |when: &str| {
        read(&format!(
            "  checks: [{{name: no_nic, when: \"{when}\", action: skip, message: 'no NIC for ${{totalGpus}} GPUs'}}]\n  \
             rules: [{{name: nics, containers: gpus > 0, env: {{A: b}}, container: {{resources: {{limits: {{lab/nic: 1}}}}}}}}]\n"
        ))
    };
    let skips = policies("totalGpus == 8").unwrap();
    let before = of(json!({}));
    let mutation = inject(&skips, before.clone());
    assert_eq!((reason(&mutation), mutation.warnings.len()), ("no_nic", 0));
    let Outcome::Skipped { marked, reason } = mutation.outcome else { panic!("{:?}", mutation.outcome) };
    assert_eq!(reason.to_string(), "no NIC for 8 GPUs");
    assert_eq!(marked.pod["spec"], before["spec"]);
    let mark = marked.pod["metadata"]["annotations"]["fabric-injector.io/skipped"].as_str().unwrap();
    assert!(mark.starts_with("no NIC for 8 GPUs (test@"), "{mark}");
    let Outcome::Skipped { marked: again, .. } = inject(&skips, marked.pod.clone()).outcome else { panic!() };
    assert_eq!(again.pod, marked.pod);
    assert_eq!(
        injected(&policies("totalGpus == 4").unwrap(), before).0["spec"]["containers"][0]["env"][0]["name"],
        "A"
    );
    // A check that would skip a pod only after its injection changes its own result.
    let own = "pod.spec.?containers.orValue([]).exists(c, c.?env.orValue([]).exists(e, e.?name.orValue('') == 'A'))";
    assert!(policies(own).unwrap_err().contains("the check `no_nic` reports a sample pod"));
}
