//! The types of values in expressions.
//!
//! A type is the set of the values that an expression may have. It may be too large but is never too small. An
//! operation is wrong only if it fails for every value in the set.

mod texts;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::schema::{Format, Object, Shape};

pub(crate) use texts::{Texts, is_lower_case};

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    /// Any value.
    Dyn,
    /// A value of one of these kinds; none for the entries of an empty list.
    OneOf(Vec<Kind>),
}

/// A kind of values, with the known facts about them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Int,
    Double,
    String(Texts),
    List(Box<Type>),
    /// A map with any keys.
    Map(Box<Type>),
    /// A map with these keys.
    Record(Vec<Member>),
    /// A part of a pod.
    Object(&'static Object),
    Optional(Box<Type>),
}

/// An entry of a [`Kind::Record`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) value: Type,
}

impl Type {
    /// The type of an expression without a value.
    pub(crate) const NEVER: Self = Self::OneOf(Vec::new());

    pub(crate) fn from_kind(kind: Kind) -> Self {
        Self::OneOf(vec![kind])
    }

    pub(crate) fn null() -> Self {
        Self::from_kind(Kind::Null)
    }

    pub(crate) fn bool() -> Self {
        Self::from_kind(Kind::Bool)
    }

    pub(crate) fn int() -> Self {
        Self::from_kind(Kind::Int)
    }

    pub(crate) fn double() -> Self {
        Self::from_kind(Kind::Double)
    }

    pub(crate) fn string() -> Self {
        Self::from_kind(Kind::String(Texts::Any))
    }

    /// A string of a form, where something is known of its values.
    pub(crate) fn formatted(format: Format) -> Self {
        Self::from_kind(Kind::String(match format {
            Format::OneOf(values) => Texts::These(values.iter().map(|value| (*value).to_owned()).collect()),
            Format::DnsLabel | Format::DnsSubdomain | Format::Hostname | Format::LabelValue => {
                Texts::Of(format)
            }
            _ => Texts::Any,
        }))
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::from_kind(Kind::String(Texts::These(BTreeSet::from([text.to_owned()]))))
    }

    pub(crate) fn list(items: Self) -> Self {
        Self::from_kind(Kind::List(Box::new(items)))
    }

    pub(crate) fn map(values: Self) -> Self {
        Self::from_kind(Kind::Map(Box::new(values)))
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self::from_kind(Kind::Optional(Box::new(value)))
    }

    pub(crate) fn object(object: &'static Object) -> Self {
        Self::from_kind(Kind::Object(object))
    }

    /// The type of a field of a pod, where it is present.
    pub(crate) fn of_shape(shape: &Shape) -> Self {
        match shape {
            Shape::Object(object) | Shape::Atomic(object) => Self::object(object),
            Shape::Map { values, .. } => Self::map(Self::of_shape(values)),
            Shape::List { items, .. } => Self::list(Self::of_shape(items)),
            Shape::Text(format) => Self::formatted(*format),
            Shape::Integer(..) => Self::int(),
            Shape::Boolean => Self::bool(),
            Shape::Quantity => Self::int().or(Self::double()).or(Self::string()),
            Shape::PortNumberOrName => Self::int().or(Self::string()),
            Shape::Opaque => Self::Dyn,
        }
    }

    /// The type of one value.
    pub(crate) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::null(),
            Value::Bool(_) => Self::bool(),
            Value::Number(number) => match number.as_i64() {
                Some(_) => Self::int(),
                None => Self::double(),
            },
            Value::String(text) => Self::text(text),
            Value::Array(items) => Self::list(items.iter().map(Self::of_value).fold(Self::NEVER, Self::or)),
            Value::Object(entries) => Self::from_kind(Kind::Record(
                entries
                    .iter()
                    .map(|(key, value)| Member { key: key.clone(), value: Self::of_value(value) })
                    .collect(),
            )),
        }
    }

    /// The values of either type.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        let (Self::OneOf(mut kinds), Self::OneOf(others)) = (self, other) else { return Self::Dyn };
        for other in others {
            match kinds.iter().position(|kind| kind.rank() == other.rank()) {
                None => kinds.push(other),
                Some(at) => {
                    let Some(joined) = kinds[at].clone().or(other) else { return Self::Dyn };
                    kinds[at] = joined;
                }
            }
        }
        kinds.sort_by_key(Kind::rank);
        Self::OneOf(kinds)
    }

    pub(crate) fn kinds(&self) -> Option<&[Kind]> {
        match self {
            Self::Dyn => None,
            Self::OneOf(kinds) => Some(kinds),
        }
    }

    /// Returns whether a value of the type may be of a kind.
    pub(crate) fn may_be(&self, fits: impl Fn(&Kind) -> bool) -> bool {
        self.kinds().is_none_or(|kinds| kinds.is_empty() || kinds.iter().any(fits))
    }
}

