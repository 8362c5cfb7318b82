//! Parameters, which an operator can set, with rows for machines; and variables, which are computed.
//!
//! A value comes from an `Override` of the operator, from the `Layer` of an extension, from nodes, from a row of
//! `machines` or from the default. `resolution` chooses the source. The values of all parameters together are in
//! `policy`.

mod layer;
pub(crate) mod machines;
mod overrides;
mod parameter_type;
mod resolution;
mod table;
mod variable;

pub(crate) use layer::Layer;
pub use overrides::{Override, Overrides};
pub use parameter_type::ParameterType;
pub use resolution::{NoteKind, Origin, Resolution};
pub(crate) use table::range_text;
pub use table::{Gpus, LabelTable, Table};
pub use variable::{OLD_KEYS, Variable};

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Number, Value};

use fabric_yaml::quantity::Quantity;
use fabric_yaml::scalar::{self, Scalar};
use fabric_yaml::{Content, Entry, Node, Span, counted};

use crate::from_nodes::FromNodes;
use crate::interpolation::text_of;
use crate::keys;
use crate::source::reader::{self, Fields};
use crate::source::{AMBIGUOUS_SCALAR, Checked, DUPLICATE_NAME, Diagnostic, Problems, Reported};
use parameter_type::{article, compare, type_of_values};

/// A parameter as its policy declares it.
#[derive(Debug, Clone, Default)]
pub struct Parameter {
    /// Its name, the key in a values file.
    pub name: String,
    pub kind: ParameterType,
    /// One sentence for people.
    pub description: String,
    /// The value if there is no other source; `null` for none.
    pub default: Value,
    /// The lowest value, or the minimum length of a list.
    pub minimum: Option<Value>,
    pub maximum: Option<Value>,
    pub one_of: Option<Vec<String>>,
    /// The place of one of these bounds.
    pub(crate) bound: Span,
    /// The values of extensions, the outermost first.
    pub(crate) layers: Vec<Layer>,
    /// The values for machines in the policy that no extension changes.
    pub(crate) table: Table,
    /// The fact about nodes, or about the networks of their resources, that gives the value.
    pub from_nodes: Option<FromNodes>,
}

impl Parameter {
    pub(crate) fn read(Entry { key: name, value: node, span, .. }: &Entry<Node>) -> Checked<Self> {
        let mut fields = Fields::read(node, &keys::PARAMETER)?.named_at(*span);
        let written =
            fields.optional("type", |node| reader::one_of(node, "type", keys::TYPES, ParameterType::WRITTEN));
        let description =
            fields.required("description", |node| reader::text(node, "a description").map(str::to_owned));
        let is_misspelt = fields.misspells("type") || fields.misspells("default");
        let kind = written.and_then(|written| match written {
            None if is_misspelt => Err(Reported),
            written => fields.take(written.map_or_else(|| type_of_values(name, node, *span), Ok)),
        });
        let Ok(kind) = kind else {
            // The values depend on the type.
            for key in keys::PARAMETER.names() {
                fields.node(key);
            }
            fields.finish()?;
            return Err(Problems::default());
        };
        let mut parameter = Self { name: name.to_owned(), kind, ..Self::default() };
        parameter.description.clone_from(description.as_ref().unwrap_or(&String::new()));
        fields.retain(|key| kind.goes_with(key));
        for bound in kind.bounds() {
            let _ = fields.optional(bound, |node| parameter.read_bound(bound, node));
        }
        let is_typed = node.get("type").is_some();
        let default = fields.optional("default", |node| {
            if !is_typed {
                shortest(node)?;
            }
            parameter.read_value(node)
        });
        let mut source = |key| fields.optional(key, |node| from_nodes(kind, key, node));
        let (of_resources, of_networks) = (source("fromNodes"), source("fromNetworks"));
        fields.finish()?;
        parameter.default = default?.unwrap_or_default();
        let (of_resources, of_networks) = (of_resources?, of_networks?);
        if of_resources.is_some() && of_networks.is_some() {
            let message = format!("the parameter `{name}` has both `fromNodes` and `fromNetworks`");
            let hint = "remove one of them: a name is that of a resource or that of its network";
            return Err(Diagnostic::new(*span, message).hint(hint).into());
        }
        parameter.from_nodes = of_resources.or(of_networks);
        description?;
        Ok(parameter)
    }

