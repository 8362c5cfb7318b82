//! The values of conditions, and the values that they read.

use serde::Serialize;
use serde_json::Value;

use crate::core::policy::Definition;
use crate::core::policy::expression::{Bindings, Expression, Path, ReadSet, Step};
use crate::core::policy::interpolation::Interpolation;

use crate::core::explain::text::source;

/// The value of a condition for a pod or a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConditionFact {
    /// The condition as the policy has it, without `${` and `}`.
    pub expression: String,
    /// The value; `null` if the condition cannot be evaluated.
    pub value: Option<bool>,
    /// The reason for which it cannot be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The values that it reads.
    pub reads: Vec<Read>,
}

/// A value that an expression reads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Read {
    /// A parameter, a variable, a built-in name, or a path in `pod`, `container` or `node`.
    pub name: String,
    /// The value; `null` also for a field that does not exist.
    pub value: Value,
}

/// The values of a policy for a pod or a container.
#[derive(Clone, Copy)]
pub(super) struct Reasons<'a, 'p, 'v> {
    pub(super) definition: &'a Definition,
    pub(super) bindings: &'a Bindings<'p, 'v>,
}

impl Reasons<'_, '_, '_> {
    /// The fact about a condition of the policy.
    pub(super) fn of(&self, condition: &Interpolation) -> ConditionFact {
        let (value, error) = match condition.holds(self.bindings) {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error.message)),
        };
        let mut reads = Vec::new();
        self.add_reads(condition, &mut reads);
        ConditionFact { expression: source(condition), value, error, reads }
    }

    /// The same for a policy whose variables are not shown: with the values that the variables among them read.
    pub(super) fn through_variables(&self, condition: &Interpolation) -> ConditionFact {
        let mut fact = self.of(condition);
        let mut at = 0;
        while let Some(Read { name, .. }) = fact.reads.get(at) {
            let variable = self.definition.variables.iter().find(|variable| variable.name == *name);
            if let Some(variable) = variable {
                variable.value.texts(&mut |text| self.add_reads(text, &mut fact.reads));
            }
            at += 1;
        }
        fact
    }

    /// Adds the values that the expressions of a text read, each once.
    pub(super) fn add_reads(&self, text: &Interpolation, reads: &mut Vec<Read>) {
        for read in text.expressions().flat_map(|expression| self.reads(expression)) {
            if !reads.contains(&read) {
                reads.push(read);
            }
        }
    }

    fn reads(&self, expression: &Expression) -> Vec<Read> {
        let mut reads = Vec::new();
        for name in expression.names() {
            let of_object = match name.as_str() {
                "pod" => Some(expression.reads_of_pod()),
                "container" => Some(expression.reads_of_container()),
                "node" => Some(expression.reads_of_node()),
                _ => None,
            };
            let value = self.bindings.get(name).unwrap_or(Value::Null);
            match of_object {
                Some(ReadSet::Paths(paths)) => {
                    reads.extend(paths.iter().map(|path| read(name, &value, path)));
                }
                _ => reads.push(Read { name: name.clone(), value }),
            }
        }
        reads
    }
}

/// The value at a path of an object, up to the first step that is not one field.
fn read(name: &str, object: &Value, path: &Path) -> Read {
    let (mut name, mut value) = (name.to_owned(), object);
    for step in path {
        let Step::Field(field) = step else { break };
        let plain = field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        name.push_str(&if plain { format!(".{field}") } else { format!("[{field}]") });
        value = &value[field.as_str()];
    }
    Read { name, value: value.clone() }
}
