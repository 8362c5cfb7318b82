//! The combination of a policy file with the files that it extends, as one tree for the parser.

use std::collections::{HashMap, HashSet};
use std::slice;

use fabric_yaml::{Content, Entry, Node, Span};

use crate::definition::entries;
use crate::keys;
use crate::parameter::Parameter;
use crate::source::{
    Checked, DUPLICATE_NAME, Diagnostic, EXTENSION, Problems, SourceFile, all, at_line, closest,
    did_you_mean, reader, suggest,
};

/// The combination of a key of `spec` with that of a base.
#[derive(Debug, Clone, Copy)]
enum Combine {
    /// The value replaces the base's.
    Replace,
    /// One file has it.
    Once,
    /// Each key of a policy's map replaces that of the base's.
    Keys,
    /// The keys are added to the base's map, and the entries of tables to its tables; that of a policy replaces
    /// another.
    Variables,
    /// The rows are added to the base's; an extension has its own, which precede them.
    Machines,
    /// The items of this kind are added to the base's list, under names of their own.
    NewItems(&'static str),
    Parameters,
    /// The items of each list of the map are added to the base's; the entries of `devices.add` have names of their own.
    Lists,
}

const KEYS: &[(&str, Combine)] = &[
    ("provider", Combine::Once),
    ("nodes", Combine::Keys),
    ("description", Combine::Replace),
    ("gpus", Combine::Lists),
    ("devices", Combine::Lists),
    ("match", Combine::Keys),
    ("machines", Combine::Machines),
    ("parameters", Combine::Parameters),
    ("variables", Combine::Variables),
    ("checks", Combine::NewItems("a check")),
    ("rules", Combine::NewItems("a rule")),
    ("files", Combine::Keys),
];

/// A file, among the files of its policy.
pub(crate) struct Extending<'f> {
    pub(crate) source: &'f SourceFile,
    pub(crate) files: &'f [SourceFile],
}

/// Adds the `spec` of a file to that of the files before it, whose lines count on from one to the next.
pub(crate) fn extend(spec: &mut Node, own: &Node, from: &Extending<'_>) -> Checked<()> {
    all(reader::entries(own, "`spec`")?.iter().map(|entry| {
        let combine = KEYS.iter().find(|(key, _)| *key == entry.key);
        if let (Some(known), Some((_, combine))) = (entry_of(spec, &entry.key), combine) {
            return combine.apply(known, entry, from);
        }
        // The parser reports unknown keys.
        push(spec, entry);
        Ok(())
    }))
}

/// The lists from which `without` leaves out items by their names, and the map from which it leaves out paths.
const NAMED: [&[&str]; 4] = [&["rules"], &["devices", "add"], &["checks"], &["files"]];

/// Leaves out the rules, entries of `devices.add`, checks and files of these names.
pub(crate) fn leave_out(spec: &mut Node, names: &Node, is_policy: bool) -> Checked<()> {
    if !is_policy {
        let message = "a part of policies leaves nothing out";
        let hint = "write `without` in the policy that takes the part";
        return Err(Diagnostic::error(EXTENSION, names.span, message).hint(hint).into());
    }
    let mut seen = HashSet::new();
    let left_out = all(reader::items(names, "`without`")?.iter().map(|item| {
        let name = reader::text(item, "`without`")?;
        if !seen.insert(name) {
            let message = format!("`without` names `{name}` twice");
            return Err(Diagnostic::error(EXTENSION, item.span, message).hint("keep one of them"));
        }
        let mut known = Vec::new();
        let mut found = false;
        for path in NAMED {
            let of = path
                .iter()
                .try_fold(&mut *spec, |node, key| entry_of(node, key).map(|entry| &mut entry.value));
            let mut is_kept = |other: &str| {
                known.push(other.to_owned());
                found |= other == name;
                other != name
            };
            match of.map(|node| &mut node.content) {
                Some(Content::List(items)) => items.retain(|item| name_of(item).is_none_or(&mut is_kept)),
                Some(Content::Map(entries)) => entries.retain(|entry| is_kept(&entry.key)),
                _ => {}
            }
        }
        if found {
            return Ok(());
        }
        let message = format!("what it extends has no rule, entry, check or file `{name}`");
        Err(Diagnostic::error(EXTENSION, item.span, message)
            .hint(suggest(name, known.iter().map(String::as_str))))
    }));
    if let Content::Map(entries) = &mut spec.content {
        let is_empty = |value: &Node| matches!(&value.content, Content::List(items) if items.is_empty());
        entries.retain(|entry| entry.key != "rules" || !is_empty(&entry.value));
    }
    left_out
}

