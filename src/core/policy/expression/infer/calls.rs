//! Functions and operators.

use cel::common::ast::{CallExpr, IdedExpr};

use super::super::failure::{OPTIONAL, remedy};
use super::super::tree::is_namespace;
use super::super::types::{Kind, Texts, Type};
use super::samples::{Answer, Sample, ask, samples};
use super::{Walker, value_of};

/// More combinations of kinds than this are not tried.
const MAX_COMBINATIONS: usize = 64;

impl Walker<'_> {
    pub(super) fn function(&mut self, expression: &IdedExpr, call: &CallExpr) -> Type {
        let namespace = call.target.as_deref().filter(|target| is_namespace(target));
        let target = match (&call.target, namespace) {
            (Some(target), None) => Some(self.of(target)),
            _ => None,
        };
        let args: Vec<Type> = call.args.iter().map(|argument| self.of(argument)).collect();
        if let Some(known) = self.of_optional(expression, call, target.as_ref(), &args) {
            return known;
        }
        let result = self.checked_call(expression, call, target.as_ref(), &args);
        let on = target.as_ref().or(args.first());
        match (call.func_name.as_str(), on) {
            ("size" | "devices", _) => Type::count(),
            ("dyn", _) => Type::Dyn,
            ("distinct" | "reverse" | "slice" | "sort" | "@sortByAssociatedKeys", Some(target))
                if matches!(target.kinds(), Some([Kind::List(_)])) =>
            {
                target.clone()
            }
            ("_+_", _) => sum(&args).unwrap_or(result),
            ("-_", Some(one)) => match one.kinds() {
                Some([Kind::Int(low, high)]) => {
                    Type::of(Kind::Int(high.saturating_neg(), low.saturating_neg()))
                }
                _ => result,
            },
            ("lowerAscii", _) => Type::of(Kind::String(Texts::LowerCase)),
            _ => result,
        }
    }

    /// The functions of optional values, which work on values of any kind.
    fn of_optional(
        &mut self,
        expression: &IdedExpr,
        call: &CallExpr,
        target: Option<&Type>,
        args: &[Type],
    ) -> Option<Type> {
        let name = call.func_name.as_str();
        let is_of_namespace = call.target.as_deref().is_some_and(is_namespace);
        match (name, args) {
            ("none", []) if is_of_namespace => return Some(Type::optional(Type::NEVER)),
            ("of" | "ofNonZeroValue", [value]) if is_of_namespace => {
                return Some(Type::optional(value.clone()));
            }
            ("hasValue" | "value", []) | ("orValue" | "or", [_]) => {}
            _ => return None,
        }
        let (target, operand) = (target?, call.target.as_deref()?);
        let is_optional = |kind: &Kind| matches!(kind, Kind::Optional(_));
        if !target.may_be(is_optional) {
            let message =
                format!("`{name}` is for optional values, and {} is {target}", self.quoted(operand));
            let hint = "read what may be absent with `.?` or `[?…]`, as in `pod.spec.?hostname.orValue('')`";
            self.error(expression, message, Some(hint.to_owned()));
            return Some(Type::Dyn);
        }
        if target.kinds().is_none() {
            return Some(if name == "hasValue" { Type::bool() } else { Type::Dyn });
        }
        Some(match (name, args) {
            ("hasValue", _) => Type::bool(),
            ("or", [other]) => target.clone().or(other.clone()),
            ("orValue", [other]) => value_of(target.clone()).or(other.clone()),
            _ => value_of(target.clone()),
        })
    }

    /// The type of a call's result. Reports a call that fails for all kinds of values that its arguments may have.
    pub(super) fn checked_call(
        &mut self,
        expression: &IdedExpr,
        call: &CallExpr,
        target: Option<&Type>,
        args: &[Type],
    ) -> Type {
        let inputs: Vec<&Type> = target.into_iter().chain(args).collect();
        if inputs.iter().any(|input| input.is_never()) {
            return Type::NEVER;
        }
        let alternatives: Option<Vec<Vec<Sample>>> = inputs.iter().map(|input| samples(input)).collect();
        let Some(alternatives) = alternatives else { return Type::Dyn };
        let count: usize = alternatives.iter().map(Vec::len).product();
        if count > MAX_COMBINATIONS {
            return Type::Dyn;
        }
        let mut result = Type::NEVER;
        let mut fits = false;
        for at in 0..count {
            let mut rest = at;
            let chosen: Vec<&Sample> = alternatives
                .iter()
                .map(|values| {
                    let value = &values[rest % values.len()];
                    rest /= values.len();
                    value
                })
                .collect();
            match ask(call, target.is_some(), &chosen) {
                Answer::Result(one) => {
                    fits = true;
                    result = result.or(one);
                }
                Answer::Unfit => {}
            }
        }
        if fits {
            return result;
        }
        let (message, hint) = self.unfit(call, target, args);
        self.error(expression, message, hint);
        Type::Dyn
    }

    /// The message for a call that fails for all values.
    fn unfit(&self, call: &CallExpr, target: Option<&Type>, args: &[Type]) -> (String, Option<String>) {
        let described =
            |expression: &IdedExpr, inferred: &Type| format!("{} is {inferred}", self.quoted(expression));
        if let (Some(operator), [left, right], [one, other]) =
            (operator(&call.func_name), call.args.as_slice(), args)
        {
            let message = format!(
                "`{operator}` does not take these two types: {}, and {}",
                described(left, one),
                described(right, other)
            );
            let names: Vec<String> = type_names(one).chain(type_names(other)).collect();
            return (message, Some(remedy(operator, &names).to_owned()));
        }
        let name = match operator(&call.func_name) {
            Some(operator) => operator,
            None => call.func_name.as_str(),
        };
        let receiver = call.target.as_deref().zip(target);
        let all = receiver.into_iter().chain(call.args.iter().zip(args));
        let all: Vec<String> = all.map(|(expression, inferred)| described(expression, inferred)).collect();
        let message = match all.as_slice() {
            [] => format!("`{name}` does not work without arguments"),
            all => format!("`{name}` does not take these arguments: {}", all.join(", ")),
        };
        let is_optional = |inferred: &Type| matches!(inferred.kinds(), Some([Kind::Optional(_)]));
        let optional = target.into_iter().chain(args).any(is_optional);
        (message, optional.then(|| OPTIONAL.to_owned()))
    }
}

