//! The examples of the pages about the language work as they stand there.

use serde_json::{Value, json};

use super::policy_errors::with_policy;
use super::{POD, POLICY, documents, efa, file, folder, limits, run_in};

/// The first key of a values file.
const VALUES: &str = "multinodeNetworking:";

const PAGES: [&str; 3] = ["docs/policy.md", "docs/policy-values.md", "docs/extending.md"];

/// The text of every fenced `yaml` block of the pages about the language.
fn examples() -> Vec<String> {
    examples_of(&PAGES.map(file).concat())
}

fn examples_of(text: &str) -> Vec<String> {
    let blocks = text.split("```yaml\n").skip(1);
    blocks.map(|block| block.split_once("```").expect("a block ends").0.to_owned()).collect()
}

/// The text, each line so many blanks further in.
fn indented(text: &str, blanks: usize) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{}{line}\n", " ".repeat(blanks))).collect();
    lines.concat()
}

/// A policy whose only rule has this piece in it; where it belongs tells its first key.
fn policy_around(example: &str) -> String {
    let key = example.split(':').next().unwrap();
    let rule = match key {
        "env" => indented(example, 6),
        "when" => indented(example, 6) + "      env: {A: b}\n",
        "annotations" => format!("      pod:\n        metadata:\n{}", indented(example, 10)),
        "devices" if example.contains("\nrules:\n") => {
            return POLICY.split_once("  rules:\n").unwrap().0.to_owned() + &indented(example, 2);
        }
        "devices" => return with_spec(example),
        "gpus" => {
            let policy = POLICY.replace("  gpus: {resources: [nvidia.com/gpu]}\n", &indented(example, 2));
            return policy.replace("FABRIC", "EXAMPLE");
        }
        "provider" => {
            let policy = POLICY.replace("  provider: lab\n", &indented(example, 2));
            return policy.replace("FABRIC", "EXAMPLE");
        }
        "match" => {
            let rule = "  rules: [{name: example, env: {A: b}}]\n";
            return POLICY.split_once("  match:\n").unwrap().0.to_owned() + &indented(example, 2) + rule;
        }
        "parameters" => {
            let (head, rest) = POLICY.split_once("  parameters:\n").unwrap();
            let rules = rest.split_once("  rules:\n").unwrap().1.replace("FABRIC", "EXAMPLE");
            return format!("{head}{}  rules:\n{rules}", indented(example, 2));
        }
        "rules" => return POLICY.split_once("  rules:\n").unwrap().0.to_owned() + &indented(example, 2),
        "machines" => return with_spec(&format!("variables: {{family: other}}\n{example}")),
        "checks" => return with_spec(example),
        "variables" | "files" => {
            let example = example.replace("${profileName}", "h100").replace("profileName", "'h100'");
            return with_spec(&example.replace("    when: settingsFile\n", ""));
        }
        other => panic!("tell this test where the example that begins with `{other}` belongs"),
    };
    format!("{}  rules:\n    - name: example\n{rule}", POLICY.split_once("  rules:\n").unwrap().0)
}

/// The sample policy with another piece of `spec`.
fn with_spec(example: &str) -> String {
    let head = POLICY.split_once("  rules:\n").unwrap().0;
    let rule = "  rules:\n    - name: example\n      env: {A: b}\n";
    format!("{head}{}{rule}", indented(example, 2))
}

/// The pod that comes out for the example that has this text in it.
fn served(mark: &str, pod: &Value) -> Value {
    let example = examples().into_iter().find(|example| example.contains(mark)).expect(mark);
    let run = with_policy(&policy_around(&example), &pod.to_string()).exits(0);
    run.says(&["mutated"]);
    run.values().remove(0)
}

#[test]
fn every_example_is_taken_by_the_program() {
    let examples = examples();
    for page in PAGES {
        assert!(file(page).contains("```yaml\n"), "{page}");
    }
    for example in examples.into_iter().filter(|example| !example.starts_with(VALUES)) {
        let whole = example.starts_with("apiVersion:");
        let policy = if whole { example } else { policy_around(&example) };
        // `FABRIC` is of the sample policy and not of the examples.
        assert!(!policy.contains("FABRIC"), "{policy}");
        with_policy(&policy, POD).exits(0);
        if whole {
            let folder = folder(&[("lab.yaml", &policy)]);
            let run = run_in(folder.path(), &["policy", "check", "lab.yaml", "--fail-on-warning"], "");
            run.exits(0);
        }
    }
}

