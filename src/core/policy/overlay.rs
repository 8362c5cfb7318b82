//! Overlays: pieces of a pod with expressions in them, compiled into instructions.
//!
//! [`compile`] turns an overlay into [`Instruction`]s when a policy is loaded. Each instruction is one kind of change
//! that the engine can make; a piece of an overlay for which there is no instruction is an error at its line.

mod accept;
mod build;
mod compile;
mod edit;
mod fold;
mod places;
mod source;
mod template;
mod values;
mod writes;

pub(crate) use build::evaluate_key;
pub(crate) use compile::{Compiler, compile_computed};
pub(crate) use edit::{EntriesEdit, NetworksEdit, can_replace};
pub(crate) use fold::Fold;
pub(crate) use places::{Wanted, is_list, is_object};
pub(crate) use template::{Element, Template};
pub(crate) use writes::{Key, Write, Written, writes, writes_of_rule};

use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::schema::{Field, Format, Object};

use writes::value_at;

/// The annotation that Multus reads.
pub(crate) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// An overlay for a container, or for a pod without its containers and volumes.
pub(crate) type Instructions = Vec<Instruction>;

/// One change to an object of the pod.
#[derive(Debug, Clone)]
pub(crate) enum Instruction {
    /// Changes to the fields of an object.
    Object { field: &'static Field, instructions: Instructions },
    /// A field that is one value.
    Value { field: &'static Field, template: Template },
    /// Entries of a map with keys of the user's choice.
    Entries { field: &'static Field, keys: Format, entries: Vec<(Interpolation, Template)> },
    /// Entries of the pod's annotations.
    Annotations { field: &'static Field, keys: Format, entries: Vec<(Interpolation, StringValue)> },
    /// Entries of a list, each of which is known by some of its fields, or else by its value.
    Keyed { field: &'static Field, keys: &'static [&'static str], entries: Vec<Element> },
    /// A list that takes the place of the pod's.
    Replace { field: &'static Field, list: Template },
    /// Environment variables.
    Env { field: &'static Field, variables: Vec<EnvEntry> },
    /// Limits and requests.
    Amounts(Vec<Amount>),
    /// Capabilities to `add` and to `drop`.
    Capabilities { field: &'static Field, lists: Vec<(&'static Field, Template)> },
    /// A field whose whole value, a map or a list, one expression yields. The engine compiles that value like an
    /// overlay that is written out.
    Computed { object: &'static Object, field: &'static Field, expression: Interpolation },
}

/// An overlay for a pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodOverlay {
    /// The claims of the pod, which are merged before the containers that use them.
    pub(crate) claims: Instructions,
    pub(crate) instructions: Instructions,
    pub(crate) volumes: Vec<Element>,
    pub(crate) containers: Vec<NamedContainer>,
}

/// A container of a pod's overlay: merged into the pod's container of that name, or added.
#[derive(Debug, Clone)]
pub(crate) struct NamedContainer {
    /// `containers` or `initContainers`.
    pub(crate) list: &'static str,
    pub(crate) name: Template,
    /// Everything but the name.
    pub(crate) instructions: Instructions,
}

/// A string, or a change to the list that a string holds.
#[derive(Debug, Clone)]
pub(crate) enum StringValue {
    Text(Template),
    /// An entry of a list with a separator.
    List(ListEdit),
    /// Attachments of networks in a Multus annotation.
    Networks(NetworksEdit),
    /// Entries of a list of objects in JSON.
    Entries(EntriesEdit),
}

/// One entry in front of, or behind, what a variable such as `LD_LIBRARY_PATH` lists.
#[derive(Debug, Clone)]
pub(crate) struct ListEdit {
    pub(crate) entry: Interpolation,
    pub(crate) separator: String,
    pub(crate) prepend: bool,
}

/// An environment variable.
#[derive(Debug, Clone)]
pub(crate) enum EnvEntry {
    /// A whole entry.
    Entry(Element),
    /// A change to the list that the variable's value holds.
    List { name: Template, edit: ListEdit },
}

/// The amount of one resource.
#[derive(Debug, Clone)]
pub(crate) struct Amount {
    pub(crate) resource: Interpolation,
    pub(crate) limit: Option<Template>,
    pub(crate) request: Option<Template>,
}

impl Amount {
    /// An error about the amount, at its expression or else at that of its name.
    pub(crate) fn failed(&self, message: String) -> EvaluationError {
        let EvaluationError { fault, .. } =
            EvaluationError::about(|visit| Written::Amount(self).texts(visit), "");
        let error = self.resource.failed(message);
        if error.fault.span.line > 0 { error } else { EvaluationError { fault, ..error } }
    }
}

impl PodOverlay {
    /// The value that the overlay gives `spec.hostNetwork`.
    pub(crate) fn host_network(&self) -> Option<&Template> {
        value_at(&self.instructions, &["spec", "hostNetwork"])
    }
}

impl NamedContainer {
    /// The image, without which the container cannot be added.
    pub(crate) fn image(&self) -> Option<&Template> {
        value_at(&self.instructions, &["image"])
    }
}
