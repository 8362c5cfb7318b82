//! The syntax tree of an expression.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr};

use super::functions;

/// The parts of an expression that have values, to read or to replace.
macro_rules! parts {
    ($parts:ident, $operands:ident $(, $mut:tt)?) => {
        pub(super) fn $parts(expression: &$($mut)? Expr) -> Vec<&$($mut)? IdedExpr> {
            let entry = |entry| match entry {
                &$($mut)? EntryExpr::StructField(ref $($mut)? field) => vec![&$($mut)? field.value],
                &$($mut)? EntryExpr::MapEntry(ref $($mut)? entry) => {
                    vec![&$($mut)? entry.key, &$($mut)? entry.value]
                }
            };
            match expression {
                Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
                Expr::Select(select) => vec![&$($mut)? *select.operand],
                Expr::List(list) => (&$($mut)? list.elements).into_iter().collect(),
                Expr::Map(map) => {
                    (&$($mut)? map.entries).into_iter().flat_map(|part| entry(&$($mut)? part.expr)).collect()
                }
                Expr::Struct(all) => {
                    (&$($mut)? all.entries).into_iter().flat_map(|part| entry(&$($mut)? part.expr)).collect()
                }
                Expr::Call(call) => $operands(call),
                Expr::Comprehension(comprehension) => {
                    let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } =
                        &$($mut)? **comprehension;
                    vec![iter_range, accu_init, loop_cond, loop_step, result]
                }
            }
        }

        /// The target of a call, unless it is the first half of a function's name, and the arguments.
        pub(super) fn $operands(call: &$($mut)? CallExpr) -> Vec<&$($mut)? IdedExpr> {
            let target = match &$($mut)? call.target {
                Some(target) if !is_namespace(target) => Some(&$($mut)? **target),
                _ => None,
            };
            target.into_iter().chain(&$($mut)? call.args).collect()
        }
    };
}

parts!(parts, operands);
parts!(parts_mut, operands_mut, mut);

/// Calls `visit` with every expression within an expression, itself first.
pub(super) fn each_mut(expression: &mut IdedExpr, visit: &mut dyn FnMut(&mut IdedExpr)) {
    visit(expression);
    for part in parts_mut(&mut expression.expr) {
        each_mut(part, visit);
    }
}

/// Returns whether the target of a call is the first half of a function's name.
pub(super) fn is_namespace(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name) if functions::is_namespace(name))
}

/// Returns whether an expression is a call of `or` with a literal, which is no optional value.
pub(super) fn is_or_of_a_literal(expression: &IdedExpr) -> bool {
    let Expr::Call(call) = &expression.expr else { return false };
    let is_literal = |one: &IdedExpr| matches!(one.expr, Expr::Literal(_) | Expr::List(_) | Expr::Map(_));
    call.func_name == "or" && call.target.is_some() && call.args.iter().any(is_literal)
}

/// Every expression within an expression, itself included, level by level.
pub(super) fn levels(expression: &IdedExpr) -> impl Iterator<Item = Vec<&IdedExpr>> {
    let first = Some(vec![expression]);
    std::iter::successors(first, |level| {
        let next: Vec<_> = level.iter().flat_map(|expression| parts(&expression.expr)).collect();
        (!next.is_empty()).then_some(next)
    })
}
