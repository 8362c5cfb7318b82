//! `--nodes` and `--cluster`: the nodes of the cluster in which the pods will run.

use fabric_yaml as yaml;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Run, folder, run, run_in};

const EXPLAIN: [&str; 5] = ["policy", "explain", "aws-efa", "-f", "pod.yaml"];

/// A pod that selects no machine type.
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: train
  annotations: {nmp.nvidia.com/enable-multi-node-networking: "true"}
spec:
  containers:
    - name: train
      image: train
      resources: {limits: {nvidia.com/gpu: 8}}
"#;

fn node(name: &str, kind: &str, interfaces: u32) -> Value {
    let capacity =
        json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": interfaces.to_string(), "cpu": "96"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind}},
        "spec": {"providerID": format!("aws:///us-east-1a/{name}")},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// What kubectl prints.
fn list(nodes: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": nodes})
}

fn p4d() -> Value {
    list(&[node("a", "p4d.24xlarge", 4), node("b", "p4d.24xlarge", 4)])
}

/// Runs a command in a folder with the pod and this file of nodes.
fn with_nodes(args: &[&str], nodes: &str, stdin: &str) -> Run {
    let folder = folder(&[("pod.yaml", POD), ("nodes", nodes)]);
    run_in(folder.path(), args, stdin)
}

/// Runs `mutate` on the pod with these further options.
fn mutate(options: &[&str], nodes: &str, stdin: &str) -> Run {
    with_nodes(&[&["mutate", "--policy", "aws-efa", "-f", "pod.yaml"], options].concat(), nodes, stdin)
}

#[track_caller]
fn interfaces(run: &Run) -> Value {
    run.documents()[0]["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"].clone()
}

#[test]
fn pods_get_what_the_nodes_offer() {
    let without = mutate(&[], "", "").exits(0);
    without.says(&["is assumed"]);
    let (json, indented) = (p4d().to_string(), serde_json::to_string_pretty(&p4d()).unwrap());
    let (flow, yaml) = (json.replace('{', "{ "), yaml::write(&p4d()));
    for nodes in [&json, &indented, &flow, &yaml, &format!("# of the lab\n---\n{yaml}")] {
        let run = mutate(&["--nodes", "nodes"], nodes, "").exits(0);
        assert_eq!(interfaces(&run), "4", "{nodes}");
        assert!(!run.stderr.contains("is assumed"), "{}", run.stderr);
        let run = mutate(&["--nodes", "-"], "", nodes).exits(0);
        assert_eq!(interfaces(&run), "4", "{nodes}");
    }
    let one = node("a", "p4d.24xlarge", 4).to_string();
    assert_eq!(interfaces(&mutate(&["--nodes", "nodes"], &one, "").exits(0)), "4");
    // A cluster without nodes, such as one that scales from zero, is as one that is not known.
    let none = mutate(&["--nodes", "nodes"], &list(&[]).to_string(), "").exits(0);
    assert_eq!(interfaces(&none), interfaces(&without));
}

#[test]
fn every_way_of_a_pod_through_mutate_knows_the_nodes() {
    let manifests = format!("apiVersion: v1\nkind: List\nitems:\n- {}", POD.trim().replace('\n', "\n  "));
    let folder = folder(&[("pod.yaml", POD), ("list.yaml", &manifests), ("nodes", &p4d().to_string())]);
    for (file, output) in
        [("pod.yaml", "diff"), ("pod.yaml", "patch"), ("list.yaml", "yaml"), ("list.yaml", "diff")]
    {
        let args = ["mutate", "--policy", "aws-efa", "--nodes", "nodes", "-f", file, "-o", output];
        let run = run_in(folder.path(), &args, "").exits(0);
        assert!(!run.stderr.contains("is assumed"), "{file} {output}: {}", run.stderr);
        assert!(run.text().contains("vpc.amazonaws.com"), "{file} {output}: {}", run.text());
    }
}

#[test]
fn the_reasons_of_a_pod_know_the_nodes() {
    let explained = |options: &[&str]| {
        let run = with_nodes(&[&EXPLAIN, options].concat(), &p4d().to_string(), "").exits(0);
        run.text().to_owned()
    };
    let (without, with) = (explained(&[]), explained(&["--nodes", "nodes"]));
    let granted = "resources.limits[vpc.amazonaws.com/efa] = 4\n";
    assert!(with.contains(granted) && !without.contains(granted), "{without}\n{with}");
}

#[test]
fn files_that_are_no_nodes_are_reported_with_their_place() {
    let mut pods = p4d();
    pods["items"][1]["kind"] = "Pod".into();
    let answers = ["kind: List\nitems: [", &pods.to_string(), "NAME STATUS\na Ready\n", ""].map(|nodes| {
        let run = mutate(&["--nodes", "nodes"], nodes, "");
        let explained = with_nodes(&[&EXPLAIN[..], &["--nodes", "nodes"]].concat(), nodes, "");
        assert_eq!((explained.status, &explained.stderr), (run.status, &run.stderr));
        run.recorded()
    });
    assert_snapshot!(answers.join("\n"), @"
    exit status: 2
    ----- stderr -----
    error: nodes: line 2, column 9: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 2

    exit status: 2
    ----- stderr -----
    error: nodes: `items[1]` is not a node, but of the kind `Pod`
    hint: write it with `kubectl get nodes -o json`, or `kubectl get nodes,resourceslices -o json`

    exit status: 2
    ----- stderr -----
    error: nodes: it is neither a list of nodes nor a node
    hint: write it with `kubectl get nodes -o json`, or `kubectl get nodes,resourceslices -o json`

    exit status: 2
    ----- stderr -----
    error: nodes: it is neither a list of nodes nor a node
    hint: write it with `kubectl get nodes -o json`, or `kubectl get nodes,resourceslices -o json`
    ");
    assert_snapshot!(mutate(&["--nodes", "missing"], "", "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: missing cannot be read: No such file or directory (os error 2)
    ");
    assert_snapshot!(mutate(&["--nodes", "."], "", "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: . cannot be read: Is a directory (os error 21)
    ");
    assert_snapshot!(mutate(&["--nodes", "-"], "", "{").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: line 1, column 2: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 1
    ");
}

#[test]
fn nodes_come_from_one_place_and_manifests_from_another() {
    let both = ["mutate", "--policy", "aws-efa", "--nodes", "nodes", "--cluster"];
    assert_snapshot!(run(&both, POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the argument '--nodes <FILE|->' cannot be used with '--cluster'

    Usage: fabric-injector mutate --policy <NAME|PATH|DIR> --nodes <FILE|->

    For more information, try '--help'.
    ");
    let twice = "`--nodes -` reads standard input";
    let mutate = ["mutate", "--policy", "aws-efa", "--nodes", "-"];
    assert_snapshot!(run(&mutate, POD).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `--nodes -` reads standard input, and so does the manifest
    hint: name a file for one of them
    ");
    run(&[&mutate[..], &["-f", "-"]].concat(), POD).exits(2).writes_nothing().says(&[twice]);
    let explain = ["policy", "explain", "aws-efa", "--nodes", "-"];
    run(&[&explain[..], &["-f", "-"]].concat(), POD).exits(2).says(&[twice]);
    run(&[&explain[..], &["--review", "-"]].concat(), "{}").exits(2).says(&[twice]);
    assert_snapshot!(run(&explain, "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: `--nodes` and `--cluster` need pods
    hint: name a manifest with `-f`
    ");
}

#[test]
fn without_a_configured_api_server_there_is_no_cluster_to_read() {
    run(&["mutate", "--policy", "aws-efa", "--cluster"], POD).exits(2).says(&["no API server is configured"]);
    run(&["serve", "--watch-nodes"], "").exits(2).says(&["no API server is configured"]);
}
