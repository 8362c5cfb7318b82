use serde_json::json;

use super::*;

#[test]
fn a_change_within_an_addition_is_not_an_operation_of_its_own() {
    let mut log = ChangeLog::default();
    let change = |log: &mut ChangeLog, path: &[&str]| {
        for token in path {
            log.enter(*token);
        }
        log.changed(None, true);
    };
    log.go_to_pod();
    change(&mut log, &["spec", "volumes"]);
    log.go_to_pod();
    change(&mut log, &["spec", "volumes", "0"]);
    log.go_to_pod();
    change(&mut log, &["spec", "volumesX"]);
    log.go_to_container("containers", 1);
    log.enter("env");
    log.at(2, ChangeLog::appended);
    log.go_to_container("containers", 1);
    change(&mut log, &["env", "2", "value"]);
    log.go_to_container("containers", 1);
    change(&mut log, &["env", "1", "value"]);
    let (changes, _) = log.finish();
    let pointers: Vec<&str> = changes.iter().map(|(pointer, _)| pointer.as_str()).collect();
    let container = "/spec/containers/1/env";
    assert_eq!(
        pointers,
        ["/spec/volumes", "/spec/volumesX", &format!("{container}/2"), &format!("{container}/1/value")]
    );
}

#[test]
fn undo_restores_the_pod_byte_for_byte() {
    let before = json!({"a": {"x/y": 1, "z": null}, "l": [1]});
    let mut pod = before.clone();
    let mut log = ChangeLog::default();
    let at = |log: &mut ChangeLog, path: &[&str], before: Option<Value>| {
        log.go_to_pod();
        for token in path {
            log.enter(*token);
        }
        log.changed(before, true);
    };
    pod["l"].as_array_mut().unwrap().push(json!(2));
    at(&mut log, &["l", "1"], None);
    pod["a"]["q"] = json!({"r": 1});
    at(&mut log, &["a", "q"], None);
    let replaced = std::mem::replace(&mut pod["a"]["x/y"], json!(5));
    at(&mut log, &["a", "x/y"], Some(replaced));
    let replaced = std::mem::replace(&mut pod["a"]["z"], json!({}));
    at(&mut log, &["a", "z"], Some(replaced));
    log.undo(&mut pod);
    assert_eq!(pod.to_string(), before.to_string());
}
