//! The reviews that the server evaluates on the thread that serves them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use fabric_allocator::held;
use fabric_engine::admission::Mode;
use fabric_engine::policy_set::PolicySet;
use fabric_injector::server::{SHORT, SHORT_STEPS};
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::work::Work;
use fabric_tools::lint;
use serde_json::{Value, json};

use super::{DIMENSIONS, Size, USUAL, list, nodes, pod, review, reviewer, sets, workloads};
use crate::helpers::{INSTANCE_TYPE, TRIGGER};

/// The longest time of an evaluation on the thread that serves reviews, in milliseconds.
const LONGEST: f64 = 3.0;
/// The most runs to measure it.
const RUNS: usize = 20;

/// The largest pod that `write` writes whose review is evaluated at once.
fn largest(write: impl Fn(usize) -> Value) -> Value {
    let fits = |count: &usize| review(&write(*count)).len() <= SHORT;
    let counts: Vec<usize> = (0..2_000).collect();
    write(counts.partition_point(fits).saturating_sub(1))
}

/// Pods of the size that is evaluated at once, each with much of something.
fn large_for_their_size() -> Vec<(String, Value)> {
    let trigger = json!({"annotations": {TRIGGER: "true"}});
    let with = |spec: Value| json!({"metadata": trigger, "spec": spec});
    let gpus = json!({"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "8"}}});
    let mut pods: Vec<_> = DIMENSIONS
        .iter()
        .map(|(dimension, of)| {
            let write = |count: usize| {
                let mut size = Size { variables: 1, mounts: 1, resources: 1, ..USUAL };
                *of(&mut size) = count;
                pod(&size)
            };
            ((*dimension).to_owned(), largest(write))
        })
        .collect();
    pods.push((
        "claims of the pod".to_owned(),
        largest(|count| {
            let claim = |at| json!({"name": format!("c{at}"), "resourceClaimTemplateName": format!("t{at}")});
            with(json!({"containers": [gpus], "resourceClaims": list(count, claim)}))
        }),
    ));
    pods.push((
        "empty containers".to_owned(),
        largest(|count| with(json!({"containers": list(count, |_| json!({}))}))),
    ));
    pods.push((
        "short containers".to_owned(),
        largest(|count| with(json!({"containers": list(count, |_| gpus.clone())}))),
    ));
    pods.push((
        "init containers".to_owned(),
        largest(|count| {
            let sidecar = |at| json!({"name": format!("s{at}"), "image": "i", "restartPolicy": "Always"});
            with(json!({"containers": [gpus], "initContainers": list(count, sidecar)}))
        }),
    ));
    pods.push((
        "values of a label".to_owned(),
        largest(|count| {
            let values = list(count.min(250), |at| json!(format!("v{at}")));
            on_nodes(&gpus, &[(INSTANCE_TYPE, values)])
        }),
    ));
    pods
}

/// A pod that selects values of labels.
fn on_nodes(container: &Value, labels: &[(&str, Value)]) -> Value {
    let expressions =
        labels.iter().map(|(key, values)| json!({"key": key, "operator": "In", "values": values}));
    let terms = json!([{"matchExpressions": expressions.collect::<Value>()}]);
    json!({"metadata": {"annotations": {TRIGGER: "true"}}, "spec": {"containers": [container],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
}

/// Reviews of workloads of the size that is evaluated at once.
fn small_workloads() -> Vec<(&'static str, String)> {
    let parts = [10, 30, 100, 300, 1_000, 3_000].map(workloads);
    let fits = |at: usize| {
        let review = |part: &Vec<(&'static str, Value)>| (part[at].0, review(&part[at].1));
        parts.iter().map(review).find(|(_, body)| body.len() <= SHORT)
    };
    (0..parts[0].len()).filter_map(fits).collect()
}

/// A pod that selects other values of the labels of each policy, each time: nothing is known of them.
fn unknown_nodes(policies: &PolicySet, random: &mut fastrand::Rng) -> Value {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for selected in
        policies.policies().iter().flat_map(fabric_policy::Policy::known_nodes).flat_map(|nodes| nodes.labels)
    {
        values
            .entry(selected.label.clone())
            .or_default()
            .extend(selected.values.iter().map(|value| value.replace('*', "x")));
    }
    let labels: Vec<(&str, Value)> = values
        .iter_mut()
        .take(2)
        .map(|(label, values)| {
            random.shuffle(values);
            values.truncate(random.usize(1..16));
            values.push(format!("other-{}", random.u32(..)));
            (label.as_str(), json!(values))
        })
        .collect();
    on_nodes(&json!({"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}), &labels)
}

/// Evaluates a review as the server does at once; the milliseconds, and whether it ends.
fn at_once(policies: &PolicySet, nodes: Option<&Arc<Nodes>>, body: &str, is_pod: bool) -> (f64, bool) {
    let work = Work::of_input(body.len()).measured_by(held).with_most_steps(SHORT_STEPS);
    let context =
        PodContext { work: Some(work.clone()), nodes: nodes.map(Arc::clone), ..PodContext::default() };
    let begun = Instant::now();
    if is_pod {
        reviewer(policies).answer(body.as_bytes(), context).unwrap();
    } else {
        lint::answer(policies, Mode::Inject, body.as_bytes(), &context).unwrap();
    }
    (begun.elapsed().as_secs_f64() * 1e3, work.ended().is_none())
}

/// The weights of steps are right: `cargo test --profile bench --test injection cost`.
#[test]
#[cfg_attr(debug_assertions, ignore = "only an optimized build is as fast as the weights of steps say")]
fn no_evaluation_takes_long_on_the_thread_that_serves_reviews() {
    let mut random = fastrand::Rng::with_seed(48);
    let pods = large_for_their_size();
    let cluster: Vec<Arc<Nodes>> =
        (0..RUNS).map(|_| nodes(&Size { nodes: 5_000, taints: 3, ..USUAL })).collect();
    let mut too_long: Vec<String> = Vec::new();
    for (name, policies) in sets() {
        let mut report = |what: &str, milliseconds: f64, ends: bool| {
            if std::env::var_os("FABRIC_COST").is_some() {
                #[allow(clippy::print_stderr, reason = "what the caller asked for")]
                {
                    eprintln!("at once: {name:<24} {what:<24} {milliseconds:>7.2} ms, ends: {ends}");
                }
            }
            too_long
                .extend((milliseconds >= LONGEST).then(|| format!("{name} {what}: {milliseconds:.1} ms")));
        };
        let with_nodes =
            pods.iter().map(|(what, pod)| (format!("{what}, nodes"), Some(&cluster), review(pod), true));
        let with_nodes: Vec<_> = if name == "all" { with_nodes.collect() } else { Vec::new() };
        let alone = pods.iter().map(|(what, pod)| (what.clone(), None, review(pod), true));
        let of_workloads =
            small_workloads().into_iter().map(|(what, body)| (what.to_owned(), None, body, false));
        for (what, nodes, body, is_pod) in alone.chain(with_nodes).chain(of_workloads) {
            assert!(body.len() <= SHORT, "{what}");
            // The least of some runs, because others use the machine, too. Nodes of which nothing is known each time.
            let fresh = nodes.map(|nodes: &Vec<Arc<Nodes>>| nodes.iter().map(Some).collect());
            let runs = fresh.unwrap_or_else(|| vec![None; RUNS]).into_iter();
            let (mut least, mut ends) = (f64::INFINITY, true);
            for (run, nodes) in runs.enumerate() {
                let (milliseconds, is_whole) = at_once(policies, nodes, &body, is_pod);
                (least, ends) = (least.min(milliseconds), ends && is_whole);
                if run >= 4 && least < LONGEST {
                    break;
                }
            }
            report(&what, least, ends);
        }
        // Each of them once, because the second evaluation finds what the first one kept. One of a few may be disturbed.
        let mut times: Vec<_> = (0..60)
            .map(|_| at_once(policies, None, &review(&unknown_nodes(policies, &mut random)), true))
            .collect();
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (most, ends) = times[56];
        report("unknown nodes", most, ends);
    }
    assert!(too_long.is_empty(), "{too_long:#?}");
}
