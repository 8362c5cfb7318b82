//! The type of an expression, and the mistakes in its pod fields, names and parameters.
//!
//! The library has no type checker, so this one walks its syntax tree. The library checks the operands of operators and
//! functions: an expression that fails for a sample pod does not load.

mod comparisons;
mod fields;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr};

use super::Expression;
use super::environment::TYPE_NAMES;
use super::tree::operands;
use super::types::{Kind, Member, Texts, Type};

/// A mistake in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeFinding {
    /// The code of a warning; `None` for an error.
    pub(crate) warning: Option<&'static str>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Byte range within the expression.
    pub(crate) at: usize,
    pub(crate) length: usize,
}

impl Expression {
    /// The type of the value, with the types of the names that the expression reads.
    pub(crate) fn infer(&self, scope: &dyn Fn(&str) -> Type) -> (Type, Vec<TypeFinding>) {
        let mut walker = Walker { expression: self, scope, locals: Vec::new(), findings: Vec::new() };
        let inferred = walker.infer(self.tree());
        (inferred, walker.findings)
    }
}

struct Walker<'e> {
    expression: &'e Expression,
    scope: &'e dyn Fn(&str) -> Type,
    /// Variables of the comprehensions around the current expression.
    locals: Vec<(String, Type)>,
    findings: Vec<TypeFinding>,
}

