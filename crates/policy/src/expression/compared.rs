//! The values that an expression reads, and the texts with which it compares each of them.
//!
//! This walk finds all facts about an expression that need no evaluation: the names that it reads, the parts of the
//! pod, and the labels and annotations that `validate` tries.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue};

use super::environment::TYPE_NAMES;
use super::reads::{Path, Step, access};
use super::tree::{operands, parts};

/// A value that an expression reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Use {
    /// The name of a parameter, of a variable, or of a built-in value.
    pub root: String,
    pub path: Path,
    /// The texts with which it is compared.
    pub texts: Vec<String>,
}

/// What an expression reads.
pub(super) fn uses(expression: &IdedExpr) -> Vec<Use> {
    let mut walker = Walker { locals: Vec::new(), uses: Vec::new() };
    walker.value(expression, &[]);
    walker.uses
}

struct Walker {
    /// Variables of the comprehensions around the current expression, each with the value that it iterates over.
    locals: Vec<(String, Option<(String, Path)>)>,
    uses: Vec<Use>,
}

impl Walker {
    /// Notes the reads of a value that is compared with these strings.
    fn value(&mut self, expression: &IdedExpr, texts: &[String]) {
        if let Some((root, path)) = self.place(expression) {
            self.uses.push(Use { root, path, texts: texts.to_vec() });
            return;
        }
        match &expression.expr {
            Expr::Call(call) => self.call(call, texts),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => list.elements.iter().for_each(|element| self.value(element, texts)),
            other => self.all(parts(other)),
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
        self.all(selected.keys);
        Some((root, path))
    }

    fn call(&mut self, call: &CallExpr, texts: &[String]) {
        match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
            ("_?_:_", _, [condition, then, other]) => {
                self.all([condition]);
                self.value(then, texts);
                self.value(other, texts);
            }
            ("_==_" | "_!=_", _, [one, other]) => {
                self.value(one, &literals(other));
                self.value(other, &literals(one));
            }
            ("@in", _, [one, list]) => {
                self.value(one, &literals(list));
                self.value(list, &literals(one));
            }
            ("startsWith" | "endsWith" | "contains", Some(value), [part]) => {
                self.value(value, &literals(part));
                self.all([part]);
            }
            ("orValue", Some(value), [otherwise]) => {
                self.value(value, texts);
                self.value(otherwise, texts);
            }
            ("value" | "lowerAscii", Some(value), []) => self.value(value, texts),
            _ => self.all(operands(call)),
        }
    }

    /// Notes the reads of parts that are not compared with strings.
    fn all<'e>(&mut self, parts: impl IntoIterator<Item = &'e IdedExpr>) {
        parts.into_iter().for_each(|part| self.value(part, &[]));
    }

    /// A macro such as `exists`, which the library expands to a loop.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr) {
        let entry = match self.place(&comprehension.iter_range) {
            Some((root, mut path)) if comprehension.iter_var2.is_none() => {
                path.push(Step::Every);
                // The macro visits all entries, so their number counts.
                let counted = path.iter().cloned().chain([Step::Exists]).collect();
                self.uses.push(Use { root: root.clone(), path: counted, texts: Vec::new() });
                Some((root, path))
            }
            _ => {
                self.all([&comprehension.iter_range]);
                None
            }
        };
        let before = self.locals.len();
        self.locals.push((comprehension.iter_var.clone(), entry));
        self.locals.extend(comprehension.iter_var2.clone().map(|name| (name, None)));
        self.locals.push((comprehension.accu_var.clone(), None));
        self.all([
            &comprehension.loop_step,
            &comprehension.accu_init,
            &comprehension.loop_cond,
            &comprehension.result,
        ]);
        self.locals.truncate(before);
    }
}

/// The texts of a literal, or of a list of them.
fn literals(expression: &IdedExpr) -> Vec<String> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => vec![text.inner().to_owned()],
        Expr::List(list) => list.elements.iter().flat_map(literals).collect(),
        _ => Vec::new(),
    }
}
