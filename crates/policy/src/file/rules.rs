//! `rules`, and the rules about several of them.

use fabric_yaml::Node;

use super::{contradictions, env};
use crate::definition::{Containers, OnConflict, Rule, precedence};
use crate::interpolation::{Interpolation, Names, Phase};
use crate::keys;
use crate::overlay::{self, Addition, Section};
use crate::source::reader::{self, Fields};
use crate::source::{
    Checked, DUPLICATE_NAME, Diagnostic, MISSING_KEY, Problems, SourceFile, at_line, extension_at,
};

/// Adds the rules without problems to the entries of `devices.add`, and returns the problems of the others.
pub(super) fn read(node: &Node, names: &Names, rules: &mut Vec<Rule>, files: &[SourceFile]) -> Problems {
    let mut problems = Problems::default();
    let items = problems.take(reader::items(node, "`rules`")).unwrap_or_default();
    problems.each(items, |problems, item| {
        let Some(rule) = problems.take(rule(item, names, files)) else { return };
        if rules.iter().any(|known| known.name == rule.name) {
            let message = format!("two rules are called `{}`", rule.name);
            let hint = "give one of them another name";
            problems.add(Diagnostic::error(DUPLICATE_NAME, item.span, message).hint(hint));
        }
        let at = at_line(files, rule.span.line).0;
        let rank = files.get(at).filter(|file| file.is_policy).map_or(0, |_| at + 1);
        rules.push(Rule { rank, ..rule });
    });
    if problems.is_empty() && items.is_empty() {
        // The entries of `devices.add` are rules, too.
        let hint = if rules.is_empty() { "see docs/policy.md" } else { "write one, or leave `rules` out" };
        problems.add(Diagnostic::new(node.span, "a policy needs at least one rule").hint(hint));
    }
    let values = rules.iter().map(Rule::size).sum();
    if problems.take(reader::check_count(values, reader::MOST, "values in rules", node.span)).is_none() {
        return problems;
    }
    precedence::find_shared(rules);
    problems.add(contradictions::find(rules));
    problems
}

fn rule(node: &Node, names: &Names, files: &[SourceFile]) -> Checked<Rule> {
    let mut fields = Fields::read(node, &keys::RULE)?;
    let name = fields.required("name", |node| reader::dns_label(node, "the name of a rule"));
    let when = fields.optional("when", |node| Interpolation::condition(node, "when", names, Phase::Pod));
    let containers = fields
        .optional("containers", |node| Interpolation::condition(node, "containers", names, Phase::Container));
    let on_conflict = fields.optional("onConflict", |node| {
        reader::one_of(node, "onConflict", keys::ON_CONFLICT, OnConflict::WRITTEN)
    });
    let env = fields.optional("env", |node| {
        let mut problems = Problems::default();
        let overlay = env::overlay(node, extension_at(files, node.span).is_some(), &mut problems)?;
        let variables = overlay.and_then(|overlay| problems.take(overlay::container(&overlay, names)));
        problems.result(variables.unwrap_or_default())
    });
    let container = fields.optional("container", |node| {
        env::refuse_list(node)?;
        if node.text().is_some() {
            let hint = "a condition is that of `containers`; `container` has the fields of each";
            return Err(reader::expected(node, "`container` to be a map").hint(hint).into());
        }
        overlay::container(node, names)
    });
    let pod = fields.optional("pod", |node| overlay::pod(node, names));
    fields.finish()?;
    let (env, container, pod) = (env?, container?, pod?);
    let adds_nothing = env.is_none() && container.is_none() && pod.is_none();
    let (name, containers) = (name?, containers?);
    if adds_nothing {
        let hint = "give it `env`, `container`, `pod` or several of them";
        return Err(Diagnostic::error(MISSING_KEY, node.span, format!("the rule `{name}` adds nothing"))
            .hint(hint)
            .into());
    }
    let containers = match (containers, env.is_some(), container.is_some()) {
        (Some(condition), ..) => Containers::If(condition),
        (None, true, true) => {
            let message =
                format!("the rule `{name}` has `env` and `container`, but does not select containers");
            let hint =
                "add `containers: ranks`, or `containers: gpus > 0` to leave out the launcher of a job";
            return Err(Diagnostic::error(MISSING_KEY, node.span, message).hint(hint).into());
        }
        (None, true, false) => Containers::Ranks,
        (None, false, _) => Containers::Gpus,
    };
    let selected = env.unwrap_or_default().and(container.unwrap_or_default());
    let mut additions = vec![Addition::new(Section::Selected, selected)];
    additions.extend(pod.unwrap_or_default());
    Ok(Rule {
        span: node.span,
        name,
        when: when?,
        containers,
        on_conflict: on_conflict?.unwrap_or_default(),
        additions,
        ..Rule::default()
    })
}
