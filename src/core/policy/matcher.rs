//! The `match` of a policy.

use serde_json::Value;

use crate::core::yaml::Node;

use super::diagnostic::Diagnostic;
use super::reader::{self, Fields};

/// The `match` of a policy. Every part that is present has to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matcher {
    pub(crate) any_annotation: Vec<(String, String)>,
    pub(crate) except_annotation: Vec<(String, String)>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) owner_kinds: Vec<String>,
}

/// Facts about a pod that the pod itself does not contain.
#[derive(Debug, Clone, Default)]
pub struct PodContext {
    /// The namespace of the request; a pod that is being created may not name it.
    pub namespace: Option<String>,
    /// Kinds of the owners that the pod will have, for a template that has no owner yet.
    pub owner_kinds: Vec<String>,
    /// Labels that the controller of a template adds to its pods.
    pub labels: Vec<(String, String)>,
}

/// The result of matching a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    /// Not a pod of this policy.
    No,
    /// The pod has the trigger's key with another value.
    OtherValue {
        key: String,
        seen: String,
        wanted: String,
    },
    /// The pod has an annotation that takes it out.
    Except {
        key: String,
        value: String,
    },
}

impl Matcher {
    pub(crate) fn read(node: &Node) -> Result<Self, Diagnostic> {
        let mut fields = Fields::of(node, "`match`")?;
        let pairs = |node: Option<&Node>, what| node.map(|node| reader::text_map(node, what)).transpose();
        let list = |node: Option<&Node>, what| node.map(|node| reader::texts(node, what)).transpose();
        let matcher = Self {
            any_annotation: pairs(fields.optional("anyAnnotation"), "an annotation")?.unwrap_or_default(),
            except_annotation: pairs(fields.optional("exceptAnnotation"), "an annotation")?
                .unwrap_or_default(),
            labels: pairs(fields.optional("labels"), "a label")?.unwrap_or_default(),
            namespaces: list(fields.optional("namespaces"), "a namespace")?.unwrap_or_default(),
            owner_kinds: list(fields.optional("ownerKinds"), "an owner kind")?.unwrap_or_default(),
        };
        fields.finish()?;
        let selects = !matcher.any_annotation.is_empty()
            || !matcher.labels.is_empty()
            || !matcher.namespaces.is_empty()
            || !matcher.owner_kinds.is_empty();
        if !selects {
            return Err(Diagnostic::new(node.span, "`match` selects every pod of the cluster")
                .hint("give one of `anyAnnotation`, `labels`, `namespaces`, `ownerKinds`"));
        }
        Ok(matcher)
    }

    pub(crate) fn test(&self, pod: &Value, request: &PodContext) -> Match {
        let metadata = &pod["metadata"];
        let annotation = |key: &str| metadata["annotations"][key].as_str();
        let others_hold = self.labels_hold(&metadata["labels"], request)
            && self.namespace_holds(metadata, request)
            && self.owners_hold(&metadata["ownerReferences"], request);
        if !others_hold {
            return Match::No;
        }
        if !self.any_annotation.is_empty()
            && !self.any_annotation.iter().any(|(key, value)| annotation(key) == Some(value))
        {
            let other = self.any_annotation.iter().find_map(|(key, wanted)| {
                let seen = match &metadata["annotations"][key.as_str()] {
                    Value::Null => return None,
                    Value::String(seen) => seen.clone(),
                    other => other.to_string(),
                };
                Some(Match::OtherValue { key: key.clone(), seen, wanted: wanted.clone() })
            });
            return other.unwrap_or(Match::No);
        }
        match self.except_annotation.iter().find(|(key, value)| annotation(key) == Some(value)) {
            Some((key, value)) => Match::Except { key: key.clone(), value: value.clone() },
            None => Match::Yes,
        }
    }

    fn labels_hold(&self, labels: &Value, request: &PodContext) -> bool {
        self.labels.iter().all(|(key, value)| {
            labels[key.as_str()].as_str() == Some(value)
                || request.labels.iter().any(|(name, assumed)| name == key && assumed == value)
        })
    }

    fn namespace_holds(&self, metadata: &Value, request: &PodContext) -> bool {
        self.namespaces.is_empty()
            || self.namespaces.iter().any(|namespace| namespace == namespace_of(metadata, request))
    }

    fn owners_hold(&self, owners: &Value, request: &PodContext) -> bool {
        let owned_by = |kind: &String| {
            request.owner_kinds.contains(kind)
                || owners
                    .as_array()
                    .is_some_and(|owners| owners.iter().any(|owner| owner["kind"].as_str() == Some(kind)))
        };
        self.owner_kinds.is_empty() || self.owner_kinds.iter().any(owned_by)
    }
}

/// The namespace of a pod: the request's, else the pod's own, else the one that kubectl takes.
pub(crate) fn namespace_of<'a>(metadata: &'a Value, request: &'a PodContext) -> &'a str {
    request.namespace.as_deref().or_else(|| metadata["namespace"].as_str()).unwrap_or("default")
}
