//! The combination of a policy with an extension of it, as trees, so that one parser reads both.

use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Entry, Node};

use super::diagnostic::{DUPLICATE_NAME, Diagnostic, EXTENSION, UNKNOWN_KEY};
use super::node::NodeLabels;
use super::parameter::Parameter;
use super::problems::{Checked, Problems, all};
use super::reader;
use super::suggestion::{closest, suggest};

/// The combination of a key of `spec` with the base's.
#[derive(Debug, Clone, Copy)]
enum Combine {
    /// The extension's value replaces the base's.
    Replace,
    /// Each key of the extension's map replaces that of the base's.
    Keys,
    /// The extension adds keys to the base's map.
    NewKeys(&'static str),
    /// The extension adds items, named by this field, to the base's list.
    NewItems(&'static str, &'static str),
    Parameters,
}

const KEYS: &[(&str, Combine)] = &[
    ("description", Combine::Replace),
    ("match", Combine::Keys),
    ("parameters", Combine::Parameters),
    ("variables", Combine::NewKeys("a variable")),
    ("warnings", Combine::NewItems("code", "a warning")),
    ("refusals", Combine::NewItems("code", "a refusal")),
    ("rules", Combine::NewItems("name", "a rule")),
    ("settings", Combine::NewItems("name", "an entry of `settings`")),
    ("nodeLabels", Combine::Keys),
];

/// Adds the `spec` of an extension to that of the policy `base`.
pub(super) fn extend(spec: &mut Node, own: &Node, base: &str) -> Checked<()> {
    all(reader::entries(own, "`spec`")?.iter().map(|entry| {
        let Some((_, combine)) = KEYS.iter().find(|(key, _)| *key == entry.key) else {
            let inherited = entry_of(spec, &entry.key).is_some();
            let known = KEYS.iter().map(|(key, _)| *key);
            return Err(if inherited {
                Diagnostic::new(entry.span, format!("an extension has the `{}` of its base", entry.key))
                    .code(EXTENSION)
                    .hint(format!("remove it, or copy `{base}` instead of extending it"))
            } else {
                Diagnostic::new(entry.span, format!("an extension has no field `{}`", entry.key))
                    .code(UNKNOWN_KEY)
                    .hint(suggest(&entry.key, known))
            }
            .into());
        };
        match entry_of(spec, &entry.key) {
            Some(known) => combine.apply(known, entry, base)?,
            None => push(spec, entry),
        }
        Ok::<_, Problems>(())
    }))
}

impl Combine {
    fn apply(self, base: &mut Entry<Node>, own: &Entry<Node>, name: &str) -> Checked<()> {
        let mut problems = Problems::default();
        match self {
            Self::Replace => base.clone_from(own),
            Self::Keys => {
                for entry in reader::entries(&own.value, "`match`")? {
                    put(&mut base.value, entry);
                }
            }
            Self::NewKeys(what) => {
                for entry in reader::entries(&own.value, &format!("`{}`", own.key))? {
                    if entry_of(&mut base.value, &entry.key).is_some() {
                        problems.add(taken(entry.span, name, what, &entry.key));
                    } else {
                        push(&mut base.value, entry);
                    }
                }
            }
            Self::NewItems(key, what) => {
                let items = reader::items(&own.value, &format!("`{}`", own.key))?;
                let Content::List(known) = &mut base.value.content else { return Ok(()) };
                let mut added = Vec::new();
                for item in items {
                    let taken_name = name_of(item, key)
                        .filter(|name| known.iter().any(|known| name_of(known, key) == Some(name)));
                    match taken_name {
                        Some(known) => problems.add(taken(item.span, name, what, known)),
                        None => added.push(item.clone()),
                    }
                }
                known.extend(added);
            }
            Self::Parameters => {
                for entry in reader::entries(&own.value, "`parameters`")? {
                    match entry_of(&mut base.value, &entry.key) {
                        Some(known) => _ = problems.take(parameter(known, entry, name)),
                        None => match misspelled(&base.value, entry, name) {
                            Some(problem) => problems.add(problem),
                            None => push(&mut base.value, entry),
                        },
                    }
                }
            }
        }
        problems.result(())
    }
}

/// An error for a parameter without a type that is almost called as one of the base.
fn misspelled(parameters: &Node, own: &Entry<Node>, base: &str) -> Option<Diagnostic> {
    let (Content::Map(known), Content::Map(fields)) = (&parameters.content, &own.value.content) else {
        return None;
    };
    let known = closest(&own.key, known.iter().map(|entry| entry.key.as_str()))?;
    let message = format!("the base `{base}` has no parameter `{}`", own.key);
    let problem =
        || Diagnostic::new(own.span, message).code(EXTENSION).hint(format!("did you mean `{known}`?"));
    (!fields.iter().any(|field| field.key == "type")).then(problem)
}

fn taken(span: crate::core::yaml::Span, base: &str, what: &str, name: &str) -> Diagnostic {
    Diagnostic::new(span, format!("the base `{base}` has {what} `{name}`"))
        .code(DUPLICATE_NAME)
        .hint("an extension adds to its base; choose another name")
}

/// Changes the values of a parameter of the base. Its type stays, and its bounds become narrower only.
fn parameter(base: &mut Entry<Node>, own: &Entry<Node>, name: &str) -> Checked<()> {
    let before = Parameter::read(&base.key, &base.value, &NodeLabels::default())?;
    for entry in reader::entries(&own.value, "a parameter")? {
        if entry.key == "type" {
            let message = format!("an extension has the `type` of the parameter `{}` of its base", base.key);
            return Err(Diagnostic::new(entry.span, message)
                .code(EXTENSION)
                .hint(format!("remove it: `{name}` declares it"))
                .into());
        }
        merge(&mut base.value, entry);
    }
    let after = Parameter::read(&base.key, &base.value, &NodeLabels::default())?;
    let Some(bound) = after.wider_bound(&before) else { return Ok(()) };
    let span = entry_of(&mut base.value, bound).map_or(own.span, |entry| entry.value.span);
    let message = format!("`{bound}` of `{}` allows values that the base `{name}` does not", base.key);
    Err(Diagnostic::new(span, message)
        .code(EXTENSION)
        .hint("an extension can narrow the bounds of a parameter")
        .into())
}

/// Sets a field. A map is merged into the base's map at any depth, so that a table keeps its other entries.
fn merge(base: &mut Node, own: &Entry<Node>) {
    if let Some(known) = entry_of(base, &own.key)
        && let (Content::Map(_), Content::Map(entries)) = (&known.value.content, &own.value.content)
    {
        for entry in entries {
            merge(&mut known.value, entry);
        }
        return;
    }
    put(base, own);
}

fn entry_of<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Entry<Node>> {
    match &mut node.content {
        Content::Map(entries) => entries.iter_mut().find(|entry| entry.key == key),
        _ => None,
    }
}

fn push(node: &mut Node, entry: &Entry<Node>) {
    if let Content::Map(entries) = &mut node.content {
        entries.push(entry.clone());
    }
}

fn put(node: &mut Node, entry: &Entry<Node>) {
    match entry_of(node, &entry.key) {
        Some(known) => known.clone_from(entry),
        None => push(node, entry),
    }
}

fn name_of<'n>(item: &'n Node, key: &str) -> Option<&'n str> {
    let Content::Map(entries) = &item.content else { return None };
    match &entries.iter().find(|entry| entry.key == key)?.value.content {
        Content::Scalar { value: Scalar::String(text), .. } => Some(text),
        _ => None,
    }
}
