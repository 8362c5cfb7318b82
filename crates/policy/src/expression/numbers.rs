//! Arithmetic with whole and fractional numbers.
//!
//! CEL's arithmetic takes numbers of one type only, and a parameter of the type `number` is CEL's `double`, also if
//! it is whole. So the operators become calls that convert an `int` next to a `double`.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use cel::common::types::{CelDouble, CelInt, CelString, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use fabric_yaml::quantity::Quantity;

use super::conversion::to_f64;
use super::tree::each_mut;

/// The operators, and the functions that replace them. No expression can name these.
const OPERATORS: [(&str, &str); 4] = [("_*_", "@times"), ("_/_", "@over"), ("_+_", PLUS), ("_-_", "@minus")];
pub(super) const PLUS: &str = "@plus";

/// Applies an operator to operands of one type; `None` if the first one has no such operator.
type Apply = for<'v> fn(&(dyn Val + 'v), &(dyn Val + 'v)) -> Option<Owned<'v>>;
type Owned<'v> = Result<Box<dyn Val + 'v>, ExecutionError>;

/// Adds the functions.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    // The library takes functions only, which capture nothing.
    macro_rules! add {
        ($function:expr, $operand:ident, $apply:ident) => {
            env.add_overload($function, $function, vec![DYN_TYPE, DYN_TYPE], |args| {
                operate($function, &args, |one, other| {
                    Some(one.$operand()?.$apply(other).map(CowVal::into_owned))
                })
            })?
        };
    }
    add!("@times", as_multiplier, mul);
    add!("@over", as_divider, div);
    add!(PLUS, as_adder, add);
    add!("@minus", as_subtractor, sub);
    env.add_overload("quantity", "quantity", vec![DYN_TYPE], quantity)
}

/// Replaces the operators.
pub(super) fn replace_operators(expression: &mut IdedExpr) {
    each_mut(expression, &mut |part| {
        if let Expr::Call(call) = &mut part.expr
            && !call.args.iter().any(is_no_number)
            && let Some((_, function)) = OPERATORS.iter().find(|(operator, _)| call.func_name == *operator)
        {
            call.func_name = (*function).to_owned();
        }
    });
}

/// Returns whether an operand is a text or a list, or the result of one of the library's macros, to which it adds.
fn is_no_number(operand: &IdedExpr) -> bool {
    match &operand.expr {
        Expr::Literal(LiteralValue::String(_)) | Expr::List(_) => true,
        Expr::Ident(name) => name.starts_with('@'),
        _ => false,
    }
}

/// Applies an operator to two operands, of which an `int` is converted if the other is a `double`.
fn operate<'b, 'v>(
    function: &str,
    args: &[CowVal<'b, 'v>],
    apply: Apply,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let [one, other] = args else { return Err(ExecutionError::MissingArgumentOrTarget) };
    let double = |value: &CowVal<'b, 'v>, other: &CowVal<'b, 'v>| {
        let whole = value.downcast_ref::<CelInt>().filter(|_| other.downcast_ref::<CelDouble>().is_some());
        whole.map(|whole| CowVal::owned(CelDouble::from(to_f64(*whole.inner()))))
    };
    let (of_one, of_other) = (double(one, other), double(other, one));
    let (one, other) = (of_one.as_ref().unwrap_or(one), of_other.as_ref().unwrap_or(other));
    let types = || [one, other].map(|value| value.get_type().name().to_owned()).to_vec();
    let result =
        apply(&**one, &**other).ok_or_else(|| ExecutionError::no_such_overload(function, types()))?;
    result.map(CowVal::Owned)
}

/// `quantity('64Gi')`: the number that a quantity of Kubernetes stands for. One without a unit can be a number in YAML.
fn quantity<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = args.pop().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let Some(text) = value.downcast_ref::<CelString<'_>>() else {
        let is_number =
            value.downcast_ref::<CelInt>().is_some() || value.downcast_ref::<CelDouble>().is_some();
        let types = || vec![value.get_type().name().to_owned()];
        return if is_number {
            Ok(value)
        } else {
            Err(ExecutionError::no_such_overload("quantity", types()))
        };
    };
    let quantity = Quantity::parse(text.inner()).ok_or_else(|| {
        let message = format!("`{}` is not a quantity such as `64Gi`", text.inner());
        ExecutionError::function_error("quantity", message)
    })?;
    Ok(match quantity.as_integer() {
        Some(whole) => CowVal::owned(CelInt::from(whole)),
        None => CowVal::owned(CelDouble::from(quantity.as_f64())),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Bindings, Expression};

    fn evaluate(source: &str) -> Result<Value, String> {
        let mut bindings = Bindings::default();
        bindings.set("gpus", &json!(3));
        bindings.set("container", &json!({"memory": "1Gi", "cpu": 2, "half": "500m", "no": "a lot"}));
        bindings.set_double("ratio", 2.0);
        bindings.set_double("fraction", 0.5);
        let value = Expression::compile(source).unwrap_or_else(|error| panic!("{source}: {error:?}"));
        value.evaluate(&bindings).map_err(|failure| failure.message)
    }

    #[test]
    fn whole_numbers_and_fractions_are_multiplied_divided_and_compared() {
        for (source, expected) in [
            ("gpus * ratio", json!(6.0)),
            ("ratio * gpus / fraction", json!(12.0)),
            ("gpus * 2", json!(6)),
            ("gpus / 2", json!(1)),
            ("gpus / 2.0", json!(1.5)),
            ("[1, 2].map(x, x * fraction)", json!([0.5, 1.0])),
            ("gpus * ratio > 5 && gpus == 3.0 && ratio < gpus", json!(true)),
            ("quantity(container.memory) / 2", json!(536_870_912)),
            ("quantity(container.memory) > quantity('1G')", json!(true)),
            ("quantity(container.half) * 2 + quantity(container.cpu) - 1", json!(2.0)),
            ("'a' + string(gpus) + 'b'", json!("a3b")),
            ("[gpus] + [ratio]", json!([3, 2.0])),
        ] {
            assert_eq!(evaluate(source), Ok(expected), "{source}");
        }
    }

    #[test]
    fn other_operands_are_refused_by_name() {
        for (source, expected) in [
            ("gpus * 'a'", "`*` does not take `int` and `string`"),
            ("'a' / 2", "`/` does not take `string` and `int`"),
            ("null * 2", "`*` does not take `null_type` and `int`"),
            ("gpus / 0", "Division by zero"),
            ("gpus / 0.0", "not a finite number"),
            ("9223372036854775807 * gpus", "Overflow"),
            ("quantity(container.no)", "`a lot` is not a quantity such as `64Gi`"),
            ("quantity([1])", "`quantity` does not take `list`"),
        ] {
            let failure = evaluate(source).unwrap_err();
            assert!(failure.contains(expected), "{source}: {failure}");
        }
    }
}
