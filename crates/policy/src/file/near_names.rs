//! Names that are almost those of other policies, most often because they are misspelled.

use std::collections::BTreeSet;

use fabric_yaml::{Content, Entry, Node, Span};

use super::library_values;
use crate::definition::entries;
use crate::known_names::NAMES;
use crate::source::reader::MOST;
use crate::source::{
    Diagnostic, LONGEST, UNKNOWN_ANNOTATION, UNKNOWN_LABEL, UNKNOWN_RESOURCE, UNKNOWN_VARIABLE, did_you_mean,
    is_misspelling, without_doubled_letters,
};

/// Names in the `spec` of a file that other policies have, too, each with its place.
type NamesOf = fn(&Node) -> Vec<(&str, Span)>;

/// Names of a kind.
struct Kind {
    what: &'static str,
    /// Who has the names that are known.
    who: &'static str,
    code: &'static str,
    names: NamesOf,
    /// Those that need no other policy.
    known: fn() -> &'static [String],
}

/// Labels of a policy with which its others are compared.
const MOST_OWN_LABELS: usize = 64;

/// The kinds of names.
const KINDS: [Kind; 6] = [
    Kind {
        what: "annotation",
        who: "other policies",
        code: UNKNOWN_ANNOTATION,
        names: |spec| annotations(spec).map(name).collect(),
        known: || &[],
    },
    Kind {
        what: "annotation",
        who: "pods with networks",
        code: UNKNOWN_ANNOTATION,
        names: |spec| {
            let rules = items(spec.get("rules"))
                .filter_map(|rule| rule.get("pod")?.get("metadata")?.get("annotations"));
            let added = items(spec.get("devices").and_then(|devices| devices.get("add")));
            let networks = added.filter_map(|entry| entry.get("networks"));
            rules.chain(networks).flat_map(|map| entries(Some(map))).map(name).collect()
        },
        known: || &NAMES.annotations,
    },
    Kind {
        what: "label",
        who: "nodes",
        code: UNKNOWN_LABEL,
        names: |spec| {
            let selected = spec.get("nodes").and_then(|nodes| nodes.get("labels"));
            let keys = entries(spec.get("machines")).iter().chain(entries(selected));
            let mut topology = Vec::new();
            items(spec.get("rules")).for_each(|rule| add_topology_keys(rule, &mut topology));
            keys.map(name).chain(topology).filter(|(name, _)| is_no_pattern(name)).collect()
        },
        known: || &NAMES.labels,
    },
    Kind {
        what: "resource",
        who: "other policies",
        code: UNKNOWN_RESOURCE,
        names: |spec| {
            let lists = [spec.get("gpus"), spec.get("devices")];
            let items = lists.into_iter().flat_map(|map| items(map.and_then(|map| map.get("resources"))));
            let added = self::items(spec.get("devices").and_then(|devices| devices.get("add")));
            let amounts = added.flat_map(|entry| entries(entry.get("resources"))).map(name);
            items.filter_map(text).chain(amounts).filter(|(name, _)| is_no_pattern(name)).collect()
        },
        known: || &NAMES.resources,
    },
    Kind {
        what: "class",
        who: "claims of other policies",
        code: UNKNOWN_RESOURCE,
        names: |spec| {
            let lists = [spec.get("gpus"), spec.get("devices")].into_iter().flatten();
            let claims = lists.flat_map(|map| entries(map.get("claims"))).map(name);
            claims
                .filter(|(name, _)| is_no_pattern(name) && name.contains('.') && !name.contains(' '))
                .collect()
        },
        known: || &[],
    },
    Kind {
        what: "variable",
        who: "other rules or libraries",
        code: UNKNOWN_VARIABLE,
        names: |spec| {
            let checked = items(spec.get("checks")).filter_map(|check| text(check.get("env")?));
            let files = entries(spec.get("files")).iter().filter_map(|file| text(file.value.get("env")?));
            set_variables(spec).map(name).chain(checked).chain(files).collect()
        },
        known: || &NAMES.variables,
    },
];

