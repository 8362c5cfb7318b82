//! CEL. Only this folder uses the library behind it.
//!
//! An expression is compiled once, with a bound on the cost of its evaluation. The values that it reads are found
//! without evaluating it. `interpolation` defines the names that it can read.

mod budget;
mod compared;
mod constant;
mod conversion;
mod environment;
mod failure;
mod functions;
mod numbers;
mod offered;
mod reads;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::Context;
use cel::common::ast::{Expr, IdedExpr};
use serde_json::Value;

use crate::from_nodes::FromNodes;
use crate::work::{Work, goes_on};
use fabric_yaml::{SourceMap, Span};

pub use compared::{Comparison, Use};
pub use conversion::{Borrowed, Computed, VariableResolver};
pub(crate) use failure::Failure;
pub use reads::{Path, Step};

use conversion::{from_json, to_json};
use environment::{ENV, is_operator};

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    /// The tree that is evaluated, with operators and calls of our own.
    tree: IdedExpr,
    /// True if the tree counts the values that it handles, because they can be many.
    counts: bool,
    /// The nesting depth of expressions.
    pub(crate) depth: usize,
    /// The facts about nodes that it requests, by the names to bind.
    pub(crate) offered: Vec<(String, FromNodes)>,
    /// The minimum cost of an evaluation.
    steps: usize,
    source: String,
    /// The places of its characters in the file.
    map: SourceMap,
    /// True if it is written without `${` and `}`.
    is_bare: bool,
    /// Free variables.
    names: BTreeSet<String>,
    /// The values that it reads, and the literals with which it compares them.
    pub uses: Vec<Use>,
    /// True if it selects a value, and does nothing else.
    selects: bool,
}

/// An expression that is not valid CEL, or that reads an unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    pub(crate) message: String,
    /// Byte range within the expression.
    pub(crate) at: usize,
    pub(crate) length: usize,
    pub(crate) hint: Option<String>,
}

/// Values by name, for expressions to read.
pub struct Bindings<'p, 'v> {
    context: Context<'p, 'v>,
    /// The shared counter of evaluations; without it, each has its own bound.
    work: Option<Work>,
}

impl Default for Bindings<'static, 'static> {
    fn default() -> Self {
        Self { context: Context::with_env(Arc::clone(&ENV)), work: None }
    }
}

impl<'v> Bindings<'_, 'v> {
    pub fn child(&self) -> Bindings<'_, 'v> {
        Bindings { context: self.context.new_inner_scope(), work: self.work.clone() }
    }

    /// Values that this scope computes when they are read, and the counter for that.
    pub fn resolve_by(&mut self, resolver: &'v dyn VariableResolver, work: Option<Work>) {
        self.context.set_variable_resolver(resolver);
        self.work = work;
    }

    /// Counts evaluations from now on, or no longer.
    pub(crate) fn count_by(&mut self, work: Option<Work>) {
        self.work = work;
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<Value> {
        let name = IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
        to_json(&cel::Value::resolve(&name, &self.context).ok()?).ok()
    }

    /// Binds a JSON value.
    pub fn set(&mut self, name: &str, value: &Value) {
        self.context.add_variable_as_val(name, from_json(value, None));
    }

    /// Binds a number as CEL's `double`, whole numbers too.
    pub fn set_double(&mut self, name: &str, value: f64) {
        self.context.add_variable_from_value(name, value);
    }
}

impl std::fmt::Debug for Bindings<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bindings")
    }
}

/// Expressions are parsed and evaluated recursively, so their depth must be limited.
const MAX_LENGTH: usize = 4_096;
/// The deepest expression: `a + b + c` has three levels.
const MAX_DEPTH: usize = 100;
/// The most brackets around a part. The parser needs 10 KiB of the stack for each, and a browser has 1 MiB.
const MAX_NESTED: usize = 64;

/// The most brackets that are open at a time, those in strings included.
fn nested_brackets(source: &str) -> usize {
    let change = |open: &mut usize, byte: u8| {
        match byte {
            b'(' | b'[' | b'{' => *open += 1,
            b')' | b']' | b'}' => *open = open.saturating_sub(1),
            _ => {}
        }
        Some(*open)
    };
    source.bytes().scan(0, change).max().unwrap_or_default()
}

