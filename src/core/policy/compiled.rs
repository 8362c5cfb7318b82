//! A policy with the values that its parameters have, one variant for each instance type it knows.
//!
//! Whatever does not depend on the pod is evaluated here, once, so that serving a pod evaluates only what
//! does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use serde_json::Value;

use super::definition::Definition;
use super::diagnostic::{Diagnostic, SourceError};
use super::parameter::Parameter;
use super::text::{EvaluationError, Text};
use super::variant::{Variant, agreed, resolve};
use crate::core::yaml::Span;

/// A policy in use.
#[derive(Debug)]
pub struct Policy {
    definition: Definition,
    overrides: BTreeMap<String, Value>,
    /// For pods that select no instance type, and for types without a variant of their own.
    general: Arc<Variant>,
    by_instance_type: HashMap<String, Arc<Variant>>,
    /// Whether an expression reads `instanceType`, so that an unknown type needs a variant as well.
    reads_instance_type: bool,
    /// Variants that were needed for types (or several at once) that no table knows, so that they are worked
    /// out once.
    others: RwLock<HashMap<Vec<String>, Arc<Variant>>>,
}

/// How many variants for unknown instance types are kept. The names come from users, so there must be an end.
const MAX_OTHERS: usize = 64;

impl Policy {
    /// Gives a policy its parameter values. `overrides` are the operator's, already checked by
    /// [`Parameter::parse`] or read from a values file.
    pub fn new(definition: Definition, overrides: BTreeMap<String, Value>) -> Result<Self, SourceError> {
        let failed = |error: EvaluationError| {
            let diagnostic = Diagnostic::new(
                locate(&definition.text, &error.expression),
                format!("`{}` cannot be evaluated: {}", error.expression, error.message),
            );
            SourceError::new(&definition.file, &definition.text, diagnostic)
        };
        let reads_instance_type = all_texts(&definition)
            .iter()
            .any(|text| text.expressions().any(|expression| expression.names().contains("instanceType")));
        let general = Arc::new(Variant::new(&definition, &overrides, &[]).map_err(failed)?);
        let mut by_instance_type = HashMap::new();
        // Types with the same values share a variant, unless the type itself is read.
        let mut by_values: HashMap<String, Arc<Variant>> = HashMap::new();
        let types: BTreeSet<&str> =
            definition.parameters.iter().flat_map(Parameter::instance_types).collect();
        for instance_type in types {
            let selected = [instance_type.to_owned()];
            let mut key = resolve(&definition, &overrides, &selected).fingerprint();
            if reads_instance_type {
                key.push_str(instance_type);
            }
            let variant = match by_values.get(&key) {
                Some(variant) => Arc::clone(variant),
                None => Arc::new(Variant::new(&definition, &overrides, &selected).map_err(failed)?),
            };
            by_values.insert(key, Arc::clone(&variant));
            by_instance_type.insert(instance_type.to_owned(), variant);
        }
        let others = RwLock::default();
        Ok(Self { definition, overrides, general, by_instance_type, reads_instance_type, others })
    }

    /// The policy as its file says it.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// What an operator set, by parameter.
    pub fn overrides(&self) -> &BTreeMap<String, Value> {
        &self.overrides
    }

    /// What the stamp says of the policy's content and the operator's settings: 12 hex digits.
    pub fn digest(&self) -> &str {
        self.stamp().rsplit('@').next().unwrap_or_default()
    }

    /// The stamp for pods that select no instance type: `<policy>@<digest>`.
    pub fn stamp(&self) -> &str {
        &self.general.stamp
    }

    /// The instance types that a parameter knows, in lower case and without prefix.
    pub(crate) fn known_instance_types(&self) -> impl Iterator<Item = &str> {
        self.by_instance_type.keys().map(String::as_str)
    }

    /// The variant for the instance types that a pod selects (lower case, without prefix).
    pub(crate) fn variant(&self, selected: &[String]) -> Result<Arc<Variant>, EvaluationError> {
        match selected {
            [] => Ok(Arc::clone(&self.general)),
            [one] => match self.by_instance_type.get(one) {
                Some(variant) => Ok(Arc::clone(variant)),
                None if !self.reads_instance_type => Ok(Arc::clone(&self.general)),
                None => self.other_variant(selected),
            },
            _ => self.other_variant(selected),
        }
    }

    fn other_variant(&self, selected: &[String]) -> Result<Arc<Variant>, EvaluationError> {
        if let Some(variant) = self.others.read().ok().and_then(|others| others.get(selected).cloned()) {
            return Ok(variant);
        }
        let variant = Arc::new(Variant::new(&self.definition, &self.overrides, selected)?);
        if let Ok(mut others) = self.others.write()
            && others.len() < MAX_OTHERS
        {
            others.insert(selected.to_vec(), Arc::clone(&variant));
        }
        Ok(variant)
    }

    /// Whether a parameter with a table has different values (or none) for the selected types.
    pub(crate) fn types_disagree(&self, selected: &[String]) -> bool {
        selected.len() > 1
            && self
                .definition
                .parameters
                .iter()
                .filter(|parameter| parameter.has_table() && !self.overrides.contains_key(&parameter.name))
                .any(|parameter| agreed(parameter, selected).is_none())
    }
}

fn all_texts(definition: &Definition) -> Vec<Text> {
    let mut texts: Vec<Text> = definition.variables.iter().map(|variable| variable.value.clone()).collect();
    for warning in &definition.warnings {
        texts.extend([warning.when.clone(), warning.message.clone()]);
    }
    for rule in &definition.rules {
        texts.extend(rule.when.iter().chain(&rule.containers).cloned());
        rule.container
            .iter()
            .chain(&rule.pod)
            .for_each(|template| template.texts(&mut |text| texts.push(text.clone())));
    }
    texts
}

/// Where an expression stands in the text; the whole file if it is not found as it is.
fn locate(text: &str, expression: &str) -> Span {
    match text.find(expression) {
        Some(at) => {
            Span { length: expression.chars().count().max(1), ..crate::core::yaml::span_at(text, at) }
        }
        None => Span { line: 1, column: 1, length: 1 },
    }
}
