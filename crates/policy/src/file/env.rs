//! `env` of a rule: the variables by their names, as the list that an overlay of a container has.

use super::library_values::wrong_value;
use crate::source::{Checked, Diagnostic, MISSING_KEY, Problems, UNKNOWN_KEY, WRONG_TYPE, reader};
use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Entry, Node};

/// The overlay of a container with the variables that have no problem; `None` if there are none. In an extension, `null`
/// leaves out the variable of the base.
pub(super) fn overlay(node: &Node, is_extension: bool, problems: &mut Problems) -> Checked<Option<Node>> {
    let entries = match &node.content {
        Content::List(_) => {
            let message = "`env` of a rule is a map from names to values";
            let hint = "write `NAME: value`, without `- name:` and `value:`";
            return Err(Diagnostic::error(WRONG_TYPE, node.span, message).hint(hint).into());
        }
        _ => reader::entries(node, "`env`").map_err(|problems| match node.text() {
            Some(text) if text.text.contains('=') => reader::expected(node, "`env` to be a map")
                .hint("write `NAME: value`, as in `NCCL_DEBUG: WARN`, and not `NAME=value`")
                .into(),
            _ => problems,
        })?,
    };
    if entries.is_empty() {
        let hint = "write `NAME: value`, or leave the key out";
        return Err(Diagnostic::error(MISSING_KEY, node.span, "`env` is empty").hint(hint).into());
    }
    let list: Vec<Node> =
        entries.iter().filter_map(|entry| problems.take(variable(entry, is_extension))).collect();
    if list.is_empty() {
        return Ok(None);
    }
    let list = Node { span: node.span, content: Content::List(list) };
    Ok(Some(Node::map(node.span, [("env", list)])))
}

/// Fails for variables in the overlay of a container.
pub(super) fn refuse_list(container: &Node) -> Result<(), Diagnostic> {
    let Some(env) = container.entry("env") else { return Ok(()) };
    Err(Diagnostic::error(UNKNOWN_KEY, env.span, "`container` of a rule has no `env`").hint(
        "write `env: {NAME: value}` next to `container`, or in a rule of its own for the ranks of a job",
    ))
}

/// Where Kubernetes takes the value of a variable from.
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

fn variable(entry: &Entry<Node>, is_extension: bool) -> Result<Node, Diagnostic> {
    if entry.key.contains('(') && entry.key.ends_with(')') {
        let error = Diagnostic::new(entry.span, format!("`{}` is not the name of a variable", entry.key));
        return Err(error.hint(
            "write the name by itself: the value of the pod stays, unless the rule has `onConflict: replace`",
        ));
    }
    // Of the others, some are variables that programs read, such as `container` of systemd.
    if ["onConflict", "containers", "when"].contains(&entry.key.as_str()) {
        return Err(Diagnostic::error(UNKNOWN_KEY, entry.span, format!("`{}` is inside `env`", entry.key))
            .hint("it is a key of the rule: indent it like `env`"));
    }
    let name = ("name", Node::text_at(entry.span, &entry.key));
    let fields = match &entry.value.content {
        Content::Map(fields) if entry.value.get("valueFrom").is_some() => {
            let mut fields: Vec<_> =
                fields.iter().map(|field| (field.key.as_str(), field.value.clone())).collect();
            fields.insert(0, name);
            fields
        }
        Content::Map(fields) if fields.first().is_some_and(|field| SOURCES.contains(&&*field.key)) => {
            let source = &fields[0].key;
            let message = format!("`{source}` is not below `valueFrom`");
            let hint = format!("write `{}: {{valueFrom: {{{source}: …}}}}`", entry.key);
            return Err(Diagnostic::error(UNKNOWN_KEY, fields[0].span, message).hint(hint));
        }
        Content::Map(_) | Content::List(_) => vec![name, ("value", entry.value.clone())],
        // An empty value is most likely forgotten.
        Content::Scalar { value: Scalar::Null, .. }
            if is_extension && entry.value.span.length == "null".len() =>
        {
            vec![name, ("value", Node::text_at(entry.value.span, "${null}"))]
        }
        Content::Scalar { value, .. } => vec![name, ("value", text(entry, value)?)],
    };
    Ok(Node::map(entry.span, fields))
}

/// A text or a whole number as text.
fn text(entry: &Entry<Node>, value: &Scalar) -> Result<Node, Diagnostic> {
    let (node, key) = (&entry.value, &entry.key);
    let in_quotes = |hint: String| {
        let message = format!("`{key}` is {}, but a variable must be a string", node.describe());
        Diagnostic::error(WRONG_TYPE, node.span, message).hint(hint)
    };
    match value {
        Scalar::Null => Err(Diagnostic::error(WRONG_TYPE, node.span, format!("`{key}` has no value"))
            .hint("write a string or a whole number, or leave the variable out; in an extension, `null` leaves out that of the base")),
        Scalar::String(text) if text.is_empty() => Err(Diagnostic::new(
            node.span,
            format!("the value of `{key}` is empty, which leaves the variable out"),
        )
        .hint("write a string, or leave the variable out")),
        Scalar::Number(number) if !number.is_f64() => {
            reader::unambiguous(node)?;
            Ok(Node::text_at(node.span, &number.to_string()))
        }
        // Many libraries read numbers.
        Scalar::Bool(value) => Err(in_quotes(format!(
            "put it in quotes, as the program reads it: `{key}: \"{}\"` or `{key}: \"{value}\"`",
            u8::from(*value)
        ))),
        Scalar::Number(number) => {
            let number = number.to_string();
            let number = number.trim_end_matches(".0");
            let put = || format!("put it in quotes, as in `{key}: \"{number}\"`");
            let wrong = wrong_value(key, number, node.span).and_then(|wrong| wrong.hint);
            Err(in_quotes(wrong.unwrap_or_else(put)))
        }
        Scalar::String(_) => {
            reader::unambiguous(node)?;
            Ok(node.clone())
        }
    }
}
