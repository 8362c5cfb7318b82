//! Reading trees: from the YAML of a policy, or from the value of an expression.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::entries;
use crate::interpolation::{Interpolation, Names, Phase};
use crate::schema;
use crate::source::{
    Checked, DUPLICATE_KEY, Diagnostic, FIELD_NOT_SETTABLE, MISPLACED_EDIT, Problems, TOO_EARLY, all, reader,
};
use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content as Yaml, Node, Span, Text};

use super::{
    Addition, ContainerName, Content, Edit, EditKind, Entry, Key, NETWORKS, Section, Tree, evaluation,
};

/// Reads an overlay for a container.
pub(crate) fn container(node: &Node, names: &Names) -> Checked<Tree> {
    let mut problems = Problems::default();
    let tree = Tree::read(node, names, Phase::Container, &mut problems);
    if let Some(name) = tree.get("name") {
        let error = Diagnostic::error(FIELD_NOT_SETTABLE, name.span, "an overlay cannot rename a container");
        problems.add(error.hint("choose containers by `containers: container.name == …` of the rule"));
    }
    problems.take(evaluation::check(&tree, schema::container()));
    problems.result(tree)
}

/// Reads an overlay for a pod.
///
/// The requests of the pod are counted after its containers are injected. Neither containers nor the volumes and
/// claims that they use can depend on them.
pub(crate) fn pod(node: &Node, names: &Names) -> Checked<Vec<Addition>> {
    let mut problems = Problems::default();
    let mut tree = Tree::read(node, names, Phase::Injected, &mut problems);
    problems.add(read_lists(&mut tree));
    for early in ["volumes", "resourceClaims", "containers", "initContainers"] {
        if let Some(part) = tree.at(&["spec", early]) {
            problems.take(part.check_phase(names, Phase::Pod));
        }
    }
    problems.take(evaluation::check(&tree, schema::pod()));
    problems.result(()).map(|()| additions(tree))
}

/// Makes edits of the lists in annotations: the networks of Multus, and objects of which the key of the annotation names
/// the field that identifies them, as in `example.com/interfaces[name]`.
fn read_lists(pod: &mut Tree) -> Problems {
    let mut problems = Problems::default();
    let fields = pod.entries_mut().iter_mut().filter(|field| field.name() == Some("metadata"));
    let metadata = fields.flat_map(|field| field.value.entries_mut());
    let annotations = metadata.filter(|field| field.name() == Some("annotations"));
    let mut known = BTreeSet::new();
    for annotation in annotations.flat_map(|field| field.value.entries_mut()) {
        let span = annotation.value.span;
        let name = annotation.name().map(|key| key.split_once('[').map_or(key, |(name, _)| name).to_owned());
        if let Some(twice) = name.filter(|name| !known.insert(name.clone())) {
            let message = format!("the annotation `{twice}` is twice in the overlay, once with a field");
            problems.add(Diagnostic::error(DUPLICATE_KEY, annotation.span, message).hint("keep one of them"));
        }
        if let Content::Map(_) = &annotation.value.content {
            let hint = if annotation.name() == Some(NETWORKS) {
                "write the network, or a list: each is added"
            } else {
                "write text, or a list of maps for a key such as `example.com/interfaces[name]`"
            };
            let error = Diagnostic::error(MISPLACED_EDIT, span, "the value of an annotation is no map");
            problems.add(error.hint(hint));
            annotation.value = Tree::value(span, Value::Null);
            continue;
        }
        let Some(key) = annotation.name() else { continue };
        let (name, kind) = match key.strip_suffix(']').and_then(|key| key.split_once('[')) {
            Some((name, field)) if !field.is_empty() => (name, EditKind::Objects(field.to_owned())),
            _ if key == NETWORKS => (key, EditKind::Networks(None)),
            _ => continue,
        };
        let content = Content::Edit(Box::new(Edit { added: annotation.value.clone(), kind }));
        *annotation = Entry::new(name, annotation.span, Tree { span, content });
    }
    problems
}

/// The edit that the value of a variable is if it has the variable's own before or after it, as in `/lib:$(NAME)`, with
/// the entry that it adds.
fn edit(variable: &Node) -> Option<(EditKind, Node)> {
    let own = format!("$({})", variable.get("name")?.text()?.text);
    let value = variable.get("value")?;
    let text = value.text()?;
    let (kind, added) = match text.text.strip_suffix(&own).and_then(|text| text.strip_suffix(':')) {
        Some(before) => (EditKind::Prepend, before),
        None => (EditKind::Append, text.text.strip_prefix(&own)?.strip_prefix(':')?),
    };
    let start = if kind == EditKind::Prepend { 0 } else { text.text.len() - added.len() };
    let (map, string) = (Some(text.map_of_part(start, added.len())), Scalar::String(added.to_owned()));
    let entry = Node { span: value.span, content: Yaml::Scalar { value: string, plain: false, map } };
    (!added.contains(&own)).then_some((kind, entry))
}

