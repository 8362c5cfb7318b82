//! What extensions say of the parameters of their base.

use insta::assert_snapshot;

use super::{POD, folder, limits, run_in};

/// The base has each source of a value but those of an operator and of extensions.
const SOURCES: &str = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: lab}\nspec:\n  \
    provider: lab\n  description: d\n  gpus: {resources: [nvidia.com/gpu]}\n  match: {anyAnnotation: {nmp.nvidia.com/enable-multi-node-networking: \"true\"}}\n  \
    parameters:\n    nics: {description: d, default: 1, maximum: 9, fromNodes: example.com/nic}\n    \
    debug: {description: d, default: INFO}\n  \
    variables: {size: small}\n  \
    machines:\n    pool: {\"fast, fast-*\": {nics: 2, size: large}}\n    zone: {a: {nics: 3}}\n  \
    rules:\n    - name: r\n      containers: gpus > 0\n      env: {SIZE: \"${size} ${debug}\"}\n      container:\n        resources:\n          limits: {example.com/nic: \"${devices(1, nics)}\"}\n          \
    requests: {example.com/nic: \"${devices(1, nics)}\"}\n";

const NODES: &str = "kind: List\nitems:\n- kind: Node\n  metadata: {name: n, labels: {pool: fast, zone: a}}\n  status: {capacity: \
    {nvidia.com/gpu: 8, example.com/nic: 8}, conditions: [{type: Ready, status: \"True\"}]}\n";

/// The devices and the variable of a pod, with files, the nodes if they are known, and further arguments.
fn sourced(files: &[(&str, &str)], with_nodes: bool, args: &[&str]) -> (String, String) {
    let folder = folder(&[files, &[("lab.yaml", SOURCES), ("nodes.yml", NODES)]].concat());
    let mut all = vec!["mutate", "--policy", ".", "-q", "-o", "json"];
    all.extend(with_nodes.then_some(["--nodes", "nodes.yml"]).into_iter().flatten());
    all.extend(args);
    let pod = POD.replace("spec:\n", "spec:\n  nodeSelector: {pool: fast, zone: a}\n");
    let pod = run_in(folder.path(), &all, pod).exits(0).values().remove(0);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    (text(&limits(&pod)["example.com/nic"]), text(&pod["spec"]["containers"][0]["env"][0]["value"]))
}

fn extension(name: &str, of: &str, keys: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: {name}}}\nspec:\n  extends: {of}\n{keys}"
    )
}

#[test]
fn what_an_extension_says_of_a_parameter_precedes_the_nodes_and_the_machines_of_its_base() {
    let found = |keys: &str, with_nodes: bool| {
        sourced(&[("ours.yaml", &extension("ours", "lab", keys))], with_nodes, &[])
    };
    let of = |nics: &str, size: &str| (nics.to_owned(), size.to_owned());
    // What the nodes offer precedes the rows of the policy itself.
    assert_eq!(found("", false), of("2", "large INFO"));
    assert_eq!(found("", true), of("1", "large INFO"));
    // A default is the last resort, also in an extension.
    assert_eq!(
        found("  parameters: {nics: {default: 7}, debug: {default: WARN}}\n", true),
        of("1", "large WARN")
    );
    assert_eq!(found("  parameters: {nics: {default: 7}}\n", false), of("2", "large INFO"));
    // A row by any label, and a value.
    assert_eq!(found("  machines: {zone: {a: {nics: 5, size: huge}}}\n", true), of("5", "huge INFO"));
    assert_eq!(found("  parameters: {nics: 6, debug: TRACE}\n", true), of("6", "large TRACE"));
    assert_eq!(
        found("  parameters: {nics: 6}\n  machines: {zone: {a: {size: huge}}}\n", true),
        of("6", "huge INFO")
    );
    // The outermost extension, then the operator.
    let inner = extension("ours", "lab", "  parameters: {nics: 6}\n  machines: {zone: {a: {size: huge}}}\n");
    let outer = extension("third", "ours", "  machines: {pool: {fa*: {nics: 7}}}\n");
    let files = [("ours.yaml", inner.as_str()), ("third.yaml", &outer)];
    assert_eq!(sourced(&files, true, &[]), of("7", "huge INFO"));
    assert_eq!(sourced(&files, true, &["--set", "nics=8"]), of("8", "huge INFO"));
    let values = [
        files[0],
        files[1],
        ("values.yml", "multinodeNetworking: {lab: {enabled: true, nics: {zone: {a: 9}, default: 1}}}"),
    ];
    assert_eq!(sourced(&values, true, &["--values", "values.yml"]), of("9", "huge INFO"));
}

#[test]
fn an_operator_contradicts_the_row_that_would_decide() {
    let warned = |keys: &str, nics: &str| {
        let text = extension("ours", "lab", keys);
        let folder = folder(&[("lab.yaml", SOURCES), ("ours.yaml", &text)]);
        let pod = POD.replace("spec:\n", "spec:\n  nodeSelector: {pool: fast}\n");
        let set = format!("nics={nics}");
        run_in(folder.path(), &["mutate", "--policy", ".", "--set", &set], pod).exits(0).said()
    };
    let row = "  machines: {pool: {fast: {nics: 4}}}\n";
    assert_snapshot!(warned("", "3"), @"
    stdin: document 1: Pod/trainer: mutated by ours@<digest>
      + main: example.com/nic 3, env SIZE
      + pod: annotation fabric-injector.io/injected
      warning: `nics` is set to 3, and the table has 2 for `pool: fast` (parameter_contradicts)
    ");
    assert!(!warned(row, "4").contains("is set to"), "{}", warned(row, "4"));
    assert_snapshot!(warned(row, "3"), @"
    stdin: document 1: Pod/trainer: mutated by ours@<digest>
      + main: example.com/nic 3, env SIZE
      + pod: annotation fabric-injector.io/injected
      warning: `nics` is set to 3, and the table has 4 for `pool: fast` (parameter_contradicts)
    ");
    let value = "  parameters: {nics: 6}\n";
    assert!(!warned(value, "3").contains("is set to"), "{}", warned(value, "3"));
}
