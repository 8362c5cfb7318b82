//! Entries of a list of objects that the text of an annotation holds, such as `networking.gke.io/interfaces`.

use serde_json::{Map, Value};

use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation};
use crate::schema::{Format, Shape};
use crate::source::{Checked, Diagnostic, MISSING_KEY, Problems, all};

use super::keys::KEY;
use crate::overlay::places::Wanted;
use crate::overlay::source::{Source, SourceContent};
use crate::overlay::template::{Element, Template};
use crate::overlay::values::{AS_LIST, AS_MAP, expected, missing, solidified, text};

/// Entries, and the field that identifies them.
#[derive(Debug, Clone)]
pub struct EntriesEdit {
    pub key: String,
    entries: Entries,
}

#[derive(Debug, Clone)]
enum Entries {
    Written(Vec<Template>),
    /// One expression that yields the list.
    Computed(Interpolation),
}

impl EntriesEdit {
    /// Reads the list that `$append` has, and `$key` of the edit.
    pub(crate) fn read(edit: &Source, list: &Source) -> Checked<Self> {
        let Some(node) = edit.get(KEY) else {
            let message = "`$append` needs `$key`, the field that identifies the entries of the list";
            return Err(Diagnostic::new(list.span, message)
                .code(MISSING_KEY)
                .hint("write for example `$key: name`, or the whole text of the annotation")
                .into());
        };
        let key = match text(node)? {
            Interpolation::Literal(key) if !key.is_empty() => key,
            _ => {
                return Err(Diagnostic::new(node.span, "`$key` is a string without expressions")
                    .hint("name the field that identifies the entries")
                    .into());
            }
        };
        let entries = match &list.content {
            SourceContent::Text(text @ Interpolation::Expression(_)) => Entries::Computed(text.clone()),
            SourceContent::List(items) => Entries::Written(all(items.iter().map(|item| entry(item, &key)))?),
            SourceContent::Unreadable => return Err(Problems::default()),
            _ => return Err(expected(list, "a list").hint(AS_LIST).into()),
        };
        let edit = Self { key, entries };
        edit.check_constants(list)?;
        Ok(edit)
    }

    /// Fails for two entries without expressions that have the same key.
    fn check_constants(&self, list: &Source) -> Result<(), Diagnostic> {
        let Entries::Written(entries) = &self.entries else { return Ok(()) };
        let constants = entries.iter().filter_map(|entry| match entry {
            Template::Constant(Value::Object(entry)) => Some(entry.clone()),
            _ => None,
        });
        unique(constants.collect(), &self.key)
            .map(|_| ())
            .map_err(|message| Diagnostic::new(list.span, message).hint("write each entry once"))
    }

    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.places(&mut |text, _| visit(text));
    }

    /// Calls `visit` with every interpolation, and the value that is needed in its place.
    pub(crate) fn places(&self, visit: &mut dyn FnMut(&Interpolation, Wanted)) {
        match &self.entries {
            Entries::Written(entries) => entries.iter().for_each(|entry| entry.places(visit)),
            Entries::Computed(text) => visit(text, Wanted::Entries),
        }
    }

    /// The edit with the entries that these values give.
    pub(crate) fn constant(&self, bindings: &Bindings<'_, '_>) -> Result<Self, EvaluationError> {
        let entries = self.evaluate(bindings)?;
        let constants = entries.into_iter().map(|entry| Template::Constant(Value::Object(entry)));
        Ok(Self { key: self.key.clone(), entries: Entries::Written(constants.collect()) })
    }

    /// The entries; each has the key, and no two have the same one.
    pub fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Result<Vec<Map<String, Value>>, EvaluationError> {
        let values = match &self.entries {
            Entries::Computed(text) => match text.evaluate(bindings)? {
                Value::Null => Vec::new(),
                Value::Array(items) => items.into_iter().filter(|item| !item.is_null()).collect(),
                other => return Err(self.failed(format!("the result is `{other}`, but a list is needed"))),
            },
            Entries::Written(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for entry in entries {
                    values.extend(build(entry, bindings)?);
                }
                values
            }
        };
        let mut entries = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Value::Object(entry) => entries.push(entry),
                other => return Err(self.failed(format!("`{other}` is in the list where a map is needed"))),
            }
        }
        unique(entries, &self.key).map_err(|message| self.failed(message))
    }

    fn failed(&self, message: String) -> EvaluationError {
        EvaluationError::about(|visit| self.texts(visit), message)
    }
}

/// An entry that is written out: a map with the key in it.
fn entry(source: &Source, key: &str) -> Checked<Template> {
    source.readable()?;
    if !matches!(source.content, SourceContent::Map(_)) {
        let is_expression =
            matches!(&source.content, SourceContent::Text(text) if text.expressions().next().is_some());
        let hint =
            if is_expression { "let one expression be the whole value: `$append: ${…}`" } else { AS_MAP };
        return Err(expected(source, "a map").hint(hint).into());
    }
    if source.get(key).is_none() {
        return Err(missing(source, key).hint("`$key` names the field that identifies the entries").into());
    }
    json(source)
}

/// A value of any kind.
fn json(source: &Source) -> Checked<Template> {
    Ok(solidified(match &source.content {
        SourceContent::Scalar(value) => Template::Constant(value.clone()),
        SourceContent::Text(Interpolation::Literal(text)) => Template::Constant(Value::from(text.clone())),
        SourceContent::Text(text) => Template::Computed(text.clone(), Shape::Opaque),
        SourceContent::Unreadable => return Err(Problems::default()),
        SourceContent::List(items) => Template::List(all(items.iter().map(|item| json(item).map(Element)))?),
        SourceContent::Map(entries) => Template::Map(
            Format::Any,
            all(entries.iter().map(|entry| json(&entry.value).map(|value| (entry.key.clone(), value))))?,
        ),
    }))
}

/// Builds an entry; `None` if one of its fields is `null`, as in every list of an overlay.
fn build(entry: &Template, bindings: &Bindings<'_, '_>) -> Result<Option<Value>, EvaluationError> {
    let Template::Map(_, fields) = entry else { return entry.build(bindings) };
    let Some(built) = entry.build(bindings)? else { return Ok(None) };
    let complete = built.as_object().is_some_and(|built| built.len() == fields.len());
    Ok(complete.then_some(built))
}

/// The entries, if each has its own value under the key.
fn unique(entries: Vec<Map<String, Value>>, key: &str) -> Result<Vec<Map<String, Value>>, String> {
    for (at, entry) in entries.iter().enumerate() {
        let value = match entry.get(key) {
            Some(Value::Null | Value::Object(_) | Value::Array(_)) | None => {
                return Err(format!("an entry of the list has no `{key}`: {}", Value::Object(entry.clone())));
            }
            Some(value) => value,
        };
        if entries[..at].iter().any(|other| other.get(key) == Some(value)) {
            return Err(format!("two entries of the list have the `{key}` {value}"));
        }
    }
    Ok(entries)
}
