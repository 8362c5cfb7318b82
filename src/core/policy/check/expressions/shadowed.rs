//! Values of rules that stay out of a pod because an earlier rule, or a rule of the base, sets another one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::counted;
use crate::core::policy::definition::{At, Definition, OnConflict, Placed, Rule, keys};
use crate::core::policy::expression::types::Kind;
use crate::core::policy::interpolation::{Interpolation, text_of};
use crate::core::policy::overlay::{self, Element, Key, Template};
use crate::core::policy::source::{Diagnostic, SHADOWED_VALUE};
use crate::core::yaml::Span;

use super::samples::Samples;
use super::scope::Scope;
use super::trials::Parameters;
use crate::core::policy::check::writes;

/// A value that a rule sets.
struct Written<'d> {
    rule: &'d Rule,
    path: Vec<At>,
    /// The field within it at which a message points.
    at: Option<&'static str>,
    template: Template,
}

/// A value of which more than this many rules set another one is compared with the first ones only.
const MAX_WRITERS: usize = 16;

pub(in crate::core::policy::check) fn findings(
    definition: &Definition,
    scope: &Scope,
    samples: &Samples<'_>,
) -> Vec<Diagnostic> {
    let mut by_path: BTreeMap<Vec<At>, Vec<Written<'_>>> = BTreeMap::new();
    for written in writes(definition).flat_map(|placed| values(&placed)) {
        by_path.entry(written.path.clone()).or_default().push(written);
    }
    let tried = Tried { definition, scope, samples };
    let mut found = Vec::new();
    for writers in by_path.values().filter(|writers| writers.len() > 1) {
        for (at, later) in writers.iter().enumerate().skip(1) {
            // A later rule can replace a value, unless the earlier one insists on it.
            let stays = |earlier: &&Written<'_>| {
                later.rule.on_conflict != OnConflict::Replace
                    || earlier.rule.on_conflict == OnConflict::Refuse
            };
            let is_other = |earlier: &&Written<'_>| {
                earlier.rule.name != later.rule.name && shown(&earlier.template) != shown(&later.template)
            };
            let earlier: Vec<&Written<'_>> =
                writers[..at].iter().filter(stays).filter(is_other).take(MAX_WRITERS).collect();
            if !earlier.is_empty() {
                found.extend(tried.finding(&earlier, later));
            }
        }
    }
    found
}

struct Tried<'t, 'd> {
    definition: &'d Definition,
    scope: &'t Scope,
    samples: &'t Samples<'d>,
}

/// What samples show of a value and of those that earlier rules set.
#[derive(Default)]
struct Seen {
    /// The samples to which the rule applies with a value.
    all: usize,
    /// Those among them in which an earlier rule sets a value.
    before: usize,
    /// The earlier rule, by position, and its value, if that is another one.
    other: Option<(usize, String)>,
    /// False if a pod can exist that is like none of the samples.
    is_all: bool,
}

impl<'d> Tried<'_, 'd> {
    fn finding(&self, earlier: &[&Written<'d>], later: &Written<'d>) -> Option<Diagnostic> {
        let of_base: Vec<&Written<'d>> = earlier.iter().copied().filter(|one| self.is_of_base(one)).collect();
        // Whoever extends a policy may not know all of its rules. Within a policy, one rule can be for some pods, and a
        // later one for the rest.
        let by_base =
            Some(self.seen(&of_base, later, Parameters::Defaults)).filter(|seen| seen.other.is_some());
        let (candidates, seen) = match by_base {
            Some(seen) => (&*of_base, seen),
            None => (earlier, self.seen(earlier, later, Parameters::Any)),
        };
        let (first, value) = seen.other.as_ref().map(|(at, value)| (candidates[*at], value))?;
        let of_base = self.is_of_base(first);
        let is_always = seen.is_all && seen.before == seen.all;
        if !of_base && !is_always {
            return None;
        }
        let place = self.definition.error(Diagnostic::new(self.span(first), ""));
        let line = place.diagnostic.span.line;
        let line = if of_base { format!("{}:{line}", place.file) } else { format!("line {line}") };
        let (At::Key(name) | At::Item(_, name)) = later.path.last()?;
        let number = match (seen.before, seen.all) {
            (before, all) if before == all => format!("each of {}", counted(all, "sample pod")),
            (before, all) => format!("{before} of {}", counted(all, "sample pod")),
        };
        let wanted = shown(&later.template);
        let outcome = match later.rule.on_conflict {
            OnConflict::Refuse | OnConflict::Replace => format!("so that the pod is refused for `{wanted}`"),
            OnConflict::Keep => format!("which stays in place of `{wanted}`"),
        };
        let message = format!(
            "in {number} to which this rule applies, rule `{}` ({line}) sets `{name}` to `{value}` first, \
             {outcome}",
            first.rule.name
        );
        let hint = if of_base && later.rule.on_conflict == OnConflict::Keep {
            "write `onConflict: replace` in this rule to replace the value of the base"
        } else {
            "let the `when` of one rule exclude the other, or set the value in one rule, as in `${condition ? 'a' : 'b'}`"
        };
        Some(Diagnostic::warning(SHADOWED_VALUE, self.span(later), message).hint(hint))
    }

    fn span(&self, written: &Written<'_>) -> Span {
        let path: Vec<At> = written.path.iter().cloned().chain(keys(written.at)).collect();
        self.definition.place_in(written.rule, &path)
    }

    fn is_of_base(&self, written: &Written<'_>) -> bool {
        self.definition.is_of_base(written.rule.span)
    }

    /// Tries a rule and those before it that set the same value.
    fn seen(&self, earlier: &[&Written<'d>], later: &Written<'d>, parameters: Parameters) -> Seen {
        let mut seen = Seen::default();
        if earlier.is_empty() {
            return seen;
        }
        let matcher: Vec<&Interpolation> = self.definition.matcher.when.iter().collect();
        let conditions = |written: &Written<'d>| self.samples.conditions_of(written.rule);
        let (wanted, before) =
            (conditions(later), earlier.iter().map(|one| conditions(one)).collect::<Vec<_>>());
        let templates = || earlier.iter().chain([&later]).map(|written| &written.template);
        let mut texts: Vec<Interpolation> = Vec::new();
        for template in templates().filter(|template| may_be_absent(template, self.scope)) {
            template.texts(&mut |text| texts.push(text.clone()));
        }
        let all = matcher.iter().chain(&wanted).chain(before.iter().flatten()).copied().chain(&texts);
        let is_all = self.samples.each(&all.collect::<Vec<_>>(), parameters, &mut |sample| {
            let value = |written: &Written<'_>| match sample.build(&written.template) {
                Ok(value) => value.map(|value| text_of(&value)),
                // The expression does not decide on whether there is a value.
                Err(()) => Some(shown(&written.template)),
            };
            if !sample.all_hold(&matcher) || !sample.all_hold(&wanted) {
                return;
            }
            let Some(wanted) = value(later) else { return };
            seen.all += 1;
            let applies = |at: &usize| sample.all_hold(&before[*at]);
            let first = (0..earlier.len()).filter(applies).find_map(|at| Some((at, value(earlier[at])?)));
            if let Some((at, value)) = first {
                seen.before += 1;
                if seen.other.is_none() && value != wanted {
                    seen.other = Some((at, value));
                }
            }
        });
        Seen { is_all, ..seen }
    }
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
