//! Shorthand for the shapes, literals and exclusions in the tables.

use super::{Exclusion, Field, Format, ListMerge, Literal, Object, Shape};

pub(super) const ANY: Shape = Shape::Text(Format::Any);
pub(super) const NON_EMPTY: Shape = Shape::Text(Format::NonEmpty);
pub(super) const LABEL: Shape = Shape::Text(Format::DnsLabel);
pub(super) const SUBDOMAIN: Shape = Shape::Text(Format::DnsSubdomain);
pub(super) const KEY: Shape = Shape::Text(Format::QualifiedName);
pub(super) const LABEL_VALUE: Shape = Shape::Text(Format::LabelValue);

pub(super) const INT32_MAX: i64 = i32::MAX as i64;
/// A number of seconds or of attempts.
pub(super) const COUNT: Shape = Shape::Integer(0, INT32_MAX);
/// The number of a user or of a group.
pub(super) const ID: Shape = Shape::Integer(0, INT32_MAX);
/// The permissions of a file.
pub(super) const MODE: Shape = Shape::Integer(0, 0o777);

pub(super) const TRUE: Option<Literal> = Some(Literal::Boolean(true));
pub(super) const FALSE: Option<Literal> = Some(Literal::Boolean(false));

/// Fields that the API server refuses in a pod for Windows.
pub(super) const NOT_ON_WINDOWS: Exclusion =
    Exclusion::new(None, "/spec/os/name", Some(Literal::Text("windows")));

pub(super) const fn one_of(values: &'static [&'static str]) -> Shape {
    Shape::Text(Format::OneOf(values))
}

/// A list that is one value.
pub(super) const fn list(items: &'static Shape) -> Shape {
    Shape::List { items, merge: ListMerge::Atomic }
}

/// A list without an order.
pub(super) const fn set(items: &'static Shape) -> Shape {
    Shape::List { items, merge: ListMerge::Set }
}

pub(super) const fn keyed(items: &'static Shape, keys: &'static [&'static str]) -> Shape {
    Shape::List { items, merge: ListMerge::Keyed(keys) }
}

/// Labels, annotations and the like.
pub(super) const fn strings(keys: Format, values: &'static Shape) -> Shape {
    Shape::Map { keys, values }
}

/// Amounts of resources.
pub(super) const fn quantities(keys: Format) -> Shape {
    Shape::Map { keys, values: &Shape::Quantity }
}

/// A field of Kubernetes 1.37 that older API servers drop.
pub(super) const fn newer(name: &'static str) -> Field {
    Field::new(name, Shape::Opaque).refused("API servers before Kubernetes 1.37 drop it")
}

pub(super) const fn atomic(object: &'static Object) -> Shape {
    Shape::Atomic(object)
}
