//! The work that pods take grows with them, and has an end.

mod at_once;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use fabric_allocator::held;
use fabric_engine::Outcome;
use fabric_engine::admission::{Mode, OnError, Reviewer};
use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_injector::builtin;
use fabric_injector::server::MAX_BODY;
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::work::Work;
use fabric_tools::lint::lint;
use fabric_workloads::manifest::{Document, RawDocument, Wanted};
use serde_json::{Value, json};

use crate::helpers::{INSTANCE_TYPE, NETWORKS, TRIGGER, policy, reason};

/// Each built-in policy alone, and all together.
pub(crate) fn sets() -> &'static [(String, PolicySet)] {
    static SETS: LazyLock<Vec<(String, PolicySet)>> = LazyLock::new(|| {
        let definition = |policy: &builtin::BuiltIn| (policy.definition().unwrap(), BTreeMap::new());
        let alone = builtin::POLICIES
            .iter()
            .map(|policy| (policy.name.to_owned(), PolicySet::new(vec![definition(policy)]).unwrap()));
        let all = PolicySet::by_nodes(builtin::POLICIES.iter().map(definition).collect()).unwrap();
        alone.chain([("all".to_owned(), all)]).collect()
    });
    &SETS
}

/// The sizes of a pod, and of the cluster that it is created in.
#[derive(Debug, Clone, Copy)]
struct Size {
    containers: usize,
    variables: usize,
    mounts: usize,
    resources: usize,
    volumes: usize,
    claims: usize,
    annotations: usize,
    networks: usize,
    terms: usize,
    values: usize,
    tolerations: usize,
    nodes: usize,
    taints: usize,
}

const USUAL: Size = Size {
    containers: 2,
    variables: 8,
    mounts: 4,
    resources: 3,
    volumes: 4,
    claims: 2,
    annotations: 4,
    networks: 2,
    terms: 1,
    values: 2,
    tolerations: 2,
    nodes: 8,
    taints: 1,
};

