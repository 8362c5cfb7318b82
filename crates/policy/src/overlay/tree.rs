//! Trees: maps, lists, values, texts with expressions, and edits.

pub(super) mod edit;

pub use edit::{Devices, Edit, EditKind};

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::expression::{Bindings, Expression};
use crate::interpolation::{Evaluated, Interpolation, text_of};
use fabric_yaml::Span;

/// A piece of a Pod, in which expressions take the place of values.
#[derive(Debug, Clone)]
pub struct Tree {
    pub span: Span,
    pub(super) content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// A value without expressions; `null` for one with a problem that is reported.
    Value(Value),
    /// A text with expressions.
    Text(Interpolation),
    Map(Vec<Entry>),
    List(Vec<Tree>),
    Edit(Box<Edit>),
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub struct Entry {
    pub(super) key: Key,
    pub(super) span: Span,
    pub value: Tree,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Key {
    /// A name without expressions.
    Name(Arc<str>),
    Text(Interpolation),
    /// A list of names, of which a container requests as many as the amount says, one device of each. A name that is
    /// `null` has a place in the list, and no device.
    Resources(Arc<[Option<String>]>),
}

impl Tree {
    pub(crate) fn map(span: Span, entries: Vec<Entry>) -> Self {
        Self { span, content: Content::Map(entries) }
    }

    /// A tree that is one value.
    pub fn value(span: Span, value: Value) -> Self {
        Self { span, content: Content::Value(value) }
    }

    pub(super) fn text(span: Span, text: Interpolation) -> Self {
        let content = match text {
            Interpolation::Literal(text) => Content::Value(Value::String(text)),
            text => Content::Text(text),
        };
        Self { span, content }
    }

    /// The entries of a map that is written out.
    pub fn entries(&self) -> &[Entry] {
        if let Content::Map(entries) = &self.content { entries } else { &[] }
    }

    /// The fields of both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self.content, other.content) {
            (Content::Map(one), Content::Map(other)) => Self::map(self.span, [one, other].concat()),
            (content, _) => Self { span: self.span, content },
        }
    }

    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        if let Content::Map(entries) = &mut self.content { entries } else { &mut [] }
    }

    /// The entries of a map without expressions in its keys.
    pub fn into_entries(self) -> impl Iterator<Item = (Arc<str>, Self)> {
        let entries = if let Content::Map(entries) = self.content { entries } else { Vec::new() };
        entries.into_iter().filter_map(|entry| Some((entry.key.into_name()?, entry.value)))
    }

    /// The items of a list that is written out.
    pub fn items(&self) -> &[Self] {
        if let Content::List(items) = &self.content { items } else { &[] }
    }

    /// The items of a list without expressions.
    pub fn into_items(self) -> Vec<Self> {
        if let Content::List(items) = self.content { items } else { Vec::new() }
    }

    /// The value of a tree without expressions.
    pub fn into_value(self) -> Option<Value> {
        match self.content {
            Content::Value(value) => Some(value),
            Content::Text(_) | Content::Edit(_) => None,
            Content::Map(entries) => {
                let named = entries.into_iter();
                let named =
                    named.map(|entry| Some((entry.key.into_name()?.to_string(), entry.value.into_value()?)));
                named.collect::<Option<Map<_, _>>>().map(Value::Object)
            }
            Content::List(items) => {
                items.into_iter().map(Self::into_value).collect::<Option<_>>().map(Value::Array)
            }
        }
    }

    /// The value of a tree that is one value.
    pub fn as_value(&self) -> Option<&Value> {
        if let Content::Value(value) = &self.content { Some(value) } else { None }
    }

    /// The string that it is.
    pub fn as_str(&self) -> Option<&str> {
        self.as_value()?.as_str()
    }

    /// The text with expressions that it is.
    pub fn as_text(&self) -> Option<&Interpolation> {
        if let Content::Text(text) = &self.content { Some(text) } else { None }
    }

    /// The text as its author wrote it, of a scalar.
    pub fn source(&self) -> Option<String> {
        match &self.content {
            Content::Value(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => {
                Some(text_of(value))
            }
            Content::Text(text) => Some(text.source()),
            _ => None,
        }
    }

    /// The string at a path of keys, also within a value that is not merged further.
    pub(crate) fn text_at(&self, path: &[&str]) -> Option<&str> {
        match (&self.content, path) {
            (Content::Value(value), _) => path.iter().try_fold(value, |value, key| value.get(key))?.as_str(),
            (_, [key, rest @ ..]) => self.get(key)?.text_at(rest),
            _ => None,
        }
    }

    /// The edit of the list in a string that it is.
    pub fn as_edit(&self) -> Option<&Edit> {
        if let Content::Edit(edit) = &self.content { Some(edit) } else { None }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.content, Content::Map(_))
    }

    /// Returns whether it is one expression, which can yield any value.
    pub(super) fn is_expression(&self) -> bool {
        matches!(self.content, Content::Text(Interpolation::Expression(_)))
    }

    /// Returns whether it has no field.
    pub fn is_empty(&self) -> bool {
        matches!(&self.content, Content::Map(entries) if entries.is_empty())
    }

    /// The entry with a key that is written out.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.name() == Some(name))
    }

    /// The tree under a key that is written out.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.entry(name).map(|entry| &entry.value)
    }

    /// The tree at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, key| tree.get(key))
    }

    /// The string under a key.
    pub fn literal(&self, name: &str) -> Option<&str> {
        match &self.content {
            Content::Value(value) => value.get(name)?.as_str(),
            _ => self.get(name)?.as_str(),
        }
    }

    /// The edit of the list in a string that is under a key.
    pub fn edit_at(&self, name: &str) -> Option<&Edit> {
        self.get(name)?.as_edit()
    }

    pub(crate) fn has_expressions(&self) -> bool {
        let mut found = false;
        self.texts(&mut |_| found = true);
        found
    }

    /// Calls `visit` with every name that its expressions read.
    pub fn names(&self, visit: &mut dyn FnMut(&str)) {
        self.texts(&mut |text| text.expressions().flat_map(Expression::names).for_each(|name| visit(name)));
    }

    /// The value of a variable. What is `null` stays in it.
    pub fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Evaluated<Value> {
        match &self.content {
            Content::Value(value) => Ok(value.clone()),
            Content::Text(text) => text.evaluate(bindings),
            Content::List(items) => items.iter().map(|item| item.evaluate(bindings)).collect(),
            Content::Map(entries) => {
                let entry = |entry: &Entry| Ok((entry.source(), entry.value.evaluate(bindings)?));
                entries.iter().map(entry).collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            Content::Edit(edit) => edit.added.evaluate(bindings),
        }
    }

    /// Calls `visit` with every text that has expressions.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        match &self.content {
            Content::Value(_) => {}
            Content::Text(text) => visit(text),
            Content::List(items) => items.iter().for_each(|item| item.texts(visit)),
            Content::Map(entries) => entries.iter().for_each(|entry| entry.texts(visit)),
            Content::Edit(edit) => edit.trees().for_each(|tree| tree.texts(visit)),
        }
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::map(Span::default(), Vec::new())
    }
}