#[test]
fn the_first_example_is_a_whole_policy_that_serves_a_pod() {
    let run = with_policy(&examples()[0], POD).exits(0);
    run.says(&["mutated by lab-roce@"]);
    let pod = &run.documents()[0];
    assert_eq!(limits(pod)["nvidia.com/roce"], "16");
    assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": "NCCL_IB_GID_INDEX", "value": "3"}]));
    let half =
        POD.replace("spec:\n", "spec:\n  nodeSelector: {node.kubernetes.io/instance-type: LAB-H100-half}\n");
    assert_eq!(limits(&with_policy(&examples()[0], &half).exits(0).documents()[0])["nvidia.com/roce"], "4");
}

#[test]
fn the_example_of_a_condition_is_for_one_pool() {
    let example = examples().into_iter().find(|example| example.starts_with("match:")).unwrap();
    let mutate = |pod: &str| with_policy(&policy_around(&example), pod).exits(0);
    mutate(POD).says(&["skipped: the condition"]);
    mutate(&POD.replace("spec:\n", "spec:\n  nodeSelector: {pool: h100}\n")).says(&["mutated by lab@"]);
}

#[test]
fn the_example_of_an_extension_has_a_value_a_machine_and_a_rule_of_its_own() {
    let example = examples().into_iter().find(|example| example.contains("extends: aws-efa")).unwrap();
    let efa = |pod: &str| {
        let run = with_policy(&example, pod).exits(0);
        run.says(&["mutated by our-efa@"]);
        let pod = run.documents().remove(0);
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap().clone();
        assert!(env.contains(&json!({"name": "NCCL_DEBUG", "value": "INFO"})), "{env:?}");
        assert!(!pod.to_string().contains("amazon-efa"), "{pod}");
        limits(&pod)["vpc.amazonaws.com/efa"].clone()
    };
    assert_eq!(efa(POD), "8");
    let on = |name: &str| {
        POD.replace(
            "spec:\n",
            &format!("spec:\n  nodeSelector: {{node.kubernetes.io/instance-type: {name}}}\n"),
        )
    };
    assert_eq!(efa(&on("p9.48xlarge")), "32");
    assert_eq!(efa(&on("p5en.48xlarge")), "16");
}

#[test]
fn the_example_of_a_table_in_a_values_file_gives_each_pool_its_devices() {
    let example = examples().into_iter().find(|example| example.starts_with(VALUES)).unwrap();
    let folder = folder(&[("values.yaml", &example)]);
    let on = |pool: &str| POD.replace("spec:\n", &format!("spec:\n  nodeSelector: {{pool: {pool}}}\n"));
    for (pod, devices) in [(on("p4d"), "4"), (on("p5"), "32"), (on("other"), "8")] {
        let run = run_in(folder.path(), &["mutate", "--values", "values.yaml"], &pod).exits(0);
        assert_eq!(efa(&run), devices);
    }
}

#[test]
fn the_example_of_a_list_in_a_string_puts_its_entry_in_front() {
    let mut pod = documents(POD).remove(0);
    let value = |pod: &Value| pod["spec"]["containers"][0]["env"][0]["value"].clone();
    assert_eq!(value(&served("$(LD_LIBRARY_PATH)", &pod)), "/usr/local/nvidia/lib64");
    pod["spec"]["containers"][0]["env"] = json!([{"name": "LD_LIBRARY_PATH", "value": "/opt/lib:/lib"}]);
    let after = served("$(LD_LIBRARY_PATH)", &pod);
    assert_eq!(value(&after), "/usr/local/nvidia/lib64:/opt/lib:/lib");
}