/// Takes a checked tree of a pod apart by its sections.
fn additions(tree: Tree) -> Vec<Addition> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let Content::Map(fields) = tree.content else { return found };
    for mut field in fields {
        if field.name() == Some("spec") && !field.value.is_empty() {
            let Content::Map(of_spec) = field.value.content else { continue };
            let (span, mut left) = (field.span, Vec::new());
            let in_section = |section, entry| {
                let spec = Entry::new("spec", span, Tree::map(span, vec![entry]));
                Addition::new(section, Tree::map(span, vec![spec]))
            };
            for entry in of_spec {
                match entry.name() {
                    Some("volumes") => found.push(in_section(Section::Volumes, entry)),
                    Some("resourceClaims") => found.push(in_section(Section::Claims, entry)),
                    Some("containers") => found.extend(named("containers", entry.value)),
                    Some("initContainers") => found.extend(named("initContainers", entry.value)),
                    _ => left.push(entry),
                }
            }
            field.value = Tree::map(field.value.span, left);
            if field.value.is_empty() {
                continue;
            }
        }
        others.push(field);
    }
    if !others.is_empty() {
        found.push(Addition::new(Section::Pod, Tree::map(tree.span, others)));
    }
    found
}

/// The containers of a list, each with its name.
fn named(list: &'static str, containers: Tree) -> impl Iterator<Item = Addition> {
    containers.into_items().into_iter().filter_map(move |Tree { span, content }| {
        let Content::Map(fields) = content else { return None };
        let is_name = |entry: &Entry| entry.name() == Some("name");
        let (named, mut fields): (Vec<Entry>, Vec<Entry>) = fields.into_iter().partition(is_name);
        // First of all: other fields depend on it.
        fields.sort_by_key(|field| field.name() != Some("restartPolicy"));
        let name = named.into_iter().next()?.value;
        let section = Section::Named(ContainerName { list, name });
        Some(Addition::new(section, Tree::map(span, fields)))
    })
}

impl Tree {
    /// Reads the YAML of an overlay. Its expressions are evaluated in the given phase.
    fn read(node: &Node, names: &Names, phase: Phase, problems: &mut Problems) -> Self {
        let length = node.one_or_items().len().max(entries(Some(node)).len());
        if problems.take(reader::check_count(length, reader::MOST, "an overlay", node.span)).is_none() {
            return Self::value(node.span, Value::Null);
        }
        let content = match &node.content {
            Yaml::List(items) if !items.is_empty() => {
                let mut read = Vec::with_capacity(items.len());
                problems.each(items, |problems, item| read.push(Self::read(item, names, phase, problems)));
                Content::List(read)
            }
            Yaml::Map(entries) => {
                let mut read = Vec::with_capacity(entries.len());
                problems.each(entries, |problems, entry| {
                    let key = reader::string_key(entry).and_then(|()| {
                        Interpolation::compile(&Text::on_line(&entry.key, entry.span), names, Some(phase))
                    });
                    let value = match &entry.value.content {
                        Yaml::List(items) if entry.key == "env" => {
                            let read = items.iter().map(|item| Self::variable(item, names, phase, problems));
                            Self { span: entry.value.span, content: Content::List(read.collect()) }
                        }
                        _ => Self::read(&entry.value, names, phase, problems),
                    };
                    if let Some(key) = problems.take(key) {
                        read.push(Entry { key: Key::read(key), span: entry.span, value });
                    }
                });
                Content::Map(read)
            }
            _ => {
                let scalar = problems.take(Self::scalar(node, names, Some(phase)));
                scalar.map_or(Content::Value(Value::Null), |tree| tree.content)
            }
        };
        Self { span: node.span, content }
    }

    /// Reads an entry of `env`.
    fn variable(node: &Node, names: &Names, phase: Phase, problems: &mut Problems) -> Self {
        let Some((kind, entry)) = edit(node) else { return Self::read(node, names, phase, problems) };
        let mut node = node.clone();
        if let Yaml::Map(fields) = &mut node.content {
            let values = fields.iter_mut().filter(|field| field.key == "value");
            values.for_each(|field| field.value = entry.clone());
        }
        let mut tree = Self::read(&node, names, phase, problems);
        for field in tree.entries_mut().iter_mut().filter(|field| field.name() == Some("value")) {
            let added = std::mem::take(&mut field.value);
            let (span, kind) = (added.span, kind.clone());
            field.value = Self { span, content: Content::Edit(Box::new(Edit { added, kind })) };
        }
        tree
    }

