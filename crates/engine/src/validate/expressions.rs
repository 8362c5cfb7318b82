//! Tries the expressions that no plain sample reaches, because a condition is false for all of them: it looks for values of
//! pods that make the condition true, and reports an expression that fails for each value of the type that it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use fabric_policy::expression::{Bindings, Comparison, Expression, Path, Step, Use};
use fabric_policy::interpolation::{BUILT_IN, EvaluationError, Interpolation, OBJECTS, Phase, VALUE};
use fabric_policy::matcher::{SelectedLabel, Selection};
use fabric_policy::overlay::{Addition, Evaluation};
use fabric_policy::schema::Format;
use fabric_policy::work::Work;
use fabric_policy::{Definition, PodContext, Policy, ResolvedPolicy, Rule};

use crate::analysis::{PodAnalysis, resolve};
use crate::evaluate::Scope;

/// The first value of each rule and check that fails for a sample because of the types that it reads. A condition that
/// reads the same values may guard it.
pub(super) fn failures(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<(String, EvaluationError)> {
    let mut found: Vec<(String, EvaluationError)> = Vec::new();
    let definition = policy.definition();
    // An injection evaluates fewer values: those that its expressions need with the parameters as they are.
    let work = context.work.clone().unwrap_or_else(|| Work::of_input(0));
    let Ok((nodes, _)) = resolve(policy, pod, context) else { return found };
    let Ok(resolved) = ResolvedPolicy::with_all_names(policy, &nodes, &work) else { return found };
    let Ok(analysis) = PodAnalysis::new((nodes, resolved.into()), pod, context) else { return found };
    let of_pod = Scope::of_pod(&analysis);
    let containers: Vec<_> = analysis.containers.iter().map(|one| of_pod.of_container(one)).collect();
    for scope in [&of_pod].into_iter().chain(&containers).chain([&of_pod.of_injected(pod)]) {
        let phase = scope.phase();
        let bindings = &scope.bindings();
        let is_of_scope = |text: &&Interpolation| text.phase(&definition.names).max(Phase::Pod) == phase;
        let mut add = |place: String,
                       guards: &[&Interpolation],
                       bindings: &Bindings<'_, '_>,
                       of_values: Option<EvaluationError>,
                       texts: Texts<'_>| {
            let unguarded = |error: &EvaluationError| {
                error.fault.is_of_types && !is_guarded(definition, error, guards, texts)
            };
            let conditions = guards.iter().copied().filter(is_of_scope);
            let errors = conditions.filter_map(|condition| condition.is_true(bindings).err());
            if !found.iter().any(|(known, _)| *known == place) {
                found.extend(errors.chain(of_values).find(unguarded).map(|error| (place, error)));
            }
        };
        for rule in &definition.rules {
            let guards: Vec<&Interpolation> = rule.when.iter().chain([rule.containers.condition()]).collect();
            let of_values = failure_of_values(rule, phase, bindings);
            add(format!("rule `{}`", rule.name), &guards, bindings, of_values, &|visit| rule.texts(visit));
        }
        for check in &definition.checks {
            let mut bindings = bindings.child();
            bindings.set(VALUE, &"sample".into());
            let guards: Vec<&Interpolation> = check.conditions().collect();
            let message = Some(&check.message).filter(is_of_scope);
            let of_message = message.and_then(|text| text.evaluate(&bindings).err());
            let place = format!("the check `{}`", check.code);
            add(place, &guards, &bindings, of_message, &|visit| check.texts(visit));
        }
    }
    found
}

/// Calls a function with every text of a rule or check.
type Texts<'t> = &'t dyn Fn(&mut dyn FnMut(&Interpolation));

/// The first failure among the values that a rule merges in a phase.
fn failure_of_values(rule: &Rule, phase: Phase, bindings: &Bindings<'_, '_>) -> Option<EvaluationError> {
    let mut evaluation = Evaluation::new(bindings, false);
    let mut additions = rule.additions.iter().filter(|addition| addition.section.phase() == phase);
    additions.find_map(|addition| evaluation.object(&addition.tree, addition.section.object()).err())
}

/// Returns whether another condition reads a value that the failed text reads, and whose type can differ.
fn is_guarded(
    definition: &Definition,
    error: &EvaluationError,
    guards: &[&Interpolation],
    texts: Texts<'_>,
) -> bool {
    let is_failed = |text: &Interpolation| {
        text.source() == error.expression || text.expressions().any(|one| one.written() == error.expression)
    };
    let mut read = BTreeSet::new();
    texts(&mut |text| {
        if is_failed(text) {
            read.extend(reads(definition, [text]).into_iter().filter(|name| !has_one_type(name)));
        }
    });
    let others = guards.iter().copied().filter(|guard| !is_failed(guard));
    !reads(definition, others).is_disjoint(&read)
}

fn has_one_type(name: &str) -> bool {
    !OBJECTS.contains(&name) && BUILT_IN.iter().any(|known| known.name == name)
}

/// The names that texts read, directly or through variables.
pub(super) fn reads<'t>(
    definition: &Definition,
    texts: impl IntoIterator<Item = &'t Interpolation>,
) -> BTreeSet<String> {
    let expressions = texts.into_iter().flat_map(Interpolation::expressions);
    definition.with_names_of_variables(expressions.flat_map(Expression::names).cloned().collect())
}

/// The number of values that are tried at most.
const MAX_VALUES: usize = 64;

/// The nodes with whose labels expressions compare.
pub(super) fn nodes(definition: &Definition) -> Vec<Selection> {
    let selection = |(path, text): (Path, String)| match path.as_slice() {
        [Step::Field(label)] => {
            let labels = vec![Arc::new(SelectedLabel::one(label, &text.to_lowercase()))];
            Some(Selection { labels, ..Selection::default() })
        }
        _ => None,
    };
    compared(definition, "node").filter_map(selection).collect()
}

