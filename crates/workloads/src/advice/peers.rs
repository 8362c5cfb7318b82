//! Compares the pods of one workload, whose groups need the same fabric.

use std::collections::{BTreeMap, HashMap};

use super::{Finding, Findings, Pod, object_of, trigger, with_token};

/// A label that differs from node to node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Checks the pods of each object against each other.
pub(super) fn check(pods: &[Pod<'_>], found: &mut [Findings]) {
    let mut objects: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, pod) in pods.iter().enumerate() {
        objects.entry(object_of(pod.pointer)).or_default().push(at);
    }
    for group in objects.values().filter(|group| group.len() > 1) {
        without_trigger(pods, group, found);
        on_different_nodes(pods, group, found);
    }
}

/// Finds pods with GPUs that do not request the fabric, next to pods that do.
fn without_trigger(pods: &[Pod<'_>], group: &[usize], found: &mut [Findings]) {
    let Some(asking) = group.iter().map(|at| &pods[*at]).find(|pod| pod.mutation.requests_fabric()) else {
        return;
    };
    for &at in group {
        let (pod, findings) = (&pods[at], &mut found[at]);
        if !pod.goes_on(pod.pointer.len()) {
            return;
        }
        if !pod.is_unmatched() || !pod.has_gpus || !findings.near_misses.is_empty() {
            continue;
        }
        let Some((key, wanted)) = trigger::usable_triggers(pod).into_iter().next() else { continue };
        findings.advice = None;
        let message = format!(
            "add `{key}: \"{wanted}\"` to `{}`: the pods of `{}` use the fabric, and these GPU pods do not",
            trigger::place(pod),
            asking.path(asking.pointer),
        );
        findings.near_misses.push(Finding::warning("peer_without_trigger", pod.pointer, message));
    }
}

/// Finds groups with GPUs whose node selectors exclude each other.
fn on_different_nodes(pods: &[Pod<'_>], group: &[usize], found: &mut [Findings]) {
    let mut selected: BTreeMap<&str, (&str, &Pod<'_>)> = BTreeMap::new();
    for &at in group {
        let pod = &pods[at];
        let labels = pod.value["spec"]["nodeSelector"]
            .as_object()
            .filter(|_| pod.mutation.requests_fabric() && pod.has_gpus);
        for (label, value) in labels.into_iter().flatten().filter(|(label, _)| *label != HOSTNAME) {
            let Some(value) = value.as_str() else { continue };
            let (first, other) = *selected.entry(label).or_insert((value, pod));
            if first == value {
                continue;
            }
            let map = pod.pointer_to(&["spec", "nodeSelector"]);
            let message = format!(
                "select the same nodes in `{}` and in `{}`: they have `{value}` and `{first}` for `{label}`, and other \
                 nodes can have another fabric",
                pod.path(&map),
                pod.path(&other.pointer_to(&["spec", "nodeSelector"])),
            );
            let pointer = with_token(map, label);
            found[at].near_misses.push(Finding::warning("different_nodes", pointer, message));
            break;
        }
    }
}
