//! `checks` of a policy.

use std::borrow::Cow;

use fabric_yaml::Node;

use crate::definition::{About, Containers, Effect, PolicyCheck};
use crate::interpolation::{Interpolation, Names, Phase, VALUE};
use crate::keys;
use crate::source::reader::{self, Fields};
use crate::source::{Checked, DUPLICATE_NAME, Diagnostic, MISSING_KEY, all};

/// Reads the list `checks`.
pub(super) fn read(node: &Node, names: &Names) -> Checked<Vec<PolicyCheck>> {
    let items = reader::items(node, "`checks`")?;
    all(items.iter().map(|item| check(item, names)))
}

fn check(node: &Node, names: &Names) -> Checked<PolicyCheck> {
    let mut fields = Fields::read(node, &keys::CHECK)?;
    let code = fields.required("name", code);
    let has = |key| node.get(key).is_some();
    let mut names = Cow::Borrowed(names);
    let is_free = !has("env") || names.to_mut().add(VALUE, Phase::Container);
    let env = fields.optional("env", |node| {
        let name = reader::text(node, "`env`")?;
        let hint = "write one name, such as `NCCL_DEBUG`, and a check for each variable";
        reader::variable_name(node, name, hint)?;
        if is_free {
            return Ok(name.to_owned());
        }
        let message = format!("the policy has a name `{VALUE}` of its own");
        let hint = "rename it: in a check of a variable, it is the value of the variable";
        Err(Diagnostic::error(DUPLICATE_NAME, node.span, message).hint(hint))
    });
    let names = &*names;
    let (of_pod, of_message) = match (has("env"), has("containers")) {
        (true, _) => (Phase::Container, Phase::Container),
        (false, true) => (Phase::Pod, Phase::Container),
        (false, false) => (Phase::Injected, Phase::Injected),
    };
    let when = fields.optional("when", |node| Interpolation::condition(node, "when", names, of_pod));
    let containers = fields
        .optional("containers", |node| Interpolation::condition(node, "containers", names, Phase::Container));
    let action = fields.optional("action", |node| reader::one_of(node, "action", keys::ACTIONS, Effect::ALL));
    let message = fields.required("message", |node| {
        let hint = "write a sentence for the author of the pod";
        let text = reader::located(node, "`message`").map_err(|found| found.hint(hint))?;
        if text.text.trim().is_empty() {
            return Err(Diagnostic::new(node.span, "`message` is empty").hint(hint));
        }
        Interpolation::compile(&text, names, Some(of_message))
    });
    if !(has("when") || fields.misspells("when")) && (has("env") || !has("containers")) {
        let missing = Diagnostic::error(MISSING_KEY, node.span, "a check has no condition");
        let hint = "add `when:` for the pod, `containers:` for each container, or both";
        let _ = fields.take(Err::<(), _>(missing.hint(hint)));
    }
    fields.finish()?;
    let about = match (env?, containers?) {
        (Some(name), containers) => {
            About::Variable(name, containers.map_or(Containers::Ranks, Containers::If))
        }
        (None, Some(containers)) => About::Containers(containers),
        (None, None) => About::Pod,
    };
    let effect = action?.unwrap_or(Effect::Warn);
    Ok(PolicyCheck { code: code?, span: node.span, effect, about, when: when?, message: message? })
}

fn code(node: &Node) -> Result<String, Diagnostic> {
    let is_snake = |code: &str| {
        code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let is_code = |code: &str| (1..=63).contains(&code.len()) && is_snake(code);
    reader::name(node, "the name of a check", is_code, "use lower-case letters, digits and `_`, at most 63")
}
