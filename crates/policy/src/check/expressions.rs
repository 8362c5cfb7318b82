//! Mistakes in what expressions read, and in the literals with which they compare it. Everything else about the types of
//! expressions is found by evaluating them for sample pods.

mod values;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use crate::definition::Definition;
use crate::expression::{Comparison, Expression, Path, Use};
use crate::interpolation::{kind_of, text_of};
use crate::schema::{Format, Shape};
use crate::source::{
    ALWAYS_FALSE, Diagnostic, NOT_A_POD_FIELD, QUANTITY_AS_TEXT, UNKNOWN_ENUM_VALUE, UNKNOWN_NAME,
    UNKNOWN_TABLE_KEY, UNLIKE_TYPES, closest, did_you_mean, suggest,
};

use values::{Missing, Values, comparable};

pub(super) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut selected: HashMap<(String, Path), Result<Values, Missing>> = HashMap::new();
    definition.texts(&mut |text| {
        for expression in text.expressions() {
            for used in &expression.uses {
                let place = (used.root.clone(), used.path.clone());
                let values = selected
                    .entry(place)
                    .or_insert_with(|| Values::named(definition, &used.root).select(&used.path));
                match values {
                    Err(missing) => found.push(unknown(definition, expression, used, missing)),
                    Ok(values) => {
                        let compared = Compared { expression, name: used.shown(), values };
                        found.extend(compared.findings(used));
                    }
                }
            }
        }
    });
    let mut known = HashSet::new();
    found.retain(|finding| known.insert(finding.clone()));
    found
}

/// A field or key that a value never has.
fn unknown(definition: &Definition, expression: &Expression, used: &Use, missing: &Missing) -> Diagnostic {
    match missing {
        Missing::Field(object, name) => {
            let message = format!("no {} has a field `{name}`", object.name);
            let hint = match object.field_with(name) {
                Some(within) => format!("write `{}.{name}`", within.name),
                None => suggest(name, object.fields.iter().map(|field| field.name)),
            };
            Diagnostic::error(NOT_A_POD_FIELD, expression.span_of_name(name), message).hint(hint)
        }
        Missing::Label(name) => {
            let message = format!("`node` has the labels of the nodes by themselves, and none is `{name}`");
            Diagnostic::error(UNKNOWN_NAME, expression.span_of_name(name), message)
                .hint("write `node[?'LABEL'].orValue('')`")
        }
        Missing::Key(keys, name) => {
            let message = format!("`{}` never has the key `{name}`", used.root);
            let hint = match definition.names.get(name) {
                Some(_) => format!("write `{}[{name}]` for the key that is the value of `{name}`", used.root),
                None => suggest(name, keys.iter().map(String::as_str)),
            };
            let span = expression.span_of_name(name);
            let finding = if used.guarded {
                Diagnostic::warning(UNKNOWN_TABLE_KEY, span, message)
            } else {
                Diagnostic::error(UNKNOWN_NAME, span, message)
            };
            finding.hint(hint)
        }
    }
}

/// A value that an expression compares.
struct Compared<'e> {
    expression: &'e Expression,
    name: String,
    values: &'e Values,
}

