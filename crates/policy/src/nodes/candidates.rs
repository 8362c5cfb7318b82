//! The nodes to which the scheduler can bind a pod, as far as its node selector, its required node affinity and its
//! tolerations decide it.

use serde_json::Value;

use super::requirements::{Requirements, Tolerations, required};
use super::{Node, Nodes, Taint};
use crate::work::{Work, goes_on};

impl Nodes {
    /// The Ready nodes that a pod can be scheduled to. Nodes that are cordoned count: they come back. For a pod that is
    /// bound to a node, only that node counts.
    ///
    /// A taint with the name of a resource that the node has does not repel pods: clusters with such taints add the
    /// toleration to pods that request the resource (`ExtendedResourceToleration`), also to one that a policy adds. Nor
    /// does a taint whose key `is_exempt`.
    ///
    /// If `work` runs out, some of them are missing.
    pub fn candidates<'n>(
        &'n self,
        pod: &'n Value,
        is_exempt: &dyn Fn(&str) -> bool,
        work: Option<&'n Work>,
    ) -> Vec<&'n Node> {
        let spec = &pod["spec"];
        if let Some(name) = spec["nodeName"].as_str().filter(|name| !name.is_empty()) {
            return self.iter().filter(|node| goes_on(work, 2) && node.name() == name).collect();
        }
        let mut requirements = Requirements::new(spec, work);
        let mut tolerations = Tolerations::new(spec, work);
        let mut tolerates = |node: &Node, taint: &'n Taint| {
            !matches!(&*taint.effect, "NoSchedule" | "NoExecute")
                || &*taint.key == "node.kubernetes.io/unschedulable"
                || node.count(&taint.key) > 0
                || is_exempt(&taint.key)
                || tolerations.tolerate(taint)
        };
        let is_candidate = |node: &&'n Node| {
            node.is_ready()
                && requirements.allow(node)
                && node.taints.iter().all(|taint| tolerates(node, taint))
        };
        self.iter().filter(is_candidate).collect()
    }
}

/// The fields of a pod that choose nodes, as a text.
pub fn scheduling_of(pod: &Value) -> String {
    let spec = &pod["spec"];
    [&spec["nodeName"], &spec["nodeSelector"], required(spec), &spec["tolerations"]]
        .map(Value::to_string)
        .join(" ")
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
        let pod = json!({"spec": spec});
        nodes.candidates(&pod, &|_| false, None).iter().map(|node| node.name()).collect()
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
