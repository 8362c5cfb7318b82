//! The limits of documents in a stream: byte order marks, `...`, directives and the ends of JSON values; and what a
//! document cannot hold.

use std::fs;

use insta::assert_snapshot;

use super::{POD, SMALL, TRIGGER, documents, folder, limits, mutate, run_in, sections, small};

const MARK: &str = "\u{feff}";

/// The pod as JSON, with more keys at its end.
fn json_pod(more: &str) -> String {
    let pod = documents(POD)[0].to_string();
    format!("{}{more}}}", pod.strip_suffix('}').unwrap())
}

#[test]
fn a_byte_order_mark_can_begin_any_document() {
    let pod = json_pod("");
    for stream in [
        format!("{MARK}{POD}---\n{MARK}{POD}{MARK}---\n{POD}"),
        format!("{MARK}{pod}\n{MARK}{pod}{MARK}{pod}\n"),
        format!("---\n{MARK}# c\n{POD}...\n---\n{POD}---\n{MARK}{pod}"),
    ] {
        let run = small(&["-o", "json"], &stream).exits(0);
        assert!(!run.text().contains(MARK), "{}", run.text());
        let devices: Vec<_> =
            run.values().iter().map(|pod| limits(pod)["vpc.amazonaws.com/efa"].clone()).collect();
        assert_eq!(devices, ["8", "8", "8"], "{stream}");
        let folder = folder(&[("pods.yaml", &stream)]);
        run_in(folder.path(), &["mutate", "--policy", SMALL, "-q", "-i", "-f", "pods.yaml"], "").exits(0);
        let edited = fs::read_to_string(folder.path().join("pods.yaml")).unwrap();
        assert_eq!(edited.matches(MARK).count(), stream.matches(MARK).count(), "{edited}");
        assert_eq!(edited.starts_with(MARK), stream.starts_with(MARK));
        assert_eq!(small(&["-o", "json"], &edited).exits(0).values(), run.values());
    }
}

#[test]
fn json_output_has_no_byte_order_mark() {
    for text in ["{\"kind\": \"A\"}\n", "---\n{\"kind\": \"A\"}\n"] {
        let marked = text.replace('{', &format!("{MARK}{{"));
        assert_eq!(small(&["-o", "json"], marked).exits(0).text(), "{\"kind\": \"A\"}\n");
    }
}

#[test]
fn a_byte_order_mark_is_at_the_beginning_of_the_output_only() {
    let folder =
        folder(&[("a.yaml", &format!("{MARK}kind: A\n")), ("b.yaml", &format!("{MARK}---\nkind: B\n"))]);
    let args = ["mutate", "--policy", SMALL, "-f", "a.yaml", "-f", "b.yaml", "-f", "a.yaml"];
    let run = run_in(folder.path(), &args, "").exits(0);
    assert_eq!(run.text(), format!("{MARK}kind: A\n---\nkind: B\n---\nkind: A\n"));
}

#[test]
fn an_error_after_a_byte_order_mark_is_at_its_line() {
    assert_snapshot!(small(&[], format!("kind: A\n---\n{MARK}# c\nkind: [\n")).exits(2).said(), @"error: stdin: document 2: line 5, column 1: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 4");
    let json = format!("{MARK}{{\"a\": 1}}\n{MARK}{{\"b\": 1}} x\n");
    assert_snapshot!(small(&[], json).exits(2).said(), @"error: stdin: document 3: line 2, column 10: a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow");
}

#[test]
fn directives_belong_to_the_document_after_the_end_of_another() {
    let stream =
        format!("{POD}...\n# c\n%TAG ! tag:yaml.org,2002:\n---\na: !str 8\n...\n%YAML 1.2\n---\n{POD}");
    let run = small(&["-o", "json"], &stream).exits(0);
    assert_eq!(run.values()[1]["a"], "8");
    assert_eq!(limits(&run.values()[2])["vpc.amazonaws.com/efa"], "8");
    let text = small(&[], &stream).exits(0).text().to_owned();
    assert!(
        text.contains("...\n# c\n%TAG ! tag:yaml.org,2002:\n---\na: !str 8\n...\n%YAML 1.2\n---\n"),
        "{text}"
    );
    assert_eq!(small(&["-o", "json"], &text).exits(0).values(), run.values());
}

