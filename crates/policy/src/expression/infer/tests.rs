use serde_json::json;

use crate::schema;
use crate::source::{ALWAYS_FALSE, UNKNOWN_ENUM_VALUE, UNKNOWN_TABLE_KEY, UNLIKE_TYPES};

use super::*;

fn scope(name: &str) -> Type {
    let one_of = |texts: &[&str]| {
        Type::from_kind(Kind::String(Texts::These(texts.iter().map(|text| (*text).to_owned()).collect())))
    };
    match name {
        "gpus" | "totalGpus" => Type::int(),
        "small" => Type::int(),
        "ratio" => Type::double(),
        "text" => Type::string(),
        "perhaps" => Type::string().or(Type::null()),
        "flag" => Type::bool(),
        "mode" => one_of(&["fallback", "fail"]),
        "links" => Type::list(Type::string()),
        "pod" => Type::object(schema::pod()),
        "container" => Type::object(schema::container()),
        "node" => Type::map(Type::from_kind(Kind::String(Texts::LowerCase))),
        "profiles" => Type::of_value(&json!({
            "h100": {"pairs": "4", "chunk": null, "ports": [1, 2]},
            "b200": {"pairs": "1", "chunk": "9", "ports": []},
        })),
        _ => Type::Dyn,
    }
}

fn infer(source: &str) -> (Type, Vec<TypeFinding>) {
    Expression::compile(source).unwrap_or_else(|error| panic!("{source}: {error:?}")).infer(&scope)
}

/// Each finding with the part of the source that it is about.
fn findings(source: &str) -> Vec<(Option<&'static str>, String, String)> {
    let part = |finding: &TypeFinding| source[finding.at..finding.at + finding.length].to_owned();
    let all = |finding: TypeFinding| {
        let shown = format!("{}; {}", finding.message, finding.hint.clone().unwrap_or_default());
        (finding.warning, part(&finding), shown)
    };
    infer(source).1.into_iter().map(all).collect()
}

#[test]
fn what_is_right_has_a_type_and_no_finding() {
    for (source, expected) in [
        ("devices(gpus, ratio)", "an integer"),
        ("gpus > 4 ? null : 'x'", "`null` or a string"),
        ("double(gpus) * ratio", "a number"),
        ("gpus * 2 + small", "an integer"),
        ("pod.spec.?hostNetwork.orValue(false) && gpus > 0", "a boolean"),
        ("pod.spec.containers.map(c, c.name)", "a list"),
        ("pod.spec.?affinity.?nodeAffinity.hasValue()", "a boolean"),
        ("pod.metadata.?labels[?'a/b'].orValue('') == ''", "a boolean"),
        ("has(pod.spec.hostNetwork) && pod.spec.hostNetwork", "a boolean"),
        ("pod.spec.containers.exists(c, c.?image.orValue('').startsWith('x'))", "a boolean"),
        ("pod.spec.volumes.filter(v, has(v.emptyDir)).map(v, v.name).join(',')", "a string"),
        ("links.map(l, {'name': l, 'at': links})", "a list"),
        ("lists.range(8).map(i, links[i]) + [text]", "a list"),
        ("profiles[text].pairs + 'x'", "a string"),
        ("profiles[?text].orValue(profiles['h100']).chunk", "`null` or a string"),
        ("profiles['h100'].ports.map(p, p * 2)", "a list"),
        ("perhaps != null && perhaps.startsWith('a')", "a boolean"),
        ("perhaps == null ? text : perhaps", "`null` or a string"),
        ("mode in ['fail', 'fallback'] || mode == 'fail'", "a boolean"),
        ("node[?'pool'].orValue('none').startsWith('p5')", "a boolean"),
        ("math.ceil(ratio) > 1.0 && type(text) == string", "a boolean"),
        ("text.split(',').distinct().sort()[0]", "a string"),
        ("int(text) + size(links) + text.size()", "an integer"),
        ("optional.of(text).optMap(t, t + 'x').orValue('')", "a string"),
        ("links.sortBy(l, size(l)).reverse()", "a list"),
        ("container.resources.limits['a/b']", "an integer, a number or a string"),
        ("ratio == 1 || ratio > 2", "a boolean"),
        ("[1, 'a', null]", "a list"),
        ("anything.at.all[3] + 1", "any value"),
    ] {
        assert_eq!(findings(source), [], "{source}");
        assert_eq!(infer(source).0.to_string(), expected, "{source}");
    }
}

