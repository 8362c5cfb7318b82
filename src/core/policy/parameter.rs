//! Parameters: values that an operator can set, with tables by labels of nodes; and variables, which nobody sets.
//!
//! A value comes from an `Override` of the operator, from nodes, from a `Table` or is the default: `resolution` says which.
//! The values of all parameters together are in `compiled`.

mod from_nodes;
mod overrides;
mod resolution;
mod table;
mod variable;

pub(crate) use from_nodes::FromNodes;
pub use overrides::{Override, OverrideTable};
pub(crate) use resolution::{NoteKind, Origin, Resolution, of_one, resolve};
pub(crate) use table::{LabelTable, Table};
pub(crate) use variable::{Variable, VariableValue};

use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::core::counted;
use crate::core::quantity::Quantity;
use crate::core::yaml::scalar::{self, Scalar};
use crate::core::yaml::{Content, Node, Text};

use crate::core::policy::interpolation::{Interpolation, Names, Phase, text_of};
use crate::core::policy::source::reader::{self, Fields};
use crate::core::policy::source::{Checked, Diagnostic, Problems, suggest};
use table::DEFAULT;

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// A string with expressions in it, which can read the pod.
    Template,
    /// Of a variable with `byNode` or `fromNodes`: a constant of any type.
    Any,
}

const TYPES: &[(&str, ParameterType)] = &[
    ("integer", ParameterType::Integer),
    ("number", ParameterType::Number),
    ("string", ParameterType::String),
    ("boolean", ParameterType::Boolean),
    ("quantity", ParameterType::Quantity),
    ("stringList", ParameterType::StringList),
    ("template", ParameterType::Template),
];

impl ParameterType {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TYPES.iter().map(|(_, kind)| *kind)
    }

    /// The keys that limit the values.
    pub(crate) fn bounds(self) -> &'static [&'static str] {
        match self {
            Self::Integer | Self::Number | Self::Quantity => &["minimum", "maximum"],
            Self::String => &["enum"],
            Self::StringList => &["minItems", "maxItems"],
            Self::Boolean | Self::Template | Self::Any => &[],
        }
    }

    /// The name as a policy writes it.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A parameter as its policy declares it.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name, the key in a values file.
    pub name: String,
    pub kind: ParameterType,
    /// One sentence for people.
    pub description: String,
    /// The value where nothing else gives one; `null` for none.
    pub default: Value,
    pub(crate) minimum: Option<Value>,
    pub(crate) maximum: Option<Value>,
    pub(crate) one_of: Option<Vec<String>>,
    pub(crate) min_items: Option<usize>,
    pub(crate) max_items: Option<usize>,
    /// Values by what the pod selects of its nodes.
    pub(crate) table: Table,
    /// The fact about nodes that gives the value.
    pub(crate) from_nodes: Option<FromNodes>,
}

impl Parameter {
    pub(crate) fn read(name: &str, node: &Node) -> Checked<Self> {
        let mut fields = Fields::of(node, "a parameter")?;
        let kind = fields.required("type", read_type);
        let description =
            fields.required("description", |node| reader::text(node, "a description").map(str::to_owned));
        let Ok(kind) = kind else {
            // The values depend on the type.
            let bounds = ParameterType::all().flat_map(|kind| kind.bounds().iter().copied());
            for key in ["default", "byNode", "fromNodes"].into_iter().chain(bounds) {
                fields.node(key);
            }
            fields.finish()?;
            return Err(Problems::default());
        };
        let mut parameter = Self::of(name, kind);
        parameter.description.clone_from(description.as_ref().unwrap_or(&String::new()));
        for bound in kind.bounds() {
            let _ = fields.optional(bound, |node| parameter.read_bound(bound, node));
        }
        parameter.read_values(fields)?;
        description?;
        Ok(parameter)
    }

    /// Reads a variable with `byNode` or `fromNodes`: a parameter that no operator sets.
    pub(super) fn of_variable(name: &str, node: &Node) -> Checked<Self> {
        let mut parameter = Self::of(name, ParameterType::Any);
        parameter.read_values(Fields::of(node, "a variable by node")?)?;
        Ok(parameter)
    }