/// Errors for the keys that no `spec` has: those of a part that no policy takes are not read otherwise.
pub(crate) fn unknown_keys(spec: &Node) -> impl Iterator<Item = Diagnostic> {
    let unknown = |entry| reader::unknown("`spec`", entry, || suggest(&entry.key, keys::SPEC.names()));
    without_meaning(spec).map(unknown)
}

/// The entries of a `spec` with other keys than those of the language.
fn without_meaning(spec: &Node) -> impl Iterator<Item = &Entry<Node>> {
    entries(Some(spec)).iter().filter(|entry| keys::SPEC.key(&entry.key).is_none())
}

/// The error for a key that is almost `extends`.
pub(crate) fn misspelt_extends(spec: &Node) -> Option<Diagnostic> {
    let is_near = |entry: &&Entry<Node>| closest(&entry.key, keys::SPEC.names()) == Some("extends");
    let entry = without_meaning(spec).find(is_near)?;
    Some(reader::unknown("`spec`", entry, || "did you mean `extends`?".to_owned()))
}

impl Combine {
    fn apply(self, base: &mut Entry<Node>, own: &Entry<Node>, from: &Extending<'_>) -> Checked<()> {
        let what = format!("`{}`", own.key);
        match self {
            Self::Replace => base.clone_from(own),
            Self::Once => {
                let name = owner(from.files, base.span);
                let message = format!("an extension has the `{}` of its base `{name}`", own.key);
                let hint = format!("remove it, or copy `{name}` instead of extending it");
                return Err(Diagnostic::error(EXTENSION, own.span, message).hint(hint).into());
            }
            Self::NewItems(kind) => {
                let items = reader::items(&own.value, &what)?;
                let Content::List(known) = &mut base.value.content else { return Ok(()) };
                reader::check_count(known.len(), reader::MOST, &what, base.value.span)?;
                let (mut added, mut problems) = (Vec::new(), Problems::default());
                for item in items {
                    let name = name_of(item);
                    match known.iter().find(|known| name.is_some() && name_of(known) == name) {
                        Some(same) => {
                            let base = owner(from.files, same.span);
                            problems.add(taken(item.span, base, kind, name.unwrap_or_default()));
                        }
                        None => added.push(item.clone()),
                    }
                }
                known.extend(added);
                return problems.result(());
            }
            _ => {
                let entries = reader::entries(&own.value, &what)?;
                return all(entries.iter().map(|entry| self.add(&mut base.value, &own.key, entry, from)));
            }
        }
        Ok(())
    }

    /// Adds an entry to the map of a key.
    fn add(self, base: &mut Node, key: &str, entry: &Entry<Node>, from: &Extending<'_>) -> Checked<()> {
        let Some(known) = entry_of(base, &entry.key) else {
            if matches!(self, Self::Parameters)
                && let Some(problem) = misspelled(base, entry)
            {
                return Err(problem.into());
            }
            push(base, entry);
            return Ok(());
        };
        match self {
            Self::Lists if key == "devices" && entry.key == "add" => {
                return Self::NewItems("an entry").apply(known, entry, from);
            }
            Self::Lists => add_items(known, &entry.value),
            Self::Keys if !from.source.is_policy => {
                let base = owner(from.files, known.span);
                let message = format!("the base `{base}` has `{key}.{}`, too", entry.key);
                let of_part = owner(from.files, entry.span);
                let hint = format!(
                    "take one of the two in `extends`, or leave out that of `{of_part}` and write it in the policy itself"
                );
                return Err(Diagnostic::error(EXTENSION, entry.span, message).hint(hint).into());
            }
            Self::Machines if from.source.extends.is_some() => push(base, entry),
            Self::Parameters if from.source.extends.is_some() && !is_map(&entry.value) => push(base, entry),
            Self::Parameters => parameter(known, entry, from.files)?,
            Self::Variables if !(from.source.is_policy || is_map(&known.value) && is_map(&entry.value)) => {
                return Err(taken(entry.span, owner(from.files, known.span), "a variable", &entry.key).into());
            }
            Self::Variables | Self::Machines => merge(base, slice::from_ref(entry)),
            _ => known.clone_from(entry),
        }
        Ok(())
    }
}

/// The name of the file that has a place.
fn owner(bases: &[SourceFile], span: Span) -> &str {
    bases.get(at_line(bases, span.line).0).map_or("", |base| base.policy.as_str())
}

