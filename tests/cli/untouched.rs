//! What is not to change comes out as it went in, to the byte; what changes keeps its text, its values and their order.

use super::{POD, SETTINGS, SMALL, documents, file, mutate, small};

#[test]
fn an_untriggered_file_comes_out_byte_for_byte() {
    let text = file("tests/workloads/untriggered.yaml");
    for format in [&[][..], &["-o", "yaml"]] {
        assert_eq!(
            small(&[&["-f", "tests/workloads/untriggered.yaml"], format].concat(), "").exits(0).text(),
            text
        );
        assert_eq!(small(format, &text).exits(0).text(), text);
    }
}

#[test]
fn a_triggered_pod_that_is_left_alone_comes_out_byte_for_byte() {
    let mirror =
        POD.replace("annotations:\n", "annotations:\n    kubernetes.io/config.mirror:   abc # kubelet\n");
    let no_gpu = POD.replace("nvidia.com/gpu: 8", "cpu:   8 # no GPU");
    for (text, reason) in [(mirror, "mirror_pod"), (no_gpu, "no_gpu_container")] {
        let run = mutate(&["--policy", SMALL, "--report", "json"], &text).exits(0);
        assert_eq!(run.text(), text);
        assert_eq!(run.reports()[0]["reason"], reason);
    }
}

#[test]
fn windows_line_ends_and_odd_white_space_are_kept() {
    for text in [
        "kind: A\r\n---\r\nkind: B\r\n# end\r\n",
        "kind:  A  \n\n\n---   \n\tkind: B\n".trim_end_matches("\tkind: B\n"),
        "--- # first\nkind: A\n...\n",
        "kind: A",
        "\u{feff}kind: A\n",
        "text: |+\n  a\n\n\n---\nkind: ü→\u{1f600}\n",
        "{\"kind\": \"A\"}\n\n\n",
        "a: &x {b: 1}\nc: *x\n<<: {d: 1}\n!!str e: !custom f\n",
    ] {
        assert_eq!(small(&[], text).exits(0).text(), text);
    }
}

#[test]
fn json_that_does_not_change_keeps_its_layout() {
    for text in [
        r#"{"kind":"A","b":[1,2.50,1e3,"\u00e4\/"]}"#,
        "{\n\t\"kind\" : \"A\" ,\n\n  \"b\":{ }}\n",
        "{\"kind\":\"A\"}\n{\"kind\":\"B\"}\n",
        "{\"big\":123456789012345678901234567890}\n",
    ] {
        for format in [&[][..], &["-o", "json"]] {
            assert_eq!(small(format, text).exits(0).text(), text);
        }
    }
}

#[test]
fn a_helm_stream_keeps_the_bytes_around_a_changed_document() {
    let before = format!(
        "---\n# Source: chart/templates/settings.yaml\n{SETTINGS}\n\n---\n# Source: chart/templates/empty.yaml\n"
    );
    let after = format!("---\n# Source: chart/templates/last.yaml\n{SETTINGS}  # the end\n\n");
    let stream = format!("{before}---\n# Source: chart/templates/pod.yaml\n{POD}{after}");
    for format in [&[][..], &["-o", "yaml"]] {
        let run = small(format, &stream).exits(0);
        let middle = run.text().strip_prefix(&before).expect("the beginning is as it was");
        let middle = middle.strip_suffix(&after).expect("the end is as it was");
        assert!(middle.starts_with("---\n"), "{middle}");
        assert_eq!(documents(middle), documents(small(&[], POD).exits(0).text()));
    }
}

#[test]
fn a_changed_document_between_windows_lines_leaves_them_alone() {
    let stream = format!("kind: A\r\n---\r\n{}---\r\nkind: B\r\n", POD.replace('\n', "\r\n"));
    let run = small(&[], &stream).exits(0);
    assert!(run.text().starts_with("kind: A\r\n---\r\n"), "{:?}", run.text());
    assert!(run.text().ends_with("---\r\nkind: B\r\n"), "{:?}", run.text());
    assert_eq!(run.documents()[1], documents(small(&[], POD).exits(0).text())[0]);
}

/// The YAML of a pod with this label, from a manifest in JSON.
fn labelled(key: &str, value: &str) -> String {
    let mut pod = documents(POD).remove(0);
    pod["metadata"]["labels"][key] = value.into();
    small(&["-o", "yaml"], pod.to_string()).exits(0).text().to_owned()
}

