//! The functions that `docs/functions.md` lists.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Bindings, Expression, is_known_function};

const PAGE: &str = include_str!("../../../../docs/functions.md");

/// Names of functions of CEL, of its extensions, and of those that Kubernetes has.
const FUNCTIONS: &str = "all base64.decode base64.encode bool bytes cel.bind charAt contains devices distinct double \
    duration dyn endsWith exists existsOne exists_one filter find findAll first flatten format getDate getDayOfMonth \
    getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds has hasValue indexOf \
    int isSorted isURL join last lastIndexOf lists.range lowerAscii map matches math.abs math.bitAnd math.bitNot \
    math.bitOr math.bitShiftLeft math.bitShiftRight math.bitXor math.ceil math.floor math.greatest math.isFinite \
    math.isInf math.isNaN math.least math.pow math.round math.sign math.sqrt math.trunc max min optFlatMap optMap \
    optional.none optional.of optional.ofNonZeroValue or orValue quantity regex.extract regex.extractAll \
    replace reverse semver sets.equivalent sets.intersects size slice sort sortBy split \
    startsWith string strings.quote substring sum timestamp transformList transformMap transformMapEntry trim type uint \
    unwrap unwrapOpt upperAscii url value";
/// Macros, which are no functions: calls of them without arguments mean nothing.
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
    let mut bindings = Bindings::new();
    bindings.set("gpus", &json!(3));
    bindings.set("pod", &json!({"metadata": {"name": "worker-0"}, "spec": {}}));
    let compiled = Expression::compile(source).unwrap_or_else(|error| panic!("{source}: {}", error.message));
    compiled.evaluate(&bindings).unwrap_or_else(|error| panic!("{source}: {}", error.message))
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
    let macros: BTreeSet<&str> = MACROS.split_whitespace().collect();
    for name in FUNCTIONS.split_whitespace() {
        let exists = macros.contains(name) || is_known_function(name.rsplit('.').next().unwrap());
        assert_eq!(listed.contains(name), exists, "{name}");
    }
    let known: BTreeSet<&str> = FUNCTIONS.split_whitespace().collect();
    assert!(listed.is_subset(&known), "{listed:?}");
}
