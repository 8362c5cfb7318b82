//! Control characters of values: none reaches a terminal, and no value forges a line of a report.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use fabric_yaml as yaml;
use serde_json::{Map, Value, json};

use super::{POD, POLICY, Run, documents, folder, mutate, run_in};

/// A colour, a line of its own, the one-byte form of an escape sequence, and a separator of lines.
const HOSTILE: &str = "\u{1b}[31m\r\nforged: \u{9b}32m\u{2028}\u{7f}";

/// Fails if a text for people has control characters, or a line that begins with a value.
#[track_caller]
fn is_plain(text: &str) {
    let is_special = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{2028}');
    assert!(!text.contains(is_special), "{:?}", text.lines().find(|line| line.contains(is_special)));
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
}

/// Fails if the output or a message of a run is not plain.
#[track_caller]
fn plain(run: &Run) {
    is_plain(run.text());
    is_plain(&run.stderr);
}

/// The value with a hostile end of one of its keys and strings, for each of them.
fn hostile(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => vec![(text.clone() + HOSTILE).into()],
        Value::Array(items) => {
            let with = |at: usize, changed: Value| {
                let mut items = items.clone();
                items[at] = changed;
                Value::from(items)
            };
            let each = items.iter().enumerate();
            each.flat_map(|(at, item)| hostile(item).into_iter().map(move |item| with(at, item))).collect()
        }
        Value::Object(map) => {
            let with = |at: usize, key: &str, changed: &Value| -> Value {
                let pairs = map.iter().enumerate().map(|(index, (known, value))| {
                    if index == at {
                        (key.to_owned(), changed.clone())
                    } else {
                        (known.clone(), value.clone())
                    }
                });
                pairs.collect::<Map<_, _>>().into()
            };
            let mut all = Vec::new();
            for (at, (key, value)) in map.iter().enumerate() {
                all.push(with(at, &(key.clone() + HOSTILE), value));
                all.extend(hostile(value).iter().map(|value| with(at, key, value)));
            }
            all
        }
        _ => Vec::new(),
    }
}

/// Pods and workloads, each with one hostile key or string, as a stream.
fn manifests() -> String {
    let mut pod = documents(POD).remove(0);
    pod["metadata"]["labels"] = json!({"app": "train"});
    pod["metadata"]["namespace"] = "ml".into();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1"}]);
    pod["metadata"]["annotations"]["fabric-injector.io/nodes"] = "x".into();
    pod["metadata"]["annotations"]["fabric-injector.io/stamp"] = "x".into();
    pod["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": "p5.48xlarge"});
    pod["spec"]["volumes"] = json!([{"name": "nv-shared-memory", "hostPath": {"path": "/dev/shm"}}]);
    pod["spec"]["containers"][0]["env"] = json!([{"name": "FI_PROVIDER", "value": "tcp"}]);
    let template = json!({"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "annotations": pod["metadata"]["annotations"]},
        "spec": {"template": template},
    });
    let mut text = String::new();
    for value in [pod, job].iter().flat_map(hostile) {
        let _ = writeln!(text, "{value}");
    }
    text
}

#[test]
fn reports_on_manifests_show_control_characters() {
    let manifests = manifests();
    let folder =
        folder(&[("pods.json", &manifests), ("small.yaml", super::file("tests/cli/small.yaml").as_str())]);
    let run = |args: &[&str]| run_in(folder.path(), args, "");
    for policy in ["small.yaml", "aws-efa"] {
        let from = ["-f", "pods.json", "--policy", policy];
        let silent = |run: &Run| is_plain(&run.stderr);
        let texts = run(&[&["mutate", "--require-mutated"], &from[..]].concat());
        assert!(texts.stderr.lines().count() > 50, "{}", texts.stderr);
        silent(&texts);
        for more in [["--report", "json"], ["-o", "yaml"], ["-o", "diff"], ["-o", "patch"], ["-o", "review"]]
        {
            silent(&run(&[&["mutate"], &from[..], &more[..]].concat()));
        }
        for format in ["text", "json", "sarif", "github"] {
            let linted = run(&[&["lint", "-o", format], &from[..]].concat());
            assert!(linted.text().len() > 1000, "{}", linted.text());
            plain(&linted);
        }
        for format in ["text", "json"] {
            let explained = run(&["policy", "explain", policy, "-f", "pods.json", "-o", format]);
            assert!(explained.text().len() > 1000, "{}", explained.stderr);
            plain(&explained);
        }
    }
}

