use serde_json::{Value, json};

use super::super::{Bindings, Expression};
use super::Counting;

fn evaluate(source: &str) -> Result<Value, String> {
    let mut bindings = Bindings::new();
    bindings.set("text", &json!("0123456789"));
    bindings
        .set("pod", &json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}}));
    let expression = Expression::compile(source).unwrap();
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
    for source in [
        nested("map", 12, "1"),
        nested("exists", 12, "x0 > 10"),
        nested("exists", 12, "x0 / 0 == 1"),
        nested("all", 12, "x0 >= 0"),
        nested("exists_one", 12, "true"),
        nested("map", 12, "1") + " == [] || true",
        format!("lists.range(1000000).map(x, {})", vec!["1"; 80].join("+")),
        "lists.range(1000).map(x, lists.range(1000000))".to_owned(),
        "lists.range(100000).map(x, pod)".to_owned(),
        "lists.range(100000).map(x, [pod, pod])".to_owned(),
        "lists.range(100000).map(x, {'a': pod})".to_owned(),
        "lists.range(100000).map(x, true ? pod : text)".to_owned() + ".map(y, y == pod)",
        chained(".replace('', 'aaaaaaaaaa')", 30),
        chained(".replace('', text)", 30),
        format!("size({doubled}[0]) > 0"),
        "size(lists.range(100000).map(x, 'a').join(text + text + text + text + text)) > 0".to_owned(),
        "lists.range(20000).sortBy(x, lists.range(20000))".to_owned(),
    ] {
        let result = evaluate(&source);
        let error = result.err().unwrap_or_else(|| panic!("{source} has a value"));
        assert!(error.contains("more than 16 MiB"), "{source}: {error}");
    }
}

#[test]
fn a_result_that_no_pod_can_hold_fails() {
    let mut bindings = Bindings::new();
    bindings.set("text", &json!("x".repeat(1 << 20)));
    let evaluate =
        |source: &str| Expression::compile(source).unwrap().evaluate(&bindings).map_err(|f| f.message);
    assert!(evaluate("text + text").is_ok());
    assert!(evaluate("text + text + text + text").unwrap_err().contains("more than 4 MiB"));
    assert!(evaluate("[text, text, {'a': [text, text]}]").unwrap_err().contains("more than 4 MiB"));
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
        assert!(
            Counting::of(Expression::compile(source).unwrap().program.expression()).is_some(),
            "{source}"
        );
        assert_eq!(evaluate(source), Ok(expected), "{source}");
    }
}

#[test]
fn an_error_keeps_its_reason() {
    for source in ["[1].map(x, x + 'a')", "['a'].map(x, x.missing)", "['a', 1].join(', ')"] {
        let error = evaluate(source).unwrap_err();
        assert!(!error.contains('@') && !error.contains("16 MiB"), "{source}: {error}");
    }
}

#[test]
fn an_expression_without_a_loop_does_not_count() {
    for source in ["gpus > 4", "text + text", "pod.spec.containers.size() > 1", "'a' in [text]"] {
        assert!(
            Counting::of(Expression::compile(source).unwrap().program.expression()).is_none(),
            "{source}"
        );
    }
}
