//! Bad input: what is said of it, and that it does not hide what is good.

use insta::assert_snapshot;

use super::{POD, SETTINGS, SMALL, folder, mutate, run_in, small};

#[test]
fn a_missing_file_is_named_and_the_others_are_served() {
    let folder = folder(&[("a.yaml", POD)]);
    let args = ["mutate", "--policy", SMALL, "-q", "-o", "json", "-f", "nowhere.yaml", "-f", "a.yaml"];
    let run = run_in(folder.path(), &args, "");
    assert_snapshot!(run.said(), @"error: nowhere.yaml cannot be read: No such file or directory (os error 2)");
    assert_eq!(run.exits(2).values().len(), 1);
}

#[test]
fn an_error_names_file_document_line_and_column() {
    let folder = folder(&[("bad.yaml", "---\nkind: A\n---\nkind: B\nmetadata: {name: b\nspec: 1\n")]);
    let run = run_in(folder.path(), &["mutate", "--policy", SMALL, "-f", "bad.yaml"], "");
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stdout -----
    ---
    kind: A
    ----- stderr -----
    error: bad.yaml: document 2: line 6, column 5: not valid YAML: while parsing a flow mapping, did not find expected ',' or '}', within the brackets that begin on line 5
    ");
}

#[test]
fn the_line_of_an_error_counts_from_the_beginning_of_the_file() {
    assert_snapshot!(small(&[], "---\nkind: A\n---\n# b\nkind: B\nspec: 'a' b\n").recorded(), @"
    exit status: 2
    ----- stdout -----
    ---
    kind: A
    ----- stderr -----
    error: stdin: document 2: line 6, column 11: not valid YAML: invalid trailing content after quoted scalar
    ");
    assert_snapshot!(small(&[], "{\n\"kind\": \"A\"\n}\n{\n\"kind\": ]\n}\n").recorded(), @r#"
    exit status: 2
    ----- stdout -----
    {
    "kind": "A"
    }
    ----- stderr -----
    error: stdin: document 2: line 5, column 9: not valid YAML: `]` does not close the brackets that are open, within the brackets that begin on line 4
    "#);
}

#[test]
fn a_bracket_that_ends_others_is_named_at_its_place() {
    assert_snapshot!(small(&[], "kind: A\nspec: [\n{a: {b: 1]}\n]\n").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 3, column 10: not valid YAML: `]` does not close the brackets that are open, within the brackets that begin on line 2
    ");
}

#[test]
fn one_bad_document_does_not_hide_the_others() {
    let stream = format!("---\n{SETTINGS}---\na: [\n---\n{POD}---\nb: }}\n---\n{SETTINGS}");
    let run = mutate(&["--policy", SMALL], &stream).exits(2);
    assert_snapshot!(run.said(), @"
    error: stdin: document 2: line 9, column 1: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 8
    stdin: document 3: Pod/trainer: mutated by small@<digest>
      + main: vpc.amazonaws.com/efa 8, env FI_PROVIDER, mount /dev/shm, capability IPC_LOCK
      + pod: volume nv-shared-memory, annotation fabric-injector.io/injected
    error: stdin: document 4: line 24, column 4: not valid YAML: misplaced bracket
    ");
    let kinds: Vec<_> = run.documents().iter().map(|document| document["kind"].clone()).collect();
    assert_eq!(kinds, ["ConfigMap", "Pod", "ConfigMap"]);
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let folder = folder(&[("a.yaml", "a: ["), ("b.yaml", POD), ("c.json", "{\"kind\":"), ("d.yaml", POD)]);
    let run =
        run_in(folder.path(), &["mutate", "--policy", SMALL, "-q", "-f", ".", "-o", "json"], "").exits(2);
    assert_snapshot!(run.said(), @"
    error: ./a.yaml: document 1: line 1, column 5: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 1
    error: ./c.json: document 1: line 1, column 9: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 1
    ");
    assert_eq!(run.values().len(), 2);
}

#[test]
fn text_that_is_not_utf_8_is_an_error_with_its_place() {
    let run = small(&[], b"---\nkind: A\n---\nkind: B\nname: \xe4\n");
    assert_snapshot!(run.recorded(), @"
    exit status: 2
    ----- stdout -----
    ---
    kind: A
    ----- stderr -----
    error: stdin: document 2: line 5, column 7: the document is not UTF-8 text
    ");
}

#[test]
fn a_nul_byte_is_an_error_with_its_place() {
    assert_snapshot!(small(&[], "kind: A\nname: \"b\0\"\n").recorded(), @r"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 9: found the control character U+0000, which YAML does not allow; write it as `\u0000` in double quotes
    ");
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
    assert_snapshot!(run.said(), @"error: stdin: document 2: line 12, column 3: the key `name` appears twice in one map, and one of the two values would be lost");
    assert_eq!(run.documents().len(), 2);
}

#[test]
fn a_repeated_key_deep_inside_of_a_document_that_is_to_change_is_an_error() {
    let pod =
        POD.replace("        nvidia.com/gpu: 8\n", "        nvidia.com/gpu: 8\n        nvidia.com/gpu: 4\n");
    assert_snapshot!(small(&[], &pod).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 14, column 9: the key `nvidia.com/gpu` appears twice in one map, and one of the two values would be lost
    ");
}

#[test]
fn a_repeated_key_in_json_that_is_to_change_is_an_error() {
    let pod = super::documents(POD)[0]
        .to_string()
        .replace("\"name\":\"main\"", "\"name\":\"main\",\"name\":\"other\"");
    assert_snapshot!(small(&[], &pod).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 169: the key `name` appears twice in one map, and one of the two values would be lost
    ");
    assert_snapshot!(small(&[], serde_json_pretty(&pod)).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 6, column 1: the key `name` appears twice in one map, and one of the two values would be lost
    ");
}

/// The text on several lines, without a parser that would lose the repeated key.
fn serde_json_pretty(text: &str) -> String {
    text.replace(",\"", ",\n\"")
}

#[test]
fn a_pod_that_is_no_pod_is_bad_input_and_its_place_is_named() {
    let no_container = POD.replace("    resources:\n      limits:\n        nvidia.com/gpu: 8\n", "  - 5\n");
    let no_count = POD.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: eight");
    let stream = format!("{no_container}---\n{no_count}---\n{POD}");
    let run = mutate(&["--policy", SMALL, "-o", "json"], stream).exits(2);
    assert_snapshot!(run.said(), @r#"
    stdin: document 1: Pod/trainer: unchanged: `spec.containers[1]` must be a map, but is `5`; the API server will refuse the pod (malformed_pod)
    stdin: document 2: Pod/trainer: unchanged: `spec.containers[main].resources.limits[nvidia.com/gpu]` must be a whole number, but is `"eight"`; the API server will refuse the pod (malformed_pod)
    stdin: document 3: Pod/trainer: mutated by small@<digest>
      + main: vpc.amazonaws.com/efa 8, env FI_PROVIDER, mount /dev/shm, capability IPC_LOCK
      + pod: volume nv-shared-memory, annotation fabric-injector.io/injected
    "#);
    assert!(run.values().iter().any(|pod| super::limits(pod)["vpc.amazonaws.com/efa"] == "8"));
}
