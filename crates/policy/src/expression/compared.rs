//! The values that an expression reads, and the literals with which it compares each of them.
//!
//! This walk finds all facts about an expression that need no evaluation: the names that it reads, the parts of the
//! pod, the labels and annotations that `validate` tries, and the comparisons that `check` looks at.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr};
use serde_json::Value;

use super::environment::ENV;
use super::reads::{Access, Path, Step, access, literals};
use super::tree::{operands, parts};

/// A value that an expression reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Use {
    /// The name of a parameter, of a variable, or of a built-in value.
    pub root: String,
    pub path: Path,
    /// The literals with which it is compared.
    pub literals: Vec<Value>,
    pub comparison: Comparison,
    /// True if the value may be absent: `.?`, `[?…]` or `has`.
    pub(crate) guarded: bool,
}

impl Use {
    /// The value as an expression reads it.
    pub(crate) fn shown(&self) -> String {
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        self.path.iter().fold(self.root.clone(), |shown, step| match step {
            Step::Field(name) if is_name(name) => format!("{shown}.{name}"),
            Step::Field(name) => format!("{shown}['{name}']"),
            Step::Every => format!("{shown}[…]"),
            Step::Exists => shown,
        })
    }
}

/// The way in which an expression compares a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// It does not, or it compares only a part of the value.
    None,
    /// `==`, `!=` or `in`.
    Equal,
    /// `contains`, `startsWith` or `endsWith`.
    Contains,
    /// `==` or its like with the value in lower case.
    LowerCase,
    /// `==` with the optional value itself, which no literal equals.
    Optional,
    /// `<` and its like.
    Order,
    /// The value is a table that is read by a key in lower case.
    KeyInLowerCase,
}

/// The other side of a comparison.
#[derive(Clone, Copy)]
struct Compared<'l> {
    literals: &'l [Value],
    comparison: Comparison,
}

const NOT_COMPARED: Compared<'static> = Compared { literals: &[], comparison: Comparison::None };

/// What an expression reads.
pub(super) fn uses(expression: &IdedExpr) -> Vec<Use> {
    let mut walker = Walker { locals: Vec::new(), uses: Vec::new() };
    walker.value(expression, NOT_COMPARED);
    walker.uses
}

struct Walker {
    /// Variables of the comprehensions around the current expression, each with the value that it iterates over.
    locals: Vec<(String, Option<(String, Path)>)>,
    uses: Vec<Use>,
}

impl Walker {
    /// Notes the reads of a value that is compared.
    fn value(&mut self, expression: &IdedExpr, compared: Compared<'_>) {
        if let Some(selected) = access(expression)
            && let Some((root, path)) = self.place(&selected)
        {
            let comparison = match compared.comparison {
                _ if !selected.keys.is_empty() => Comparison::None,
                Comparison::Equal if selected.optional => Comparison::Optional,
                comparison => comparison,
            };
            let literals = without(compared.literals, &selected.fallbacks);
            self.uses.push(Use { root, path, literals, comparison, guarded: selected.guarded });
            return;
        }
        match &expression.expr {
            Expr::Call(call) => self.call(call, compared),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => list.elements.iter().for_each(|element| self.value(element, compared)),
            other => self.all(parts(other)),
        }
    }

    fn note(&mut self, root: String, path: Path, comparison: Comparison) {
        self.uses.push(Use { root, path, literals: Vec::new(), comparison, guarded: true });
    }

    /// The value that an expression selects. Notes the keys that it computes on the way.
    fn place(&mut self, selected: &Access<'_>) -> Option<(String, Path)> {
        let (name, path) = (selected.name, selected.path.clone());
        let local = self.locals.iter().rev().find(|(known, _)| known == name).map(|(_, place)| place.clone());
        let (root, path) = match local {
            Some(Some((root, start))) => (root, start.into_iter().chain(path).collect()),
            Some(None) => return None,
            // CEL itself gives a meaning to the names of types.
            None if name.starts_with('@') || ENV.types().find_type(name).is_some() => return None,
            None => (name.to_owned(), path),
        };
        if selected.keys.first().is_some_and(|key| is_lower_case(key)) {
            self.note(root.clone(), path.clone(), Comparison::KeyInLowerCase);
        }
        self.all(selected.keys.iter().copied());
        Some((root, path))
    }

