use serde_json::{Value, json};

use super::super::{Bindings, Expression};
use super::{Counting, count};

fn evaluate(expression: &Expression) -> Result<Value, String> {
    let mut bindings = Bindings::new();
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
    let mut bindings = Bindings::new();
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
    let mut bindings = Bindings::new();
    bindings.set("text", &json!("x".repeat(1 << 20)));
    let evaluate =
        |source: &str| Expression::compile(source).unwrap().evaluate(&bindings).map_err(|f| f.message);
    assert!(evaluate("text + text").is_ok());
    assert!(evaluate("text + text + text + text").unwrap_err().contains("more than 4 MiB"));
    assert!(evaluate("[text, text, {'a': [text, text]}]").unwrap_err().contains("more than 4 MiB"));
}

/// The values of an expression as it is and of one that counts, whatever it costs.
fn both(source: &str) -> [Result<Value, String>; 2] {
    let expression = Expression::compile(source).unwrap();
    let mut counting = expression.program.expression().clone();
    count(&mut counting);
    let counting =
        Expression { counting: Some(Counting(Box::new(counting))), ..Expression::compile(source).unwrap() };
    [Expression { counting: None, ..expression }, counting].map(|expression| evaluate(&expression))
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
        "pod.spec.containers.exists(c, c.name == 'a' && c.?image.orValue('').startsWith('b'))",
        "pod.spec.containers.filter(c, has(c.env)).map(c, c.name)",
    ] {
        assert!(Expression::compile(source).unwrap().counting.is_none(), "{source}");
    }
}
