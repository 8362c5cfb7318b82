//! The evaluation of a tree: what takes the place of its expressions, and what `null` leaves out.
//!
//! Loading evaluates a rule with the values of the parameters, and a review evaluates what is left with the pod's. Both
//! replace a text whole, or not at all, and neither reads a value again for expressions.

mod edits;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation, Names, Phase, text_of};
use crate::schema::{self, AMOUNT_LISTS, Field, Format, Object, Shape};
use fabric_yaml::Span;

use super::scalars::{accept, is_structure, remedy};
use super::{Content, Entry, Key, Tree, check, count_of, is_zero};

/// A tree with values in place of expressions; `None` if it is left out.
type Evaluated = Result<Option<Tree>, EvaluationError>;

/// A value that is left out because an expression in it has none.
#[derive(Debug)]
pub struct LeftOut {
    /// The keys and names that lead to it.
    pub path: Vec<String>,
    pub because: String,
}

/// The names whose values are known, and what was left out.
pub struct Evaluation<'a, 'p, 'v> {
    bindings: &'a Bindings<'p, 'v>,
    /// The names of a policy of which only the parameters are known; without it, all names are known.
    parameters_of: Option<&'a Names>,
    left_out: Option<Vec<LeftOut>>,
    path: Vec<String>,
}

impl<'a, 'p, 'v> Evaluation<'a, 'p, 'v> {
    /// An evaluation in which all names are known. If it records, it keeps what is left out.
    pub fn new(bindings: &'a Bindings<'p, 'v>, records: bool) -> Self {
        Self { bindings, parameters_of: None, left_out: records.then(Vec::new), path: Vec::new() }
    }

    /// An evaluation in which the parameters of a policy are known.
    pub(crate) fn with_parameters(bindings: &'a Bindings<'p, 'v>, names: &'a Names, records: bool) -> Self {
        Self { parameters_of: Some(names), ..Self::new(bindings, records) }
    }

    /// The values that were left out, each with the reason.
    pub fn left_out(self) -> Vec<LeftOut> {
        self.left_out.unwrap_or_default()
    }

    fn knows(&self, text: &Interpolation) -> bool {
        self.parameters_of.is_none_or(|names| text.phase(names) == Phase::Fixed)
    }

    /// Evaluates an object that is merged field by field.
    pub fn object(&mut self, tree: &Tree, object: &'static Object) -> Evaluated {
        let mut fields = Vec::with_capacity(tree.entries().len());
        for entry in tree.entries() {
            let name = entry.name().unwrap_or_default();
            let Some(field) = object.field(name) else { continue };
            // Limits and requests are most often the same.
            let is_limits = name == "requests" && tree.get("limits") == Some(&entry.value);
            let limits = fields.iter().find(|known: &&Entry| is_limits && known.name() == Some("limits"));
            let value = match limits {
                Some(limits) => Some(limits.value.clone()),
                None => self.within(name, |this| this.field(&entry.value, field, object))?,
            };
            fields.extend(value.map(|value| entry.with(value)));
        }
        if fields.is_empty() && !tree.is_empty() {
            return Ok(None);
        }
        let evaluated = Tree::map(tree.span, fields);
        if *object == *schema::resources() {
            check_amounts(tree, &evaluated)?;
        }
        Ok(Some(evaluated))
    }

    /// Evaluates the value of one field of an object.
    pub fn value_of(&mut self, tree: &Tree, object: &'static Object, field: &str) -> Evaluated {
        object.field(field).map_or(Ok(None), |field| self.value(tree, &field.shape))
    }

    /// Evaluates a value that is not merged further.
    pub fn value(&mut self, tree: &Tree, shape: &Shape) -> Evaluated {
        match (&tree.content, shape) {
            (Content::Value(_), _) => Ok(Some(tree.clone())),
            (Content::Text(text), _) if !self.knows(text) => Ok(Some(tree.clone())),
            (Content::Text(text), shape) => self.text(tree.span, text, shape),
            (Content::Map(_), Shape::Object(object) | Shape::Atomic(object)) => {
                self.whole(tree, object, false)
            }
            (Content::Map(_), Shape::Map { keys, values }) => self.map(tree, *keys, values),
            (Content::Map(_), _) => self.map(tree, Format::Any, shape),
            (Content::Edit(edit), _) => self.edit(tree.span, edit),
            (Content::List(list), Shape::List { items, .. }) => self.items(tree.span, list, items),
            (Content::List(list), _) => self.items(tree.span, list, &Shape::Opaque),
        }
    }

    fn text(&mut self, span: Span, text: &Interpolation, shape: &Shape) -> Evaluated {
        let value = text.evaluate(self.bindings)?;
        if !is_structure(shape) {
            let accepted = accept(&value, shape).map_err(|message| match remedy(&value, shape) {
                Some(hint) => text.of_wrong_type(message, hint),
                None => text.failed(message),
            })?;
            return Ok(accepted.map(|value| Tree::value(span, value)));
        }
        let Some(written) = Tree::of_value(value) else { return Ok(None) };
        check::value(&written, shape).map_err(|problems| text.invalid(problems))?;
        Ok(written.into_value().map(|value| Tree::value(span, value)))
    }

