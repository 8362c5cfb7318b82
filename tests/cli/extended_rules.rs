//! Rules of extensions and of their bases that set one value, and what an extension leaves out.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{POD, POLICY, Run, folder, run_in};

/// An extension of the sample policy with these keys of `spec`.
fn extension(keys: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: ours}}\nspec:\n  extends: lab\n{keys}"
    )
}

/// Injects a pod by an extension of a base.
fn injected(base: &str, keys: &str, pod: &str) -> Run {
    let folder = folder(&[("lab.yaml", base), ("ours.yaml", &extension(keys))]);
    let args = ["mutate", "--policy", "lab.yaml,ours.yaml", "-o", "json", "--report", "json"];
    run_in(folder.path(), &args, pod)
}

/// The value of `FABRIC` of the pod that comes out, and the codes of the warnings.
fn fabric(run: &Run) -> (String, Vec<String>) {
    let pod = &run.values()[0];
    let env = pod["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    let entries: Vec<&Value> = env.iter().filter(|entry| entry["name"] == "FABRIC").collect();
    assert!(entries.len() < 2, "{env:?}");
    let value = entries.first().map_or("", |entry| entry["value"].as_str().unwrap()).to_owned();
    let warnings = run.reports()[0]["warnings"].as_array().cloned().unwrap_or_default();
    let codes = warnings.iter().map(|warning| warning["code"].as_str().unwrap().to_owned());
    (value, codes.collect())
}

const OURS: &str = "  rules:\n    - {name: ours, env: {FABRIC: ours}}\n";

#[test]
fn a_rule_of_an_extension_replaces_the_value_of_its_base_and_not_that_of_the_pod() {
    let own = POD.replace("    resources:", "    env: [{name: FABRIC, value: own}]\n    resources:");
    let replaces = POLICY.replace("- name: nics", "- name: nics\n      onConflict: replace");
    for base in [POLICY, &replaces] {
        let run = injected(base, OURS, POD).exits(0);
        assert_eq!(fabric(&run), ("ours".to_owned(), vec![]), "{base}");
        // The API server may ask again for the pod that came out.
        let again = injected(base, OURS, &run.values()[0].to_string()).exits(0);
        assert_eq!(
            (&again.reports()[0]["outcome"], fabric(&again).1),
            (&json!("unchanged"), vec![]),
            "{base}"
        );
        let run = injected(base, OURS, &own).exits(0);
        assert_eq!(fabric(&run), ("own".to_owned(), vec!["kept_env".to_owned()]), "{base}");
        assert!(
            run.reports()[0]["warnings"][0]["message"]
                .as_str()
                .unwrap()
                .contains("rule `ours` would set `ours`")
        );
        let insists = OURS.replace("name: ours,", "name: ours, onConflict: replace,");
        let run = injected(base, &insists, &own).exits(0);
        assert_eq!(fabric(&run), ("ours".to_owned(), vec!["replaced".to_owned()]), "{base}");
    }
}

#[test]
fn the_value_of_the_base_stays_where_the_rule_of_the_extension_does_not_apply() {
    let few = OURS.replace("name: ours,", "name: ours, when: totalGpus < 8,");
    assert_eq!(fabric(&injected(POLICY, &few, POD).exits(0)), ("lab".to_owned(), vec![]));
    let fewer = POD.replace("gpu: 8", "gpu: 4");
    assert_eq!(fabric(&injected(POLICY, &few, &fewer).exits(0)), ("ours".to_owned(), vec![]));
    let other = OURS.replace("name: ours,", "name: ours, containers: container.name == 'other',");
    assert_eq!(fabric(&injected(POLICY, &other, POD).exits(0)), ("lab".to_owned(), vec![]));
    // A rule that applies decides, also by leaving the variable out.
    let none = OURS.replace("FABRIC: ours", "FABRIC: \"${totalGpus > 4 ? null : 'few'}\"");
    assert_eq!(fabric(&injected(POLICY, &none, POD).exits(0)), (String::new(), vec![]));
}

#[test]
fn fields_amounts_annotations_and_volumes_of_an_extension_precede_those_of_its_base() {
    let base = format!(
        "{POLICY}    - name: more\n      pod:\n        metadata: {{annotations: {{a: base}}}}\n        spec:\n          \
         hostname: base\n          volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]\n          \
         initContainers: [{{name: helper, image: base, workingDir: /base}}]\n      \
         container: {{workingDir: /base, volumeMounts: [{{name: shm, mountPath: /dev/shm}}]}}\n"
    );
    let keys = "  rules:\n    - name: ours\n      pod:\n        metadata: {annotations: {a: ours}}\n        spec:\n          \
         hostname: ours\n          volumes: [{name: shm, emptyDir: {sizeLimit: 8Gi}}]\n          \
         initContainers: [{name: helper, image: ours}]\n      \
         container: {workingDir: /ours, resources: {limits: {example.com/nic: 3}, requests: {example.com/nic: 3}}}\n";
    let run = injected(&base, keys, POD).exits(0);
    let pod = &run.values()[0];
    assert_eq!(run.reports()[0]["warnings"], json!([]), "{}", run.reports()[0]);
    assert_eq!(pod["metadata"]["annotations"]["a"], "ours");
    let spec = &pod["spec"];
    assert_eq!(spec["hostname"], "ours");
    assert_eq!(spec["volumes"], json!([{"name": "shm", "emptyDir": {"sizeLimit": "8Gi"}}]));
    let helper = &spec["initContainers"][0];
    assert_eq!((&helper["image"], &helper["workingDir"]), (&json!("ours"), &json!("/base")));
    let main = &spec["containers"][0];
    assert_eq!((&main["workingDir"], &main["volumeMounts"][0]["name"]), (&json!("/ours"), &json!("shm")));
    assert_eq!(main["resources"]["limits"]["example.com/nic"], 3);
}

#[test]
fn a_policy_precedes_the_parts_that_it_takes() {
    let part = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: part}\nspec:\n  \
                rules: [{name: of-the-part, containers: gpus > 0, env: {FABRIC: part, PART: part}}]\n";
    let policy = POLICY.replace("spec:\n", "spec:\n  extends: part\n");
    let folder = folder(&[("lab.yaml", &policy), ("part.yaml", part)]);
    let args = ["mutate", "--policy", ".", "-o", "json", "--report", "json"];
    assert_eq!(fabric(&run_in(folder.path(), &args, POD).exits(0)), ("lab".to_owned(), vec![]));
    run_in(folder.path(), &["policy", "check", "."], "").exits(0).says(&["0 errors and 0 warnings"]);
}

