//! The node requirements of a pod, read once. Nodes with the same values of the labels that it names are evaluated
//! once.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Node, Taint};
use crate::work::{Work, goes_on};

/// The node affinity that a pod requires.
pub(super) fn required(spec: &Value) -> &Value {
    &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
}

/// The terms of the node affinity that a pod requires, which are alternatives.
pub fn terms(spec: &Value) -> &[Value] {
    required(spec)["nodeSelectorTerms"].as_array().map_or(&[], Vec::as_slice)
}

/// The requirements of a term for labels.
pub fn expressions(term: &Value) -> impl Iterator<Item = &Value> {
    term["matchExpressions"].as_array().into_iter().flatten()
}

/// Returns whether a requirement holds for the value of its key.
pub fn is_met(requirement: &Value, value: Option<&str>) -> bool {
    Requirement::new(requirement).is_met(value)
}

/// The steps to evaluate a node, and one of its taints.
const STEPS_OF_NODE: usize = 40;
const STEPS_OF_TAINT: usize = 10;

/// A node selector and a required node affinity.
pub(super) struct Requirements<'p> {
    /// The labels and fields of nodes that these name, those of the selector first.
    keys: Vec<Key<'p>>,
    /// The values that the selector wants.
    selector: Vec<Option<&'p str>>,
    /// Alternatives, each once; `None` without affinity. All requirements of one must hold, each for the value of the key
    /// at its index.
    terms: Option<Vec<Vec<(usize, Requirement<'p>)>>>,
    /// Whether nodes with these values of the keys are allowed.
    known: HashMap<Vec<Option<&'p str>>, bool>,
    work: Option<&'p Work>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'p> {
    Label(&'p str),
    Field(&'p str),
}

impl Key<'_> {
    fn value(self, node: &Node) -> Option<&str> {
        match self {
            Self::Label(label) => node.label(label),
            Self::Field(field) => (field == "metadata.name").then_some(node.name()),
        }
    }
}

/// A requirement with its values as a set.
struct Requirement<'p> {
    operator: &'p str,
    values: HashSet<&'p str>,
}

impl<'p> Requirement<'p> {
    fn new(requirement: &'p Value) -> Self {
        let values = requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self { operator: requirement["operator"].as_str().unwrap_or_default(), values: values.collect() }
    }

    fn is_met(&self, value: Option<&str>) -> bool {
        let is_in = || value.is_some_and(|value| self.values.contains(value));
        let compared = || {
            // `ValidateNodeSelectorRequirement` of the API server accepts exactly one value with these.
            let bound = self.values.iter().next().filter(|_| self.values.len() == 1)?;
            let bound = bound.parse::<i64>().ok()?;
            Some(value?.parse::<i64>().ok()?.cmp(&bound))
        };
        match self.operator {
            "In" => is_in(),
            "NotIn" => !is_in(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compared() == Some(Ordering::Greater),
            "Lt" => compared() == Some(Ordering::Less),
            _ => false,
        }
    }
}

impl<'p> Requirements<'p> {
    /// The requirements of a pod, as far as there is work left for them.
    pub(super) fn new(spec: &'p Value, work: Option<&'p Work>) -> Self {
        let selector = spec["nodeSelector"].as_object().into_iter().flatten();
        let (mut keys, selector): (Vec<_>, Vec<_>) =
            selector.map(|(key, value)| (Key::Label(key), value.as_str())).unzip();
        let mut places: HashMap<Key<'_>, usize> =
            keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
        let mut seen = HashSet::new();
        let mut each = Vec::new();
        for term in terms(spec) {
            let text = term.to_string();
            if !goes_on(work, text.len() / 4) || !seen.insert(text) {
                continue;
            }
            let key = |requirement: &'p Value| requirement["key"].as_str().unwrap_or_default();
            let labels = expressions(term).map(|one| (Key::Label(key(one)), one));
            let fields = term["matchFields"].as_array().into_iter().flatten();
            let all =
                labels.chain(fields.map(|one| (Key::Field(key(one)), one))).map(|(key, requirement)| {
                    let at = *places.entry(key).or_insert_with(|| {
                        keys.push(key);
                        keys.len() - 1
                    });
                    (at, Requirement::new(requirement))
                });
            each.push(all.collect());
        }
        let terms = (!required(spec)["nodeSelectorTerms"].is_null()).then_some(each);
        Self { keys, selector, terms, known: HashMap::new(), work }
    }

    /// Returns whether they allow a node; false if there is no work left.
    pub(super) fn allow(&mut self, node: &'p Node) -> bool {
        if !goes_on(self.work, STEPS_OF_NODE + self.keys.len() * 5) {
            return false;
        }
        let values: Vec<Option<&str>> = self.keys.iter().map(|key| key.value(node)).collect();
        if let Some(allowed) = self.known.get(&values) {
            return *allowed;
        }
        let allowed = self.hold(&values);
        self.known.insert(values, allowed);
        allowed
    }

    fn hold(&self, values: &[Option<&str>]) -> bool {
        self.selector.iter().zip(values).all(|(wanted, value)| value == wanted)
            && self.terms.as_ref().is_none_or(|terms| {
                let mut terms = terms.iter().take_while(|term| goes_on(self.work, 5 * term.len()));
                // A term without requirements matches no node.
                terms.any(|term| {
                    !term.is_empty() && term.iter().all(|(at, requirement)| requirement.is_met(values[*at]))
                })
            })
    }
}

/// The tolerations of a pod.
pub(super) struct Tolerations<'p> {
    each: &'p [Value],
    known: HashMap<&'p Taint, bool>,
    work: Option<&'p Work>,
}

impl<'p> Tolerations<'p> {
    pub(super) fn new(spec: &'p Value, work: Option<&'p Work>) -> Self {
        let each = spec["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
        Self { each, known: HashMap::new(), work }
    }

    /// Returns whether one of them tolerates a taint; false if there is no work left.
    pub(super) fn tolerate(&mut self, taint: &'p Taint) -> bool {
        let Self { each, known, work } = self;
        if !goes_on(*work, STEPS_OF_TAINT) {
            return false;
        }
        let tolerates = |toleration| goes_on(*work, 2) && tolerates(toleration, taint);
        *known.entry(taint).or_insert_with(|| each.iter().any(tolerates))
    }
}

/// Returns whether a toleration tolerates a taint.
fn tolerates(toleration: &Value, taint: &Taint) -> bool {
    let text = |key: &str| toleration[key].as_str().unwrap_or_default();
    let key = text("key");
    if !text("effect").is_empty() && text("effect") != &*taint.effect {
        return false;
    }
    match text("operator") {
        "Exists" => key.is_empty() || key == &*taint.key,
        "" | "Equal" => key == &*taint.key && text("value") == &*taint.value,
        _ => false,
    }
}
