//! The reasons why an expression is invalid, or has no value.

use cel::ExecutionError;

use super::{CompileError, functions};

/// Why an evaluation ends when its budget is used up.
pub(super) const EXHAUSTED: &str = "it handles more than 32 MiB of values";

/// Operators of other languages, each with that of CEL.
const OPERATORS: &[(&str, &str)] = &[
    ("and", "write `&&` for and"),
    ("AND", "write `&&` for and"),
    ("or", "write `||` for or"),
    ("OR", "write `||` for or"),
    ("not", "write `!` for not"),
    ("NOT", "write `!` for not"),
    ("eq", "compare with `==`"),
    ("ne", "compare with `!=`"),
    ("gt", "compare with `>`"),
    ("lt", "compare with `<`"),
    ("=", "compare with `==`"),
    ("&", "write `&&` for and"),
    ("|", "write `||` for or, and a function such as `x.upperAscii()` in place of a filter"),
    ("if", "write `condition ? a : b`"),
    ("for", "write `list.map(x, …)`, or `list.filter(x, …)`"),
];

/// Syntax of other languages, each with the CEL form.
const MARKS: &[(&str, &str)] = &[
    ("!==", "write `!=` for not equal"),
    ("===", "write `==` for equal"),
    ("<>", "write `!=` for not equal"),
    (" is not null", "write `!= null`"),
    (" is not None", "write `!= null`"),
    (" is not ", "write `!=`"),
    (" is null", "write `== null`"),
    (" is None", "write `== null`"),
    (" is ", "write `==`"),
    (
        "??",
        "write `map.?key.orValue(…)` for a value that may be absent, and `x == null ? … : x` for one that may be null",
    ),
    ("?.", "write `value.?field` for a field that may be absent"),
    ("[@]", "`$${…}` is a literal `${…}`, for a shell"),
    (":-", "a parameter has a `default`, and a value that may be absent `.orValue(…)`"),
    (":=", "a parameter has a `default`, and a value that may be absent `.orValue(…)`"),
    ("=>", "write `>=` for greater or equal, and a macro as `list.map(x, …)`"),
    ("=<", "write `<=` for less or equal"),
    ("~=", "write `value.contains('…')`, or `startsWith` or `endsWith`: there are no regular expressions"),
    ("≥", "write `>=` for greater or equal"),
    ("≤", "write `<=` for less or equal"),
    ("≠", "write `!=` for not equal"),
    ("..", "write both bounds: `totalGpus >= 1 && totalGpus <= 8`"),
    ("=~", "write `value.startsWith('…')`, or `endsWith` or `contains`: there are no regular expressions"),
    (" in (", "write a list in brackets: `value in ['a', 'b']`"),
    ("`", "write strings in quotes, as in `'text'`, and numbers as they are"),
    ("“", "write straight quotes: `'`"),
    ("”", "write straight quotes: `'`"),
    ("‘", "write straight quotes: `'`"),
    ("’", "write straight quotes: `'`"),
];

/// Words in messages of the parser, and what to write instead.
const OF_MESSAGES: [(&str, &str); 2] = [
    ("has() macro", "`has` takes a field: look a key up as in `'KEY' in pod.metadata.labels`"),
    ("reserved identifier: namespace", "write `podNamespace` for the namespace of the pod"),
];

/// What the parser says of its own grammar, which means nothing to authors.
const INTERNAL: [&str; 6] =
    ["viable alternative", " expecting ", "Context", "token recognition", "FallThrough", "Error("];