#[test]
fn errors_of_manifests_show_control_characters() {
    let folder = folder(&[("small.yaml", super::file("tests/cli/small.yaml").as_str())]);
    let name = format!("a{}.yaml", HOSTILE.replace('/', ""));
    for text in [
        format!("kind: Pod\n{key}: 1\n{key}: 2\n", key = json!(HOSTILE)),
        format!("kind: {}\nspec: [\n", json!(HOSTILE)),
        format!("kind: Pod\nmetadata: *{HOSTILE}\n"),
        "a: {{ b }}: c\n".to_owned(),
        POD.replace("kind: Pod", &format!("kind: Pod\n{key}: 1\n{key}: 2\n", key = json!(HOSTILE))),
    ] {
        fs::write(folder.path().join(&name), &text).unwrap();
        for args in [
            &["mutate", "--policy", "small.yaml", "-f", "."][..],
            &["mutate", "--policy", "small.yaml", "-i", "-f", "."],
            &["lint", "--policy", "small.yaml", "-f", "."],
            &["policy", "explain", "small.yaml", "-f", "."],
            &["policy", "explain", "small.yaml", "--review", &name],
            &["nodes", "-f", &name],
            &["policy", "check", "."],
            &["policy", "test", "."],
            &["policy", "test", &name],
            &["policy", "explain", "."],
        ] {
            let run = run_in(folder.path(), args, "");
            is_plain(&run.stderr);
            if args[0] != "mutate" {
                is_plain(run.text());
            }
        }
    }
}

#[test]
fn reports_on_policies_show_control_characters() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: &Value| fs::write(folder.path().join(name), yaml::write(value)).unwrap();
    let policies = hostile(&documents(POLICY)[0]);
    assert!(policies.len() > 30);
    for (at, policy) in policies.iter().enumerate() {
        write(&format!("{at}.yaml"), policy);
    }
    for format in ["text", "json", "sarif", "github"] {
        let checked = run_in(folder.path(), &["policy", "check", ".", "-o", format], "").exits(2);
        assert!(checked.text().len() > 1000, "{}", checked.text());
        plain(&checked);
    }
    for at in 0..policies.len() {
        let name = format!("{at}.yaml");
        plain(&run_in(folder.path(), &["policy", "explain", &name], ""));
        is_plain(&run_in(folder.path(), &["policy", "show", &name], "").stderr);
        is_plain(&run_in(folder.path(), &["mutate", "--policy", &name], POD).stderr);
    }
    for format in ["text", "json"] {
        plain(&run_in(folder.path(), &["policy", "list", "-o", format], "").exits(0));
    }
}

#[test]
fn results_of_cases_show_control_characters() {
    let folder = folder(&[("lab.yaml", POLICY)]);
    fs::create_dir(folder.path().join("tests")).unwrap();
    let cases = json!({
        "apiVersion": "fabric-injector.io/v1alpha1", "kind": "PolicyTest", "policy": "../lab.yaml",
        "pod": documents(POD)[0],
        "cases": [
            {"name": "fails", "expect": {"outcome": "skipped", "warnings": ["excluded"], "has": {"metadata": {"name": "y"}}}},
        ],
    });
    let path = folder.path().join("tests/lab.yaml");
    for cases in hostile(&cases) {
        fs::write(&path, yaml::write(&cases)).unwrap();
        for args in [&[][..], &["--coverage"]] {
            plain(&run_in(folder.path(), &[&["policy", "test"], args].concat(), ""));
        }
    }
    let mut cases = cases;
    cases["cases"][0]["name"] = format!("fails{HOSTILE}").into();
    cases["cases"][0]["expect"]["has"]["metadata"]["name"] = HOSTILE.into();
    fs::write(&path, yaml::write(&cases)).unwrap();
    for format in ["text", "json", "junit", "sarif", "github"] {
        let run = run_in(folder.path(), &["policy", "test", "-o", format], "").exits(1);
        assert!(run.text().contains("fails"), "{}", run.text());
        plain(&run);
    }
    plain(&run_in(folder.path(), &["policy", "test", "--update"], ""));
}

#[test]
fn nodes_show_control_characters() {
    let node = |name: &str, efa: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": "p5.48xlarge"}},
            "spec": {"providerID": format!("aws:///us-east-1a/{name}")},
            "status": {
                "capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": efa},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    };
    let pod = documents(POD)[0].to_string();
    for hostile in hostile(&node("a", "32")) {
        let nodes = json!({"kind": "List", "items": [hostile, node("b", "31")]}).to_string();
        let folder = folder(&[("nodes.json", nodes.as_str())]);
        plain(&run_in(folder.path(), &["nodes", "--policy", "aws-efa", "-f", "nodes.json"], ""));
        is_plain(
            &run_in(folder.path(), &["mutate", "--policy", "aws-efa", "--nodes", "nodes.json"], &pod).stderr,
        );
    }
}

#[test]
fn data_keeps_its_bytes() {
    // In JSON, since no YAML may hold some of these characters.
    let mut pod = documents(POD)[0].clone();
    pod["metadata"]["name"] = HOSTILE.into();
    let pod = pod.to_string();
    let run = mutate(&["--policy", super::SMALL, "-o", "json"], &pod).exits(0);
    assert_eq!(run.values()[0]["metadata"]["name"], HOSTILE);
    let lint = super::run(&["lint", "--policy", super::SMALL, "-o", "json"], &pod);
    assert_eq!(lint.values()[0][0]["object"], format!("Pod/{HOSTILE}"));
    assert!(Path::new(super::SMALL).exists());
}
