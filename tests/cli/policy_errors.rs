//! Mistakes in a policy file: each is shown with its place, the line and a hint.

use super::{POD, POLICY, Run, folder, place, run_in};

/// Runs `mutate` with a policy.
pub(crate) fn with_policy(policy: &str, pod: &str) -> Run {
    let folder = folder(&[("lab.yaml", policy)]);
    run_in(folder.path(), &["mutate", "--policy", "lab.yaml"], pod)
}

/// Puts a mistake into the sample policy, and fails unless it is shown at the place of the mark.
#[track_caller]
pub(crate) fn mistake(right: &str, wrong: &str, mark: &str) -> Run {
    assert!(POLICY.contains(right), "the sample policy has no `{right}`");
    shown(&POLICY.replacen(right, wrong, 1), mark)
}

/// Fails unless the policy is refused at the place of the mark, with the line.
#[track_caller]
pub(crate) fn shown(policy: &str, mark: &str) -> Run {
    let run = with_policy(policy, POD).exits(2);
    let (line, column, text) = place(policy, mark);
    run.writes_nothing().says(&["error", &format!("lab.yaml:{line}:{column}"), &text]);
    run
}

/// [`mistake`], shown with a hint.
#[track_caller]
fn hinted(right: &str, wrong: &str, mark: &str) -> Run {
    let run = mistake(right, wrong, mark);
    run.says(&["hint: "]);
    run
}

#[test]
fn the_sample_policy_is_right() {
    let run = with_policy(POLICY, POD).exits(0);
    assert_eq!(super::limits(&run.documents()[0])["example.com/nic"], "16");
}

#[test]
fn an_unknown_key_at_any_level_is_shown() {
    hinted("spec:\n", "specs: {}\nspec:\n", "specs").says(&["`specs`"]);
    hinted("  name: lab\n", "  name: lab\n  labels: {}\n", "labels").says(&["`labels`"]);
    hinted("    anyAnnotation:", "    anyAnotation:", "anyAnotation").says(&["`anyAnnotation`"]);
    hinted("      default: 2", "      defualt: 2", "defualt").says(&["`default`"]);
    hinted("      container:", "      containr:", "containr").says(&["`container`"]);
}

#[test]
fn a_required_key_that_is_misspelt_is_shown_as_the_unknown_key_that_it_is() {
    hinted("  gpus:", "  gpu:", "gpu: {").says(&["`gpus`"]);
    hinted("  rules:", "  rulse:", "rulse").says(&["`rules`"]);
}

#[test]
fn an_unknown_parameter_in_an_expression_is_shown() {
    hinted("gpus, nicsPerGPU", "gpus, nicPerGPU", "nicPerGPU").says(&["`nicPerGPU`", "`nicsPerGPU`"]);
}

#[test]
fn an_unknown_parameter_in_a_condition_is_shown() {
    let wrong = "- name: nics\n      when: hostNetwrk";
    hinted("- name: nics", wrong, "hostNetwrk").says(&["`hostNetwrk`", "`hostNetwork`"]);
    let wrong = "- name: nics\n      containers: gpu > 0";
    hinted("- name: nics", wrong, "gpu >").says(&["`gpu`", "`gpus`"]);
}

#[test]
fn an_unknown_parameter_in_a_block_of_text_is_shown_on_its_own_line() {
    let wrong = "FABRIC: |\n              first: ${nicsPerGPU}\n              second: ${nicPerGPU}";
    hinted("FABRIC: lab", wrong, "nicPerGPU").says(&["`nicPerGPU`"]);
}

#[test]
fn a_mistake_in_a_table_is_shown_in_its_entry() {
    let table = |text: &str| format!("      minimum: 0\n  machines: {text}");
    let shown = |text: &str, mark: &str| hinted("      minimum: 0", &table(text), mark);
    shown("{default: 1}", "default: 1}").says(&["not a label"]);
    shown("{pool/: {a: 1}}", "pool/").says(&["qualified name"]);
    shown("{pool: 3}", "3}").says(&["map"]);
    shown("{pool: {a: {nicsPerGPU: -1}}}", "-1").says(&["`nicsPerGPU`", "minimum"]);
    shown("{pool: {a: {nicsPerGPU: {8: few}}}}", "few").says(&["`nicsPerGPU`", "number"]);
    shown("{pool: {a: {nicsPerGPU: {0x8: 1}}}}", "0x8").says(&["number of GPUs"]);
    shown("{pool: {a: {nicsPerGPU: {some: 1}}}}", "some").says(&["number of GPUs"]);
    shown("{pool: {a: {nicsPerGPU: 1}, A: {nicsPerGPU: 2}}}", "nicsPerGPU: 2").says(&["twice"]);
    shown("{pool: {8: {nicsPerGPU: 1}}}", "8: {").says(&["quotes"]);
    let both = "{node.kubernetes.io/instance-type: {a: {nicsPerGPU: 1}}, \
                beta.kubernetes.io/instance-type: {b: {nicsPerGPU: 1}}}";
    shown(both, "beta.").says(&["twice"]);
}