/// An error of the parser at byte `at` of the source.
pub(super) fn syntax(message: &str, source: &str, at: usize) -> CompileError {
    let rest = &source[at..];
    let found = rest.split_whitespace().next().unwrap_or_default();
    let shown = match message.lines().next().unwrap_or_default().trim_start_matches("Syntax error: ") {
        _ if found.is_empty() => "the expression ends too early".to_owned(),
        // The parser's own words, such as a list of all tokens of the language.
        known if INTERNAL.iter().any(|own| known.contains(own)) => format!("`{found}` is not expected here"),
        other => other.to_owned(),
    };
    // A word in front of a value is the name of one, and the error is at the value.
    let before = source[..at].split_whitespace().next_back().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let of_message = OF_MESSAGES.iter().find(|(words, _)| message.contains(words)).map(|(_, hint)| *hint);
    let every = (source.trim() == "*").then_some("write `containers: \"true\"` for every container");
    let operator = MARKS.iter().find(|(mark, _)| source.contains(mark));
    let operator = operator.or_else(|| OPERATORS.iter().find(|(other, _)| [found, before].contains(other)));
    let is_template = source.starts_with('{') && !source.contains(':');
    let braces = is_template
        .then_some("leave out the braces: an expression has none within it, and a condition none at all");
    let is_open = |open: char, close: char| source.matches(open).count() > source.matches(close).count();
    let nested = match () {
        () if found.is_empty() && is_open('(', ')') => Some("a `(` is not closed: write the `)`"),
        () if source.trim_end().ends_with(':') => Some("write a value behind the `:`: `condition ? a : b`"),
        () if found.starts_with(',') => Some("write `&&` for and, or `||` for or"),
        () if before.is_empty() && found.starts_with(['<', '>', '=', '&', '|', '*', '/', '?']) => {
            Some("write a value in front of the operator")
        }
        () if is_open('[', ']') => Some("a `[` is not closed: write the `]`"),
        () if found.starts_with('$') => {
            Some("write the name without `$`: an expression needs no sign before a name")
        }
        () if before.ends_with(is_name) && found.starts_with(is_name) => {
            Some("an operator or a comma is missing between two values")
        }
        () => None,
    };
    let has_no_else = source.contains(" ? ") && !source.contains(" : ");
    let choice = has_no_else
        .then_some("a choice has two values: write `condition ? a : b`; `null` leaves a value out");
    let is_open = found.starts_with(['\'', '"']) && source.matches(&found[..1]).count() % 2 == 1;
    let open = is_open
        .then_some("a string is not closed; ` #` begins a comment in YAML, unless the value is in quotes");
    CompileError {
        message: format!("not valid CEL: {shown}"),
        at,
        length: found.len().max(1),
        hint: (of_message.or(every).or(open).or(operator.map(|(_, hint)| *hint)).or(nested).or(choice))
            .or(braces)
            .map(str::to_owned),
    }
}

/// An expression without a value for the bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One sentence without the expression itself.
    pub(crate) message: String,
    /// The remedy, for an author who is familiar with neither CEL nor the pod.
    pub(crate) hint: Option<String>,
    /// The name in the expression that failed.
    pub(crate) name: Option<String>,
    /// The key that a map lacks.
    pub(crate) key: Option<String>,
    /// True if no value of these types is right.
    pub(crate) is_of_types: bool,
}

/// Fields of a pod that nothing has set when it is created.
const LATER: &[(&str, &str)] = &[
    ("nodeName", "spec.nodeName"),
    ("hostIP", "status.hostIP"),
    ("podIP", "status.podIP"),
    ("status", "status.podIP"),
    ("uid", "metadata.uid"),
];

/// How to read a key that may be missing.
fn guard(key: &str) -> String {
    if let Some((_, field)) = LATER.iter().find(|(later, _)| *later == key) {
        return format!(
            "a pod has it only when it runs: write `NAME: {{valueFrom: {{fieldRef: {{fieldPath: {field}}}}}}}` in `env`"
        );
    }
    if key == "namespace" {
        return "write `podNamespace` for the namespace of the pod".to_owned();
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let as_field = if key.chars().all(is_name) { format!("`.?{key}` or ") } else { String::new() };
    format!("read it as {as_field}`[?'{key}']`, and end with `.orValue(…)`")
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, hint: None, name: None, key: None, is_of_types: false }
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        let of = |message: String, hint: &str| Self { hint: Some(hint.to_owned()), ..Self::from(message) };
        match &error {
            ExecutionError::NoSuchKey(key) => {
                let name = Some(key.to_string());
                Self { name: name.clone(), key: name, ..of(error.to_string(), &guard(key)) }
            }
            ExecutionError::NoSuchOverload(call) => overload(call.function(), call.argument_types()),
            ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
                overload(operator, &[left, right].map(type_name))
            }
            ExecutionError::ValuesNotComparable(left, right) => {
                overload("a comparison", &[left, right].map(type_name))
            }
            ExecutionError::UnexpectedType { got, want } => {
                let (wanted, hint) = match want.as_str() {
                    "bool" if got == "list" => ("a boolean", COMPARE_SIZE),
                    "bool" => ("a boolean", COMPARE),
                    _ if got == "optional_type" || got == "optional" => ("a list or a map", OPTIONAL_LIST),
                    _ => ("a list or a map", "write a list, as in `[x]`"),
                };
                let message = format!("{wanted} is needed, not `{got}`");
                Self { is_of_types: !got.starts_with("null"), ..of(message, hint) }
            }
            ExecutionError::UndeclaredReference(name) => {
                let hint = functions::with_namespace(name).map(|whole| format!("write `{whole}(…)`"));
                Self { hint, ..Self::from(error.to_string()) }
            }
            ExecutionError::IndexOutOfBounds(_) => of(
                error.to_string(),
                "the first item is `[0]`; for a list that may be shorter, `list[?index].orValue(…)`",
            ),
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
                of(error.to_string(), "guard it with `x == 0 ? … : …`, or write another divisor than 0")
            }
            ExecutionError::InternalError(reason) if reason == EXHAUSTED => {
                of(reason.clone(), "loop over less: a macro within a macro costs the product of both")
            }
            ExecutionError::FunctionError { function, .. } => {
                let hint = ["int", "double", "uint"].contains(&function.as_str()).then(|| {
                    format!("`{function}(…)` reads a string of digits only, not an amount with a unit such as `8Gi`")
                });
                Self { name: Some(function.clone()), hint, ..Self::from(error.to_string()) }
            }
            _ => Self::from(error.to_string()),
        }
    }
}

