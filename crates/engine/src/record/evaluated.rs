//! The conditions and variables of a policy that were evaluated for a pod, and the values that they read.

use serde::Serialize;
use serde_json::Value;

use fabric_policy::Definition;
use fabric_policy::expression::{Bindings, Expression, Path, Step};
use fabric_policy::interpolation::{EvaluationError, Interpolation, OBJECTS, VALUE};
use fabric_yaml::Span;

/// The value of a condition for a pod or a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConditionFact {
    /// The condition as written in the policy, without `${` and `}`.
    pub expression: String,
    /// The value; `null` if the condition cannot be evaluated.
    pub value: Option<bool>,
    /// Why it cannot be evaluated.
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

/// The part of the pod about which expressions are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeOf {
    /// The pod before injection.
    Pod,
    /// One of its containers, by list and index.
    Container { list: &'static str, index: usize },
    /// The pod after injection.
    Injected,
}

/// A rule, or an entry of `files`, for a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatedRule {
    /// True if it applies to a container.
    pub applied: bool,
    /// The name that is true for the pod and keeps an entry of `devices.add` out, whatever its conditions are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_out: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionFact>,
    /// The condition for each container; none if `when` is false.
    pub containers: Vec<ContainerCondition>,
}

/// A condition of a rule or of a file, for a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerCondition {
    pub container: String,
    pub condition: ConditionFact,
}

/// A check whose conditions were evaluated.
#[derive(Debug)]
pub struct EvaluatedCheck {
    pub code: String,
    /// The place of the check.
    pub span: Span,
    pub scope: ScopeOf,
    /// The last of its conditions.
    pub fact: ConditionFact,
    pub(super) condition: Interpolation,
    /// The value of the variable that it is about.
    pub(super) own: Option<Value>,
}

/// A container or init container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerGpus {
    pub name: String,
    /// `containers` or `initContainers`.
    pub list: &'static str,
    pub gpus: i64,
}

/// A variable, for the pod or for a container.
#[derive(Debug)]
pub struct VariableIn {
    pub name: String,
    pub container: Option<String>,
    /// The value, or why it has none.
    pub value: Result<Value, String>,
    pub reads: Vec<Read>,
}

impl ConditionFact {
    /// The fact about a condition, with the values that it reads.
    pub(crate) fn new(
        condition: &Interpolation,
        holds: &Result<bool, EvaluationError>,
        bindings: &Bindings<'_, '_>,
    ) -> Self {
        let mut fact = Self::without_reads(condition, holds);
        add_reads(condition, bindings, &mut fact.reads);
        fact
    }

    /// The fact about a condition, without the values that it reads.
    pub(super) fn without_reads(condition: &Interpolation, holds: &Result<bool, EvaluationError>) -> Self {
        Self {
            expression: condition.on_one_line(),
            value: holds.as_ref().ok().copied(),
            error: holds.as_ref().err().map(|error| error.message.clone()),
            reads: Vec::new(),
        }
    }

    /// The fact about the condition of a policy whose variables are not shown. It includes the values that those
    /// variables read.
    pub(crate) fn through_variables(
        definition: &Definition,
        condition: &Interpolation,
        holds: &Result<bool, EvaluationError>,
        bindings: &Bindings<'_, '_>,
    ) -> Self {
        let mut fact = Self::new(condition, holds, bindings);
        let mut at = 0;
        while let Some(Read { name, .. }) = fact.reads.get(at) {
            let variable = definition.variables.iter().find(|variable| variable.name == *name);
            if let Some(variable) = variable {
                variable.value.texts(&mut |text| add_reads(text, bindings, &mut fact.reads));
            }
            at += 1;
        }
        fact
    }
}

impl EvaluatedCheck {
    /// Adds the values that the condition reads.
    pub(super) fn read(&mut self, bindings: &Bindings<'_, '_>) {
        let mut bindings = bindings.child();
        self.own.iter().for_each(|own| bindings.set(VALUE, own));
        add_reads(&self.condition, &bindings, &mut self.fact.reads);
    }
}

/// Adds the known values that the expressions of a text read, each once.
pub(crate) fn add_reads(text: &Interpolation, bindings: &Bindings<'_, '_>, reads: &mut Vec<Read>) {
    for read in text.expressions().flat_map(|expression| reads_of(expression, bindings)) {
        if !reads.contains(&read) {
            reads.push(read);
        }
    }
}

fn reads_of(expression: &Expression, bindings: &Bindings<'_, '_>) -> Vec<Read> {
    let mut reads = Vec::new();
    for name in expression.names() {
        let Some(value) = bindings.get(name) else { continue };
        if OBJECTS.contains(&name.as_str()) {
            reads.extend(expression.reads_of(name).into_iter().map(|path| read(name, &value, path)));
        } else {
            reads.push(Read { name: name.clone(), value });
        }
    }
    reads
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
