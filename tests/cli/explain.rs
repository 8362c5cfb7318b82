//! `policy explain`: a policy in words, and the reasons for the result of a pod.

use std::collections::BTreeMap;

use fabric_injector::builtin;
use fabric_policy::Effect;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{POD, POLICY, Run, TRIGGER, all_workloads, assert_file_snapshot, folder, place, run, run_in};

/// Runs `policy explain` in a folder with the sample policy and these files.
fn lab(files: &[(&str, &str)], args: &[&str], stdin: &str) -> Run {
    let folder = folder(&[&[("lab.yaml", POLICY)], files].concat());
    run_in(folder.path(), &[&["policy", "explain", "lab.yaml"], args].concat(), stdin)
}

/// The only pod of a run with `-o json`.
#[track_caller]
fn pod(run: &Run) -> Value {
    let value = run.values().remove(0);
    assert_eq!(value["version"], 5);
    assert_eq!(value["pods"].as_array().map(Vec::len), Some(1), "{value}");
    value["pods"][0].clone()
}

/// The entry of a list that has this name.
#[track_caller]
fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    let mut entries = list.as_array().unwrap().iter();
    entries.find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
}

#[test]
fn the_namespace_of_the_option_is_that_of_a_pod_without_one() {
    let policy = POLICY.replace("  match:\n", "  match:\n    namespaces: [team]\n");
    let folder = folder(&[("lab.yaml", &policy), ("pod.yaml", POD)]);
    let explain = ["policy", "explain", "lab.yaml", "-f", "pod.yaml"];
    assert!(run_in(folder.path(), &explain, "").exits(0).text().contains("(match_failed)"));
    let run = run_in(folder.path(), &[&explain[..], &["-n", "team"]].concat(), "").exits(0);
    assert!(run.text().contains("mutated by lab@"), "{}", run.text());
}

#[test]
fn every_parameter_rule_and_code_of_a_built_in_policy_is_in_its_explanation() {
    for policy in builtin::POLICIES {
        let text = run(&["policy", "explain", policy.name], "").exits(0).text().to_owned();
        let json = run(&["policy", "explain", policy.name, "-o", "json"], "").exits(0).values().remove(0);
        let fact = &json["policies"][0];
        let definition = policy.definition().unwrap();
        assert!(text.starts_with(&format!("{}: {}\n", policy.name, definition.description)), "{text}");
        for parameter in &definition.parameters {
            let line = format!("  {}: {} = ", parameter.name, parameter.kind.name());
            assert!(text.contains(&line), "{}: no `{line}`", policy.name);
            assert_eq!(named(&fact["parameters"], &parameter.name)["default"], parameter.default);
        }
        let parts = definition.bases().iter().map(|part| (part.file.as_str(), &*part.text));
        let texts: BTreeMap<&str, &str> = parts.chain([(policy.file, policy.text)]).collect();
        let rules = texts.values().flat_map(|text| {
            let devices = text.split_once("\n  devices:\n").map_or("", |(_, rest)| rest);
            let devices =
                devices.lines().take_while(|line| !line.starts_with("  w") && !line.starts_with("  r"));
            let devices = devices.filter_map(|line| line.strip_prefix("      - name: "));
            let rules = text.split_once("\n  rules:\n").map_or("", |(_, rules)| rules);
            let rules = rules.lines().filter_map(|line| line.strip_prefix("    - name: "));
            devices.chain(rules).map(str::to_owned).collect::<Vec<_>>()
        });
        let rules: Vec<String> = rules.collect();
        assert_eq!(fact["rules"].as_array().unwrap().len(), rules.len(), "{}", policy.name);
        for rule in rules {
            assert!(
                text.lines().any(|line| line.split("  (").next() == Some(&format!("  {rule}"))),
                "{rule}"
            );
            let place = &named(&fact["rules"], &rule)["place"];
            let line = usize::try_from(place["line"].as_u64().unwrap()).unwrap();
            let text = texts[place["file"].as_str().unwrap()];
            assert_eq!(text.lines().nth(line - 1).unwrap().trim(), format!("- name: {rule}"));
        }
        for (key, value) in &definition.matcher.any_annotation {
            assert!(text.contains(&format!("{key}: \"{value}\"")), "{text}");
        }
        assert_eq!(fact["spec"]["nodes"].is_object(), policy.text.contains("\n  nodes:"), "{}", policy.name);
        for name in definition
            .gpus
            .resources
            .iter()
            .map(String::as_str)
            .chain(definition.check_codes(&Effect::WARNINGS))
        {
            assert!(text.contains(name), "{}: no `{name}`", policy.name);
        }
        for code in definition.check_codes(&[Effect::Refuse, Effect::Skip]) {
            let line = format!("\n  {code}\n");
            assert!(text.contains(&line), "{}: no `{code}`", policy.name);
        }
    }
}

