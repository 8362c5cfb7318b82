use serde_json::{Value, json};

use super::super::environment::ENV;
use super::super::functions::NAMES;
use super::super::{Bindings, Expression};
use super::count;

fn evaluate(expression: &Expression) -> Result<Value, String> {
    let mut bindings = Bindings::default();
    bindings.set("text", &json!("0123456789"));
    bindings
        .set("pod", &json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}}));
    expression.evaluate(&bindings).map_err(|failure| failure.message)
}

/// `depth` macros, each within the one before.
fn nested(macro_name: &str, depth: usize, innermost: &str) -> String {
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    (0..depth)
        .rev()
        .fold(innermost.to_owned(), |inner, level| format!("{digits}.{macro_name}(x{level}, {inner})"))
}

#[test]
fn an_expression_that_would_not_end_fails() {
    let chained = |call: &str, times| format!("size('a'{}) > 0", call.repeat(times));
    let doubled =
        (0..24).fold("['a']".to_owned(), |list, level| format!("{list}.map(x{level}, x{level} + x{level})"));
    let paired =
        (0..24).fold("['a']".to_owned(), |list, level| format!("{list}.map(x{level}, [x{level}, x{level}])"));
    for source in [
        nested("map", 12, "1"),
        nested("exists", 12, "x0 > 10"),
        nested("exists", 12, "x0 / 0 == 1"),
        nested("all", 12, "x0 >= 0"),
        nested("exists_one", 12, "true"),
        nested("map", 12, "1") + " == [] || true",
        format!("lists.range(1000000).map(x, {})", vec!["1"; 80].join("+")),
        "lists.range(1000).map(x, lists.range(1000000))".to_owned(),
        "lists.range(300000).map(x, pod)".to_owned(),
        "lists.range(300000).exists(x, pod.?spec.?containers.hasValue() && x < 0)".to_owned(),
        "lists.range(300000).map(x, [pod, pod])".to_owned(),
        "lists.range(300000).map(x, {'a': pod})".to_owned(),
        "lists.range(300000).map(x, true ? pod : text)".to_owned() + ".map(y, y == pod)",
        chained(".replace('', 'aaaaaaaaaa')", 30),
        chained(".replace('', text)", 30),
        format!("size({doubled}[0]) > 0"),
        format!("size({paired}) > 0"),
        "size(lists.range(300000).map(x, 'a').join(text + text + text + text + text)) > 0".to_owned(),
        "lists.range(20000).sortBy(x, lists.range(20000))".to_owned(),
    ] {
        let result = evaluate(&Expression::compile(&source).unwrap());
        let error = result.err().unwrap_or_else(|| panic!("{source} has a value"));
        assert!(error.contains("more than 32 MiB"), "{source}: {error}");
    }
}

#[test]
fn the_largest_pods_are_within_the_budget() {
    let env: Vec<_> =
        (0..200).map(|at| json!({"name": format!("VAR_{at}"), "value": "x".repeat(12)})).collect();
    let containers: Vec<_> =
        (0..200).map(|at| json!({"name": format!("c{at}"), "env": env.clone()})).collect();
    let mut bindings = Bindings::default();
    bindings.set("container", &containers[0]);
    bindings.set("pod", &json!({"spec": {"containers": containers}}));
    for source in [
        "pod.spec.containers.filter(c, c.name != container.name).size() > 0",
        "pod.spec.containers.map(c, c.?env.orValue([]).filter(e, e.name.startsWith('VAR_1'))).flatten().size() > 3",
        "!pod.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'NOPE'))",
        "size(pod.spec.containers.map(c, c.?env.orValue([]).map(e, e.name)).flatten()) > 0",
        "container.env.filter(e, container.env.exists(f, f.name == e.name)).size() > 0",
    ] {
        let result = Expression::compile(source).unwrap().evaluate(&bindings);
        assert_eq!(result.map_err(|failure| failure.message), Ok(json!(true)), "{source}");
    }
}

#[test]
fn a_result_that_no_pod_can_hold_fails() {
    let mut bindings = Bindings::default();
    bindings.set("text", &json!("x".repeat(1 << 20)));
    let evaluate =
        |source: &str| Expression::compile(source).unwrap().evaluate(&bindings).map_err(|f| f.message);
    assert!(evaluate("text + text").is_ok());
    assert!(evaluate("text + text + text + text").unwrap_err().contains("more than 4 MiB"));
    assert!(evaluate("[text, text, {'a': [text, text]}]").unwrap_err().contains("more than 4 MiB"));
}

/// The values of the original expression and of the one that counts, at any cost.
fn both(source: &str) -> [Result<Value, String>; 2] {
    let plain = ENV.compile(source).unwrap().expression().clone();
    let mut counting = plain.clone();
    count(&mut counting);
    [(plain, false), (counting, true)]
        .map(|(tree, counts)| evaluate(&Expression { tree, counts, ..Expression::compile(source).unwrap() }))
}