impl Kind {
    /// The same number for kinds whose values cannot be told apart by the kind.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool => 1,
            Self::Int => 2,
            Self::Double => 3,
            Self::String(_) => 4,
            Self::List(_) => 5,
            // One value may be both.
            Self::Map(_) | Self::Record(_) | Self::Object(_) => 6,
            Self::Optional(_) => 7,
        }
    }

    /// The values of either kind, of one rank; `None` if nothing is known of them.
    fn or(self, other: Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::String(one), Self::String(other)) => Self::String(one.or(other)),
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.or(*other))),
            (Self::Optional(one), Self::Optional(other)) => Self::Optional(Box::new(one.or(*other))),
            (Self::Map(one), Self::Map(other)) => Self::Map(Box::new(one.or(*other))),
            (Self::Record(one), Self::Record(other)) => Self::Record(members(one, other)),
            (Self::Map(values), Self::Record(record)) | (Self::Record(record), Self::Map(values)) => {
                let all = record.into_iter().map(|member| member.value).fold(*values, Type::or);
                Self::Map(Box::new(all))
            }
            (Self::Object(one), Self::Object(other)) if std::ptr::eq(one, other) => Self::Object(one),
            (same @ (Self::Null | Self::Bool | Self::Int | Self::Double), _) => same,
            _ => return None,
        })
    }
}

fn members(mut one: Vec<Member>, other: Vec<Member>) -> Vec<Member> {
    for member in other {
        match one.iter_mut().find(|known| known.key == member.key) {
            Some(known) => known.value = std::mem::replace(&mut known.value, Type::NEVER).or(member.value),
            None => one.push(member),
        }
    }
    one
}

/// The type with an article, as a message names it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = match self {
            Self::Dyn => return f.write_str("any value"),
            Self::OneOf(kinds) if kinds.is_empty() => return f.write_str("no value"),
            Self::OneOf(kinds) => kinds,
        };
        for (at, kind) in kinds.iter().enumerate() {
            let separator = match at {
                0 => "",
                _ if at + 1 == kinds.len() => " or ",
                _ => ", ",
            };
            write!(f, "{separator}{kind}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("`null`"),
            Self::Bool => f.write_str("a boolean"),
            Self::Int => f.write_str("an integer"),
            Self::Double => f.write_str("a number"),
            Self::String(_) => f.write_str("a string"),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) | Self::Record(_) => f.write_str("a map"),
            Self::Object(object) => write!(f, "{} {}", article(object.name), object.name),
            Self::Optional(_) => f.write_str("an optional value"),
        }
    }
}

/// `a` or `an`, by the first letter.
fn article(name: &str) -> &'static str {
    if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_union_of_types_keeps_what_is_known_of_both() {
        let of = |value| Type::of_value(&value);
        assert_eq!(of(json!(3)).or(of(json!(8))), Type::int());
        assert_eq!(of(json!("a")).or(of(json!(null))).to_string(), "`null` or a string");
        assert_eq!(of(json!([])).or(of(json!([1, 2]))), Type::list(Type::int()));
        assert_eq!(of(json!("a")).or(Type::Dyn), Type::Dyn);
        let record = of(json!({"a": 1, "b": "x"})).or(of(json!({"a": 2})));
        let Some([Kind::Record(members)]) = record.kinds() else { panic!("{record:?}") };
        let keys: Vec<_> = members.iter().map(|member| member.key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
        let mixed = record.or(Type::map(Type::bool()));
        assert_eq!(mixed, Type::map(Type::bool().or(Type::int()).or(Type::text("x"))));
    }
}
