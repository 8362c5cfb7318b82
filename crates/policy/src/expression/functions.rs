//! The functions and macros that expressions can call. `docs/functions.md` has an example of each.

use crate::source::{closest, did_you_mean};

pub(super) const NAMES: &[&str] = &[
    "all",
    "bool",
    "bytes",
    "charAt",
    "contains",
    "devices",
    "distinct",
    "double",
    "dyn",
    "endsWith",
    "exists",
    "existsOne",
    "exists_one",
    "filter",
    "flatten",
    "format",
    "has",
    "hasValue",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lists.range",
    "lowerAscii",
    "map",
    "math.abs",
    "math.bitAnd",
    "math.bitNot",
    "math.bitOr",
    "math.bitShiftLeft",
    "math.bitShiftRight",
    "math.bitXor",
    "math.ceil",
    "math.floor",
    "math.greatest",
    "math.isFinite",
    "math.isInf",
    "math.isNaN",
    "math.least",
    "math.round",
    "math.sign",
    "math.sqrt",
    "math.trunc",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "quantity",
    "replace",
    "reverse",
    "size",
    "slice",
    "sort",
    "sortBy",
    "split",
    "startsWith",
    "string",
    "strings.quote",
    "substring",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "value",
];

/// The functions that yield resources of nodes.
const OF_NODES: [&str; 2] = ["offeredName", "offeredNames"];

/// Names in other languages, and the CEL form.
const OTHERS: &[(&str, &str)] = &[
    ("any", "did you mean `exists`?"),
    ("append", "write `list + [item]`"),
    ("between", "write both bounds: `totalGpus >= 1 && totalGpus <= 8`"),
    ("beginsWith", "did you mean `startsWith`?"),
    ("concat", "write `one + other`"),
    ("default", "read what may be absent with `.?`, and end with `.orValue(…)`"),
    ("defined", "write `x != null`, or `'KEY' in map`"),
    ("equals", "compare with `==`"),
    ("every", "did you mean `all`?"),
    ("get", "write `map[?key].orValue(…)`"),
    ("hasPrefix", "did you mean `startsWith`?"),
    ("hasSuffix", "did you mean `endsWith`?"),
    ("has", "write `key in map`; `has(pod.spec.field)` takes a field"),
    ("includes", "did you mean `contains`? An item of a list is found by `item in list`"),
    ("isEmpty", "write `size(value) == 0`"),
    ("empty", "write `size(value) == 0`"),
    ("len", "did you mean `size`?"),
    ("length", "did you mean `size`?"),
    ("matches", "there are no regular expressions; use `startsWith`, `endsWith`, `contains` or `split`"),
    ("reduce", "write `math.greatest(list)`, `list.join(',')` or `list.all(x, …)`"),
    ("some", "did you mean `exists`?"),
    ("sum", "there is no sum of a list: `totalGpus` is that of the GPUs of the pod"),
    ("max", "did you mean `math.greatest`?"),
    ("min", "did you mean `math.least`?"),
    ("str", "did you mean `string`?"),
    ("parseInt", "write `int(value)`"),
    ("toInt", "write `int(value)`"),
    ("toLower", "did you mean `lowerAscii`?"),
    ("not", "put `!` before a condition to negate it, as in `!(gpus > 0)`"),
    ("toLowerCase", "did you mean `lowerAscii`?"),
    ("toString", "did you mean `string`?"),
    ("toUpper", "did you mean `upperAscii`?"),
    ("toUpperCase", "did you mean `upperAscii`?"),
];

/// Returns whether a call names a function, without its namespace. The parser expands `has(x.y)`, and leaves a method.
pub(super) fn is_known(function: &str) -> bool {
    function != "has" && NAMES.iter().chain(&OF_NODES).any(|known| last(known) == function)
}

/// The whole name of a function that needs a namespace.
pub(super) fn with_namespace(function: &str) -> Option<&'static str> {
    NAMES.iter().copied().find(|known| known.contains('.') && last(known) == function)
}

/// Returns whether functions have a name in front of them, as in `math.ceil(x)`.
pub(super) fn is_namespace(name: &str) -> bool {
    NAMES.iter().any(|known| known.split_once('.').is_some_and(|(namespace, _)| namespace == name))
}

/// The name without its namespace.
fn last(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or_default()
}

/// The hint for a name that no function has.
pub(super) fn hint(name: &str) -> String {
    if let Some((_, hint)) = OTHERS.iter().find(|(other, _)| *other == name) {
        return (*hint).to_owned();
    }
    let all = || NAMES.iter().chain(&OF_NODES);
    let lower = name.to_lowercase();
    let begins = |known: &&&'static str| name.len() > 2 && last(known).to_lowercase().starts_with(&lower);
    let like = || {
        let like = closest(name, all().map(|known| last(known)))?;
        all().find(|known| last(known) == like)
    };
    match all().find(begins).or_else(like) {
        Some(known) => did_you_mean(known),
        None => "docs/functions.md lists the functions; write a value without `()`, and one of a map as `map[key]`".to_owned(),
    }
}

#[cfg(test)]
mod tests;