impl Expression {
    /// Compiles CEL and finds the values that it reads.
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        let whole = |message: String| CompileError { message, at: 0, length: source.len(), hint: None };
        let split = || Some("split it into `variables`".to_owned());
        let too_deep = |message| CompileError { hint: split(), ..whole(message) };
        if source.trim().is_empty() {
            return Err(whole("an expression is empty".to_owned()));
        }
        if source.len() > MAX_LENGTH {
            return Err(whole(format!("an expression has {} bytes, more than {MAX_LENGTH}", source.len())));
        }
        let nested = nested_brackets(source);
        if nested > MAX_NESTED {
            return Err(too_deep(format!(
                "an expression has {nested} nested brackets, more than {MAX_NESTED}"
            )));
        }
        let program = ENV.compile(source).map_err(|errors| {
            // The listener of the parser ends it with an error that has only the form for programmers.
            if errors.errors.iter().any(|error| error.msg.contains("Recursion limit")) {
                return too_deep(
                    "an expression has too many levels for the parser, which reads 96".to_owned(),
                );
            }
            let Some(first) = errors.errors.first() else { return whole("not valid CEL".to_owned()) };
            let line = usize::try_from(first.pos.0).unwrap_or(1).max(1);
            let column = usize::try_from(first.pos.1).unwrap_or(0).saturating_sub(1);
            let line_start: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
            let column: usize = source[line_start..].chars().take(column).map(char::len_utf8).sum();
            failure::syntax(&first.msg, source, (line_start + column).min(source.len()))
        })?;
        let depth = tree::levels(program.expression()).count();
        let steps = budget::steps(program.expression());
        if depth > MAX_DEPTH {
            return Err(too_deep(format!("an expression has {depth} levels, more than {MAX_DEPTH}")));
        }
        for function in program.references().functions() {
            if !is_operator(function) && !functions::is_known(function) {
                let at = source.find(function).unwrap_or(0);
                let message = format!("CEL has no function `{function}`");
                let hint = Some(functions::hint(function));
                return Err(CompileError { message, at, length: function.len(), hint });
            }
        }
        if tree::levels(program.expression()).flatten().any(tree::is_or_of_a_literal) {
            let message = "`or` takes another optional value, not the value itself".to_owned();
            let at = source.find(".or(").map_or(0, |dot| dot + 1);
            let hint = Some("write `.orValue(…)`".to_owned());
            return Err(CompileError { message, at, length: 2, hint });
        }
        let uses = compared::uses(program.expression());
        let mut tree = program.expression().clone();
        let offered = offered::replace_calls(&mut tree, source)?;
        numbers::replace_operators(&mut tree);
        Ok(Self {
            counts: budget::count_if_costly(&mut tree),
            tree,
            offered,
            depth,
            steps,
            source: source.to_owned(),
            map: SourceMap::default(),
            is_bare: false,
            names: uses.iter().map(|used| used.root.clone()).collect(),
            uses,
            selects: reads::selects(program.expression()),
        })
    }

    /// The expression, as one that is written without `${` and `}`.
    pub(crate) fn bare(self) -> Self {
        Self { is_bare: true, ..self }
    }

    /// The expression as the file has it.
    pub fn written(&self) -> String {
        if self.is_bare { self.source.clone() } else { format!("${{{}}}", self.source) }
    }

    /// The expression with the places of its characters.
    pub(crate) fn placed(self, map: SourceMap) -> Self {
        Self { map, ..self }
    }

    /// The place in the file of `length` bytes at `offset` of the source, as far as they are on one line. Its line is 0
    /// for an expression that is in no file, such as one of a values file.
    pub fn span(&self, offset: usize, length: usize) -> Span {
        self.map.span(&self.source, offset, length)
    }

    /// The place of a name that the expression reads, or else of the whole expression.
    pub(crate) fn span_of_name(&self, name: &str) -> Span {
        self.span_at(find_name(&self.source, name), name.len())
    }

    /// The place of a part of the source, or else of the whole expression.
    pub(crate) fn span_of(&self, part: &str) -> Span {
        self.span_at(self.source.find(part), part.len())
    }

    fn span_at(&self, at: Option<usize>, length: usize) -> Span {
        at.map_or_else(|| self.span(0, self.source.len()), |at| self.span(at, length))
    }

    /// The value of a condition within it that is the same whatever it reads.
    pub(crate) fn constant(&self) -> Option<bool> {
        constant::constant(&self.tree)
    }

    /// The value that it selects, if it does nothing else.
    pub(crate) fn selected(&self) -> Option<&Use> {
        self.uses.first().filter(|_| self.selects)
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// The paths to the values that it reads of an object: the empty path alone for the whole of it. Only these values
    /// are converted for it: the whole of a pod costs ten times as much as parsing it.
    pub fn reads_of(&self, object: &str) -> BTreeSet<&Path> {
        let paths: BTreeSet<&Path> =
            self.uses.iter().filter(|used| used.root == object).map(|used| &used.path).collect();
        let whole = paths.first().copied().filter(|first| first.is_empty());
        whole.map_or(paths, |whole| BTreeSet::from([whole]))
    }

    /// Evaluates to a JSON value.
    pub(crate) fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Result<Value, Failure> {
        if !goes_on(bindings.work.as_ref(), self.steps) {
            return Err(failure::EXHAUSTED.to_owned().into());
        }
        let result = if self.counts {
            budget::evaluate(&self.tree, &bindings.context, bindings.work.as_ref())
        } else {
            cel::Value::resolve(&self.tree, &bindings.context)
        };
        let result = to_json(&result.map_err(Failure::from)?)?;
        if budget::fits(&result, bindings.work.as_ref()) {
            return Ok(result);
        }
        Err("its value has more than 4 MiB, which no pod can hold".to_owned().into())
    }
}

