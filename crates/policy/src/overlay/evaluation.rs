//! The walk over a tree and the tables of a Pod: what takes the place of its expressions, what `null` leaves out, and what
//! does not fit.
//!
//! Reading a policy walks a rule without values, loading with the values of the parameters, and a review walks what is
//! left with the pod's. Each replaces a text whole, or not at all, and none reads a value again for expressions. What a
//! walk sees for the first time, as it is read or as an expression yields it, is checked.

mod amounts;
mod edits;
mod left_out;

use serde_json::Value;

use crate::expression::Bindings;
use crate::interpolation::{Evaluated, EvaluationError, Interpolation, Names, Phase};
use crate::schema::{self, Field, Format, Object, Shape};
use crate::source::{Checked, Diagnostic, Problems, WRONG_TYPE};
use fabric_yaml::Span;

use super::check::{self, expected};
use super::scalars::{accept, is_structure, remedy};
use super::{Content, Entry, Key, Tree, count_of, is_zero};
use amounts::{amount_failed, check_names, key};
pub use left_out::LeftOut;

/// A tree with values in place of expressions; `None` if it is left out.
type EvaluatedTree = Evaluated<Option<Tree>>;

/// The names whose values are known, what was left out, and the problems of what was not checked before.
#[derive(Default)]
pub struct Evaluation<'a, 'p, 'v> {
    /// Without them, no name is known.
    bindings: Option<&'a Bindings<'p, 'v>>,
    /// The names of a policy of which only the parameters are known; without it, all names are known.
    parameters_of: Option<&'a Names>,
    /// True for a tree as it is read, and for the value of an expression.
    checks: bool,
    problems: Problems,
    left_out: Option<Vec<LeftOut>>,
    path: Vec<String>,
}

/// Checks an object of a rule as its author wrote it. An expression may have any value that fits.
pub(crate) fn check(tree: &Tree, object: &'static Object) -> Checked<()> {
    Evaluation::default().checked(|this| this.object(tree, object))
}

#[cfg(test)]
pub(crate) fn check_value(tree: &Tree, shape: &Shape) -> Checked<()> {
    Evaluation::default().checked(|this| this.value(tree, shape))
}

impl<'a, 'p, 'v> Evaluation<'a, 'p, 'v> {
    /// An evaluation in which all names are known. If it records, it keeps what is left out.
    pub fn new(bindings: &'a Bindings<'p, 'v>, records: bool) -> Self {
        Self { bindings: Some(bindings), left_out: records.then(Vec::new), ..Self::default() }
    }

    /// An evaluation in which the parameters of a policy are known.
    pub(crate) fn with_parameters(bindings: &'a Bindings<'p, 'v>, names: &'a Names, records: bool) -> Self {
        Self { parameters_of: Some(names), ..Self::new(bindings, records) }
    }

    /// The problems of something that was not checked before. Without values, no expression fails.
    fn checked(mut self, walk: impl FnOnce(&mut Self) -> EvaluatedTree) -> Checked<()> {
        self.checks = true;
        let _ = walk(&mut self);
        self.problems.result(())
    }

    /// The values that were left out, each with the reason.
    pub fn left_out(self) -> Vec<LeftOut> {
        self.left_out.unwrap_or_default()
    }

