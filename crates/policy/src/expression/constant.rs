//! Conditions that hold always or never: `x == 'a' && x == 'b'`, `y || !y`.

use cel::common::ast::{Expr, IdedExpr};
use serde_json::Value;

use super::reads::literals;
use super::tree::{each_mut, levels};

/// The most parts of a condition, and the most combinations of values for which it is evaluated. Longer conditions are not
/// examined.
const MOST_PARTS: usize = 32;
const MOST_COMBINATIONS: usize = 128;

/// A part that is not looked into, with the values that make a difference to the condition.
type Operands<'e> = Vec<(&'e IdedExpr, Vec<Value>)>;

/// The value of a condition within an expression that is the same whatever it reads.
pub(super) fn constant(expression: &IdedExpr) -> Option<bool> {
    // Parts with the same text have different numbers.
    let mut tree = expression.clone();
    each_mut(&mut tree, &mut |part| part.id = 0);
    levels(&tree).flatten().find_map(of_condition)
}

fn of_condition(condition: &IdedExpr) -> Option<bool> {
    let is_small = levels(condition).flatten().take(MOST_PARTS + 1).count() <= MOST_PARTS;
    if !is_small || !matches!(call(condition), Some(("_&&_" | "_||_", _))) {
        return None;
    }
    let mut operands = Operands::new();
    add_operands(condition, &mut operands);
    let combinations = operands.iter().try_fold(1, |all: usize, (_, values)| {
        Some(all * values.len()).filter(|all| *all <= MOST_COMBINATIONS)
    })?;
    let mut results = (0..combinations).map(|mut at| {
        let of_one = |(part, values): &(_, Vec<Value>)| {
            let value = values[at % values.len()].clone();
            at /= values.len();
            (*part, value)
        };
        let values: Vec<(&IdedExpr, Value)> = operands.iter().map(of_one).collect();
        holds(condition, &values)
    });
    let first = results.next()??;
    results.all(|result| result == Some(first)).then_some(first)
}

/// The name and the arguments of an operator.
fn call(part: &IdedExpr) -> Option<(&str, &[IdedExpr])> {
    let Expr::Call(call) = &part.expr else { return None };
    call.target.is_none().then_some((&call.func_name, &call.args))
}

/// The operator and the sides of a comparison of something with one literal.
fn comparison(part: &IdedExpr) -> Option<(&str, [&IdedExpr; 2])> {
    let (operator @ ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_"), [one, other]) = call(part)? else {
        return None;
    };
    let is_literal = |side: &IdedExpr| matches!(side.expr, Expr::Literal(_)) && literals(side).len() == 1;
    (is_literal(one) != is_literal(other)).then_some((operator, [one, other]))
}

fn add_operands<'e>(part: &'e IdedExpr, operands: &mut Operands<'e>) {
    if let Some(("_&&_" | "_||_" | "!_", conditions)) = call(part) {
        return conditions.iter().for_each(|condition| add_operands(condition, operands));
    }
    let (operand, values) = match comparison(part) {
        Some((_, [one, other])) => match (literals(one).pop(), literals(other).pop()) {
            (Some(literal), _) => (other, around(literal)),
            (None, literal) => (one, literal.map(around).unwrap_or_default()),
        },
        None => (part, vec![true.into(), false.into()]),
    };
    match operands.iter_mut().find(|(known, _)| *known == operand) {
        Some((_, known)) => known.extend(values),
        None => operands.push((operand, values)),
    }
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

/// Whether a condition is true with these values of its operands; `None` if CEL has no such comparison.
fn holds(part: &IdedExpr, values: &[(&IdedExpr, Value)]) -> Option<bool> {
    match call(part) {
        Some(("_&&_", [one, other])) => return Some(holds(one, values)? && holds(other, values)?),
        Some(("_||_", [one, other])) => return Some(holds(one, values)? || holds(other, values)?),
        Some(("!_", [one])) => return Some(!holds(one, values)?),
        _ => {}
    }
    let value = |part: &IdedExpr| {
        let operand = values.iter().find(|(known, _)| *known == part).map(|(_, value)| value.clone());
        operand.or_else(|| literals(part).pop())
    };
    let Some((operator, [one, other])) = comparison(part) else { return value(part)?.as_bool() };
    let order = match (value(one)?, value(other)?) {
        (Value::String(one), Value::String(other)) => one.cmp(&other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(&other),
        (Value::Number(one), Value::Number(other)) => one.as_f64()?.partial_cmp(&other.as_f64()?)?,
        _ => return ["_==_", "_!=_"].contains(&operator).then_some(operator == "_!=_"),
    };
    Some(match operator {
        "_==_" => order.is_eq(),
        "_!=_" => order.is_ne(),
        "_<_" => order.is_lt(),
        "_<=_" => order.is_le(),
        "_>_" => order.is_gt(),
        _ => order.is_ge(),
    })
}