impl Walker<'_> {
    fn infer(&mut self, expression: &IdedExpr) -> Type {
        match &expression.expr {
            Expr::Unspecified | Expr::Struct(_) => Type::Dyn,
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.name(name),
            Expr::Call(call) => self.call(expression, call),
            Expr::Select(select) => self.select(expression, select),
            Expr::List(list) => {
                let mut items = Type::NEVER;
                for (at, element) in list.elements.iter().enumerate() {
                    let item = self.infer(element);
                    items = items.or(if list.optional_indices.contains(&at) { value_of(item) } else { item });
                }
                Type::list(items)
            }
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn name(&self, name: &str) -> Type {
        match self.locals.iter().rev().find(|(known, _)| known == name) {
            Some((_, known)) => known.clone(),
            None if TYPE_NAMES.contains(&name) => Type::Dyn,
            None => (self.scope)(name),
        }
    }

    fn map(&mut self, map: &MapExpr) -> Type {
        let mut members: Vec<Member> = Vec::new();
        let mut all = Type::NEVER;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Type::Dyn };
            let value = self.infer(&entry.value);
            let value = if entry.optional { value_of(value) } else { value };
            match literal_text(&entry.key) {
                Some(key) => members.push(Member { key: key.to_owned(), value: value.clone() }),
                None => _ = self.infer(&entry.key),
            }
            all = all.or(value);
        }
        if members.len() == map.entries.len() {
            Type::from_kind(Kind::Record(members))
        } else {
            Type::map(all)
        }
    }

    /// A macro such as `exists` or `map`, which the library expands to a loop.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let range = self.infer(&comprehension.iter_range);
        let entry = match range.kinds() {
            Some([Kind::List(items)]) if comprehension.iter_var2.is_none() => (**items).clone(),
            Some([Kind::List(_) | Kind::Map(_) | Kind::Record(_) | Kind::Object(_), ..] | []) | None => {
                Type::Dyn
            }
            _ if range.may_be(|kind| matches!(kind, Kind::List(_) | Kind::Map(_) | Kind::Record(_))) => {
                Type::Dyn
            }
            _ => {
                let message = format!(
                    "{} is {range}, but this needs a list or a map",
                    self.quoted(&comprehension.iter_range)
                );
                self.report(&comprehension.iter_range, None, message, None);
                Type::Dyn
            }
        };
        let init = self.infer(&comprehension.accu_init);
        let before = self.locals.len();
        self.locals.push((comprehension.iter_var.clone(), entry));
        self.locals.extend(comprehension.iter_var2.iter().map(|name| (name.clone(), Type::Dyn)));
        self.locals.push((comprehension.accu_var.clone(), init.clone()));
        let step = self.infer(&comprehension.loop_step);
        self.locals.push((comprehension.accu_var.clone(), init.or(step)));
        let result = self.infer(&comprehension.result);
        self.locals.truncate(before);
        result
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> Type {
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("_&&_" | "_||_" | "!_", parts) => {
                for part in parts {
                    self.boolean(part);
                }
                Type::bool()
            }
            ("_?_:_", [condition, then, other]) => {
                self.boolean(condition);
                self.infer(then).or(self.infer(other))
            }
            ("_==_" | "_!=_", [left, right]) => self.equality(left, right),
            ("@in", [entry, list]) => self.membership(entry, list),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => self.comparison(expression, left, right),
            ("_[_]", [operand, key]) => self.index(expression, operand, key, false),
            ("_[?_]" | "_?._", [operand, key]) => self.index(expression, operand, key, true),
            (name, _) => {
                let values: Vec<Type> =
                    operands(call).into_iter().map(|operand| self.infer(operand)).collect();
                match (name, call.target.as_deref(), values.as_slice()) {
                    ("orValue" | "or" | "hasValue" | "value", Some(target), [value, ..]) => {
                        self.of_optional(expression, name, (target, value), values.get(1))
                    }
                    _ => of_function(name, &values),
                }
            }
        }
    }

    fn boolean(&mut self, expression: &IdedExpr) {
        let inferred = self.infer(expression);
        if !inferred.may_be(|kind| matches!(kind, Kind::Bool)) {
            let message = format!("{} is {inferred}, but a boolean is needed", self.quoted(expression));
            self.report(
                expression,
                None,
                message,
                Some(
                    "compare it, as in `totalGpus > 0`; `x != null ? x : y` is a value in place of `null`"
                        .to_owned(),
                ),
            );
        }
    }

    /// The functions of optional values.
    fn of_optional(
        &mut self,
        expression: &IdedExpr,
        name: &str,
        (operand, target): (&IdedExpr, &Type),
        other: Option<&Type>,
    ) -> Type {
        if !target.may_be(|kind| matches!(kind, Kind::Optional(_))) {
            let message =
                format!("`{name}` is for optional values, and {} is {target}", self.quoted(operand));
            let hint = "read what may be absent with `.?` or `[?…]`, as in `pod.spec.?hostname.orValue('')`";
            self.report(expression, None, message, Some(hint.to_owned()));
            return Type::Dyn;
        }
        match (name, other) {
            ("hasValue", _) => Type::bool(),
            ("or", Some(other)) => target.clone().or(other.clone()),
            ("orValue", Some(other)) => value_of(target.clone()).or(other.clone()),
            _ => value_of(target.clone()),
        }
    }

    fn report(
        &mut self,
        expression: &IdedExpr,
        warning: Option<&'static str>,
        message: String,
        hint: Option<String>,
    ) {
        let (at, length) = self.range(expression);
        let finding = TypeFinding { warning, message, hint, at, length };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// The byte range that identifies a part of the expression: its name, dot, bracket or operator.
    fn range(&self, expression: &IdedExpr) -> (usize, usize) {
        let source = &self.expression.source;
        let place = self.expression.program.source_info().offset_for(expression.id);
        // The library counts in bytes or in characters.
        let Some((start, stop)) = place.filter(|_| source.is_ascii()) else { return (0, source.len()) };
        let (start, end) = (start as usize, (stop as usize + 1).min(source.len()));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.?".contains(c);
        let Some((before, after)) = source.get(..start).zip(source.get(end..)) else {
            return (0, source.len());
        };
        let is_operator =
            !source[start..end].contains(|c: char| c.is_ascii_alphanumeric() || "_.([?'\"".contains(c));
        if is_operator {
            return (start, end - start);
        }
        let start = before.trim_end_matches(is_name).len();
        let rest = after.trim_start_matches('?');
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (start, source.len() - rest.len() - start)
    }

    /// A part of the expression, in backticks.
    fn quoted(&self, expression: &IdedExpr) -> String {
        format!("`{}`", self.shown(expression))
    }

    fn shown(&self, expression: &IdedExpr) -> String {
        match &expression.expr {
            Expr::Ident(name) => name.clone(),
            Expr::Literal(_) => {
                let (at, length) = self.range(expression);
                self.expression.source[at..at + length].to_owned()
            }
            Expr::Select(select) => format!("{}.{}", self.shown(&select.operand), select.field),
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                ("_?._", [operand, key]) => {
                    format!("{}.?{}", self.shown(operand), literal_text(key).unwrap_or_default())
                }
                ("_[_]" | "_[?_]", [operand, key]) => {
                    let key = if literal_text(key).is_some() { self.shown(key) } else { "…".to_owned() };
                    format!("{}[{key}]", self.shown(operand))
                }
                (name, _) if !name.starts_with(|c: char| c.is_ascii_alphabetic()) => "…".to_owned(),
                (name, _) => {
                    let target = call.target.as_deref().map(|target| self.shown(target) + ".");
                    format!("{}{name}(…)", target.unwrap_or_default())
                }
            },
            Expr::Comprehension(comprehension) => format!("{}.…", self.shown(&comprehension.iter_range)),
            _ => "…".to_owned(),
        }
    }
}

