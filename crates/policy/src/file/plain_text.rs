//! Text that its author means as an expression, and text that YAML cuts or lengthens.

use std::collections::HashSet;

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Entry, Node};

use crate::definition::entries;
use crate::interpolation::BUILT_IN;
use crate::source::{Diagnostic, ODD_TEXT, TEXT_NOT_EXPRESSION};

/// Keys whose values are expressions, in which a comment leaves an error.
const CONDITIONS: [&str; 2] = ["when", "containers"];

/// What stands for the key of a value of `variables`.
const VARIABLE: &str = "variables";

/// What only an expression has.
const CALLS: [&str; 7] =
    ["lists.range(", ".map(", ".filter(", ".exists(", ".orValue(", "math.ceil(", "offeredNames("];

/// The longest line in which a comment behind a text is looked for, in bytes.
const LONGEST_LINE: usize = 1000;

/// Warnings for the texts of a `spec`. `text` is that of the file.
pub(super) fn find(spec: &Node, text: &str) -> Vec<Diagnostic> {
    let declared = ["parameters", "variables"].into_iter().flat_map(|key| entries(spec.get(key)));
    let built_in = BUILT_IN.iter().map(|known| known.name);
    let names: HashSet<&str> =
        declared.map(|entry| entry.key.as_str()).chain(built_in).chain(["lists", "math"]).collect();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for map in ["match", "rules", "devices", "checks", "variables"] {
        visit(spec.get(map), &mut |key, node| {
            let key = if map == "variables" { VARIABLE } else { key };
            found.extend(typographic(node));
            // Those of `match` are no expressions.
            if map != "match" {
                found.extend(name(key, node, &names));
                found.extend(left_over(node));
            }
            found.extend(cut(node, &lines).filter(|_| !CONDITIONS.contains(&key)));
        });
    }
    keys_without_value(spec, &lines, &names, &mut found);
    let rules = spec.get("rules").into_iter().flat_map(Node::one_or_items);
    let variables = rules.flat_map(|rule| entries(rule.get("env")));
    found.extend(variables.filter_map(|variable| blank(&variable.key, &variable.value)));
    found
}

/// Calls `found` with each string below a node, and the key that it is a value of.
fn visit(node: Option<&Node>, found: &mut dyn FnMut(&str, &Node)) {
    fn walk(key: &str, node: &Node, found: &mut dyn FnMut(&str, &Node)) {
        match &node.content {
            Content::Scalar { value: Scalar::String(_), .. } => found(key, node),
            Content::Scalar { .. } => {}
            Content::List(items) => items.iter().for_each(|item| walk(key, item, found)),
            Content::Map(entries) => entries.iter().for_each(|entry| walk(&entry.key, &entry.value, found)),
        }
    }
    if let Some(node) = node {
        walk("", node, found);
    }
}

/// The warning for a text that is, or in a message contains, the name of a value in a form of other languages.
fn name(key: &str, node: &Node, names: &HashSet<&str>) -> Option<Diagnostic> {
    if ["name", "env", "container"].contains(&key) || CONDITIONS.contains(&key) {
        return None;
    }
    let text = node.text()?.text;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let known = |rest: &str| {
        let end = rest.find(|c: char| !is_name(c) && c != '.').unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches('.');
        let root = path.split('.').next().unwrap_or_default();
        names.contains(&root).then(|| path.to_owned())
    };
    let written = if key == "message" {
        let marks = text.match_indices(['$', '{']);
        marks.filter(|(at, _)| !text[..*at].ends_with('$')).find_map(|(at, _)| known(&text[at + 1..]))
    } else if text.contains("${") {
        None
    } else if let Some(rest) = text.strip_prefix(['$', '{']) {
        known(rest.trim_start_matches(['(', '$']))
    } else if key == VARIABLE {
        // A text may name a parameter on purpose.
        CALLS.iter().any(|call| text.contains(call)).then(|| text.to_owned())
    } else {
        // A word of small letters may be meant as it is.
        let whole = text.chars().all(|c| is_name(c) || c == '.').then(|| known(text)).flatten();
        whole.filter(|path| path == text && path.contains(|c: char| c.is_ascii_uppercase() || c == '.'))
    }?;
    let message = format!("`{written}` stands for a value, and here it is text");
    let is_whole = text.trim_end().ends_with([')', ']']) && written != text;
    let whole = if is_whole { "…" } else { &written };
    let hint = format!("write `${{{whole}}}` for the value, in quotes");
    Some(Diagnostic::warning(TEXT_NOT_EXPRESSION, node.span, message).hint(hint))
}

