//! The warnings that a policy declares, some of which refuse the pod.

use std::borrow::Cow;

use crate::core::yaml::Node;

use crate::core::policy::definition::{About, PolicyWarning};
use crate::core::policy::expression::Expression;
use crate::core::policy::interpolation::{Interpolation, Names, Phase};
use crate::core::policy::keys;
use crate::core::policy::source::reader::{self, Fields};
use crate::core::policy::source::{Checked, DUPLICATE_NAME, Diagnostic, Problems, all};

/// The name of a variable's value in a message about it.
pub(crate) const VALUE: &str = "value";

/// The values of `action`: whether the pod is refused.
const ACTIONS: [(&str, bool); 2] = keys::meaning(keys::ACTIONS, [false, true]);

pub(crate) fn read(node: &Node, names: &Names) -> Checked<Vec<PolicyWarning>> {
    all(reader::items(node, "`warnings`")?.iter().map(|item| warning(item, names)))
}

fn warning(node: &Node, names: &Names) -> Checked<PolicyWarning> {
    let mut fields = Fields::of(node, &keys::WARNING)?;
    let code = fields.required("code", code);
    let refuses = fields.optional("action", |node| reader::one_of(node, "action", &ACTIONS));
    let mut names = Cow::Borrowed(names);
    let env = fields.optional("env", |node| {
        let name = reader::text(node, "`env`")?;
        if names.to_mut().add(VALUE, Phase::Container) {
            return Ok(name.to_owned());
        }
        Err(Diagnostic::new(node.span, format!("the policy has a name `{VALUE}` of its own"))
            .code(DUPLICATE_NAME)
            .hint("rename it: in a warning about a variable, it is the value of the variable"))
    });
    let when_node = fields.required("when", |node| located(node, "`when`", &names));
    let message_node = fields.required("message", |node| located(node, "the message of a warning", &names));
    fields.finish()?;
    let (env, (when_node, when), (message_node, message)) = (env?, when_node?, message_node?);
    let reads_container = |text: &Interpolation| {
        text.expressions().flat_map(Expression::names).any(|name| names.get(name) == Some(Phase::Container))
    };
    let about = match env {
        Some(name) => About::Variable(name),
        None if reads_container(&when) || reads_container(&message) => About::Container,
        None => About::Pod,
    };
    let phase = if about == About::Pod { Phase::Injected } else { Phase::Container };
    let mut problems = Problems::default();
    let when = problems.take(Interpolation::condition(when_node, "`when`", &names, phase));
    let text = reader::located(message_node, "the message")?;
    let message = problems.take(Interpolation::compile(&text, &names, Some(phase)));
    let (Some(when), Some(message)) = (when, message) else { return Err(problems) };
    Ok(PolicyWarning { code: code?, refuses: refuses?.unwrap_or_default(), about, when, message })
}

/// A text that is compiled to find out what it reads.
fn located<'n>(node: &'n Node, what: &str, names: &Names) -> Result<(&'n Node, Interpolation), Diagnostic> {
    Ok((node, Interpolation::compile(&reader::located(node, what)?.trim(), names, None)?))
}

fn code(node: &Node) -> Result<String, Diagnostic> {
    let code = reader::text(node, "the code of a warning")?;
    let snake = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if code.is_empty() || code.len() > 63 || !snake {
        return Err(Diagnostic::new(node.span, format!("the code of a warning is `{code}`"))
            .hint("use lower-case letters, digits and `_`, at most 63"));
    }
    Ok(code.to_owned())
}
