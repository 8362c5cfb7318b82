//! The places of values in the tree of a policy.

use crate::definition::{Definition, Rule};
use crate::interpolation::text_of;
use crate::overlay::{Instruction, Key, NETWORKS, Template, Write, Written, writes};
use crate::source::SourceFile;
use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Entry, Node, Span};

/// A step from a value of the tree to one in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    Key(String),
    /// The entry of a list whose field has this value; without a field, the entry that is this string.
    Item(&'static str, String),
}

/// A write of a rule, and the path in the rule of the object to which it writes.
#[derive(Debug)]
pub struct Placed<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) start: Vec<At>,
    pub(crate) write: Write<'r>,
}

/// The path in a rule of a value of a volume.
pub fn in_volume(name: &str, path: &[&str]) -> Vec<At> {
    let volume = [At::Item("name", name.to_owned())].into_iter().chain(keys(path.iter().copied()));
    keys(["pod", "spec", "volumes"]).into_iter().chain(volume).collect()
}

/// A path of keys.
pub fn keys<'k>(path: impl IntoIterator<Item = &'k str>) -> Vec<At> {
    path.into_iter().map(|key| At::Key(key.to_owned())).collect()
}

/// The entries of a map, none for another value.
pub fn entries(node: Option<&Node>) -> &[Entry<Node>] {
    match node.map(|node| &node.content) {
        Some(Content::Map(entries)) => entries,
        _ => &[],
    }
}

/// The place of a value, or else of the last step to it that the tree has.
pub(crate) fn span_in(mut node: &Node, path: &[At]) -> Span {
    let mut span = node.span;
    for at in path {
        let next = match at {
            At::Key(key) => node.entry(key).map(|entry| (&entry.value, entry.span)),
            At::Item(key, value) => item(node, key, value).map(|node| (node, node.span)),
        };
        let Some((next, key_span)) = next else { break };
        node = next;
        // The span of a map or list is that of its first character.
        span = match (at, &node.content) {
            (At::Item(key, _), _) => node.get(key).map_or(node.span, |key| key.span),
            (At::Key(_), Content::Scalar { .. }) => node.span,
            (At::Key(_), _) => key_span,
        };
    }
    span
}

/// The place of a value of a rule in the list of all rules.
pub fn span_in_rule(rules: &Node, rule: &Rule, path: &[At]) -> Span {
    let Content::List(items) = &rules.content else { return rule.span };
    items.iter().find(|item| item.span == rule.span).map_or(rule.span, |item| span_in(item, path))
}

fn item<'n>(node: &'n Node, key: &str, value: &str) -> Option<&'n Node> {
    let Content::List(items) = &node.content else { return None };
    let name = |item: &'n Node| if key.is_empty() { Some(item) } else { item.get(key) };
    items.iter().find(|item| match name(item).map(|found| &found.content) {
        Some(Content::Scalar { value: Scalar::String(text), .. }) => text == value,
        Some(Content::Scalar { value: Scalar::Number(number), .. }) => number.to_string() == value,
        _ => false,
    })
}

impl Definition {
    /// The place of a value of `spec`, or else of the last step to it that the files have.
    pub fn place(&self, path: &[At]) -> Span {
        span_in(&self.spec, path)
    }

    /// The place of the key of a parameter or variable.
    pub fn place_of_name(&self, name: &str) -> Span {
        let maps = ["variables", "parameters"].into_iter().filter_map(|map| self.spec.get(map));
        maps.filter_map(|map| map.entry(name)).map(|entry| entry.span).next().unwrap_or_default()
    }

    /// The place of a value that a rule writes.
    pub(crate) fn place_of(&self, placed: &Placed<'_>) -> Span {
        self.place_in(placed.rule, &placed.path())
    }

    /// The place of the first write to an entry or else to a field of this name.
    pub fn place_of_written(&self, name: &str) -> Option<Span> {
        let mut writes = self.rules.iter().flat_map(Rule::writes);
        let placed =
            writes.find(|Placed { write, .. }| write.name().unwrap_or_else(|| write.field()) == name)?;
        Some(self.place_of(&placed))
    }

    /// The place of a value of a rule.
    pub fn place_in(&self, rule: &Rule, path: &[At]) -> Span {
        if rule.device.is_some() {
            let entries = self.spec.get("devices").and_then(|devices| devices.get("add"));
            return entries.map_or(rule.span, |entries| span_in_rule(entries, rule, &in_entry(path)));
        }
        self.spec.get("rules").map_or(rule.span, |rules| span_in_rule(rules, rule, path))
    }