    /// Evaluates a list that is one value. A list that its author wrote as empty is intended; one that became empty is
    /// not.
    fn items(&mut self, span: Span, list: &[Tree], items: &Shape) -> Evaluated {
        let mut evaluated = Vec::with_capacity(list.len());
        for item in list {
            evaluated.extend(self.element(item, items)?);
        }
        if evaluated.is_empty() && !list.is_empty() {
            return Ok(None);
        }
        Ok(Some(joined(Tree { span, content: Content::List(evaluated) })))
    }

    fn field(&mut self, tree: &Tree, field: &'static Field, object: &'static Object) -> Evaluated {
        let Content::Text(text) = &tree.content else { return self.written(tree, field, object) };
        if !is_structure(&field.shape) {
            return self.written(tree, field, object);
        }
        if !self.knows(text) {
            return Ok(Some(tree.clone()));
        }
        let Some(written) = Tree::of_value(text.evaluate(self.bindings)?) else {
            self.leave_out(|| format!("`{}` is null", text.source()));
            return Ok(None);
        };
        check::written_field(&written, field, object).map_err(|problems| text.invalid(problems))?;
        self.written(&written, field, object)
    }

    /// Evaluates a field that is written out.
    fn written(&mut self, tree: &Tree, field: &Field, object: &'static Object) -> Evaluated {
        match &field.shape {
            Shape::Object(within) => self.object(tree, within),
            Shape::Map { keys, values } => {
                let is_amounts = *object == *schema::resources();
                let mut entries = Vec::with_capacity(tree.entries().len());
                for entry in tree.entries() {
                    self.entry_of_map(entry, (*keys, values), is_amounts, &mut entries)?;
                }
                if is_amounts {
                    check_names(&entries)?;
                }
                Ok(Some(Tree::map(tree.span, entries)))
            }
            Shape::List { items, keys: Some(keys) } => self.list(tree, items, keys),
            shape => {
                let value = self.value(tree, shape)?;
                if value.is_none() {
                    self.leave_out_null(tree);
                }
                Ok(value)
            }
        }
    }

    fn list(&mut self, tree: &Tree, items: &Shape, keys: &[&str]) -> Evaluated {
        let mut evaluated = Vec::with_capacity(tree.items().len());
        for item in tree.items() {
            evaluated.extend(self.listed(item, items, keys)?);
        }
        Ok(Some(Tree { span: tree.span, content: Content::List(evaluated) }))
    }

    /// Evaluates an entry of a list that is merged entry by entry.
    fn listed(&mut self, tree: &Tree, items: &Shape, keys: &[&str]) -> Evaluated {
        let element = self.element(tree, items)?;
        if element.is_none() && self.left_out.is_some() {
            let name = keys.first().map(|key| {
                let named = tree.get(key).and_then(|key| self.value(key, &Shape::Opaque).ok()?);
                named.and_then(|name| name.source()).unwrap_or_else(|| "…".to_owned())
            });
            match name {
                Some(name) => self.within(&name, |this| this.leave_out_null(tree)),
                None => self.leave_out_null(tree),
            }
        }
        Ok(element)
    }