    fn of(name: &str, kind: ParameterType) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            description: String::new(),
            default: Value::Null,
            minimum: None,
            maximum: None,
            one_of: None,
            min_items: None,
            max_items: None,
            table: Table::default(),
            from_nodes: None,
        }
    }

    /// Reads the default and the tables, which are the last fields.
    fn read_values(&mut self, mut fields: Fields<'_>) -> Checked<()> {
        let default = fields.optional("default", |node| self.read_value(node));
        let table = fields.optional("byNode", |node| read_table(self, node));
        let from_nodes = fields.optional("fromNodes", |node| self.read_from_nodes(node));
        fields.finish()?;
        self.default = default?.unwrap_or_default();
        self.table = table?.unwrap_or_default();
        self.from_nodes = from_nodes?;
        Ok(())
    }

    fn read_from_nodes(&self, node: &Node) -> Checked<FromNodes> {
        let from_nodes = FromNodes::read(node)?;
        let facts: Vec<&str> = FromNodes::facts_of(self.kind).collect();
        if !facts.contains(&from_nodes.key()) {
            let kind = self.kind.name();
            let message = format!("`{}` of nodes is no {kind} for `{}`", from_nodes.key(), self.name);
            let hint = match facts.as_slice() {
                [] => "leave `fromNodes` out, or choose another type".to_owned(),
                facts => format!("the type `{kind}` can have `{}`", facts.join("` or `")),
            };
            return Err(Diagnostic::new(node.span, message).hint(hint).into());
        }
        Ok(from_nodes)
    }

    /// Reads a bound. Those that leave no value are errors.
    fn read_bound(&mut self, bound: &str, node: &Node) -> Checked<()> {
        let name = &self.name;
        let below = |least: String| {
            let message = format!("`{bound}` of `{name}` is less than {least}, so that it can have no value");
            Err(Diagnostic::new(node.span, message).hint("correct one of the two bounds").into())
        };
        match bound {
            "minimum" => self.minimum = Some(self.read_value(node)?),
            "maximum" => {
                let most = Self { minimum: None, ..self.clone() }.read_value(node)?;
                let is_below = |least: &&Value| compare(self.kind, &most, least) == Some(Ordering::Less);
                if let Some(least) = self.minimum.as_ref().filter(is_below) {
                    return below(format!("`minimum`, which is {}", text_of(least)));
                }
                self.maximum = Some(most);
            }
            "enum" => {
                let values = reader::texts(node, "`enum`")?;
                if values.is_empty() {
                    let message = format!("`enum` of `{name}` is empty, so that it can have no value");
                    let hint = "list the values, or leave `enum` out";
                    return Err(Diagnostic::new(node.span, message).hint(hint).into());
                }
                self.one_of = Some(values);
            }
            "minItems" => self.min_items = Some(read_length(node)?),
            _ => {
                let most = read_length(node)?;
                if let Some(least) = self.min_items.filter(|least| most < *least) {
                    return below(format!("`minItems`, which is {least}"));
                }
                self.max_items = Some(most);
            }
        }
        Ok(())
    }

    /// Reads and checks a value for this parameter from YAML.
    pub(crate) fn read_value(&self, node: &Node) -> Checked<Value> {
        reader::unambiguous(node)?;
        if self.kind == ParameterType::StringList {
            reader::texts(node, &format!("`{}`", self.name))?;
        }
        self.check(&node.to_value()).map_err(|problem| {
            let quotable = matches!(&node.content, Content::Scalar { value, plain: true, .. } if !matches!(value, Scalar::String(_)))
                && matches!(self.kind, ParameterType::String | ParameterType::Template);
            let diagnostic = Diagnostic::new(node.span, problem);
            let is_null = matches!(&node.content, Content::Scalar { value: Scalar::Null, .. });
            let hint = if is_null {
                "leave the key out: a parameter without a value is `null`".to_owned()
            } else if quotable {
                "put it in quotes".to_owned()
            } else if node.text().is_some_and(|text| self.parse(text.text).is_ok()) {
                "write it without quotes".to_owned()
            } else if self.kind == ParameterType::Any {
                "write the expression in a variable that reads this one".to_owned()
            } else {
                format!("{}: {}", article(self.kind), self.description)
            };
            diagnostic.hint(hint).into()
        })
    }

    /// Reads and checks a value from the text of `--set NAME=TEXT`.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            ParameterType::String | ParameterType::Quantity | ParameterType::Template => {
                Value::String(text.to_owned())
            }
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
        let wrong = || format!("`{name}` has to be {}, and `{}` is not", article(self.kind), value);
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
            ParameterType::Template => {
                let text = value.as_str().ok_or_else(wrong)?;
                template(text).map_err(|problem| format!("`{name}` is `{text}`: {}", problem.message))?;
                Some(value.clone())
            }
            ParameterType::Any if value.to_string().contains("${") => {
                return Err(format!(
                    "`{name}` has constants by node, and `{}` has an expression",
                    text_of(value)
                ));
            }
            ParameterType::Any => Some(value.clone()),
        }
        .ok_or_else(wrong)?;
        self.check_bounds(&checked)?;
        Ok(checked)
    }

    fn check_bounds(&self, value: &Value) -> Result<(), String> {
        let name = &self.name;
        let beyond = |bound: &Option<Value>, wrong: Ordering| {
            bound.as_ref().filter(|bound| compare(self.kind, value, bound) == Some(wrong)).cloned()
        };
        if let Some(minimum) = beyond(&self.minimum, Ordering::Less) {
            return Err(format!(
                "`{name}` is {}, less than its minimum {}",
                text_of(value),
                text_of(&minimum)
            ));
        }
        if let Some(maximum) = beyond(&self.maximum, Ordering::Greater) {
            return Err(format!(
                "`{name}` is {}, more than its maximum {}",
                text_of(value),
                text_of(&maximum)
            ));
        }
        if let (Some(allowed), Some(text)) = (&self.one_of, value.as_str())
            && !allowed.iter().any(|known| known == text)
        {
            let allowed: Vec<String> = allowed.iter().map(|known| format!("`{known}`")).collect();
            return Err(format!("`{name}` has to be one of {}, and `{text}` is not", allowed.join(", ")));
        }
        if let Some(items) = value.as_array()
            && (self.min_items.is_some_and(|least| items.len() < least)
                || self.max_items.is_some_and(|most| items.len() > most))
        {
            let (least, most) = (self.min_items.unwrap_or(0), self.max_items);
            let wanted =
                most.map_or_else(|| format!("at least {least}"), |most| format!("{least} to {most}"));
            return Err(format!("`{name}` has {} and has to have {wanted}", counted(items.len(), "item")));
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
            ("minItems", self.min_items < base.min_items),
            ("maxItems", base.max_items.is_some() && self.max_items > base.max_items),
        ];
        wider.into_iter().find(|(_, wider)| *wider).map(|(bound, _)| bound)
    }

    pub(crate) fn has_table(&self) -> bool {
        self.table.labels().next().is_some()
    }
}

