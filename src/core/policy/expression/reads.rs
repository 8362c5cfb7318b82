//! What an expression reads: its free variables, and how much of the pod.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::{NAMESPACES, TYPE_NAMES};

/// How much of the pod an expression reads. Only that much is converted for it: the whole of a pod costs ten
/// times as much as parsing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodUse {
    /// These paths of field names, none if the expression does not name `pod`.
    Paths(BTreeSet<Vec<String>>),
    /// More than can be told from the text.
    Whole,
}

/// Walks an expression for the variables that it reads.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) names: BTreeSet<String>,
    pub(super) pod: PodUse,
    /// Variables of the comprehensions around the present place, and the part of the pod that each stands for.
    local: Vec<(String, Option<Vec<String>>)>,
}

/// In a path of field names: every entry of a list.
pub(crate) const EVERY_ENTRY: &str = "*";
/// In a path of field names, at its end: that the value is there is all that counts.
pub(crate) const NOTHING_OF_IT: &str = ".";

impl Default for Reader {
    fn default() -> Self {
        Self { names: BTreeSet::new(), pod: PodUse::Paths(BTreeSet::new()), local: Vec::new() }
    }
}

impl Reader {
    pub(super) fn expression(&mut self, expression: &IdedExpr) {
        if let Some(path) = self.pod_path(expression) {
            return self.read_of_pod(path);
        }
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                let local = self.local.iter().any(|(known, _)| known == name);
                if !local && !TYPE_NAMES.contains(&name.as_str()) && !name.starts_with('@') {
                    self.names.insert(name.clone());
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::Select(select) => self.expression(&select.operand),
            Expr::List(list) => list.elements.iter().for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(structure) => structure.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) {
        let range = self.pod_path(&comprehension.iter_range);
        match &range {
            // What is read of the entries is told by the body; their number counts in any case.
            Some(path) => {
                let mut entries = with_entry(path);
                entries.push(NOTHING_OF_IT.to_owned());
                self.read_of_pod(entries);
            }
            None => self.expression(&comprehension.iter_range),
        }
        self.expression(&comprehension.accu_init);
        let before = self.local.len();
        // A second variable means that the first is an index.
        let entry = range.filter(|_| comprehension.iter_var2.is_none()).map(|path| with_entry(&path));
        if entry.is_none() {
            self.expression(&comprehension.iter_range);
        }
        self.local.push((comprehension.iter_var.clone(), entry));
        self.local.extend(comprehension.iter_var2.clone().map(|name| (name, None)));
        self.local.push((comprehension.accu_var.clone(), None));
        self.expression(&comprehension.loop_cond);
        self.expression(&comprehension.loop_step);
        self.expression(&comprehension.result);
        self.local.truncate(before);
    }

    fn read_of_pod(&mut self, path: Vec<String>) {
        self.names.insert("pod".to_owned());
        match &mut self.pod {
            PodUse::Paths(paths) if !path.is_empty() => {
                paths.insert(path);
            }
            pod => *pod = PodUse::Whole,
        }
    }

    /// The path of field names that an expression takes into the pod, if it does nothing else.
    fn pod_path(&self, expression: &IdedExpr) -> Option<Vec<String>> {
        let mut path = field_path(expression)?;
        let root = path.remove(0);
        match self.local.iter().rev().find(|(name, _)| *name == root) {
            Some((_, Some(entry))) => Some(entry.iter().cloned().chain(path).collect()),
            Some((_, None)) => None,
            None => (root == "pod").then_some(path),
        }
    }

    fn call(&mut self, call: &CallExpr) {
        if let Some(target) = &call.target {
            let namespace = matches!(&target.expr, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()));
            if !namespace {
                self.expression(target);
            }
        }
        call.args.iter().for_each(|argument| self.expression(argument));
    }

    fn entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.expression(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key);
                self.expression(&entry.value);
            }
        }
    }
}

fn with_entry(path: &[String]) -> Vec<String> {
    path.iter().cloned().chain([EVERY_ENTRY.to_owned()]).collect()
}

/// `["pod", "spec", "hostNetwork"]` for `pod.spec.hostNetwork`, `has(pod.spec.hostNetwork)`,
/// `pod.?spec.?hostNetwork` and `pod["spec"]`.
fn field_path(expression: &IdedExpr) -> Option<Vec<String>> {
    match &expression.expr {
        Expr::Ident(name) => Some(vec![name.clone()]),
        Expr::Select(select) => {
            let mut path = field_path(&select.operand)?;
            path.push(select.field.clone());
            Some(path)
        }
        Expr::Call(call) if matches!(call.func_name.as_str(), "_?._" | "_[_]" | "_[?_]") => {
            let [operand, key] = call.args.as_slice() else { return None };
            let mut path = field_path(operand)?;
            match &key.expr {
                Expr::Literal(LiteralValue::String(text)) => path.push(text.inner().to_string()),
                // A computed key: the whole of what it indexes is needed.
                _ if path.len() > 1 => {}
                _ => return None,
            }
            Some(path)
        }
        // `pod.spec.?initContainers.orValue([])` is the list or an empty one.
        Expr::Call(call) if call.func_name == "orValue" && is_constant(&call.args) => {
            field_path(call.target.as_ref()?)
        }
        _ => None,
    }
}

fn is_constant(arguments: &[IdedExpr]) -> bool {
    arguments.iter().all(|argument| match &argument.expr {
        Expr::Literal(_) => true,
        Expr::List(list) => is_constant(&list.elements),
        _ => false,
    })
}