/// Warnings for the names in a `spec` that are almost those of others.
pub(super) fn find(spec: &Node, others: &[&Node]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    let own: BTreeSet<&str> = set_variables(spec).map(|entry| entry.key.as_str()).collect();
    for Kind { what, who, code, names, known } in KINDS {
        let of_others = others.iter().flat_map(|other| names(other)).map(|(name, _)| name);
        let known: Vec<&str> = of_others.chain(known().iter().map(String::as_str)).collect();
        let mut labels = BTreeSet::new();
        for (name, span) in names(spec).into_iter().take(MOST).filter(|(name, _)| !known.contains(name)) {
            let is_almost = |known: &&&str| match code {
                // There are hundreds of them, and a policy can set thousands.
                UNKNOWN_VARIABLE if !begin_or_end_alike(name, known) => false,
                UNKNOWN_VARIABLE if is_other_form(name, known) || differs_by_a_letter(name, known) => true,
                UNKNOWN_RESOURCE if has_other_letter(name, known) => true,
                _ => is_misspelling(name, known) || is_cut(name, known, code),
            };
            // A check is about a variable that a rule of the policy sets, too.
            let is_of_others = code == UNKNOWN_VARIABLE && !own.contains(name);
            let of_own = is_of_others.then_some(&own).into_iter().flatten().chain(&labels);
            if let Some(meant) = known.iter().chain(of_own).find(is_almost) {
                let who = if labels.contains(meant) { "other lines" } else { who };
                let message = format!("the {what} `{name}` is almost `{meant}`, which {who} have");
                warnings.push(misspelt(code, span, message, meant));
            } else if code == UNKNOWN_VARIABLE
                && let Some((known, meant)) = family(name, &known)
            {
                let message = format!("the variable `{name}` is not one of `{known}_*`, which {who} have");
                warnings.push(misspelt(code, span, message, &meant));
            }
            // One that is written twice is often written in two ways.
            if code == UNKNOWN_LABEL && labels.len() < MOST_OWN_LABELS && !name.ends_with('/') {
                labels.insert(name);
            }
        }
    }
    warnings.extend(annotations(spec).filter_map(|entry| value(entry, others)));
    warnings.extend(set_variables(spec).filter_map(library_values::finding));
    warnings
}

fn misspelt(code: &'static str, span: Span, message: String, meant: &str) -> Diagnostic {
    Diagnostic::warning(code, span, message).hint(did_you_mean(meant))
}

/// Returns whether a name lacks the beginning of another one, or an annotation its end. A name of one word, such as
/// `zone`, is one of its own, and a label of nodes can be the beginning of another one.
fn is_cut(name: &str, known: &str, code: &str) -> bool {
    let is_long = name.contains(['/', '.', '-']);
    let begins = known.strip_suffix(name).is_some_and(|start| start.ends_with(['/', '.', ':']));
    let split =
        |name: &'_ str| name.split_once('/').map(|(domain, rest)| (domain.to_owned(), rest.to_owned()));
    let lacks_end = split(name).zip(split(known)).is_some_and(|((domain, rest), (whole, same))| {
        rest == same && whole.strip_prefix(&*domain).is_some_and(|end| end.starts_with('.'))
    });
    let ends = known.strip_prefix(name).is_some_and(|end| end.starts_with(['.', '-']));
    is_long && (begins || lacks_end || ends && name.contains('/') && code == UNKNOWN_ANNOTATION)
}

/// Returns whether two variables have the same beginning or last word.
fn begin_or_end_alike(name: &str, known: &str) -> bool {
    let alike = |one: Option<&[u8]>, other: Option<&[u8]>| {
        one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
    };
    let last = |name: &'_ str| name.rfind('_').map(|at| at + 1).unwrap_or_default();
    let (name, at, known, known_at) = (name.as_bytes(), last(name), known.as_bytes(), last(known));
    alike(name.get(..3), known.get(..3)) || alike(name.get(at..), known.get(known_at..))
}

