//! The pieces of a Pod in a rule: trees, as their author wrote them.
//!
//! | to change | look at |
//! |---|---|
//! | how a tree is read from a policy, or from the value of an expression | `read` |
//! | what takes the place of an expression, what `null` leaves out, which parts are checked | `evaluation` |
//! | which values fit the tables of a Pod, and the messages for the others | `check` |
//! | in which order variables stand | `references` |
//! | which fields a tree writes | [`writes`](mod@writes) |

mod check;
mod edit;
mod evaluation;
mod read;
mod references;
mod scalars;
mod without;
pub mod writes;

pub use edit::{Devices, Edit, EditKind};
#[cfg(test)]
pub(crate) use evaluation::check_value;
pub use evaluation::{Evaluation, LeftOut};
pub(crate) use read::{container, pod};
pub use references::in_order_of_references;
pub(crate) use references::{in_order, references};
pub(crate) use without::without;
pub(crate) use writes::Kind;
pub use writes::{SharedValue, Target, ValuePath, Write, writes};

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::expression::{Bindings, Expression};
use crate::interpolation::{Evaluated, Interpolation, Phase, text_of};
use crate::schema::{self, Object};
use fabric_yaml::Span;
use fabric_yaml::quantity::Quantity;

/// The annotation that Multus reads.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// A piece of a Pod, in which expressions take the place of values.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(crate) span: Span,
    content: Content,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
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
    key: Key,
    span: Span,
    pub value: Tree,
}

#[derive(Debug, Clone, PartialEq)]
enum Key {
    /// A name without expressions.
    Name(Arc<str>),
    Text(Interpolation),
    /// A list of names, of which a container requests as many as the amount says, one device of each. A name that is
    /// `null` has a place in the list, and no device.
    Resources(Arc<[Option<String>]>),
}

/// What a rule adds to one section of a pod.
#[derive(Debug, Clone)]
pub struct Addition {
    pub section: Section,
    /// The fields of a container without its name, or those of the pod that belong to the section.
    pub tree: Tree,
    /// The values that other additions may write, too.
    pub shared: Vec<SharedValue>,
}

/// The sections of a pod. They are merged one after the other, because an expression of one can read another.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// The containers that the rule selects.
    Selected,
    /// A container that the rule names: merged into the pod's container of that name, or added.
    Named(ContainerName),
    /// Claims are there before the containers that use them.
    Claims,
    /// Volumes are added only if a container mounts them.
    Volumes,
    /// Everything else of the pod.
    Pod,
}

/// The name of a container that a rule writes out.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerName {
    /// `containers` or `initContainers`.
    pub list: &'static str,
    pub name: Tree,
}

impl Tree {
    pub(crate) fn map(span: Span, entries: Vec<Entry>) -> Self {
        Self { span, content: Content::Map(entries) }
    }

    /// A tree that is one value.
    pub fn value(span: Span, value: Value) -> Self {
        Self { span, content: Content::Value(value) }
    }

    fn text(span: Span, text: Interpolation) -> Self {
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

    fn entries_mut(&mut self) -> &mut [Entry] {
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

    /// The edit of the list in a string that it is.
    pub fn as_edit(&self) -> Option<&Edit> {
        if let Content::Edit(edit) = &self.content { Some(edit) } else { None }
    }

    fn is_map(&self) -> bool {
        matches!(self.content, Content::Map(_))
    }

    /// Returns whether it is one expression, which can yield any value.
    fn is_expression(&self) -> bool {
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
    fn new(name: &str, span: Span, value: Tree) -> Self {
        Self { key: Key::Name(name.into()), span, value }
    }

    /// The entry with another value.
    fn with(&self, value: Tree) -> Self {
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
    fn read(text: Interpolation) -> Self {
        if let Interpolation::Literal(name) = text { Self::Name(name.into()) } else { Self::Text(text) }
    }

    fn into_name(self) -> Option<Arc<str>> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

/// Returns whether an amount is zero, and is therefore left out.
pub fn is_zero(amount: &Value) -> bool {
    count_of(amount) == Some(0)
}

/// The number of devices of an amount.
pub fn count_of(amount: &Value) -> Option<usize> {
    Quantity::from_value(amount).and_then(Quantity::as_count)?.try_into().ok()
}

impl Section {
    /// The type of the object whose fields its trees have.
    pub fn object(&self) -> &'static Object {
        match self {
            Self::Selected | Self::Named(_) => schema::container(),
            Self::Claims | Self::Volumes | Self::Pod => schema::pod(),
        }
    }

    /// The phase in which the expressions of its trees are evaluated.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Selected => Phase::Container,
            Self::Named(_) | Self::Claims | Self::Volumes => Phase::Pod,
            Self::Pod => Phase::Injected,
        }
    }
}

impl Addition {
    pub(crate) fn new(section: Section, tree: Tree) -> Self {
        Self { section, tree, shared: Vec::new() }
    }

    /// The container that the rule names.
    pub fn container_name(&self) -> Option<&ContainerName> {
        if let Section::Named(name) = &self.section { Some(name) } else { None }
    }

    /// The image of a container that the rule names. Without one, the container cannot be added.
    pub fn image(&self) -> Option<&Tree> {
        self.container_name().and_then(|_| self.tree.get("image"))
    }

    /// Returns whether expressions yield names of values that other additions may write, too.
    pub fn names_places(&self) -> bool {
        self.shared.iter().any(|value| value.kind == Kind::Named)
    }

    /// Returns whether the image is its own, also one that is `null` for these parameters.
    pub fn sets_image(&self) -> bool {
        self.image().is_some() || self.shared.iter().any(|value| value.place.path == ["image"])
    }

    pub fn writes(&self) -> Vec<Write<'_>> {
        writes(&self.tree, self.section.object())
    }

    /// Calls `visit` with every text that has expressions.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.container_name().into_iter().for_each(|container| container.name.texts(visit));
        self.tree.texts(visit);
    }
}

/// Attaches the devices of a container's overlay to the networks of the pod. `requests` yields the requests of the pod.
pub(crate) fn attach(pod: &mut [Addition], container: &Tree, requests: &Interpolation) {
    let amounts = container.at(&["resources", "limits"]).map_or(&[][..], Tree::entries);
    if amounts.is_empty() {
        return;
    }
    let resource = |entry: &Entry| match &entry.key {
        Key::Name(name) => Tree::value(entry.span, (**name).into()),
        Key::Text(text) => Tree::text(entry.span, text.clone()),
        Key::Resources(names) => Tree::value(entry.span, names.iter().cloned().collect()),
    };
    let resources: Vec<Tree> = amounts.iter().map(resource).collect();
    let metadata = pod.iter_mut().flat_map(|addition| addition.tree.entries_mut());
    let annotations = metadata.flat_map(|field| field.value.entries_mut());
    for annotation in annotations.flat_map(|field| field.value.entries_mut()) {
        if let Content::Edit(edit) = &mut annotation.value.content
            && let EditKind::Networks(devices) = &mut edit.kind
        {
            let span = annotation.span;
            let resources = Tree { span, content: Content::List(resources.clone()) };
            *devices = Some(Devices { resources, requests: Tree::text(span, requests.clone()) });
        }
    }
}