    /// Reads the value of a variable. It can be `null` or an empty list, and its keys have no expressions.
    pub(crate) fn of_variable(node: &Node, names: &Names) -> Checked<Self> {
        let content = match &node.content {
            Yaml::Scalar { value: Scalar::Null, .. } => Content::Value(Value::Null),
            Yaml::Scalar { .. } => return Ok(Self::scalar(node, names, None)?),
            Yaml::List(items) => Content::List(all(items.iter().map(|item| Self::of_variable(item, names)))?),
            Yaml::Map(_) => {
                let entries = reader::rows(node, "a variable")?.iter().map(|entry| {
                    let value = Self::of_variable(&entry.value, names)?;
                    Ok::<_, Problems>(Entry::new(&entry.key, entry.span, value))
                });
                Content::Map(all(entries)?)
            }
        };
        Ok(Self { span: node.span, content })
    }

    fn scalar(node: &Node, names: &Names, phase: Option<Phase>) -> Result<Self, Diagnostic> {
        match &node.content {
            Yaml::List(_) | Yaml::Map(_) => {
                Err(Diagnostic::new(node.span, "an empty list adds nothing").hint("leave the field out"))
            }
            Yaml::Scalar { value: Scalar::Null, .. } => {
                Err(Diagnostic::new(node.span, "an overlay adds fields, and this one has no value").hint(
                    "write its value, leave the field out, write `{}` for one without fields, or an expression that is `null` where it is to be left out",
                ))
            }
            Yaml::Scalar { value: Scalar::String(_), .. } => {
                let text = reader::located(node, "a value")?;
                Interpolation::compile(&text, names, phase).map(|text| Self::text(node.span, text))
            }
            Yaml::Scalar { .. } => {
                reader::unambiguous(node)?;
                Ok(Self::value(node.span, node.to_value()))
            }
        }
    }

    /// The value of an expression as its author would have written it out; `None` for `null`, which is left out.
    pub(crate) fn of_value(value: Value) -> Option<Self> {
        let content = match value {
            Value::Null => return None,
            Value::Array(items) => Content::List(items.into_iter().filter_map(Self::of_value).collect()),
            Value::Object(map) => {
                let entry = |(key, value): (String, Value)| {
                    Some(Entry::new(&key, Span::default(), Self::of_value(value)?))
                };
                Content::Map(map.into_iter().filter_map(entry).collect())
            }
            scalar => Content::Value(scalar),
        };
        Some(Self { span: Span::default(), content })
    }

    /// Fails if an expression reads a name that is not known in the phase.
    fn check_phase(&self, names: &Names, phase: Phase) -> Checked<()> {
        let mut problems = Problems::default();
        let is_early = |name: &&String| names.get(name).is_some_and(|known| !phase.may_read(known));
        self.texts(&mut |text| {
            for expression in text.expressions() {
                for name in expression.names().iter().filter(is_early) {
                    let message = format!("`{name}` is not known yet where this is evaluated");
                    let error = Diagnostic::error(TOO_EARLY, expression.span_of_name(name), message);
                    problems.add(error.hint("docs/policy.md says where each name can be used"));
                }
            }
        });
        problems.result(())
    }

    /// Fails without a problem for a value whose problem is already known.
    pub(super) fn readable(&self) -> Checked<()> {
        if matches!(self.content, Content::Value(Value::Null)) { Err(Problems::default()) } else { Ok(()) }
    }

    /// The kind of the value, for a message.
    pub(super) fn describe(&self) -> String {
        let text = |text: &str| {
            let short: String = text.chars().take(40).collect();
            format!("the string `{}`", short.replace('\n', "⏎"))
        };
        match &self.content {
            Content::Value(Value::Bool(value)) => format!("the boolean `{value}`"),
            Content::Value(Value::String(value)) => text(value),
            Content::Value(Value::Null) => "a value".to_owned(),
            Content::Value(value) => format!("the number `{value}`"),
            Content::Text(value) => text(&value.source()),
            Content::Map(_) => "a map".to_owned(),
            Content::List(_) => "a list".to_owned(),
            Content::Edit(edit) => edit.added.describe(),
        }
    }
}