#[test]
fn an_expression_that_counts_has_the_same_value() {
    for (source, expected) in [
        ("[3, 1, 2].sortBy(x, -x)", json!([3, 2, 1])),
        ("['b', 'a'].map(x, x + text.substring(0, 2)).join(', ')", json!("b01, a01")),
        ("['b', 'a'].filter(x, x > 'a')", json!(["b"])),
        ("[1, 2].exists(x, x == 3 || 1 / (x - 1) == 1)", json!(true)),
        ("[1, 2].exists_one(x, x > 1)", json!(true)),
        ("pod.spec.containers.all(c, has(c.env) && c.env.exists(e, e.name in ['X']))", json!(true)),
        ("pod.spec.containers.map(c, c.?limits[?'a'].orValue('none'))", json!(["none"])),
        ("optional.of(text).optMap(x, x.replace('0', text)).value()", json!("0123456789123456789")),
        ("{'a': lists.range(3).map(x, x * 2)}", json!({"a": [0, 2, 4]})),
        ("math.greatest([1, 2].map(x, x))", json!(2)),
        ("[1].map(x, type(x) == int ? [?optional.none(), x] : [])", json!([[1]])),
        ("{'b': 1, 'a': 2}.map(k, k).sort()", json!(["a", "b"])),
    ] {
        assert_eq!(both(source), [Ok(expected.clone()), Ok(expected)], "{source}");
    }
}

#[test]
fn an_error_keeps_its_reason() {
    for source in ["[1].map(x, x + 'a')", "['a'].map(x, x.missing)", "['a', 1].join(', ')", "text + 1"] {
        let [plain, counting] = both(source);
        assert_eq!(plain.unwrap_err(), counting.unwrap_err(), "{source}");
    }
}

#[test]
fn an_expression_that_cannot_handle_much_does_not_count() {
    for source in [
        "gpus > 4",
        "text + text",
        "pod.spec.containers.size() > 1",
        "'a' in [text]",
        "'a' in pod.spec.containers[0].name.split('-')",
    ] {
        assert!(!Expression::compile(source).unwrap().counts, "{source}");
    }
}