/// An error for a parameter without a description whose name is almost that of one in the base.
fn misspelled(parameters: &Node, own: &Entry<Node>) -> Option<Diagnostic> {
    let known = entries(Some(parameters)).iter().map(|entry| entry.key.as_str());
    let known = closest(&own.key, known).filter(|_| own.value.get("description").is_none())?;
    let message = format!("no base has a parameter `{}`", own.key);
    Some(Diagnostic::error(EXTENSION, own.span, message).hint(did_you_mean(known)))
}

fn taken(span: Span, base: &str, what: &str, name: &str) -> Diagnostic {
    let hint = if what == "a variable" {
        "choose another name: a part does not replace the variable of another part".to_owned()
    } else {
        format!("choose another name, or leave out that of the base: `without: [{name}]`")
    };
    Diagnostic::error(DUPLICATE_NAME, span, format!("the base `{base}` has {what} `{name}`")).hint(hint)
}

/// Changes the values of a parameter of a base. Its type stays, and its bounds become narrower only.
fn parameter(base: &mut Entry<Node>, own: &Entry<Node>, bases: &[SourceFile]) -> Checked<()> {
    let name = owner(bases, base.span);
    if !is_map(&own.value) {
        let hint = format!("write `{}: {{default: …}}`: only an extension of a policy sets a value", own.key);
        return Err(reader::expected(&own.value, "a parameter to be a map").hint(hint).into());
    }
    let before = Parameter::read(base)?;
    let declared = base.clone();
    for entry in reader::entries(&own.value, "a parameter")? {
        if entry.key == "type" {
            let message = format!("an extension has the `type` of the parameter `{}` of its base", base.key);
            let hint = format!("remove it: `{name}` declares it");
            return Err(Diagnostic::error(EXTENSION, entry.span, message).hint(hint).into());
        }
        merge(&mut base.value, slice::from_ref(entry));
    }
    let after = Parameter::read(base).map_err(|problems| {
        base.clone_from(&declared);
        // The mistake is in the extension, also if the message is about a value of the base.
        let file_of = |span: Span| at_line(bases, span.line).0;
        let mut placed = Problems::default();
        for problem in problems {
            let span = if file_of(problem.span) == file_of(own.span) { problem.span } else { own.span };
            placed.add(Diagnostic { span, ..problem });
        }
        placed
    })?;
    let Some(bound) = after.wider_bound(&before) else { return Ok(()) };
    let span = entry_of(&mut base.value, bound).map_or(own.span, |entry| entry.value.span);
    let message = format!("`{bound}` of `{}` allows values that the base `{name}` does not", base.key);
    let hint = "an extension can narrow the bounds of a parameter";
    Err(Diagnostic::error(EXTENSION, span, message).hint(hint).into())
}

/// Sets fields. A map is merged into the base's map at any depth: a table keeps its other entries, which can be a hundred
/// thousand.
fn merge(base: &mut Node, own: &[Entry<Node>]) {
    let Content::Map(known) = &mut base.content else { return };
    let mut left: HashMap<&str, _> = own.iter().map(|entry| (entry.key.as_str(), entry)).collect();
    for known in &mut *known {
        match left.remove(known.key.as_str()) {
            Some(own) if is_map(&known.value) && is_map(&own.value) => {
                merge(&mut known.value, entries(Some(&own.value)));
            }
            Some(own) => known.clone_from(own),
            None => {}
        }
    }
    known.extend(own.iter().filter(|entry| left.contains_key(entry.key.as_str())).cloned());
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

/// Adds the items of a list, or the one of a single expression, to those of the base's. Of the names in a map, the first
/// one that matches counts, so that the base's follow.
fn add_items(base: &mut Entry<Node>, own: &Node) {
    if let (Content::Map(known), Content::Map(names)) = (&mut base.value.content, &own.content) {
        known.retain(|entry| names.iter().all(|name| name.key != entry.key));
        known.splice(0..0, names.iter().cloned());
    } else if is_map(&base.value) {
        base.value.clone_from(own);
    } else {
        let items = |node: &Node| node.one_or_items().to_vec();
        base.value.content = Content::List([items(&base.value), items(own)].concat());
    }
}

fn name_of(item: &Node) -> Option<&str> {
    item.get("name")?.text().map(|name| name.text)
}

fn is_map(node: &Node) -> bool {
    matches!(node.content, Content::Map(_))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_key_has_its_combination() {
        let combined: BTreeSet<&str> =
            KEYS.iter().map(|(key, _)| *key).chain(["extends", "without"]).collect();
        assert_eq!(combined, keys::SPEC.names().collect());
    }
}
