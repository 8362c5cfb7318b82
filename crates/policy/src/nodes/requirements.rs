//! The node requirements of a pod, read once. Nodes with the same values of the labels that it names are evaluated
//! once.

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
    let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
    let is_in = || values.iter().any(|known| known.as_str() == value);
    let numbers = || {
        let bound = values.first()?.as_str()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => value.is_some() && is_in(),
        "NotIn" => value.is_none() || !is_in(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// The steps to evaluate a node, and one of its taints.
const STEPS_OF_NODE: usize = 40;
const STEPS_OF_TAINT: usize = 10;

/// A node selector and a required node affinity.
pub(super) struct Requirements<'p> {
    selector: Vec<(&'p str, Option<&'p str>)>,
    /// Alternatives, each once; `None` without affinity.
    terms: Option<Vec<Term<'p>>>,
    /// The labels that these name.
    keys: Vec<&'p str>,
    names_nodes: bool,
    /// Whether nodes with these values of the labels are allowed.
    known: HashMap<Vec<Option<&'p str>>, bool>,
    work: Option<&'p Work>,
}

/// One of the terms of an affinity, whose requirements must all hold.
struct Term<'p> {
    /// Each with the index of its label among the keys.
    labels: Vec<(usize, Requirement<'p>)>,
    fields: Vec<Requirement<'p>>,
}

/// A requirement with its values as a set.
struct Requirement<'p> {
    whole: &'p Value,
    values: Option<HashSet<&'p str>>,
}

impl<'p> Requirement<'p> {
    fn new(whole: &'p Value) -> Self {
        let is_set = matches!(whole["operator"].as_str(), Some("In" | "NotIn"));
        let values = whole["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self { whole, values: is_set.then(|| values.collect()) }
    }

    fn is_met(&self, value: Option<&str>) -> bool {
        let Some(values) = &self.values else { return is_met(self.whole, value) };
        let is_in = value.is_some_and(|value| values.contains(value));
        is_in == (self.whole["operator"] == "In")
    }
}

impl<'p> Requirements<'p> {
    /// The requirements of a pod, as far as there is work left for them.
    pub(super) fn new(spec: &'p Value, work: Option<&'p Work>) -> Self {
        let selector = spec["nodeSelector"].as_object().into_iter().flatten();
        let selector: Vec<_> = selector.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let mut keys: Vec<&str> = selector.iter().map(|(key, _)| *key).collect();
        let mut places: HashMap<&str, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
        let mut seen = HashSet::new();
        let mut each = Vec::new();
        for term in terms(spec) {
            let text = term.to_string();
            if !goes_on(work, text.len() / 4) || !seen.insert(text) {
                continue;
            }
            let mut labels = Vec::new();
            for requirement in expressions(term) {
                let key = requirement["key"].as_str().unwrap_or_default();
                let at = *places.entry(key).or_insert_with(|| {
                    keys.push(key);
                    keys.len() - 1
                });
                labels.push((at, Requirement::new(requirement)));
            }
            let fields = term["matchFields"].as_array().into_iter().flatten().map(Requirement::new).collect();
            each.push(Term { labels, fields });
        }
        let names_nodes = each.iter().any(|term: &Term<'_>| !term.fields.is_empty());
        let terms = (!required(spec)["nodeSelectorTerms"].is_null()).then_some(each);
        Self { selector, terms, keys, names_nodes, known: HashMap::new(), work }
    }

    /// Returns whether they allow a node; false if there is no work left.
    pub(super) fn allow(&mut self, node: &'p Node) -> bool {
        if !goes_on(self.work, STEPS_OF_NODE + self.keys.len() * 5) {
            return false;
        }
        let values: Vec<Option<&str>> = self.keys.iter().map(|key| node.label(key)).collect();
        if self.names_nodes {
            return self.hold(&values, node);
        }
        if let Some(allowed) = self.known.get(&values) {
            return *allowed;
        }
        let allowed = self.hold(&values, node);
        self.known.insert(values, allowed);
        allowed
    }

    fn hold(&self, values: &[Option<&str>], node: &Node) -> bool {
        self.selector.iter().zip(values).all(|((_, wanted), value)| value == wanted)
            && self.terms.as_ref().is_none_or(|terms| {
                let mut terms = terms.iter().take_while(|term| goes_on(self.work, 5 * term.len()));
                terms.any(|term| term.is_met(values, node))
            })
    }
}

impl Term<'_> {
    fn len(&self) -> usize {
        self.labels.len() + self.fields.len()
    }

    fn is_met(&self, values: &[Option<&str>], node: &Node) -> bool {
        // A term without requirements matches no node.
        self.len() > 0
            && self.labels.iter().all(|(at, requirement)| requirement.is_met(values[*at]))
            && self.fields.iter().all(|requirement| {
                requirement.is_met((requirement.whole["key"] == "metadata.name").then_some(node.name()))
            })
    }
}

/// The tolerations of a pod, by the key that they name; empty for those of every key.
pub(super) struct Tolerations<'p> {
    by_key: HashMap<&'p str, Vec<&'p Value>>,
    known: HashMap<&'p Taint, bool>,
    work: Option<&'p Work>,
}

impl<'p> Tolerations<'p> {
    pub(super) fn new(spec: &'p Value, work: Option<&'p Work>) -> Self {
        let mut by_key: HashMap<&str, Vec<&Value>> = HashMap::new();
        for toleration in spec["tolerations"].as_array().into_iter().flatten() {
            let key = toleration["key"].as_str().unwrap_or_default();
            if goes_on(work, 2) {
                by_key.entry(key).or_default().push(toleration);
            }
        }
        Self { by_key, known: HashMap::new(), work }
    }

    /// Returns whether one of them tolerates a taint; false if there is no work left.
    pub(super) fn tolerate(&mut self, taint: &'p Taint) -> bool {
        let Self { by_key, known, work } = self;
        if !goes_on(*work, STEPS_OF_TAINT) {
            return false;
        }
        *known.entry(taint).or_insert_with(|| {
            let of_key = by_key.get(&*taint.key).into_iter().flatten();
            let mut tolerations = of_key.chain(by_key.get("").into_iter().flatten());
            tolerations.any(|toleration| goes_on(*work, 2) && tolerates(toleration, taint))
        })
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
