//! The evaluation of edits of texts, and of the names and objects that they add.

use serde_json::Value;

use crate::interpolation::{Evaluated, EvaluationError, text_of};
use crate::schema::Shape;
use crate::source::WRONG_TYPE;
use fabric_yaml::Span;

use super::super::{Content, Devices, Edit, EditKind, Tree, check};
use super::{EvaluatedTree, Evaluation, joined};

impl Evaluation<'_, '_, '_> {
    /// Evaluates an edit. That of a variable is `None` without an entry to add; a list that is `null` is empty.
    pub(super) fn edit(&mut self, span: Span, edit: &Edit) -> EvaluatedTree {
        if self.checks {
            self.problems.take(match &edit.kind {
                EditKind::Prepend | EditKind::Append => check::of_variable(&edit.added),
                EditKind::Objects(_) | EditKind::Networks(_) => check::added(&edit.added, edit.identity()),
            });
            return Ok(Some(Tree { span, content: Content::Edit(Box::new(edit.clone())) }));
        }
        let added = match &edit.kind {
            EditKind::Prepend | EditKind::Append => self.entry(&edit.added)?,
            EditKind::Objects(_) | EditKind::Networks(_) => Some(self.added(&edit.added, edit.identity())?),
        };
        let kind = match &edit.kind {
            EditKind::Networks(Some(Devices { resources, requests })) => {
                let (resources, requests) = (self.raw(resources)?, self.raw(requests)?);
                EditKind::Networks(Some(Devices { resources, requests }))
            }
            other => other.clone(),
        };
        let edit = |added| Tree { span, content: Content::Edit(Box::new(Edit { added, kind })) };
        Ok(added.map(edit))
    }

    /// Evaluates the entry that is added to the list of a variable.
    fn entry(&self, added: &Tree) -> EvaluatedTree {
        let Content::Text(text) = &added.content else { return Ok(Some(added.clone())) };
        let Some(bindings) = self.known(text) else { return Ok(Some(added.clone())) };
        let value = text.evaluate(bindings)?;
        let is_some = !value.is_null() && value != "";
        Ok(is_some.then(|| Tree::value(added.span, text_of(&value).into())))
    }

    /// Evaluates networks, or a list of objects, and checks the value as if it were written out. One that is `null` adds
    /// nothing.
    fn added(&mut self, list: &Tree, key: Option<&str>) -> Evaluated<Tree> {
        let evaluated = match &list.content {
            Content::Value(_) => return Ok(list.clone()),
            Content::List(items) if key.is_some() => {
                let mut evaluated = Vec::with_capacity(items.len());
                for item in items {
                    evaluated.extend(self.element(item, &Shape::Opaque)?);
                }
                joined(Tree { span: list.span, content: Content::List(evaluated) })
            }
            _ => self.raw(list)?,
        };
        let value = match evaluated.content {
            Content::Value(Value::Null) => Value::Array(Vec::new()),
            Content::Value(Value::Array(mut items)) if key.is_some() => {
                items.retain(|item| !item.is_null());
                Value::Array(items)
            }
            Content::Value(other) => other,
            _ => return Ok(evaluated),
        };
        let written = Tree::of_value(value.clone()).unwrap_or_default();
        let problem = check::added(&written, key).err().and_then(|problems| problems.into_iter().next());
        let Some(problem) = problem else { return Ok(Tree::value(list.span, value)) };
        let mut error = EvaluationError::about(|visit| list.texts(visit), problem.message);
        error.fault.hint = match problem.code {
            WRONG_TYPE if key.is_some() => Some("write a list of maps, as in `${[{'key': …}]}`".to_owned()),
            WRONG_TYPE => Some("write a name, or a list of names".to_owned()),
            _ => problem.hint,
        };
        Err(error)
    }

    /// Evaluates a text, or a list of texts, to whatever value it has.
    fn raw(&self, tree: &Tree) -> Evaluated<Tree> {
        let content = match &tree.content {
            Content::Text(text) => match self.known(text) {
                Some(bindings) => Content::Value(text.evaluate(bindings)?),
                None => return Ok(tree.clone()),
            },
            Content::List(items) => {
                Content::List(items.iter().map(|item| self.raw(item)).collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        };
        Ok(joined(Tree { span: tree.span, content }))
    }
}
