//! Mistakes in YAML: those that the parser reports only through their consequences, and those that it accepts.

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{self as yaml, Content, Entry, Node, Span};

use super::other_kind::OtherKind;
use crate::source::{DECIMAL_MODE, Diagnostic, TEMPLATE_BRACES, YAML_SYNTAX};

const ONE_POLICY: &str = "write each policy in a file of its own, without a `---` after it";
const SPECIAL: &str = "put quotes around a key or a value that begins with a special character of YAML";
const NO_POLICY: &str = "this file is of another kind: a policy has `kind: FabricPolicy`";
/// Hints by what the parser says.
const OF_MESSAGES: [(&str, &str); 3] = [
    ("anchor", SPECIAL),
    ("'-' indicator", "begin the keys of one entry in one column"),
    ("trailing content", "put the whole of the value in quotes, or on the line below `>-`"),
];
const EXPRESSION: &str = "an expression is written as `${…}`, not as `{{ … }}`";

/// The error with a hint for its most likely cause, which the line shows.
pub(crate) fn explained(error: yaml::Error, text: &str) -> Diagnostic {
    let lines: Vec<&str> = text.lines().take(error.span.line + 1).collect();
    let (upto, after) = lines.split_at(error.span.line.min(lines.len()));
    // The parser notices some slips on the next line, and a tab on the line before.
    let near = upto.iter().rev().filter(|line| !line.trim().is_empty()).take(2);
    let next = after.first().copied().and_then(|line| Some((line, tab(line)?)));
    let other = OtherKind::detect(text).map(|_| NO_POLICY);
    let second = other.or(error.message.contains("second document").then_some(ONE_POLICY));
    let is_about_keys = ["simple key", "mapping values"].iter().any(|about| error.message.contains(about));
    let of_message = OF_MESSAGES.iter().find(|(about, _)| error.message.contains(about));
    let condition = upto.last().copied().and_then(condition);
    let hint = second.or_else(|| near.copied().find_map(hint)).or(next.map(|(_, hint)| hint));
    let mut diagnostic = Diagnostic::from(error);
    if let Some((line, _)) = next.filter(|(_, blank)| hint == Some(*blank)) {
        let blanks = line.chars().take_while(|blank| *blank == ' ').count();
        diagnostic.span = Span { line: diagnostic.span.line + 1, column: blanks + 1, length: 1 };
    }
    match (condition, hint.or(of_message.map(|(_, hint)| *hint))) {
        (Some(condition), _) => diagnostic.hint(condition),
        (None, Some(hint)) => diagnostic.hint(hint),
        (None, None) => is_about_keys.then(|| no_colon(upto)).flatten().unwrap_or(diagnostic),
    }
}

/// The error for a line such as `onConflict replace` or `NCCL_DEBUG=WARN`, which the parser notices on the next line at
/// the earliest. A line below a value is most often a part of it.
fn no_colon(upto: &[&str]) -> Option<Diagnostic> {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let lines = upto.iter().enumerate().rev().filter(|(_, line)| !line.trim().is_empty());
    let near: Vec<(usize, &str)> = lines.map(|(at, line)| (at, *line)).take(3).collect();
    near.iter().take(2).enumerate().find_map(|(back, (at, line))| {
        let is_own = near
            .get(back + 1)
            .is_none_or(|(_, before)| before.trim_end().ends_with(':') || indent(before) >= indent(line));
        let written = line[indent(line)..].trim_end();
        let split = written.split_once('=').or_else(|| written.split_once(' ')).unwrap_or((written, ""));
        let (key, value) = Some(split).filter(|_| is_own)?;
        // A key without a value has it on the line below.
        let is_above = || back > 0 && indent(near[back - 1].1) > indent(line);
        let is_word =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./,".contains(&byte));
        let span = Span { line: at + 1, column: indent(line) + 1, length: written.len() };
        let fits =
            !key.is_empty() && is_word(key) && if value.is_empty() { is_above() } else { is_word(value) };
        let error = Diagnostic::error(YAML_SYNTAX, span, "not valid YAML: a key has no colon after it");
        fits.then(|| error.hint(format!("write `{}`", format!("{key}: {value}").trim_end())))
    })
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
    if let Some(tab) = tab(line) {
        Some(tab)
    } else if line.contains("{{") {
        Some(EXPRESSION)
    } else if cut_off {
        Some("put a value with an expression in quotes, or on the line below `>-`")
    } else if value.starts_with(['@', '%', '`', '*', '&', '!', '|', '>'])
        || line.trim_start().starts_with('*')
    {
        Some(SPECIAL)
    } else if value.contains(": ") && !value.starts_with(['"', '\'', '{', '[']) {
        Some("put a string with a colon in quotes")
    } else {
        None
    }
}

fn tab(line: &str) -> Option<&'static str> {
    let indent = &line[..line.len() - line.trim_start().len()];
    if indent.contains('\t') {
        return Some("indent with spaces: YAML allows no tabs there");
    }
    let is_space = indent.chars().all(|space| space == ' ');
    (!is_space).then_some("indent with spaces: this line begins with another kind of space, such as U+00A0")
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
