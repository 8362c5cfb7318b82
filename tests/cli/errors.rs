//! Bad input: what is said of it, and that it does not hide what is good.

use super::{POD, SETTINGS, SMALL, folder, mutate, run_in, small};

#[test]
fn a_missing_file_is_named_and_the_others_are_served() {
    let folder = folder(&[("a.yaml", POD)]);
    let args = ["mutate", "--policy", SMALL, "-q", "-o", "json", "-f", "nowhere.yaml", "-f", "a.yaml"];
    let run = run_in(folder.path(), &args, "").exits(2);
    run.says(&["nowhere.yaml"]);
    assert_eq!(run.values().len(), 1);
}

#[test]
fn an_error_names_file_document_line_and_column() {
    let folder = folder(&[("bad.yaml", "---\nkind: A\n---\nkind: B\nmetadata: {name: b\nspec: 1\n")]);
    let run = run_in(folder.path(), &["mutate", "--policy", SMALL, "-f", "bad.yaml"], "").exits(2);
    run.says(&["bad.yaml", "document 2", "line ", "column "]);
    assert_eq!(run.text(), "---\nkind: A\n");
}

#[test]
fn the_line_of_an_error_counts_from_the_beginning_of_the_file() {
    let run = small(&[], "---\nkind: A\n---\n# b\nkind: B\nspec: 'a' b\n").exits(2);
    run.says(&["stdin", "document 2", "line 6", "column "]);
    let run = small(&[], "{\n\"kind\": \"A\"\n}\n{\n\"kind\": ]\n}\n").exits(2);
    run.says(&["stdin", "document 2", "line 5", "column 9"]);
}

#[test]
fn a_bracket_that_ends_others_is_named_at_its_place() {
    let run = small(&[], "kind: A\nspec: [\n{a: {b: 1]}\n]\n").exits(2);
    run.says(&["line 3, column 10", "`]` does not close the brackets", "begin on line 2"]);
}

#[test]
fn one_bad_document_does_not_hide_the_others() {
    let stream = format!("---\n{SETTINGS}---\na: [\n---\n{POD}---\nb: }}\n---\n{SETTINGS}");
    let run = mutate(&["--policy", SMALL], &stream).exits(2);
    run.says(&["document 2", "document 3", "document 4"]);
    let kinds: Vec<_> = run.documents().iter().map(|document| document["kind"].clone()).collect();
    assert_eq!(kinds, ["ConfigMap", "Pod", "ConfigMap"]);
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let folder = folder(&[("a.yaml", "a: ["), ("b.yaml", POD), ("c.json", "{\"kind\":"), ("d.yaml", POD)]);
    let run =
        run_in(folder.path(), &["mutate", "--policy", SMALL, "-q", "-f", ".", "-o", "json"], "").exits(2);
    run.says(&["a.yaml", "c.json"]);
    assert_eq!(run.values().len(), 2);
}

#[test]
fn text_that_is_not_utf_8_is_an_error_with_its_place() {
    let run = small(&[], b"---\nkind: A\n---\nkind: B\nname: \xe4\n").exits(2);
    run.says(&["document 2", "line 5", "column 7", "UTF-8"]);
    assert_eq!(run.text(), "---\nkind: A\n");
}

#[test]
fn a_nul_byte_is_an_error_with_its_place() {
    let run = small(&[], "kind: A\nname: \"b\0\"\n").exits(2);
    run.writes_nothing().says(&["document 1", "line 2", "column 9", "U+0000"]);
}

#[test]
fn a_repeated_key_in_a_document_that_does_not_change_is_passed_on() {
    for text in ["kind: A\nname: b\nname: c\n", "{\"kind\":\"A\",\"kind\":\"B\"}\n"] {
        assert_eq!(small(&[], text).exits(0).text(), text);
    }
    let untriggered =
        POD.replace(super::TRIGGER, "example.com/other").replace("kind: Pod", "kind: Pod\nkind: Pod");
    assert_eq!(small(&[], &untriggered).exits(0).text(), untriggered);
}

#[test]
fn a_repeated_key_in_a_document_that_is_to_change_is_an_error() {
    let pod = POD.replace("  name: trainer\n", "  name: trainer\n  name: other\n");
    let run = small(&[], format!("---\n{SETTINGS}---\n{pod}---\n{POD}")).exits(2);
    run.says(&["document 2", "`name`", "line 12", "column 3"]);
    assert_eq!(run.documents().len(), 2);
}

#[test]
fn a_repeated_key_deep_inside_of_a_document_that_is_to_change_is_an_error() {
    let pod =
        POD.replace("        nvidia.com/gpu: 8\n", "        nvidia.com/gpu: 8\n        nvidia.com/gpu: 4\n");
    small(&[], &pod).exits(2).writes_nothing().says(&["`nvidia.com/gpu`", "line 14"]);
}

#[test]
fn a_repeated_key_in_json_that_is_to_change_is_an_error() {
    let pod = super::documents(POD)[0]
        .to_string()
        .replace("\"name\":\"main\"", "\"name\":\"main\",\"name\":\"other\"");
    for text in [pod.clone(), serde_json_pretty(&pod)] {
        small(&[], &text).exits(2).writes_nothing().says(&["document 1", "`name`", "line ", "column "]);
    }
}

/// The text on several lines, without a parser that would lose the repeated key.
fn serde_json_pretty(text: &str) -> String {
    text.replace(",\"", ",\n\"")
}

#[test]
fn a_pod_that_is_no_pod_is_bad_input_and_its_place_is_named() {
    for (bad, path) in [
        (
            POD.replace("    resources:\n      limits:\n        nvidia.com/gpu: 8\n", "  - 5\n"),
            "containers[1]",
        ),
        (POD.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: eight"), "nvidia.com/gpu"),
    ] {
        let run = mutate(&["--policy", SMALL, "-o", "json"], format!("---\n{bad}---\n{POD}")).exits(2);
        run.says(&["document 1", path]);
        assert!(run.values().iter().any(|pod| super::limits(pod)["vpc.amazonaws.com/efa"] == "8"));
    }
}
