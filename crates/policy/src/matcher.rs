//! The `match` of a policy: the pods that it applies to; and its provider, with its nodes.
//!
//! `selection` has the labels of nodes that a pod selects, and `pattern` texts with a `*`. The conditions are evaluated by the
//! engine, and nodes are compared with pods in [`nodes`](crate::nodes).

pub(crate) mod pattern;
mod provider;
pub mod selection;

pub(crate) use pattern::Pattern;
pub use selection::{LabelsRead, SelectedLabel, Selection, current, spellings};

use std::sync::Arc;

use serde_json::Value;

use crate::nodes::Nodes;
use crate::objects::KnownObjects;
use crate::schema::Format;
use crate::work::{self, Work};
use fabric_yaml::{Node, Span};

use crate::interpolation::{Interpolation, Names, Phase, kind_of};
use crate::keys;
use crate::source::reader::{self, Fields};
use crate::source::{Checked, Diagnostic, MISSING_KEY, all};
pub use provider::NodeMatch;

/// The `match` of a policy. Every part that is present must hold.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    pub any_annotation: Vec<(String, String)>,
    /// Each with the value that opts a pod out, or [`ANY_VALUE`].
    pub except_annotation: Vec<(String, String)>,
    pub labels: Vec<(String, String)>,
    pub namespaces: Vec<String>,
    /// `Kind`, or `Kind.group`.
    pub owner_kinds: Vec<String>,
    /// The engine evaluates it, because it reads values of the policy.
    pub when: Option<Interpolation>,
}

/// The value of `exceptAnnotation` for any value.
pub const ANY_VALUE: &str = "*";

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
    /// Whether a kubelet creates the pod, which only the request tells.
    pub by_kubelet: Option<bool>,
    /// The nodes of the cluster, if they are known.
    pub nodes: Option<Arc<Nodes>>,
    /// The objects that pods name, of the cluster or of the input. Without them, names of claims decide.
    pub objects: Option<Arc<KnownObjects>>,
    /// The counter of the work for the pod, which may end it. Without it, only the work for each expression is bounded.
    pub work: Option<Work>,
}

impl PodContext {
    /// Counts steps, and returns whether the work may continue.
    pub fn goes_on(&self, steps: usize) -> bool {
        self.work.as_ref().is_none_or(|work| work.goes_on(steps))
    }

    /// Counts a copy of a value before it is made, and returns whether the work may continue.
    pub fn may_copy(&self, value: &Value) -> bool {
        self.work.as_ref().is_none_or(|work| work.may_copy(value))
    }

    /// Reads the JSON text of an object; a part of it if the work ends.
    pub fn read(&self, text: &str) -> serde_json::Result<Value> {
        work::read(self.work.as_ref(), text)
    }

    /// Ends the work.
    pub fn exhaust(&self) {
        self.goes_on(usize::MAX);
    }

    /// Counts parsing the text of the pod, and writing the result.
    pub fn count_reading(&self) {
        (0..5).for_each(|_| self.count_input());
    }

    /// Counts one pass over the whole pod.
    pub fn count_input(&self) {
        self.work.iter().for_each(Work::count_input);
    }
}

/// The result of matching a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    Yes,
    /// Not a pod of this policy.
    No,
    /// The pod has the trigger's key with another value.
    OtherValue {
        key: String,
        seen: String,
        wanted: String,
        /// The type of the value, if it is not a string.
        not_a_string: Option<&'static str>,
    },
    /// The pod has the trigger, but does not meet another key of `match`.
    OtherKey {
        key: &'static str,
        seen: String,
        wanted: String,
    },
    /// The pod has an annotation that opts it out.
    Except {
        key: String,
        value: String,
    },
}

impl Matcher {
    pub(crate) fn read(node: &Node, names: &Names) -> Checked<Self> {
        let mut fields = Fields::read(node, &keys::MATCH)?;
        let any_annotation = fields.optional("anyAnnotation", |node| read_annotations(node, "anyAnnotation"));
        let except_annotation =
            fields.optional("exceptAnnotation", |node| read_annotations(node, "exceptAnnotation"));
        let labels = fields.optional("labels", read_labels);
        let namespaces = fields.optional("namespaces", read_namespaces);
        let owner_kinds = fields.optional("ownerKinds", read_owner_kinds);
        let when = fields.optional("when", |node| Interpolation::condition(node, "when", names, Phase::Pod));
        fields.finish()?;
        let matcher = Self {
            any_annotation: any_annotation?.unwrap_or_default(),
            except_annotation: except_annotation?.unwrap_or_default(),
            labels: labels?.unwrap_or_default(),
            namespaces: namespaces?.unwrap_or_default(),
            owner_kinds: owner_kinds?.unwrap_or_default(),
            when: when?,
        };
        // With `failurePolicy: Fail`, the pods that a policy matches do not start without the webhook.
        if matcher.any_annotation.is_empty() && matcher.labels.is_empty() {
            let message = "`match` selects pods that do not request the fabric";
            let hint = "give `anyAnnotation` or `labels`; the other keys only restrict what these match";
            let own = node.entry("anyAnnotation").or(node.entry("labels"));
            let span = own.map_or(node.span, |own| own.span);
            return Err(Diagnostic::error(MISSING_KEY, span, message).hint(hint).into());
        }
        Ok(matcher)
    }

