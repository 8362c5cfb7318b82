//! The values that an expression reads, and the literals with which it compares each of them.
//!
//! What is known of an expression without its evaluation comes from this walk: the names that it reads, the parts of the
//! pod, and the samples on which `validate` and `check` try it.

use std::sync::LazyLock;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

use super::Expression;
use super::environment::TYPE_NAMES;
use super::reads::{Path, Step, access};
use super::tree::{operands, parts};

/// A value that an expression reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Use {
    /// The name of a parameter, of a variable, or of a built-in value.
    pub(crate) root: String,
    pub(crate) path: Path,
    pub(crate) how: How,
    /// The literals.
    pub(crate) values: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It is compared with the literals.
    Compared,
    /// The expression asks whether it is there.
    Present,
    /// The expression asks whether the literals are among its entries or keys.
    Contains,
    /// A macro goes through its entries, so that their number counts.
    Counted,
}

/// What an expression reads.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) list: Vec<Use>,
    /// True if the expression depends on a value in another way than by comparison with literals.
    pub(crate) is_partial: bool,
}

impl Expression {
    /// What the expression reads. Its own value is compared with `wanted`; `keys` has the keys of a table.
    pub(crate) fn uses(&self, wanted: &[Value], keys: &dyn Fn(&str) -> Vec<Value>) -> Uses {
        uses(self.program.expression(), wanted, keys)
    }
}

/// What an expression reads. Its own value is compared with `wanted`; `keys` has the keys of a table.
pub(super) fn uses(expression: &IdedExpr, wanted: &[Value], keys: &dyn Fn(&str) -> Vec<Value>) -> Uses {
    let mut walker = Walker { keys, locals: Vec::new(), uses: Uses::default() };
    walker.value(expression, wanted);
    walker.uses
}

static BOTH: LazyLock<[Value; 2]> = LazyLock::new(|| [Value::Bool(true), Value::Bool(false)]);

struct Walker<'k> {
    keys: &'k dyn Fn(&str) -> Vec<Value>,
    /// Variables of the comprehensions around the current expression, each with the value of which it is an entry.
    locals: Vec<(String, Option<(String, Path)>)>,
    uses: Uses,
}

