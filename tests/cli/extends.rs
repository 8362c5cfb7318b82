//! `extends`: policies that add to another one.

use serde_json::Value;

use super::{POD, POLICY, Run, folder, limits, place, run, run_in};

/// An extension of the sample policy.
const EXTENSION: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: ours
spec:
  extends: lab
  parameters:
    nicsPerGPU:
      default: 4
      maximum: 8
    debug:
      type: string
      description: NCCL's log level
      default: WARN
  variables:
    level: "${debug}"
  warnings:
    - code: one_gpu
      when: ${totalGpus == 1}
      message: the pod has one GPU
  rules:
    - name: debug
      container:
        env:
          - name: NCCL_DEBUG
            value: ${level}
"#;

/// Injects the sample pod by the sample policy and an extension, with more arguments.
fn with(extension: &str, args: &[&str]) -> Run {
    let folder = folder(&[("lab.yaml", POLICY), ("ours.yaml", extension)]);
    let policies = ["mutate", "--policy", "lab.yaml", "--policy", "ours.yaml", "-o", "json"];
    run_in(folder.path(), &[&policies, args].concat(), POD)
}

/// Fails unless the extension is refused at the place of the mark, with the line of its own file.
#[track_caller]
fn refused_at(right: &str, wrong: &str, mark: &str) -> Run {
    assert!(EXTENSION.contains(right), "the sample extension has no `{right}`");
    let extension = EXTENSION.replacen(right, wrong, 1);
    let run = with(&extension, &[]).exits(2);
    let (line, column, text) = place(&extension, mark);
    run.writes_nothing().says(&[&format!("ours.yaml:{line}:{column}"), &text]);
    run
}

fn stamp(pod: &Value) -> String {
    pod["metadata"]["annotations"]["fabric-injector.io/injected"].as_str().unwrap().to_owned()
}

#[test]
fn an_extension_replaces_its_base_and_has_all_of_it() {
    let run = with(EXTENSION, &["--set", "debug=INFO"]).exits(0);
    let pod = &run.values()[0];
    assert!(stamp(pod).starts_with("ours@"), "{pod}");
    assert_eq!(limits(pod)["example.com/nic"], "32");
    let env = &pod["spec"]["containers"][0]["env"];
    assert_eq!((&env[0]["value"], &env[1]["value"]), (&"lab".into(), &"INFO".into()));
}

#[test]
fn the_values_of_the_provider_apply_to_an_extension() {
    let values = "multinodeNetworking: {lab: {enabled: true, nicsPerGPU: 1, debug: TRACE}}";
    let folder = folder(&[("lab.yaml", POLICY), ("ours.yaml", EXTENSION), ("values.yaml", values)]);
    let args = ["mutate", "--policy", ".", "--values", "values.yaml", "-q", "-o", "json"];
    // The folder has the values too, which are no policy.
    let run = run_in(folder.path(), &args, POD).exits(0);
    assert_eq!(limits(&run.values()[0])["example.com/nic"], "8");
    assert_eq!(run.values()[0]["spec"]["containers"][0]["env"][1]["value"], "TRACE");
}

#[test]
fn a_built_in_policy_can_be_extended_and_its_tables_too() {
    let extension = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: our-efa}\nspec:\n  \
                     extends: aws-efa\n  machines:\n    node.kubernetes.io/instance-type:\n      lab.large: {efaDevicesPerGPU: 3}\n      \
                     p5.48xlarge: {efaDevicesPerGPU: 2}\n";
    let on = |instance_type: &str| {
        let folder = folder(&[
            ("ours.yaml", extension),
            ("values.yaml", "multinodeNetworking: {aws: {enabled: true}}"),
        ]);
        let pod = POD.replace(
            "spec:\n",
            &format!("spec:\n  nodeSelector:\n    node.kubernetes.io/instance-type: {instance_type}\n"),
        );
        let args = ["mutate", "--policy", "ours.yaml", "--values", "values.yaml", "-q", "-o", "json"];
        let run = run_in(folder.path(), &args, pod).exits(0);
        assert!(stamp(&run.values()[0]).starts_with("our-efa@"));
        limits(&run.values()[0])["vpc.amazonaws.com/efa"].clone()
    };
    assert_eq!(on("lab.large"), "24");
    assert_eq!(on("p5.48xlarge"), "16");
    assert_eq!(on("p5e.48xlarge"), "32");
}

