//! Values of rules that stay out of a pod because an earlier rule, or a rule of the base, sets another one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::policy::definition::{Definition, OnConflict, Rule};
use crate::core::policy::diagnostic::{Diagnostic, SHADOWED_VALUE};
use crate::core::policy::expression::types::Kind;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::interpolation::text_of;
use crate::core::policy::overlay::{Element, Instruction, StringValue, Template, Variable};

use super::Finding;
use super::meaning::Meaning;
use super::places::{Place, Places, Step};
use super::satisfy::surely_meet;
use super::scope::Scope;

/// A value that a rule sets.
struct Written<'d> {
    rule: &'d Rule,
    path: Vec<Step>,
    /// The step at which a message points, after the path.
    at: Option<&'static str>,
    template: Template,
    /// False for a value outside of the containers.
    in_container: bool,
}

/// A value of which more than this many rules set another one is compared with the first ones only.
const MAX_WRITERS: usize = 16;

pub(super) fn findings(definition: &Definition, scope: &Scope, meaning: &Meaning<'_>) -> Vec<Finding> {
    let places = Places::of(definition);
    let mut by_path: BTreeMap<Vec<Step>, Vec<Written<'_>>> = BTreeMap::new();
    for rule in &definition.rules {
        of_rule(rule, &mut |written| by_path.entry(written.path.clone()).or_default().push(written));
    }
    let mut found = Vec::new();
    for writers in by_path.values().filter(|writers| writers.len() > 1) {
        for (at, later) in writers.iter().enumerate().skip(1) {
            if may_be_absent(&later.template, scope) {
                continue;
            }
            // A later rule can replace a value, unless the earlier one insists on it.
            let stays = |earlier: &&Written<'_>| {
                later.rule.on_conflict != OnConflict::Replace
                    || earlier.rule.on_conflict == OnConflict::Refuse
            };
            let earlier = writers[..at.min(MAX_WRITERS)].iter().filter(stays).find(|earlier| {
                earlier.rule.name != later.rule.name
                    && earlier.template != later.template
                    && shown(&earlier.template) != shown(&later.template)
                    && !may_be_absent(&earlier.template, scope)
                    && meet(earlier, later, meaning)
            });
            if let Some(earlier) = earlier
                && let Some(finding) = finding(earlier, later, definition, &places)
            {
                found.push(finding);
            }
        }
    }
    found
}

/// Returns whether both rules are sure to apply to some pod together.
fn meet(earlier: &Written<'_>, later: &Written<'_>, meaning: &Meaning<'_>) -> bool {
    let conditions = |written: &Written<'_>| {
        let condition = meaning.of_rule(written.rule);
        // Outside of the containers, two rules can apply by different containers.
        if written.in_container { condition } else { condition.without(&["container", "gpus", "gpuCounts"]) }
    };
    let depends = |one: &_, other: &_| meaning.depends(one, other);
    let (one, other) = (conditions(earlier), conditions(later));
    surely_meet(&one, &other, &depends) && !meaning.excludes(&[&one, &other])
}

/// Returns whether an expression may leave out the value, as `${condition ? 'x' : null}` does.
fn may_be_absent(template: &Template, scope: &Scope) -> bool {
    let mut absent = false;
    template.texts(&mut |text| absent |= scope.of_text(text).may_be(|kind| *kind == Kind::Null));
    absent
}

fn finding(
    earlier: &Written<'_>,
    later: &Written<'_>,
    definition: &Definition,
    places: &Places<'_>,
) -> Option<Finding> {
    let place_of = |written: &Written<'_>| {
        let at = written.at.map(|name| Step::Field(name.to_owned()));
        let path: Vec<Step> = written.path.iter().cloned().chain(at).collect();
        places.value(&written.rule.name, &path)
    };
    let place = place_of(later)?;
    if place.file != definition.file {
        return None;
    }
    let first = place_of(earlier)?;
    let of_base = first.file != definition.file;
    let Place { file, span } = first;
    let line = if of_base { format!("{file}:{}", span.line) } else { format!("line {}", span.line) };
    let name = match later.path.last()? {
        Step::Field(name) | Step::Entry(_, name) => name,
    };
    let (seen, wanted) = (shown(&earlier.template), shown(&later.template));
    let outcome = match later.rule.on_conflict {
        OnConflict::Refuse | OnConflict::Replace => {
            format!("so that a pod to which both rules apply is refused for `{wanted}`")
        }
        OnConflict::Keep => format!("which stays in a pod to which both rules apply, in place of `{wanted}`"),
    };
    let message = format!("rule `{}` ({line}) sets `{name}` to `{seen}`, {outcome}", earlier.rule.name);
    let hint = if of_base && later.rule.on_conflict == OnConflict::Keep {
        "write `onConflict: replace` in this rule to replace the value of the base"
    } else {
        "let the `when` of one rule exclude the other, or set the value in one rule, as in `${condition ? 'a' : 'b'}`"
    };
    let diagnostic = Diagnostic::warning(SHADOWED_VALUE, place.span, message).hint(hint);
    Some(Finding::placed(diagnostic, definition))
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

