//! A policy whose parameters have values, resolved once for each node that its tables know.
//!
//! A [`ResolvedPolicy`] has the rules that can apply with these values, its devices, and whether its expressions may
//! read the fields that its rules write. It is independent of any pod.

mod added_names;
mod devices;
mod known_nodes;
mod own_writes;
mod parameter_values;
mod pod_places;
mod resolved;

pub use devices::Devices;
use known_nodes::{KnownNodes, selections, tables};
pub use own_writes::choice_reads_writes;
use parameter_values::Given;
pub(crate) use parameter_values::ParameterValues;
pub use resolved::{Condition, EvaluatedPolicy, ResolvedPolicy};

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::definition::{Definition, POLICIES_IN_USE, keys};
use crate::interpolation::{Evaluated, EvaluationError, names_in, text_of};
use crate::matcher::selection::INSTANCE_TYPE;
use crate::matcher::{LabelsRead, PodContext, Selection, current};
use crate::parameter::Overrides;
use crate::source::{Diagnostic, NO_VALUE, SourceErrors};
use crate::work::{Ended, Work};
use fabric_yaml::Span;
use fabric_yaml::json::bytes_of;

/// A policy with the values of its parameters.
#[derive(Debug)]
pub struct Policy {
    definition: Definition,
    overrides: Overrides,
    /// `<policy>@<digest>`.
    stamp: String,
    pub nodes: KnownNodes,
    /// For pods that select none of the labels.
    general: Arc<EvaluatedPolicy>,
    /// For these, and for each node of a table.
    known: HashMap<ValuesKey, Arc<EvaluatedPolicy>>,
    cache: Arc<EvaluatedPolicies>,
}

/// Policies for combinations of labels and values that users choose, and for values in no table that an expression
/// reads; with the name of the policy.
pub type EvaluatedPolicies = Cache<(String, ValuesKey), Arc<EvaluatedPolicy>>;

/// The most bytes of an [`EvaluatedPolicies`]. The policies that are in use together share one.
const MOST_CACHED: usize = 32 << 20;

/// Returns an empty cache for the policies that are in use together.
pub fn evaluated_policies() -> Arc<EvaluatedPolicies> {
    Arc::new(Cache::new(MOST_CACHED))
}

/// The values on which an evaluated policy depends: those of its parameters, and what its expressions read of the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ValuesKey {
    values: Vec<Value>,
    read: Value,
}

/// The steps for each byte of the values of parameters that a policy keeps for a machine.
const STEPS_TO_COPY: usize = 8;
/// The steps to find the value of a parameter for one machine.
const STEPS_TO_FIND: usize = 50;

impl Policy {
    /// Gives a policy its parameter values. `overrides` are the operator's, checked by
    /// [`Parameter::parse`](crate::Parameter::parse) or read from a values file. `loading` counts the
    /// evaluations.
    pub fn new(definition: Definition, overrides: Overrides, loading: &Work) -> Result<Self, SourceErrors> {
        let nodes = KnownNodes::find(&definition, &overrides);
        let reads_nodes = nodes.labels != LabelsRead::none();
        let failed = |selection: &Selection, errors: Vec<EvaluationError>| {
            let located = |error: &EvaluationError| {
                let mut found = without_value(error, reads_nodes.then_some(selection));
                if let Some(span) = place_of_value(&definition, error).filter(|_| overrides.is_empty()) {
                    let hint = found.hint.take().filter(|hint| !hint.starts_with("look at"));
                    let hint = hint.unwrap_or_else(|| "correct the value".to_owned());
                    found = Diagnostic { span, ..found }.hint(hint);
                }
                definition.error(found)
            };
            errors.iter().map(located).collect::<Vec<_>>()
        };
        let mut errors = Vec::new();
        let mut known: HashMap<ValuesKey, Arc<EvaluatedPolicy>> = HashMap::new();
        let mut general = None;
        for selection in [Selection::default()].into_iter().chain(selections(&definition, &overrides)) {
            if loading.ended().is_some() {
                break;
            }
            let values = ParameterValues::resolve(&definition, &overrides, &selection).values;
            loading.goes_on(values.iter().map(bytes_of).sum::<usize>() * STEPS_TO_COPY);
            let Entry::Vacant(entry) = known.entry(ValuesKey::new(&nodes, values, &selection)) else {
                continue;
            };
            let values = &entry.key().values;
            let given = Given { definition: &definition, values, selection: &selection, work: loading };
            match EvaluatedPolicy::new(given) {
                Ok(evaluated) => {
                    let evaluated = entry.insert(Arc::new(evaluated));
                    general.get_or_insert_with(|| Arc::clone(evaluated));
                }
                Err(found) => errors.extend(failed(&selection, found)),
            }
        }
        if let Some(ended) = loading.ended() {
            // The last value that was evaluated is the one that takes too much memory.
            let of_memory = errors.pop().filter(|_| matches!(ended, Ended::Memory { .. }));
            let error = of_memory.unwrap_or_else(|| definition.too_costly(POLICIES_IN_USE, ended));
            return Err(SourceErrors::new(vec![error]));
        }
        let (Some(general), true) = (general, errors.is_empty()) else {
            return Err(SourceErrors::first_at_each_place(errors));
        };
        let stamp = stamp(&definition, &overrides);
        Ok(Self { definition, overrides, stamp, nodes, general, known, cache: evaluated_policies() })
    }

