//! From the syntax tree of a condition to a [`Formula`].

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::super::Expression;
use super::super::formula::{Chain, Claim, Constant, Formula, Meanings, Test};
use super::super::reads::ROOTS;
use super::super::types::Type;
use super::Walker;
use super::fields::literal_text;
use crate::core::yaml::Span;

/// Longer terms are not compared with others.
const MAX_TERM: usize = 2_000;
/// Variables that read variables are followed to this depth.
const MAX_DEPTH: usize = 24;

impl Expression {
    /// The expression as a condition.
    pub(crate) fn formula(&self, meanings: &dyn Meanings) -> Formula {
        Builder::of(self, meanings).formula(self.program.expression())
    }

    /// Every comparison with a literal in the expression.
    pub(crate) fn tests(&self, meanings: &dyn Meanings) -> Vec<Test> {
        let builder = Builder::of(self, meanings);
        let mut found = Vec::new();
        self.parts(&mut |part| {
            let Expr::Call(call) = &part.expr else { return };
            if let Some(Formula::Test(test)) = builder.comparison(part, call) {
                found.push(*test);
            }
        });
        found
    }

    /// Every part of the expression that combines conditions.
    pub(crate) fn chains(&self, meanings: &dyn Meanings) -> Vec<Chain> {
        let mut found = Vec::new();
        Builder::of(self, meanings).chains(self.program.expression(), None, &mut found);
        found
    }
}

struct Builder<'e> {
    meanings: &'e dyn Meanings,
    expression: &'e Expression,
    /// The place of the variable in the outermost expression by which this one was reached.
    place: Option<(String, Span)>,
    depth: usize,
}

impl<'e> Builder<'e> {
    fn of(expression: &'e Expression, meanings: &'e dyn Meanings) -> Self {
        Self { meanings, expression, place: None, depth: 0 }
    }

    fn with_walker<T>(&self, ask: impl FnOnce(&mut Walker<'_>) -> T) -> T {
        let scope = |name: &str| self.meanings.type_of(name);
        ask(&mut Walker::new(self.expression, &scope))
    }

    /// The text of a part, and its place.
    fn place(&self, part: &IdedExpr) -> (String, Span) {
        self.place.clone().unwrap_or_else(|| {
            self.with_walker(|walker| {
                let (at, length) = walker.range(part);
                let quoted = walker.quoted(part);
                (quoted.trim_matches('`').to_owned(), self.expression.span(at, length))
            })
        })
    }

    /// The expression of a variable.
    fn inner<'s>(&'s self, part: &IdedExpr, name: &str) -> Option<(Builder<'s>, &'s IdedExpr)> {
        let definition = self.meanings.definition(name).filter(|_| self.depth < MAX_DEPTH)?;
        let inner = Builder {
            meanings: self.meanings,
            expression: definition,
            place: Some(self.place(part)),
            depth: self.depth + 1,
        };
        Some((inner, definition.program.expression()))
    }

