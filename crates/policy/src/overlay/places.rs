//! The expressions of an overlay, each with the value that is needed in its place.

use crate::interpolation::Interpolation;
use crate::schema::Shape;

use super::scalars::{describe, is_structure};
use super::{Element, Instruction, Key, PodOverlay, Template, Write, Written, writes, writes_of_rule};

/// The value that is needed in a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// The value of a field. `null` leaves it out.
    Field(Shape),
    /// A string, or a scalar that becomes one.
    Text,
    /// An entry of a list in a string: any value, which becomes a text.
    Entry,
    /// The name of a network or of a resource, or a list of such names.
    NameOrNames,
    /// A list of maps.
    Entries,
}

impl Wanted {
    /// The value, for a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Field(shape) => describe(shape),
            Self::Text | Self::Entry => "a string".to_owned(),
            Self::NameOrNames => "a name or a list of names".to_owned(),
            Self::Entries => "a list of maps".to_owned(),
        }
    }
}

type Visit<'v> = &'v mut dyn FnMut(&Interpolation, Wanted);

impl Write<'_> {
    /// Calls `visit` with every interpolation.
    pub(crate) fn places(&self, visit: Visit<'_>) {
        match self.key {
            Key::Of(key) if matches!(self.value, Written::Amount(_)) => visit(key, Wanted::NameOrNames),
            Key::Of(key) => visit(key, Wanted::Text),
            Key::Named(name) => name.places(visit),
            Key::Whole | Key::Fields(_) => {}
        }
        self.value.places(visit);
    }
}

impl Written<'_> {
    fn places(&self, visit: Visit<'_>) {
        match self {
            Self::Empty => {}
            Self::Value(template) => template.places(visit),
            Self::Entry(entry) => entry.0.places(visit),
            Self::ListEdit(edit) => visit(&edit.entry, Wanted::Entry),
            Self::Networks(edit) => edit.places(visit),
            Self::Entries(edit) => edit.places(visit),
            Self::Amount(amount) => {
                amount.limit.iter().chain(&amount.request).for_each(|template| template.places(visit));
            }
            Self::Computed { field, expression, .. } => visit(expression, Wanted::Field(field.shape)),
        }
    }

    /// Calls `visit` with every interpolation of the value.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.places(&mut |text, _| visit(text));
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
    /// Calls `visit` with every interpolation of the overlays of a rule.
    pub(crate) fn places_with(&self, container: &[Instruction], visit: Visit<'_>) {
        let claims = writes(&self.claims);
        claims.into_iter().chain(writes_of_rule(container, self)).for_each(|write| write.places(visit));
        self.volumes.iter().for_each(|volume| volume.0.places(visit));
        self.containers.iter().for_each(|container| container.name.places(visit));
    }

    /// Calls `visit` with every interpolation of the overlays of a rule.
    pub(crate) fn texts_with(&self, container: &[Instruction], visit: &mut dyn FnMut(&Interpolation)) {
        self.places_with(container, &mut |text, _| visit(text));
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