/// The type of a function's or an operator's result, as far as it is always the same or that of an argument.
fn of_function(name: &str, values: &[Type]) -> Type {
    let kinds: Vec<Option<&[Kind]>> = values.iter().map(Type::kinds).collect();
    match (name, kinds.as_slice()) {
        ("size" | "devices" | "indexOf" | "lastIndexOf" | "int", _) => Type::int(),
        ("double", _) => Type::double(),
        ("lowerAscii", _) => Type::from_kind(Kind::String(Texts::LowerCase)),
        ("string" | "join" | "replace" | "substring" | "trim" | "upperAscii", _) => Type::string(),
        ("startsWith" | "endsWith" | "contains" | "@not_strictly_false", _) => Type::bool(),
        ("split", _) => Type::list(Type::string()),
        ("none", []) => Type::optional(Type::NEVER),
        ("of" | "ofNonZeroValue", [_]) => Type::optional(values[0].clone()),
        (
            "distinct" | "reverse" | "slice" | "sort" | "@sortByAssociatedKeys",
            [Some([Kind::List(_)]), ..],
        ) => values[0].clone(),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" | "greatest" | "least", all)
            if all.iter().all(|kinds| *kinds == Some(&[Kind::Int])) =>
        {
            Type::int()
        }
        ("_+_", [Some([Kind::List(one)]), Some([Kind::List(other)])]) => {
            Type::list((**one).clone().or((**other).clone()))
        }
        ("_+_", [Some([Kind::String(one)]), Some([Kind::String(other)])]) => {
            let lower = *one == Texts::LowerCase && *other == Texts::LowerCase;
            Type::from_kind(Kind::String(if lower { Texts::LowerCase } else { Texts::Any }))
        }
        ("_+_" | "_-_" | "_*_" | "_/_", [Some([Kind::Double]), Some([Kind::Double])]) => Type::double(),
        _ => Type::Dyn,
    }
}

/// The value in an optional one.
fn value_of(inferred: Type) -> Type {
    match inferred {
        Type::OneOf(kinds) => kinds.into_iter().fold(Type::NEVER, |all, kind| match kind {
            Kind::Optional(value) => all.or(*value),
            other => all.or(Type::from_kind(other)),
        }),
        Type::Dyn => Type::Dyn,
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::bool(),
        LiteralValue::Double(_) => Type::double(),
        LiteralValue::Int(_) => Type::int(),
        LiteralValue::Null => Type::null(),
        LiteralValue::String(text) => Type::text(text.inner()),
        LiteralValue::Bytes(_) | LiteralValue::UInt(_) => Type::Dyn,
    }
}

/// The text of a literal.
fn literal_text(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
