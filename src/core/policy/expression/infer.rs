//! The type of an expression, and the mistakes in it that no value of a parameter and no pod can make right.
//!
//! The library has no type checker, so this one walks its syntax tree. For a function or an operator, it asks the
//! library which kinds of arguments it takes: see [`samples`].

mod calls;
mod fields;
mod operators;
mod place;
mod samples;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr};

use super::Expression;
use super::environment::TYPE_NAMES;
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
        let mut walker = Walker::new(self, scope);
        let inferred = walker.of(self.tree());
        (inferred, walker.findings)
    }
}

struct Walker<'e> {
    expression: &'e Expression,
    scope: &'e dyn Fn(&str) -> Type,
    /// Variables of the comprehensions around the current expression.
    locals: Vec<(String, Type)>,
    findings: Vec<TypeFinding>,
    steps: usize,
}

/// The bound of the work for one expression. The body of a comprehension is looked at several times.
const MAX_STEPS: usize = 20_000;

impl<'e> Walker<'e> {
    fn new(expression: &'e Expression, scope: &'e dyn Fn(&str) -> Type) -> Self {
        Self { expression, scope, locals: Vec::new(), findings: Vec::new(), steps: 0 }
    }
}

impl Walker<'_> {
    fn of(&mut self, expression: &IdedExpr) -> Type {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Type::Dyn;
        }
        match &expression.expr {
            Expr::Unspecified | Expr::Struct(_) => Type::Dyn,
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.name(name),
            Expr::Call(call) => self.call(expression, call),
            Expr::Select(select) => self.select(expression, select),
            Expr::List(list) => {
                let mut items = Type::NEVER;
                for (at, element) in list.elements.iter().enumerate() {
                    let item = self.of(element);
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
        let mut has_constant_keys = true;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Type::Dyn };
            let value = self.of(&entry.value);
            let value = if entry.optional { value_of(value) } else { value };
            if let Expr::Literal(LiteralValue::String(key)) = &entry.key.expr {
                let key = key.inner().to_owned();
                members.push(Member { key, value: value.clone() });
            } else {
                self.of(&entry.key);
                has_constant_keys = false;
            }
            all = all.or(value);
        }
        if has_constant_keys { Type::of(Kind::Record(members)) } else { Type::map(all) }
    }

    /// A macro such as `exists` or `map`, which the library expands to a loop.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let range = self.of(&comprehension.iter_range);
        let entry = self.entry_of(&range, &comprehension.iter_range);
        let init = self.of(&comprehension.accu_init);
        let before = self.locals.len();
        let second = comprehension.iter_var2.as_ref();
        self.locals.push((comprehension.iter_var.clone(), if second.is_some() { Type::Dyn } else { entry }));
        self.locals.extend(second.map(|name| (name.clone(), Type::Dyn)));
        let slot = self.locals.len();
        self.locals.push((comprehension.accu_var.clone(), init));
        // What the loop collects depends on what it has collected so far: repeat until nothing new comes up.
        let found = self.findings.len();
        for round in 0.. {
            self.findings.truncate(found);
            self.of(&comprehension.loop_cond);
            let step = self.of(&comprehension.loop_step);
            let known = self.locals[slot].1.clone();
            let joined = known.clone().or(step);
            if joined == known {
                break;
            }
            self.locals[slot].1 = match round {
                0 => joined,
                1 => joined.widened(),
                _ => Type::Dyn,
            };
        }
        let result = self.of(&comprehension.result);
        self.locals.truncate(before);
        result
    }

    /// The type of the entries over which a macro iterates.
    fn entry_of(&mut self, range: &Type, expression: &IdedExpr) -> Type {
        let Some(kinds) = range.kinds() else { return Type::Dyn };
        let mut entries = Type::NEVER;
        let mut iterates = kinds.is_empty();
        for kind in kinds {
            let entry = match kind {
                Kind::List(items) => (**items).clone(),
                Kind::Map(_) | Kind::Object(_) => Type::Dyn,
                Kind::Record(members) => {
                    let keys = members.iter().map(|member| member.key.clone()).collect();
                    Type::of(Kind::String(Texts::These(keys)))
                }
                _ => continue,
            };
            iterates = true;
            entries = entries.or(entry);
        }
        if !iterates {
            let message = format!("{} is {range}, and this needs a list or a map", self.quoted(expression));
            self.error(expression, message, None);
            return Type::Dyn;
        }
        entries
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> Type {
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("_&&_" | "_||_" | "!_", parts) => self.condition(parts),
            ("@not_strictly_false", [inner]) => {
                self.of(inner);
                Type::bool()
            }
            ("_?_:_", [condition, then, other]) => self.choice(condition, then, other),
            ("_==_" | "_!=_", [left, right]) => self.equality(left, right),
            ("@in", [entry, list]) => self.membership(expression, call, entry, list),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                self.comparison(expression, call, left, right)
            }
            ("_[_]", [operand, key]) => self.index(expression, operand, key, false),
            ("_[?_]" | "_?._", [operand, key]) => self.index(expression, operand, key, true),
            _ => self.function(expression, call),
        }
    }

    fn error(&mut self, expression: &IdedExpr, message: String, hint: Option<String>) {
        self.report(expression, None, message, hint);
    }

    fn warn(&mut self, expression: &IdedExpr, code: &'static str, message: String, hint: Option<String>) {
        self.report(expression, Some(code), message, hint);
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
}

/// The value in an optional one.
fn value_of(inferred: Type) -> Type {
    match inferred {
        Type::OneOf(kinds) => kinds.into_iter().fold(Type::NEVER, |all, kind| match kind {
            Kind::Optional(value) => all.or(*value),
            other => all.or(Type::of(other)),
        }),
        Type::Dyn => Type::Dyn,
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::bool(),
        LiteralValue::Double(_) => Type::double(),
        LiteralValue::Int(value) => Type::of(Kind::Int(*value.inner(), *value.inner())),
        LiteralValue::Null => Type::null(),
        LiteralValue::String(text) => Type::text(text.inner()),
        LiteralValue::Bytes(_) | LiteralValue::UInt(_) => Type::Dyn,
    }
}

#[cfg(test)]
mod tests;