type Visit<'v, 'd> = &'v mut dyn FnMut(Written<'d>);

/// Calls `visit` with every value of a rule that stays once it is set.
fn of_rule<'d>(rule: &'d Rule, visit: Visit<'_, 'd>) {
    let mut walker = Walker { rule, in_container: true, visit };
    walker.all(&rule.container, &[field("container")]);
    for container in &rule.pod.containers {
        let Some(name) = container.name.as_text() else { continue };
        let path = [field("pod"), field("spec"), field(container.list), Step::Entry("name", name.to_owned())];
        walker.all(&container.instructions, &path);
    }
    walker.in_container = false;
    walker.all(&rule.pod.instructions, &[field("pod")]);
}

fn field(name: &str) -> Step {
    Step::Field(name.to_owned())
}

struct Walker<'v, 'd> {
    rule: &'d Rule,
    in_container: bool,
    visit: Visit<'v, 'd>,
}

impl Walker<'_, '_> {
    fn all(&mut self, instructions: &[Instruction], path: &[Step]) {
        for instruction in instructions {
            self.instruction(instruction, path);
        }
    }

    fn instruction(&mut self, instruction: &Instruction, path: &[Step]) {
        let within = |name: &str| -> Vec<Step> { path.iter().cloned().chain([field(name)]).collect() };
        match instruction {
            Instruction::Object { field, instructions } => self.all(instructions, &within(field.name)),
            Instruction::Value { field, template } => self.put(&within(field.name), None, None, template),
            Instruction::Entries { field, entries, .. } => {
                for (key, value) in entries {
                    let Interpolation::Literal(key) = key else { continue };
                    self.put(&within(field.name), Some(self::field(key)), None, value);
                }
            }
            Instruction::Annotations { field, entries, .. } => {
                for (key, value) in entries {
                    let (Interpolation::Literal(key), StringValue::Text(value)) = (key, value) else {
                        continue;
                    };
                    self.put(&within(field.name), Some(self::field(key)), None, value);
                }
            }
            Instruction::Env { field, variables } => {
                for variable in variables {
                    let Variable::Entry(Element(entry)) = variable else { continue };
                    let Some(name) = entry.literal("name") else { continue };
                    let step = Some(Step::Entry("name", name.to_owned()));
                    let mut kinds = ["value", "valueFrom"].into_iter();
                    let set = kinds.find_map(|kind| Some((kind, entry.field(kind)?)));
                    let (kind, value) = set.unwrap_or(("name", Template::Constant(Value::from(""))));
                    self.put(&within(field.name), step, Some(kind), &value);
                }
            }
            Instruction::Mounts { field, mounts } => {
                for Element(mount) in mounts {
                    let Some(path) = mount.literal("mountPath") else { continue };
                    let step = Some(Step::Entry("mountPath", path.to_owned()));
                    let Some(name) = mount.field("name") else { continue };
                    self.put(&within(field.name), step, Some("name"), &name);
                }
            }
            Instruction::Keyed { field, keys: [key], entries } => {
                for Element(entry) in entries {
                    let Some(Template::Constant(value)) = entry.field(key) else { continue };
                    let step = Some(Step::Entry(key, text_of(&value)));
                    self.put(&within(field.name), step, None, entry);
                }
            }
            Instruction::Amounts(amounts) => {
                for amount in amounts {
                    let Interpolation::Literal(name) = &amount.resource else { continue };
                    for (list, value) in [("limits", &amount.limit), ("requests", &amount.request)] {
                        let Some(value) = value else { continue };
                        self.put(&within(list), Some(self::field(name)), None, value);
                    }
                }
            }
            Instruction::Keyed { .. }
            | Instruction::Set { .. }
            | Instruction::Replace { .. }
            | Instruction::Capabilities { .. }
            | Instruction::Claims { .. }
            | Instruction::Computed { .. } => {}
        }
    }

    fn put(&mut self, path: &[Step], step: Option<Step>, at: Option<&'static str>, template: &Template) {
        let path = path.iter().cloned().chain(step).collect();
        let (rule, in_container) = (self.rule, self.in_container);
        (self.visit)(Written { rule, path, at, template: template.clone(), in_container });
    }
}