    fn formula(&self, part: &IdedExpr) -> Formula {
        match &part.expr {
            Expr::Literal(LiteralValue::Boolean(value)) => Formula::Constant(*value.inner()),
            Expr::Ident(name) => match self.inner(part, name) {
                Some((inner, definition)) => inner.formula(definition),
                None => self.test(part, part, Claim::Holds),
            },
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                ("_&&_", [left, right]) => Formula::All(vec![self.formula(left), self.formula(right)]),
                ("_||_", [left, right]) => Formula::Any(vec![self.formula(left), self.formula(right)]),
                ("!_", [inner]) => self.formula(inner).negated(),
                ("_?_:_", [condition, then, other]) => {
                    let condition = self.formula(condition);
                    Formula::Any(vec![
                        Formula::All(vec![condition.clone(), self.formula(then)]),
                        Formula::All(vec![condition.negated(), self.formula(other)]),
                    ])
                }
                _ => self.comparison(part, call).unwrap_or_else(|| self.test(part, part, Claim::Holds)),
            },
            _ => self.test(part, part, Claim::Holds),
        }
    }

    /// A comparison of a value with a literal.
    fn comparison(&self, part: &IdedExpr, call: &CallExpr) -> Option<Formula> {
        let formula = self.compared(part, call)?;
        let is_written = |test: &Test| test.span == self.place(part).1;
        Some(match formula {
            Formula::Test(test) if test.reversed && is_written(&test) => {
                Formula::Test(Box::new(Test { reversed: false, ..*test }))
            }
            other => other,
        })
    }

    fn compared(&self, part: &IdedExpr, call: &CallExpr) -> Option<Formula> {
        let name = call.func_name.as_str();
        match (name, &call.target, call.args.as_slice()) {
            ("startsWith", Some(value), [prefix]) => {
                let prefix = literal_text(prefix)?.to_owned();
                Some(self.test(part, value, Claim::StartsWith(prefix)))
            }
            ("@in", None, [value, list]) => {
                let Expr::List(list) = &list.expr else { return None };
                let constants = list.elements.iter().map(constant).collect::<Option<Vec<_>>>()?;
                Some(self.test(part, value, Claim::OneOf(constants)))
            }
            ("_==_" | "_!=_", None, [left, right]) => {
                let (value, constant) = against(left, right)?;
                let equal = match constant {
                    Constant::Bool(true) => self.formula(value),
                    Constant::Bool(false) => self.formula(value).negated(),
                    constant => self.test(part, value, Claim::OneOf(vec![constant])),
                };
                Some(if name == "_==_" { equal } else { equal.negated() })
            }
            ("_<_" | "_<=_" | "_>_" | "_>=_", None, [left, right]) => {
                let (value, Constant::Number(number)) = against(left, right)? else { return None };
                let is_left = std::ptr::eq(value, left);
                let below = self.test(part, value, Claim::Below(number));
                let at_most = self.test(part, value, Claim::AtMost(number));
                Some(match (name, is_left) {
                    ("_<_", true) | ("_>_", false) => below,
                    ("_<=_", true) | ("_>=_", false) => at_most,
                    ("_>_", true) | ("_<_", false) => at_most.negated(),
                    _ => below.negated(),
                })
            }
            _ => None,
        }
    }

    fn test(&self, part: &IdedExpr, value: &IdedExpr, claim: Claim) -> Formula {
        let (source, span) = self.place(part);
        let inferred = self.with_walker(|walker| walker.of(value));
        let (mut term, mut roots) = (String::new(), BTreeSet::new());
        self.term(value, &mut term, &mut roots);
        if term.len() > MAX_TERM {
            term = format!("{span:?} {source}");
        }
        let (negated, reversed) = (false, false);
        Formula::Test(Box::new(Test { term, inferred, claim, negated, reversed, roots, source, span }))
    }

    /// Writes a value in one spelling, with the values of variables in place of their names.
    fn term(&self, part: &IdedExpr, out: &mut String, roots: &mut BTreeSet<String>) {
        if out.len() > MAX_TERM {
            return;
        }
        if let Some(path) = path(part).filter(|path| ROOTS.contains(&path[0])) {
            let path = path.join("\u{0}");
            out.push_str(&path);
            roots.insert(path);
            return;
        }
        match &part.expr {
            Expr::Ident(name) => {
                if let Some((inner, definition)) = self.inner(part, name) {
                    return inner.term(definition, out, roots);
                }
                out.push_str(name);
                roots.insert(name.clone());
            }
            Expr::Literal(literal) => _ = write!(out, "{literal:?}"),
            Expr::Select(select) => {
                self.term(&select.operand, out, roots);
                let _ = write!(out, "{}{:?}", if select.test { ".has." } else { "." }, select.field);
            }
            Expr::Call(call) => {
                let _ = write!(out, "{}(", call.func_name);
                for argument in call.target.iter().map(|target| &**target).chain(&call.args) {
                    self.term(argument, out, roots);
                    out.push(',');
                }
                out.push(')');
            }
            Expr::List(list) => {
                out.push('[');
                for element in &list.elements {
                    self.term(element, out, roots);
                    out.push(',');
                }
                let _ = write!(out, "{:?}]", list.optional_indices);
            }
            // Rare in conditions: only the same text is the same value.
            Expr::Map(_) | Expr::Struct(_) | Expr::Comprehension(_) | Expr::Unspecified => {
                out.push_str(&self.with_walker(|walker| {
                    let (at, length) = walker.range(part);
                    walker.expression.source.get(at..at + length).unwrap_or_default().to_owned()
                }));
                roots.extend(self.expression.names().iter().cloned());
            }
        }
    }

    /// Collects the parts that combine conditions. `within` is the operator around the part.
    fn chains(&self, part: &IdedExpr, within: Option<&str>, found: &mut Vec<Chain>) {
        let mut visit = |inner: &IdedExpr, within: Option<&str>| self.chains(inner, within, found);
        match &part.expr {
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                let combines = name == "_&&_" || name == "_||_";
                let operator = combines.then_some(name);
                call.target.iter().for_each(|target| visit(target, None));
                call.args.iter().for_each(|argument| visit(argument, operator));
                if combines && within != operator {
                    let (source, span) = self.place(part);
                    found.push(Chain { formula: self.formula(part), is_and: name == "_&&_", source, span });
                }
            }
            Expr::Select(select) => visit(&select.operand, None),
            Expr::List(list) => list.elements.iter().for_each(|element| visit(element, None)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.value, None);
                }
            }),
            Expr::Comprehension(comprehension) => {
                visit(&comprehension.iter_range, None);
                // A variable of the loop that hides a name of the policy would have its type.
                if self.meanings.type_of(&comprehension.iter_var) == Type::Dyn {
                    visit(&comprehension.loop_step, None);
                }
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
        }
    }
}

