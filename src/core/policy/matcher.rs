//! The `match` of a policy.

use serde_json::Value;

use crate::core::schema::Format;
use crate::core::yaml::Node;

use super::diagnostic::Diagnostic;
use super::interpolation::Interpolation;
use super::phase::{Names, Phase};
use super::reader::{self, Fields};

/// The `match` of a policy. Every part that is present has to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matcher {
    pub(crate) any_annotation: Vec<(String, String)>,
    /// Each with the value that takes a pod out, or [`ANY_VALUE`].
    pub(crate) except_annotation: Vec<(String, String)>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) namespaces: Vec<String>,
    /// `Kind`, or `Kind.group`.
    pub(crate) owner_kinds: Vec<String>,
    /// The engine evaluates it, because it reads values of the policy.
    pub(crate) when: Option<Interpolation>,
}

/// The value of `exceptAnnotation` for any value.
pub(crate) const ANY_VALUE: &str = "*";

/// Facts about a pod that the pod itself does not contain.
#[derive(Debug, Clone, Default)]
pub struct PodContext {
    /// The namespace of the request; a pod that is being created may not name it.
    pub namespace: Option<String>,
    /// Kinds of the owners that the pod will have, for a template that has no owner yet: `Kind.group`, or `Kind`.
    pub owner_kinds: Vec<String>,
    /// Labels that the controller of a template adds to its pods.
    pub labels: Vec<(String, String)>,
    /// Annotations that the pod is assumed to have; those of the pod itself have precedence.
    pub annotations: Vec<(String, String)>,
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
        /// The type of the value, if it is no string.
        not_a_string: Option<&'static str>,
    },
    /// The pod has an annotation that takes it out.
    Except {
        key: String,
        value: String,
    },
}

impl Matcher {
    pub(crate) fn read(node: &Node, names: &Names) -> Result<Self, Diagnostic> {
        let mut fields = Fields::of(node, "`match`")?;
        let pairs = |node: Option<&Node>, what| node.map(|node| reader::text_map(node, what)).transpose();
        let list = |node: Option<&Node>, what| node.map(|node| reader::texts(node, what)).transpose();
        let any_annotation = fields.optional("anyAnnotation");
        no_wildcard(any_annotation)?;
        let owner_kinds = fields.optional("ownerKinds");
        let condition = |node| Interpolation::condition(node, "`when`", names, Phase::Pod);
        let matcher = Self {
            any_annotation: pairs(any_annotation, "an annotation")?.unwrap_or_default(),
            except_annotation: pairs(fields.optional("exceptAnnotation"), "an annotation")?
                .unwrap_or_default(),
            labels: pairs(fields.optional("labels"), "a label")?.unwrap_or_default(),
            namespaces: list(fields.optional("namespaces"), "a namespace")?.unwrap_or_default(),
            owner_kinds: owner_kinds.map(read_owner_kinds).transpose()?.unwrap_or_default(),
            when: fields.optional("when").map(condition).transpose()?,
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
        if !self.all_but_annotations_hold(pod, request) {
            return Match::No;
        }
        let triggers = |trigger: &(String, String)| {
            let (key, wanted) = trigger;
            annotation(key) == Some(wanted)
                || (metadata["annotations"][key.as_str()].is_null() && request.annotations.contains(trigger))
        };
        if !self.any_annotation.is_empty() && !self.any_annotation.iter().any(triggers) {
            let other = self.any_annotation.iter().find_map(|(key, wanted)| {
                let (seen, not_a_string) = match &metadata["annotations"][key.as_str()] {
                    Value::Null => return None,
                    Value::String(seen) => (seen.clone(), None),
                    other => (other.to_string(), Some(json_type(other))),
                };
                Some(Match::OtherValue { key: key.clone(), seen, wanted: wanted.clone(), not_a_string })
            });
            return other.unwrap_or(Match::No);
        }
        let seen = self.except_annotation.iter().find_map(|(key, value)| {
            let seen = annotation(key).filter(|seen| value == ANY_VALUE || seen == value)?;
            Some((key, seen))
        });
        match seen {
            Some((key, seen)) => Match::Except { key: key.clone(), value: seen.to_owned() },
            None => Match::Yes,
        }
    }

    /// Returns whether the labels, the namespace and the owners of a pod are those of the policy.
    pub(crate) fn all_but_annotations_hold(&self, pod: &Value, request: &PodContext) -> bool {
        let metadata = &pod["metadata"];
        self.labels_hold(&metadata["labels"], request)
            && self.namespace_holds(metadata, request)
            && self.owners_hold(&metadata["ownerReferences"], request)
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
        let owned_by = |wanted: &String| {
            request.owner_kinds.iter().any(|owner| {
                let (kind, group) = kind_and_group(owner);
                is_of(kind, group.unwrap_or_default(), wanted)
            }) || owners.as_array().into_iter().flatten().any(|owner| {
                let group = group_of(owner["apiVersion"].as_str().unwrap_or_default());
                owner["kind"].as_str().is_some_and(|kind| is_of(kind, group, wanted))
            })
        };
        self.owner_kinds.is_empty() || self.owner_kinds.iter().any(owned_by)
    }
}

/// The kind and the group of `Job.batch`; a kind has no dot.
pub(crate) fn kind_and_group(owner: &str) -> (&str, Option<&str>) {
    owner.split_once('.').map_or((owner, None), |(kind, group)| (kind, Some(group)))
}

/// The group of an `apiVersion`; empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns whether an entry of `ownerKinds` names this kind.
fn is_of(kind: &str, group: &str, wanted: &str) -> bool {
    let (wanted_kind, wanted_group) = kind_and_group(wanted);
    kind == wanted_kind && wanted_group.is_none_or(|wanted| wanted == group)
}

fn read_owner_kinds(node: &Node) -> Result<Vec<String>, Diagnostic> {
    let mut kinds = Vec::new();
    for item in reader::items(node, "`ownerKinds`")? {
        let text = reader::text(item, "an owner kind")?;
        let (kind, group) = kind_and_group(text);
        let is_kind = kind.starts_with(|c: char| c.is_ascii_alphabetic())
            && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_kind || group.is_some_and(|group| Format::DnsSubdomain.check(group).is_err()) {
            return Err(Diagnostic::new(item.span, format!("`{text}` is not the kind of an owner"))
                .hint("write `Job`, or `Job.batch` with the API group"));
        }
        kinds.push(text.to_owned());
    }
    Ok(kinds)
}

/// `*` stands for any value in `exceptAnnotation` only.
fn no_wildcard(any_annotation: Option<&Node>) -> Result<(), Diagnostic> {
    let Some(node) = any_annotation else { return Ok(()) };
    for entry in reader::entries(node, "an annotation")? {
        if reader::text(&entry.value, "an annotation")? == ANY_VALUE {
            return Err(Diagnostic::new(entry.value.span, "`anyAnnotation` has no wildcard")
                .hint("give the value that asks for the fabric"));
        }
    }
    Ok(())
}

/// The namespace of a pod: the request's, else the pod's own, else the one that kubectl takes.
pub(crate) fn namespace_of<'a>(metadata: &'a Value, request: &'a PodContext) -> &'a str {
    request.namespace.as_deref().or_else(|| metadata["namespace"].as_str()).unwrap_or("default")
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Array(_) => "list",
        _ => "map",
    }
}
