//! Amounts of resources as the API server adds them up for a pod.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::items;

/// An amount in its smallest common unit.
pub(crate) fn number(amount: &Value) -> f64 {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    let (number, factor) = [("Ki", 1024f64), ("Mi", 1024f64.powi(2)), ("Gi", 1024f64.powi(3)), ("m", 0.001)]
        .into_iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))
        .unwrap_or((&text, 1.0));
    number.parse::<f64>().map_or(0.0, |number| number * factor)
}

/// What a pod needs of each resource: containers and sidecars together, or more if an init container needs more.
pub(crate) fn aggregate(spec: &Map<String, Value>, list: &str) -> BTreeMap<String, f64> {
    let containers = |key: &str| spec.get(key).map_or(&[][..], items).iter();
    let amount = |container: &Value, resource: &str| number(&container["resources"][list][resource]);
    let names = containers("containers").chain(containers("initContainers"));
    let names = names.flat_map(|one| one["resources"][list].as_object().into_iter().flat_map(Map::keys));
    let total = |name: &String| {
        let (mut sidecars, mut peak) = (0.0, 0f64);
        for container in containers("initContainers") {
            if container["restartPolicy"] == "Always" {
                sidecars += amount(container, name);
                peak = peak.max(sidecars);
            } else {
                peak = peak.max(sidecars + amount(container, name));
            }
        }
        let together = containers("containers").map(|one| amount(one, name)).sum::<f64>();
        (name.clone(), peak.max(sidecars + together))
    };
    names.map(total).collect()
}