/// The base has each source of a value but those of an operator and of extensions.
const SOURCES: &str = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: lab}\nspec:\n  \
    provider: lab\n  description: d\n  gpus: {resources: [nvidia.com/gpu]}\n  match: {anyAnnotation: {nmp.nvidia.com/enable-multi-node-networking: \"true\"}}\n  \
    parameters:\n    nics: {description: d, default: 1, maximum: 9, fromNodes: example.com/nic}\n    \
    debug: {description: d, default: INFO}\n  \
    variables: {size: small}\n  \
    machines:\n    pool: {\"fast, fast-*\": {nics: 2, size: large}}\n    zone: {a: {nics: 3}}\n  \
    rules:\n    - name: r\n      container:\n        resources:\n          limits: {example.com/nic: \"${devices(1, nics)}\"}\n          \
    requests: {example.com/nic: \"${devices(1, nics)}\"}\n        env: [{name: SIZE, value: \"${size} ${debug}\"}]\n";

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

#[test]
fn an_extension_of_an_extension_has_all_of_both() {
    let third = EXTENSION
        .replace("name: ours", "name: third")
        .replace("extends: lab", "extends: ours")
        .split("  parameters:")
        .next()
        .unwrap()
        .to_owned()
        + "  match:\n    anyAnnotation: {third: \"on\"}\n  rules:\n    - {name: third, container: {env: [{name: THIRD, value: \"${level}\"}]}}\n";
    let folder = folder(&[("a.yaml", &third), ("b.yaml", EXTENSION), ("c.yaml", POLICY)]);
    let pod = POD.replace("nmp.nvidia.com/enable-multi-node-networking: \"true\"", "third: \"on\"");
    let run = run_in(folder.path(), &["mutate", "--policy", ".", "-q", "-o", "json"], pod).exits(0);
    let pod = &run.values()[0];
    assert!(stamp(pod).starts_with("third@"));
    let names: Vec<&str> = pod["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|env| env["name"].as_str())
        .collect();
    assert_eq!(names, ["FABRIC", "NCCL_DEBUG", "THIRD"]);
    // A key of `match` replaces that of the base, which has the pods that are left.
    let run = run_in(folder.path(), &["mutate", "--policy", ".", "-q", "-o", "json"], POD).exits(0);
    assert!(stamp(&run.values()[0]).starts_with("ours@"));
}

#[test]
fn the_digest_covers_base_extension_and_values() {
    let of = |base: &str, extension: &str, args: &[&str]| {
        let folder = folder(&[("lab.yaml", base), ("ours.yaml", extension)]);
        let policies = ["mutate", "--policy", "lab.yaml,ours.yaml", "-q", "-o", "json"];
        stamp(&run_in(folder.path(), &[&policies, args].concat(), POD).exits(0).values()[0])
    };
    let first = of(POLICY, EXTENSION, &[]);
    assert_eq!(of(POLICY, EXTENSION, &[]), first);
    assert_ne!(of(&format!("{POLICY}# more\n"), EXTENSION, &[]), first);
    assert_ne!(of(POLICY, &format!("{EXTENSION}# more\n"), &[]), first);
    assert_ne!(of(POLICY, EXTENSION, &["--set", "nicsPerGPU=3"]), first);
}

#[test]
fn what_the_base_has_is_not_declared_again() {
    refused_at("    - name: debug\n", "    - name: nics\n", "name: nics")
        .says(&["the base `lab` has a rule `nics`", "choose another name"]);
    let base = POLICY.replace(
        "  rules:\n",
        "  variables: {level: x}\n  warnings: [{code: one_gpu, when: \"${false}\", message: m}]\n  rules:\n",
    );
    let folder = folder(&[("lab.yaml", &base), ("ours.yaml", EXTENSION)]);
    let args = ["mutate", "--policy", "lab.yaml,ours.yaml"];
    run_in(folder.path(), &args, POD)
        .exits(2)
        .says(&["the base `lab` has a variable `level`", "ours.yaml:16:"]);
    let base = base.replace("variables: {level: x}", "variables: {other: x}");
    std::fs::write(folder.path().join("lab.yaml"), base).unwrap();
    run_in(folder.path(), &args, POD)
        .exits(2)
        .says(&["the base `lab` has a warning `one_gpu`", "ours.yaml:18:"]);
    refused_at("  extends: lab\n", "  extends: lab\n  provider: ours\n", "provider: ours")
        .says(&["an extension has the `provider` of its base"]);
    refused_at("  extends: lab\n", "  extends: lab\n  matches: {}\n", "matches")
        .says(&["did you mean `match`?"]);
}

#[test]
fn a_parameter_of_the_base_keeps_its_type_and_its_bounds() {
    refused_at("      default: 4\n", "      type: string\n", "type: string")
        .says(&["an extension has the `type` of the parameter `nicsPerGPU` of its base"]);
    refused_at("      default: 4\n", "      minimum: -1\n", "-1")
        .says(&["`minimum` of `nicsPerGPU` allows values that the base `lab` does not"]);
    refused_at("      default: 4\n", "      default: 9\n", "9").says(&["more than its maximum 8"]);
    with(EXTENSION, &["--set", "nicsPerGPU=9"]).exits(2).says(&["maximum 8"]);
}

#[test]
fn a_mistake_is_shown_in_the_file_that_has_it() {
    refused_at("value: ${level}", "value: ${levl}", "levl").says(&["`levl`", "`level`"]);
    let base = POLICY.replace("gpus, nicsPerGPU", "gpus, nicPerGPU");
    let folder = folder(&[("lab.yaml", &base), ("ours.yaml", EXTENSION)]);
    let run = run_in(folder.path(), &["mutate", "--policy", "ours.yaml,lab.yaml"], POD).exits(2);
    let (line, column, text) = place(&base, "nicPerGPU");
    run.writes_nothing().says(&[&format!("lab.yaml:{line}:{column}"), &text]);
    // What fails only when it is evaluated, too.
    refused_at("value: ${level}", "value: ${int(debug)}", "int(debug)").says(&["cannot be evaluated"]);
    refused_at("value: ${level}", "value: \"${int(pod.metadata.annotations['x'])}\"", "x'])")
        .says(&["fails for a sample pod"]);
}

#[test]
fn a_base_is_there_and_extends_nothing_that_extends_it() {
    refused_at("extends: lab", "extends: labs", "labs")
        .says(&["there is no policy `labs` to extend", "did you mean `lab`?"]);
    refused_at("extends: lab", "extends: ours # itself", "ours # itself").says(&["`ours` extends itself"]);
    let circle = POLICY.replace("  provider: lab\n", "  extends: ours\n");
    let folder = folder(&[("lab.yaml", &circle), ("ours.yaml", EXTENSION)]);
    run_in(folder.path(), &["mutate", "--policy", "."], POD)
        .exits(2)
        .writes_nothing()
        .says(&["extends itself"]);
}

#[test]
fn an_installation_has_the_files_of_an_extension_and_of_its_base() {
    let folder = folder(&[("lab.yaml", POLICY), ("ours.yaml", EXTENSION)]);
    let run = run_in(folder.path(), &["manifests", "--policy", "lab.yaml,ours.yaml", "--image", "fi:1"], "")
        .exits(0);
    let documents = run.documents();
    let policies =
        documents.iter().find(|one| one["metadata"]["name"] == "fabric-injector-policies").unwrap();
    assert_eq!(policies["data"]["lab.yaml"], POLICY);
    assert_eq!(policies["data"]["ours.yaml"], EXTENSION);
}

#[test]
fn a_list_of_policies_names_the_base() {
    let text = run(&["policy", "list"], "").exits(0).text().to_owned();
    // The parts of a policy are no base.
    assert!(
        text.contains("aws-efa ") && !text.contains(" extends ") && !text.contains("shared-memory"),
        "{text}"
    );
}

/// The policy of a team: an extension for the pods of a namespace.
fn team(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: team-{name}}}\nspec:\n  \
         extends: lab\n{spec}\n  parameters: {{nicsPerGPU: {{default: {}}}}}\n",
        name.len()
    )
}

