use serde_json::json;

use crate::core::schema;

use super::*;

fn scope(name: &str) -> Type {
    let one_of = |texts: &[&str]| {
        Type::of(Kind::String(Texts::These(texts.iter().map(|text| (*text).to_owned()).collect())))
    };
    match name {
        "gpus" | "totalGpus" => Type::count(),
        "ratio" => Type::double(),
        "perhaps" => Type::string().or(Type::null()),
        "flag" => Type::bool(None),
        "mode" => one_of(&["fallback", "fail"]),
        "links" => Type::list(Type::string()),
        "pod" => Type::object(schema::pod()),
        "container" => Type::object(schema::container()),
        "node" => Type::map(Type::of(Kind::String(Texts::LowerCase))),
        "profiles" => Type::of_value(&json!({
            "h100": {"pairs": "4", "chunk": null, "ports": [1, 2]},
            "b200": {"pairs": "1", "chunk": "9", "ports": []},
        })),
        _ => Type::Dyn,
    }
}

fn infer(source: &str) -> (Type, Vec<TypeFinding>) {
    Expression::compile(source).unwrap().infer(&scope)
}

fn errors(source: &str) -> Vec<String> {
    let findings = infer(source).1;
    findings.into_iter().filter(|finding| finding.warning.is_none()).map(|finding| finding.message).collect()
}

#[test]
fn offsets() {
    for source in ["gpus * ratio", "a.b.c > 3", "has(pod.spec.x)", "[1, 2].exists(x, x > 'a')", "f.startsWith('abc')", "a[?'b'].orValue('c')", "a ? 'bb' : 'cc'", "-3", "!aaa", "'abc'", "devices(gpus, 1)", "12345", "{'a': bcd}", "[1,2]"] {
        let e = Expression::compile(source).unwrap();
        fn walk(e: &Expression, x: &IdedExpr) {
            eprintln!("  {:?} {:?}", e.program.source_info().offset_for(x.id), x.expr);
            match &x.expr {
                Expr::Call(c) => { c.target.iter().for_each(|t| walk(e, t)); c.args.iter().for_each(|t| walk(e, t)); }
                Expr::Select(s) => walk(e, &s.operand),
                _ => {}
            }
        }
        eprintln!("{source}");
        walk(&e, e.program.expression());
    }
    for source in ["optional.none().?x", "null.?x.hasValue()", "1.?x.hasValue()", "{'a':{'b':1}}.?a.b", "{'a':{'b':1}}.?a.b.orValue(3)", "1 == 'a'", "1 == 1.0", "1 < 1.5", "1 in 2", "'a'[0]", "{'a':1}[1.5]", "[1][1.0]", "[1][?'a'].hasValue()", "{'a':1}[null]", "1 && false", "null == 'a'", "1 * 1.5", "'a' + 1", "['a', 1].join(',')", "size(1)", "null.map(x, x)", "'abc'.map(x,x)", "{'a':1}.map(k, k)", "true ? 1 : 'a'", "'a'.?b.hasValue()", "[null].join(',')", "string(null)", "string([1])", "int(null)", "'a' < 1", "null < 1", "true < false", "[1] < [2]", "!1", "-'a'", "optional.of(1).optMap(x, x + 1)", "optional.of({'a': 1}).a"] {
        let r = Expression::compile(source).map(|e| e.evaluate(&crate::core::policy::expression::Bindings::new()));
        eprintln!("{source}  =>  {r:?}");
    }
}