#[test]
fn a_table_without_a_label_is_shown_with_the_way_to_write_one() {
    hinted("      minimum: 0\n", "  machines: {p5: {nicsPerGPU: 4}}\n", "4}")
        .says(&["`nicsPerGPU`", "LABEL: {p5: {nicsPerGPU: …}}"]);
}

#[test]
fn an_expression_without_a_value_on_some_nodes_is_shown_with_these() {
    let table = "      minimum: 0\n  machines: {pool: {a: {nicsPerGPU: 1}}}\n";
    let policy = POLICY.replacen("      minimum: 0\n", table, 1);
    let with = |variable: &str| {
        let spec = format!("spec:\n  variables: {{size: \"{variable}\"}}\n");
        policy.replacen("spec:\n", &spec, 1)
    };
    let unguarded = "${node.pool}";
    shown(&with(unguarded), "pool}")
        .says(&["for a pod that selects no nodes", "`[?'pool']`, and end with `.orValue(…)`"]);
    let unguarded = "${int(node[?'pool'].orValue('1'))}";
    shown(&with(unguarded), &unguarded[2..]).says(&["for a pod that selects `pool: a`"]);
}

#[test]
fn an_expression_without_a_value_for_another_resource_is_shown() {
    let policy = POLICY.replacen("[nvidia.com/gpu]", "[nvidia.com/gpu, aws.amazon.com/neuron]", 1);
    let unguarded = "${string(1 / gpuCounts['nvidia.com/gpu'])}";
    let policy = policy.replacen("FABRIC: lab", &format!("FABRIC: \"{unguarded}\""), 1);
    shown(&policy, "string(1 / gpu").says(&["another resource of GPUs"]);
}

#[test]
fn a_name_that_is_not_known_yet_where_it_is_read_is_shown() {
    hinted("- name: nics", "- name: nics\n      when: gpus > 0", "gpus > 0").says(&["`gpus`"]);
}

#[test]
fn annotations_beside_the_spec_of_a_pod_are_shown() {
    let wrong = "- name: nics\n      pod:\n        annotations: {a: b}\n        spec: {hostIPC: true}";
    hinted("- name: nics", wrong, "annotations: {a").says(&["`annotations`"]);
}

#[test]
fn the_hint_for_annotations_beside_the_spec_names_metadata() {
    let wrong = "- name: nics\n      pod:\n        annotations: {a: b}\n        spec: {hostIPC: true}";
    hinted("- name: nics", wrong, "annotations: {a").says(&["metadata"]);
}

#[test]
fn an_overlay_field_that_no_container_has_is_shown() {
    hinted("        resources:", "        resource:", "resource:").says(&["`resource`", "`resources`"]);
    hinted("FABRIC: lab", "FABRIC: {valeFrom: {}}", "valeFrom").says(&["`valeFrom`"]);
    let wrong = "- name: nics\n      pod:\n        spec:\n          volumes:\n            - name: v\n              emptydir: {}";
    hinted("- name: nics", wrong, "emptydir").says(&["`emptyDir`"]);
}

#[test]
fn an_expression_that_is_not_cel_is_shown() {
    hinted("${devices(gpus, nicsPerGPU)}", "${devices(gpus, }x", "}x").says(&["CEL"]);
}

#[test]
fn an_unknown_function_is_shown() {
    hinted("${devices(gpus", "${device(gpus", "device(").says(&["`device`"]);
}

#[test]
fn an_expression_without_an_end_is_shown() {
    mistake("FABRIC: lab", "FABRIC: ${nicsPerGPU", "${nicsPerGPU").says(&["${"]);
}

#[test]
fn a_policy_that_is_not_idempotent_is_refused_and_its_rule_is_shown() {
    let policy = POLICY
        .replace("- name: nics", "- name: nics\n      onConflict: replace")
        .replace("FABRIC: lab", "FABRIC: \"${size(container.?env.orValue([]))}\"");
    let run = with_policy(&policy, POD).exits(2);
    run.writes_nothing().says(&["idempotent", "lab.yaml:", "hint"]);
    let (line, _, _) = place(&policy, "- name: nics");
    let shown = run.stderr.split("lab.yaml:").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    let shown: usize = shown.parse().unwrap();
    assert!(
        (line..=line + 12).contains(&shown),
        "line {shown} is shown, the rule stands on {line}:\n{}",
        run.stderr
    );
}

