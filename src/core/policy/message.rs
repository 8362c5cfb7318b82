//! Warnings and refusals that a policy declares, which have the same keys.

use std::borrow::Cow;

use crate::core::yaml::Node;

use super::definition::{About, PolicyWarning};
use super::diagnostic::Diagnostic;
use super::expression::Expression;
use super::interpolation::Interpolation;
use super::phase::{Names, Phase};
use super::reader::{self, Fields};

/// The name of a variable's value in a message about it.
pub(crate) const VALUE: &str = "value";

/// Reads the list of a kind of messages, `warning` or `refusal`.
pub(super) fn read(
    node: Option<&Node>,
    kind: &'static str,
    names: &Names,
) -> Result<Vec<PolicyWarning>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    reader::items(node, &format!("`{kind}s`"))?.iter().map(|item| message(item, kind, names)).collect()
}

fn message(node: &Node, kind: &'static str, names: &Names) -> Result<PolicyWarning, Diagnostic> {
    let mut fields = Fields::of(node, if kind == "warning" { "a warning" } else { "a refusal" })?;
    let code = code(fields.required("code")?, kind)?;
    let env = fields
        .optional("env")
        .map(|node| reader::text(node, "`env`").map(|name| (node, name)))
        .transpose()?;
    let (when_node, message_node) = (fields.required("when")?, fields.required("message")?);
    fields.finish()?;
    let mut names = Cow::Borrowed(names);
    if let Some((node, _)) = env
        && !names.to_mut().add(VALUE, Phase::Container)
    {
        return Err(Diagnostic::new(node.span, format!("the policy has a name `{VALUE}` of its own"))
            .hint(format!("rename it: in a {kind} about a variable, it is the value of the variable")));
    }
    let message_text = reader::located(message_node, &format!("the message of a {kind}"))?;
    let message = Interpolation::compile(&message_text, &names, None)?;
    let when = Interpolation::compile(&reader::located(when_node, "`when`")?.trim(), &names, None)?;
    let reads_container = |text: &Interpolation| {
        text.expressions().flat_map(Expression::names).any(|name| names.get(name) == Some(Phase::Container))
    };
    let about = match env {
        Some((_, name)) => About::Variable(name.to_owned()),
        None if reads_container(&when) || reads_container(&message) => About::Container,
        None => About::Pod,
    };
    let phase = if about == About::Pod { Phase::Injected } else { Phase::Container };
    let when = Interpolation::condition(when_node, "`when`", &names, phase)?;
    Interpolation::compile(&message_text, &names, Some(phase))?;
    Ok(PolicyWarning { code, about, when, message })
}

fn code(node: &Node, kind: &str) -> Result<String, Diagnostic> {
    let code = reader::text(node, &format!("the code of a {kind}"))?;
    let snake = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if code.is_empty() || code.len() > 63 || !snake {
        return Err(Diagnostic::new(node.span, format!("the code of a {kind} is `{code}`"))
            .hint("use lower-case letters, digits and `_`, at most 63"));
    }
    Ok(code.to_owned())
}
