//! Compares what a pod requests besides devices, such as memory and huge pages, with the nodes that it fits.

use std::collections::BTreeMap;

use serde_json::Value;

use fabric_engine::requests;
use fabric_policy::nodes::Node;
use fabric_yaml::json::items;
use fabric_yaml::quantity::Quantity;

use super::kinds;
use super::{Finding, Level, Pod};

/// A resource with the sum of all containers and the text of the first.
type Amounts<'p> = BTreeMap<&'p str, (Quantity, &'p Value)>;

/// Finds a request for more than each node has that the pod fits and that has its GPUs.
pub(super) fn check(pod: &Pod<'_>) -> Option<Finding> {
    let nodes = pod.context.nodes.as_ref()?;
    let gpus = requests(pod.value);
    let has_gpus = |node: &&Node| {
        pod.gpus.iter().all(|name| gpus[*name].as_i64().is_none_or(|count| node.count(name) >= count))
    };
    let fit = nodes.candidates(pod.value, &|_| false, pod.context.work.as_ref());
    let fit: Vec<&Node> = fit.into_iter().filter(has_gpus).collect();
    let amounts = amounts(pod.value);
    let has = |node: &Node, name: &str, wanted: Quantity| {
        // A node without huge pages says so, or has no such resource.
        node.amount(name).map_or(!name.starts_with("hugepages-"), |amount| amount >= wanted)
    };
    let fits = |node: &&Node, names: &[&str]| names.iter().all(|name| has(node, name, amounts[name].0));
    let all: Vec<&str> = amounts.keys().copied().collect();
    if fit.is_empty() || fit.iter().any(|node| fits(node, &all)) {
        return None;
    }
    // Those that no node has, or else no node has all of them together.
    let has_none = |name: &&str| !fit.iter().any(|node| fits(node, &[name]));
    let none: Vec<&str> = all.iter().copied().filter(has_none).collect();
    let short = if none.is_empty() { all } else { none };
    let wanted =
        short.iter().map(|name| format!("{} of `{name}`", shown(&amounts[name]))).collect::<Vec<_>>();
    let grows = |node: &&Node| kinds::table().growing_nodes.iter().any(|label| node.label(label).is_some());
    // Whoever creates nodes for a pod knows their memory, and not the huge pages that their images reserve.
    let may_grow = fit.iter().any(grows) && !short.iter().any(|name| name.starts_with("hugepages-"));
    let (level, end) = if may_grow {
        (Level::Note, ", unless the pool grows by a larger one")
    } else {
        (Level::Warning, "")
    };
    let message = format!(
        "request less, or add nodes that have it: no node that the pod fits has {} for it, so that it stays pending{end}",
        wanted.join(" and ")
    );
    Some(Finding::new(level, "no_node_fits", pod.pointer_to(&["spec", "containers"]), message))
}

fn shown((sum, first): &(Quantity, &Value)) -> String {
    match first.as_str() {
        Some(text) if Quantity::parse(text) == Some(*sum) => text.to_owned(),
        _ => sum.as_f64().to_string(),
    }
}

/// What the containers request together. Init containers run before them.
fn amounts(pod: &Value) -> Amounts<'_> {
    let mut all = Amounts::new();
    for container in items(&pod["spec"], "containers") {
        let resources = &container["resources"];
        let mut own: BTreeMap<&str, &Value> = BTreeMap::new();
        for list in ["limits", "requests"] {
            let named = resources[list].as_object().into_iter().flatten();
            own.extend(
                named.filter(|(name, _)| !name.contains('/')).map(|(name, value)| (name.as_str(), value)),
            );
        }
        for (name, value) in own {
            let Some(amount) = Quantity::from_value(value) else { continue };
            let sum = all.get(name).map_or(Some(amount), |(before, _)| before.plus(amount));
            all.insert(name, (sum.unwrap_or(amount), value));
        }
    }
    all
}
