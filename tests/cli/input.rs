//! Where manifests come from, and the forms that they have.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{POD, SETTINGS, SMALL, TRIGGER, aws, documents, file, folder, limits, mutate, run_in, small};

/// The kinds of what came out.
fn kinds(documents: &[Value]) -> Vec<&str> {
    documents.iter().map(|document| document["kind"].as_str().unwrap_or("none")).collect()
}

/// The pod as JSON on one line.
fn json_pod() -> String {
    documents(POD)[0].to_string()
}

#[test]
fn standard_input_is_the_default() {
    assert_eq!(small(&[], POD).exits(0).text(), small(&["-f", "-"], POD).exits(0).text());
    assert_snapshot!(mutate(&["--policy", SMALL], POD).exits(0).said(), @"
    stdin: document 1: Pod/trainer: mutated by small@<digest>
      + main: vpc.amazonaws.com/efa 8, env FI_PROVIDER, mount /dev/shm, capability IPC_LOCK
      + pod: volume nv-shared-memory, annotation fabric-injector.io/injected
    ");
}

#[test]
fn a_file_comes_out_as_its_text_from_standard_input_would() {
    let path = "tests/workloads/torchrun-job.yaml";
    assert_eq!(small(&["-f", path], "").exits(0).text(), small(&[], file(path)).exits(0).text());
}

#[test]
fn several_files_and_standard_input_come_out_in_the_order_given() {
    let folder = folder(&[("a.yaml", &format!("---\n{SETTINGS}")), ("b.yaml", &format!("---\n{POD}"))]);
    let args = ["mutate", "--policy", SMALL, "-q", "-f", "b.yaml", "-f", "-", "-f", "a.yaml"];
    let run = run_in(folder.path(), &args, "---\nkind: Piped\n").exits(0);
    assert_eq!(kinds(&run.documents()), ["Pod", "Piped", "ConfigMap"]);
}

#[test]
fn the_line_of_brackets_without_an_end_is_that_of_the_file() {
    assert_snapshot!(small(&[], format!("{POD}---\nkind: A\na: [\n  1\n")).exits(2).said(), @"error: stdin: document 2: line 18, column 1: not valid YAML: while parsing a flow sequence, expected ',' or ']', within the brackets that begin on line 16");
}

#[test]
fn a_document_that_kubectl_does_not_read_is_an_error() {
    assert_snapshot!(small(&[], format!("kind: A\n...\n{POD}")).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 3, column 1: found a second document
    ");
}

#[test]
fn files_without_a_marker_line_stay_documents_of_their_own() {
    let folder =
        folder(&[("a.yaml", "kind: A\n"), ("b.yaml", "kind: B"), ("c.yaml", POD), ("d.yaml", "kind: D\n")]);
    for format in [&[][..], &["-o", "yaml"]] {
        let args = ["mutate", "--policy", SMALL, "-q", "-f", "a.yaml", "-f", "b.yaml", "-f", "c.yaml"];
        let run = run_in(folder.path(), &[&args[..], &["-f", "d.yaml"], format].concat(), "").exits(0);
        assert_eq!(kinds(&run.documents()), ["A", "B", "Pod", "D"], "{}", run.text());
    }
}

#[test]
fn a_folder_gives_its_manifests_by_name_and_nothing_else() {
    let folder = folder(&[
        ("c.yml", "---\nkind: C\n"),
        ("a.yaml", "---\nkind: A\n"),
        ("b.json", &json_pod()),
        ("notes.txt", "a: [\n"),
    ]);
    fs::create_dir(folder.path().join("sub.yaml")).unwrap();
    let run =
        run_in(folder.path(), &["mutate", "--policy", SMALL, "-q", "-f", ".", "-o", "json"], "").exits(0);
    assert_eq!(kinds(&run.values()), ["A", "Pod", "C"]);
}

#[test]
fn the_manifests_of_a_folder_stay_documents_of_their_own() {
    let folder = folder(&[("a.yaml", "kind: A"), ("b.yaml", "kind: B\n"), ("c.yaml", "kind: C\n")]);
    let run = run_in(folder.path(), &["mutate", "--policy", SMALL, "-f", "."], "").exits(0);
    assert_eq!(kinds(&run.documents()), ["A", "B", "C"], "{}", run.text());
}

#[test]
fn a_folder_without_manifests_is_bad_input() {
    let folder = folder(&[("notes.txt", "")]);
    let path = folder.path().to_str().unwrap();
    small(&["-f", path], "").exits(2).writes_nothing().says(&[path]);
}

#[test]
fn json_goes_in_and_comes_out() {
    let run = small(&[], json_pod()).exits(0);
    assert_eq!(limits(&run.values()[0])["vpc.amazonaws.com/efa"], "8");
    let pretty = serde_json::to_string_pretty(&documents(POD)[0]).unwrap();
    assert_eq!(small(&[], pretty).exits(0).values(), run.values());
    assert_eq!(small(&["-o", "json"], POD).exits(0).values(), run.values());
}

#[test]
fn json_values_may_follow_one_another_and_stand_among_yaml_documents() {
    let stream = format!("{{\"kind\":\"A\"}}{{\"kind\":\"B\"}}\n---\n{POD}---\n{}\n", json_pod());
    let run = small(&["-o", "json"], &stream).exits(0);
    assert_eq!(kinds(&run.values()), ["A", "B", "Pod", "Pod"]);
    assert_eq!(run.values()[2], run.values()[3]);
}

#[test]
fn any_number_of_json_values_may_stand_on_one_line() {
    let text = r#"{"kind":"A"}{"kind":"B"} {"kind":"C"}{"kind":"D"}"#;
    let run = small(&["-o", "json"], text).exits(0);
    assert_eq!(kinds(&run.values()), ["A", "B", "C", "D"]);
}

#[test]
fn a_document_may_begin_on_its_marker_line() {
    let pod = documents(POD)[0].to_string();
    let stream = format!("--- {{kind: A}}\n--- {pod}\n--- # b\nkind: B\n");
    let run = small(&[], &stream).exits(0);
    assert_eq!(kinds(&run.documents()), ["A", "Pod", "B"], "{}", run.text());
    assert!(
        run.text().starts_with("--- {kind: A}\n") && run.text().ends_with("--- # b\nkind: B\n"),
        "{}",
        run.text()
    );
}

#[test]
fn json_values_on_one_line_become_yaml_documents() {
    let run = small(&["-o", "yaml"], r#"{"kind":"A"}{"kind":"B"}"#).exits(0);
    assert_eq!(kinds(&run.documents()), ["A", "B"], "{}", run.text());
}

#[test]
fn a_brace_in_a_quoted_scalar_or_comment_does_not_end_a_flow_mapping() {
    for text in ["{kind: 'a}', b: 1}\n", "{kind: a, # }\n b: 1}\n", "{kind: \"}\", b: '{'}\n"] {
        assert_eq!(small(&[], text).exits(0).text(), text);
    }
}

#[test]
fn empty_and_comment_only_documents_are_passed_on() {
    let stream = format!("---\n---\n# nothing\n---\n\n---\n{SETTINGS}---\n# the end\n");
    assert_eq!(small(&[], &stream).exits(0).text(), stream);
}

#[test]
fn empty_and_comment_only_documents_are_no_json_values() {
    let stream = format!("---\n---\n# nothing\n---\n\n---\n{SETTINGS}---\n# the end\n");
    assert_eq!(kinds(&small(&["-o", "json"], &stream).exits(0).values()), ["ConfigMap"]);
}

#[test]
fn a_directive_belongs_to_the_document_after_it() {
    let stream = format!("%YAML 1.1\n---\n{POD}...\n---\n{SETTINGS}");
    assert_eq!(kinds(&small(&["-o", "json"], &stream).exits(0).values()), ["Pod", "ConfigMap"]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_manifest() {
    let run = small(&["-o", "json"], format!("\u{feff}{POD}")).exits(0);
    assert_eq!(run.values(), small(&["-o", "json"], POD).exits(0).values());
}

#[test]
fn the_items_of_a_list_are_served_each_for_itself() {
    let run =
        mutate(&["--policy", "aws-efa", "--report", "json", "-f", "tests/workloads/list.yaml"], "").exits(0);
    let outcomes: Vec<_> =
        run.reports().iter().map(|report| (report["path"].clone(), report["outcome"].clone())).collect();
    assert_eq!(
        outcomes,
        [(json!("/items/1"), json!("mutated")), (json!("/items/2/spec/template"), json!("unchanged"))]
    );
    let (before, after) = (&documents(&file("tests/workloads/list.yaml"))[0], &run.documents()[0]);
    assert_eq!((&before["items"][0], &before["items"][2]), (&after["items"][0], &after["items"][2]));
    assert_eq!(limits(&after["items"][1])["vpc.amazonaws.com/efa"], "32");
}

#[test]
fn the_pod_of_an_admission_review_is_served_in_its_place() {
    let run = aws(&["-f", "tests/workloads/admission-review.json"], "").exits(0);
    let review = &run.values()[0];
    assert_eq!(review["kind"], "AdmissionReview");
    assert_eq!(limits(&review["request"]["object"])["vpc.amazonaws.com/efa"], "32");
}

#[test]
fn templates_are_found_in_kinds_that_nobody_has_heard_of() {
    let pod = &documents(POD)[0];
    let workload = json!({"apiVersion": "example.io/v1", "kind": "Unheard", "metadata": {"name": "u"},
        "spec": {"groups": [{"a/b": {"metadata": pod["metadata"], "spec": pod["spec"]}}]}});
    let run = mutate(&["--policy", SMALL, "--report", "json"], workload.to_string()).exits(0);
    assert_eq!(run.reports()[0]["path"], "/spec/groups/0/a~1b");
    assert_eq!(limits(&run.values()[0]["spec"]["groups"][0]["a/b"])["vpc.amazonaws.com/efa"], "8");
}

#[test]
fn the_trigger_on_the_workload_itself_is_not_the_templates() {
    let pod = &documents(POD)[0];
    let job = |on_job: &Value, on_template: &Value| {
        let spec = json!({"template": {"metadata": {"annotations": on_template}, "spec": pod["spec"]}});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"annotations": on_job}, "spec": spec})
            .to_string()
    };
    let (with, without) = (json!({TRIGGER: "true"}), json!({"team": "a"}));
    let left_alone = job(&with, &without);
    assert_eq!(small(&[], &left_alone).exits(0).text(), left_alone);
    let served = job(&without, &with);
    assert_ne!(small(&[], &served).exits(0).text(), served);
}

#[test]
fn what_only_looks_like_a_template_is_left_alone() {
    let schema = "kind: CustomResourceDefinition\nspec:\n  schema:\n    spec: {containers: {type: array}}\n";
    assert_eq!(mutate(&["--policy", SMALL], schema).exits(0).text(), schema);
    for text in ["5\n", "[1, spec, null]\n", "just text\n", "spec: {containers: []}\n"] {
        assert_eq!(small(&[], text).exits(0).text(), text);
    }
}

#[test]
fn a_template_of_a_chart_is_told_from_a_manifest() {
    let template = "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n";
    assert_snapshot!(small(&[], template).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 3, column 10: the key of a map must be a string
    hint: `{{ … }}` is not YAML; render a chart first: `helm template . | fabric-injector mutate -f -`
    ");
    let run = small(&[], "a: [\n").exits(2);
    assert!(!run.stderr.contains("helm"), "{}", run.stderr);
}

#[test]
fn input_without_a_document_is_reported_and_no_error() {
    for text in ["", "\n", "# only a comment", "---\n", "---\n---\n"] {
        let run = mutate(&["--policy", "aws-efa"], text).exits(0);
        assert_eq!((run.text(), run.stderr.as_str()), (text, "stdin has no document (no_document)\n"));
        let run = mutate(&["--policy", "aws-efa", "--report", "json"], text).exits(0);
        let report = json!({
            "outcome": "warning", "file": "stdin", "document": null, "code": "no_document",
            "message": "has no document",
        });
        assert_eq!(run.reports(), [report], "{text:?}");
        let run = super::run(&["lint", "--policy", "aws-efa"], text).exits(0);
        assert_eq!(run.stderr, "stdin has no document\n0 errors and 0 warnings\n", "{text:?}");
        let folder = folder(&[("empty.yaml", text), ("pod.yaml", POD)]);
        let args = ["mutate", "--policy", "aws-efa", "-f", ".", "--in-place"];
        let run = run_in(folder.path(), &args, "").exits(0);
        assert_eq!(run.stderr.matches("no_document").count(), 1, "{}", run.stderr);
        assert!(run.stderr.starts_with("./empty.yaml has no document"), "{}", run.stderr);
        let run = run_in(folder.path(), &["lint", "--policy", "aws-efa", "-f", "."], "").exits(0);
        assert!(run.stderr.starts_with("./empty.yaml has no document\n"), "{}", run.stderr);
    }
    for text in [POD, SETTINGS, "{}"] {
        assert!(!mutate(&["--policy", "aws-efa"], text).exits(0).stderr.contains("no_document"), "{text}");
    }
}
