//! `docs/functions.md` against the library.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use cel::{Context, ExecutionError};

use super::super::environment::ENV;
use super::super::{Bindings, Expression};
use super::NAMES;

const PAGE: &str = include_str!("../../../../../docs/functions.md");

/// Functions of CEL and of other implementations that the library does not have, or not without features that are off.
const OTHERS: &str = "base64.decode base64.encode cel.bind duration find findAll first getDate getDayOfMonth \
    getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds \
    isSorted isURL last matches math.pow max min optFlatMap optMap regex.extract \
    regex.extractAll semver sets.equivalent sets.intersects sum timestamp transformList transformMap \
    transformMapEntry unwrap unwrapOpt url";
/// Macros, which are not functions. Calls of them without arguments have no meaning.
const MACROS: &str = "all exists existsOne exists_one filter has map math.greatest math.least sortBy";

/// The texts in back quotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The rows of the tables: a name, its examples, and their values.
fn rows() -> Vec<[Vec<&'static str>; 3]> {
    let row = |line: &'static str| {
        let cells: Vec<_> = line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ").collect();
        let [name, examples, values] = cells.as_slice() else { panic!("{line}") };
        Some([vec![name.trim_end_matches('`')], quoted(examples), quoted(values)])
    };
    PAGE.lines().filter_map(row).collect()
}

fn evaluate(source: &str) -> Value {
    let mut bindings = Bindings::default();
    bindings.set("gpus", &json!(3));
    bindings.set("pod", &json!({"metadata": {"name": "worker-0"}, "spec": {}}));
    let compiled = Expression::compile(source).unwrap_or_else(|error| panic!("{source}: {}", error.message));
    compiled.evaluate(&bindings).unwrap_or_else(|error| panic!("{source}: {}", error.message))
}

/// Asks the library: calling a function with wrong arguments fails differently than calling one that does not exist.
fn exists(function: &str) -> bool {
    let missing = |source: String| match ENV.compile(&source) {
        Ok(program) => {
            matches!(
                program.execute(&Context::with_env(Arc::clone(&ENV))),
                Err(ExecutionError::UndeclaredReference(_))
            )
        }
        // Macros check their arguments when they are compiled.
        Err(_) => false,
    };
    !missing(format!("''.{function}()"))
        || !missing(format!("{function}()"))
        || ["math", "optional", "lists", "strings", "cel"]
            .iter()
            .any(|namespace| !missing(format!("{namespace}.{function}()")))
}

#[test]
fn each_example_calls_its_function_and_has_its_value() {
    let rows = rows();
    assert!(rows.len() > 60, "{}", rows.len());
    for [name, examples, values] in rows {
        assert!(!examples.is_empty() && examples.len() == values.len(), "{name:?}");
        for (example, value) in examples.iter().zip(values) {
            assert!(example.contains(&format!("{}(", name[0])), "`{example}` does not call {name:?}");
            assert_eq!(evaluate(example), evaluate(value), "{example}");
        }
    }
}

#[test]
fn each_function_that_exists_is_listed() {
    let listed: BTreeSet<&str> = rows().iter().map(|row| row[0][0]).collect();
    assert_eq!(listed, NAMES.iter().copied().collect());
    let macros: BTreeSet<&str> = MACROS.split_whitespace().collect();
    for name in NAMES.iter().copied().chain(OTHERS.split_whitespace()) {
        let exists = macros.contains(name) || exists(name.rsplit('.').next().unwrap());
        assert_eq!(listed.contains(name), exists, "{name}");
    }
}
