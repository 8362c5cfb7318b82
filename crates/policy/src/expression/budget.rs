//! A bound on the cost of evaluating one expression, for any policy and pod.
//!
//! CEL always terminates, but twelve nested `map` take years, and `replace` of `replace` fills any memory. The library
//! has no budget, so the expression itself counts: every list that a macro loops over, and every value that is copied
//! or given to a function, passes through a call that takes the size of the value from a budget. An expression without
//! loops and without functions whose result outgrows their arguments stays as it is: it costs no more than its text
//! times the values that it reads.

use std::any::Any;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use cel::common::types::{CelInt, CelList, CelMap, CelOptional, CelString, DYN_TYPE, INT_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Context, DeclarationError, Env, ExecutionError};
use serde_json::Value;

use crate::work::{Work, goes_on};

use super::failure::EXHAUSTED;
use super::tree::{levels, operands, operands_mut, parts_mut};

/// The values that one evaluation may handle by itself, in bytes: ten times the largest object that an API server
/// accepts.
const BUDGET: u64 = 32 << 20;
/// The largest result, in bytes. No pod can hold it.
const MAX_RESULT: usize = 4 << 20;
/// The size of a number, a boolean, or the head of a text, a list or a map, and the cost of one step of a loop.
const SCALAR: u64 = 16;
/// The largest computed text that `replace` and `join` insert, in bytes.
const MAX_INSERTED: u64 = 4 << 10;
/// The weight of a list whose elements are all compared with each other.
const EACH_WITH_EACH: u64 = i64::MAX.unsigned_abs();
/// This number of additions cannot make a value outgrow the budget before its size is checked.
const MAX_ADDITIONS: usize = 16;

/// The functions that this module adds, and the variable that holds the budget. No expression can name them.
const CHARGE: &str = "@charge";
const CHARGE_INSERTED: &str = "@chargeInserted";
const CHARGE_RANGE: &str = "@chargeRange";
const VARIABLE: &str = "@budget";
/// The variable in which the library's macros gather their result.
const RESULT: &str = "@result";

/// Operators and functions that neither copy an operand nor read all of it. `a.?b` copies.
const FREE: &[&str] =
    &["_?_:_", "_&&_", "_||_", "!_", "-_", "@not_strictly_false", "_[_]", "orValue", "hasValue", "value"];
/// Comparisons. With a literal, they read as much of the other operand as the literal has.
const COMPARISONS: &[&str] = &["_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith"];

/// The counter of the values that an evaluation handles: a step for each byte.
#[derive(Debug, Clone)]
struct Budget(Work);

static TYPE: Type = Type::new_unspecified_type(VARIABLE);

impl Val for Budget {
    fn get_type(&self) -> &Type {
        &TYPE
    }

    fn cel_type() -> &'static Type {
        &TYPE
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Budget {}

fn exhausted() -> ExecutionError {
    ExecutionError::InternalError(EXHAUSTED.to_owned())
}

/// Adds the functions with which expressions count.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    let types = || vec![TYPE.to_owned(), DYN_TYPE, INT_TYPE];
    env.add_overload(CHARGE, CHARGE, types(), |args| pass(args, u64::MAX))?;
    env.add_overload(CHARGE_INSERTED, CHARGE_INSERTED, types(), |args| pass(args, MAX_INSERTED))?;
    env.add_overload(CHARGE_RANGE, CHARGE_RANGE, types(), range_of)
}

/// Takes the size of a value from the budget, and a weight for each of its elements or characters; returns the value.
fn pass<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>, largest: u64) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let weight = args.pop().and_then(|weight| weight.downcast_ref::<CelInt>().map(|weight| *weight.inner()));
    let (Some(value), Some(weight)) = (args.pop(), weight) else { return Err(exhausted()) };
    let budget = args.first().and_then(|budget| budget.downcast_ref::<Budget>());
    let Some(budget) = budget else { return Err(exhausted()) };
    let size = size_of(&*value, budget.0.left());
    let elements = value.as_sizer().map_or(0, |sizer| sizer.size().inner().unsigned_abs());
    let cost = match weight.unsigned_abs() {
        _ if size > largest => u64::MAX,
        EACH_WITH_EACH => size.saturating_mul(elements),
        weight => size.saturating_add(elements.saturating_mul(weight * SCALAR)),
    };
    let steps = usize::try_from(cost).unwrap_or(usize::MAX);
    if budget.0.goes_on(steps) { Ok(value) } else { Err(exhausted()) }
}

/// [`pass`] for the values that a macro loops over. For a map, these are the keys, sorted: the library's order changes
/// each time, and a list of the keys would differ from pod to pod.
fn range_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let range = pass(args, u64::MAX)?;
    let Some(map) = range.downcast_ref::<CelMap<'v>>() else { return Ok(range) };
    let mut keys: Vec<_> = map.inner().keys().collect();
    keys.sort();
    let keys: Vec<Box<dyn Val + 'v>> = keys.into_iter().map(|key| key.inner().clone_as_boxed()).collect();
    Ok(CowVal::Owned(Box::new(CelList::from(keys))))
}

/// The size of a value with all that is in it, as far as it is within `most`.
fn size_of(value: &dyn Val, most: u64) -> u64 {
    let mut size = SCALAR;
    let add =
        |value: &dyn Val, size: u64| if size > most { size } else { size + size_of(value, most - size) };
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        size += text.inner().len() as u64;
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        for item in list.inner() {
            size = add(&**item, size);
        }
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        for (key, value) in map.inner() {
            size = add(&**value, add(key.inner(), size));
        }
    } else if let Some(inner) = value.downcast_ref::<CelOptional<'_>>().and_then(CelOptional::option) {
        size = add(inner, size);
    } else if let Some(sizer) = value.as_sizer() {
        size += sizer.size().inner().unsigned_abs();
    }
    size
}

