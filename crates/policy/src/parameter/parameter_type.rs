//! The types of parameters: how they are written, determined by values, and compared.

use std::cmp::Ordering;

use serde_json::Value;

use crate::from_nodes::Fact;
use crate::keys;
use crate::source::{Diagnostic, MISSING_KEY};
use fabric_yaml::quantity::Quantity;
use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Node, Span};

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParameterType {
    /// A whole number.
    Integer,
    /// Any number; CEL's `double`.
    Number,
    String,
    /// `true` or `false`.
    Boolean,
    /// A Kubernetes quantity such as `64Gi`.
    Quantity,
    /// A list of strings.
    StringList,
    /// For a variable with rows for machines, and for resources of nodes: a constant of any type.
    #[default]
    Any,
}

impl ParameterType {
    /// The types that a policy writes, in the order of their names.
    pub const WRITTEN: [Self; 6] =
        [Self::Integer, Self::Number, Self::String, Self::Boolean, Self::Quantity, Self::StringList];

    /// The keys that limit the values.
    pub(super) fn bounds(self) -> &'static [&'static str] {
        match self {
            Self::Integer | Self::Number | Self::Quantity | Self::StringList => &["minimum", "maximum"],
            Self::String => &["enum"],
            Self::Boolean | Self::Any => &[],
        }
    }

    /// The fact about nodes, or about the networks of their resources, that a parameter of this type can use.
    pub fn fact(self, key: &str) -> Option<Fact> {
        Some(match (self, key == "fromNetworks") {
            (Self::Number | Self::Integer, false) => Fact::Ratio,
            (Self::String, false) => Fact::Name,
            (Self::String, true) => Fact::Network,
            (Self::StringList, false) => Fact::Names,
            (Self::StringList, true) => Fact::Networks,
            _ => return None,
        })
    }

    /// Returns whether a parameter of this type can have a key.
    pub fn goes_with(self, key: &str) -> bool {
        !matches!(key, "minimum" | "maximum" | "enum") || self.bounds().contains(&key)
    }

    /// The name as a policy writes it.
    pub fn name(self) -> &'static str {
        keys::TYPES.iter().zip(Self::WRITTEN).find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// The type of a parameter that only its values determine.
pub(super) fn type_of_values(name: &str, node: &Node, span: Span) -> Result<ParameterType, Diagnostic> {
    if node.get("enum").is_some() {
        return Ok(ParameterType::String);
    }
    let default = node.get("default");
    let bound = node.entry("minimum").or(node.entry("maximum"));
    match (default, default.and_then(type_of_default), bound) {
        (Some(default), Some(ParameterType::String), Some(bound)) => {
            let message =
                format!("the default of `{name}` is a string, but `{}` is a bound of numbers", bound.key);
            let hint = "write the number without quotes, or `type: quantity` for an amount such as `64Gi`; a text has no bound";
            Err(Diagnostic::new(default.span, message).hint(hint))
        }
        (Some(default), Some(ParameterType::String), _)
            if default.text().is_some_and(|one| ["true", "false"].contains(&one.text)) =>
        {
            let message = format!("the default of `{name}` is a string that looks like a boolean");
            let hint =
                "write it without quotes, or add `type: string` if conditions compare it with a string";
            Err(Diagnostic::new(default.span, message).hint(hint))
        }
        (_, Some(kind), _) => Ok(kind),
        (_, None, _) => {
            let message = format!("the parameter `{name}` has no `type`, and no default that determines it");
            let hint = "add `type:`, such as `integer`, `string` or `quantity`";
            Err(Diagnostic::error(MISSING_KEY, span, message).hint(hint))
        }
    }
}

fn type_of_default(node: &Node) -> Option<ParameterType> {
    match &node.content {
        Content::Scalar { value: Scalar::String(_), .. } => Some(ParameterType::String),
        Content::Scalar { value: Scalar::Number(_), .. } => Some(ParameterType::Number),
        Content::Scalar { value: Scalar::Bool(_), .. } => Some(ParameterType::Boolean),
        Content::List(_) => Some(ParameterType::StringList),
        Content::Scalar { .. } | Content::Map(_) => None,
    }
}

pub(super) fn compare(kind: ParameterType, left: &Value, right: &Value) -> Option<Ordering> {
    match kind {
        ParameterType::Quantity => Some(Quantity::from_value(left)?.cmp(&Quantity::from_value(right)?)),
        ParameterType::StringList => {
            let length =
                |value: &Value| value.as_array().map_or(value.as_u64(), |items| Some(items.len() as u64));
            Some(length(left)?.cmp(&length(right)?))
        }
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

pub(super) fn article(kind: ParameterType) -> &'static str {
    match kind {
        ParameterType::Integer => "a whole number",
        ParameterType::Number => "a number",
        ParameterType::String => "a string",
        ParameterType::Boolean => "`true` or `false`",
        ParameterType::Quantity => "a quantity such as `64Gi`",
        ParameterType::StringList => "a list of strings",
        ParameterType::Any => "a constant",
    }
}
