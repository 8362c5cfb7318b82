//! The instance types that a pod selects.

use serde_json::Value;

/// The well-known label, and the one that it replaced.
const LABELS: [&str; 2] = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];

/// The instance types that the pod selects by `nodeSelector` or by required node affinity: lower case, without
/// the given prefixes, each once; empty if it selects none.
pub(crate) fn selected(pod: &Value, strip_prefixes: &[String]) -> Vec<String> {
    let spec = &pod["spec"];
    let named = LABELS.iter().find_map(|label| spec["nodeSelector"][*label].as_str());
    let types = match named {
        Some(name) => vec![name],
        None => {
            by_affinity(&spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"])
        }
    };
    let mut normal: Vec<String> = Vec::new();
    for name in types {
        let name = normalize(name, strip_prefixes);
        if !normal.contains(&name) {
            normal.push(name);
        }
    }
    normal
}

/// The form in which instance types are compared.
pub(crate) fn normalize(name: &str, strip_prefixes: &[String]) -> String {
    let name = name.to_lowercase();
    let stripped = strip_prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
    stripped.map_or_else(|| name.clone(), str::to_owned)
}

/// Terms are alternatives, so each of them has to name types, or any type will do.
fn by_affinity(required: &Value) -> Vec<&str> {
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return Vec::new() };
    let mut types = Vec::new();
    for term in terms {
        let named = term["matchExpressions"].as_array().into_iter().flatten().find_map(|expression| {
            let about_types = expression["key"].as_str().is_some_and(|key| LABELS.contains(&key));
            let values = expression["values"].as_array()?;
            (about_types && expression["operator"].as_str() == Some("In")).then_some(values)
        });
        match named {
            Some(values) if !values.is_empty() => types.extend(values.iter().filter_map(Value::as_str)),
            _ => return Vec::new(),
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn affinity(terms: &Value) -> Value {
        json!({"spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
    }

    fn term(values: &Value) -> Value {
        json!({"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": values}]})
    }

    #[test]
    fn the_node_selector_counts_in_any_case_and_without_hyperpods_prefix() {
        let pod = json!({"spec": {"nodeSelector": {"node.kubernetes.io/instance-type": "ml.P5.48xlarge"}}});
        assert_eq!(selected(&pod, &["ml.".into()]), ["p5.48xlarge"]);
    }

    #[test]
    fn all_alternatives_of_the_affinity_count_or_none() {
        let both = affinity(&json!([term(&json!(["a", "b"])), term(&json!(["B", "c"]))]));
        assert_eq!(selected(&both, &[]), ["a", "b", "c"]);
        let open = affinity(&json!([term(&json!(["a"])), {"matchExpressions": []}]));
        assert_eq!(selected(&open, &[]), Vec::<String>::new());
        assert_eq!(selected(&json!({"spec": {"affinity": "x"}}), &[]), Vec::<String>::new());
    }
}
