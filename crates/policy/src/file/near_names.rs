//! Names that are almost those of other policies, most often because they are misspelled.

use std::collections::BTreeSet;

use fabric_yaml::{Entry, Node, Span};

use crate::check::WELL_KNOWN;
use crate::definition::entries;
use crate::source::reader::MOST;
use crate::source::{
    Diagnostic, UNKNOWN_ANNOTATION, UNKNOWN_LABEL, UNKNOWN_RESOURCE, UNKNOWN_VARIABLE, did_you_mean,
    is_misspelling, without_doubled_letters,
};

/// Names in the `spec` of a file that other policies have, too, each with its place.
type NamesOf = fn(&Node) -> Vec<(&str, Span)>;

/// The kinds of names.
const NAMES: [(&str, &str, &str, NamesOf); 4] = [
    ("annotation", "other policies", UNKNOWN_ANNOTATION, |spec| annotations(spec).map(name).collect()),
    ("label", "nodes", UNKNOWN_LABEL, |spec| {
        let selected = spec.get("nodes").and_then(|nodes| nodes.get("labels"));
        let keys = entries(spec.get("machines")).iter().chain(entries(selected));
        keys.map(name).filter(|(name, _)| is_no_pattern(name)).collect()
    }),
    ("resource", "other policies", UNKNOWN_RESOURCE, |spec| {
        let lists = [spec.get("gpus"), spec.get("devices")];
        let items = lists.into_iter().flat_map(|map| items(map.and_then(|map| map.get("resources"))));
        items.filter_map(text).filter(|(name, _)| is_no_pattern(name)).collect()
    }),
    ("variable", "other rules", UNKNOWN_VARIABLE, |spec| {
        let checked = items(spec.get("checks")).filter_map(|check| text(check.get("env")?));
        let files = entries(spec.get("files")).iter().filter_map(|file| text(file.value.get("env")?));
        set_variables(spec).chain(checked).chain(files).collect()
    }),
];

/// Warnings for the names in a `spec` that are almost those of others.
pub(super) fn find(spec: &Node, others: &[&Node]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    let own: BTreeSet<&str> = set_variables(spec).map(|(name, _)| name).collect();
    for (what, who, code, names) in NAMES {
        let of_others = others.iter().flat_map(|other| names(other)).map(|(name, _)| name);
        let well_known = WELL_KNOWN.iter().copied().filter(|_| code == UNKNOWN_LABEL);
        let known: Vec<&str> = of_others.chain(well_known).collect();
        for (name, span) in names(spec).into_iter().take(MOST).filter(|(name, _)| !known.contains(name)) {
            let is_almost = |known: &&&str| is_misspelling(name, known) || is_cut(name, known, code);
            // A check is about a variable that a rule of the policy sets, too.
            let is_of_others = code == UNKNOWN_VARIABLE && !own.contains(name);
            let of_own = is_of_others.then_some(&own).into_iter().flatten();
            if let Some(meant) = known.iter().chain(of_own).find(is_almost) {
                let message = format!("the {what} `{name}` is almost `{meant}`, which {who} have");
                warnings.push(misspelt(code, span, message, meant));
            } else if code == UNKNOWN_VARIABLE
                && let Some((known, meant)) = family(name, &known)
            {
                let message = format!("the variable `{name}` is not one of `{known}_*`, which {who} have");
                warnings.push(misspelt(code, span, message, &meant));
            } else if code == UNKNOWN_VARIABLE && name.contains('-') {
                let message = format!("the variable `{name}` has a `-`, with which no shell can read it");
                warnings.push(misspelt(code, span, message, &name.replace('-', "_")));
            }
        }
    }
    warnings.extend(annotations(spec).filter_map(|entry| value(entry, others)));
    warnings
}

fn misspelt(code: &'static str, span: Span, message: String, meant: &str) -> Diagnostic {
    Diagnostic::warning(code, span, message).hint(did_you_mean(meant))
}

/// Returns whether a name lacks the beginning of another one, or an annotation its end. A name of one word, such as
/// `zone`, is one of its own, and a label of nodes can be the beginning of another one.
fn is_cut(name: &str, known: &str, code: &str) -> bool {
    let is_long = name.contains(['/', '.', '-']);
    let begins = known.strip_suffix(name).is_some_and(|start| start.ends_with(['/', '.']));
    let ends = known.strip_prefix(name).is_some_and(|end| end.starts_with(['.', '-']));
    is_long && (begins || ends && name.contains('/') && code == UNKNOWN_ANNOTATION)
}

/// The first word of other variables, and this variable with that word, if its own first word differs only in a doubled
/// letter.
fn family<'n>(name: &str, known: &[&'n str]) -> Option<(&'n str, String)> {
    let (own, rest) = name.split_once('_').filter(|(own, _)| own.len() > 2)?;
    let mut words = known.iter().filter_map(|known| Some(known.split_once('_')?.0));
    let is_known = words.clone().any(|word| word == own);
    let meant =
        words.find(|word| !is_known && without_doubled_letters(word) == without_doubled_letters(own))?;
    Some((meant, format!("{meant}_{rest}")))
}

/// The warning for a value of an annotation that other policies spell differently.
fn value(entry: &Entry<Node>, others: &[&Node]) -> Option<Diagnostic> {
    let (own, span) = text(&entry.value)?;
    let same = others.iter().flat_map(|other| annotations(other)).filter(|other| other.key == entry.key);
    let known: Vec<&str> = same.filter_map(|other| Some(text(&other.value)?.0)).collect();
    let lower = own.to_lowercase();
    let meant = known.iter().find(|known| {
        lower == known.to_lowercase() || **known == "true" && ["yes", "on", "1"].contains(&lower.as_str())
    })?;
    let message =
        format!("the value of the annotation `{}` is `{own}`, and `{meant}` in other policies", entry.key);
    (!known.contains(&own)).then(|| misspelt(UNKNOWN_ANNOTATION, span, message, &format!("\"{meant}\"")))
}

/// The annotations with which a pod requests the fabric, or opts out.
fn annotations(spec: &Node) -> impl Iterator<Item = &Entry<Node>> {
    let maps =
        ["anyAnnotation", "exceptAnnotation"].map(|key| spec.get("match").and_then(|map| map.get(key)));
    maps.into_iter().flat_map(entries)
}

/// The variables that rules set.
fn set_variables(spec: &Node) -> impl Iterator<Item = (&str, Span)> {
    items(spec.get("rules")).flat_map(|rule| entries(rule.get("env"))).map(name)
}

fn items(node: Option<&Node>) -> impl Iterator<Item = &Node> {
    node.into_iter().flat_map(Node::one_or_items)
}

fn name(entry: &Entry<Node>) -> (&str, Span) {
    (&entry.key, entry.span)
}

fn text(node: &Node) -> Option<(&str, Span)> {
    Some((node.text()?.text, node.span))
}

/// Returns whether a name has no `*`.
fn is_no_pattern(name: &str) -> bool {
    !name.contains('*')
}