#[test]
fn an_extension_leaves_out_rules_entries_checks_and_files() {
    let base = POLICY.replace(
        "  rules:\n",
        "  devices: {resources: [example.com/nic], add: [{name: rail, resources: {example.com/rail: 1}}]}\n  \
         checks: [{name: always, when: totalGpus > 0, message: base}]\n  \
         files: {/etc/fabric.conf: {variables: [FABRIC]}}\n  rules:\n",
    );
    let all = injected(&base, "", POD).exits(0);
    assert_eq!(fabric(&all), ("lab".to_owned(), vec!["always".to_owned()]));
    assert!(!all.values()[0]["spec"]["volumes"].is_null());
    // A name that is left out is free.
    let keys = "  without: [nics, rail, always, /etc/fabric.conf]\n  \
                rules: [{name: nics, env: {OTHER: \"1\"}}]\n";
    let run = injected(&base, keys, POD).exits(0);
    assert_eq!(fabric(&run), (String::new(), vec![]));
    let pod = &run.values()[0];
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"], json!({"nvidia.com/gpu": 8}));
    assert!(pod["spec"]["volumes"].is_null());
}

#[test]
fn an_explanation_says_which_rule_sets_a_value_instead() {
    let folder = folder(&[("lab.yaml", POLICY), ("ours.yaml", &extension(OURS)), ("pod.yaml", POD)]);
    let args = ["policy", "explain", "lab.yaml", "ours.yaml", "-f", "pod.yaml"];
    let run = run_in(folder.path(), &args, "").exits(0);
    assert_snapshot!(run.recorded(), @"
    exit status: 0
    ----- stdout -----
    pod.yaml: document 1: Pod/trainer: mutated by ours@<digest>

    policies
      lab matches
        anyAnnotation  nmp.nvidia.com/enable-multi-node-networking: true
      ours matches
        anyAnnotation  nmp.nvidia.com/enable-multi-node-networking: true

    pod
      selects    no node label that the policy reads
      container  main, 8 GPUs

    parameters
      nicsPerGPU  2  default (lab.yaml:16)

    rules
      + nics  main: true: `gpus > 0` with gpus = 8
      + ours  main: true: `ranks`

    result
      rule nics  spec.containers[main].resources.limits[example.com/nic] = 16
      rule nics  spec.containers[main].resources.requests[example.com/nic] = 16
      rule nics  spec.containers[main].securityContext.capabilities.add[0] = IPC_LOCK
      rule ours  spec.containers[main].env[FABRIC] = ours
      stamp      metadata.annotations[fabric-injector.io/injected] = ours@<digest>

    not added
      rule nics  left out  spec.containers[main].env[FABRIC]: rule `ours` takes precedence
    ");
    let nothing = extension(&OURS.replace("FABRIC: ours", "FABRIC: null"));
    let files = [("lab.yaml", POLICY), ("ours.yaml", nothing.as_str()), ("pod.yaml", POD)];
    let run = run_in(super::folder(&files).path(), &args, "").exits(0);
    assert!(!run.text().contains("FABRIC] = "), "{}", run.text());
    assert_snapshot!(run.recorded().split_once("not added\n").unwrap().1, @"
    rule ours  left out  spec.containers[main].env.FABRIC: `null` leaves it out
    rule nics  left out  spec.containers[main].env.FABRIC: rule `ours` takes precedence
    ");
}

#[test]
fn images_claims_and_requests_of_an_extension_precede_those_of_its_base() {
    let base = format!(
        "{POLICY}    - name: more\n      containers: gpus > 0\n      container:\n        resources: {{limits: {{cpu: 4}}, \
         requests: {{cpu: 4}}}}\n      pod:\n        spec:\n          resourceClaims: [{{name: c, \
         resourceClaimTemplateName: base}}]\n          initContainers: [{{name: helper, image: base, command: [x]}}]\n"
    );
    let keys = |image: &str| {
        format!(
            "  rules:\n    - name: ours\n      containers: gpus > 0\n      container: {{resources: {{requests: {{cpu: \
             2}}}}}}\n      pod:\n        spec:\n          resourceClaims: [{{name: c, resourceClaimTemplateName: ours}}]\n          \
             initContainers: [{{name: helper, image: {image}}}]\n"
        )
    };
    let run = injected(&base, &keys("ours"), POD).exits(0);
    let spec = &run.values()[0]["spec"];
    let resources = &spec["containers"][0]["resources"];
    assert_eq!((&resources["limits"]["cpu"], &resources["requests"]["cpu"]), (&json!(4), &json!(2)));
    assert_eq!(spec["resourceClaims"][0]["resourceClaimTemplateName"], "ours");
    let helper = &spec["initContainers"][0];
    assert_eq!((&helper["image"], &helper["command"]), (&json!("ours"), &json!(["x"])));
    let again = injected(&base, &keys("ours"), &run.values()[0].to_string()).exits(0);
    let report = &again.reports()[0];
    assert_eq!((&report["outcome"], &report["warnings"]), (&json!("unchanged"), &json!([])));

    // The API server refuses a container without an image.
    let run = injected(&base, &keys("\"${totalGpus > 8 ? 'many' : null}\""), POD).exits(0);
    assert!(run.values()[0]["spec"]["initContainers"].is_null());
    assert_eq!(fabric(&run).1, ["no_such_container", "no_such_container"]);
}

#[test]
fn one_of_many_rules_for_a_value_has_it() {
    let rules = |prefix: &str, count: usize| {
        let rule = |at| {
            format!("    - {{name: {prefix}-{at}, when: totalGpus == {at}, env: {{X: {prefix}-{at}}}}}\n")
        };
        (0..count).map(rule).collect::<String>()
    };
    let run = injected(
        &format!("{POLICY}{}", rules("base", 1000)),
        &format!("  rules:\n{}", rules("ours", 100)),
        POD,
    )
    .exits(0);
    let env = run.values()[0]["spec"]["containers"][0]["env"].clone();
    let set: Vec<&Value> = env.as_array().into_iter().flatten().filter(|one| one["name"] == "X").collect();
    assert_eq!(set, [&json!({"name": "X", "value": "ours-8"})], "{env}");
}

#[test]
fn null_leaves_out_the_variable_of_the_base() {
    let base = format!("{POLICY}    - {{name: base, env: {{X: base, Z: base}}}}\n");
    let rule = |value: &str| format!("  rules:\n    - name: ours\n      env:\n        X: {value}\n");
    for value in ["null", "\"${null}\""] {
        let run = injected(&base, &rule(value), POD).exits(0);
        let env = run.values()[0]["spec"]["containers"][0]["env"].to_string();
        assert!(env.contains("\"Z\"") && !env.contains("\"X\""), "{value}: {env}");
    }
    assert_snapshot!(injected(&base, &rule(""), POD).recorded(), @r#"
    exit status: 2
    ----- stderr -----
    {"outcome":"error","file":null,"document":null,"code":"bad_usage","message":"error: `X` has no value\n --> ours.yaml:9:10\n  |\n9 |         X: \n  |          ^\n  |\n  = hint: write a string or a whole number, or leave the variable out; in an extension, `null` leaves out that of the base"}
    "#);
    // Without a base, there is nothing to leave out.
    let alone = format!("{POLICY}    - {{name: base, env: {{X: null}}}}\n");
    assert_snapshot!(injected(&alone, &rule("a"), POD).recorded(), @r#"
    exit status: 2
    ----- stderr -----
    {"outcome":"error","file":null,"document":null,"code":"bad_usage","message":"error: `X` has no value\n  --> lab.yaml:30:29\n   |\n30 |     - {name: base, env: {X: null}}\n   |                             ^^^^\n   |\n   = hint: write a string or a whole number, or leave the variable out; in an extension, `null` leaves out that of the base"}
    "#);
}

#[test]
fn an_image_that_an_extension_leaves_out_adds_no_container() {
    let base = format!(
        "{POLICY}    - name: base\n      pod: {{spec: {{containers: [{{name: helper, image: base, env: [{{name: A, value: a}}]}}]}}}}\n"
    );
    let extension = "  parameters:\n    helperImage: {description: d, type: string}\n  rules:\n    - name: ours\n      pod: {spec: \
                     {containers: [{name: helper, image: '${helperImage}'}]}}\n";
    let run = injected(&base, extension, POD).exits(0);
    assert_eq!(run.values()[0]["spec"]["containers"].as_array().map(Vec::len), Some(1));
    assert_eq!(fabric(&run).1, ["no_such_container", "no_such_container"]);
}
