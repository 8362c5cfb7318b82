//! Compiling an overlay: a piece of a pod in YAML, checked against the shape of a Pod.

use std::sync::Arc;

use serde_json::Value;

use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Entry, Node};

use super::diagnostic::{Diagnostic, suggest};
use super::reader;
use super::schema::{ListMerge, PodSchema, Shape, ShapeId};
use super::scope::{Names, Scope};
use super::template::{Edit, FieldType, Key, Template};
use super::text::Text;

/// What an overlay is compiled with.
pub(crate) struct Compiler<'a> {
    pub(crate) names: &'a Names,
    pub(crate) scope: Scope,
}

impl Compiler<'_> {
    pub(crate) fn compile(&self, node: &Node, shape: ShapeId) -> Result<Template, Diagnostic> {
        let schema = PodSchema::get();
        match (schema.shape(shape), &node.content) {
            (_, Content::Scalar { value: Scalar::Null, .. }) => {
                Err(Diagnostic::new(node.span, "an overlay adds, and nothing stands here").hint(
                    "leave the field out, or use an expression that is `null` where it is to be left out",
                ))
            }
            (_, Content::Scalar { value: Scalar::String(text), .. }) => self.string(text, node, shape),
            (Shape::Object(fields), Content::Map(entries)) => {
                let entry = |entry: &Entry<Node>| {
                    let Some(field) = fields.get(&entry.key) else {
                        let message = format!("no Pod has a field `{}` here", entry.key);
                        return Err(Diagnostic::new(entry.span, message)
                            .hint(suggest(&entry.key, fields.keys().map(String::as_str))));
                    };
                    Ok((Key::Literal(entry.key.clone()), self.compile(&entry.value, *field)?))
                };
                Ok(Template::Map(entries.iter().map(entry).collect::<Result<_, _>>()?))
            }
            (Shape::Map(values), Content::Map(entries)) => {
                let entry = |entry: &Entry<Node>| {
                    reader::string_key(entry)?;
                    let key = match Text::compile(&entry.key, entry.span, self.names, self.scope)? {
                        Text::Literal(text) => Key::Literal(text),
                        text => Key::Text(text),
                    };
                    Ok::<_, Diagnostic>((key, self.compile(&entry.value, *values)?))
                };
                Ok(Template::Map(entries.iter().map(entry).collect::<Result<_, _>>()?))
            }
            (Shape::String, Content::Map(_)) => self.edit(node),
            (Shape::List(item, merge), Content::List(items)) => {
                let items: Vec<Template> =
                    items.iter().map(|node| self.compile(node, *item)).collect::<Result<_, _>>()?;
                Self::check_keys(node, *merge, &items)?;
                Ok(Template::List(*merge, items))
            }
            (shape, Content::Scalar { value, .. }) => {
                reader::unambiguous(node)?;
                let value = match value {
                    Scalar::Bool(value) => Value::Bool(*value),
                    Scalar::Number(number) => Value::Number(number.clone()),
                    Scalar::Null | Scalar::String(_) => Value::Null,
                };
                // Written as what it is, not as what it can be turned into: `value: 3` is an error in a pod.
                let fits = match shape {
                    Shape::Integer => value.is_i64(),
                    Shape::Boolean => value.is_boolean(),
                    Shape::Quantity => value.is_number(),
                    Shape::IntOrString => value.is_i64(),
                    _ => false,
                };
                if fits { Ok(Template::Constant(value)) } else { Err(mismatch(node, shape)) }
            }
            (shape, _) => Err(mismatch(node, shape)),
        }
    }

    fn string(&self, text: &str, node: &Node, shape: ShapeId) -> Result<Template, Diagnostic> {
        let shape = PodSchema::get().shape(shape);
        let field_type = match shape {
            Shape::String => FieldType::String,
            Shape::Integer => FieldType::Integer,
            Shape::Boolean => FieldType::Boolean,
            Shape::Quantity => FieldType::Quantity,
            Shape::IntOrString => FieldType::IntOrString,
            Shape::Object(_) | Shape::Map(_) | Shape::List(..) => FieldType::Structure,
        };
        match Text::compile(text, node.span, self.names, self.scope)? {
            Text::Literal(text) => {
                let value = Value::String(text);
                match field_type.accept(&value) {
                    Ok(Some(value)) if field_type != FieldType::Structure => Ok(Template::Constant(value)),
                    _ => Err(mismatch(node, shape)),
                }
            }
            Text::Mixed(_) if field_type == FieldType::Structure => Err(mismatch(node, shape)),
            text => Ok(Template::Text(text, field_type)),
        }
    }

    /// Entries of a keyed list need their keys, or nothing can be said about which entry is which.
    fn check_keys(node: &Node, merge: ListMerge, items: &[Template]) -> Result<(), Diagnostic> {
        let (ListMerge::Keyed(keys), Content::List(nodes)) = (merge, &node.content) else { return Ok(()) };
        // `protocol` and the like have a default; the first key never has.
        let Some(key) = keys.first() else { return Ok(()) };
        for (item, node) in items.iter().zip(nodes) {
            let has_key = match item {
                Template::Map(entries) => {
                    entries.iter().any(|(name, _)| matches!(name, Key::Literal(name) if name == key))
                }
                _ => false,
            };
            if !has_key {
                return Err(Diagnostic::new(node.span, format!("an entry of this list needs its `{key}`")));
            }
        }
        Ok(())
    }

    fn edit(&self, node: &Node) -> Result<Template, Diagnostic> {
        let Content::Map(entries) = &node.content else { return Err(mismatch(node, &Shape::String)) };
        let mut text: Option<(Text, bool)> = None;
        let mut separator = ":".to_owned();
        let (mut network, mut count) = (None, None);
        for Entry { key, span, value, .. } in entries {
            let compile =
                || Text::compile(reader::text(value, "an entry")?, value.span, self.names, self.scope);
            match key.as_str() {
                "$prepend" | "$append" if text.is_some() => {
                    return Err(Diagnostic::new(*span, "one edit adds one entry, in front or at the end")
                        .hint("write two rules for two entries"));
                }
                "$prepend" => text = Some((compile()?, true)),
                "$append" => text = Some((compile()?, false)),
                "$separator" => reader::text(value, "a separator")?.clone_into(&mut separator),
                "$networks" => network = Some(compile()?),
                "$count" => count = Some(compile()?),
                _ => {
                    let known = ["$prepend", "$append", "$separator", "$networks", "$count"];
                    return Err(Diagnostic::new(
                        *span,
                        format!("a string is wanted here, and `{key}` is no edit of one"),
                    )
                    .hint(suggest(key, known)));
                }
            }
        }
        match (text, network, count) {
            (Some((text, prepend)), None, None) => {
                Ok(Template::Edit(Arc::new(Edit::Entry { text, separator, prepend })))
            }
            (None, Some(network), Some(count)) => {
                Ok(Template::Edit(Arc::new(Edit::Networks { network, count })))
            }
            _ => Err(Diagnostic::new(
                node.span,
                "an edit is either `$prepend`, `$append`, or `$networks` with `$count`",
            )),
        }
    }
}

fn mismatch(node: &Node, shape: &Shape) -> Diagnostic {
    let (wanted, hint) = match shape {
        Shape::Object(_) | Shape::Map(_) => ("a map", None),
        Shape::List(..) => ("a list", None),
        Shape::String => ("a string", Some("put it in quotes")),
        Shape::Integer => ("a whole number", None),
        Shape::Boolean => ("`true` or `false`", None),
        Shape::Quantity => ("a quantity such as `64Gi`", None),
        Shape::IntOrString => ("a whole number or a string", None),
    };
    let diagnostic = reader::expected(node, wanted);
    let scalar = matches!(node.content, Content::Scalar { .. });
    match hint {
        Some(hint) if scalar => diagnostic.hint(hint),
        _ => diagnostic,
    }
}
