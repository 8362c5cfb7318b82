//! Mistakes in YAML: those that the parser reports only through their consequences, and those that it accepts.

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{self as yaml, Content, Entry, Node};

use super::other_kind::OtherKind;
use super::yaml_repairs;
use crate::source::{DECIMAL_MODE, Diagnostic, TEMPLATE_BRACES, YAML_SYNTAX};

const ONE_POLICY: &str = "write each policy in a file of its own, without a `---` after it";
const KEYS: &str =
    "write a blank behind each colon, no `-` before a key, and no comma behind an entry without braces";
const SPECIAL: &str = "put quotes around a key or a value that begins with a special character of YAML";
const NO_POLICY: &str = "this file is of another kind: a policy has `kind: FabricPolicy`";
/// Hints by what the parser says.
const OF_MESSAGES: [(&str, &str); 9] = [
    (
        "did not find expected ','",
        "write a comma between two entries, and close the brackets after the last one",
    ),
    ("does not close the brackets", "close the inner brackets first"),
    ("did not find expected key", KEYS),
    ("indentation in quoted scalar", "close the quotes"),
    ("end of stream", "close the quotes or brackets that are open"),
    ("flow construct", "close the brackets, or indent the lines within them"),
    ("anchor", SPECIAL),
    ("'-' indicator", "begin the keys of one entry in one column"),
    ("trailing content", "put the whole of the value in quotes, or on the line below `>-`"),
];
const EXPRESSION: &str = "an expression is written as `${…}`, not as `{{ … }}`";

/// The error with a hint for its most likely cause, which the line shows, or a small repair of one line.
pub(crate) fn explained(error: yaml::Error, text: &str) -> Diagnostic {
    let lines: Vec<&str> = text.lines().take(error.span.line).collect();
    let other = OtherKind::detect(text).map(|_| NO_POLICY);
    let second = other.or(error.message.contains("second document").then_some(ONE_POLICY));
    let is_cause = |line: &str| {
        let without = line.split_once(": ").map_or(line, |(key, _)| key);
        line.contains('{') || yaml_repairs::helps(text, &error, error.span.line - 1, &format!("{without}: x"))
    };
    let condition = lines.last().copied().filter(|line| is_cause(line)).and_then(condition);
    if let Some(hint) = second.map(str::to_owned).or(condition) {
        return Diagnostic::from(error).hint(hint);
    }
    if let Some(repair) = yaml_repairs::first(text, &error) {
        return Diagnostic::error(YAML_SYNTAX, repair.span, format!("not valid YAML: {}", repair.cause))
            .hint(repair.hint);
    }
    // The parser notices some slips on the next line.
    let near = lines.iter().rev().filter(|line| !line.trim().is_empty()).take(2);
    let of_message = OF_MESSAGES.iter().find(|(about, _)| error.message.contains(about));
    match near.copied().find_map(hint).or(of_message.map(|(_, hint)| *hint)) {
        Some(hint) => Diagnostic::from(error).hint(hint),
        None => error.into(),
    }
}

/// The hint for a line with a condition that YAML misreads.
fn condition(line: &str) -> Option<String> {
    let keys = ["when", "containers"];
    let begins = |at: usize| {
        line[..at].trim_end_matches(' ').is_empty()
            || ["- ", "{", ", "].iter().any(|mark| line[..at].ends_with(mark))
    };
    let found = keys.iter().find_map(|key| {
        let at = line.find(&format!("{key}: "))?;
        begins(at).then(|| (*key, at, line[at + key.len() + 2..].trim()))
    });
    let (key, at, value) = found?;
    // The containers of a pod are a list.
    let is_other =
        value.starts_with(['"', '>', '|', '#']) || key == "containers" && value.starts_with(['[', '{']);
    if value.is_empty() || is_other {
        return None;
    }
    if line[..at].contains('{') {
        return Some(format!("put a condition in quotes between braces, as in `{{{key}: \"gpus > 0\"}}`"));
    }
    let has_escapes = value.contains(['"', '\\']);
    Some(if has_escapes {
        format!("write `{key}: >-`, and the condition on the next line")
    } else {
        format!("write `{key}: \"{value}\"`")
    })
}

fn hint(line: &str) -> Option<&'static str> {
    let value = line.split_once(": ").or_else(|| line.split_once("- ")).map_or(line, |(_, value)| value);
    let value = value.trim_start();
    let bare = value.match_indices("${").find(|(at, _)| !value[..*at].ends_with(['"', '\'']));
    let cut_off = bare.is_some_and(|(at, _)| {
        let rest = &value[at..];
        value.starts_with(['{', '[']) || rest.contains(": ") || rest.contains(" #") || !rest.contains('}')
    });
    if line.contains("{{") {
        Some(EXPRESSION)
    } else if cut_off {
        Some("put a value with an expression in quotes, or on the line below `>-`")
    } else if value.starts_with(['@', '%', '`', '*', '&', '!', '|', '>'])
        || line.trim_start().starts_with('*')
    {
        Some(SPECIAL)
    } else if value.contains(": ") && !value.starts_with(['"', '\'', '{', '[']) && !line.contains('{') {
        Some("put a string with a colon in quotes")
    } else {
        None
    }
}

/// A warning for each string with `{{ … }}` and without an expression, and for modes in decimal that are meant as
/// octal.
pub(crate) fn find(node: &Node, warnings: &mut Vec<Diagnostic>) {
    match &node.content {
        Content::Scalar { value: Scalar::String(text), .. } => {
            let open = text.find("{{").filter(|at| text[*at..].contains("}}"));
            if open.is_some() && !text.contains("${") {
                let message = "`{{ … }}` is plain text, not an expression";
                warnings.push(Diagnostic::warning(TEMPLATE_BRACES, node.span, message).hint(EXPRESSION));
            }
        }
        Content::Scalar { .. } => {}
        Content::List(items) => items.iter().for_each(|item| find(item, warnings)),
        Content::Map(entries) => entries.iter().for_each(|entry| {
            warnings.extend(decimal_mode(entry));
            find(&entry.value, warnings);
        }),
    }
}

/// Modes that were meant as octal but are written in decimal. The API server rejects those above 511, such as 644.
const MODES: [u64; 4] = [400, 440, 444, 500];

fn decimal_mode(entry: &Entry<Node>) -> Option<Diagnostic> {
    let Content::Scalar { value: Scalar::Number(mode), .. } = &entry.value.content else { return None };
    let mode = mode.as_u64().filter(|mode| entry.key == "defaultMode" && MODES.contains(mode))?;
    let meant = u64::from_str_radix(&mode.to_string(), 8).ok()?;
    let message = format!("`defaultMode: {mode}` is a decimal number, which is the octal number `0{mode:o}`");
    let hint = format!("write `{meant}` for the octal number `0{mode}`");
    Some(Diagnostic::warning(DECIMAL_MODE, entry.value.span, message).hint(hint))
}