/// Warnings for keys between braces that have no value, because a blank, a colon or quotes are missing.
fn keys_without_value(node: &Node, lines: &[&str], names: &HashSet<&str>, found: &mut Vec<Diagnostic>) {
    let of_entry = |entry: &Entry<Node>, before: Option<&Entry<Node>>| {
        let is_null = matches!(entry.value.content, Content::Scalar { value: Scalar::Null, .. });
        let line = lines.get(entry.span.line.checked_sub(1)?).filter(|_| is_null)?;
        let end = entry.span.column + entry.span.length - 1;
        // Columns count characters.
        let rest = line.get(end..).filter(|_| line.is_ascii() && line.len() <= LONGEST_LINE)?;
        rest.trim_start().strip_prefix([',', '}'])?;
        let key = &entry.key;
        let hint = match (key.rsplit_once(':'), key.split_once(' '), before.and_then(|one| one.value.text()))
        {
            (Some((name, value)), ..) => format!("write a blank behind the colon: `{name}: {value}`"),
            (_, Some((name, value)), _) => {
                format!("write a colon and a blank: `{name}: {}`", value.trim_start_matches(['=', ' ']))
            }
            (.., Some(text)) if !key.starts_with(|c: char| c.is_ascii_lowercase()) => {
                format!("if it is a part of the text before it, write `\"{},{key}\"`, in quotes", text.text)
            }
            _ if names.contains(key.as_str()) => format!("write `\"${{{key}}}\"` for its value"),
            _ => return None,
        };
        let message = format!("`{key}` is a key without a value");
        Some(Diagnostic::warning(ODD_TEXT, entry.span, message).hint(hint))
    };
    match &node.content {
        Content::List(items) => items.iter().for_each(|item| keys_without_value(item, lines, names, found)),
        Content::Map(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                found.extend(of_entry(entry, at.checked_sub(1).map(|before| &entries[before])));
                keys_without_value(&entry.value, lines, names, found);
            }
        }
        Content::Scalar { .. } => {}
    }
}

/// The warning for a `}` behind an expression, which becomes a part of the value.
fn left_over(node: &Node) -> Option<Diagnostic> {
    let text = node.text()?.text;
    let count = |brace: char| text.matches(brace).count();
    let is_odd = text.contains("${") && text.trim_end().ends_with("}}") && count('}') > count('{');
    let warning =
        Diagnostic::warning(ODD_TEXT, node.span, "a `}` is left over, and becomes a part of the value");
    is_odd.then(|| warning.hint("an expression ends at its first `}`: leave out the other one"))
}

/// The warning for quotes of word processors, which are no quotes in YAML.
fn typographic(node: &Node) -> Option<Diagnostic> {
    let Content::Scalar { plain: true, .. } = &node.content else { return None };
    let text = node.text()?.text;
    let within = text.strip_prefix(['“', '”', '‘', '’'])?.strip_suffix(['“', '”', '‘', '’'])?;
    let warning =
        Diagnostic::warning(ODD_TEXT, node.span, format!("the quotes of `{text}` are a part of it"));
    Some(warning.hint(format!("write `\"{within}\"`, with straight quotes")))
}

/// The warning for a text without quotes that ends before a `#` on its line.
fn cut(node: &Node, lines: &[&str]) -> Option<Diagnostic> {
    let Content::Scalar { plain: true, .. } = &node.content else { return None };
    let line = lines.get(node.span.line.checked_sub(1)?).filter(|line| line.len() <= LONGEST_LINE)?;
    let rest: String = line.chars().skip((node.span.column + node.span.length).saturating_sub(1)).collect();
    let comment = rest.trim_start().strip_prefix('#')?;
    let is_word = comment.starts_with(|c: char| c.is_ascii_alphanumeric());
    let message = format!("the text ends before `#{}`, which is a comment", comment.trim_end());
    let warning = Diagnostic::warning(ODD_TEXT, node.span, message);
    is_word.then(|| warning.hint("put the whole text in quotes, or write a space after the `#` of a comment"))
}

/// The warning for the value of a variable that begins or ends with a blank, or has a line end.
fn blank(key: &str, node: &Node) -> Option<Diagnostic> {
    let text = node.text()?.text;
    let is_odd = !text.is_empty() && (text.trim() != text || text.contains('\n')) && !text.contains("${");
    let message =
        format!("the value of `{key}` has a blank or a line end that programs read as a part of it");
    let warning = Diagnostic::warning(ODD_TEXT, node.span, message);
    is_odd.then(|| warning.hint(format!("write `{}` on one line", text.trim())))
}
