//! A policy whose parameters have values, resolved once for each node that its tables know.
//!
//! A [`ResolvedPolicy`] has the rules that can apply with these values, its devices, and whether its expressions may
//! read the fields that its rules write. It is independent of any pod.

mod added_names;
mod devices;
mod known_nodes;
mod own_writes;
mod parameter_values;
mod resolved;

pub use devices::Devices;
pub(crate) use known_nodes::KnownNodes;
pub use own_writes::choice_reads_writes;
pub(crate) use parameter_values::ParameterValues;
pub use resolved::{Condition, ResolvedPolicy};

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::definition::{Definition, POLICIES_IN_USE};
use crate::interpolation::EvaluationError;
use crate::matcher::selection::INSTANCE_TYPE;
use crate::matcher::{LabelsRead, Selection, current};
use crate::parameter::Override;
use crate::source::{Diagnostic, NO_VALUE, SourceErrors};
use crate::work::Work;
use parameter_values::computed_of_node;

/// A policy with the values of its parameters.
#[derive(Debug)]
pub struct Policy {
    definition: Definition,
    overrides: BTreeMap<String, Override>,
    /// `<policy>@<digest>`.
    stamp: String,
    nodes: KnownNodes,
    /// For pods that select none of the labels, and for values in no table.
    general: Arc<ResolvedPolicy>,
    /// For one value of one label.
    by_node: HashMap<Selection, Arc<ResolvedPolicy>>,
    /// For combinations of labels or values, and for values in no table if an expression reads them.
    others: RwLock<HashMap<Selection, Arc<ResolvedPolicy>>>,
    /// Those with everything that the file has.
    whole: RwLock<HashMap<Selection, Arc<ResolvedPolicy>>>,
}

/// The limit on the size of `others` and `whole`, which are cleared when full: the values come from users.
const MAX_OTHERS: usize = 256;

/// The steps for each byte of the values of parameters that a policy keeps for a machine.
const STEPS_TO_COPY: usize = 8;