#[test]
fn a_policy_says_what_it_adds_and_needs_with_these_parameters() {
    assert_file_snapshot!(lab(&[], &["--set", "nicsPerGPU=3"], "").recorded());
    let off = super::run(&["policy", "explain", "aws-efa", "--set", "ipcLock=false"], "").exits(0);
    let heading = "  locked-memory  (off with these parameters, policies/parts/locked-memory.yaml:";
    assert!(off.text().contains(heading), "{}", off.text());
}

/// A policy with an expression of each kind: those that parameters decide, those of a pod, and those of a machine.
const KINDS: &str = "  parameters:
    size: {description: d, default: 2}
    lib: {description: d, default: ''}
    mine: {description: d, default: [own, class:x.test]}
    rails: {description: d, default: 4}
  machines: {pool: {a*: {rails: 8}}}
  gpus: {resources: [nvidia.com/gpu], claims: {one: '${size}', '${mine}': '${size + 1}'}}
  devices: {resources: [x.test/nic], add: [{name: rail, resources: {x.test/nic: '${rails}'}, networks: net}]}
  rules:
    - name: all
      containers: gpus > 0
      env: {SIZE: 'a${size}b', LIB: '${lib != \"\" ? lib : null}', GPUS: '${gpus}', RAILS: '${rails}'}
      pod: {spec: {volumes: [{name: v, hostPath: {path: /v}}, {name: c, configMap: {name: settings}}]}}
    - name: none
      when: size > 2
      containers: gpus > 0
      container: {securityContext: {privileged: true}}
";

#[test]
fn expressions_that_parameters_decide_have_their_values() {
    let (head, rest) = POLICY.split_once("  gpus: ").unwrap();
    let matched = rest.split_once('\n').unwrap().1.split_once("  parameters:\n").unwrap().0;
    let policy = format!("{head}{matched}{KINDS}");
    let run = lab(&[("lab.yaml", &policy)], &["-o", "json"], "").exits(0);
    let fact = run.values()[0]["policies"][0].clone();
    let spec = &fact["spec"];
    // The language has maps of claims, in which a list of names stands for each of them.
    assert_eq!(spec["gpus"]["claims"], json!({"one": 2, "own": 3, "class:x.test": 3}));
    let env = json!({"SIZE": "a2b", "LIB": null, "GPUS": "${gpus}", "RAILS": "${rails}"});
    assert_eq!(spec["rules"][0]["env"], env);
    assert_eq!(spec["devices"]["add"][0]["resources"], json!({"x.test/nic": "${rails}"}));
    assert_eq!(fact["machines"], json!([{"pool": {"a*": {"rails": 8}}}]));
    let applies = |name: &str| named(&fact["rules"], name)["applies"].clone();
    assert_eq!((applies("all"), applies("none")), (json!(true), json!(false)));
    let needs = fact["needs"].as_array().unwrap().iter().map(|need| (&need["kind"], &need["name"]));
    let needs: Vec<(&str, &str)> =
        needs.map(|(kind, name)| (kind.as_str().unwrap(), name.as_str().unwrap())).collect();
    let wanted = [
        ("device", "x.test/nic"),
        ("network", "net"),
        ("hostPath", "/v"),
        ("object", "ConfigMap settings"),
        ("privilege", "hostPath volumes"),
        ("privilege", "privileged"),
        ("nodeLabel", "pool"),
    ];
    assert_eq!(needs, wanted);
    let changed = lab(&[("lab.yaml", &policy)], &["--set", "size=3", "-o", "json"], "").exits(0);
    let fact = &changed.values()[0]["policies"][0];
    assert_eq!(fact["spec"]["rules"][0]["env"]["SIZE"], "a3b");
    assert_eq!(named(&fact["rules"], "none")["applies"], json!(true));
}