    /// Evaluates an entry of a list. It is left out as soon as one of its direct fields is.
    fn element(&mut self, tree: &Tree, items: &Shape) -> Evaluated {
        match (items, &tree.content) {
            (Shape::Object(object) | Shape::Atomic(object), Content::Map(_)) => {
                let element = self.whole(tree, object, true)?;
                let is_empty = |variable: &Tree| {
                    **object == *schema::variable() && variable.literal("value") == Some("")
                };
                // A variable without a value is left out, unless its author wrote it so.
                Ok(element.filter(|element| !is_empty(element) || !tree.has_expressions()))
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
    fn whole(&mut self, tree: &Tree, object: &'static Object, all: bool) -> Evaluated {
        let mut fields = Vec::with_capacity(tree.entries().len());
        for entry in tree.entries() {
            let name = entry.name().unwrap_or_default();
            let Some(field) = object.field(name) else { continue };
            match self.value(&entry.value, &field.shape)? {
                Some(value) => fields.push(entry.with(value)),
                None if all || field.required || object.exactly_one_of.contains(&name) => return Ok(None),
                None => {}
            }
        }
        if fields.is_empty() && !tree.is_empty() {
            return Ok(None);
        }
        let evaluated = joined(Tree::map(tree.span, fields));
        // Each field is valid by itself; the rule over several fields depends on which of them are left.
        if let (Some(rule), Some(Value::Object(fields))) = (object.rule, evaluated.as_value()) {
            rule(fields).map_err(|message| EvaluationError::about(|visit| tree.texts(visit), message))?;
        }
        Ok(Some(evaluated))
    }

    /// Evaluates a map that is one value, like a list.
    fn map(&mut self, tree: &Tree, keys: Format, values: &Shape) -> Evaluated {
        let entries = self.entries(tree, keys, values)?;
        if entries.is_empty() && !tree.is_empty() {
            return Ok(None);
        }
        Ok(Some(joined(Tree::map(tree.span, entries))))
    }

    /// The entries of a map that is one value, of which those that are left out are not recorded.
    fn entries(&mut self, tree: &Tree, keys: Format, values: &Shape) -> Result<Vec<Entry>, EvaluationError> {
        let mut entries = Vec::with_capacity(tree.entries().len());
        let recorded = self.left_out.take();
        for entry in tree.entries() {
            self.entry_of_map(entry, (keys, values), false, &mut entries)?;
        }
        self.left_out = recorded;
        Ok(entries)
    }

    fn entry_of_map(
        &mut self,
        entry: &Entry,
        (keys, values): (Format, &Shape),
        is_amounts: bool,
        evaluated: &mut Vec<Entry>,
    ) -> Result<(), EvaluationError> {
        let key = match &entry.key {
            Key::Text(text) if self.knows(text) => match key(text, keys, is_amounts, self.bindings)? {
                Some(key) => key,
                None => return Ok(()),
            },
            key => key.clone(),
        };
        let name = if let Key::Name(name) = &key { name } else { "…" };
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

    /// Evaluates what a key leads to.
    fn within<T>(&mut self, name: &str, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        if self.left_out.is_none() {
            return evaluate(self);
        }
        self.path.push(name.to_owned());
        let evaluated = evaluate(self);
        self.path.pop();
        evaluated
    }

    fn leave_out(&mut self, because: impl FnOnce() -> String) {
        if let Some(left_out) = &mut self.left_out {
            left_out.push(LeftOut { path: self.path.clone(), because: because() });
        }
    }

    /// Notes that a value is left out because a text in it is `null`.
    fn leave_out_null(&mut self, tree: &Tree) {
        let bindings = self.bindings;
        self.leave_out(|| {
            let mut because = "it has no value".to_owned();
            tree.texts(&mut |text| {
                let what = match text.evaluate(bindings) {
                    Ok(value) if !value.is_null() && value != "" => return,
                    Ok(_) if tree.edit_at("value").is_some() => "has no value",
                    Ok(Value::Null) => "is null",
                    Ok(_) => "is empty",
                    Err(_) => return,
                };
                // An extension leaves out a variable of its base by a literal `null`.
                because = match text.source().as_str() {
                    "${null}" => "`null` leaves it out".to_owned(),
                    source => format!("`{source}` {what}"),
                };
            });
            because
        });
    }
}

/// The key of a map; `None` if it is `null`. That of an amount can yield a list of resources.
fn key(
    text: &Interpolation,
    keys: Format,
    is_amount: bool,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<Key>, EvaluationError> {
    let name = |value: &Value| {
        let accepted = accept(value, &Shape::Text(keys)).map_err(|message| text.failed(message))?;
        Ok(accepted.map(|name| text_of(&name)))
    };
    let value = text.evaluate(bindings)?;
    let Value::Array(names) = &value else {
        return Ok(name(&value)?.map(|name| Key::Name(name.into())));
    };
    if !is_amount {
        return name(&value).map(|_: Option<String>| None);
    }
    let names = names.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    let mut known = BTreeSet::new();
    match names.iter().flatten().find(|name| !known.insert(*name)) {
        Some(twice) => {
            let error = text.failed(format!("the list names `{twice}` twice"));
            Err(error.with_hint("name it once where the list has its value"))
        }
        None => Ok(Some(Key::Resources(names.into()))),
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

/// Fails for a resource that two keys of a map name, of which one is a list.
fn check_names(amounts: &[Entry]) -> Result<(), EvaluationError> {
    let mut known = BTreeSet::new();
    for amount in amounts {
        let mut names = amount.name().into_iter().chain(amount.resources());
        if let Some(twice) = names.find(|name| !known.insert(*name)) {
            let message = format!("`{twice}` has two amounts: another key of the map names it, too");
            return Err(amount_failed(amount, message));
        }
    }
    Ok(())
}

/// Fails for an amount that the API server refuses.
fn check_amounts(tree: &Tree, evaluated: &Tree) -> Result<(), EvaluationError> {
    for list in AMOUNT_LISTS {
        let Some(amounts) = evaluated.get(list) else { continue };
        for amount in amounts.entries() {
            check::check_amount(evaluated, list, amount).map_err(|(message, hint)| {
                let written = tree.get(list).map_or(&[][..], Tree::entries);
                let is_same = |entry: &&Entry| entry.text().is_some() || entry.name() == amount.name();
                let mut error = match written.iter().find(is_same) {
                    Some(entry) => amount_failed(entry, message),
                    None => EvaluationError::about(|visit| tree.texts(visit), message)
                        .with_hint("correct the value"),
                };
                error.fault.hint = hint.map(str::to_owned).or(error.fault.hint);
                error
            })?;
        }
    }
    Ok(())
}

/// An error about an amount, at the expression of its name or else of its value.
fn amount_failed(entry: &Entry, message: String) -> EvaluationError {
    let error = EvaluationError::about(|visit| entry.texts(visit), message);
    error.with_hint("correct the value; `devices(gpus, ratio)` rounds up")
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
