//! The nodes that a pod selects, and what a policy knows of them: the values of its parameters and of its rows.

use serde_json::{Map, Value, json};

use crate::properties::generator::items;
use crate::properties::generator::policies::Policy;
use crate::properties::generator::pools::{INSTANCE_TYPE, POOL};

/// The node and the parameters.
pub(super) fn fixed(policy: &Policy, pod: &Value, gpus: i64) -> Vec<(String, Value)> {
    let mut node = Map::new();
    for label in [INSTANCE_TYPE, POOL] {
        if let [one] = selected(pod, label).as_slice() {
            node.insert(label.to_owned(), json!(one));
        }
    }
    let mut names = vec![("node".to_owned(), node.into())];
    let spec = &policy.document["spec"];
    let nodes = nodes(pod);
    let row = |name: &str, node: &Node| by_table(&column(&spec["machines"], name), node, gpus);
    for (name, parameter) in spec["parameters"].as_object().into_iter().flatten() {
        let set = policy.overrides.get(name).unwrap_or(&Value::Null);
        let default = set.get("default").unwrap_or(&parameter["default"]);
        let known = |node: &Node| by_table(set, node, gpus).or_else(|| row(name, node));
        let value =
            if set.is_object() || set.is_null() { of_nodes(&nodes, known, default) } else { set.clone() };
        names.push((name.clone(), value));
    }
    for (name, _) in spec["variables"].as_object().into_iter().flatten() {
        names.extend(nodes.first().and_then(|node| Some((name.clone(), row(name, node)?))));
    }
    names
}

/// The value for nodes that may differ: of numbers the least above zero of those that are known, else that of the first
/// node.
fn of_nodes(nodes: &[Node], known: impl Fn(&Node) -> Option<Value>, default: &Value) -> Value {
    let found: Vec<Option<Value>> = nodes.iter().map(known).collect();
    let values: Vec<f64> =
        found.iter().map(|one| one.as_ref().unwrap_or(default)).filter_map(Value::as_f64).collect();
    if values.len() < found.len() || values.iter().all(|value| value.total_cmp(&values[0]).is_eq()) {
        return found.into_iter().next().flatten().unwrap_or_else(|| default.clone());
    }
    let key = |value: &Value| (value.as_f64() <= Some(0.0), value.as_f64().unwrap_or_default());
    let least =
        found.into_iter().flatten().reduce(|one, other| if key(&other) < key(&one) { other } else { one });
    least.unwrap_or_else(|| default.clone())
}

/// The labels of a node that the pod selects, with lower-case values.
type Node = Vec<(&'static str, String)>;

/// Each combination of the values that the pod selects.
fn nodes(pod: &Value) -> Vec<Node> {
    let mut nodes = vec![Node::new()];
    for label in [INSTANCE_TYPE, POOL] {
        let values = selected(pod, label);
        if !values.is_empty() {
            let with = |node: &Node, value: &String| [node.as_slice(), &[(label, value.clone())]].concat();
            nodes = nodes.iter().flat_map(|node| values.iter().map(|value| with(node, value))).collect();
        }
    }
    nodes
}

/// The values of a parameter or variable by label and by what the label is compared with.
fn column(machines: &Value, name: &str) -> Value {
    let mut table = Map::new();
    for (label, rows) in machines.as_object().into_iter().flatten() {
        let mut cells = Map::new();
        for (keys, row) in rows.as_object().into_iter().flatten() {
            for key in keys.split(", ").filter(|_| !row[name].is_null()) {
                cells.insert(key.to_owned(), row[name].clone());
            }
        }
        if !cells.is_empty() {
            table.insert(label.clone(), cells.into());
        }
    }
    table.into()
}

/// The value by the first label of a table that knows the node.
fn by_table(table: &Value, node: &Node, gpus: i64) -> Option<Value> {
    table.as_object()?.iter().find_map(|(label, cells)| {
        let (_, value) = node.iter().find(|(known, _)| known == label)?;
        let cells = cells.as_object()?;
        let exact = cells.iter().filter(|(key, _)| key.to_lowercase() == *value);
        // No two of the generated patterns match one value.
        let matches =
            |key: &str| key.strip_prefix('*').is_some_and(|end| value.ends_with(&end.to_lowercase()));
        let has = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            (first.parse().unwrap()..=last.parse().unwrap()).contains(&gpus)
        };
        let cell = |(_, cell): (&String, &Value)| match cell.as_object() {
            Some(by_gpus) => by_gpus.iter().find(|(range, _)| has(range)).map(|(_, value)| value.clone()),
            None => Some(cell.clone()),
        };
        exact.chain(cells.iter().filter(|(key, _)| matches(key))).find_map(cell)
    })
}

/// The values of a label that the pod selects, in lower case.
fn selected(pod: &Value, label: &str) -> Vec<String> {
    let spec = &pod["spec"];
    let of_affinity = || {
        let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let mut found = Vec::new();
        for term in items(terms) {
            let names = |one: &&Value| one["key"] == label && one["operator"] == "In";
            let Some(one) = items(&term["matchExpressions"]).iter().find(names) else { return Vec::new() };
            found.extend(items(&one["values"]).to_vec());
        }
        found
    };
    let found = match &spec["nodeSelector"][label] {
        Value::Null => of_affinity(),
        one => vec![one.clone()],
    };
    let mut values: Vec<String> = Vec::new();
    for value in found.iter().filter_map(Value::as_str).map(str::to_lowercase) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}