#[test]
fn extensions_of_one_base_live_next_to_each_other_and_next_to_the_base() {
    let of = |name: &str| team(name, &format!("  match: {{namespaces: [{name}]}}"));
    let case = |namespace: &str, nics: usize| {
        format!(
            "  - name: {namespace}\n    context: {{namespace: {namespace}}}\n    expect:\n      warnings: []\n      \
             has: {{spec: {{containers: [{{name: train, resources: {{limits: {{example.com/nic: {nics}}}}}}}]}}}}\n"
        )
    };
    let cases = "apiVersion: fabric-injector.io/v1alpha1\nkind: PolicyTest\npolicy: [../lab.yaml, ../a.yaml, ../b.yaml]\n\
        pod:\n  metadata: {annotations: {nmp.nvidia.com/enable-multi-node-networking: 'true'}}\n  \
        spec: {containers: [{name: train, resources: {limits: {nvidia.com/gpu: 1}}}]}\ncases:\n"
        .to_owned()
        + &case("a", 1)
        + &case("bbb", 3)
        + &case("other", 2);
    let folder = folder(&[
        ("lab.yaml", POLICY),
        ("a.yaml", &of("a")),
        ("b.yaml", &of("bbb")),
        ("tests/lab.yaml", &cases),
    ]);
    let run = run_in(folder.path(), &["policy", "test", "tests"], "").exits(0);
    assert!(run.text().ends_with("3 passed, 0 failed\n"), "{}", run.text());
    run_in(folder.path(), &["policy", "check", "."], "")
        .exits(0)
        .says(&["0 errors and 0 warnings in 3 files"]);
    // Without namespaces, a pod matches both, of which none extends the other.
    let both = super::folder(&[("lab.yaml", POLICY), ("a.yaml", &team("a", "")), ("b.yaml", &team("b", ""))]);
    run_in(both.path(), &["mutate", "--policy", "."], POD)
        .exits(1)
        .says(&["`team-a`, `team-b` all match this pod"]);
    shows(&run_in(both.path(), &["policy", "check", "."], "").exits(0), &["policies_overlap", "b.yaml:5:"]);
}