    pub fn test(&self, pod: &Value, request: &PodContext) -> Match {
        let metadata = &pod["metadata"];
        let annotations = &metadata["annotations"];
        let is_triggered = self.is_triggered(annotations, request);
        let others_hold = self.all_but_annotations_hold(pod, request);
        match self.exception(annotations) {
            None if is_triggered && others_hold => Match::Yes,
            None if is_triggered && !self.any_annotation.is_empty() => self.other_key(metadata, request),
            Some((key, seen)) if is_triggered && others_hold => {
                Match::Except { key: key.clone(), value: seen.to_owned() }
            }
            _ if others_hold => self.other_value(annotations),
            _ => Match::No,
        }
    }

    /// The first trigger whose key the pod has with another value.
    fn other_value(&self, annotations: &Value) -> Match {
        let other = self.any_annotation.iter().find_map(|(key, wanted)| {
            let (seen, not_a_string) = match &annotations[key.as_str()] {
                Value::Null => return None,
                Value::String(seen) => (seen.clone(), None),
                other => (other.to_string(), Some(kind_of(other))),
            };
            Some(Match::OtherValue { key: key.clone(), seen, wanted: wanted.clone(), not_a_string })
        });
        other.unwrap_or(Match::No)
    }

    /// The first key of `match` that does not hold.
    fn other_key(&self, metadata: &Value, request: &PodContext) -> Match {
        if !self.namespace_holds(metadata, request) {
            let seen = namespace_of(metadata, request).to_owned();
            return Match::OtherKey { key: "namespaces", seen, wanted: self.namespaces.join("`, `") };
        }
        if !self.labels_hold(&metadata["labels"], request) {
            let pairs = self.labels.iter().map(|(key, value)| format!("{key}: {value}"));
            let wanted = pairs.collect::<Vec<_>>().join("`, `");
            let labels = metadata["labels"].as_object().into_iter().flatten();
            let labels = labels.map(|(key, value)| format!("{key}: {}", value.as_str().unwrap_or_default()));
            let seen = labels.collect::<Vec<_>>().join("`, `");
            return Match::OtherKey { key: "labels", seen, wanted };
        }
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let of_pod = owners.filter_map(|owner| Some(owner["kind"].as_str()?.to_owned()));
        let seen: Vec<String> = request.owner_kinds.iter().cloned().chain(of_pod).collect();
        Match::OtherKey { key: "ownerKinds", seen: seen.join("`, `"), wanted: self.owner_kinds.join("`, `") }
    }

    pub fn is_triggered(&self, annotations: &Value, request: &PodContext) -> bool {
        let triggers = |trigger: &(String, String)| match &annotations[trigger.0.as_str()] {
            Value::Null => request.annotations.contains(trigger),
            seen => *seen == *trigger.1,
        };
        self.any_annotation.is_empty() || self.any_annotation.iter().any(triggers)
    }