impl Policy {
    /// Gives a policy its parameter values. `overrides` are the operator's, checked by
    /// [`Parameter::parse`](crate::Parameter::parse) or read from a values file. `loading` counts the
    /// evaluations.
    pub fn new(
        definition: Definition,
        overrides: BTreeMap<String, Override>,
        loading: &Work,
    ) -> Result<Self, SourceErrors> {
        let nodes = KnownNodes::of(&definition, &overrides);
        let reads_nodes = nodes.labels != LabelsRead::none();
        let failed = |selection: &Selection, errors: Vec<EvaluationError>| {
            let located = |error: &EvaluationError| {
                definition.error(without_value(error, reads_nodes.then_some(selection)))
            };
            errors.iter().map(located).collect::<Vec<_>>()
        };
        let values = |selection: &Selection| ParameterValues::resolve(&definition, &overrides, selection);
        let resolve = |selection: &Selection| {
            ResolvedPolicy::new(&definition, values(selection), selection, loading)
                .map(Arc::new)
                .map_err(|found| failed(selection, found))
        };
        let mut errors = Vec::new();
        let general = resolve(&Selection::default()).map_err(|found| errors.extend(found)).ok();
        let mut by_node = HashMap::new();
        // Nodes with the same values share a resolved policy.
        let mut known: HashMap<[u8; 32], Arc<ResolvedPolicy>> = HashMap::new();
        for selection in nodes.selections().take_while(|_| loading.ended().is_none()) {
            let values = values(&selection);
            let computed = if nodes.expressions_read(&selection) {
                match computed_of_node(&definition, &values, &selection, loading) {
                    Ok(computed) => computed,
                    Err(found) => {
                        errors.extend(failed(&selection, found));
                        continue;
                    }
                }
            } else {
                Some(Vec::new())
            };
            let text = serde_json::to_string(&(&values.values, &values.others, &computed)).ok();
            loading.goes_on(text.as_ref().map_or(0, String::len) * STEPS_TO_COPY);
            // Where an expression reads `node` itself, no two nodes are the same.
            let key: Option<[u8; 32]> = text.filter(|_| computed.is_some()).map(|text| {
                let remarks = format!("{:?}", values.notes);
                Sha256::new().chain_update(text).chain_update(remarks).finalize().into()
            });
            let resolved = match key.and_then(|key| known.get(&key)) {
                Some(resolved) => Arc::clone(resolved),
                None => match resolve(&selection) {
                    Ok(resolved) => resolved,
                    Err(found) => {
                        errors.extend(found);
                        continue;
                    }
                },
            };
            known.extend(key.map(|key| (key, Arc::clone(&resolved))));
            by_node.insert(selection, resolved);
        }
        if let Some(ended) = loading.ended() {
            return Err(SourceErrors::new(vec![definition.too_costly(POLICIES_IN_USE, ended)]));
        }
        let (others, whole) = (RwLock::default(), RwLock::default());
        let (Some(general), true) = (general, errors.is_empty()) else {
            return Err(SourceErrors::first_at_each_place(errors));
        };
        let stamp = stamp(&definition, &overrides);
        Ok(Self { definition, overrides, stamp, nodes, general, by_node, others, whole })
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
    pub fn overrides(&self) -> &BTreeMap<String, Override> {
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
        self.nodes.selections()
    }

    /// The node of the first entry of a table.
    pub fn first_node(&self) -> Option<&Selection> {
        self.nodes.first.as_ref()
    }

    /// The labels that tables and expressions read.
    pub fn labels(&self) -> &LabelsRead {
        &self.nodes.labels
    }

    /// Returns whether a pod that selects a label is for the nodes of this policy: the label is among those of
    /// `match.nodes`, or its value is an instance type of a table.
    pub fn is_named_by(&self, label: &str, value: Option<&str>) -> bool {
        let nodes = self.definition.matcher.nodes.as_ref();
        nodes.is_some_and(|nodes| nodes.has_label(label, value))
            || current(label) == INSTANCE_TYPE
                && value.is_some_and(|value| self.nodes.is_known(INSTANCE_TYPE, &value.to_lowercase()))
    }

    /// Returns whether a table reads the GPUs of the pod.
    pub fn tables_read_gpus(&self) -> bool {
        self.nodes.tables_read_gpus
    }

    /// The resolved policy with everything that its file has, whether or not these parameters need it.
    pub fn whole(&self, selection: &Selection) -> Result<Arc<ResolvedPolicy>, EvaluationError> {
        self.kept(&self.whole, self.nodes.key(selection), ResolvedPolicy::whole)
    }

    /// The resolved policy for the node selection of a pod.
    pub fn resolved(&self, selection: &Selection) -> Result<Arc<ResolvedPolicy>, EvaluationError> {
        let key = self.nodes.key(selection);
        if key.labels.is_empty() && key.kinds.is_empty() {
            return Ok(Arc::clone(&self.general));
        }
        if let Some(resolved) = self.by_node.get(&*key) {
            return Ok(Arc::clone(resolved));
        }
        self.kept(&self.others, key, ResolvedPolicy::new)
    }

    /// A resolved policy that is kept for other pods with the same nodes.
    fn kept(
        &self,
        known: &RwLock<HashMap<Selection, Arc<ResolvedPolicy>>>,
        key: Cow<'_, Selection>,
        resolve: impl Fn(
            &Definition,
            ParameterValues,
            &Selection,
            &Work,
        ) -> Result<ResolvedPolicy, Vec<EvaluationError>>,
    ) -> Result<Arc<ResolvedPolicy>, EvaluationError> {
        if let Some(resolved) = known.read().ok().and_then(|known| known.get(&*key).cloned()) {
            return Ok(resolved);
        }
        let mut values = ParameterValues::resolve(&self.definition, &self.overrides, &key);
        let others = std::mem::take(&mut values.others);
        let of = |values| resolve(&self.definition, values, &key, &Work::of_input(0)).map_err(first);
        let mut resolved = of(values)?;
        for values in others {
            resolved.others.push(Arc::new(of(ParameterValues { values, ..ParameterValues::default() })?));
        }
        let resolved = Arc::new(resolved);
        if let Ok(mut known) = known.write() {
            if known.len() == MAX_OTHERS {
                known.clear();
            }
            known.insert(key.into_owned(), Arc::clone(&resolved));
        }
        Ok(resolved)
    }
}

fn stamp(definition: &Definition, overrides: &BTreeMap<String, Override>) -> String {
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

/// An error for an expression without a value: for pods that select these nodes, or for all.
fn without_value(error: &EvaluationError, nodes: Option<&Selection>) -> Diagnostic {
    let Some(nodes) = nodes else {
        let message = format!("`{}` cannot be evaluated: {}", error.expression, error.message);
        let hint = error.fault.hint.as_deref().unwrap_or("docs/functions.md has the functions with examples");
        return Diagnostic::new(error.fault.span, message).code(NO_VALUE).hint(hint);
    };
    let labels: Vec<String> = nodes.labels.iter().map(ToString::to_string).collect();
    let selects = if labels.is_empty() { "no nodes".to_owned() } else { labels.join(", ") };
    let message = format!(
        "`{}` cannot be evaluated for a pod that selects {selects}: {}",
        error.expression, error.message
    );
    let guard = error.fault.hint.as_deref().unwrap_or("guard it with `.?` and `orValue(…)`");
    let hint = format!("{guard}, or guard its rule with a `when` that reads `node`");
    Diagnostic::new(error.fault.span, message).code(NO_VALUE).hint(hint)
}

#[cfg(test)]
mod tests {
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
        Policy::new(definition, BTreeMap::new(), &Work::of_loading())
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn selection(labels: &[(&str, &[&str])], gpus: i64) -> Selection {
        let selected = |(label, values): &(&str, &[&str])| SelectedLabel {
            label: (*label).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        Selection { labels: labels.iter().map(selected).collect(), gpus: Some(gpus), ..Selection::default() }
    }

    #[test]
    fn values_that_nothing_reads_share_a_resolved_policy() {
        let policy = policy("${node[?'zone'].orValue('')}");
        let resolved = |labels: &[(&str, &[&str])], gpus| policy.resolved(&selection(labels, gpus)).unwrap();
        let same = |one: &Arc<ResolvedPolicy>, other: &Arc<ResolvedPolicy>| Arc::ptr_eq(one, other);
        let general = resolved(&[], 8);
        assert!(same(&resolved(&[("pool", &["x"])], 8), &general));
        assert!(same(&resolved(&[("pool", &["x", "y"]), ("size", &["z"])], 8), &general));
        assert!(same(&resolved(&[("pool", &["a"])], 8), &resolved(&[("pool", &["a"]), ("size", &["x"])], 4)));
        assert!(same(&resolved(&[("pool", &["c"])], 4), &resolved(&[("pool", &["c"])], 2)));
        assert!(!same(&resolved(&[("pool", &["c"])], 8), &resolved(&[("pool", &["c"])], 2)));
        assert!(policy.others.read().unwrap().is_empty());
        assert!(same(&resolved(&[("pool", &["a", "x"])], 8), &resolved(&[("pool", &["a", "y"])], 4)));
        assert!(!same(&resolved(&[("zone", &["x"])], 8), &resolved(&[("zone", &["y"])], 8)));
        assert_eq!(policy.others.read().unwrap().len(), 3);
    }

    #[test]
    fn the_labels_that_a_policy_reads_are_known_unless_a_key_is_computed() {
        let labels =
            |names: &[&str]| LabelsRead::These(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(*policy("${node[?'zone'].orValue('')}").labels(), labels(&["pool", "size", "zone"]));
        assert_eq!(*policy("x").labels(), labels(&["pool", "size"]));
        for all in ["${node[?string(1)].orValue('')}", "${string('zone' in node)}", "${string(size(node))}"] {
            assert_eq!(*policy(all).labels(), LabelsRead::All, "{all}");
        }
    }

    #[test]
    fn resolved_policies_for_values_of_users_are_bounded() {
        let policy = policy("${node[?'zone'].orValue('')}");
        let in_zone =
            |zone: usize| policy.resolved(&selection(&[("zone", &[&zone.to_string()])], 1)).unwrap();
        let last = (0..MAX_OTHERS + 10).map(in_zone).last().unwrap();
        assert_eq!(policy.others.read().unwrap().len(), 10);
        assert!(Arc::ptr_eq(&last, &in_zone(MAX_OTHERS + 9)));
    }

    #[test]
    fn pods_for_the_same_nodes_share_everything_that_the_file_has() {
        let policy = policy("x");
        let whole = |pool: &str| policy.whole(&selection(&[("pool", &[pool])], 8)).unwrap();
        assert!(Arc::ptr_eq(&whole("a"), &whole("a")));
        assert!(!Arc::ptr_eq(&whole("a"), &whole("c")));
    }
}
