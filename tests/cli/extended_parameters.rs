//! What extensions say of the parameters of their base.

use super::extends::shows;
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
    {nvidia.com/gpu: 8, example.com/nic: 32}, conditions: [{type: Ready, status: \"True\"}]}\n";

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
    assert_eq!(found("", true), of("4", "large INFO"));
    // A default is the last resort, also in an extension.
    assert_eq!(
        found("  parameters: {nics: {default: 7}, debug: {default: WARN}}\n", true),
        of("4", "large WARN")
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
fn what_an_extension_cannot_say_of_a_parameter_is_shown_at_its_place() {
    let shown = |keys: &str, says: &[&str]| {
        let files = [("lab.yaml", SOURCES.to_owned()), ("ours.yaml", extension("ours", "lab", keys))];
        let folder = folder(&files.each_ref().map(|(file, text)| (*file, text.as_str())));
        shows(&run_in(folder.path(), &["policy", "check", "."], "").exits(2), says);
    };
    shown("  parameters: {nics: 10}\n", &["ours.yaml:6:22", "`nics` is 10, more than its maximum 9"]);
    shown("  parameters: {nics: null}\n", &["ours.yaml:6:22", "leave the key out"]);
    shown(
        "  parameters: {nic: 4}\n",
        &["ours.yaml:6:16", "no base has a parameter `nic`", "did you mean `nics`?"],
    );
    shown(
        "  parameters: {port: 4}\n",
        &["ours.yaml:6:16", "no base has a parameter `port`", "`port: {description: …, default: …}`"],
    );
    shown("  machines: {pool: {fast: {nics: {}}}}\n", &["ours.yaml:6:34", "have no value"]);
    shown("  machines: {pool: {fast: {nisc: 4}}}\n", &["ours.yaml:6:28", "`nisc`", "did you mean `nics`?"]);
    shown("  machines: {pool: {fast: {nics: null}}}\n", &["ours.yaml:6:34", "`nics` is `null` in a row"]);
    shown(
        "  parameters: {nics: 4}\n  machines: {pool: {fast: {nics: 5}}}\n",
        &["ours.yaml:7:28", "one value for every pod in this file", "the value at line 6"],
    );
    let part = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: own}\nspec:\n  extends: \
                locked-memory\n  provider: lab\n  description: d\n  gpus: {resources: [nvidia.com/gpu]}\n  match: {labels: {a: b}}\n  \
                parameters: {ipcLock: false}\n";
    let folder = folder(&[("own.yaml", part)]);
    let says = ["own.yaml:10:25", "write `ipcLock: {default: …}`"];
    shows(&run_in(folder.path(), &["policy", "check", "."], "").exits(2), &says);
}

#[test]
fn a_default_below_a_value_for_every_pod_is_an_error() {
    let inner = extension("ours", "lab", "  parameters: {nics: 6}\n");
    let outer = extension("third", "ours", "  parameters: {nics: {default: 7}}\n");
    let folder = folder(&[("lab.yaml", SOURCES), ("ours.yaml", &inner), ("third.yaml", &outer)]);
    let says = ["third.yaml:6:23", "`default` of `nics` has no effect", "`nics: 4`", "at line 6"];
    shows(&run_in(folder.path(), &["policy", "check", "."], "").exits(2), &says);
}

#[test]
fn an_operator_contradicts_the_row_that_would_decide() {
    let warned = |keys: &str, nics: &str| {
        let text = extension("ours", "lab", keys);
        let folder = folder(&[("lab.yaml", SOURCES), ("ours.yaml", &text)]);
        let pod = POD.replace("spec:\n", "spec:\n  nodeSelector: {pool: fast}\n");
        let set = format!("nics={nics}");
        run_in(folder.path(), &["mutate", "--policy", ".", "--set", &set], pod).exits(0).stderr
    };
    let row = "  machines: {pool: {fast: {nics: 4}}}\n";
    assert!(warned("", "3").contains("`nics` is set to 3, and the table has 2"), "{}", warned("", "3"));
    assert!(!warned(row, "4").contains("is set to"), "{}", warned(row, "4"));
    assert!(warned(row, "3").contains("`nics` is set to 3, and the table has 4"), "{}", warned(row, "3"));
    let value = "  parameters: {nics: 6}\n";
    assert!(!warned(value, "3").contains("is set to"), "{}", warned(value, "3"));
}
