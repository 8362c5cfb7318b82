//! The nodes to which the scheduler can bind a pod, as far as its node selector, its required node affinity and its
//! tolerations decide it.

use serde_json::Value;

use super::{Node, Nodes, Taint};

impl Nodes {
    /// The Ready nodes that a pod can be scheduled to. Nodes that are cordoned count: they come back. Of a pod that is
    /// bound to a node, it is that node.
    ///
    /// A taint with the name of a resource that the node has keeps no pod off: clusters with such taints add the
    /// toleration to pods that request the resource (`ExtendedResourceToleration`), also to one that a policy adds. Nor
    /// does a taint whose key `is_exempt`.
    pub(crate) fn candidates<'n>(&'n self, pod: &Value, is_exempt: &dyn Fn(&str) -> bool) -> Vec<&'n Node> {
        let spec = &pod["spec"];
        if let Some(name) = spec["nodeName"].as_str().filter(|name| !name.is_empty()) {
            return self.iter().filter(|node| node.name() == name).collect();
        }
        let tolerations = spec["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
        let tolerates = |node: &Node, taint: &Taint| {
            !matches!(&*taint.effect, "NoSchedule" | "NoExecute")
                || &*taint.key == "node.kubernetes.io/unschedulable"
                || node.count(&taint.key) > 0
                || is_exempt(&taint.key)
                || tolerations.iter().any(|toleration| tolerates(toleration, taint))
        };
        let is_candidate = |node: &&Node| {
            node.is_ready() && selects(spec, node) && node.taints.iter().all(|taint| tolerates(node, taint))
        };
        self.iter().filter(is_candidate).collect()
    }
}

/// The fields of a pod that choose nodes, as a text.
pub(crate) fn scheduling_of(pod: &Value) -> String {
    let spec = &pod["spec"];
    [&spec["nodeName"], &spec["nodeSelector"], required(spec), &spec["tolerations"]]
        .map(Value::to_string)
        .join(" ")
}

/// The node affinity that a pod requires.
fn required(spec: &Value) -> &Value {
    &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
}

/// The terms of the node affinity that a pod requires, which are alternatives.
pub(crate) fn terms(spec: &Value) -> &[Value] {
    required(spec)["nodeSelectorTerms"].as_array().map_or(&[], Vec::as_slice)
}

/// The requirements of a term for labels.
pub(crate) fn expressions(term: &Value) -> impl Iterator<Item = &Value> {
    term["matchExpressions"].as_array().into_iter().flatten()
}

/// Returns whether a toleration tolerates a taint.
fn tolerates(toleration: &Value, taint: &Taint) -> bool {
    let text = |key: &str| toleration[key].as_str().unwrap_or_default();
    let key = text("key");
    if !text("effect").is_empty() && text("effect") != &*taint.effect {
        return false;
    }
    match text("operator") {
        "Exists" => key.is_empty() || key == &*taint.key,
        "" | "Equal" => key == &*taint.key && text("value") == &*taint.value,
        _ => false,
    }
}

/// Returns whether a pod's node selector and required node affinity allow a node.
fn selects(spec: &Value, node: &Node) -> bool {
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    for (key, value) in selector {
        if node.label(key) != value.as_str() {
            return false;
        }
    }
    if required(spec)["nodeSelectorTerms"].is_null() {
        return true;
    }
    terms(spec).iter().any(|term| {
        let list = |key: &str| term[key].as_array().map_or(&[][..], Vec::as_slice);
        let (labels, fields) = (list("matchExpressions"), list("matchFields"));
        // A term without requirements matches no node.
        labels.len() + fields.len() > 0
            && labels.iter().all(|requirement| {
                holds(requirement, node.label(requirement["key"].as_str().unwrap_or_default()))
            })
            && fields.iter().all(|requirement| {
                let name = (requirement["key"] == "metadata.name").then_some(node.name());
                holds(requirement, name)
            })
    })
}