    /// All of its tables, the one with precedence first.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.layers.iter().map(|layer| &layer.table).chain([&self.table])
    }

    /// The rows of all tables: the label, its values as they are written, and the place of the value for them.
    pub fn rows(&self) -> impl Iterator<Item = (&str, String, Span)> {
        self.tables().flat_map(Table::rows)
    }

    /// Reads a bound. Those that leave no value are errors.
    fn read_bound(&mut self, bound: &str, node: &Node) -> Checked<()> {
        self.bound = node.span;
        let name = &self.name;
        match bound {
            "minimum" => self.minimum = Some(self.read_limit(node)?),
            "maximum" => {
                let most = Self { minimum: None, ..self.clone() }.read_limit(node)?;
                let is_below = |least: &&Value| compare(self.kind, &most, least) == Some(Ordering::Less);
                if let Some(least) = self.minimum.as_ref().filter(is_below) {
                    let least = text_of(least);
                    let message = format!(
                        "`{bound}` of `{name}` is less than `minimum`, which is {least}, so no value is valid"
                    );
                    let hint = "correct one of the two bounds";
                    return Err(Diagnostic::new(node.span, message).hint(hint).into());
                }
                self.maximum = Some(most);
            }
            _ => {
                let values = reader::texts(node, "`enum`")?;
                if values.is_empty() {
                    let message = format!("`enum` of `{name}` is empty, so no value is valid");
                    let hint = "list the values, or leave `enum` out";
                    return Err(Diagnostic::new(node.span, message).hint(hint).into());
                }
                let mut known = HashSet::new();
                if let Some(twice) = values.iter().find(|value| !known.insert(value.as_str())) {
                    let message = format!("`enum` of `{name}` has `{twice}` twice");
                    let hint = "keep one of them, or correct the other";
                    return Err(Diagnostic::error(DUPLICATE_NAME, node.span, message).hint(hint).into());
                }
                self.one_of = Some(values);
            }
        }
        Ok(())
    }

    /// Reads a bound of the values, or of the length of a list.
    fn read_limit(&self, node: &Node) -> Checked<Value> {
        if self.kind != ParameterType::StringList {
            return self.read_value(node);
        }
        reader::unambiguous(node)?;
        let length = node.to_value().as_u64().map(Value::from);
        length.ok_or_else(|| reader::expected(node, "a number of items").into())
    }

    /// Reads and checks a value for this parameter from YAML.
    pub(crate) fn read_value(&self, node: &Node) -> Checked<Value> {
        reader::unambiguous(node)?;
        if self.kind == ParameterType::StringList {
            reader::texts(node, &format!("`{}`", self.name))?;
        }
        self.check(&node.to_value()).map_err(|problem| {
            let quotable = matches!(&node.content, Content::Scalar { value, plain: true, .. } if !matches!(value, Scalar::String(_)))
                && self.kind == ParameterType::String;
            let diagnostic = Diagnostic::new(node.span, problem);
            let is_null = matches!(&node.content, Content::Scalar { value: Scalar::Null, .. });
            let hint = if is_null {
                "leave the key out: a parameter without a value is `null`".to_owned()
            } else if quotable {
                "put it in quotes".to_owned()
            } else if node.text().is_some_and(|text| self.parse(text.text).is_ok()) {
                "write it without quotes".to_owned()
            } else if self.kind == ParameterType::Any {
                "a row has constants; write the expression in `variables`, as the fallback".to_owned()
            } else {
                let ends = [("at least", &self.minimum), ("at most", &self.maximum)];
                let end = |(how, end): (&str, &Option<Value>)| {
                    end.as_ref().map_or_else(String::new, |end| format!(", {how} {}", text_of(end)))
                };
                format!("{}{}: {}", article(self.kind), ends.map(end).concat(), self.description)
            };
            diagnostic.hint(hint).into()
        })
    }

    /// Reads and checks a value from the text of `--set NAME=TEXT`.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            ParameterType::String | ParameterType::Quantity => Value::String(text.to_owned()),
            ParameterType::StringList => {
                // As YAML writes it, too.
                let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
                text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
            }
            _ if scalar::versions_disagree(text) => Value::String(text.to_owned()),
            _ => match scalar::resolve(text) {
                Scalar::Bool(value) => Value::Bool(value),
                Scalar::Number(number) => Value::Number(number),
                Scalar::Null | Scalar::String(_) => Value::String(text.to_owned()),
            },
        };
        self.check(&value)
    }

    /// Brings a value into the form of the type and checks its bounds; the error is a sentence.
    pub(super) fn check(&self, value: &Value) -> Result<Value, String> {
        let name = &self.name;
        let wrong = || format!("`{name}` must be {}, but is `{}`", article(self.kind), value);
        let checked = match self.kind {
            ParameterType::Integer => value.as_i64().map(Value::from),
            ParameterType::Number => value.as_f64().and_then(Number::from_f64).map(Value::Number),
            ParameterType::String => value.is_string().then(|| value.clone()),
            ParameterType::Boolean => value.is_boolean().then(|| value.clone()),
            ParameterType::Quantity => Quantity::from_value(value).map(|_| match value {
                Value::String(text) => Value::String(text.clone()),
                other => Value::String(other.to_string()),
            }),
            ParameterType::StringList => value.is_array().then(|| value.clone()),
            ParameterType::Any if value.to_string().contains("${") => {
                return Err(format!("a row of `{name}` has an expression, `{}`", text_of(value)));
            }
            ParameterType::Any => Some(value.clone()),
        }
        .ok_or_else(wrong)?;
        self.check_bounds(&checked)?;
        Ok(checked)
    }

    fn check_bounds(&self, value: &Value) -> Result<(), String> {
        let name = &self.name;
        let bounds = [
            (&self.minimum, Ordering::Less, "less than its minimum"),
            (&self.maximum, Ordering::Greater, "more than its maximum"),
        ];
        let beyond = bounds.into_iter().find_map(|(bound, wrong, how)| {
            let bound = bound.as_ref().filter(|bound| compare(self.kind, value, bound) == Some(wrong));
            bound.map(|bound| format!("{how} {}", text_of(bound)))
        });
        if let Some(beyond) = beyond {
            let items = value.as_array().map(|items| format!("has {}", counted(items.len(), "item")));
            let seen = items.unwrap_or_else(|| format!("is {}", text_of(value)));
            return Err(format!("`{name}` {seen}, {beyond}"));
        }
        if let (Some(allowed), Some(text)) = (&self.one_of, value.as_str())
            && !allowed.iter().any(|known| known == text)
        {
            let allowed: Vec<String> = allowed.iter().map(|known| format!("`{known}`")).collect();
            return Err(format!("`{name}` must be one of {}, but is `{text}`", allowed.join(", ")));
        }
        Ok(())
    }

    /// The key of a bound that allows values which that of `base` does not.
    pub(super) fn wider_bound(&self, base: &Self) -> Option<&'static str> {
        let beyond = |own: &Option<Value>, base: &Option<Value>, wrong: Ordering| {
            let (Some(own), Some(base)) = (own, base) else { return false };
            compare(self.kind, own, base) == Some(wrong)
        };
        let is_subset = || match (&self.one_of, &base.one_of) {
            (Some(own), Some(base)) => own.iter().all(|value| base.contains(value)),
            _ => true,
        };
        let wider = [
            ("minimum", beyond(&self.minimum, &base.minimum, Ordering::Less)),
            ("maximum", beyond(&self.maximum, &base.maximum, Ordering::Greater)),
            ("enum", !is_subset()),
        ];
        wider.into_iter().find(|(_, wider)| *wider).map(|(bound, _)| bound)
    }

    pub fn has_rows(&self) -> bool {
        !self.tables().all(Table::is_empty)
    }
}

/// Reads `fromNodes` or `fromNetworks` of a parameter of this type.
fn from_nodes(kind: ParameterType, key: &str, node: &Node) -> Checked<FromNodes> {
    let Some(fact) = kind.fact(key) else {
        let message = format!("`{key}` gives no value of the type `{}`", kind.name());
        let hint = "`fromNodes` gives a number of devices, the name of a resource, or a list of names; \
                    `fromNetworks`, the name of a network, or a list of names";
        return Err(Diagnostic::new(node.span, message).hint(hint).into());
    };
    FromNodes::read(fact, key, node)
}

/// Fails for a number such as `1.10`, which is 1.1: without a `type`, it may be a version.
fn shortest(node: &Node) -> Result<(), Diagnostic> {
    let Content::Scalar { value: Scalar::Number(number), plain: true, .. } = &node.content else {
        return Ok(());
    };
    let shortest = number.to_string();
    if !number.is_f64() || node.span.length <= shortest.len() || shortest.contains('e') {
        return Ok(());
    }
    let message = format!("YAML reads this as the number {shortest}");
    let hint = format!("put a text such as a version in quotes, or write `{shortest}`");
    Err(Diagnostic::error(AMBIGUOUS_SCALAR, node.span, message).hint(hint))
}