    /// The annotation that opts a pod out, with its value.
    pub fn exception<'p>(&self, annotations: &'p Value) -> Option<(&String, &'p str)> {
        self.except_annotation.iter().find_map(|(key, value)| {
            let seen = annotations[key.as_str()].as_str()?;
            (value == ANY_VALUE || seen == value).then_some((key, seen))
        })
    }

    /// Returns whether the labels, the namespace and the owners of a pod are those of the policy.
    pub fn all_but_annotations_hold(&self, pod: &Value, request: &PodContext) -> bool {
        let metadata = &pod["metadata"];
        self.labels_hold(&metadata["labels"], request)
            && self.namespace_holds(metadata, request)
            && self.owners_hold(&metadata["ownerReferences"], request)
    }

    pub fn labels_hold(&self, labels: &Value, request: &PodContext) -> bool {
        self.labels.iter().all(|(key, value)| {
            labels[key.as_str()].as_str() == Some(value)
                || request.labels.iter().any(|(name, assumed)| name == key && assumed == value)
        })
    }

    pub fn namespace_holds(&self, metadata: &Value, request: &PodContext) -> bool {
        self.namespaces.is_empty()
            || self.namespaces.iter().any(|namespace| namespace == namespace_of(metadata, request))
    }

    pub fn owners_hold(&self, owners: &Value, request: &PodContext) -> bool {
        let of_request = request.owner_kinds.iter().map(|owner| kind_and_group(owner));
        let of_request = of_request.map(|(kind, group)| (kind, group.unwrap_or_default()));
        let of_pod = owners.as_array().into_iter().flatten().filter_map(|owner| {
            Some((owner["kind"].as_str()?, group_of(owner["apiVersion"].as_str().unwrap_or_default())))
        });
        let is_wanted = |(kind, group)| self.owner_kinds.iter().any(|wanted| is_of(kind, group, wanted));
        self.owner_kinds.is_empty() || of_request.chain(of_pod).any(is_wanted)
    }
}

/// The kind and the group of `Job.batch`; a kind has no dot.
pub fn kind_and_group(owner: &str) -> (&str, Option<&str>) {
    owner.split_once('.').map_or((owner, None), |(kind, group)| (kind, Some(group)))
}

/// The group of an `apiVersion`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns whether an entry of `ownerKinds` names this kind.
fn is_of(kind: &str, group: &str, wanted: &str) -> bool {
    let (wanted_kind, wanted_group) = kind_and_group(wanted);
    kind == wanted_kind && wanted_group.is_none_or(|wanted| wanted == group)
}

fn read_owner_kinds(node: &Node) -> Checked<Vec<String>> {
    all(reader::items(node, "`ownerKinds`")?.iter().map(|item| {
        let text = reader::text(item, "an owner kind")?;
        let (kind, group) = kind_and_group(text);
        let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_kind || group.is_some_and(|group| Format::DnsSubdomain.check(group).is_err()) {
            return Err(Diagnostic::new(item.span, format!("`{text}` is not the kind of an owner")).hint(
                "write the kind as a manifest has it, such as `Job`, or `Job.batch` with the API group",
            ));
        }
        Ok(text.to_owned())
    }))
}

/// Reads `anyAnnotation` or `exceptAnnotation`. Only in the latter does `*` match any value.
fn read_annotations(node: &Node, key: &str) -> Checked<Vec<(String, String)>> {
    all(reader::entries(node, &format!("`{key}`"))?.iter().map(|entry| {
        possible(&entry.key, entry.span, "annotation", Format::AnnotationKey)?;
        match reader::text(&entry.value, "an annotation")? {
            ANY_VALUE if key == "anyAnnotation" => {
                Err(Diagnostic::new(entry.value.span, "`anyAnnotation` has no wildcard")
                    .hint("give the value that requests the fabric"))
            }
            value => Ok((entry.key.clone(), value.to_owned())),
        }
    }))
}

fn read_labels(node: &Node) -> Checked<Vec<(String, String)>> {
    all(reader::entries(node, "`labels`")?.iter().map(|entry| {
        possible(&entry.key, entry.span, "label", Format::QualifiedName)?;
        let value = reader::text(&entry.value, "a label")?;
        possible(value, entry.value.span, "value of a label", Format::LabelValue)?;
        Ok::<_, Diagnostic>((entry.key.clone(), value.to_owned()))
    }))
}

fn read_namespaces(node: &Node) -> Checked<Vec<String>> {
    all(reader::items(node, "`namespaces`")?.iter().map(|item| {
        let name = reader::text(item, "a namespace")?;
        possible(name, item.span, "namespace", Format::DnsLabel)?;
        Ok::<_, Diagnostic>(name.to_owned())
    }))
}

/// Fails for a name or value that no pod can have.
fn possible(text: &str, span: Span, what: &str, format: Format) -> Result<(), Diagnostic> {
    format.check(text).map_err(|problem| {
        let hint = match text.strip_suffix('*') {
            Some(start) if what == "namespace" => {
                let start = start.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                format!("write `when: podNamespace.startsWith('{start}')`: a namespace has no pattern")
            }
            _ => "write it as the pods have it".to_owned(),
        };
        Diagnostic::new(span, format!("no pod can have this {what}: {problem}")).hint(hint)
    })
}

/// The namespace of a pod: the request's, else the pod's own, else kubectl's default.
pub fn namespace_of<'a>(metadata: &'a Value, request: &'a PodContext) -> &'a str {
    request.namespace.as_deref().or_else(|| metadata["namespace"].as_str()).unwrap_or("default")
}