#[test]
fn a_condition_that_parameters_decide_names_these_alone() {
    let policy =
        POLICY.replace("- name: nics\n", "- name: nics\n      when: hostNetwork && nicsPerGPU > 5.0\n");
    let run = lab(&[("lab.yaml", &policy)], &["-f", "-", "-o", "json"], POD).exits(0);
    let when = named(&pod(&run)["rules"], "nics")["when"].clone();
    assert_eq!(when["value"], false);
    assert_eq!(when["reads"], json!([{"name": "nicsPerGPU", "value": 2.0}]));
}

#[test]
fn an_entry_of_devices_names_what_keeps_it_out() {
    let devices = "  devices: {resources: [own.test/nic], add: [{name: rail, resources: {x.test/nic: 1}, networks: net}]}\n";
    let policy = POLICY.replace("  rules:\n", &format!("{devices}  rules:\n"));
    let own = POD.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 8\n        own.test/nic: 1");
    let host = POD.replace("spec:\n", "spec:\n  hostNetwork: true\n");
    for (pod_text, name) in [(own, "ownDevices"), (host, "hostNetwork")] {
        let explain =
            |args: &[&str]| lab(&[("lab.yaml", &policy)], &[&["-f", "-"], args].concat(), &pod_text);
        let found = pod(&explain(&["-o", "json"]).exits(0));
        let rule = named(&found["rules"], "rail");
        assert_eq!((&rule["keptOut"], &rule["applied"]), (&json!(name), &json!(false)), "{rule}");
        let text = explain(&[]).exits(0).text().to_owned();
        assert!(text.contains(&format!("  - rail  kept out: `{name}` is true\n")), "{text}");
    }
}