/// The name of a size, and the place of its number.
type Dimension = (&'static str, fn(&mut Size) -> &mut usize);

const DIMENSIONS: [Dimension; 13] = [
    ("containers", |size| &mut size.containers),
    ("variables", |size| &mut size.variables),
    ("mounts", |size| &mut size.mounts),
    ("resources", |size| &mut size.resources),
    ("volumes", |size| &mut size.volumes),
    ("claims", |size| &mut size.claims),
    ("annotations", |size| &mut size.annotations),
    ("networks", |size| &mut size.networks),
    ("terms", |size| &mut size.terms),
    ("values", |size| &mut size.values),
    ("tolerations", |size| &mut size.tolerations),
    ("nodes", |size| &mut size.nodes),
    ("taints", |size| &mut size.taints),
];

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn pod(size: &Size) -> Value {
    let mut requests: serde_json::Map<String, Value> =
        (0..size.resources).map(|at| (format!("example.com/r{at}"), json!("1"))).collect();
    requests.insert("nvidia.com/gpu".to_owned(), json!("1"));
    let mut annotations: serde_json::Map<String, Value> =
        (0..size.annotations).map(|at| (format!("example.com/a{at}"), json!("x"))).collect();
    annotations.insert(TRIGGER.to_owned(), json!("true"));
    let networks = (0..size.networks).map(|at| format!("net-{at}")).collect::<Vec<_>>().join(",");
    annotations.insert(NETWORKS.to_owned(), json!(networks));
    let interfaces = list(size.networks, |at| json!({"interfaceName": format!("net{at}"), "network": "x"}));
    annotations.insert("networking.gke.io/interfaces".to_owned(), json!(interfaces.to_string()));
    let container = |at: usize| {
        json!({
            "name": format!("c{at}"),
            "image": "train",
            "env": list(size.variables, |at| json!({"name": format!("V{at}"), "value": "x"})),
            "volumeMounts": list(size.mounts, |at| json!({"name": "v0", "mountPath": format!("/m{at}")})),
            "resources": {"limits": requests, "requests": requests,
                "claims": list(size.claims, |at| json!({"name": format!("claim-{at}")}))},
        })
    };
    let term = |term: usize| {
        let values = list(size.values, |at| json!(format!("type-{term}-{at}")));
        json!({"matchExpressions": [{"key": "example.com/pool", "operator": "NotIn", "values": values}]})
    };
    json!({
        "metadata": {"annotations": annotations},
        "spec": {
            "containers": list(size.containers, container),
            "volumes": list(size.volumes, |at| json!({"name": format!("v{at}"), "emptyDir": {}})),
            "resourceClaims": list(size.claims, |at| {
                json!({"name": format!("claim-{at}"), "resourceClaimTemplateName": format!("t{at}")})
            }),
            "tolerations": list(size.tolerations, |at| json!({"key": format!("t{at}"), "operator": "Exists"})),
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": list(size.terms, term)}}},
        },
    })
}

fn nodes(size: &Size) -> Arc<Nodes> {
    let node = |at: usize| {
        json!({
            "kind": "Node",
            "metadata": {"name": format!("n{at}"),
                "labels": {INSTANCE_TYPE: "p5.48xlarge", "kubernetes.io/hostname": format!("n{at}")}},
            "spec": {"providerID": "aws:///a/i-1",
                "taints": list(size.taints, |at| json!({"key": format!("t{at}"), "effect": "NoSchedule"}))},
            "status": {"capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    let items = list(size.nodes, node);
    Arc::new(Nodes::read(&json!({"kind": "NodeList", "items": items})).unwrap())
}

/// What became of a pod, and the work for it.
struct Taken {
    reason: String,
    work: Work,
    bytes: usize,
    milliseconds: f64,
}

fn take(policies: &PolicySet, pod: Value, nodes: Arc<Nodes>) -> Taken {
    let bytes = pod.to_string().len();
    let work = Work::of_input(bytes);
    let context = PodContext { work: Some(work.clone()), nodes: Some(nodes), ..PodContext::default() };
    let begun = Instant::now();
    let mutation = mutate(policies, pod, &context);
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    let reason = match mutation.outcome {
        Outcome::Mutated(_) => "mutated".to_owned(),
        _ => reason(&mutation).to_owned(),
    };
    Taken { reason, work, bytes, milliseconds }
}

/// `FABRIC_COST=1 cargo test --release --test injection cost -- --nocapture` prints what `docs/engine.md` has.
fn note(what: &str, taken: &Taken) {
    if std::env::var_os("FABRIC_COST").is_some() {
        let Taken { reason, work, bytes, milliseconds } = taken;
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let done = work.with_known() as f64;
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let (limit, bytes) = (work.limit() as f64, *bytes as f64);
        #[expect(clippy::print_stderr, reason = "what the caller asked for")]
        {
            eprintln!(
                "{what:<32} {reason:<12} {bytes:>9} B {milliseconds:>9.2} ms {done:>12} steps {:>5.1} ns/step {:>6.1} steps/B {:>6.3} of the limit",
                milliseconds * 1e6 / done,
                done / bytes,
                done / limit
            );
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "`.ci/run` runs it optimized, in a tenth of the time")]
fn twice_as_much_of_anything_takes_at_most_twice_the_work() {
    for (name, policies) in sets() {
        for (dimension, of) in DIMENSIONS {
            let taken = [64, 128, 256].map(|count| {
                let mut size = USUAL;
                *of(&mut size) = count;
                take(policies, pod(&size), nodes(&size))
            });
            note(&format!("{name} {dimension}"), &taken[2]);
            let done = taken.each_ref().map(|taken| taken.work.with_known());
            assert!(taken.iter().all(|taken| taken.reason != "cost"), "{name} {dimension}: {done:?}");
            for two in done.windows(2) {
                assert!(two[1] <= two[0] * 21 / 10, "{name} {dimension}: {done:?}");
            }
        }
    }
}

/// A pod of the size of an API server's limit takes less than half of what it may.
#[test]
#[cfg_attr(debug_assertions, ignore = "`.ci/run` runs it optimized, in a tenth of the time")]
fn the_largest_pods_that_are_meant_to_be_injected_reach_no_limit() {
    let container = |at: usize| json!({"name": format!("{at}"), "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
    let many = |count: usize| json!({"metadata": {"annotations": {TRIGGER: "true"}}, "spec": {"containers": list(count, container)}});
    // Of the usual size, with many nodes; and as many containers as fit.
    let (largest, many_nodes) = (41_800, 15_000);
    let large = Size { nodes: many_nodes, taints: 3, ..USUAL };
    let cluster = nodes(&large);
    for (name, policies) in sets() {
        for (what, pod, cluster) in
            [("containers", many(largest), nodes(&USUAL)), ("nodes", pod(&USUAL), Arc::clone(&cluster))]
        {
            let taken = take(policies, pod, cluster);
            note(&format!("{name} {what}"), &taken);
            let (done, limit) = (taken.work.with_known(), taken.work.limit());
            assert!(done < limit / 2, "{name} {what}: {done} of {limit}");
        }
    }
}

/// The pods of `docs/engine.md`: as an API server writes them, they take less memory than a pod may.
#[test]
#[cfg_attr(debug_assertions, ignore = "`.ci/run` runs it optimized, in a tenth of the time")]
fn the_largest_pods_of_an_api_server_take_less_memory_than_they_may() {
    let page = include_str!("../../docs/engine.md");
    let defaults = |mut container: Value| {
        let of_api_server = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always"});
        container.as_object_mut().unwrap().extend(of_api_server.as_object().unwrap().clone());
        container
    };
    let gpu = json!({"nvidia.com/gpu": "1"});
    let with_gpus =
        defaults(json!({"name": "10000", "image": "x", "resources": {"limits": gpu, "requests": gpu}}));
    let plain = defaults(json!({"name": "10000", "image": "x", "resources": {}}));
    let variable = json!({"name": "VARIABLE10000", "value": "some text of usual length: 0123456789"});
    let most = |item: &Value| (MAX_BODY - 2_000) / (item.to_string().len() + 1);
    let of = |spec: Value| json!({"metadata": {"annotations": {TRIGGER: "true"}}, "spec": spec});
    let containers = |container: &Value| of(json!({"containers": vec![container.clone(); most(container)]}));
    let mut one = with_gpus.clone();
    one["env"] = vec![variable.clone(); most(&variable)].into();
    let rows = [
        ("GPUs in limits and requests", most(&with_gpus), containers(&with_gpus)),
        ("no resources", most(&plain), containers(&plain)),
        ("environment variables", 1, of(json!({"containers": [one]}))),
    ];
    let mut wrong = Vec::new();
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    for (row, count, pod) in rows {
        let body = review(&pod);
        let mut most = 0;
        for (name, policies) in sets() {
            let (answer, work) = answer(policies, &body);
            let mebibytes = work.memory().div_ceil(1 << 20);
            // One that gets too much is refused for that.
            assert!(answer.is_none_or(|reason| reason != "cost"), "{name} {row}: {mebibytes} MiB");
            most = most.max(mebibytes);
        }
        let row = page.lines().find(|line| line.contains(row)).unwrap();
        let cells: Vec<String> = row.split('|').map(digits).collect();
        let (told, limit): (u64, u64) = (cells[3].parse().unwrap(), 368);
        assert_eq!(cells[1], count.to_string());
        if !(most..most + 10).contains(&told) || most >= limit {
            wrong.push(format!("{count}: told {told}, measured {most}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The reason of the answer to a review, and the work for it.
fn answer(policies: &PolicySet, body: &str) -> (Option<String>, Work) {
    let work = Work::of_input(body.len()).measured_by(held);
    let context = PodContext { work: Some(work.clone()), ..PodContext::default() };
    let answer = reviewer(policies).answer(body.as_bytes(), context).unwrap();
    (answer.record.reason.map(Into::into), work)
}

/// The inputs that took seconds, or minutes.
#[test]
fn what_takes_too_long_is_refused() {
    let affinity = |terms: Value| {
        let mut pod = pod(&USUAL);
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            terms;
        pod
    };
    let term = |key: String| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    let tolerations = |count: usize| {
        let mut pod = pod(&USUAL);
        pod["spec"]["tolerations"] = list(count, |at| json!({"key": "t", "value": format!("{at}")}));
        pod
    };
    // Without optimization, a step takes ten times as long.
    let part = if cfg!(debug_assertions) { 10 } else { 1 };
    let cluster = nodes(&Size { nodes: 5_000, taints: 20, ..USUAL });
    let (_, all) = &sets()[sets().len() - 1];
    for (what, wanted, pod) in [
        ("terms of one label", "mutated", affinity(list(40_000 / part, |_| term("a".to_owned())))),
        ("terms of as many labels", "cost", affinity(list(40_000 / part, |at| term(format!("l{at}"))))),
        (
            "values",
            "cost",
            affinity(json!([{"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "In",
            "values": list(100_000 / part, |at| json!(format!("v{at}")))}]}])),
        ),
        ("tolerations", "mutated", tolerations(80_000 / part)),
        ("networks", "mutated", pod(&Size { networks: 2_000 / part, ..USUAL })),
    ] {
        let taken = take(all, pod, Arc::clone(&cluster));
        note(what, &taken);
        assert_eq!(taken.reason, wanted, "{what}");
    }
}

/// Workloads of the same size, of other shapes.
fn workloads(part: usize) -> Vec<(&'static str, Value)> {
    let small = json!({"spec": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}});
    let pods = |count: usize| list(count / part, |_| small.clone());
    let keys = |count: usize, key: &str| -> serde_json::Map<String, Value> {
        (0..count / part).map(|at| (format!("{key}{at}"), json!("x"))).collect()
    };
    let of = |spec: Value, annotations: &serde_json::Map<String, Value>| json!({"apiVersion": "example.com/v1", "kind": "Job", "metadata": {"name": "a", "annotations": annotations}, "spec": spec});
    let text = json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": small}}});
    let mut roles = of(
        json!({"roles": list(3_000 / part, |_| json!({"leaderWorkerPattern": {"size": 2, "template": small}}))}),
        &keys(0, ""),
    );
    roles["apiVersion"] = "workloads.x-k8s.io/v1alpha2".into();
    roles["kind"] = "RoleBasedGroup".into();
    let group = |item: Value| json!({"apiVersion": "v1", "kind": "List", "items": list(3_000 / part, |_| item.clone())});
    vec![
        ("a long key around pods", of(json!({"k".repeat(100_000): pods(3_000)}), &keys(0, ""))),
        ("annotations around pods", of(json!({"pods": pods(3_000)}), &keys(5_000, "multi-node-networking"))),
        (
            "pods with long texts",
            of(
                json!({"pods": list(3_000 / part, |_| {
                    let mut one = small.clone();
                    one["spec"]["containers"][0]["args"] = json!(["torchrun --nnodes=1 ".repeat(50)]);
                    one
                })}),
                &keys(0, ""),
            ),
        ),
        ("roles", roles),
        (
            "texts",
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "spec": {"templates": list(1_000 / part, |_| json!({"resource": {"manifest": text.to_string()}}))}}),
        ),
        ("objects", group(text.clone())),
    ]
}

/// A review of a pod.
pub(crate) fn review(pod: &Value) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
            "namespace": "team", "object": pod},
    })
    .to_string()
}

pub(crate) fn reviewer(policies: &PolicySet) -> Reviewer<'_> {
    Reviewer {
        policies,
        evaluate: &mutate,
        mode: Mode::Inject,
        on_error: OnError::Deny,
        has_changed: &|| false,
    }
}

/// The checks of a workload take as much work as its size allows, with that to find its pods.
#[test]
#[cfg_attr(debug_assertions, ignore = "`.ci/run` runs it optimized, in a tenth of the time")]
fn the_checks_of_workloads_end() {
    let (_, all) = &sets()[sets().len() - 1];
    for (what, workload) in workloads(1) {
        let text = workload.to_string();
        let (work, begun) = (Work::of_input(text.len()), Instant::now());
        let piece = RawDocument::new(text.clone().into_bytes());
        let mut document = Document::read(&piece).unwrap();
        let wanted = Wanted { work: Some(&work), checks: Some(&work), ..Wanted::default() };
        let found = lint(all, &mut document, &piece, wanted, |_, _| ());
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        let codes: Vec<String> = found.into_iter().flatten().map(|finding| finding.code).collect();
        let is_partly = codes.iter().any(|code| code == "not_checked" || code == "cost");
        let reason = if is_partly { "not_checked" } else { "checked" };
        note(what, &Taken { reason: reason.to_owned(), work: work.clone(), bytes: text.len(), milliseconds });
        assert_eq!(work.ended().is_some(), is_partly, "{what}: {codes:?}");
        assert!(work.with_known() < work.limit() * 2, "{what}: {} of {}", work.with_known(), work.limit());
    }
}
/// Loading takes a small part of the work that it may.
#[test]
fn the_built_in_policies_take_little_of_the_work_to_load() {
    let definition = |policy: &builtin::BuiltIn| (policy.definition().unwrap(), BTreeMap::new());
    let all = Work::of_loading();
    let policies = builtin::POLICIES.iter().map(definition).collect();
    PolicySet::load(policies, true, |_| false, &all).unwrap();
    assert!(all.done() < all.limit() / 4, "{} of {}", all.done(), all.limit());
}

/// What does not depend on the pod is evaluated once for each kind of node.
#[test]
#[cfg_attr(debug_assertions, ignore = "`.ci/run` runs it optimized, in a tenth of the time")]
fn a_policy_that_takes_too_much_work_to_load_is_refused() {
    let value = "${string(size(lists.range(200).filter(x, lists.range(200).exists(y, y == x))))}";
    let rule = |at| format!("    - {{name: r{at}, env: {{A{at}: '{value}'}}}}\n");
    let rules: Vec<String> = (0..1_000).map(rule).collect();
    let definition = policy("big", "labels: {fabric: fast}", &format!("  rules:\n{}", rules.concat()));
    let error = PolicySet::new(vec![(definition, BTreeMap::new())]).unwrap_err().to_string();
    for part in ["loading the policies in use takes more than 1000000000 steps of work", "--> test.yaml:"] {
        assert!(error.contains(part), "{error}");
    }
}
