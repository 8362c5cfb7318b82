//! The expressions of an overlay, each with the value that is needed in its place.

use crate::core::policy::interpolation::Interpolation;
use crate::core::schema::Shape;

use super::accept::{describe, is_structure};
use super::{Element, Instruction, PodOverlay, StringValue, Template, Variable};

/// The value that is needed in a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// The value of a field. `null` leaves it out.
    Field(Shape),
    /// A string, or a scalar that becomes one.
    Text,
    /// An entry of a list in a string: any value, which becomes a text.
    Entry,
    /// The name of a network, or a list of such names.
    Networks,
    /// A list of maps.
    Entries,
    /// A list of names.
    Names,
}

impl Wanted {
    /// The value, for a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Field(shape) => describe(shape),
            Self::Text | Self::Entry => "a string".to_owned(),
            Self::Networks => "the name of a network or a list of names".to_owned(),
            Self::Entries => "a list of maps".to_owned(),
            Self::Names => "a list of names".to_owned(),
        }
    }
}

type Visit<'v> = &'v mut dyn FnMut(&Interpolation, Wanted);

impl Instruction {
    /// Calls `visit` with every interpolation.
    pub(crate) fn places(&self, visit: Visit<'_>) {
        match self {
            Self::Object { instructions, .. } => {
                instructions.iter().for_each(|instruction| instruction.places(visit));
            }
            Self::Value { template, .. } | Self::Replace { list: template, .. } => template.places(visit),
            Self::Entries { entries, .. } => {
                for (key, value) in entries {
                    visit(key, Wanted::Text);
                    value.places(visit);
                }
            }
            Self::Annotations { entries, .. } => {
                for (key, value) in entries {
                    visit(key, Wanted::Text);
                    value.places(visit);
                }
            }
            Self::Keyed { entries, .. }
            | Self::Set { entries, .. }
            | Self::Mounts { mounts: entries, .. }
            | Self::Claims { entries, .. } => entries.iter().for_each(|entry| entry.0.places(visit)),
            Self::Env { variables, .. } => variables.iter().for_each(|variable| match variable {
                Variable::Entry(element) => element.0.places(visit),
                Variable::List { name, edit } => {
                    name.places(visit);
                    visit(&edit.entry, Wanted::Entry);
                }
            }),
            Self::Amounts(amounts) => {
                for amount in amounts {
                    visit(&amount.resource, Wanted::Text);
                    amount.limit.iter().chain(&amount.request).for_each(|template| template.places(visit));
                }
            }
            Self::Capabilities { lists, .. } => lists.iter().for_each(|(_, template)| template.places(visit)),
            Self::Computed { field, expression, .. } => visit(expression, Wanted::Field(field.shape)),
        }
    }
}

impl StringValue {
    fn places(&self, visit: Visit<'_>) {
        match self {
            Self::Text(template) => template.places(visit),
            Self::List(edit) => visit(&edit.entry, Wanted::Entry),
            Self::Networks(edit) => edit.places(visit),
            Self::Entries(edit) => edit.places(visit),
        }
    }
}

impl Template {
    pub(super) fn places(&self, visit: Visit<'_>) {
        match self {
            Self::Constant(_) => {}
            Self::Computed(text, shape) => visit(text, Wanted::Field(*shape)),
            Self::Object(_, fields) => fields.iter().for_each(|(_, value)| value.places(visit)),
            Self::Map(_, entries) => {
                for (key, value) in entries {
                    visit(key, Wanted::Text);
                    value.places(visit);
                }
            }
            Self::List(items) => items.iter().for_each(|Element(item)| item.places(visit)),
        }
    }
}

impl PodOverlay {
    /// Calls `visit` with every interpolation.
    pub(crate) fn places(&self, visit: Visit<'_>) {
        self.claims.iter().chain(&self.instructions).for_each(|instruction| instruction.places(visit));
        self.volumes.iter().for_each(|volume| volume.0.places(visit));
        for container in &self.containers {
            container.name.places(visit);
            container.instructions.iter().for_each(|instruction| instruction.places(visit));
        }
    }
}

/// Returns whether a field of this shape is a list.
pub(crate) fn is_list(shape: &Shape) -> bool {
    matches!(shape, Shape::List { .. })
}

/// Returns whether a field of this shape is an object.
pub(crate) fn is_object(shape: &Shape) -> bool {
    is_structure(shape) && !is_list(shape)
}
