//! The expressions of a policy behind conditions that no plain sample meets: the labels and annotations that make such
//! conditions true, and the values that fail for all values of the same types.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use fabric_policy::expression::{Bindings, Expression, Path, Step, Use};
use fabric_policy::interpolation::{BUILT_IN, EvaluationError, Interpolation, OBJECTS, Phase, VALUE};
use fabric_policy::matcher::{SelectedLabel, Selection};
use fabric_policy::overlay::Evaluation;
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

/// A label or annotation of pods.
pub(super) struct Metadata {
    /// `labels` or `annotations`.
    pub(super) map: &'static str,
    pub(super) key: String,
    pub(super) value: String,
}

/// The nodes with whose labels expressions compare.
pub(super) fn nodes(definition: &Definition) -> Vec<Selection> {
    let selection = |compared: Compared| match compared.path.as_slice() {
        [Step::Field(label)] if compared.root == "node" => {
            let labels = vec![Arc::new(SelectedLabel::one(label, &compared.text.to_lowercase()))];
            Some(Selection { labels, ..Selection::default() })
        }
        _ => None,
    };
    all_compared(definition).into_iter().filter_map(selection).collect()
}

/// The labels and annotations of pods with which expressions compare.
pub(super) fn metadata(definition: &Definition) -> Vec<Metadata> {
    let metadata = |compared: Compared| match compared.path.as_slice() {
        [Step::Field(metadata), Step::Field(map), Step::Field(key)] if metadata == "metadata" => {
            let map = ["labels", "annotations"].into_iter().find(|known| known == map)?;
            Some(Metadata { map, key: key.clone(), value: compared.text })
        }
        _ => None,
    };
    all_compared(definition).into_iter().filter_map(metadata).collect()
}

/// The namespaces with which expressions compare that of the pod.
pub(super) fn namespaces(definition: &Definition) -> Vec<String> {
    all_compared(definition)
        .into_iter()
        .filter(|compared| compared.root == "podNamespace")
        .map(|one| one.text)
        .collect()
}

/// A value of the pod or of its nodes, and a text with which an expression compares it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Compared {
    root: String,
    path: Path,
    text: String,
}

fn all_compared(definition: &Definition) -> BTreeSet<Compared> {
    let mut compared = BTreeSet::new();
    definition.texts(&mut |text| {
        let uses = text.expressions().flat_map(Expression::uses);
        for Use { root, path, literals, .. } in
            uses.filter(|used| ["node", "pod", "podNamespace"].contains(&used.root.as_str()))
        {
            let is_namespace = root == "podNamespace";
            // The beginning or end of a name is not a name if it ends in a hyphen.
            let named = |text: String| match (is_namespace, text.starts_with('-'), text.ends_with('-')) {
                (true, true, _) => format!("a{text}"),
                (true, _, true) => format!("{text}a"),
                _ => text,
            };
            let texts = literals.iter().filter_map(|literal| Some(literal.as_str()?.to_owned()));
            let values = texts.map(named);
            let values = values.filter(|text| !text.is_empty() && Format::LabelValue.check(text).is_ok());
            compared.extend(values.map(|text| Compared { root: root.clone(), path: path.clone(), text }));
        }
    });
    compared.into_iter().take(MAX_VALUES).collect()
}