/// The names of CEL for the kinds of a value, apart from `null` if it can be another one.
fn type_names(inferred: &Type) -> impl Iterator<Item = String> {
    let kinds = inferred.kinds().unwrap_or_default();
    let name = move |kind: &Kind| match kind {
        Kind::Null if kinds.len() > 1 => None,
        Kind::Null => Some("null"),
        Kind::Int(..) => Some("int"),
        Kind::Double => Some("double"),
        Kind::Optional(_) => Some("optional"),
        _ => None,
    };
    kinds.iter().filter_map(name).map(str::to_owned)
}

/// The sum of lists, or of texts that are known.
fn sum(args: &[Type]) -> Option<Type> {
    let [one, other] = args else { return None };
    match (one.kinds()?, other.kinds()?) {
        ([Kind::List(one)], [Kind::List(other)]) => Some(Type::list((**one).clone().or((**other).clone()))),
        ([Kind::String(Texts::LowerCase)], [Kind::String(Texts::LowerCase)]) => {
            Some(Type::of(Kind::String(Texts::LowerCase)))
        }
        _ => None,
    }
}

/// An operator as an expression writes it.
fn operator(function: &str) -> Option<&str> {
    let known = [
        ("_+_", "+"),
        ("_-_", "-"),
        ("_*_", "*"),
        ("_/_", "/"),
        ("_%_", "%"),
        ("_<_", "<"),
        ("_<=_", "<="),
        ("_>_", ">"),
        ("_>=_", ">="),
        ("@in", "in"),
        ("-_", "-"),
    ];
    known.into_iter().find(|(name, _)| *name == function).map(|(_, operator)| operator)
}