    /// Shares the cache with the policies that are in use together.
    #[must_use]
    pub fn with_cache(self, cache: &Arc<EvaluatedPolicies>) -> Self {
        Self { cache: Arc::clone(cache), ..self }
    }

    /// The devices for pods that select no nodes. They determine how the GPUs that tables read are counted.
    pub fn devices(&self) -> &Devices {
        &self.general.devices
    }

    /// The policy as its file declares it.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// The operator's values, by parameter.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// 12 hex digits over the texts of the policy and of those that it extends, and over the operator's values. It is
    /// the same for all pods, whatever nodes they select.
    pub fn digest(&self) -> &str {
        self.stamp().rsplit('@').next().unwrap_or_default()
    }

    /// The stamp of the pods: `<policy>@<digest>`.
    pub fn stamp(&self) -> &str {
        &self.stamp
    }

    /// Each node of a table: one value of one label, and the GPUs of the pod if the entry depends on them.
    pub fn known_nodes(&self) -> impl Iterator<Item = Selection> {
        selections(&self.definition, &self.overrides)
    }

    /// The node of the first entry of a table.
    pub fn first_node(&self) -> Option<&Selection> {
        self.nodes.first.as_ref()
    }

    /// Returns whether a pod that selects a label is for the nodes of this policy: the label is among those of
    /// `provider.nodes`, or its value is an instance type of a table.
    pub fn is_named_by(&self, label: &str, value: Option<&str>) -> bool {
        let nodes = self.definition.provider_nodes.as_ref();
        let is_known = |value: &str| {
            let mut tables = tables(&self.definition, &self.overrides);
            tables.any(|table| table.label == INSTANCE_TYPE && table.gpus_of(value).next().is_some())
        };
        nodes.is_some_and(|nodes| nodes.has_label(label, value))
            || current(label) == INSTANCE_TYPE && value.is_some_and(|value| is_known(&value.to_lowercase()))
    }

    /// The resolved policy for the node selection of a pod.
    pub fn resolved(&self, selection: &Selection, context: &PodContext) -> Evaluated<Arc<ResolvedPolicy>> {
        let each = Selection::combinations(&selection.labels).unwrap_or(1).max(selection.kinds.len());
        if !context.goes_on(each * self.definition.by_node().count() * STEPS_TO_FIND) {
            return Err(EvaluationError::about(|_| {}, "there is no work left"));
        }
        let values = ParameterValues::resolve(&self.definition, &self.overrides, selection);
        let evaluated = self.evaluated(values.values.clone(), selection, context)?;
        Ok(Arc::new(ResolvedPolicy::new(evaluated, values)))
    }

    /// The policy for the node selection of a pod, with other values of its parameters.
    pub fn with_values(
        &self,
        values: &[Value],
        selection: &Selection,
        context: &PodContext,
    ) -> Evaluated<Arc<ResolvedPolicy>> {
        let evaluated = self.evaluated(values.to_vec(), selection, context)?;
        Ok(Arc::new(ResolvedPolicy::new(evaluated, ParameterValues::default())))
    }