impl Walker<'_> {
    fn value(&mut self, expression: &IdedExpr, wanted: &[Value]) {
        let place = self.place(expression);
        match (&expression.expr, place) {
            (Expr::Select(select), Some((root, path))) if select.test => {
                return self.read(root, path, How::Present, &[]);
            }
            (_, Some((root, path))) => {
                self.uses.is_partial |= wanted.is_empty();
                return self.read(root, path, How::Compared, wanted);
            }
            (_, None) => {}
        }
        match &expression.expr {
            Expr::Call(call) => self.call(call, wanted),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => list.elements.iter().for_each(|element| self.value(element, wanted)),
            other => self.rest(parts(other)),
        }
    }

    /// The value that an expression selects. Notes the keys that it computes on the way.
    fn place(&mut self, expression: &IdedExpr) -> Option<(String, Path)> {
        let selected = access(expression)?;
        let (name, path) = (selected.name, selected.path);
        let local = self.locals.iter().rev().find(|(known, _)| known == name).map(|(_, place)| place.clone());
        let (root, path) = match local {
            Some(Some((root, start))) => (root, start.into_iter().chain(path).collect()),
            Some(None) => return None,
            None if name.starts_with('@') || TYPE_NAMES.contains(&name) => return None,
            None => (name.to_owned(), path),
        };
        let keys = if path.is_empty() { (self.keys)(&root) } else { Vec::new() };
        selected.keys.into_iter().for_each(|key| self.value(key, &keys));
        Some((root, path))
    }

    fn read(&mut self, root: String, path: Path, how: How, values: &[Value]) {
        let values = values.to_vec();
        self.uses.list.push(Use { root, path, how, values });
    }

    fn call(&mut self, call: &CallExpr, wanted: &[Value]) {
        match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
            ("_&&_" | "_||_" | "!_" | "@not_strictly_false", _, args) => {
                for argument in args {
                    self.value(argument, &*BOTH);
                }
            }
            ("_?_:_", _, [condition, then, other]) => {
                self.value(condition, &*BOTH);
                for value in [then, other] {
                    self.value(value, wanted);
                }
            }
            ("_==_" | "_!=_", _, [one, other]) => match (literal(one), literal(other)) {
                (None, Some(known)) => self.value(one, &[known]),
                (Some(known), None) => self.value(other, &[known]),
                _ => self.rest(vec![one, other]),
            },
            ("_<_" | "_<=_" | "_>_" | "_>=_", _, [one, other]) => match (around(one), around(other)) {
                (None, Some(numbers)) => self.value(one, &numbers),
                (Some(numbers), None) => self.value(other, &numbers),
                _ => self.rest(vec![one, other]),
            },
            ("@in", _, [one, list]) => self.membership(one, list),
            ("startsWith", Some(value), [prefix]) => match literal(prefix) {
                Some(Value::String(prefix)) => {
                    let longer = format!("{prefix}x");
                    self.value(value, &[prefix.into(), longer.into()]);
                }
                _ => self.rest(operands(call)),
            },
            // The literal is noted, and says little of the rest of the text.
            ("endsWith" | "contains", Some(value), [part]) => {
                let known = literal(part);
                self.value(value, known.as_slice());
                self.rest(vec![part]);
                self.uses.is_partial = true;
            }
            ("orValue", Some(value), [otherwise]) => {
                for value in [value, otherwise] {
                    self.value(value, wanted);
                }
            }
            ("value" | "lowerAscii", Some(value), []) => self.value(value, wanted),
            ("hasValue", Some(value), []) => match self.place(value) {
                Some((root, path)) => self.read(root, path, How::Present, &[]),
                None => self.rest(vec![value]),
            },
            _ => self.rest(operands(call)),
        }
    }

    fn membership(&mut self, one: &IdedExpr, list: &IdedExpr) {
        if let Some(Value::Array(values)) = literal(list) {
            return self.value(one, &values);
        }
        match (literal(one), self.place(list)) {
            (Some(known), Some((root, path))) => self.read(root, path, How::Contains, &[known]),
            _ => self.rest(vec![one, list]),
        }
    }

    /// Parts of which the values are used in another way.
    fn rest(&mut self, parts: Vec<&IdedExpr>) {
        for part in parts {
            let is_constant = literal(part).is_some();
            self.uses.is_partial |= !is_constant;
            self.value(part, &[]);
        }
    }

    /// A macro such as `exists`, which the library expands to a loop.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr) {
        let entry = match self.place(&comprehension.iter_range) {
            Some((root, mut path)) if comprehension.iter_var2.is_none() => {
                path.push(Step::Every);
                let counted = path.iter().cloned().chain([Step::Exists]).collect();
                self.read(root.clone(), counted, How::Counted, &[]);
                Some((root, path))
            }
            _ => {
                self.rest(vec![&comprehension.iter_range]);
                None
            }
        };
        // The other macros yield lists and maps, or count. One within another costs the product of both.
        let is_condition = matches!(literal(&comprehension.accu_init), Some(Value::Bool(_)));
        self.uses.is_partial |= !is_condition || entry.is_none() || !self.locals.is_empty();
        let before = self.locals.len();
        self.locals.push((comprehension.iter_var.clone(), entry));
        self.locals.extend(comprehension.iter_var2.clone().map(|name| (name, None)));
        self.locals.push((comprehension.accu_var.clone(), None));
        self.value(&comprehension.loop_step, &*BOTH);
        let known = self.uses.list.len();
        for part in [&comprehension.accu_init, &comprehension.loop_cond, &comprehension.result] {
            self.value(part, &*BOTH);
        }
        // These parts of the macros of conditions read nothing of their own.
        self.uses.is_partial |= self.uses.list.len() > known;
        self.locals.truncate(before);
    }
}

/// The value of a literal, or of a list of them.
fn literal(expression: &IdedExpr) -> Option<Value> {
    Some(match &expression.expr {
        Expr::Literal(LiteralValue::Null) => Value::Null,
        Expr::Literal(LiteralValue::Boolean(value)) => Value::from(*value.inner()),
        Expr::Literal(LiteralValue::Int(value)) => Value::from(*value.inner()),
        Expr::Literal(LiteralValue::Double(value)) => Value::from(*value.inner()),
        Expr::Literal(LiteralValue::String(text)) => Value::from(text.inner()),
        Expr::List(list) => list.elements.iter().map(literal).collect::<Option<Value>>()?,
        Expr::Call(call) if call.func_name == "-_" => {
            let number = literal(call.args.first()?)?;
            number.as_i64().map(|whole| Value::from(-whole)).or_else(|| Some((-number.as_f64()?).into()))?
        }
        _ => return None,
    })
}

/// A number, and one on each side of it.
fn around(expression: &IdedExpr) -> Option<Vec<Value>> {
    let number = literal(expression)?;
    if let Some(whole) = number.as_i64() {
        let near = [whole.saturating_sub(1), whole, whole.saturating_add(1)];
        return Some(near.map(Value::from).to_vec());
    }
    let number = number.as_f64()?;
    Some([number - 1.0, number, number + 1.0].map(Value::from).to_vec())
}