/// The value and the literal of a comparison.
fn against<'e>(left: &'e IdedExpr, right: &'e IdedExpr) -> Option<(&'e IdedExpr, Constant)> {
    match (constant(left), constant(right)) {
        (None, Some(constant)) => Some((left, constant)),
        (Some(constant), None) => Some((right, constant)),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers that policies compare with are far below 2^53")]
fn constant(part: &IdedExpr) -> Option<Constant> {
    let literal = match &part.expr {
        Expr::Literal(literal) => literal,
        Expr::Call(CallExpr { func_name, args, .. }) if func_name == "-_" => {
            return match args.first().and_then(constant)? {
                Constant::Number(number) => Some(Constant::Number(-number)),
                _ => None,
            };
        }
        _ => return None,
    };
    Some(match literal {
        LiteralValue::Null => Constant::Null,
        LiteralValue::Boolean(value) => Constant::Bool(*value.inner()),
        LiteralValue::Int(value) => Constant::Number(*value.inner() as f64),
        LiteralValue::Double(value) => Constant::Number(*value.inner()),
        LiteralValue::String(text) => Constant::Text(text.inner().to_owned()),
        LiteralValue::UInt(_) | LiteralValue::Bytes(_) => return None,
    })
}

/// `pod`, `spec` and `hostNetwork` for `pod.spec.hostNetwork` and `pod["spec"].hostNetwork`. A step that may be absent
/// has a `?`.
pub(super) fn path(part: &IdedExpr) -> Option<Vec<&str>> {
    match &part.expr {
        Expr::Ident(name) => Some(vec![name]),
        Expr::Select(select) if !select.test => {
            let mut path = path(&select.operand)?;
            path.push(&select.field);
            Some(path)
        }
        Expr::Call(call) if matches!(call.func_name.as_str(), "_[_]" | "_?._" | "_[?_]") => {
            let [operand, key] = call.args.as_slice() else { return None };
            let mut path = path(operand)?;
            if call.func_name != "_[_]" {
                path.push("?");
            }
            path.push(literal_text(key)?);
            Some(path)
        }
        _ => None,
    }
}
