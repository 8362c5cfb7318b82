//! The expressions of a tree, each with the value that is needed in its place.

use crate::interpolation::Interpolation;
use crate::schema::{self, Format, Object, Shape};

use super::scalars::{describe, is_structure};
use super::{Content, Entry, PodOverlay, RESOURCES, Tree, edit};

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

impl PodOverlay {
    /// Calls `visit` with every text that has expressions of the overlays of a rule.
    pub(crate) fn places_with(&self, container: &Tree, visit: Visit<'_>) {
        let (pod, container_of) = (Shape::Object(schema::pod()), Shape::Object(schema::container()));
        places(&self.claims, &pod, visit);
        places(container, &container_of, visit);
        for named in &self.containers {
            places(&named.fields, &container_of, visit);
        }
        places(&self.fields, &pod, visit);
        for volume in &self.volumes {
            places(volume, &Shape::Atomic(schema::volume()), visit);
        }
        for named in &self.containers {
            places(&named.name, &Shape::Text(Format::DnsLabel), visit);
        }
    }
}

fn places(tree: &Tree, shape: &Shape, visit: Visit<'_>) {
    match (&tree.content, shape) {
        (Content::Value(_), _) => {}
        (Content::Text(text), _) => visit(text, Wanted::Field(*shape)),
        (Content::List(items), Shape::List { items: shape, .. }) => {
            for item in items {
                places(item, shape, visit);
            }
        }
        (Content::List(items), _) => items.iter().for_each(|item| places(item, shape, visit)),
        (Content::Map(entries), Shape::Object(object) | Shape::Atomic(object)) => {
            fields(entries, object, visit);
        }
        (Content::Map(entries), Shape::Map { values, .. }) => {
            // Only the amounts of a container have names that can be lists.
            let wanted = if matches!(values, Shape::Quantity) { Wanted::NameOrNames } else { Wanted::Text };
            for entry in entries {
                entry.text().into_iter().for_each(|text| visit(text, wanted));
                if matches!(values, Shape::Text(_)) && entry.value.is_map() {
                    annotation(&entry.value, visit);
                } else {
                    places(&entry.value, values, visit);
                }
            }
        }
        // An edit of a variable.
        (Content::Map(entries), Shape::Text(_)) => {
            entries
                .iter()
                .filter_map(|entry| entry.value.as_text())
                .for_each(|text| visit(text, Wanted::Entry));
        }
        (Content::Map(entries), _) => {
            for entry in entries {
                entry.text().into_iter().for_each(|text| visit(text, Wanted::Text));
                places(&entry.value, shape, visit);
            }
        }
    }
}

fn fields(entries: &[Entry], object: &'static Object, visit: Visit<'_>) {
    for entry in entries {
        if let Some(field) = entry.name().and_then(|name| object.field(name)) {
            places(&entry.value, &field.shape, visit);
        }
    }
}

/// The places of an edit of an annotation.
fn annotation(edit: &Tree, visit: Visit<'_>) {
    let is_of_objects = edit.get(edit::KEY).is_some();
    for entry in edit.entries() {
        let (whole, item) = match entry.name() {
            _ if is_of_objects => (Wanted::Entries, None),
            Some("$append") => (Wanted::NameOrNames, Some(Wanted::Text)),
            Some(RESOURCES) => (Wanted::NameOrNames, Some(Wanted::NameOrNames)),
            _ => (Wanted::Entry, None),
        };
        if let Content::Text(text) = &entry.value.content {
            visit(text, whole);
        }
        match item {
            None => entry.value.items().iter().for_each(|item| places(item, &Shape::Opaque, visit)),
            Some(wanted) => {
                entry.value.items().iter().filter_map(Tree::as_text).for_each(|text| visit(text, wanted));
            }
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
