//! The keys that an expression looks up, and the values that it compares by their order.

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::super::Expression;
use super::super::reads::{Selection, Step, selection};
use super::super::tree::levels;
use super::Walker;
use super::fields::literal_text;
use crate::core::yaml::Span;

/// A part of an expression.
#[derive(Debug)]
pub(crate) enum Part<'e> {
    /// `operand[key]` and its like.
    Lookup { operand: Vec<String>, key: &'e str },
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

    /// The conditions of `?:` in the expression, each with its place, apart from those about the entries of a list.
    pub(crate) fn choices(&self) -> Vec<(Self, Span)> {
        let dynamic = |_: &str| super::Type::Dyn;
        let walker = Walker::new(self, &dynamic);
        let mut found = Vec::new();
        self.parts(&mut |part| {
            let Expr::Call(CallExpr { func_name, args, .. }) = &part.expr else { return };
            let Some(condition) = args.first().filter(|_| func_name == "_?_:_") else { return };
            let (at, length) = walker.range(condition);
            let compiled = self.source.get(at..at + length).map(Self::compile);
            if let Some(Ok(condition)) = compiled
                && condition.names().is_subset(self.names())
                && !condition.names().is_empty()
            {
                found.push((condition, self.span(at, length)));
            }
        });
        found
    }

    /// Calls `visit` with every part of the expression.
    pub(super) fn parts<'e>(&'e self, visit: &mut dyn FnMut(&'e IdedExpr)) {
        levels(self.program.expression()).flatten().for_each(visit);
    }
}

/// `pod`, `spec` and `hostNetwork` for `pod.spec.hostNetwork` and `pod[?"spec"].hostNetwork`.
fn path(part: &IdedExpr) -> Option<Vec<String>> {
    let Selection { name, path, keys } = selection(part)?;
    let fields = path.into_iter().filter_map(|step| match step {
        Step::Field(name) => Some(name),
        Step::Every | Step::Exists => None,
    });
    keys.is_empty().then(|| [name.to_owned()].into_iter().chain(fields).collect())
}