#[test]
fn what_other_engines_write_is_told_in_the_words_of_this_one() {
    let check = "  checks: [{code: many, when: totalGpus > 8, deny: many}]\n  rules:\n";
    for (right, wrong, mark, says) in [
        (
            "- name: nics",
            "- name: nics\n      preconditions: {all: []}",
            "preconditions",
            "write `when` for the pod",
        ),
        ("- name: nics", "- name: nics\n      foreach: []", "foreach", "write `containers`"),
        ("  rules:\n", check, "deny", "under `refuse` in an entry of `checks`"),
        ("FABRIC: lab", "+(FABRIC): lab", "+(FABRIC)", "the value of the pod stays"),
        (
            "FABRIC: lab",
            "FABRIC: ${request.namespace}",
            "request.namespace",
            "`podNamespace` for its namespace",
        ),
        ("FABRIC: lab", "FABRIC: ${element.name}", "element.name", "write `container`"),
    ] {
        let run = mistake(right, wrong, mark);
        run.says(&[says]);
        assert_eq!(run.stderr.matches("error").count(), 1, "{}", run.stderr);
    }
}

#[test]
fn a_name_that_is_not_known_is_told_with_those_that_the_place_can_read() {
    let run = mistake("- name: nics", "- name: nics\n      when: xyz", "xyz");
    assert!(run.stderr.contains("`totalGpus`") && !run.stderr.contains("`container`"), "{}", run.stderr);
}

#[test]
fn a_policy_has_a_bounded_number_of_files() {
    let files = |count: usize| {
        let file = |at| format!("    - {{path: /etc/f{at}.conf, variables: [FABRIC]}}\n");
        POLICY.replace(
            "  rules:\n",
            &format!("  files:\n{}  rules:\n", (0..count).map(file).collect::<String>()),
        )
    };
    with_policy(&files(64), POD).exits(0);
    shown(&files(65), "{path: /etc/f64.conf").says(&["the policy has 65 files, more than 64"]);
}

#[test]
fn a_check_of_what_is_no_variable_has_one_error() {
    let check = "  checks: [{code: c, env: 'NCCL_*', when: value == '1', warn: seen}]\n  rules:\n";
    let run = mistake("  rules:\n", check, "'NCCL_*'");
    run.says(&["write one name"]);
    assert!(!run.stderr.contains("`value` is"), "{}", run.stderr);
}

#[test]
fn a_check_has_a_code_of_its_own() {
    for code in ["kept_env", "conflict"] {
        let check = format!("{{code: {code}, when: totalGpus > 8, warn: many}}");
        mistake("  rules:\n", &format!("  checks: [{check}]\n  rules:\n"), &check)
            .says(&[code, "choose another code"]);
    }
}

#[test]
fn a_policy_that_fails_for_ordinary_pods_is_refused() {
    let policy = POLICY.replace("FABRIC: lab", "FABRIC: ${pod.metadata.labels.team}");
    with_policy(&policy, POD).exits(2).writes_nothing().says(&[
        "pod.metadata.labels.team",
        "lab.yaml:",
        "hint",
    ]);
}

#[test]
fn another_api_version_or_kind_is_shown() {
    hinted("io/v1alpha1", "io/v1", "fabric-injector.io/v1").says(&["fabric-injector.io/v1alpha1"]);
    hinted("kind: FabricPolicy", "kind: ClusterPolicy", "ClusterPolicy").says(&["FabricPolicy"]);
}

#[test]
fn a_repeated_key_is_shown() {
    let policy = POLICY.replace("  provider: lab\n", "  provider: lab\n  provider: bal\n");
    let run = with_policy(&policy, POD).exits(2);
    run.writes_nothing().says(&["lab.yaml:7:3", "provider: bal", "`provider`"]);
}

#[test]
fn a_file_that_is_no_yaml_or_no_policy_is_shown() {
    with_policy("a: [\n", POD).exits(2).writes_nothing().says(&["lab.yaml:"]);
    with_policy("", POD).exits(2).writes_nothing().says(&["lab.yaml", "hint"]);
    with_policy("- a\n", POD).exits(2).writes_nothing().says(&["lab.yaml:1:1", "- a"]);
    with_policy(POD, POD).exits(2).writes_nothing().says(&["lab.yaml:2:7", "no policy"]);
}

#[test]
fn a_policy_is_checked_before_any_document_is_served() {
    with_policy(&POLICY.replace("- name: nics", "- nam: nics"), "a: [").exits(2).writes_nothing();
}
