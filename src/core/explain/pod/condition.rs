//! The reasons for the value of a condition: the operands that decided it, and the values that they read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde::Serialize;
use serde_json::Value;

use crate::core::policy::Definition;
use crate::core::policy::expression::{Bindings, Expression, Path, ReadSet, Step};
use crate::core::policy::interpolation::Interpolation;

use super::split::{Split, bare, split};
use crate::core::explain::text::{inner, one_line, source};

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
    /// The operands that decided the value.
    #[serde(rename = "decidedBy")]
    pub decided_by: Vec<Operand>,
}

/// An operand of a condition, with a value that decided the condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operand {
    pub expression: String,
    pub value: bool,
    /// The variables through which the condition reads the operand, the outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
    /// The values that the operand reads.
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

/// The names of a policy, for the conditions behind its variables.
#[derive(Clone, Copy)]
pub(super) struct Reasons<'a, 'p, 'v> {
    pub(super) definition: &'a Definition,
    pub(super) bindings: &'a Bindings<'p, 'v>,
    pub(super) compiled: &'a Compiled,
}

/// Expressions that were compiled before. Parts of conditions recur for each pod and container.
#[derive(Debug, Default)]
pub(super) struct Compiled(RefCell<HashMap<String, Option<Rc<Expression>>>>);

impl Compiled {
    /// The number of different expressions so far.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn get(&self, expression: &str) -> Option<Rc<Expression>> {
        if let Some(known) = self.0.borrow().get(expression) {
            return known.clone();
        }
        let compiled = Expression::compile(expression).ok().map(Rc::new);
        self.0.borrow_mut().insert(expression.to_owned(), compiled.clone());
        compiled
    }
}

/// Variables that read variables end somewhere; a condition that is deeper is shown as it is.
const MAX_DEPTH: usize = 32;

impl Reasons<'_, '_, '_> {
    /// The fact about a condition of the policy.
    pub(super) fn of(&self, condition: &Interpolation) -> ConditionFact {
        let (value, error) = match condition.holds(self.bindings) {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error.message)),
        };
        let mut decided_by = Vec::new();
        if value.is_some() {
            self.decide(&inner(condition), &mut Vec::new(), &mut decided_by);
        }
        decided_by.dedup_by(|one, other| one.expression == other.expression);
        ConditionFact { expression: source(condition), value, error, decided_by }
    }

    /// Adds the operands that decide an expression.
    fn decide(&self, expression: &str, through: &mut Vec<String>, found: &mut Vec<Operand>) {
        let expression = bare(expression);
        let Some(value) = self.value(expression) else { return };
        let parts = match split(expression) {
            _ if through.len() > MAX_DEPTH => Vec::new(),
            Split::All(parts) => self.deciding(&parts, value, false),
            Split::Any(parts) => self.deciding(&parts, value, true),
            Split::Not(part) => vec![part],
            Split::Choice { condition, then, otherwise } => match self.value(condition) {
                Some(true) => vec![condition, then],
                Some(false) => vec![condition, otherwise],
                None => Vec::new(),
            },
            Split::Leaf => {
                if let Some(condition) = self.behind(expression) {
                    through.push(expression.to_owned());
                    self.decide(&condition, through, found);
                    through.pop();
                    return;
                }
                Vec::new()
            }
        };
        if parts.is_empty() {
            let through = through.clone();
            let reads = self.reads(expression);
            found.push(Operand { expression: one_line(expression), value, through, reads });
        }
        for part in parts {
            self.decide(part, through, found);
        }
    }

    /// The operands that decide a value: the first one that has the deciding value, else all of them. None if the
    /// operands do not give the value, so that the text was taken apart in a wrong way.
    fn deciding<'s>(&self, parts: &[&'s str], value: bool, deciding: bool) -> Vec<&'s str> {
        if value == deciding {
            return parts
                .iter()
                .copied()
                .find(|part| self.value(part) == Some(deciding))
                .into_iter()
                .collect();
        }
        let agree = parts.iter().all(|part| self.value(part) == Some(value));
        if agree { parts.to_vec() } else { Vec::new() }
    }

    fn value(&self, expression: &str) -> Option<bool> {
        self.compiled.get(expression)?.evaluate(self.bindings).ok()?.as_bool()
    }

    /// The condition that a variable of this name is.
    fn behind(&self, name: &str) -> Option<String> {
        let variable = self.definition.variables.iter().find(|variable| variable.name == name)?;
        let mut texts = Vec::new();
        variable.value.texts(&mut |text| texts.push(inner(text)));
        match texts.as_slice() {
            [text] => Some(text.clone()),
            _ => None,
        }
    }

    /// The values that an expression reads.
    pub(super) fn reads(&self, expression: &str) -> Vec<Read> {
        let Some(compiled) = self.compiled.get(expression) else { return Vec::new() };
        let mut reads = Vec::new();
        for name in compiled.names() {
            let of_object = match name.as_str() {
                "pod" => Some(compiled.reads_of_pod()),
                "container" => Some(compiled.reads_of_container()),
                "node" => Some(compiled.reads_of_node()),
                _ => None,
            };
            let whole = self.compiled.get(name);
            let value = whole.and_then(|whole| whole.evaluate(self.bindings).ok()).unwrap_or(Value::Null);
            match of_object {
                Some(ReadSet::Paths(paths)) => {
                    reads.extend(paths.iter().map(|path| read(name, &value, path)));
                }
                _ => reads.push(Read { name: name.clone(), value }),
            }
        }
        reads.dedup();
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