    /// An evaluated policy, which is kept for other pods with the same values.
    fn evaluated(
        &self,
        values: Vec<Value>,
        selection: &Selection,
        context: &PodContext,
    ) -> Evaluated<Arc<EvaluatedPolicy>> {
        let work = context.work.clone().unwrap_or_else(|| Work::of_input(0));
        let key = ValuesKey::new(&self.nodes, values, selection);
        if let Some(evaluated) = self.known.get(&key) {
            return Ok(Arc::clone(evaluated));
        }
        self.cache.get_or_find(
            || (self.name().to_owned(), key.clone()),
            context.namespace.as_deref().unwrap_or_default(),
            context.work.as_ref(),
            || {
                let (definition, values) = (&self.definition, &*key.values);
                let evaluated = EvaluatedPolicy::new(Given { definition, values, selection, work: &work });
                evaluated.map(Arc::new).map_err(first)
            },
        )
    }
}

impl ValuesKey {
    fn new(nodes: &KnownNodes, values: Vec<Value>, selection: &Selection) -> Self {
        Self { values, read: nodes.read_of(selection) }
    }
}

fn stamp(definition: &Definition, overrides: &Overrides) -> String {
    let mut hash = Sha256::new();
    for text in definition.texts_of_files() {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    let overrides: Map<String, Value> =
        overrides.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
    hash.update(Value::Object(overrides).to_string().as_bytes());
    let digest = hash.finalize().iter().take(6).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    format!("{}@{digest}", definition.name)
}

fn first(errors: Vec<EvaluationError>) -> EvaluationError {
    errors.into_iter().next().unwrap_or_else(|| EvaluationError::about(|_| {}, "it has no value"))
}

/// The place of the only value of a parameter that an extension sets, or that the policy reads once: it is wrong there
/// rather than where it is read.
fn place_of_value(definition: &Definition, error: &EvaluationError) -> Option<Span> {
    let mut parameters = definition.parameters.iter();
    let parameter = parameters.find(|one| error.expression == format!("${{{}}}", one.name))?;
    if parameter.has_rows() || parameter.default.is_null() {
        return None;
    }
    let own = parameter.layers.iter().find_map(|layer| layer.value.as_ref());
    // Else something beside the value is wrong, such as the name of the resource.
    let value = own.map_or(&parameter.default, |(value, _)| value);
    let is_of_name = error.fault.hint.as_deref().is_some_and(|hint| hint.starts_with("write the size"));
    if is_of_name || !value.is_array() && !error.message.contains(&text_of(value)) {
        return None;
    }
    let mut readers = 0;
    definition.texts(&mut |text| readers += names_in(text).filter(|name| *name == parameter.name).count());
    let default = || definition.place(&keys(["parameters", &parameter.name, "default"]));
    own.map(|(_, span)| *span).or_else(|| (readers == 1).then(default))
}

/// An error for an expression without a value: for pods that select these nodes, or for all.
fn without_value(error: &EvaluationError, nodes: Option<&Selection>) -> Diagnostic {
    let for_nodes = nodes.map(|nodes| {
        let labels: Vec<String> = nodes.labels.iter().map(ToString::to_string).collect();
        let selects = if labels.is_empty() { "no nodes".to_owned() } else { labels.join(", ") };
        format!(" for a pod that selects {selects}")
    });
    let EvaluationError { expression, message, fault } = error;
    let message =
        format!("`{expression}` cannot be evaluated{}: {message}", for_nodes.as_deref().unwrap_or_default());
    let hint = match (fault.hint.as_deref(), nodes) {
        // The value is there for other nodes.
        (Some(guard), Some(_)) if guard.starts_with("read it") || guard.starts_with("guard") => {
            format!("{guard}, or guard its rule with a `when` that reads `node`")
        }
        (Some(hint), _) => hint.to_owned(),
        (None, Some(_)) => "look at the values that it has for these nodes".to_owned(),
        (None, None) => "docs/functions.md has the functions with examples".to_owned(),
    };
    Diagnostic::error(NO_VALUE, fault.span, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use fabric_allocator::held;

    use super::*;
    use crate::SelectedLabel;

    fn policy(variable: &str) -> Policy {
        let text = format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: test}}\nspec:\n  \
             provider: test\n  description: d\n  gpus: {{resources: [nvidia.com/gpu]}}\n  match: {{labels: {{a: b}}}}\n  \
             parameters:\n    ratio: {{type: number, description: d}}\n  machines:\n    \
             pool: {{a: {{ratio: 1}}, c: {{ratio: {{8: 2}}}}}}\n    size: {{big: {{ratio: 3}}}}\n  variables: {{v: \"{variable}\"}}\n  rules:\n    \
             - name: r\n      env: {{A: '${{v}}'}}\n"
        );
        let definition = Definition::read("test.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
        Policy::new(definition, Overrides::new(), &Work::of_loading())
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn selection(labels: &[(&str, &[&str])], gpus: i64) -> Selection {
        let selected = |(label, values): &(&str, &[&str])| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            Arc::new(SelectedLabel { label: (*label).to_owned(), values })
        };
        Selection { labels: labels.iter().map(selected).collect(), gpus: Some(gpus), ..Selection::default() }
    }

    fn resolved(policy: &Policy, labels: &[(&str, &[&str])], gpus: i64) -> Arc<ResolvedPolicy> {
        policy.resolved(&selection(labels, gpus), &PodContext::default()).unwrap()
    }

    #[test]
    fn values_that_nothing_reads_share_an_evaluated_policy() {
        let policy = policy("${node[?'zone'].orValue('')}");
        let same = |one: &[(&str, &[&str])], other: &[(&str, &[&str])]| {
            resolved(&policy, one, 8).is_as(&resolved(&policy, other, 4))
        };
        assert!(same(&[("pool", &["x"])], &[]));
        assert!(same(&[("pool", &["x", "y"]), ("size", &["z"])], &[]));
        assert!(same(&[("pool", &["a"])], &[("pool", &["a"]), ("size", &["x"])]));
        assert!(same(&[("pool", &["a", "x"])], &[("pool", &["a", "y"])]));
        assert!(same(&[("zone", &["x"])], &[("zone", &["x"])]));
        assert!(!same(&[("zone", &["x"])], &[("zone", &["y"])]));
        let of_pool_c = |gpus| resolved(&policy, &[("pool", &["c"])], gpus);
        assert!(of_pool_c(4).is_as(&of_pool_c(2)) && !of_pool_c(8).is_as(&of_pool_c(2)));
        assert_eq!(policy.cache.len(), 2, "those of zones, which are in no table");
    }

    #[test]
    fn values_of_a_label_of_which_only_the_presence_is_read_share_an_evaluated_policy() {
        let policy = policy("${node[?'zone'].hasValue() ? 'a' : 'b'}");
        let in_zone = |zone| resolved(&policy, &[("zone", &[zone])], 8);
        assert!(in_zone("x").is_as(&in_zone("y")));
        assert!(!in_zone("x").is_as(&resolved(&policy, &[], 8)));
        assert_eq!(policy.cache.len(), 1);
    }

    #[test]
    fn the_labels_that_a_policy_reads_are_known_unless_a_key_is_computed() {
        let labels =
            |names: &[&str]| LabelsRead::These(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(policy("${node[?'zone'].orValue('')}").nodes.labels, labels(&["pool", "size", "zone"]));
        assert_eq!(policy("x").nodes.labels, labels(&["pool", "size"]));
        for all in ["${node[?string(1)].orValue('')}", "${string('zone' in node)}", "${string(size(node))}"] {
            assert_eq!(policy(all).nodes.labels, LabelsRead::All, "{all}");
        }
    }

    #[test]
    fn evaluated_policies_for_values_of_users_take_bounded_memory() {
        let policy = policy("${node[?'zone'].orValue('')}");
        let in_zone = |zone: &str| {
            let work = Work::of_input(0).measured_by(held);
            let context = PodContext { work: Some(work), ..PodContext::default() };
            drop(policy.resolved(&selection(&[("zone", &[zone])], 1), &context).unwrap());
        };
        let before = held();
        (0..20_000).for_each(|zone| in_zone(&zone.to_string()));
        let bytes = usize::try_from(held() - before).unwrap();
        assert!((MOST_CACHED / 2..MOST_CACHED * 5 / 4).contains(&bytes), "{bytes}");
        assert!(policy.cache.len() < 20_000, "{}", policy.cache.len());
        // A long value is in the key, in the node and in the variable.
        let long = |zone: usize| in_zone(&format!("{zone}{}", "x".repeat(700_000)));
        (0..40).for_each(long);
        assert!(policy.cache.len() <= MOST_CACHED / (3 * 700_000), "{}", policy.cache.len());
    }
}