/// An expression for each function and macro, with `items`, a list of 100,000 elements, or `text`, the same number
/// joined.
const OVER_MANY: &[(&str, &str)] = &[
    ("all", "items.all(x, x != '')"),
    ("bool", "items.map(x, bool('true')).size() > 0"),
    ("bytes", "bytes(text).size() > 0"),
    ("charAt", "text.charAt(500000) != ''"),
    ("contains", "text.contains('item-99999')"),
    ("devices", "devices(items.size(), 0.5) > 0"),
    ("distinct", "items.distinct().size() > 0"),
    ("double", "items.map(x, double('1')).size() > 0"),
    ("dyn", "dyn(items).size() > 0"),
    ("endsWith", "text.endsWith(text)"),
    ("exists", "items.exists(x, x == 'none')"),
    ("existsOne", "items.existsOne(x, x == 'none')"),
    ("exists_one", "items.exists_one(x, x == 'none')"),
    ("filter", "items.filter(x, x != '').size() > 0"),
    ("flatten", "[items, [items]].flatten().size() > 0"),
    ("format", "'%s'.format([items]).size() > 0"),
    ("has", "has(pod.spec) && items.size() > 0"),
    ("hasValue", "optional.of(items).hasValue()"),
    ("indexOf", "text.indexOf('item-99999') > 0"),
    ("int", "items.map(x, int('1')).size() > 0"),
    ("join", "items.join(',').size() > 0"),
    ("lastIndexOf", "text.lastIndexOf('item-0') > 0"),
    ("lists.range", "lists.range(100000).size() > 0"),
    ("lowerAscii", "text.lowerAscii().size() > 0"),
    ("map", "items.map(x, x).size() > 0"),
    ("math.abs", "items.map(x, math.abs(-1)).size() > 0"),
    ("math.bitAnd", "items.map(x, math.bitAnd(1, 1)).size() > 0"),
    ("math.bitNot", "items.map(x, math.bitNot(1)).size() > 0"),
    ("math.bitOr", "items.map(x, math.bitOr(1, 1)).size() > 0"),
    ("math.bitShiftLeft", "items.map(x, math.bitShiftLeft(1, 1)).size() > 0"),
    ("math.bitShiftRight", "items.map(x, math.bitShiftRight(1, 1)).size() > 0"),
    ("math.bitXor", "items.map(x, math.bitXor(1, 1)).size() > 0"),
    ("math.ceil", "items.map(x, math.ceil(1.5)).size() > 0"),
    ("math.floor", "items.map(x, math.floor(1.5)).size() > 0"),
    ("math.greatest", "math.greatest(lists.range(100000)) > 0"),
    ("math.isFinite", "items.map(x, math.isFinite(1.5)).size() > 0"),
    ("math.isInf", "items.map(x, math.isInf(1.5)).size() > 0"),
    ("math.isNaN", "items.map(x, math.isNaN(1.5)).size() > 0"),
    ("math.least", "math.least(lists.range(100000)) >= 0"),
    ("math.round", "items.map(x, math.round(1.5)).size() > 0"),
    ("math.sign", "items.map(x, math.sign(1.5)).size() > 0"),
    ("math.sqrt", "items.map(x, math.sqrt(1.5)).size() > 0"),
    ("math.trunc", "items.map(x, math.trunc(1.5)).size() > 0"),
    ("optional.none", "items.map(x, optional.none()).size() > 0"),
    ("optional.of", "items.map(x, optional.of(x)).size() > 0"),
    ("optional.ofNonZeroValue", "items.map(x, optional.ofNonZeroValue(x)).size() > 0"),
    ("or", "items.map(x, optional.none().or(optional.of(x)).hasValue()).size() > 0"),
    ("orValue", "optional.none().orValue(items).size() > 0"),
    ("quantity", "items.map(x, quantity('1Gi') / 2.5).size() > 0"),
    ("replace", "text.replace('item', 'x').size() > 0"),
    ("reverse", "items.reverse().size() > 0"),
    ("size", "items.size() > 0"),
    ("slice", "items.slice(1, 99999).size() > 0"),
    ("sort", "items.sort().size() > 0"),
    ("sortBy", "items.sortBy(x, x).size() > 0"),
    ("split", "text.split(',').size() > 0"),
    ("startsWith", "text.startsWith(text)"),
    ("string", "string(items.size()) != ''"),
    ("strings.quote", "strings.quote(text).size() > 0"),
    ("substring", "text.substring(1, 500000).size() > 0"),
    ("trim", "text.trim().size() > 0"),
    ("type", "type(items) == list"),
    ("uint", "items.map(x, uint(1)).size() > 0"),
    ("upperAscii", "text.upperAscii().size() > 0"),
    ("value", "optional.of(items).value().size() > 0"),
    ("in", "'none' in items"),
    ("distinct", "items.map(x, {'name': x}).distinct().size() > 0"),
    ("distinct", "items.map(x, [x]).distinct().size() > 0"),
    ("distinct", "items.map(x, bytes(x)).distinct().size() > 0"),
    ("distinct", "items.map(x, double('NaN')).distinct().size() > 0"),
    ("distinct", "lists.range(100000).map(x, x + 4611686018427387904).distinct().size() > 0"),
    ("distinct", "items.filter(x, items.distinct().size() > 0).size() > 0"),
    ("sort", "items.filter(x, items.sort().size() > 0).size() > 0"),
    ("in", "items.filter(x, x in items).size() > 0"),
    ("+", "items.map(x, items + [x]).size() > 0"),
    ("slice", "items.map(x, items.slice(0, 1)).size() > 0"),
    ("charAt", "items.map(x, text.charAt(1)).size() > 0"),
];

#[test]
fn every_function_comes_to_an_end_over_100_000_elements() {
    let items: Vec<String> = (0..100_000).map(|at| format!("item-{at}")).collect();
    let mut bindings = Bindings::default();
    bindings.set("text", &json!(items.join(",")));
    bindings.set("items", &json!(items));
    bindings.set("pod", &json!({"spec": {}}));
    for (name, source) in OVER_MANY {
        // It has a value, or its budget is used up. An expression with quadratic cost takes minutes.
        let result = Expression::compile(source).unwrap().evaluate(&bindings);
        let message = result.map_err(|failure| failure.message).err().unwrap_or_default();
        assert!(message.is_empty() || message.contains("more than 32 MiB"), "{name}: {source}: {message}");
    }
    let missing = NAMES.iter().find(|name| !OVER_MANY.iter().any(|(known, _)| known == *name));
    assert_eq!(missing, None);
}

#[test]
fn macros_go_through_the_keys_of_a_map_in_their_order() {
    let source = "{'c': 1, 'a': 2, 'e': 3, 'b': 4, 'd': 5}.map(key, key).join('')";
    for _ in 0..20 {
        assert_eq!(evaluate(&Expression::compile(source).unwrap()), Ok(json!("abcde")));
    }
    let entries = "{'a': 1, 'b': 2}.exists(key, key == 'b') && !{'a': 1}.all(key, key == 'b')";
    assert_eq!(evaluate(&Expression::compile(entries).unwrap()), Ok(json!(true)));
}