#[test]
fn the_example_of_devices_attaches_those_that_a_pod_requests() {
    const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
    let mut pod = documents(POD).remove(0);
    pod["spec"]["containers"][0]["resources"]["limits"]["rdma/vf"] = json!(2);
    let networks = |pod: &Value| pod["metadata"]["annotations"][NETWORKS].as_str().unwrap().to_owned();
    let plain: Vec<String> =
        networks(&served("virtual-functions", &pod)).split(',').map(|name| name.trim().to_owned()).collect();
    assert_eq!(plain, ["rdma-vf", "rdma-vf"]);
    pod["metadata"]["annotations"][NETWORKS] = json!(r#"[{"name":"storage"}]"#);
    let list: Value = serde_json::from_str(&networks(&served("virtual-functions", &pod))).unwrap();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    assert_eq!(names, ["storage", "rdma-vf", "rdma-vf"]);
}

#[test]
fn the_example_of_a_list_of_objects_adds_what_the_pod_lacks() {
    const INTERFACES: &str = "networking.gke.io/interfaces";
    let mut pod = documents(POD).remove(0);
    pod["metadata"]["annotations"][INTERFACES] = json!(r#"[{"interfaceName":"eth0","network":"default"}]"#);
    let after = served("interfaces[interfaceName]", &pod);
    assert_eq!(
        after["metadata"]["annotations"][INTERFACES],
        r#"[{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth1","network":"rdma-0"}]"#
    );
}

#[test]
fn the_example_of_gpus_by_claim_counts_them() {
    let mut pod = documents(POD).remove(0);
    pod["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "g"}]});
    pod["spec"]["resourceClaims"] = json!([{"name": "g", "resourceClaimTemplateName": "team-gpus"}]);
    assert_eq!(limits(&served("single-gpu: 1", &pod))["example.com/nic"], "16");
}

#[test]
fn the_example_of_devices_leaves_a_pod_its_own() {
    let mut pod = documents(POD).remove(0);
    assert_eq!(limits(&served("devices:\n  resources:", &pod))["rdma/vf"], "8");
    pod["spec"]["containers"][0]["resources"]["limits"]["rdma/ib"] = json!(8);
    let example =
        examples().into_iter().find(|example| example.starts_with("devices:\n  resources:")).unwrap();
    let run = with_policy(&policy_around(&example), &pod.to_string()).exits(0);
    run.says(&["the pod requests `rdma/ib` itself"]);
}

/// The fields of Kyverno's patch, with the values that its expressions have for the sample pod.
#[test]
fn the_port_of_a_kyverno_policy_adds_what_the_original_adds() {
    let examples = examples_of(&file("docs/kyverno.md"));
    let [original, port] = &examples[..] else { panic!("{examples:?}") };
    let original = documents(original).remove(0);
    let patch = &original["spec"]["rules"][0]["mutate"]["foreach"][0]["patchStrategicMerge"]["spec"];
    let run = with_policy(port, POD).exits(0);
    let pod = &run.documents()[0]["spec"];
    let (wanted, container) = (&patch["containers"][0], &pod["containers"][0]);
    for field in ["env", "securityContext", "volumeMounts"] {
        assert_eq!(container[field], wanted[field], "{field}");
    }
    for kind in ["requests", "limits"] {
        for (name, expression) in wanted["resources"][kind].as_object().unwrap() {
            assert_eq!(expression, r#"{{ element.resources.limits."nvidia.com/gpu" }}"#);
            assert_eq!(container["resources"][kind][name], "8", "{kind} {name}");
        }
    }
    assert_eq!(pod["volumes"], patch["volumes"]);
}

#[test]
fn the_port_of_a_kyverno_policy_keeps_what_the_pod_has() {
    const SHARED: &str = "nv-shared-memory";
    let port = examples_of(&file("docs/kyverno.md")).remove(1);
    let mut pod = documents(POD).remove(0);
    let container = &mut pod["spec"]["containers"][0];
    container["resources"]["limits"]["rdma/hca_shared_devices_a"] = json!(2);
    container["env"] = json!([{"name": "NCCL_SOCKET_IFNAME", "value": "eth1"}]);
    container["securityContext"] = json!({"capabilities": {"add": ["NET_ADMIN"]}});
    pod["spec"]["volumes"] = json!([{"name": SHARED, "emptyDir": {}}]);
    let container = pod["spec"]["containers"][0].clone();
    pod["spec"]["initContainers"] =
        json!([{"name": "init", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]);
    let run = with_policy(&port, &pod.to_string()).exits(0);
    run.says(&["(kept_device)", "(kept_env)"]);
    let after = run.values().remove(0);
    let first = &after["spec"]["containers"][0];
    assert_eq!(first["resources"]["limits"], container["resources"]["limits"]);
    assert_eq!(first["env"], container["env"]);
    assert_eq!(first["securityContext"]["capabilities"]["add"], json!(["NET_ADMIN", "IPC_LOCK"]));
    assert_ne!(first["volumeMounts"][0]["name"], SHARED);
    assert_eq!(after["spec"]["initContainers"][0]["resources"]["limits"]["rdma/hca_shared_devices_a"], "1");
}
