//! The result of the injection of a document.

use std::sync::Arc;

use json_patch::{Patch, PatchOperation, ReplaceOperation};
use serde_json::Value;

use fabric_engine::{Mutation, Outcome};
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::objects::KnownObjects;
use fabric_policy::work::{Held, Work};
use fabric_yaml as yaml;

use crate::advice::{Finding, Findings};

/// The result of the injection of one pod template.
#[derive(Debug)]
pub struct Template {
    /// The JSON Pointer from the document's root to the template.
    pub pointer: String,
    /// The mutation of the template.
    pub mutation: Mutation,
    /// A summary of the added fields, one line for each container and one for the pod. Empty unless
    /// [`Wanted::summary`] is set.
    pub added: Vec<String>,
    /// The requests for the fabric that have no effect. Empty unless [`Wanted::findings`] is set.
    pub findings: Findings,
    /// True if the template has no trigger annotation, and was injected as if it had one.
    pub assumed: bool,
    /// True if the template has the stamp that a policy in use gives it.
    pub stamped: bool,
    /// True if the template is in a manifest within a string, whose pointer is before the `#`.
    pub(super) in_text: bool,
}

/// The optional parts of a result. Each costs time, so the caller requests only those that it uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'n> {
    /// Keep a copy of the pod in each mutation, for its patch.
    pub patches: bool,
    /// Write a summary of the added fields.
    pub summary: bool,
    /// Look for requests for the fabric that have no effect.
    pub findings: bool,
    pub annotation: TriggerAnnotation,
    /// The namespace of the pods whose manifest has none.
    pub namespace: Option<&'n str>,
    /// The nodes of the cluster in which the pods will run, if they are known.
    pub nodes: Option<&'n Arc<Nodes>>,
    /// The objects that pods name, of the input and of the cluster, if any are known.
    pub objects: Option<&'n Arc<KnownObjects>>,
    /// Measures the memory of a document without a work limit of its own, if it is measured.
    pub held: Option<Held>,
    /// The work limit of the document; `None` for the limit of its size.
    pub work: Option<&'n Work>,
    /// The work limit of the checks of its templates; `None` for the same as the document's.
    pub checks: Option<&'n Work>,
}

impl Wanted<'_> {
    /// Completes the findings of a document about the request for its pods.
    pub(super) fn complete(&self, request: PodContext) -> PodContext {
        let namespace = request.namespace.or_else(|| self.namespace.map(str::to_owned));
        let (nodes, objects, work) = (self.nodes.cloned(), self.objects.cloned(), self.work.cloned());
        PodContext { namespace, nodes, objects, work, ..request }
    }
}

/// The treatment of templates without the annotation of a trigger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TriggerAnnotation {
    /// No policy with such an annotation matches them.
    #[default]
    Required,
    /// Injected as if they had it.
    Assumed,
}

/// The result of the injection of all pod templates of a document.
#[derive(Debug, Default)]
pub struct InjectedDocument {
    /// The results, in the order of the document.
    pub templates: Vec<Template>,
    /// The changed document; `None` if no template changed.
    pub value: Option<Value>,
    /// The reasons why a workload, or a manifest within it, has no templates.
    pub notes: Vec<Finding>,
    /// The changed strings that contain manifests, each with its JSON Pointer.
    pub(super) texts: Vec<(String, String)>,
    /// The comments that these strings lost, each with the JSON Pointer of the string and the line in it.
    pub lost: Vec<(String, yaml::Comment)>,
}

impl InjectedDocument {
    /// The patches of all templates, with paths from the document's root. Needs [`Wanted::patches`].
    pub fn patch(&self) -> Patch {
        let of_template = |template: &Template| {
            let changed = template.mutation.outcome.changed();
            changed.map(|changed| changed.patch_at(&template.pointer).0).unwrap_or_default()
        };
        let of_text = |(pointer, text): &(String, String)| {
            let path = pointer.parse().ok()?;
            Some(PatchOperation::Replace(ReplaceOperation { path, value: text.clone().into() }))
        };
        let templates = self.templates.iter().filter(|template| !template.in_text);
        Patch(templates.flat_map(of_template).chain(self.texts.iter().filter_map(of_text)).collect())
    }

    /// Returns true if a policy refuses a pod of the document.
    pub fn refused(&self) -> bool {
        self.templates.iter().any(|template| matches!(template.mutation.outcome, Outcome::Refused { .. }))
    }
}