/// Returns whether a requirement holds for the value of its key.
pub(crate) fn holds(requirement: &Value, value: Option<&str>) -> bool {
    let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
    let is_in = || values.iter().any(|known| known.as_str() == value);
    let numbers = || {
        let bound = values.first()?.as_str()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => value.is_some() && is_in(),
        "NotIn" => value.is_none() || !is_in(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nodes() -> Nodes {
        let node = |name: &str, pool: &str, spec: Value, ready: &str| {
            json!({"kind": "Node", "metadata": {"name": name, "labels": {"pool": pool, "size": "8"}}, "spec": spec,
                "status": {"capacity": {"example.com/gpu": "8", "cpu": "96"},
                    "conditions": [{"type": "Ready", "status": ready}]}})
        };
        let taint = |key: &str, value: &str, effect: &str| json!({"taints": [{"key": key, "value": value, "effect": effect}]});
        let items = [
            node("a", "p5", json!({}), "True"),
            node("b", "p5", taint("team", "x", "NoSchedule"), "True"),
            node("c", "p4", taint("example.com/gpu", "present", "NoSchedule"), "True"),
            node("d", "p4", taint("node.kubernetes.io/unschedulable", "", "NoSchedule"), "True"),
            node("e", "p4", json!({}), "Unknown"),
        ];
        Nodes::read(&json!({"kind": "List", "items": items})).unwrap()
    }

    fn found(spec: &Value) -> String {
        let nodes = nodes();
        nodes.candidates(&json!({"spec": spec}), &|_| false).iter().map(|node| node.name()).collect()
    }

    fn affinity(requirement: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [requirement]}, {}]}}}})
    }

    #[test]
    fn selectors_taints_and_readiness_decide() {
        assert_eq!(found(&json!({})), "acd");
        assert_eq!(found(&json!({"nodeSelector": {"pool": "p5"}})), "a");
        assert_eq!(found(&json!({"nodeSelector": {"pool": "P5"}})), "");
        assert_eq!(found(&json!({"nodeName": "e"})), "e");
        let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
        assert_eq!(found(&tolerating(json!({"operator": "Exists"}))), "abcd");
        assert_eq!(found(&tolerating(json!({"key": "team", "value": "x"}))), "abcd");
        assert_eq!(found(&tolerating(json!({"key": "team", "value": "y"}))), "acd");
        assert_eq!(
            found(&tolerating(json!({"key": "team", "operator": "Exists", "effect": "NoExecute"}))),
            "acd"
        );
    }

    #[test]
    fn each_operator_of_the_affinity_counts() {
        for (requirement, wanted) in [
            (json!({"key": "pool", "operator": "In", "values": ["p4", "p6"]}), "cd"),
            (json!({"key": "pool", "operator": "NotIn", "values": ["p4"]}), "a"),
            (json!({"key": "zone", "operator": "NotIn", "values": ["p4"]}), "acd"),
            (json!({"key": "zone", "operator": "Exists"}), ""),
            (json!({"key": "zone", "operator": "DoesNotExist"}), "acd"),
            (json!({"key": "size", "operator": "Gt", "values": ["7"]}), "acd"),
            (json!({"key": "size", "operator": "Lt", "values": ["8"]}), ""),
            (json!({"key": "pool", "operator": "Gt", "values": ["7"]}), ""),
            (json!({"key": "pool", "operator": "Near", "values": ["p4"]}), ""),
        ] {
            assert_eq!(found(&affinity(&requirement)), wanted, "{requirement}");
        }
        let by_name = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}}});
        assert_eq!(found(&by_name), "a");
    }

    #[test]
    fn only_lists_of_nodes_are_read() {
        assert_eq!(Nodes::read(&json!({"kind": "Node", "metadata": {"name": "a"}})).unwrap().len(), 1);
        assert!(Nodes::read(&json!({"kind": "NodeList", "items": []})).unwrap().is_empty());
        assert!(Nodes::read(&json!({"kind": "Pod"})).unwrap_err().contains("neither"));
        assert!(Nodes::read(&json!({"items": [{"kind": "Pod"}]})).unwrap_err().contains("`Pod`"));
    }
}
