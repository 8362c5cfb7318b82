//! A policy whose parameters have values, resolved once for each instance type that it knows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use serde_json::Value;

use super::definition::Definition;
use super::diagnostic::{Diagnostic, SourceError};
use super::interpolation::EvaluationError;
use super::parameter::Parameter;
use super::resolved::{ParameterValues, ResolvedPolicy, agreed};
use crate::core::yaml::Span;

/// A policy with the values of its parameters.
#[derive(Debug)]
pub struct Policy {
    definition: Definition,
    overrides: BTreeMap<String, Value>,
    /// For pods that select no instance type, and for types that no table knows.
    general: Arc<ResolvedPolicy>,
    by_instance_type: HashMap<String, Arc<ResolvedPolicy>>,
    /// True if an expression reads `instanceType`.
    reads_instance_type: bool,
    /// For combinations of types, and for types that no table knows if one is read.
    others: RwLock<HashMap<Vec<String>, Arc<ResolvedPolicy>>>,
}

/// The bound of `others`: the names come from users.
const MAX_OTHERS: usize = 64;

impl Policy {
    /// Gives a policy its parameter values. `overrides` are the operator's, checked by [`Parameter::parse`] or read from
    /// a values file.
    pub fn new(definition: Definition, overrides: BTreeMap<String, Value>) -> Result<Self, SourceError> {
        let failed = |error: EvaluationError| {
            let message = format!("`{}` cannot be evaluated: {}", error.expression, error.message);
            let diagnostic = Diagnostic::new(Span::default(), message)
                .hint("look at the values of the parameters, see docs/policy.md");
            definition.error_at(diagnostic, &[&error.expression])
        };
        let reads_instance_type = definition.reads("instanceType");
        let values = |selected: &[String]| ParameterValues::resolve(&definition, &overrides, selected);
        let resolve = |selected: &[String]| {
            ResolvedPolicy::new(&definition, values(selected), selected).map(Arc::new).map_err(failed)
        };
        let general = resolve(&[])?;
        let mut by_instance_type = HashMap::new();
        // Types with the same values share a resolved policy, unless the type itself is read.
        let mut known: Vec<(ParameterValues, Arc<ResolvedPolicy>)> = Vec::new();
        let types: BTreeSet<&str> =
            definition.parameters.iter().flat_map(Parameter::instance_types).collect();
        for instance_type in types {
            let selected = [instance_type.to_owned()];
            let values = values(&selected);
            let shared = known.iter().find(|(known, _)| !reads_instance_type && *known == values);
            let resolved = match shared {
                Some((_, resolved)) => Arc::clone(resolved),
                None => resolve(&selected)?,
            };
            known.push((values, Arc::clone(&resolved)));
            by_instance_type.insert(instance_type.to_owned(), resolved);
        }
        let others = RwLock::default();
        Ok(Self { definition, overrides, general, by_instance_type, reads_instance_type, others })
    }

    /// The policy as its file declares it.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// The values that the operator set, by parameter.
    pub fn overrides(&self) -> &BTreeMap<String, Value> {
        &self.overrides
    }

    /// 12 hex digits over the policy's text and the values of its parameters.
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

    /// The resolved policy for the instance types that a pod selects (lower case, without prefix).
    pub(crate) fn resolved(&self, selected: &[String]) -> Result<Arc<ResolvedPolicy>, EvaluationError> {
        match selected {
            [] => Ok(Arc::clone(&self.general)),
            [one] => match self.by_instance_type.get(one) {
                Some(resolved) => Ok(Arc::clone(resolved)),
                None if !self.reads_instance_type => Ok(Arc::clone(&self.general)),
                None => self.other_resolved(selected),
            },
            _ => self.other_resolved(selected),
        }
    }

    fn other_resolved(&self, selected: &[String]) -> Result<Arc<ResolvedPolicy>, EvaluationError> {
        if let Some(resolved) = self.others.read().ok().and_then(|others| others.get(selected).cloned()) {
            return Ok(resolved);
        }
        let values = ParameterValues::resolve(&self.definition, &self.overrides, selected);
        let resolved = Arc::new(ResolvedPolicy::new(&self.definition, values, selected)?);
        if let Ok(mut others) = self.others.write()
            && others.len() < MAX_OTHERS
        {
            others.insert(selected.to_vec(), Arc::clone(&resolved));
        }
        Ok(resolved)
    }

    /// Returns whether a parameter with a table has different values (or none) for the selected types.
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
