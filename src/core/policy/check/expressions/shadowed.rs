//! Values of rules that stay out of a pod because an earlier rule, or a rule of the base, sets another one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::policy::definition::{At, Containers, Definition, OnConflict, Placed, Rule, keys};
use crate::core::policy::expression::types::Kind;
use crate::core::policy::interpolation::{Interpolation, text_of};
use crate::core::policy::overlay::{self, Element, Key, Template};
use crate::core::policy::source::{Diagnostic, SHADOWED_VALUE};
use crate::core::yaml::Span;

use super::scope::Scope;
use crate::core::policy::check::writes;

/// A value that a rule sets.
struct Written<'d> {
    rule: &'d Rule,
    path: Vec<At>,
    /// The field within it at which a message points.
    at: Option<&'static str>,
    template: Template,
}

pub(in crate::core::policy::check) fn findings(definition: &Definition, scope: &Scope) -> Vec<Diagnostic> {
    let mut by_path: BTreeMap<Vec<At>, Vec<Written<'_>>> = BTreeMap::new();
    for written in writes(definition).flat_map(|placed| values(&placed)) {
        by_path.entry(written.path.clone()).or_default().push(written);
    }
    let mut found = Vec::new();
    for writers in by_path.values() {
        // The first for each condition: it precedes all others with the same one.
        let mut first: BTreeMap<(Option<String>, Option<String>), &Written<'_>> = BTreeMap::new();
        for later in writers {
            let earlier = wider(later.rule).into_iter().filter_map(|conditions| first.get(&conditions));
            let earlier = earlier.filter(|earlier| !earlier.rule.gives_way_to(&later.rule.name));
            let earlier = earlier.min_by_key(|one| one.rule.span.line).copied();
            // A later rule can replace a value, unless the earlier one insists on it.
            let stays = |earlier: &&Written<'_>| {
                (later.rule.on_conflict != OnConflict::Replace
                    || earlier.rule.on_conflict == OnConflict::Refuse)
                    && earlier.rule.name != later.rule.name
                    && shown(&earlier.template) != shown(&later.template)
            };
            found.extend(earlier.filter(stays).map(|earlier| finding(definition, earlier, later)));
            if !may_be_absent(&later.template, scope) {
                first.entry(conditions(later.rule)).or_insert(later);
            }
        }
    }
    found
}

/// The texts of the conditions of a rule.
fn conditions(rule: &Rule) -> (Option<String>, Option<String>) {
    let source = |condition: Option<&Interpolation>| condition.map(Interpolation::source);
    (source(rule.when.as_ref()), source(rule.containers.condition()))
}

/// The conditions of rules that apply wherever this one does.
fn wider(rule: &Rule) -> [(Option<String>, Option<String>); 4] {
    let (when, containers) = conditions(rule);
    let ranks = Containers::Ranks.condition().map(Interpolation::source);
    // The ranks have the GPUs.
    let wider = if rule.containers == Containers::Gpus { ranks } else { containers.clone() };
    [(None, wider.clone()), (None, containers.clone()), (when.clone(), wider), (when, containers)]
}

/// The warning for a value that no pod gets: wherever its rule applies, an earlier one sets another value first.
fn finding<'d>(definition: &'d Definition, first: &Written<'d>, later: &Written<'d>) -> Diagnostic {
    let (_, line) = definition.line_in_file(span(definition, first));
    let name = match later.path.last() {
        Some(At::Key(name) | At::Item(_, name)) => name.as_str(),
        None => "",
    };
    let (value, wanted) = (shown(&first.template), shown(&later.template));
    let outcome = match later.rule.on_conflict {
        OnConflict::Refuse | OnConflict::Replace => format!("so that the pod is refused for `{wanted}`"),
        OnConflict::Keep => format!("which stays in place of `{wanted}`"),
    };
    let message = format!(
        "wherever this rule applies, rule `{}` (line {line}) sets `{name}` to `{value}` first, {outcome}",
        first.rule.name
    );
    let hint = "let the `when` of one rule exclude the other, or set the value in one rule, as in `${condition ? 'a' : 'b'}`";
    Diagnostic::warning(SHADOWED_VALUE, span(definition, later), message).hint(hint)
}

fn span(definition: &Definition, written: &Written<'_>) -> Span {
    let path: Vec<At> = written.path.iter().cloned().chain(keys(written.at)).collect();
    definition.place_in(written.rule, &path)
}

/// Returns whether an expression may leave out the value, as `${condition ? 'x' : null}` does.
fn may_be_absent(template: &Template, scope: &Scope) -> bool {
    let mut absent = false;
    template.texts(&mut |text| absent |= scope.of_text(text).may_be(|kind| *kind == Kind::Null));
    absent
}

/// A value for a message and for comparison.
fn shown(template: &Template) -> String {
    match template {
        Template::Constant(value) => text_of(value),
        Template::Computed(text, _) => text.source(),
        Template::Object(_, fields) => {
            let fields = fields.iter().map(|(field, value)| format!("{}: {}", field.name, shown(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Template::Map(_, entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", key.source(), shown(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Template::List(items) => {
            format!("[{}]", items.iter().map(|Element(item)| shown(item)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The values of a write that stay once they are set.
fn values<'d>(placed: &Placed<'d>) -> Vec<Written<'d>> {
    let own = |path: Vec<At>, at: Option<&'static str>, template: &Template| Written {
        rule: placed.rule,
        path,
        at,
        template: template.clone(),
    };
    let path = placed.path();
    match (placed.write.key, placed.write.value) {
        (Key::Whole | Key::Of(Interpolation::Literal(_)), overlay::Written::Value(value)) => {
            vec![own(path, None, value)]
        }
        (Key::Of(Interpolation::Literal(name)), overlay::Written::Amount(amount)) => {
            let lists = [("limits", &amount.limit), ("requests", &amount.request)].into_iter();
            let written = lists.filter_map(|(list, value)| Some((list, value.as_ref()?)));
            let resources = &path[..path.len() - 2];
            let at = |list| resources.iter().cloned().chain(keys([list, name.as_str()])).collect();
            written.map(|(list, value)| own(at(list), None, value)).collect()
        }
        (Key::Fields([key]), overlay::Written::Entry(Element(entry))) => {
            let Some(Template::Constant(_)) = entry.field(key) else { return Vec::new() };
            match placed.write.field() {
                "env" => {
                    let mut kinds = ["value", "valueFrom"].into_iter();
                    let set = kinds.find_map(|kind| Some((kind, entry.field(kind)?)));
                    let (kind, value) = set.unwrap_or(("name", Template::Constant(Value::from(""))));
                    vec![own(path, Some(kind), &value)]
                }
                "volumeMounts" => {
                    let volume = entry.field("name");
                    volume.iter().map(|name| own(path.clone(), Some("name"), name)).collect()
                }
                _ => vec![own(path, None, entry)],
            }
        }
        _ => Vec::new(),
    }
}