#[test]
fn a_pod_that_no_policy_matches_has_the_part_of_match_that_fails_and_its_value() {
    let wrong = POD.replace("\"true\"", "\"yes\"");
    let run = lab(&[], &["-f", "-", "-o", "json"], &wrong).exits(0);
    let pod = pod(&run);
    assert_eq!((&pod["outcome"], &pod["reason"]["code"]), (&json!("unchanged"), &json!("trigger_value")));
    let part = &pod["policies"][0]["parts"][0];
    assert_eq!(
        *part,
        json!({"key": "anyAnnotation", "wanted": [format!("{TRIGGER}: true")],
            "seen": [format!("{TRIGGER}: yes")], "holds": false})
    );
    assert_snapshot!(lab(&[], &["-f", "-"], &wrong).recorded(), @r#"
    exit status: 0
    ----- stdout -----
    stdin: document 1: Pod/trainer: unchanged: the annotation `nmp.nvidia.com/enable-multi-node-networking` is `yes`, but only `true` requests the fabric (trigger_value)

    policies
      lab does not match
        anyAnnotation  wanted: nmp.nvidia.com/enable-multi-node-networking: true; the pod has
                       nmp.nvidia.com/enable-multi-node-networking: yes

    near miss: write `nmp.nvidia.com/enable-multi-node-networking: "true"` in `metadata.annotations`: `yes` does not request the fabric (other_trigger_value)
    "#);
}

#[test]
fn a_rule_names_the_values_that_its_condition_reads() {
    let policy = POLICY.replace(
        "  rules:\n    - name: nics\n",
        "  variables:\n    wide: ${nicsPerGPU > 1.0 || totalGpus > 64}\n  \
         rules:\n    - name: nics\n      when: podNamespace == 'default' && !wide\n",
    );
    let run = lab(&[("lab.yaml", &policy)], &["-f", "-", "-o", "json"], POD).exits(0);
    let pod = pod(&run);
    let rule = named(&pod["rules"], "nics");
    assert_eq!((&rule["applied"], &rule["when"]["value"]), (&json!(false), &json!(false)));
    assert_eq!(
        rule["when"]["reads"],
        json!([{"name": "podNamespace", "value": "default"}, {"name": "wide", "value": true}])
    );
    assert_eq!(
        named(&pod["variables"], "wide")["reads"],
        json!([{"name": "nicsPerGPU", "value": 2.0}, {"name": "totalGpus", "value": 8}])
    );
    assert_eq!(pod["reason"]["code"], "no_rule_applies");
}

#[test]
fn a_value_names_the_file_and_line_that_it_comes_from() {
    let policy = POLICY.replace(
        "      minimum: 0\n",
        "      minimum: 0\n    limit:\n      type: integer\n      description: d\n      default: 7\n  machines:\n    \
         pool:\n      f*: {nicsPerGPU: 3}\n      fast: {nicsPerGPU: 4}\n",
    );
    let values = "multinodeNetworking:\n  lab:\n    enabled: true\n    nicsPerGPU:\n      zone:\n        a: 6\n        b*: 5\n      default: 1\n";
    let source = |pod: &str, args: &[&str]| {
        let args = [&["-f", "-", "-o", "json"], args].concat();
        let run = lab(&[("lab.yaml", &policy), ("values.yaml", values)], &args, pod).exits(0);
        let value = named(&self::pod(&run)["parameters"], "nicsPerGPU").clone();
        (value["source"].clone(), value["value"].clone(), value["place"].clone())
    };
    let on = |label: &str| POD.replace("spec:\n", &format!("spec:\n  nodeSelector: {{{label}}}\n"));
    let line = |text: &str, mark: &str, file: &str| json!({"file": file, "line": place(text, mark).0});
    let with = ["--values", "values.yaml"];
    for (found, wanted) in [
        (source(POD, &[]), (json!("default"), json!(2.0), line(&policy, "default: 2", "lab.yaml"))),
        (
            source(&on("pool: FAST"), &[]),
            (json!("machines"), json!(4.0), line(&policy, "fast: {", "lab.yaml")),
        ),
        (source(POD, &with), (json!("valuesDefault"), json!(1.0), line(values, "default: 1", "values.yaml"))),
        (source(&on("pool: Fat"), &[]), (json!("machines"), json!(3.0), line(&policy, "f*: {", "lab.yaml"))),
        (
            source(&on("zone: b1"), &with),
            (json!("valuesTable"), json!(5.0), line(values, "b*: 5", "values.yaml")),
        ),
        (
            source(&on("zone: a"), &with),
            (json!("valuesTable"), json!(6.0), line(values, "a: 6", "values.yaml")),
        ),
        (source(POD, &["--set", "lab.nicsPerGPU=5"]), (json!("set"), json!(5.0), Value::Null)),
    ] {
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_field_that_is_not_added_has_a_reason() {
    let own = POD.to_owned() + "    env:\n    - {name: FABRIC, value: mine}\n";
    assert_snapshot!(lab(&[], &["-f", "-"], &own).recorded(), @"
    exit status: 0
    ----- stdout -----
    stdin: document 1: Pod/trainer: mutated by lab@<digest>

    policies
      lab matches
        anyAnnotation  nmp.nvidia.com/enable-multi-node-networking: true

    pod
      selects    no node label that the policy reads
      container  main, 8 GPUs

    parameters
      nicsPerGPU  2  default (lab.yaml:16)

    rules
      + nics  main: true: `gpus > 0` with gpus = 8

    result
      rule nics  spec.containers[main].resources.limits[example.com/nic] = 16
      rule nics  spec.containers[main].resources.requests[example.com/nic] = 16
      rule nics  spec.containers[main].securityContext.capabilities.add[0] = IPC_LOCK
      stamp      metadata.annotations[fabric-injector.io/injected] = lab@<digest>

    not added
      rule nics  kept  spec.containers[main].env[FABRIC]: stays `mine`; rule `nics` would set `lab`

    warnings
      kept_env, rule nics  `spec.containers[main].env[FABRIC]` stays `mine`; rule `nics` would set `lab`
    ");
    let zero = lab(&[], &["-f", "-", "-o", "json", "--set", "nicsPerGPU=0"], POD).exits(0);
    let zero = pod(&zero);
    let fields = &zero["fields"];
    assert_eq!(fields[0]["because"], "the amount is 0", "{fields}");
    assert_eq!(
        (&fields[1]["state"], &fields[1]["by"]),
        (&json!("added"), &json!({"rule": "nics"})),
        "{fields}"
    );
}

#[test]
fn a_renamed_volume_and_a_refusal_have_their_reasons() {
    let policy = POLICY
        .replace("      env:\n", "        volumeMounts: [{name: cache, mountPath: /cache}]\n      env:\n")
        + "      pod:\n        spec:\n          volumes: [{name: cache, hostPath: {path: /cache}}]\n  \
           checks:\n    - {name: too_small, when: totalGpus < 8, action: refuse, message: too few}\n";
    let own = POD.to_owned() + "  volumes: [{name: cache, emptyDir: {}}]\n";
    let run = lab(&[("lab.yaml", &policy)], &["-f", "-", "-o", "json"], &own).exits(0);
    let renamed = pod(&run);
    let fields = renamed["fields"].as_array().unwrap().clone();
    let volume = fields.iter().find(|field| field["path"].as_str().unwrap().contains("volumes")).unwrap();
    assert_eq!((&volume["path"], &volume["state"]), (&json!("spec.volumes[cache-fabric]"), &json!("added")));
    let small = own.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4");
    assert_snapshot!(lab(&[("lab.yaml", &policy)], &["-f", "-"], &small).recorded(), @"
    exit status: 0
    ----- stdout -----
    stdin: document 1: Pod/trainer: refused: too few (too_small)
      since  true: `totalGpus < 8` with totalGpus = 4

    policies
      lab matches
        anyAnnotation  nmp.nvidia.com/enable-multi-node-networking: true

    pod
      selects    no node label that the policy reads
      container  main, 4 GPUs

    parameters
      nicsPerGPU  2  default (lab.yaml:16)

    rules
      + nics  main: true: `gpus > 0` with gpus = 4
    ");
}

#[test]
fn a_refusal_for_what_the_rules_add_has_the_values_that_it_reads() {
    let check = "  checks:\n    - {name: too_many, when: \"podRequests[?'example.com/nic'].orValue(0) > 4\", action: refuse, message: too many}\n";
    let run = lab(&[("lab.yaml", &(POLICY.to_owned() + check))], &["-f", "-", "-o", "json"], POD).exits(0);
    let reason = &pod(&run)["reason"];
    assert_eq!((&reason["code"], &reason["condition"]["value"]), (&json!("too_many"), &json!(true)));
    let requests = &reason["condition"]["reads"][0]["value"];
    assert!(requests["example.com/nic"].as_i64() > Some(4), "{reason}");
}

#[test]
fn the_pod_of_a_review_is_explained_and_nothing_else_is_a_review() {
    let review = "tests/workloads/admission-review.json";
    let found = run(&["policy", "explain", "aws-efa", "--review", review, "-o", "json"], "").exits(0);
    let pod = pod(&found);
    assert_eq!((&pod["pointer"], &pod["outcome"]), (&json!("/request/object"), &json!("mutated")));
    let review = |text| run(&["policy", "explain", "aws-efa", "--review", "-"], text).recorded();
    assert_snapshot!(review(POD), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1 is of kind Pod, not an AdmissionReview; give manifests with `-f`
    ");
    assert_snapshot!(review(r#"{"kind": "AdmissionReview", "request": {"operation": "UPDATE"}}"#), @"
    exit status: 2
    ----- stderr -----
    error: stdin: the review creates no pod, so the webhook leaves it unchanged
    ");
}

#[test]
fn the_pods_of_a_list_are_explained_as_on_their_own() {
    let item = |pod: &str| format!("- {}", pod.trim_end().replace('\n', "\n  "));
    let second = POD.replace("name: trainer", "name: other");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}\n{}\n", item(POD), item(&second));
    let of =
        |text: &str| lab(&[], &["-f", "-", "-o", "json"], text).exits(0).values().remove(0)["pods"].clone();
    let (mut found, alone) = (of(&list), of(POD));
    let pointers = [&found[0]["pointer"], &found[1]["pointer"]];
    assert_eq!(pointers, [&json!("/items/0"), &json!("/items/1")]);
    for key in ["object", "pointer"] {
        found[0][key] = alone[0][key].clone();
    }
    assert_eq!(found[0], alone[0]);
    // What was explained before a document that cannot be read is whole.
    let broken = lab(&[], &["-f", "-", "-o", "json"], &format!("{POD}---\na: [\n")).exits(2);
    assert_eq!(broken.values()[0]["pods"].as_array().map(Vec::len), Some(1));
}

#[test]
fn each_pod_has_the_outcome_that_mutate_reports() {
    let policies = ["gcp-tcpxo", "gcp-tcpx", "gcp-gib"];
    let workloads = all_workloads();
    let explained =
        run(&[&["policy", "explain"], &policies[..], &["-f", "-", "-o", "json"]].concat(), &workloads);
    let joined = policies.join(",");
    let mutated = run(&["mutate", "--policy", &joined, "--report", "json"], &workloads);
    let of = |values: &[Value], code: &dyn Fn(&Value) -> Value, pointer: &str| -> Vec<[Value; 4]> {
        let pod = |value: &Value| {
            [value["document"].clone(), value[pointer].clone(), value["outcome"].clone(), code(value)]
        };
        values.iter().map(pod).collect()
    };
    let found = explained.values().remove(0)["pods"].as_array().unwrap().clone();
    let found = of(&found, &|pod| pod["reason"]["code"].clone(), "pointer");
    let mut reported = mutated.reports();
    // There is no pod to explain.
    reported.retain(|report| report["reason"] != "no_pod_template");
    assert_eq!(found, of(&reported, &|report| report["reason"].clone(), "path"));
    assert!(found.len() > 50, "{} pods", found.len());
}

#[test]
fn a_request_without_effect_has_the_change_that_gives_it_one() {
    let misspelled = super::POD.replace("enable-multi-node-networking", "enable-multinode-networking");
    assert_ne!(misspelled, super::POD);
    let explained = run(&["policy", "explain", "aws-efa", "-f", "-"], &misspelled).exits(0);
    assert!(explained.text().contains("near miss: "), "{}", explained.text());
    let found = run(&["policy", "explain", "aws-efa", "-f", "-", "-o", "json"], &misspelled).values();
    let miss = &found[0]["pods"][0]["near_misses"][0];
    assert_eq!(miss["code"], "misspelled_trigger");
    let reported = run(&["mutate", "--policy", "aws-efa", "--report", "json"], &misspelled).reports();
    assert_eq!(reported[0]["near_misses"][0], *miss);
}

#[test]
fn mistakes_of_the_usage_say_what_to_write() {
    assert_snapshot!(run(&["policy", "explain"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: no policy is named; write `policy explain NAME`, or `--values FILE` with a provider enabled
    hint: the built-in policies are `aws-efa`, `azure-infiniband`, `coreweave-infiniband`, `doks-roce`, `gcp-gib`, `gcp-tcpx`, `gcp-tcpxo`, `lingjun-rdma`, `nebius-infiniband`, `oci-sriov`, `onprem-rdma`, `vke-rdma`; `fabric-injector policy list` describes them
    ");
    let explain = |file, stdin| run(&["policy", "explain", "aws-efa", "-f", file], stdin).recorded();
    assert_snapshot!(explain("missing.yaml", ""), @"
    exit status: 2
    ----- stderr -----
    error: missing.yaml cannot be read: No such file or directory (os error 2)
    ");
    assert_snapshot!(explain("-", "a: b\n"), @"
    exit status: 0
    ----- stderr -----
    stdin has no pod and no pod template
    ");
    assert_snapshot!(explain("-", "a: [\n"), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 1: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 1
    ");
}

#[test]
fn a_manifest_that_is_named_as_a_policy_gets_the_command_to_type() {
    assert_snapshot!(lab(&[("pod.yaml", POD)], &["pod.yaml"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: pod.yaml is a Pod, not a policy
    hint: `fabric-injector policy explain lab.yaml -f pod.yaml` explains its pods
    ");
    let folder = folder(&[("pod.yaml", POD)]);
    assert_snapshot!(run_in(folder.path(), &["policy", "explain", "pod.yaml"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: pod.yaml is a Pod, not a policy
    hint: `fabric-injector policy explain POLICY -f pod.yaml` explains its pods
    ");
}

#[test]
fn a_policy_can_be_named_by_the_option_of_the_other_commands() {
    let argument = lab(&[], &[], "").exits(0);
    let folder = folder(&[("lab.yaml", POLICY)]);
    let option = run_in(folder.path(), &["policy", "explain", "--policy", "lab.yaml"], "").exits(0);
    assert_eq!(option.text(), argument.text());
    run_in(folder.path(), &["policy", "explain", "aws-efa", "--policy", "lab.yaml"], "").exits(2);
}