    fn call(&mut self, call: &CallExpr, compared: Compared<'_>) {
        match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
            ("_?_:_", _, [condition, then, other]) => {
                self.all([condition]);
                let (of_then, of_other) = (literals(then), literals(other));
                self.value(then, Compared { literals: &without(compared.literals, &of_other), ..compared });
                self.value(other, Compared { literals: &without(compared.literals, &of_then), ..compared });
            }
            ("_==_" | "_!=_", _, [one, other]) => self.both(one, other, Comparison::Equal),
            ("_<_" | "_<=_" | "_>_" | "_>=_", _, [one, other]) => self.both(one, other, Comparison::Order),
            ("@in", _, [one, list]) => {
                self.value(one, Compared { literals: &literals(list), comparison: Comparison::Equal });
                self.value(list, Compared { literals: &literals(one), comparison: Comparison::None });
            }
            ("startsWith" | "endsWith" | "contains", Some(value), [part]) => {
                self.value(value, Compared { literals: &literals(part), comparison: Comparison::Contains });
                self.all([part]);
            }
            ("orValue", Some(value), [otherwise]) => {
                let others = literals(otherwise);
                self.value(value, Compared { literals: &without(compared.literals, &others), ..compared });
                self.value(otherwise, compared);
            }
            ("lowerAscii", Some(value), [])
                if [Comparison::Equal, Comparison::Contains].contains(&compared.comparison) =>
            {
                self.value(value, Compared { comparison: Comparison::LowerCase, ..compared });
            }
            // With a computed key, the path ends at a value of which each key counts.
            ("hasValue", Some(value), []) => {
                let named = access(value).filter(|selected| selected.keys.is_empty());
                match named.and_then(|selected| self.place(&selected)) {
                    Some((root, path)) => {
                        let path = path.into_iter().chain([Step::Exists]).collect();
                        self.note(root, path, Comparison::None);
                    }
                    None => self.all([&**value]),
                }
            }
            ("value" | "lowerAscii", Some(value), []) => self.value(value, compared),
            _ => self.all(operands(call)),
        }
    }

    fn both(&mut self, one: &IdedExpr, other: &IdedExpr, comparison: Comparison) {
        let literal =
            |one: &IdedExpr| if matches!(one.expr, Expr::List(_)) { Vec::new() } else { literals(one) };
        self.value(one, Compared { literals: &literal(other), comparison });
        self.value(other, Compared { literals: &literal(one), comparison });
    }

    /// Notes the reads of parts that are not compared.
    fn all<'e>(&mut self, parts: impl IntoIterator<Item = &'e IdedExpr>) {
        parts.into_iter().for_each(|part| self.value(part, NOT_COMPARED));
    }

    /// A macro such as `exists`, which the library expands to a loop.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr) {
        // The entries behind a computed key are not those of the place where its path ends.
        let range = access(&comprehension.iter_range).filter(|selected| selected.keys.is_empty());
        let entry = match range.and_then(|selected| self.place(&selected)) {
            Some((root, mut path)) if comprehension.iter_var2.is_none() => {
                path.push(Step::Every);
                // The macro visits all entries, so their number counts.
                let counted = path.iter().cloned().chain([Step::Exists]).collect();
                self.note(root.clone(), counted, Comparison::None);
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

/// The literals of a comparison that a value is not compared with, because something else can have them.
fn without(literals: &[Value], others: &[Value]) -> Vec<Value> {
    literals.iter().filter(|literal| !others.contains(literal)).cloned().collect()
}

/// Returns whether a key has no capital letters: it is the value of a label in `node`, or of `lowerAscii`.
fn is_lower_case(key: &IdedExpr) -> bool {
    match &key.expr {
        Expr::Call(call) if call.func_name == "lowerAscii" => true,
        _ => access(key).is_some_and(|key| key.name == "node" && !key.path.is_empty()),
    }
}
