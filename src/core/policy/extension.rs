//! The combination of a policy with an extension of it, as trees, so that one parser reads both.

use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Entry, Node};

use super::diagnostic::{Diagnostic, suggest};
use super::node::NodeLabels;
use super::parameter::Parameter;
use super::reader;

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

/// The `spec` of the policy `base` with that of an extension.
pub(super) fn extended(mut spec: Node, own: &Node, base: &str) -> Result<Node, Diagnostic> {
    for entry in reader::entries(own, "`spec`")? {
        let Some((_, combine)) = KEYS.iter().find(|(key, _)| *key == entry.key) else {
            let inherited = entry_of(&mut spec, &entry.key).is_some();
            let known = KEYS.iter().map(|(key, _)| *key);
            return Err(if inherited {
                Diagnostic::new(entry.span, format!("an extension has the `{}` of its base", entry.key))
                    .hint(format!("remove it, or copy `{base}` instead of extending it"))
            } else {
                Diagnostic::new(entry.span, format!("an extension has no field `{}`", entry.key))
                    .hint(suggest(&entry.key, known))
            });
        };
        match entry_of(&mut spec, &entry.key) {
            Some(known) => combine.apply(known, entry, base)?,
            None => push(&mut spec, entry),
        }
    }
    Ok(spec)
}

impl Combine {
    fn apply(self, base: &mut Entry<Node>, own: &Entry<Node>, name: &str) -> Result<(), Diagnostic> {
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
                        return Err(taken(entry.span, name, what, &entry.key));
                    }
                    push(&mut base.value, entry);
                }
            }
            Self::NewItems(key, what) => {
                let items = reader::items(&own.value, &format!("`{}`", own.key))?;
                let Content::List(known) = &mut base.value.content else { return Ok(()) };
                for item in items {
                    let taken_name = name_of(item, key)
                        .filter(|name| known.iter().any(|known| name_of(known, key) == Some(name)));
                    if let Some(known) = taken_name {
                        return Err(taken(item.span, name, what, known));
                    }
                }
                known.extend(items.iter().cloned());
            }
            Self::Parameters => {
                for entry in reader::entries(&own.value, "`parameters`")? {
                    match entry_of(&mut base.value, &entry.key) {
                        Some(known) => parameter(known, entry, name)?,
                        None => push(&mut base.value, entry),
                    }
                }
            }
        }
        Ok(())
    }
}

fn taken(span: crate::core::yaml::Span, base: &str, what: &str, name: &str) -> Diagnostic {
    Diagnostic::new(span, format!("the base `{base}` has {what} `{name}`"))
        .hint("an extension adds to its base; choose another name")
}

/// Changes the values of a parameter of the base. Its type stays, and its bounds become narrower only.
fn parameter(base: &mut Entry<Node>, own: &Entry<Node>, name: &str) -> Result<(), Diagnostic> {
    let before = Parameter::read(&base.key, &base.value, &NodeLabels::default())?;
    for entry in reader::entries(&own.value, "a parameter")? {
        if entry.key == "type" {
            let message = format!("an extension has the `type` of the parameter `{}` of its base", base.key);
            return Err(Diagnostic::new(entry.span, message).hint(format!("remove it: `{name}` declares it")));
        }
        merge(&mut base.value, entry);
    }
    let after = Parameter::read(&base.key, &base.value, &NodeLabels::default())?;
    let Some(bound) = after.wider_bound(&before) else { return Ok(()) };
    let span = entry_of(&mut base.value, bound).map_or(own.span, |entry| entry.value.span);
    let message = format!("`{bound}` of `{}` allows values that the base `{name}` does not", base.key);
    Err(Diagnostic::new(span, message).hint("an extension can narrow the bounds of a parameter"))
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
