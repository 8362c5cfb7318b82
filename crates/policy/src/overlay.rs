//! Overlays: parts of a pod with expressions, compiled into instructions.
//!
//! `compile` turns an overlay into [`Instruction`]s when a policy is loaded. Each instruction is one kind of change
//! that the engine can make; a piece of an overlay for which there is no instruction is an error at its line.

mod build;
mod compile;
mod edit;
mod fold;
mod places;
mod scalars;
mod source;
mod template;
mod values;
mod without;
pub mod writes;

pub use build::evaluate_key;
pub use compile::{Compiler, compile_computed};
pub use edit::{EntriesEdit, NetworksEdit};
pub(crate) use fold::Fold;
pub(crate) use places::{Wanted, is_list, is_object};
pub use template::{Element, Template};
pub use without::{Place, without};
pub use writes::{Key, Write, Written, writes, writes_of_rule};

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation, text_of};
use crate::schema::{Field, Format, Object, Shape};
use fabric_yaml::quantity::Quantity;

use scalars::accept;

use writes::value_at;

/// The annotation that Multus reads.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// An overlay for a container, or for a pod without its containers and volumes.
pub(crate) type Instructions = Vec<Instruction>;

/// One change to an object of the pod.
#[derive(Debug, Clone)]
pub enum Instruction {
    /// Changes to the fields of an object.
    Object { field: &'static Field, instructions: Instructions },
    /// A field that is one value.
    Value { field: &'static Field, template: Template },
    /// Entries of a map of texts with keys of the user's choice, such as labels and annotations.
    Map { field: &'static Field, keys: Format, entries: Vec<(Interpolation, StringValue)> },
    /// Entries of a list, each identified by some of its fields, or else by its value.
    Keyed { field: &'static Field, keys: &'static [&'static str], entries: Vec<Element> },
    /// Environment variables.
    Env { field: &'static Field, variables: Vec<EnvEntry> },
    /// Limits and requests.
    Amounts(Vec<Amount>),
    /// A field whose whole value, a map or a list, comes from one expression. The engine compiles that value like a
    /// literal overlay.
    Computed { object: &'static Object, field: &'static Field, expression: Interpolation },
}

/// An overlay for a pod.
#[derive(Debug, Clone, Default)]
pub struct PodOverlay {
    /// The claims of the pod, which are merged before the containers that use them.
    pub claims: Instructions,
    pub instructions: Instructions,
    pub volumes: Vec<Element>,
    pub containers: Vec<NamedContainer>,
}

/// A container of a pod's overlay: merged into the pod's container of that name, or added.
#[derive(Debug, Clone)]
pub struct NamedContainer {
    /// `containers` or `initContainers`.
    pub list: &'static str,
    pub name: Template,
    /// Everything but the name.
    pub instructions: Instructions,
}

/// A text, or a change to the list that the text of an annotation holds.
#[derive(Debug, Clone)]
pub enum StringValue {
    Text(Template),
    /// Attachments of networks in a Multus annotation.
    Networks(NetworksEdit),
    /// Entries of a list of objects in JSON.
    Entries(EntriesEdit),
}

/// One entry before or after the entries of a variable such as `LD_LIBRARY_PATH`, which has `:` between them.
#[derive(Debug, Clone)]
pub struct ListEdit {
    pub entry: Interpolation,
    pub prepend: bool,
}

/// An environment variable.
#[derive(Debug, Clone)]
pub enum EnvEntry {
    /// A whole entry.
    Entry(Element),
    /// A change to the list that the variable's value holds.
    List { name: Template, edit: ListEdit },
}

/// The amount of one resource.
#[derive(Debug, Clone)]
pub struct Amount {
    /// A name, or an expression that yields one or a list of them.
    pub resource: Interpolation,
    /// The position in a list. The amount is the number of names that are requested, one device of each.
    pub(crate) nth: Option<u64>,
    pub limit: Option<Template>,
    pub request: Option<Template>,
}

/// Names of resources, each with its position if they are a list.
type Resources = Vec<(String, Option<u64>)>;

impl Amount {
    /// The names of the resource, each with its position if they are a list. None is left out.
    pub fn names(&self, bindings: &Bindings<'_, '_>) -> Result<Resources, EvaluationError> {
        self.named(bindings).map(|(names, _)| names)
    }

    /// The same, and the length of the list.
    pub(crate) fn named(
        &self,
        bindings: &Bindings<'_, '_>,
    ) -> Result<(Resources, Option<usize>), EvaluationError> {
        if let Interpolation::Literal(name) = &self.resource {
            return Ok((vec![(name.clone(), self.nth)], None));
        }
        let name = |value: &Value| {
            let accepted = accept(value, &Shape::Text(Format::ResourceName));
            let accepted = accepted.map_err(|message| self.resource.failed(message));
            accepted.map(|name| name.map(|name| text_of(&name)))
        };
        let value = self.resource.evaluate(bindings)?;
        let Value::Array(names) = &value else {
            return Ok((name(&value)?.into_iter().map(|name| (name, self.nth)).collect(), None));
        };
        let all = names.iter().zip(0..).map(|(one, nth)| Ok(name(one)?.map(|name| (name, Some(nth)))));
        let all = all.filter_map(Result::transpose).collect::<Result<Vec<_>, EvaluationError>>()?;
        let mut known = BTreeSet::new();
        if let Some((twice, _)) = all.iter().find(|(name, _)| !known.insert(name)) {
            return Err(self.resource.failed(format!("the list names `{twice}` twice")));
        }
        Ok((all, Some(names.len())))
    }

    /// The amount of one resource: of the one at a position in a list, one or none.
    pub fn of(&self, nth: Option<u64>, value: Value) -> Result<Value, EvaluationError> {
        let Some(nth) = nth else { return Ok(value) };
        let count = Quantity::from_value(&value)
            .and_then(Quantity::as_count)
            .and_then(|count| u64::try_from(count).ok());
        let count = count.ok_or_else(|| {
            self.failed(format!("the result is `{value}`, but a number of devices is needed"))
        })?;
        Ok(u64::from(count > nth).to_string().into())
    }

    /// An error about the amount, at its expression or else at that of its name.
    pub fn failed(&self, message: String) -> EvaluationError {
        let EvaluationError { fault, .. } =
            EvaluationError::about(|visit| Written::Amount(self).texts(visit), "");
        let error = self.resource.failed(message);
        if error.fault.span.line > 0 { error } else { EvaluationError { fault, ..error } }
    }
}

/// Returns whether an amount is zero, and is therefore left out.
pub fn is_zero(amount: &Value) -> bool {
    Quantity::from_value(amount).and_then(Quantity::as_count) == Some(0)
}

impl PodOverlay {
    /// Attaches the devices of a container's overlay to the networks of the pod.
    pub(crate) fn attach(&mut self, container: &[Instruction], requests: &Interpolation) {
        let amounts = |write: Write<'_>| match write.value {
            Written::Amount(amount) => Some(amount.clone()),
            _ => None,
        };
        let resources: Vec<Amount> = writes(container).into_iter().filter_map(amounts).collect();
        if resources.is_empty() {
            return;
        }
        for instruction in &mut self.instructions {
            let Instruction::Object { instructions, .. } = instruction else { continue };
            for instruction in instructions {
                let Instruction::Map { entries, .. } = instruction else { continue };
                for (_, value) in entries {
                    if let StringValue::Networks(edit) = value {
                        edit.attach(resources.clone(), requests.clone());
                    }
                }
            }
        }
    }

    /// The value that the overlay gives `spec.hostNetwork`.
    pub fn host_network(&self) -> Option<&Template> {
        value_at(&self.instructions, &["spec", "hostNetwork"])
    }
}

impl NamedContainer {
    /// The image, without which the container cannot be added.
    pub fn image(&self) -> Option<&Template> {
        value_at(&self.instructions, &["image"])
    }
}