/// The name of a type in CEL.
fn type_name(value: &cel::Value) -> String {
    match value {
        cel::Value::Float(_) => "double".to_owned(),
        other => other.type_of().to_string(),
    }
}

/// An operator or a function that does not take values of these types.
fn overload(function: &str, types: &[String]) -> Failure {
    let operator = match function {
        "add" | "@plus" => "+",
        "sub" | "@minus" => "-",
        "mul" | "@times" => "*",
        "div" | "@over" => "/",
        "rem" => "%",
        other => other.trim_matches(['_', '@']),
    };
    let named: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("`{operator}` does not take {}", named.join(" and "));
    let hint = Some(remedy(operator, types).to_owned());
    let is_of_types = !types.iter().any(|name| name.starts_with("null"));
    Failure { hint, name: Some(function.to_owned()), is_of_types, ..Failure::from(message) }
}

/// The remedy for a value in place of a boolean.
const COMPARE: &str = "compare it, as in `totalGpus > 0`";

/// The remedy for a list in place of a boolean.
const COMPARE_SIZE: &str = "compare its size, as in `size(list) > 0`";

/// The remedy for an optional value, read by `.?`, that is used in place of its content.
pub(super) const OPTIONAL: &str = "a value that `.?` or `[?…]` reads needs `.orValue(…)`";

/// The remedy for such a value in place of a list.
const OPTIONAL_LIST: &str = "end what `.?` or `[?…]` reads with `.orValue([])`";

/// The remedy for an operator that does not take values of these types.
pub(super) fn remedy(operator: &str, types: &[String]) -> &'static str {
    let has = |name: &str| types.iter().any(|known| known.starts_with(name));
    let order = ["<", "<=", ">", ">=", "a comparison"].contains(&operator);
    match operator {
        _ if has("null") => "guard a value that is `null`: `x == null ? … : …`",
        _ if has("optional") => OPTIONAL,
        "&&" | "||" | "!" if has("list") => COMPARE_SIZE,
        "||" if has("string") => {
            "compare both, as in `x == 'a' || x == 'b'`; a default is `x == '' ? 'a' : x`"
        }
        "&&" | "||" | "!" => COMPARE,
        _ if order && has("bool") => "compare twice for an interval: `0 < totalGpus && totalGpus < 8`",
        _ if (order || operator == "-" || operator == "*" || operator == "/") && has("string") => {
            "read an amount by `quantity(x)`, as in `quantity('64Gi')`, and a string of digits by `int(x)`"
        }
        "orValue" => "only a value that `.?` or `[?…]` reads takes `orValue(…)`",
        "." if has("list") => "write `size(list)` for the number of items, and `list[0]` for the first one",
        "." => {
            "only a map has fields: correct the value, or the row of `machines` that sets it, or write `()` behind a method"
        }
        "in" => "compare with `==`, or write a list: `value in ['a', 'b']`",
        "devices" => {
            "write `devices(gpus, devicesPerGPU)`: a number of GPUs, and the devices for each of them"
        }
        "[_]" if has("list") => {
            "a list has numbers as keys: write a map, `{KEY: value}`, where the value is declared"
        }
        "[_]" => "a text has no items: write `text.startsWith('…')`, or `text.charAt(0)`",
        "contains" if has("list") => "write `item in list`",
        "size" if has("bool") => "a boolean has no size: write it alone, or with `!` before it",
        "+" if has("list") => "write `list + [item]` for a list, and `list.join(',') + text` for a text",
        _ => "convert one of them with `int(…)`, `double(…)` or `string(…)`",
    }
}