    /// The file that has a place, and the line in it: that of the policy, of one that it extends or of a part.
    pub fn line_in_file(&self, span: Span) -> (&str, usize) {
        let mut line = span.line;
        for base in &self.bases {
            if line <= base.lines() {
                return (&base.file, line);
            }
            line -= base.lines();
        }
        (&self.file, line)
    }

    /// Returns whether a place is in the file of a policy that this one extends.
    pub fn is_of_base(&self, span: Span) -> bool {
        (1..=self.bases.iter().map(SourceFile::lines).sum()).contains(&span.line)
    }
}

/// The path in an entry of `devices.add` of a value that its overlays write.
fn in_entry(path: &[At]) -> Vec<At> {
    let named = |at: &At| match at {
        At::Key(name) | At::Item(_, name) => At::Key(name.clone()),
    };
    let known: Vec<&str> = path.iter().map(|at| if let At::Key(key) = at { key } else { "" }).collect();
    match known.as_slice() {
        ["container", "resources", "claims", ..] => path[2..].iter().map(named).collect(),
        ["container", "resources", _, ..] => {
            keys(["resources"]).into_iter().chain(path[3..].iter().cloned()).collect()
        }
        ["pod", "spec", "resourceClaims", ..] => {
            keys(["claims"]).into_iter().chain(path[3..].iter().map(named)).collect()
        }
        ["pod", "metadata", "annotations", NETWORKS, ..] => keys(["networks"]),
        ["pod", "metadata", "annotations", ..] => {
            keys(["networks"]).into_iter().chain(path[3..].iter().cloned()).collect()
        }
        _ => path.to_vec(),
    }
}

impl Rule {
    /// Every write except for claims and volumes.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Placed<'_>> {
        let named = self.pod.containers.iter().map(|container| {
            let name = key_of(&container.name).map(|name| At::Item("name", name));
            let path = keys(["pod", "spec", container.list]).into_iter().chain(name).collect::<Vec<At>>();
            (path, container.instructions.as_slice())
        });
        let container = (keys(["container"]), self.container.as_slice());
        let pod = (keys(["pod"]), self.pod.instructions.as_slice());
        let all = [container].into_iter().chain(named).chain([pod]);
        all.flat_map(move |(start, instructions): (Vec<At>, &[Instruction])| {
            let placed = move |write| Placed { rule: self, start: start.clone(), write };
            writes(instructions).into_iter().map(placed)
        })
    }
}

impl Placed<'_> {
    /// The path in the rule of an entry of the list of texts that is written.
    pub(crate) fn item(&self, text: &str) -> Vec<At> {
        self.path().into_iter().chain([At::Item("", text.to_owned())]).collect()
    }

    /// The environment variable that is written.
    fn variable(&self) -> Option<String> {
        let name = match (self.write.key, self.write.value) {
            (Key::Named(name), _) => Some(name.clone()),
            (Key::Fields(_), Written::Entry(entry)) => entry.0.field("name"),
            _ => None,
        };
        if self.write.path == ["env"] { name.as_ref().and_then(key_of) } else { None }
    }

    /// The path of the written value in the rule.
    pub(crate) fn path(&self) -> Vec<At> {
        if let (Some(name), true) = (self.variable(), self.start == keys(["container"])) {
            return vec![At::Key("env".to_owned()), At::Key(name)];
        }
        let mut path = self.start.clone();
        path.extend(keys(self.write.path.iter().copied()));
        match (self.write.key, self.write.value) {
            (Key::Of(key), Written::Amount(amount)) => {
                let list = if amount.limit.is_some() { "limits" } else { "requests" };
                path.extend(keys([list, &key.source()]));
            }
            (Key::Of(key), _) => path.push(At::Key(key.source())),
            (Key::Named(name), _) => path.extend(key_of(name).map(|name| At::Item("name", name))),
            (Key::Fields([key, ..]), Written::Entry(entry)) => {
                path.extend(entry.0.field(key).as_ref().and_then(key_of).map(|name| At::Item(key, name)));
            }
            (Key::Whole | Key::Fields(_), _) => {}
        }
        path
    }
}

/// The text of a name as the file has it.
fn key_of(name: &Template) -> Option<String> {
    match name {
        Template::Constant(value) => Some(text_of(value)),
        Template::Computed(text, _) => Some(text.source()),
        _ => None,
    }
}
