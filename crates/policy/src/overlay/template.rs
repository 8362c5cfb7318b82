//! Values with expressions in them.

use serde_json::Value;

use crate::interpolation::Interpolation;
use crate::schema::{Field, Format, Object, Shape};

/// A value to build.
#[derive(Debug, Clone)]
pub enum Template {
    /// A value without expressions. `null` leaves it out.
    Constant(Value),
    /// The value of an expression, or a string with expressions in it.
    Computed(Interpolation, Shape),
    /// An object of the schema.
    Object(&'static Object, Vec<(&'static Field, Template)>),
    /// An object with keys of the user's choice.
    Map(Format, Vec<(Interpolation, Template)>),
    List(Vec<Element>),
}

/// An entry of a list. It is left out as soon as one of its direct fields is.
#[derive(Debug, Clone, PartialEq)]
pub struct Element(pub Template);

impl Element {
    /// Returns whether the value of a variable is an empty text that an expression yields, which leaves the variable
    /// out.
    pub fn yields_empty(&self, variable: &Value) -> bool {
        !matches!(self.0, Template::Constant(_)) && variable["value"] == ""
    }
}

impl Template {
    /// The string under a literal field.
    pub fn literal(&self, name: &str) -> Option<&str> {
        let value = match self {
            Self::Constant(value) => &value[name],
            Self::Object(_, fields) => match fields.iter().find(|(field, _)| field.name == name)? {
                (_, Self::Constant(value)) => value,
                _ => return None,
            },
            _ => return None,
        };
        value.as_str()
    }

    /// The string that it is.
    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Constant(value) = self { value.as_str() } else { None }
    }

    /// The value of a field that is written out.
    pub fn field(&self, name: &str) -> Option<Self> {
        match self {
            Self::Constant(value) => value.get(name).cloned().map(Self::Constant),
            Self::Object(_, fields) => {
                fields.iter().find(|(field, _)| field.name == name).map(|(_, value)| value.clone())
            }
            _ => None,
        }
    }

    /// Calls `visit` with every interpolation.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.places(&mut |text, _| visit(text));
    }
}

/// Two templates are equal if they are written in the same way.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Constant(one), Self::Constant(other)) => one == other,
            (Self::Computed(one, _), Self::Computed(other, _)) => one == other,
            (Self::Object(_, one), Self::Object(_, other)) => {
                let names =
                    |fields: &[(&Field, _)]| fields.iter().map(|(field, _)| field.name).collect::<Vec<_>>();
                let values = one.iter().map(|(_, value)| value).eq(other.iter().map(|(_, value)| value));
                values && names(one) == names(other)
            }
            (Self::Map(_, one), Self::Map(_, other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            _ => false,
        }
    }
}