fn read_type(node: &Node) -> Result<ParameterType, Diagnostic> {
    let name = reader::text(node, "the type of a parameter")?;
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind).ok_or_else(|| {
        Diagnostic::new(node.span, format!("there is no parameter type `{name}`"))
            .hint(suggest(name, TYPES.iter().map(|(name, _)| *name)))
    })
}

fn read_table(parameter: &Parameter, node: &Node) -> Checked<Table> {
    let entries = reader::entries(node, "`byNode`")?;
    let empty = |node: &Node| matches!(&node.content, Content::Map(entries) if entries.is_empty());
    if let Some(empty) =
        [node].into_iter().chain(entries.iter().map(|entry| &entry.value)).find(|node| empty(node))
    {
        return Err(Diagnostic::new(empty.span, format!("a table of `{}` is empty", parameter.name))
            .hint("write its entries, or leave it out")
            .into());
    }
    if let Some(default) = entries.iter().find(|entry| entry.key == DEFAULT) {
        return Err(Diagnostic::new(default.span, "`default` is not a label of nodes")
            .hint("write `default:` next to `byNode:`")
            .into());
    }
    Table::read(&|node| parameter.read_value(node), entries)
}

fn read_length(node: &Node) -> Result<usize, Diagnostic> {
    node.to_value()
        .as_u64()
        .and_then(|length| usize::try_from(length).ok())
        .ok_or_else(|| reader::expected(node, "a number of items"))
}

fn compare(kind: ParameterType, left: &Value, right: &Value) -> Option<Ordering> {
    match kind {
        ParameterType::Quantity => Some(Quantity::from_value(left)?.cmp(&Quantity::from_value(right)?)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// Compiles the value of a template. It can read the pod, and neither parameters nor variables.
pub(super) fn template(text: &str) -> Result<Interpolation, Diagnostic> {
    Interpolation::compile(&Text::nowhere(text), &Names::built_in(), Some(Phase::Pod))
}

fn article(kind: ParameterType) -> &'static str {
    match kind {
        ParameterType::Integer => "a whole number",
        ParameterType::Number => "a number",
        ParameterType::String => "a string",
        ParameterType::Boolean => "`true` or `false`",
        ParameterType::Quantity => "a quantity such as `64Gi`",
        ParameterType::StringList => "a list of strings",
        ParameterType::Template => "a string, in which `${…}` can read the pod",
        ParameterType::Any => "a constant",
    }
}
