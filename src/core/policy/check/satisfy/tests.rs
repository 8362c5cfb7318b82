use serde_json::{Value, json};

use super::*;
use crate::core::policy::expression::{Bindings, Expression, Meanings};

/// Names with all the values that they are tried with.
struct Names(Vec<(&'static str, Type, Vec<Value>)>);

impl Names {
    fn new() -> Self {
        let texts = ["a", "ab", "ac", "b", ""].map(Value::from).to_vec();
        Self(vec![
            ("count", Type::count(), (0..7).map(Value::from).collect()),
            ("ratio", Type::double(), [0.5, 1.0, 2.0, 2.5, 2.75, 3.0, 4.0].map(Value::from).to_vec()),
            ("name", Type::string(), texts),
            ("flag", Type::bool(None), vec![json!(true), json!(false)]),
        ])
    }

    /// Calls `visit` with each combination of values.
    fn each(&self, visit: &mut dyn FnMut(&Bindings<'_, '_>)) {
        let all: usize = self.0.iter().map(|(_, _, values)| values.len()).product();
        for mut at in 0..all {
            let mut bindings = Bindings::new();
            for (name, _, values) in &self.0 {
                let value = &values[at % values.len()];
                match (*name, value.as_f64()) {
                    ("ratio", Some(number)) => bindings.set_double(name, number),
                    _ => bindings.set(name, value),
                }
                at /= values.len();
            }
            visit(&bindings);
        }
    }
}

impl Meanings for Names {
    fn type_of(&self, name: &str) -> Type {
        self.0.iter().find(|(known, _, _)| *known == name).map_or(Type::Dyn, |(_, known, _)| known.clone())
    }

    fn definition(&self, _name: &str) -> Option<&Expression> {
        None
    }
}

const TESTS: &[&str] = &[
    "count > 2",
    "count >= 3",
    "count < 4",
    "5 <= count",
    "count == 3",
    "count != 0",
    "count in [1, 2]",
    "ratio > 1.0",
    "ratio <= 2.5",
    "!(ratio >= 3.0)",
    "name == 'a'",
    "name != 'ab'",
    "name in ['a', 'b']",
    "name.startsWith('a')",
    "!name.startsWith('ab')",
    "flag",
    "!flag",
    "flag == false",
    "(flag ? count > 4 : name == 'b')",
];

/// The next of a fixed sequence of numbers without a pattern.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap()
}

fn condition(state: &mut u64, depth: usize) -> String {
    if depth == 0 || next(state).is_multiple_of(4) {
        return TESTS[next(state) % TESTS.len()].to_owned();
    }
    let (left, right) = (condition(state, depth - 1), condition(state, depth - 1));
    match next(state) % 5 {
        0 => format!("!({left} && {right})"),
        1 | 2 => format!("({left} || {right})"),
        _ => format!("({left} && {right})"),
    }
}

#[test]
fn what_is_a_contradiction_holds_for_no_value_and_what_surely_meets_holds_for_one() {
    let names = Names::new();
    let mut state = 7;
    let (mut contradictions, mut meetings) = (0, 0);
    for _ in 0..600 {
        let (one, other) = (condition(&mut state, 2), condition(&mut state, 2));
        let [first, second] = [&one, &other].map(|source| Expression::compile(source).unwrap());
        let formulas = [first.formula(&names), second.formula(&names)];
        let mut holds = 0;
        names.each(&mut |bindings| {
            let both = [&first, &second].map(|expression| expression.evaluate(bindings) == Ok(json!(true)));
            holds += usize::from(both == [true, true]);
        });
        if contradiction(&[&formulas[0], &formulas[1]]).is_some() {
            assert_eq!(holds, 0, "`{one}` and `{other}` hold together");
            contradictions += 1;
        }
        let depends = |one: &Test, other: &Test| !one.roots.is_disjoint(&other.roots);
        if surely_meet(&formulas[0], &formulas[1], &depends) {
            assert!(holds > 0, "`{one}` and `{other}` never hold together");
            meetings += 1;
        }
    }
    assert!(contradictions > 20 && meetings > 200, "{contradictions} {meetings}");
}

#[test]
fn a_contradiction_names_the_tests_that_make_it() {
    let names = Names::new();
    let found = |source: &str| {
        let formula = Expression::compile(source).unwrap().formula(&names);
        match contradiction(&[&formula]) {
            None => "none".to_owned(),
            Some(Contradiction::One(test)) => test.shown(),
            Some(Contradiction::Pair(one, other)) => format!("{} / {}", one.shown(), other.shown()),
            Some(Contradiction::Other) => "other".to_owned(),
        }
    };
    assert_eq!(found("flag && count > 4 && name == 'a' && count < 2"), "count > 4 / count < 2");
    assert_eq!(found("flag && !flag"), "flag / !flag");
    assert_eq!(found("count < 0 && flag"), "count < 0");
    assert_eq!(found("(count > 4 || count > 5) && count < 2"), "other");
    assert_eq!(found("count > 4 && count < 6"), "none");
    assert_eq!(found("count > 4 && count < 7 && count != 5"), "none");
    assert_eq!(found("count > 4 && count < 6 && count != 5"), "other");
}
