//! The lengths in a pod that bound what an evaluation costs.
//!
//! A mutating webhook sees a pod before the API server has validated it. What the API server is going to refuse is refused
//! here, with its words, before it costs anything. Each length is the longest that a served release takes, from 1.30 on
//! (`pkg/apis/core/validation/validation.go` of Kubernetes). Values of node affinity have none in 1.30, and those of
//! preferred affinity in no release: there, the work counts.

use serde_json::Value;

use crate::record::shorten;
use fabric_yaml::json::{field, items};

/// The most that the API server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Most {
    /// The characters of a text.
    Characters(usize),
    /// The characters of a qualified name: 63, and 253 of a prefix before a `/`.
    Name,
    /// Those of the keys of a map, which are qualified names.
    Keys,
    /// Those of the keys and values of a map of labels.
    Labels,
    /// The bytes of all keys and values of a map together.
    Bytes(usize),
}

const LABEL: usize = 63;
const SUBDOMAIN: usize = 253;

/// The places of a pod, in which `[]` is each entry of a list.
pub const BOUNDS: &[(&str, Most)] = &[
    ("metadata.annotations", Most::Bytes(256 << 10)),
    ("metadata.labels", Most::Labels),
    ("metadata.name", Most::Characters(SUBDOMAIN)),
    ("metadata.generateName", Most::Characters(SUBDOMAIN)),
    ("spec.nodeName", Most::Characters(SUBDOMAIN)),
    ("spec.nodeSelector", Most::Labels),
    (
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[].key",
        Most::Name,
    ),
    ("spec.tolerations[].key", Most::Name),
    ("spec.tolerations[].value", Most::Characters(LABEL)),
    ("spec.containers[].name", Most::Characters(LABEL)),
    ("spec.containers[].resources.limits", Most::Keys),
    ("spec.containers[].resources.requests", Most::Keys),
    ("spec.initContainers[].name", Most::Characters(LABEL)),
    ("spec.initContainers[].resources.limits", Most::Keys),
    ("spec.initContainers[].resources.requests", Most::Keys),
    ("spec.resourceClaims[].name", Most::Characters(LABEL)),
    ("spec.resourceClaims[].resourceClaimName", Most::Characters(SUBDOMAIN)),
    ("spec.resourceClaims[].resourceClaimTemplateName", Most::Characters(SUBDOMAIN)),
    ("spec.volumes[].name", Most::Characters(LABEL)),
];

/// The first place of a pod that has more, with what the API server says about it.
pub(super) fn exceeded(pod: &Value) -> Option<String> {
    BOUNDS.iter().find_map(|(path, most)| exceeded_at(pod, path, *most))
}

fn exceeded_at(value: &Value, path: &str, most: Most) -> Option<String> {
    if path.is_empty() {
        return most.problem(value).map(|problem| format!(": {problem}"));
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let dot = if rest.is_empty() { "" } else { "." };
    match first.strip_suffix("[]") {
        None => {
            let below = exceeded_at(field(value, first), rest, most)?;
            Some(format!("{first}{dot}{below}"))
        }
        Some(list) => items(value, list).iter().enumerate().find_map(|(at, item)| {
            let below = exceeded_at(item, rest, most)?;
            Some(format!("{list}[{at}]{dot}{below}"))
        }),
    }
}

impl Most {
    fn problem(self, value: &Value) -> Option<String> {
        let mut entries = value.as_object().into_iter().flatten();
        match self {
            Self::Characters(most) => too_long("", value.as_str()?, value.as_str()?, most),
            Self::Name => of_name(value.as_str()?),
            Self::Keys => entries.find_map(|(key, _)| of_name(key)),
            Self::Labels => entries.find_map(|(key, value)| {
                of_name(key).or_else(|| value.as_str().and_then(|value| too_long("", value, value, LABEL)))
            }),
            Self::Bytes(most) => {
                let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
                let all: usize = entries.map(bytes).sum();
                (all > most).then(|| format!("Too long: must have at most {most} bytes"))
            }
        }
    }
}

/// What is too long of a qualified name. One with more slashes is refused for these, whatever its length.
fn of_name(text: &str) -> Option<String> {
    let (prefix, name) = text.rsplit_once('/').unwrap_or(("", text));
    too_long("name part ", text, name, LABEL).or_else(|| too_long("prefix part ", text, prefix, SUBDOMAIN))
}

/// The problem of a text of which a part is too long.
fn too_long(what: &str, text: &str, part: &str, most: usize) -> Option<String> {
    let problem =
        || format!("Invalid value: \"{}\": {what}must be no more than {most} characters", shorten(text));
    (part.len() > most).then(problem)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_place_of_what_is_too_long_is_told() {
        let long = "x".repeat(64);
        for (pod, wanted) in [
            (
                json!({"metadata": {"labels": {"a": "x".repeat(63)}, "annotations": {"a": "x".repeat(262_143)}}}),
                None,
            ),
            (
                json!({"metadata": {"annotations": {"a": "x".repeat(262_144)}}}),
                Some("metadata.annotations: Too long: must have at most 262144 bytes"),
            ),
            (
                json!({"spec": {"nodeSelector": {"a/b": long}}}),
                Some("spec.nodeSelector: Invalid value: \"LONG\": must be no more than 63 characters"),
            ),
            (
                json!({"spec": {"containers": [{}, {"resources": {"limits": {format!("a/{long}"): 1}}}]}}),
                Some(
                    "spec.containers[1].resources.limits: Invalid value: \"a/LONG\": name part must be no more than 63 characters",
                ),
            ),
            (
                json!({"spec": {"tolerations": [{"key": format!("{}/a", "x".repeat(254))}]}}),
                Some(
                    "spec.tolerations[0].key: Invalid value: \"PREFIX\": prefix part must be no more than 253 characters",
                ),
            ),
            (json!({"spec": {"containers": 7}, "metadata": []}), None),
        ] {
            let prefix = format!("{}…", "x".repeat(80));
            let wanted = wanted.map(|wanted| wanted.replace("LONG", &long).replace("PREFIX", &prefix));
            assert_eq!(exceeded(&pod), wanted);
        }
    }
}