#[test]
fn an_operation_that_no_value_makes_right_is_an_error_at_its_place() {
    for (source, part, says) in [
        (
            "pod.spec.contaners == []",
            "pod.spec.contaners",
            "no PodSpec has a field `contaners`; did you mean `containers`?",
        ),
        ("has(pod.spec.hostNetwrk)", "has(pod", "did you mean `hostNetwork`?"),
        ("pod.spec.?hostname2.orValue('')", "pod.spec.?hostname2", "no PodSpec has a field `hostname2`"),
        ("pod.spec.containers.exists(c, c.imag == 'x')", "c.imag", "no Container has a field `imag`"),
        ("gpus && flag", "gpus", "`gpus` is an integer, but a boolean is needed"),
        ("!text", "text", ", but a boolean is needed"),
        ("gpus ? 1 : 2", "gpus", ", but a boolean is needed"),
        ("text.map(t, t)", "text", "this needs a list or a map"),
        ("text.name == 'x'", "text.name", "`text` is a string, which has no `name`"),
        ("gpus.orValue(3)", "gpus.orValue(3", "`orValue` is for optional values"),
        ("profiles['h200'].pairs", "profiles[", "`profiles` has no key `h200`"),
        ("profiles[text].pears", ".pears", "did you mean `pairs`?"),
    ] {
        let found = findings(source);
        let [(None, place, shown)] = found.as_slice() else { panic!("{source}: {found:?}") };
        assert_eq!(place, part, "{source}");
        assert!(shown.contains(says), "{source}: {shown}");
    }
}

#[test]
fn a_comparison_that_never_holds_is_a_warning_at_the_value() {
    for (source, code, part, says) in [
        ("flag == 'true'", UNLIKE_TYPES, "'true'", "`flag` is a boolean"),
        ("flag != 'false'", UNLIKE_TYPES, "'false'", "write `!` and `flag`"),
        ("gpus == '8'", UNLIKE_TYPES, "'8'", "write `8` without quotes"),
        ("gpus == true", UNLIKE_TYPES, "true", "never equal"),
        ("mode == 'Fail'", UNKNOWN_ENUM_VALUE, "'Fail'", "did you mean `fail`?"),
        ("mode in ['fail', 'fal']", UNKNOWN_ENUM_VALUE, "'fal'", "one of `fail`, `fallback`"),
        ("node[?'pool'].orValue('') == 'P5'", ALWAYS_FALSE, "'P5'", "write `'p5'`"),
        (
            "profiles[text].pairs == '2'",
            UNKNOWN_ENUM_VALUE,
            "'2'",
            "`profiles[…].pairs` is never `2`: it is one of `1`, `4`",
        ),
        ("profiles[text].?pear.orValue('') == ''", UNKNOWN_TABLE_KEY, ".?pear", "never has the key `pear`"),
    ] {
        let found = findings(source);
        let [(Some(seen), place, shown)] = found.as_slice() else { panic!("{source}: {found:?}") };
        assert_eq!((*seen, place.as_str()), (code, part), "{source}");
        assert!(shown.contains(says), "{source}: {shown}");
    }
}

#[test]
fn a_deep_expression_and_nested_loops_come_to_an_end() {
    let nested = |depth: usize| (0..depth).fold("1".to_owned(), |body, at| format!("[1].map(x{at}, {body})"));
    for source in ["1+".repeat(99) + "1", format!("pod{}", ".a".repeat(99)), nested(30)] {
        assert!(infer(&source).1.len() <= 1, "{source}");
    }
}