/// Returns whether a result is small enough for a pod, and counts it.
pub(super) fn fits(result: &Value, work: Option<&Work>) -> bool {
    let size = match result {
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => result.to_string().len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    goes_on(work, size) && size < MAX_RESULT
}

/// Makes an expression count the values that it handles, if they can be many: it has a loop, a function whose result
/// outgrows its arguments, or many additions. Returns whether it counts.
pub(super) fn count_if_costly(expression: &mut IdedExpr) -> bool {
    let mut additions = 0;
    let is_costly = levels(expression).flatten().any(|part| match &part.expr {
        Expr::Comprehension(_) => true,
        Expr::Call(call) => {
            additions += usize::from(["_+_", super::numbers::PLUS].contains(&call.func_name.as_str()));
            ["range", "distinct"].contains(&call.func_name.as_str())
                || inserted(&call.func_name).is_some()
                || additions > MAX_ADDITIONS
        }
        _ => false,
    });
    if is_costly {
        count(expression);
    }
    is_costly
}

/// Evaluates an expression that counts.
pub(super) fn evaluate(
    counting: &IdedExpr,
    context: &Context<'_, '_>,
    work: Option<&Work>,
) -> Result<cel::Value, ExecutionError> {
    // Loading has steps for many evaluations, of which one could fill the memory.
    let of_input = work.filter(|work| !work.is_of_policies()).cloned();
    let budget = of_input.unwrap_or_else(|| Work::of_steps(BUDGET));
    let mut scope = context.new_inner_scope();
    scope.add_variable_as_val(VARIABLE, Box::new(Budget(budget.clone())));
    let result = cel::Value::resolve(counting, &scope);
    let loading = work.filter(|work| work.is_of_policies());
    let is_over = loading.is_some_and(|loading| {
        loading.count_all(&budget);
        loading.ended().is_some()
    });
    // `||` and `exists` continue after an error.
    if budget.ended().is_some() || is_over { Err(exhausted()) } else { result }
}

/// The argument that a function inserts once for each element or character of its target.
fn inserted(function: &str) -> Option<usize> {
    match function {
        "join" => Some(0),
        "replace" => Some(1),
        _ => None,
    }
}

/// Makes an expression count the values that it handles.
fn count(expression: &mut IdedExpr) {
    let weight = weight(&expression.expr);
    for part in parts_mut(&mut expression.expr) {
        count(part);
    }
    match &mut expression.expr {
        Expr::Call(call) if is_free(call) => {}
        Expr::Comprehension(comprehension) => {
            charge(&mut comprehension.iter_range, CHARGE_RANGE, weight);
            charge(&mut comprehension.accu_init, CHARGE, 0);
        }
        Expr::Call(call) => {
            let computed = |argument: &&mut IdedExpr| !matches!(argument.expr, Expr::Literal(_));
            let inserted = inserted(&call.func_name).and_then(|index| call.args.get_mut(index));
            if let Some(argument) = inserted.filter(computed) {
                charge(argument, CHARGE_INSERTED, 0);
            }
            let mut operands = operands_mut(call).into_iter();
            operands.next().into_iter().for_each(|first| charge(first, CHARGE, weight));
            operands.for_each(|operand| charge(operand, CHARGE, 0));
        }
        // The field of a value is borrowed from it, or moved out of it.
        Expr::Select(_) => {}
        parent => parts_mut(parent).into_iter().for_each(|part| charge(part, CHARGE, 0)),
    }
}

fn is_free(call: &CallExpr) -> bool {
    let name = call.func_name.as_str();
    let is_literal = |operand: &IdedExpr| matches!(operand.expr, Expr::Literal(_));
    FREE.contains(&name) || COMPARISONS.contains(&name) && operands(call).into_iter().any(is_literal)
}

/// The cost of an evaluation without the values that it handles.
pub(super) fn steps(expression: &IdedExpr) -> usize {
    let parts: usize = levels(expression).map(|level| level.len()).sum();
    parts.saturating_mul(usize::try_from(SCALAR).unwrap_or(1))
}

/// The cost of each element of the first operand beyond its size, in steps.
fn weight(expression: &Expr) -> u64 {
    let steps = |expression| levels(expression).map(|level| level.len() as u64).sum::<u64>();
    match expression {
        Expr::Comprehension(comprehension) => {
            steps(&comprehension.loop_cond) + steps(&comprehension.loop_step)
        }
        Expr::Call(call) if call.func_name == "distinct" => EACH_WITH_EACH,
        Expr::Call(call) => match inserted(&call.func_name).and_then(|index| call.args.get(index)) {
            Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }) => {
                text.inner().len() as u64 / SCALAR + 1
            }
            Some(_) => MAX_INSERTED / SCALAR,
            None => 0,
        },
        _ => 0,
    }
}

/// Lets a value pass through the call that takes its size from the budget.
fn charge(expression: &mut IdedExpr, function: &str, weight: u64) {
    let is_free = match &expression.expr {
        // Its elements are counted, and the library depends on the form of this list.
        Expr::List(_) | Expr::Literal(_) => weight == 0,
        Expr::Ident(name) => name == RESULT,
        _ => false,
    };
    if is_free {
        return;
    }
    let part = |expr| IdedExpr { id: 0, expr };
    let value = std::mem::take(expression);
    let budget = part(Expr::Ident(VARIABLE.to_owned()));
    let weight = part(Expr::Literal(LiteralValue::Int(i64::try_from(weight).unwrap_or(i64::MAX).into())));
    let args = vec![budget, value, weight];
    expression.expr = Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args });
}

#[cfg(test)]
mod tests;
