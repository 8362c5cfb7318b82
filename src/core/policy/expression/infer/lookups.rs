//! The keys that an expression looks up, and the values that it compares by their order.

use cel::common::ast::{Expr, IdedExpr};

use super::super::Expression;
use super::super::tree::levels;
use super::Walker;
use super::fields::literal_text;
use super::formula::path;
use crate::core::yaml::Span;

/// A part of an expression.
#[derive(Debug)]
pub(crate) enum Part<'e> {
    /// `operand[key]` and its like. Steps that may be absent have a `?` in front of them.
    Lookup { operand: Vec<&'e str>, key: &'e str },
    /// `<` and its like, of a name and another value.
    Order { name: &'e str, other: &'e str },
}

impl Expression {
    /// Calls `visit` with the parts of the expression, each with its place.
    pub(crate) fn lookups(&self, visit: &mut dyn FnMut(Part<'_>, Span)) {
        let dynamic = |_: &str| super::Type::Dyn;
        let walker = Walker::new(self, &dynamic);
        let mut at = |part: Part<'_>, place: &IdedExpr| {
            let (at, length) = walker.range(place);
            visit(part, self.span(at, length));
        };
        self.parts(&mut |part| match &part.expr {
            Expr::Select(select) => {
                if let Some(operand) = path(&select.operand) {
                    at(Part::Lookup { operand, key: &select.field }, part);
                }
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                ("_[_]" | "_?._" | "_[?_]", [operand, key]) => {
                    if let (Some(operand), Some(text)) = (path(operand), literal_text(key)) {
                        at(Part::Lookup { operand, key: text }, key);
                    }
                }
                ("@in", [key, map]) => {
                    if let (Some(operand), Some(text)) = (path(map), literal_text(key)) {
                        at(Part::Lookup { operand, key: text }, key);
                    }
                }
                ("_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                    for (one, other) in [(left, right), (right, left)] {
                        let other = match &other.expr {
                            Expr::Ident(name) => name,
                            _ => literal_text(other).unwrap_or_default(),
                        };
                        if let Expr::Ident(name) = &one.expr {
                            at(Part::Order { name, other }, part);
                        }
                    }
                }
                _ => {}
            },
            _ => {}
        });
    }

    /// Calls `visit` with every part of the expression.
    pub(super) fn parts<'e>(&'e self, visit: &mut dyn FnMut(&'e IdedExpr)) {
        levels(self.program.expression()).flatten().for_each(visit);
    }
}
