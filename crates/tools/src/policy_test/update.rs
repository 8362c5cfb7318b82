//! Rewrites the expected codes, patches and objects of cases, and nothing else in their file.

use serde_json::{Map, Value, json};

use fabric_engine::Reason;
use fabric_yaml::{self as yaml, Edited};

use super::case::CaseFile;
use super::expectation::Expectation;
use super::run::{Actual, CaseResult};

/// The text of a file with the expectations that its cases declare as `results` has them, one for each case. `None` if
/// nothing changes.
pub fn updated(file: &CaseFile, results: &[Option<&CaseResult>]) -> Option<Edited> {
    let mut root = yaml::read_value(&file.text).ok()?.root?;
    for (at, (case, result)) in file.cases.iter().zip(results).enumerate() {
        let Some(result) = result.filter(|result| !result.differences.is_empty()) else { continue };
        let expect = &mut root["cases"][at]["expect"];
        for (at, (expectation, actual)) in case.expectations.iter().zip(&result.actual).enumerate() {
            let written = if expect.is_array() { &mut expect[at] } else { &mut *expect };
            if let (Some(actual), Some(written)) = (actual, written.as_object_mut()) {
                update(written, expectation, actual);
            }
        }
    }
    Some(yaml::edit(&file.text, &root)).filter(|edited| edited.text != file.text)
}

fn update(written: &mut Map<String, Value>, expectation: &Expectation, actual: &Actual) {
    let mut put = |key: &str, value: Value| {
        written.insert(key.to_owned(), value);
    };
    if expectation.outcome.is_some() {
        put("outcome", actual.outcome.into());
    }
    if expectation.warning_codes().is_some_and(|codes| codes != actual.warnings) {
        put("warnings", json!(actual.warnings));
    }
    if expectation.patch.is_some() {
        put("patch", actual.patch.clone());
    }
    if let (Some(_), Some(pod)) = (&expectation.object, &actual.pod) {
        put("object", pod.clone());
    }
    match actual.reason.as_ref().map(Reason::code) {
        Some(code) if expectation.reason.is_some() => put("reason", code.into()),
        Some(_) => {}
        None => _ = written.shift_remove("reason"),
    }
}