impl Compared<'_> {
    fn findings(self, used: &Use) -> Vec<Diagnostic> {
        let literals = used.literals.iter();
        match used.comparison {
            Comparison::None => Vec::new(),
            Comparison::Contains if !matches!(self.values, Values::LowerCase) => Vec::new(),
            Comparison::Equal | Comparison::Contains => {
                literals.filter_map(|literal| self.never(literal)).collect()
            }
            Comparison::LowerCase => {
                let name = format!("{}.lowerAscii()", self.name);
                let lower = Self { name, values: &Values::LowerCase, ..self };
                literals.filter_map(|literal| lower.never(literal)).collect()
            }
            Comparison::Optional => {
                let message = format!("`{}` is an optional value, which no literal equals", self.name);
                let finding = |literal| self.warning(UNLIKE_TYPES, literal, message.clone());
                literals.map(|literal| finding(literal).hint("end it with `.orValue(…)`")).collect()
            }
            Comparison::Order => {
                let is_text = match self.values {
                    Values::Shape(Shape::Text(_)) | Values::LowerCase => true,
                    Values::Constants(known) => known.iter().all(Value::is_string),
                    Values::Any | Values::Shape(Shape::Quantity) => !used.literals.is_empty(),
                    _ => false,
                };
                let is_text = is_text && used.literals.iter().all(Value::is_string);
                let span = self.expression.span(0, self.expression.source().len());
                let message = "strings are compared letter by letter: `9Gi` is more than `64Gi`";
                let hint = "compare with `==` or `in`, or compare numbers: `quantity(…)`";
                let finding = Diagnostic::warning(QUANTITY_AS_TEXT, span, message).hint(hint);
                is_text.then_some(finding).into_iter().collect()
            }
            Comparison::KeyInLowerCase => {
                let keys = self.values.keys();
                let capitals = keys.into_iter().find(|key| !is_lower_case(key));
                let finding = |key: String| {
                    let message =
                        format!("`{}` has the key `{key}`, but keys are read in lower case", self.name);
                    let span = self.expression.span_of_name(&used.root);
                    Diagnostic::warning(UNKNOWN_TABLE_KEY, span, message)
                        .hint(format!("write `{}` in the table", key.to_lowercase()))
                };
                capitals.map(finding).into_iter().collect()
            }
        }
    }

    /// The warning about a literal that the value never equals.
    fn never(&self, literal: &Value) -> Option<Diagnostic> {
        let may_be_empty = match self.values {
            Values::Shape(shape) => kinds(shape).contains(&"string"),
            _ => true,
        };
        if literal == "" && may_be_empty {
            return None;
        }
        match self.values {
            Values::Any | Values::Node => None,
            Values::LowerCase => match literal.as_str() {
                Some(text) if is_lower_case(text) => None,
                Some(text) => {
                    let message = format!(
                        "`{}` is in lower case, as the values of node labels are, and `'{text}'` is not",
                        self.name
                    );
                    let hint = format!("write `'{}'`", text.to_lowercase());
                    Some(self.warning(ALWAYS_FALSE, literal, message).hint(hint))
                }
                None => Some(self.unlike("string", literal)),
            },
            Values::Constants(constants) => {
                if constants.contains(&comparable(literal.clone())) {
                    return None;
                }
                let kinds: BTreeSet<&str> =
                    constants.iter().filter(|one| !one.is_null()).map(kind_of).collect();
                if !kinds.contains(kind_of(literal)) {
                    return kinds.first().map(|kind| self.unlike(kind, literal));
                }
                let texts: Vec<String> = constants.iter().filter(|one| !one.is_null()).map(text_of).collect();
                Some(self.not_among(texts.iter().map(String::as_str), literal))
            }
            Values::Shape(shape) => {
                let kinds = kinds(shape);
                if kinds.is_empty() || kinds.contains(&kind_of(literal)) {
                    return self.not_of_form(shape, literal);
                }
                Some(self.unlike(kinds[0], literal))
            }
        }
    }

    /// The warning about a literal of another kind.
    fn unlike(&self, values: &str, literal: &Value) -> Diagnostic {
        let name = &self.name;
        let (kind, written) = (kind_of(literal), written(literal));
        let message = format!("`{name}` is a {values}, which never equals the {kind} `{written}`");
        let warning = self.warning(UNLIKE_TYPES, literal, message);
        match (values, literal.as_str()) {
            ("boolean", Some("true")) => warning.hint(format!("write `{name}` alone")),
            ("boolean", Some("false")) => warning.hint(format!("write `!{name}`")),
            ("number", Some(text)) if text.parse::<f64>().is_ok() => {
                warning.hint(format!("write `{text}` without quotes"))
            }
            ("string", None) => warning.hint(format!("write `'{literal}'`")),
            _ => warning,
        }
    }

    fn not_of_form(&self, shape: &Shape, literal: &Value) -> Option<Diagnostic> {
        let (Shape::Text(format), Some(text)) = (shape, literal.as_str()) else { return None };
        if let Format::OneOf(values) = format {
            return (!values.contains(&text)).then(|| self.not_among(values.iter().copied(), literal));
        }
        let names = [Format::DnsLabel, Format::DnsSubdomain, Format::Hostname, Format::LabelValue];
        let problem = format.check(text).err().filter(|_| names.contains(format))?;
        let message = format!("`{}` is never `{text}`: {problem}", self.name);
        let lower = text.to_lowercase();
        let hint = match text.strip_suffix('*') {
            _ if format.check(&lower).is_ok() => format!("write `'{lower}'`"),
            Some(start) => {
                format!("write `{}.startsWith('{start}')`: `==` takes no pattern", self.name)
            }
            None => "compare with a value that it can have".to_owned(),
        };
        Some(self.warning(ALWAYS_FALSE, literal, message).hint(hint))
    }

    fn not_among<'v>(&self, values: impl Iterator<Item = &'v str>, literal: &Value) -> Diagnostic {
        let values: BTreeSet<&str> = values.filter(|text| !text.is_empty()).collect();
        let listed: Vec<String> = values.iter().take(12).map(|text| format!("`{text}`")).collect();
        let text = &*text_of(literal);
        let message = format!("`{}` is never `{text}`: it is one of {}", self.name, listed.join(", "));
        let warning = self.warning(UNKNOWN_ENUM_VALUE, literal, message);
        match closest(text, values.iter().copied()) {
            _ if values.iter().any(|text| text.contains(".orValue(") || text.contains("[?")) => warning
                .hint(format!("write `${{…}}` around the expression where `{}` is declared", self.name)),
            Some(known) => warning.hint(did_you_mean(known)),
            None => warning,
        }
    }

    fn warning(&self, code: &'static str, literal: &Value, message: String) -> Diagnostic {
        Diagnostic::warning(code, self.expression.span_of(&written(literal)), message)
    }
}

/// The kinds of values of a shape; none if it can have any.
fn kinds(shape: &Shape) -> &'static [&'static str] {
    match shape {
        Shape::Text(_) => &["string"],
        Shape::Integer(..) => &["number"],
        Shape::Boolean => &["boolean"],
        Shape::Quantity | Shape::PortNumberOrName => &["number", "string"],
        Shape::List { .. } => &["list"],
        Shape::Object(_) | Shape::Atomic(_) | Shape::Map { .. } => &["map"],
        Shape::Opaque => &[],
    }
}

fn is_lower_case(text: &str) -> bool {
    text.to_lowercase() == text
}

/// A literal as an expression most often has it.
fn written(literal: &Value) -> String {
    literal.as_str().map_or_else(|| literal.to_string(), |text| format!("'{text}'"))
}