/// Two trees are equal if they are written in the same way, wherever that is.
impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.value == other.value
    }
}

impl Entry {
    pub(super) fn new(name: &str, span: Span, value: Tree) -> Self {
        Self { key: Key::Name(name.into()), span, value }
    }

    /// The entry with another value.
    pub(super) fn with(&self, value: Tree) -> Self {
        Self { key: self.key.clone(), span: self.span, value }
    }

    /// The key, if it is one name without expressions.
    pub fn name(&self) -> Option<&str> {
        if let Key::Name(name) = &self.key { Some(name) } else { None }
    }

    /// The names in the list of resources of which a container requests one device each, as many as the amount.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        let names = if let Key::Resources(names) = &self.key { &names[..] } else { &[] };
        names.iter().flatten().map(String::as_str)
    }

    /// The key as its author wrote it.
    pub fn source(&self) -> String {
        match &self.key {
            Key::Name(name) => (**name).to_owned(),
            Key::Text(text) => text.source(),
            Key::Resources(_) => self.resources().collect::<Vec<_>>().join(", "),
        }
    }

    /// The key with expressions.
    pub fn text(&self) -> Option<&Interpolation> {
        if let Key::Text(text) = &self.key { Some(text) } else { None }
    }

    /// Calls `visit` with every text that has expressions.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.text().into_iter().for_each(&mut *visit);
        self.value.texts(visit);
    }
}

impl Key {
    pub(super) fn read(text: Interpolation) -> Self {
        if let Interpolation::Literal(name) = text { Self::Name(name.into()) } else { Self::Text(text) }
    }

    pub(super) fn into_name(self) -> Option<Arc<str>> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}
