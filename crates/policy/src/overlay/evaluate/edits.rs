//! The evaluation of edits of texts, and of the names and objects that they add.

use serde_json::Value;

use crate::interpolation::{EvaluationError, text_of};
use crate::schema::Shape;
use fabric_yaml::Span;

use super::super::{Content, Entry, Tree, edit};
use super::{Evaluated, Evaluation, joined, wrong_value};

impl Evaluation<'_, '_, '_> {
    /// Evaluates an edit of the list that a variable holds; `None` without an entry to add.
    pub(super) fn edit_of_variable(&mut self, span: Span, edit: &[Entry]) -> Evaluated {
        let mut evaluated = Vec::with_capacity(edit.len());
        for entry in edit {
            let value = match &entry.value.content {
                Content::Text(text) if self.knows(text) => text.evaluate(self.bindings)?,
                _ => {
                    evaluated.push(entry.clone());
                    continue;
                }
            };
            if value.is_null() || value == "" {
                return Ok(None);
            }
            evaluated.push(entry.with(Tree::value(entry.value.span, text_of(&value).into())));
        }
        Ok(Some(joined(Tree::map(span, evaluated))))
    }

    /// Evaluates an edit of networks, or of a list of objects, in an annotation. A list that is `null` is empty.
    pub(super) fn edit_of_annotation(&mut self, tree: &Tree, edit: &[Entry]) -> Evaluated {
        let key = tree.literal(edit::KEY);
        let mut evaluated = Vec::with_capacity(edit.len());
        for entry in edit {
            let value = match (entry.name(), key) {
                (Some("$append"), Some(key)) => self.objects(&entry.value, key)?,
                (Some("$append"), None) => self.networks(&entry.value)?,
                _ => self.raw(&entry.value)?,
            };
            evaluated.push(entry.with(value));
        }
        Ok(Some(joined(Tree::map(tree.span, evaluated))))
    }

    /// Evaluates the entries of a list of objects. Each has the key, and no two have the same one.
    fn objects(&mut self, list: &Tree, key: &str) -> Result<Tree, EvaluationError> {
        let failed = |message: String| EvaluationError::about(|visit| list.texts(visit), message);
        let evaluated = match &list.content {
            Content::Text(_) => match self.raw(list)?.content {
                Content::Value(Value::Null) => Content::Value(Value::Array(Vec::new())),
                Content::Value(Value::Array(mut items)) => {
                    items.retain(|item| !item.is_null());
                    Content::Value(Value::Array(items))
                }
                Content::Value(other) => {
                    let error = failed(format!("the result is `{other}`, but a list is needed"));
                    return Err(error.with_hint(MAPS));
                }
                other => other,
            },
            Content::List(items) => {
                let mut evaluated = Vec::with_capacity(items.len());
                for item in items {
                    evaluated.extend(self.element(item, &Shape::Opaque)?);
                }
                Content::List(evaluated)
            }
            other => other.clone(),
        };
        let evaluated = joined(Tree { span: list.span, content: evaluated });
        if let Some(Value::Array(items)) = evaluated.as_value() {
            let mut entries = Vec::with_capacity(items.len());
            for item in items {
                let Value::Object(entry) = item else {
                    let error = failed(format!("`{item}` is in the list where a map is needed"));
                    return Err(error.with_hint(MAPS));
                };
                entries.push(entry);
            }
            edit::unique(&entries, key).map_err(failed)?;
        }
        Ok(evaluated)
    }

    /// Evaluates networks: one name, or a list in which `null` is a network that is left out.
    fn networks(&mut self, names: &Tree) -> Result<Tree, EvaluationError> {
        let mut evaluated = self.raw(names)?;
        if evaluated.as_value().is_some_and(Value::is_null) {
            evaluated = Tree::value(names.span, Value::Array(Vec::new()));
        }
        let Some(value) = evaluated.as_value() else { return Ok(evaluated) };
        let check = |name: &Value, text: &Tree, listed: bool| {
            let failed = |message: String| wrong_value(|visit| text.texts(visit), message);
            let Value::String(name) = name else {
                let error = failed(format!("the result is `{name}`, but the name of a network is needed"));
                return Err(error.with_hint("write a name, or a list of names"));
            };
            edit::check_network(name, listed).map_err(|problem| failed(format!("`{name}`: {problem}")))
        };
        let Value::Array(list) = value else { return check(value, names, false).map(|()| evaluated) };
        for (at, name) in list.iter().enumerate().filter(|(_, name)| !name.is_null()) {
            check(name, names.items().get(at).unwrap_or(names), true)?;
        }
        match edit::interface_of_two(list.iter().filter_map(Value::as_str)) {
            Some(message) => Err(wrong_value(|visit| names.texts(visit), message)),
            None => Ok(evaluated),
        }
    }

    /// Evaluates a text, or a list of texts, to whatever value it has.
    fn raw(&self, tree: &Tree) -> Result<Tree, EvaluationError> {
        let content = match &tree.content {
            Content::Text(text) if self.knows(text) => Content::Value(text.evaluate(self.bindings)?),
            Content::List(items) => {
                Content::List(items.iter().map(|item| self.raw(item)).collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        };
        Ok(joined(Tree { span: tree.span, content }))
    }
}

const MAPS: &str = "write a list of maps, as in `${[{'key': …}]}`";