/// The namespaces with which expressions compare that of the pod.
pub(super) fn namespaces(definition: &Definition) -> Vec<String> {
    compared(definition, "podNamespace").map(|(_, text)| text).collect()
}

/// Samples with the texts with which expressions compare their values, each alone, and then those of all values. The name
/// of a container is tried in every kind of pod: a rule may apply to no other container.
pub(super) fn samples(
    definition: &Definition,
    kinds: &[(String, Value)],
    limit: usize,
) -> Vec<(String, Value)> {
    let texts = of_pods(definition);
    let name = ("/spec/containers/0".to_owned(), "name".to_owned());
    let alone = texts.iter().flat_map(|(place, texts)| texts.iter().map(move |text| vec![(place, text)]));
    let all = if texts.len() > 1 { texts.get(&name).map_or(1, BTreeSet::len) } else { 0 };
    let nth = |at: usize| {
        texts.iter().filter_map(|(place, texts)| Some((place, texts.iter().cycle().nth(at)?))).collect()
    };
    let samples = alone.chain((0..all).map(nth)).flat_map(|values: Vec<_>| {
        let of_each = values.iter().any(|(place, _)| **place == name);
        let kinds = kinds.iter().take(if of_each { usize::MAX } else { 1 });
        kinds.filter_map(|(what, pod)| with_texts(what.clone(), pod.clone(), &values)).collect::<Vec<_>>()
    });
    samples.take(limit).collect()
}

/// A sample with texts for the keys of its objects; none if it has none of these objects.
fn with_texts(
    mut what: String,
    mut pod: Value,
    texts: &[(&(String, String), &String)],
) -> Option<(String, Value)> {
    let before = what.len();
    for ((object, key), text) in texts {
        let object = object.replace('*', "0");
        let Some(Value::Object(map)) = pod.pointer_mut(&object) else { continue };
        map.insert(key.clone(), Value::from(text.as_str()));
        what += if what.len() == before { " and with " } else { ", " };
        let is_container = key == "name" && object.ends_with("ontainers/0");
        what += &if is_container { format!("the container {text}") } else { format!("{key}: {text}") };
    }
    (what.len() > before).then_some((what, pod))
}

/// The texts with which expressions compare a value of a pod, and the names of the containers that rules change and do
/// not add, by the JSON Pointer of the object that has the value, and its key. `*` is any entry of a list.
fn of_pods(definition: &Definition) -> BTreeMap<(String, String), BTreeSet<String>> {
    let additions = || definition.rules.iter().flat_map(|rule| &rule.additions);
    let name = |one: &Addition| Some(one.container_name()?.name.as_str()?.to_owned());
    let added: BTreeSet<String> = additions().filter(|one| one.image().is_some()).filter_map(name).collect();
    let path: Path = container().chain([Step::Field("name".to_owned())]).collect();
    let changed = additions().filter_map(name).filter(|name| !added.contains(name));
    let changed = changed.map(|name| (path.clone(), name));
    let mut texts: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in compared(definition, "pod").chain(changed) {
        let Some((key, object)) = path.split_last() else { continue };
        let object = object.iter().flat_map(|step| ["/", step.token()]).collect();
        texts.entry((object, key.token().to_owned())).or_default().insert(text);
    }
    texts
}

/// The path of the container that a rule selects.
fn container() -> impl Iterator<Item = Step> {
    ["spec", "containers", "0"].into_iter().map(|token| Step::Field(token.to_owned()))
}

/// The values of the pod or of its nodes with this name, each with a text with which an expression compares it.
fn compared(definition: &Definition, name: &str) -> impl Iterator<Item = (Path, String)> + use<> {
    let mut compared = BTreeSet::new();
    definition.texts(&mut |text| {
        let uses = text.expressions().flat_map(|one| &one.uses);
        for used in uses {
            let (root, path) = source(definition, used);
            let is_free = |step: &Step| ["annotations", "image"].contains(&step.token());
            let is_free = path.iter().any(is_free);
            // The beginning or end of a name is not a name if it ends in a hyphen.
            let named = |text: &str| match (text.starts_with('-'), text.ends_with('-')) {
                (true, _) => format!("a{text}"),
                (_, true) => format!("{text}a"),
                _ => text.to_owned(),
            };
            let literals = if used.comparison == Comparison::None { &[][..] } else { &used.literals };
            let texts = literals.iter().filter_map(Value::as_str).map(named);
            // A label of a node may only have to be there.
            let any = (name == "node" && literals.is_empty()).then(|| "sample".to_owned());
            let texts = texts.chain(any).filter(|text| !text.is_empty() && root == name);
            let texts = texts.filter(|text| is_free || Format::LabelValue.check(text).is_ok());
            compared.extend(texts.map(|text| (path.clone(), text)));
        }
    });
    compared.into_iter().take(MAX_VALUES)
}

/// The value that an expression reads, also through a variable of which it is the only one.
fn source<'d>(definition: &'d Definition, used: &'d Use) -> (&'d str, Path) {
    let variable = definition.variables.iter().find(|variable| variable.name == used.root);
    let within = variable.and_then(|variable| variable.value.as_text()).into_iter();
    let within: Vec<&Use> = within.flat_map(Interpolation::expressions).flat_map(|one| &one.uses).collect();
    let (root, start) =
        if let [only] = *within { (&*only.root, &*only.path) } else { (&*used.root, &[][..]) };
    let path = start.iter().chain(&used.path).cloned();
    if root == "container" { ("pod", container().chain(path).collect()) } else { (root, path.collect()) }
}
