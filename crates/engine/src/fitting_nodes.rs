//! The record and the warnings of an injection about the nodes that a pod can be scheduled to.

use std::collections::BTreeSet;

use serde_json::Value;

use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::matcher::Selection;
use fabric_policy::{PodContext, SelectedLabel};
use fabric_yaml::{counted, each_once};

use super::analysis::{PodAnalysis, kinds_of_earlier_injection, requests, written};
use super::record::{ChangeLog, NODES, OrReason, Warning, WarningKind, record_annotation};

/// Keeps the nodes that decide, so the decision is the same when the pod is injected again. Returns false if an earlier
/// injection kept them, or if no nodes decide.
pub(super) fn record_nodes(
    analysis: &PodAnalysis,
    pod: &mut Value,
    context: &PodContext,
    log: &mut ChangeLog,
) -> OrReason<bool> {
    let is_new = !analysis.nodes.kinds.is_empty() && kinds_of_earlier_injection(pod, context).is_none();
    if is_new {
        record_annotation(NODES, &written(&analysis.nodes.kinds), pod, log)?;
    }
    Ok(is_new)
}

/// Warns about each device of the policy if the pod requests more of it than any node that it fits has.
pub(super) fn warn_of_requests(analysis: &PodAnalysis, pod: &Value, log: &mut ChangeLog) {
    let fabric = &analysis.policy.evaluated.devices.own.resources;
    let requests = requests(pod);
    for (resource, requested) in requests.as_object().into_iter().flatten() {
        let requested = requested.as_i64().unwrap_or(0);
        let counts =
            analysis.nodes.kinds.iter().map(|kind| kind.resources.get(resource).copied().unwrap_or(0));
        let most = counts.max().unwrap_or(0);
        // Nodes offer the devices of a class that is known.
        let is_device = most > 0
            || !resource.starts_with(DEVICE_CLASS) && fabric.iter().any(|name| name.matches(resource));
        if is_device && requested > most {
            let kind = WarningKind::NoNodeFits { resource: resource.clone(), requested, most };
            log.warnings.push(Warning::of_pod(kind));
        }
    }
}

/// The nodes between which a pod does not choose, as the end of a sentence with the remedy.
pub(super) fn must_select_one(nodes: &Selection) -> String {
    let verb = if nodes.kinds.is_empty() { "selects" } else { "fits" };
    format!("the pod {verb} several kinds of nodes, and must select one: {}", differences_of(&nodes.each()))
}

/// A label of nodes with the values that a pod selects.
pub(super) fn selected_label(nodes: &Selection, label: &str) -> SelectedLabel {
    SelectedLabel { label: label.to_owned(), values: nodes.values(label).to_vec() }
}

/// The labels for which a pod selects no value of a table.
pub(super) fn not_selected(nodes: &Selection, labels: &[String]) -> String {
    let selected = labels.iter().map(|label| selected_label(nodes, label).to_string());
    format!(
        "no table has a value for {} {}",
        if nodes.kinds.is_empty() { "a pod that selects" } else { "nodes with" },
        selected.collect::<Vec<_>>().join(", ")
    )
}

/// Kinds of nodes with their differences, for a message.
pub(super) fn differences_of(each: &[Selection]) -> String {
    const SHOWN: usize = 3;
    let labels: BTreeSet<&str> =
        each.iter().flat_map(|one| &one.labels).map(|selected| selected.label.as_str()).collect();
    let differs = |label: &&str| each.iter().any(|one| one.values(label) != each[0].values(label));
    let telling = labels.into_iter().find(differs);
    let text = |one: &Selection| {
        let label = telling.and_then(|label| Some(format!("`{label}: {}`", one.values(label).first()?)));
        let offers = one.kinds.first().map(|kind| {
            let mut offers = vec![counted(kind.gpus, "GPU")];
            offers.extend(kind.resources.iter().map(|(name, count)| format!("{count} of `{name}`")));
            offers.join(" and ")
        });
        label.into_iter().chain(offers).collect::<Vec<_>>().join(" with ")
    };
    // Nodes that differ only in another label have the same text.
    let mut texts = each_once(each.iter().map(text));
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    texts.extend((more > 0).then(|| format!("and {more} more")));
    texts.join("; ")
}
