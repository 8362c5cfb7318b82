//! Conditions that hold always or never: `x == 'a' && x == 'b'`, `y || !y`.

use cel::common::ast::{Expr, IdedExpr};
use serde_json::Value;

use super::Bindings;
use super::reads::literals;
use super::tree::{each_mut, levels};

/// The most parts of a condition, and the most combinations of values for which it is evaluated. Longer conditions are not
/// examined.
const MOST_PARTS: usize = 32;
const MOST_COMBINATIONS: usize = 128;

/// Parts that are not looked into, each with the values that make a difference to the condition. In its place, the condition
/// reads the name `@` with the position of the operand.
type Operands = Vec<(Expr, Vec<Value>)>;

/// The value of a condition within an expression that is the same whatever it reads.
pub(super) fn constant(expression: &IdedExpr) -> Option<bool> {
    levels(expression).flatten().find_map(of_condition)
}

fn of_condition(condition: &IdedExpr) -> Option<bool> {
    let is_condition =
        matches!(&condition.expr, Expr::Call(call) if ["_&&_", "_||_"].contains(&&*call.func_name));
    if !is_condition || levels(condition).flatten().take(MOST_PARTS + 1).count() > MOST_PARTS {
        return None;
    }
    let (mut tree, mut operands) = (condition.clone(), Operands::new());
    // Parts with the same text have different numbers.
    each_mut(&mut tree, &mut |part| part.id = 0);
    replace_operands(&mut tree, &mut operands);
    let combinations = operands.iter().try_fold(1, |all: usize, (_, values)| {
        Some(all * values.len()).filter(|all| *all <= MOST_COMBINATIONS)
    })?;
    let mut results = (0..combinations).map(|mut combination| {
        let mut bindings = Bindings::default();
        for (at, (_, values)) in operands.iter().enumerate() {
            bindings.set(&format!("@{at}"), &values[combination % values.len()]);
            combination /= values.len();
        }
        match cel::Value::resolve(&tree, &bindings.context) {
            Ok(cel::Value::Bool(holds)) => Some(holds),
            _ => None,
        }
    });
    let first = results.next()??;
    results.all(|result| result == Some(first)).then_some(first)
}

fn replace_operands(part: &mut IdedExpr, operands: &mut Operands) {
    if let Expr::Call(call) = &mut part.expr {
        match (&*call.func_name, &mut *call.args) {
            ("_&&_" | "_||_" | "!_", conditions) => {
                return conditions.iter_mut().for_each(|condition| replace_operands(condition, operands));
            }
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => {
                match (literal(one), literal(other)) {
                    (Some(literal), None) => return replace(other, around(literal), operands),
                    (None, Some(literal)) => return replace(one, around(literal), operands),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    replace(part, vec![true.into(), false.into()], operands);
}

fn replace(part: &mut IdedExpr, values: Vec<Value>, operands: &mut Operands) {
    let known = operands.iter().position(|(operand, _)| *operand == part.expr);
    let at = known.unwrap_or(operands.len());
    let operand = std::mem::replace(&mut part.expr, Expr::Ident(format!("@{at}")));
    match operands.get_mut(at) {
        Some((_, known)) => known.extend(values),
        None => operands.push((operand, values)),
    }
}

fn literal(part: &IdedExpr) -> Option<Value> {
    if matches!(part.expr, Expr::Literal(_)) { literals(part).pop() } else { None }
}

/// A literal, and values below and above it.
fn around(literal: Value) -> Vec<Value> {
    match &literal {
        Value::String(text) => vec!["".into(), format!("{text} ").into(), literal],
        Value::Bool(value) => vec![(!value).into(), literal],
        number => {
            let number = number.as_f64().unwrap_or_default();
            [number - 0.5, number, number + 0.5].map(Value::from).to_vec()
        }
    }
}