/// A policy that takes two parts, and the parts, of which each takes the third.
const COMPOSED: [(&str, &str); 4] = [
    (
        "whole.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: whole}
spec:
  extends: [sizes, debug]
  provider: lab
  description: A policy of parts
  gpus: {resources: [nvidia.com/gpu]}
  match: {anyAnnotation: {nmp.nvidia.com/enable-multi-node-networking: 'true'}}
  parameters: {level: {default: TRACE}}
  variables:
    sizes: {small: {a: 2}, large: 3}
    fast: ${totalGpus > 1}
  rules:
    - {name: own, container: {env: [{name: SIZE, value: \"${string(sizes.large)}${string(sizes.small.a)}${string(sizes.small.b)}\"}]}}
",
    ),
    (
        "parts/sizes.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: sizes}
spec:
  extends: base
  variables: {sizes: {small: {a: 1, b: 1}, medium: 2}}
",
    ),
    (
        "parts/debug.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: debug}
spec:
  extends: [base]
  rules:
    - {name: debug, when: '${fast}', container: {env: [{name: NCCL_DEBUG, value: '${level}'}]}}
",
    ),
    (
        "parts/base.yaml",
        "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: base}
spec:
  parameters:
    level: {type: string, description: NCCL's log level, default: WARN, enum: [WARN, INFO, TRACE]}
  rules:
    - {name: base, container: {env: [{name: BASE, value: '1'}]}}
",
    ),
];

/// Runs the program in a folder with the composed policy, of which one text is another one.
fn composed(right: &str, wrong: &str, args: &[&str]) -> Run {
    let texts = COMPOSED.map(|(file, text)| (file, text.replacen(right, wrong, 1)));
    assert!(
        right == wrong || texts.iter().zip(COMPOSED).any(|((_, text), (_, before))| text != before),
        "{right}"
    );
    let folder = folder(&texts.each_ref().map(|(file, text)| (*file, text.as_str())));
    run_in(folder.path(), args, POD)
}

/// Fails unless the result of `policy check` has these texts.
#[track_caller]
fn shows(run: &Run, texts: &[&str]) {
    for text in texts {
        assert!(run.text().contains(text), "no `{text}` in\n{}", run.text());
    }
}

const INJECT: [&str; 6] = ["mutate", "--policy", ".", "-q", "-o", "json"];

#[test]
fn a_policy_has_what_its_parts_have_before_its_own() {
    let run = composed("", "", &INJECT).exits(0);
    let env = run.values()[0]["spec"]["containers"][0]["env"].clone();
    let env: Vec<(&str, &str)> = env
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["value"].as_str().unwrap()))
        .collect();
    assert_eq!(env, [("BASE", "1"), ("NCCL_DEBUG", "TRACE"), ("SIZE", "321")]);
    let digest = stamp(&run.values()[0]);
    let changed = composed("value: '1'", "value: '2'", &INJECT).exits(0);
    assert_ne!(stamp(&changed.values()[0]), digest, "the digest covers the parts");
    composed("", "", &["policy", "check", "."]).exits(0).says(&["0 errors and 0 warnings in 4 files"]);
}

#[test]
fn mistakes_in_the_composition_are_shown_where_they_are() {
    for (right, wrong, says) in [
        (
            "value: '${level}'",
            "value: '${levl}'",
            ["parts/debug.yaml:7:", "`levl` is neither a parameter nor a variable"],
        ),
        ("default: TRACE", "default: TRACK", ["whole.yaml:10:", "`TRACK`"]),
        ("'${fast}'", "'${slow}'", ["parts/debug.yaml:7:", "`slow`"]),
        (
            "    fast: ",
            "    sizes2: x\n    fast: ",
            ["whole.yaml:13:", "no expression reads the variable `sizes2`"],
        ),
        ("name: own", "name: debug", ["whole.yaml:15:", "the base `debug` has a rule `debug`"]),
        (
            "sizes: {small: {a: 2}, large: 3}",
            "sizes: x",
            ["whole.yaml:12:", "the base `sizes` has a variable `sizes`"],
        ),
        ("[sizes, debug]", "[sizes, debugg]", ["whole.yaml:5:20", "did you mean `debug`?"]),
        ("extends: [base]", "extends: [debug]", ["parts/debug.yaml:5:13", "extends itself"]),
        ("extends: [base]", "extends: 7", ["parts/debug.yaml:5:12", "`extends`"]),
        (
            "[sizes, debug]",
            "[sizes, debug, aws-efa]",
            ["whole.yaml:6:3", "the `provider` of its base `aws-efa`"],
        ),
        (
            "[sizes, debug]",
            "[aws-efa, oci-sriov]",
            ["whole.yaml:5:22", "`aws-efa` and `oci-sriov` are both policies"],
        ),
        ("  extends: base", "  extend: base", ["parts/sizes.yaml:5:3", "did you mean `extends`?"]),
        (
            "  extends: [base]\n",
            "  extends: [base]\n  gpu: []\n",
            ["parts/debug.yaml:6:3", "did you mean `gpus`?"],
        ),
    ] {
        shows(&composed(right, wrong, &["policy", "check", "."]), &says);
    }
}

#[test]
fn a_part_alone_is_no_policy() {
    composed("", "", &["mutate", "--policy", "parts/debug.yaml,parts/base.yaml"])
        .exits(2)
        .writes_nothing()
        .says(&[
            "`debug` is a part of policies: it has no `match`",
            "parts/debug.yaml:3:18",
            "name it in `extends`",
        ]);
    run(&["mutate", "--policy", "shared-memory"], POD)
        .exits(2)
        .says(&["`shared-memory` is a part of policies"]);
    let run = composed("[sizes, debug]", "[sizes]", &["policy", "check", "."]).exits(0);
    shows(&run, &["unused_part", "parts/debug.yaml:3:18", "no policy here takes the part `debug`"]);
    // A policy that lacks `match` is no part.
    let run = composed("  match: {", "  matches: {", &["policy", "check", "."]).exits(2);
    shows(&run, &["did you mean `match`?"]);
}

#[test]
fn a_way_through_files_that_extend_each_other_ends() {
    let text = |at: usize| {
        let extends = if at == 20 { "{}".to_owned() } else { format!("{{extends: part-{}}}", at + 1) };
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: part-{at}}}\nspec: {extends}\n"
        )
    };
    let files: Vec<(String, String)> = (0..=20).map(|at| (format!("{at}.yaml"), text(at))).collect();
    let folder = folder(&files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect::<Vec<_>>());
    let run = run_in(folder.path(), &["policy", "check", "."], "").exits(2);
    shows(&run, &["more than 16 files extend each other in a row", "15.yaml:4:17"]);
}