#[test]
fn a_document_ends_before_the_directives_of_the_next_file() {
    let files =
        [("a.yaml", "kind: A"), ("b.yaml", "%YAML 1.2\n---\nkind: B\n"), ("c.json", "{\"kind\": \"C\"}\n")];
    let folder = folder(&files);
    let args = ["mutate", "--policy", SMALL, "-f", "a.yaml", "-f", "b.yaml", "-f", "c.json", "-f", "b.yaml"];
    let run = run_in(folder.path(), &args, "").exits(0);
    let expected =
        "kind: A\n...\n%YAML 1.2\n---\nkind: B\n---\n{\"kind\": \"C\"}\n...\n%YAML 1.2\n---\nkind: B\n";
    assert_eq!(run.text(), expected);
}

#[test]
fn text_after_a_json_value_is_an_error_at_its_line() {
    let pod = json_pod("");
    let rests = ["/* x */\n", ",\n", "\n\n  // x\n", "# c\n}\n", "\nkind: B\n", "\n[1]\n"];
    let answers = rests.map(|rest| {
        let text = format!("{pod}{rest}");
        let run = small(&[], &text).exits(2);
        // A diff of the value before it still applies.
        let diff = small(&["-o", "diff"], &text).exits(2);
        let first = text.split_inclusive('\n').next().unwrap();
        assert!(diff.text().contains(&format!("\n-{first}+")), "{}", diff.text());
        let folder = folder(&[("pod.json", &text)]);
        let args = ["mutate", "--policy", SMALL, "-i", "-f", "pod.json"];
        run_in(folder.path(), &args, "").exits(2).says(&["pod.json stays as it is"]);
        assert_eq!(fs::read_to_string(folder.path().join("pod.json")).unwrap(), text);
        (format!("{rest:?}"), run.said())
    });
    assert_snapshot!(sections(answers), @r##"
    ## "/* x */\n"
    error: stdin: document 2: line 1, column 251: a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow

    ## ",\n"
    error: stdin: document 2: line 1, column 251: a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow

    ## "\n\n  // x\n"
    error: stdin: document 2: line 3, column 3: a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow

    ## "# c\n}\n"
    error: stdin: document 2: line 2, column 1: a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow

    ## "\nkind: B\n"
    error: stdin: document 2: line 2, column 1: a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow

    ## "\n[1]\n"
    error: stdin: document 2: line 2, column 1: a JSON value ends before this text; after it, only a comment, a `---` line or another value can follow
    "##);
    for rest in ["", "\n", " \n# c\n", "\n...\n", "\n---\nkind: B\n", "\n...\n# c\n%YAML 1.2\n---\nkind: B\n"]
    {
        small(&[], format!("{pod}{rest}")).exits(0);
    }
}

const BIG: &str = "123456789012345678901234567890";

#[test]
fn no_number_changes() {
    let more = format!(",\"z\":[{BIG},-0,1E5,0.10000000000000000001]");
    let json = json_pod(&more);
    for format in [&[][..], &["-o", "json"]] {
        let run = small(format, &json).exits(0);
        assert!(run.text().contains(&more), "{}", run.text());
    }
    let yaml = format!("{POD}zz:\n- {BIG}\n- 0.10000000000000000001 # why\n- -0\n- 2.50\n");
    assert!(small(&[], &yaml).exits(0).text().contains(&yaml[yaml.find("zz:").unwrap()..]));
    // In the other form, it would be another number.
    assert_snapshot!(small(&["-o", "json"], &yaml).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 15, column 3: the number `123456789012345678901234567890` does not fit in 64 bits, and writing it again would change it
    ");
    assert_snapshot!(small(&["-o", "yaml"], &json).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 256: the number `123456789012345678901234567890` does not fit in 64 bits, and writing it again would change it
    ");
    let exact = yaml.replace(BIG, "18446744073709551615").replace("10000000000000000001", "1");
    assert_eq!(small(&["-o", "json"], exact).exits(0).values()[0]["zz"][0], u64::MAX);
}

/// YAML reads it as a string, as kubectl does.
#[test]
fn json_with_a_number_that_has_no_value_is_an_error() {
    assert_snapshot!(small(&[], json_pod(",\"z\":1e400")).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 259: not valid JSON: number out of range
    ");
    assert_snapshot!(small(&[], "{\"z\":\n 1e400}").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 6: not valid JSON: number out of range
    ");
    let run = small(&["-o", "json"], "{z: 1e400}\n").exits(0);
    assert_eq!(run.values()[0]["z"], "1e400");
}

/// A pod that cannot be edited: the key `metadata` gets a value and has no colon.
fn written_again() -> String {
    let spec = &POD[POD.find("spec:").unwrap()..];
    format!("apiVersion: v1\nkind: Pod\n? metadata # first\n{spec}").replace("main", "main # second")
}

#[test]
fn a_number_in_a_part_that_is_written_again_is_an_error() {
    let pod = format!("big: {BIG}\n{}", written_again());
    assert_snapshot!(mutate(&["--policy", SMALL, "--assume-annotated"], pod).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 6: the number `123456789012345678901234567890` does not fit in 64 bits, and writing it again would change it
    ");
}

#[test]
fn a_comment_that_is_lost_is_said() {
    let pod = written_again();
    let folder = folder(&[("pod.yaml", &pod), ("other.yaml", POD)]);
    let args =
        ["mutate", "--policy", SMALL, "--assume-annotated", "-i", "-f", "pod.yaml", "-f", "other.yaml"];
    let run = run_in(folder.path(), &args, "").exits(0);
    assert_snapshot!(run.recorded(), @"
    exit status: 0
    ----- stderr -----
    pod.yaml: document 1: Pod: mutated by small@<digest>
      + main: vpc.amazonaws.com/efa 8, env FI_PROVIDER, mount /dev/shm, capability IPC_LOCK
      + pod: volume nv-shared-memory, annotation fabric-injector.io/injected
    pod.yaml: document 1: line 3: the comment `# first` is not kept, because the lines around it are written again (comment_lost)
    pod.yaml: document 1: line 6: the comment `# second` is not kept, because the lines around it are written again (comment_lost)
    other.yaml: document 1: Pod/trainer: mutated by small@<digest>
      + main: vpc.amazonaws.com/efa 8, env FI_PROVIDER, mount /dev/shm, capability IPC_LOCK
      + pod: volume nv-shared-memory, annotation fabric-injector.io/injected
    ");
    let run = mutate(&["--policy", SMALL, "--assume-annotated", "--report", "json"], &pod).exits(0);
    let lost = run.reports().into_iter().find(|report| report["code"] == "comment_lost").unwrap();
    assert_eq!((&lost["outcome"], &lost["document"]), (&"warning".into(), &1.into()));
}

#[test]
fn comments_in_flow_maps_and_explicit_keys_stay() {
    let flow = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, # c1\n annotations: {{{TRIGGER}: \"true\", # c2\n }}, # c3\n}} # c4\n\
         spec: {{\n # c5\n containers: [ # c6\n {{name: t, image: x, # c7\n resources: {{limits: {{\n nvidia.com/gpu: 8, # c8\n }}\n \
         # c9\n }},\n # c10\n env: [ # c11\n ], # c12\n }}, # c13\n ] # c14\n }} # c15\n"
    );
    let explicit = POD
        .replace(
            "    resources:\n      limits:\n",
            "    ? resources # c1\n    # c2\n    : ? limits # c3\n      : # c4\n",
        )
        .replace("  containers:", "  volumes: [ # c5\n    ]\n  containers:");
    for (pod, count) in [(flow, 15), (explicit, 5)] {
        let run = small(&[], &pod).exits(0);
        let kept: Vec<usize> = (1..=count).filter(|n| run.text().contains(&format!("# c{n}\n"))).collect();
        assert_eq!(kept, (1..=count).collect::<Vec<_>>(), "{}", run.text());
        assert_eq!(limits(&run.documents()[0])["vpc.amazonaws.com/efa"], "8");
    }
}

/// The line end after the last line of a block is a part of the string. kubectl adds it, if it is not there.
#[test]
fn a_block_at_the_end_of_a_file_without_a_line_end_has_that_of_kubectl() {
    for (text, value) in [
        ("a: |\n  x", "x\n"),
        ("a: |+\n  ü", "ü\n"),
        ("a: |\n  x\n", "x\n"),
        ("a: |\n  x\n ", "x\n"),
        ("a: |\n  x\n#", "x\n"),
    ] {
        assert_eq!(small(&["-o", "json"], text).exits(0).values()[0]["a"], value, "{text:?}");
    }
    let pod = POD.replace("metadata:\n  name: trainer\n", "metadata:\n  name: trainer\n  labels: {a: b}\n");
    let (head, rest) = pod.split_at(pod.find("metadata:").unwrap());
    let (metadata, spec) = rest.split_at(rest.find("spec:").unwrap());
    let last = format!("{head}{spec}{}", metadata.trim_end());
    let run = small(&[], &last).exits(0);
    assert_eq!(run.documents()[0], small(&["-o", "json"], &last).exits(0).values()[0]);
}