/// Returns whether one of two names has a letter more than the other.
fn differs_by_a_letter(name: &str, known: &str) -> bool {
    let (short, long) = if name.len() < known.len() { (name, known) } else { (known, name) };
    let alike = |(one, other): &(u8, u8)| one == other;
    let start = short.bytes().zip(long.bytes()).take_while(alike).count();
    let end = short.bytes().rev().zip(long.bytes().rev()).take_while(alike).count();
    let is_letter = long.as_bytes().get(start).is_some_and(u8::is_ascii_alphabetic);
    long.len() == short.len() + 1 && short.len() > 5 && is_letter && start + end >= short.len()
}

/// Returns whether a word has letters of another one in their order, with its first and last one: `IDX` of `INDEX`.
fn abbreviates(word: &str, other: &str) -> bool {
    let mut letters = other.chars();
    word.chars().all(|letter| letters.any(|known| known == letter))
        && word.chars().next() == other.chars().next()
        && word.chars().next_back() == other.chars().next_back()
}

/// Returns whether a variable is another form of a known one of its library: a word that is left out, that has other
/// letters, or that is cut short, words in another order, or in place of their initials.
fn is_other_form(name: &str, known: &str) -> bool {
    let (words, others): (Vec<&str>, Vec<&str>) = (name.split('_').collect(), known.split('_').collect());
    if name.len().max(known.len()) > LONGEST || words[0] != others[0] || words.len() < 3 {
        return false;
    }
    let sorted = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    if words.len() == others.len() && sorted(&words) == sorted(&others) {
        return true;
    }
    let start = words.iter().zip(&others).take_while(|(word, other)| word == other).count();
    let back =
        |words: &[&str]| words[start..].iter().rev().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (end, other_end) = (back(&words), back(&others));
    let same = end.iter().zip(&other_end).take_while(|(word, other)| word == other).count();
    let (own, meant) = (&words[start..words.len() - same], &others[start..others.len() - same]);
    match (own, meant) {
        ([], [_]) => true,
        ([word], [other]) => {
            let least = word.len().min(other.len());
            let is_short = abbreviates(word, other) || abbreviates(other, word);
            let is_start = word.starts_with(other) || other.starts_with(word) || is_short;
            let begin_alike = |most| word.chars().take(most).eq(other.chars().take(most));
            let is_near = begin_alike(4) || begin_alike(1) && strsim::osa_distance(word, other) <= least / 2;
            least > 2 && !word.ends_with(|c: char| c.is_ascii_digit()) && (is_start || least > 4 && is_near)
        }
        (words @ [_, _, ..], [initials]) => {
            words.iter().filter_map(|word| word.chars().next()).eq(initials.chars())
        }
        _ => false,
    }
}

/// Returns whether the names of two resources of one domain differ in one letter after the first one.
fn has_other_letter(name: &str, known: &str) -> bool {
    let (Some((domain, name)), Some((other, known))) = (name.split_once('/'), known.split_once('/')) else {
        return false;
    };
    let is_word = |text: &str| text.len() > 2 && text.bytes().all(|byte| byte.is_ascii_lowercase());
    domain == other
        && is_word(name)
        && is_word(known)
        && name[..1] == known[..1]
        && strsim::osa_distance(name, known) == 1
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
fn set_variables(spec: &Node) -> impl Iterator<Item = &Entry<Node>> {
    items(spec.get("rules")).flat_map(|rule| entries(rule.get("env")))
}

/// Adds the labels of nodes by which pods are spread.
fn add_topology_keys<'n>(node: &'n Node, keys: &mut Vec<(&'n str, Span)>) {
    match &node.content {
        Content::List(items) => items.iter().for_each(|item| add_topology_keys(item, keys)),
        Content::Map(fields) => fields.iter().for_each(|field| match &*field.key {
            "topologyKey" => keys.extend(text(&field.value)),
            _ => add_topology_keys(&field.value, keys),
        }),
        Content::Scalar { .. } => {}
    }
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