    /// The values of the names of a text, if they are known.
    fn known(&self, text: &Interpolation) -> Option<&'a Bindings<'p, 'v>> {
        self.bindings.filter(|_| self.parameters_of.is_none_or(|names| text.phase(names) == Phase::Fixed))
    }

    /// Adds a problem about a tree, unless that is known already.
    fn refuse(&mut self, tree: &Tree, problem: Diagnostic) {
        if !matches!(tree.content, Content::Value(Value::Null)) {
            self.problems.add(problem);
        }
    }

    /// Adds the problem of something that is checked now.
    fn check<E: Into<Problems>>(&mut self, check: impl FnOnce() -> Result<(), E>) {
        if self.checks {
            self.problems.take(check());
        }
    }

    /// The same, unless problems were added to those that were `found`.
    fn check_if_none<E: Into<Problems>>(&mut self, found: usize, check: impl FnOnce() -> Result<(), E>) {
        if self.problems.len() == found {
            self.check(check);
        }
    }

    /// Evaluates an object that is merged field by field.
    pub fn object(&mut self, tree: &Tree, object: &'static Object) -> EvaluatedTree {
        if self.checks && !tree.is_map() {
            self.refuse(tree, check::no_fields(tree, object));
            return Ok(Some(tree.clone()));
        }
        let found = self.problems.len();
        let mut fields = Vec::with_capacity(tree.entries().len());
        for entry in tree.entries() {
            let Some(field) = self.field_of(entry, object) else { continue };
            // Limits and requests are most often the same.
            let is_limits =
                field.name == "requests" && !self.checks && tree.get("limits") == Some(&entry.value);
            let limits = fields.iter().find(|known: &&Entry| is_limits && known.name() == Some("limits"));
            let value = match limits {
                Some(limits) => Some(limits.value.clone()),
                None => self.within(field.name, |this| this.field(&entry.value, field, object))?,
            };
            fields.extend(value.map(|value| entry.with(value)));
        }
        if fields.is_empty() && !tree.is_empty() {
            return Ok(None);
        }
        let evaluated = Tree::map(tree.span, fields);
        if *object == *schema::resources() && self.problems.len() == found {
            self.check_amounts(tree, &evaluated)?;
        }
        Ok(Some(evaluated))
    }

    /// The field that an entry names, if the object has it.
    fn field_of(&mut self, entry: &Entry, object: &'static Object) -> Option<&'static Field> {
        if self.checks {
            return self.problems.take(check::known_field(entry, object));
        }
        object.field(entry.name()?)
    }

    /// Evaluates the value of one field of an object.
    pub fn value_of(&mut self, tree: &Tree, object: &'static Object, field: &str) -> EvaluatedTree {
        object.field(field).map_or(Ok(None), |field| self.value(tree, &field.shape))
    }

    /// Evaluates a value that is not merged further.
    pub fn value(&mut self, tree: &Tree, shape: &Shape) -> EvaluatedTree {
        match (&tree.content, shape) {
            (Content::Text(text), _) => match self.known(text) {
                Some(bindings) => return self.text(tree.span, text, bindings, shape),
                None if self.checks && is_structure(shape) && !tree.is_expression() => {
                    self.refuse(tree, check::mismatch(tree, shape));
                }
                None => {}
            },
            (Content::Edit(edit), _) => return self.edit(tree.span, edit),
            (Content::Map(_), Shape::Object(object) | Shape::Atomic(object)) => {
                return self.whole(tree, object, false);
            }
            (Content::Map(_), Shape::Map { keys, values }) => return self.map(tree, *keys, values),
            (Content::List(_), Shape::List { items, keys }) => {
                return self.list(tree, items, keys.unwrap_or_default(), false);
            }
            _ if self.checks => {
                check::leaf(tree, shape).unwrap_or_else(|problem| self.refuse(tree, problem));
            }
            (Content::Map(_), _) => return self.map(tree, Format::Any, shape),
            (Content::List(_), _) => return self.list(tree, &Shape::Opaque, &[], false),
            (Content::Value(_), _) => {}
        }
        Ok(Some(tree.clone()))
    }

    fn text(
        &mut self,
        span: Span,
        text: &Interpolation,
        bindings: &Bindings<'_, '_>,
        shape: &Shape,
    ) -> EvaluatedTree {
        let value = text.evaluate(bindings)?;
        if !is_structure(shape) {
            let accepted = accept(&value, shape).map_err(|message| match remedy(&value, shape) {
                Some(hint) => text.of_wrong_type(message, hint),
                None => text.failed(message),
            })?;
            return Ok(accepted.map(|value| Tree::value(span, value)));
        }
        let Some(written) = Tree::of_value(value) else { return Ok(None) };
        let value = self.value_of_text(text, |this| this.value(&written, shape))?;
        Ok(value.and_then(Tree::into_value).map(|value| Tree::value(span, value)))
    }

    /// Evaluates the value of a text, which nothing has checked yet.
    fn value_of_text(
        &mut self,
        text: &Interpolation,
        walk: impl FnOnce(&mut Self) -> EvaluatedTree,
    ) -> EvaluatedTree {
        self.checks = true;
        let value = walk(self);
        self.checks = false;
        std::mem::take(&mut self.problems).result(()).map_err(|problems| text.invalid(problems))?;
        value
    }

    fn field(&mut self, tree: &Tree, field: &'static Field, object: &'static Object) -> EvaluatedTree {
        let Content::Text(text) = &tree.content else { return self.written(tree, field, object) };
        if !is_structure(&field.shape) {
            return self.written(tree, field, object);
        }
        let Some(bindings) = self.known(text) else {
            // The parts of a spec are merged at different times.
            let is_spec = *object == *schema::pod() && field.name == "spec";
            if self.checks && (is_spec || !tree.is_expression()) {
                return self.written(tree, field, object);
            }
            self.check(|| check::listed(tree, field, object));
            return Ok(Some(tree.clone()));
        };
        let Some(written) = Tree::of_value(text.evaluate(bindings)?) else {
            self.leave_out(|| format!("`{}` is null", text.source()));
            return Ok(None);
        };
        self.value_of_text(text, |this| this.written(&written, field, object))
    }

    /// Evaluates a field that is written out.
    fn written(&mut self, tree: &Tree, field: &Field, object: &'static Object) -> EvaluatedTree {
        match &field.shape {
            Shape::Object(within) => self.object(tree, within),
            Shape::Map { keys, values } => {
                let is_amounts = *object == *schema::resources();
                let mut entries = Vec::with_capacity(tree.entries().len());
                if self.has_type(tree.is_map(), tree, "a map") {
                    for entry in tree.entries() {
                        self.entry_of_map(entry, *keys, values, is_amounts, &mut entries)?;
                    }
                }
                if is_amounts {
                    check_names(&entries)?;
                }
                Ok(Some(Tree::map(tree.span, entries)))
            }
            Shape::List { items, keys: Some(keys) } => {
                let found = self.problems.len();
                let list = self.list(tree, items, keys, true)?;
                if field.name == "volumeMounts" {
                    self.check_if_none(found, || check::mounts(tree.items()));
                    let values = list.as_ref().filter(|_| !self.checks).map_or(&[][..], Tree::items);
                    check::mounts(values).map_err(|problem| {
                        let of_value = EvaluationError::about(|visit| tree.texts(visit), &problem.message);
                        problem.hint.iter().fold(of_value, |error, hint| error.with_hint(hint))
                    })?;
                }
                Ok(list)
            }
            shape => {
                let value = self.value(tree, shape)?;
                if value.is_none() {
                    self.leave_out_null(tree);
                }
                Ok(value)
            }
        }
    }

    /// Returns whether a tree has the type that is needed, or adds the problem.
    fn has_type(&mut self, has: bool, tree: &Tree, what: &str) -> bool {
        if self.checks && !has {
            self.refuse(tree, expected(tree, what));
        }
        has
    }

    /// Evaluates a list: entry by entry if it is merged, else as one value. A list that its author wrote as empty is
    /// intended; one value that became empty is not.
    fn list(&mut self, tree: &Tree, items: &Shape, keys: &[&str], is_merged: bool) -> EvaluatedTree {
        let found = self.problems.len();
        let is_list = matches!(tree.content, Content::List(_));
        if !self.has_type(is_list, tree, "a list") {
            return Ok(Some(tree.clone()));
        }
        let mut evaluated = Vec::with_capacity(tree.items().len());
        for item in tree.items() {
            let element = match items {
                // A container as it is read. Later, each is evaluated by itself.
                Shape::Object(container) if is_merged => self.object(item, container)?,
                _ => self.element(item, items)?,
            };
            if element.is_none() && is_merged {
                self.leave_out_entry(item, keys);
            }
            evaluated.extend(element);
        }
        self.check_if_none(found, || check::keyed(tree.items(), keys));
        let is_emptied = evaluated.is_empty() && !tree.items().is_empty();
        let list = Tree { span: tree.span, content: Content::List(evaluated) };
        Ok(if is_merged { Some(list) } else { (!is_emptied).then(|| joined(list)) })
    }

    /// Evaluates an entry of a list. It is left out as soon as one of its direct fields is.
    fn element(&mut self, tree: &Tree, items: &Shape) -> EvaluatedTree {
        match (items, &tree.content) {
            (Shape::Object(object) | Shape::Atomic(object), Content::Map(_)) => {
                self.check(|| check::edit_alone(tree));
                let element = self.whole(tree, object, true)?;
                let is_empty = |variable: &Tree| {
                    **object == *schema::variable() && variable.literal("value") == Some("")
                };
                // A variable without a value is left out, unless its author wrote it so.
                Ok(element.filter(|element| !is_empty(element) || !tree.has_expressions()))
            }
            (Shape::Object(_) | Shape::Atomic(_), Content::Text(_)) => {
                let message = "an expression cannot yield one entry of this list";
                let hint = "write the entry out, or let one expression yield the whole list";
                self.check(|| Err::<(), _>(Diagnostic::error(WRONG_TYPE, tree.span, message).hint(hint)));
                Ok(Some(tree.clone()))
            }
            (Shape::Opaque, Content::Map(_)) => {
                let fields = self.entries(tree, Format::Any, items)?;
                let is_whole = fields.len() == tree.entries().len();
                Ok(is_whole.then(|| joined(Tree::map(tree.span, fields))))
            }
            _ => self.value(tree, items),
        }
    }

    /// Evaluates an object that is one value. If a field that the API server requires is left out, the object is too.
    /// With `all`, that is so for each of its fields.
    fn whole(&mut self, tree: &Tree, object: &'static Object, all: bool) -> EvaluatedTree {
        let found = self.problems.len();
        // A field that seems to be missing may be one of those with a problem.
        if self.checks && tree.entries().iter().all(|entry| check::known_field(entry, object).is_ok()) {
            self.problems.take(check::complete(tree, object));
        }
        let mut fields = Vec::with_capacity(tree.entries().len());
        for entry in tree.entries() {
            let Some(field) = self.field_of(entry, object) else { continue };
            match self.value(&entry.value, &field.shape)? {
                Some(value) => fields.push(entry.with(value)),
                // A problem hides no other one.
                None if self.checks => {}
                None if all || field.required || object.exactly_one_of.contains(&field.name) => {
                    return Ok(None);
                }
                None => {}
            }
        }
        if fields.is_empty() && !tree.is_empty() {
            return Ok(None);
        }
        let evaluated = joined(Tree::map(tree.span, fields));
        // Each field is valid by itself; the rule over several fields depends on which of them are left.
        if let (Some(rule), Some(Value::Object(fields))) = (object.rule, evaluated.as_value()) {
            let checked = rule(fields);
            if !self.checks {
                checked.map_err(|message| EvaluationError::about(|visit| tree.texts(visit), message))?;
            } else if self.problems.len() == found {
                self.problems.take(checked.map_err(|message| Diagnostic::new(tree.span, message)));
            }
        }
        Ok(Some(evaluated))
    }

    /// Evaluates a map that is one value, like a list.
    fn map(&mut self, tree: &Tree, keys: Format, values: &Shape) -> EvaluatedTree {
        let entries = self.entries(tree, keys, values)?;
        if entries.is_empty() && !tree.is_empty() {
            return Ok(None);
        }
        Ok(Some(joined(Tree::map(tree.span, entries))))
    }

    /// The entries of a map that is one value, of which those that are left out are not recorded.
    fn entries(&mut self, tree: &Tree, keys: Format, values: &Shape) -> Evaluated<Vec<Entry>> {
        let mut entries = Vec::with_capacity(tree.entries().len());
        let recorded = self.left_out.take();
        for entry in tree.entries() {
            self.entry_of_map(entry, keys, values, false, &mut entries)?;
        }
        self.left_out = recorded;
        Ok(entries)
    }

    fn entry_of_map(
        &mut self,
        entry: &Entry,
        keys: Format,
        values: &Shape,
        is_amounts: bool,
        evaluated: &mut Vec<Entry>,
    ) -> Evaluated<()> {
        let key = match entry.text().and_then(|text| Some((text, self.known(text)?))) {
            Some((text, bindings)) => key(text, keys, is_amounts, bindings)?,
            None => Some(entry.key.clone()),
        };
        let Some(key) = key else { return Ok(()) };
        let name = if let Key::Name(name) = &key { name } else { "…" };
        if self.checks
            && let Some(name) = entry.name()
            && let Err(problem) = keys.check(name)
        {
            self.problems.add(Diagnostic::new(entry.span, format!("`{name}`: {problem}")));
            return Ok(());
        }
        let value = self.within(name, |this| {
            let value = this.value(&entry.value, values)?;
            if value.is_none() {
                this.leave_out_null(&entry.value);
            }
            Ok(value)
        })?;
        let Some(mut value) = value else { return Ok(()) };
        // Devices whose number is computed can be none. An author who writes 0 refuses them.
        if is_amounts && entry.value.as_text().is_some() && value.as_value().is_some_and(is_zero) {
            if self.parameters_of.is_none() {
                self.within(name, |this| this.leave_out(|| "the amount is 0".to_owned()));
                return Ok(());
            }
            // The review reports it.
            value = entry.value.clone();
        }
        if let (Key::Resources(_), Some(amount)) = (&key, value.as_value())
            && count_of(amount).is_none()
        {
            let message = format!("the result is `{amount}`, but a number of devices is needed");
            return Err(amount_failed(entry, message));
        }
        evaluated.push(Entry { key, span: entry.span, value });
        Ok(())
    }
}