/// Two expressions are equal if they are written in the same way.
impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// The position of a name in an expression, where it is not part of a longer one.
pub(super) fn find_name(source: &str, name: &str) -> Option<usize> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_alone =
        |at: &usize| !source[..*at].ends_with(is_name) && !source[*at + name.len()..].starts_with(is_name);
    source.match_indices(name).map(|(at, _)| at).find(|at| !name.is_empty() && is_alone(at))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(source: &str) -> Vec<String> {
        Expression::compile(source).unwrap().names().iter().cloned().collect()
    }

    #[test]
    fn free_variables_are_found_and_local_ones_are_not() {
        assert_eq!(names("gpus * 2 > limit ? 'a' : b"), ["b", "gpus", "limit"]);
        assert_eq!(names("items.map(i, i + offset).join(',')"), ["items", "offset"]);
        assert_eq!(names("pod.metadata.?labels[?podNamespace].orValue('') == ''"), ["pod", "podNamespace"]);
        assert_eq!(names("pod.spec.volumes[index].name.map(i, labels[i])"), ["index", "labels", "pod"]);
        assert_eq!(names("math.ceil(ratio) > 1.0 && type(x) == int"), ["ratio", "x"]);
    }

    #[test]
    fn what_is_read_of_the_pod_is_known_path_by_path() {
        let paths = |source: &str| {
            let expression = Expression::compile(source).unwrap();
            let paths = expression.reads_of("pod").into_iter();
            paths.map(|path| path.iter().map(Step::token).collect::<Vec<_>>().join("/")).collect::<Vec<_>>()
        };
        assert_eq!(paths("gpus > 1"), Vec::<String>::new());
        assert_eq!(paths("has(pod.spec.hostNetwork) && pod.spec.hostNetwork"), ["spec/hostNetwork"]);
        assert_eq!(paths("pod.metadata.?labels[?'a/b'].orValue('') == 'x'"), ["metadata/labels/a/b"]);
        assert_eq!(paths("pod.metadata.labels[key] == 'x'"), ["metadata/labels"]);
        assert_eq!(paths("size(pod) > 1 && has(pod.spec)"), [""]);
        assert_eq!(
            paths("pod.spec.containers.exists(c, c.name == 'x' || c.resources.limits.size() > n)"),
            ["spec/containers/*/name", "spec/containers/*/resources/limits", "spec/containers/*/."]
        );
        assert_eq!(
            paths("pod.spec.?initContainers.orValue([]).exists(c, c.name == 'x')"),
            ["spec/initContainers/*/name", "spec/initContainers/*/."]
        );
        assert_eq!(paths("pod.spec.volumes.map(v, v)"), ["spec/volumes/*", "spec/volumes/*/."]);
        assert_eq!(paths("pod.spec.containers[0].env.exists(e, e.name == 'x')"), ["spec/containers"]);
    }

    #[test]
    fn mistakes_are_found_without_evaluating() {
        let error = |source: &str| Expression::compile(source).unwrap_err().message;
        assert!(error("gpus *").starts_with("not valid CEL"));
        assert!(error("celi(gpus)").contains("no function `celi`"));
        assert!(error("'a'.upper()").contains("no function `upper`"));
        assert!(error(" ").contains("empty"));
        for (before, after) in
            [("(", ")"), ("[", "]"), ("a[", "]"), ("{'a': ", "}"), ("true ? 1 : ", ""), ("f(", ")")]
        {
            for levels in [97, 200, 500] {
                let message = error(&format!("{}1{}", before.repeat(levels), after.repeat(levels)));
                let is_known = ["too many levels", "bytes, more than", "nested brackets, more than 64"]
                    .iter()
                    .any(|known| message.contains(known));
                assert!(is_known, "{before} {message}");
            }
        }
        for source in [
            "'a'.startsWith('b')",
            "has(pod.spec)",
            "math.greatest(1, 2)",
            "size([1])",
            "double(3)",
            "['a'].join(',')",
            "lists.range(3)",
            "string(1)",
        ] {
            assert!(Expression::compile(source).is_ok(), "{source}: {:?}", Expression::compile(source).err());
        }
    }

    #[test]
    fn the_deepest_expression_does_not_overflow_a_threads_stack() {
        let nested =
            (0..48).fold("[1]".to_owned(), |list, level| format!("[{list}].map(x{level}, x{level})"));
        for (source, has_value) in [
            ("1+".repeat(98) + "1 > 0", true),
            ("-(".repeat(64) + "1" + &")".repeat(64), true),
            (nested, true),
            (format!("[{}].map(x, x)", "1+".repeat(90) + "1"), true),
            ("1+".repeat(101) + "1", false),
            ("1+".repeat(2_040) + "1 > 0", false),
            (format!("pod{} == 1", ".a".repeat(2_000)), false),
            ("(".repeat(4_000), false),
        ] {
            assert!(source.len() <= MAX_LENGTH);
            let run = move || {
                Expression::compile(&source).map(|expression| expression.evaluate(&Bindings::default()))
            };
            let run = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join();
            assert_eq!(run.unwrap().is_ok_and(|value| value.is_ok()), has_value);
        }
        assert!(
            Expression::compile(&("1+".repeat(101) + "1")).unwrap_err().message.contains("more than 100")
        );
        assert!(Expression::compile(&"1+".repeat(4_000)).unwrap_err().message.contains("4096"));
    }

    #[test]
    fn values_come_back_as_json() {
        let mut bindings = Bindings::default();
        bindings.set("gpus", &json!(8));
        bindings.set_double("ratio", 4.0);
        let evaluate = |source: &str| Expression::compile(source).unwrap().evaluate(&bindings);
        assert_eq!(evaluate("devices(gpus, ratio)").unwrap(), json!(32));
        assert_eq!(evaluate("gpus > 4 ? null : 'x'").unwrap(), json!(null));
        assert_eq!(evaluate("{'b': [1], 'a': 1.5}").unwrap(), json!({"a": 1.5, "b": [1]}));
        assert!(evaluate("gpus / 0").is_err());
        assert!(evaluate("missing").is_err());
    }
}