#[test]
fn strings_that_yaml_1_1_reads_as_something_else_come_out_quoted() {
    let words = [
        "n",
        "y",
        "on",
        "off",
        "No",
        "YES",
        "0755",
        "1_000",
        "0x1F",
        "1e3",
        ".5",
        "null",
        "~",
        "",
        "true",
        "8",
        "12:30:45",
        "190:20",
        "2001-12-14",
        "2001-12-14t21:59:43.10-05:00",
    ];
    for word in words {
        let text = labelled("quoted", word);
        assert!(text.contains(&format!("    quoted: \"{word}\"\n")), "{text}");
    }
}

#[test]
fn keys_that_yaml_1_1_reads_as_something_else_come_out_quoted() {
    for word in ["n", "on", "0755"] {
        let text = labelled(word, "x");
        assert!(text.contains(&format!("    \"{word}\": x\n")), "{text}");
    }
}

#[test]
fn quotes_stay_as_they_are() {
    for label in ["'n': x", "\"on\": 'y'", "k: '0755'", "k: \"190:20\""] {
        let pod = POD.replace("  annotations:\n", &format!("  labels:\n    {label}\n  annotations:\n"));
        let run = small(&[], &pod).exits(0);
        assert!(run.text().contains(&format!("    {label}\n")), "{}", run.text());
    }
}

#[test]
fn plain_scalars_are_read_as_kubectl_reads_them() {
    let pod = POD.replace(
        "spec:\n",
        "spec:\n  hostIPC: on\n  priority: 0x10\n  terminationGracePeriodSeconds: 0755\n",
    );
    let run = small(&["-o", "json"], &pod).exits(0);
    let spec = &run.values()[0]["spec"];
    assert_eq!((&spec["hostIPC"], &spec["priority"]), (&true.into(), &16.into()));
    assert_eq!(spec["terminationGracePeriodSeconds"], 493);
}

#[test]
fn keys_keep_their_order_and_unknown_fields_survive() {
    let pod = POD
        .replace("spec:\n", "zeta: 1\nspec:\n  fieldOfTomorrow: {z: 1, a: [2, {w: null}]}\n")
        .replace("    image:", "    alsoNew: \"0\"\n    image:");
    let run = small(&["-o", "json"], &pod).exits(0);
    let value = &run.values()[0];
    assert_eq!(value["spec"]["fieldOfTomorrow"].to_string(), r#"{"z":1,"a":[2,{"w":null}]}"#);
    assert_eq!(value["spec"]["containers"][0]["alsoNew"], "0");
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(value), ["apiVersion", "kind", "metadata", "zeta", "spec"]);
    assert_eq!(keys(&value["spec"])[..2], ["fieldOfTomorrow", "containers"]);
    assert_eq!(keys(&value["spec"]["containers"][0])[..4], ["name", "alsoNew", "image", "resources"]);
}

#[test]
fn aliases_and_merge_keys_mean_what_they_say() {
    let pod = POD
        .replace("metadata:\n", "x-common: &common {image: registry.example/train:1, tty: true}\nmetadata:\n")
        .replace(
            "    image: registry.example/train:1\n",
            "    <<: *common\n    tty: false\n    workingDir: &dir /work\n    args: [*dir]\n",
        );
    let run = small(&[], &pod).exits(0);
    let container = &run.documents()[0]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/train:1");
    assert_eq!((&container["tty"], &container["args"][0]), (&false.into(), &"/work".into()));
    assert!(run.text().contains("    <<: *common\n    tty: false\n"), "{}", run.text());
}

#[test]
fn text_of_several_lines_reads_back_as_it_was() {
    let script = "#!/bin/sh\n# not a comment\n  indented: yes\n\ttab\nexec \"$@\"\n\n";
    let mut pod = documents(POD).remove(0);
    pod["spec"]["containers"][0]["args"] =
        serde_json::json!([script, " lead", "trail ", "a: b", "- c", "\u{7}\u{2028}"]);
    let run = small(&["-o", "yaml"], pod.to_string()).exits(0);
    assert_eq!(run.documents()[0]["spec"]["containers"][0]["args"], pod["spec"]["containers"][0]["args"]);
}