/// The tree as one value, if there is no expression in it.
fn joined(tree: Tree) -> Tree {
    let is_value = |tree: &Tree| tree.as_value().is_some();
    let is_complete = match &tree.content {
        Content::Map(entries) => entries.iter().all(|entry| entry.name().is_some() && is_value(&entry.value)),
        Content::List(items) => items.iter().all(is_value),
        Content::Value(_) | Content::Text(_) | Content::Edit(_) => return tree,
    };
    if !is_complete {
        return tree;
    }
    let span = tree.span;
    Tree::value(span, tree.into_value().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(tree: &str) -> Value {
        let names = Names::built_in();
        let node = fabric_yaml::read_unique(tree).unwrap().0.unwrap();
        let tree = super::super::container(&node, &names).unwrap_or_else(|_| panic!("{tree}"));
        let mut bindings = Bindings::default();
        bindings.set("gpus", &json!(2));
        let evaluated = Evaluation::new(&bindings, false).object(&tree, schema::container());
        evaluated.unwrap_or_else(|error| panic!("{error:?}")).and_then(Tree::into_value).unwrap_or_default()
    }

    #[test]
    fn equal_limits_and_requests_are_evaluated_once_wherever_they_are() {
        for fields in [
            "limits: {a/b: '${gpus}'}, claims: [{name: c}], requests: {a/b: '${gpus}'}",
            "requests: {a/b: '${gpus}'}, claims: [{name: c}], limits: {a/b: '${gpus}'}",
        ] {
            let evaluated = container(&format!("resources: {{{fields}}}"));
            let amounts = json!({"a/b": "2"});
            let resources = json!({"limits": amounts, "requests": amounts, "claims": [{"name": "c"}]});
            assert_eq!(evaluated["resources"], resources, "{fields}");
        }
    }

    #[test]
    fn a_list_that_is_written_as_empty_stays() {
        let evaluated = container("command: '${[]}'");
        assert_eq!(evaluated["command"], json!([]));
        let evaluated = container("command: '${[null]}'");
        assert_eq!(evaluated["command"], json!([]));
    }

    #[test]
    fn an_operators_value_is_not_read_for_expressions() {
        let mut bindings = Bindings::default();
        bindings.set("gpus", &json!("${gpus}"));
        let text = Interpolation::compile(
            &fabric_yaml::Text::on_line("${gpus}", Span::default()),
            &Names::built_in(),
            None,
        );
        let tree = Tree::text(Span::default(), text.unwrap());
        let mut evaluation = Evaluation::new(&bindings, false);
        let once = evaluation.value(&tree, &Shape::Opaque).unwrap().unwrap();
        assert_eq!(evaluation.value(&once, &Shape::Opaque).unwrap().unwrap().as_str(), Some("${gpus}"));
    }
}
