//! The edits of an overlay: networks, also those of devices, lists of objects in annotations, and lists that are replaced.

use serde_json::{Value, json};

use super::{folder, run_in};

/// A policy around the parts that a test is about.
pub(crate) fn policy(body: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: lab}}\nspec:\n  \
         provider: lab\n  description: For a test\n  gpus: {{resources: [nvidia.com/gpu, {DEVICE_CLASS}]}}\n  \
         match: {{labels: {{fabric: fast}}}}\n{body}"
    )
}

pub(crate) const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/gpu.nvidia.com";

/// A pod with 8 GPUs that the policy of [`policy`] matches.
pub(crate) fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"fabric": "fast"}},
        "spec": {"containers": [{"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}})
}

/// What a policy does with a pod: the pod afterwards, and the report.
pub(crate) struct Injected {
    pub(crate) pod: Value,
    pub(crate) report: Value,
}

impl Injected {
    /// The codes of the warnings.
    pub(crate) fn codes(&self) -> Vec<&str> {
        let warnings = self.report["warnings"].as_array().unwrap();
        warnings.iter().map(|warning| warning["code"].as_str().unwrap()).collect()
    }
}

/// Injects a pod, and fails unless injecting the result again changes nothing and has the same warnings.
#[track_caller]
pub(crate) fn inject(policy: &str, pod: &Value) -> Injected {
    let folder = folder(&[("lab.yaml", policy)]);
    let arguments = ["mutate", "--policy", "lab.yaml", "-o", "json", "--report", "json"];
    let once = |pod: &Value| {
        let run = run_in(folder.path(), &arguments, pod.to_string()).exits(0);
        Injected { pod: run.values().remove(0), report: run.reports().remove(0) }
    };
    let first = once(pod);
    let again = once(&first.pod);
    assert_eq!(again.pod, first.pod, "injecting again changes the pod");
    if first.report["outcome"] == "mutated" {
        assert_eq!(again.report["reason"], "nothing_to_add", "{}", again.report);
    }
    first
}

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

fn networks(edit: &str) -> String {
    policy(&format!(
        "  parameters:\n    rails: {{type: stringList, description: d, default: [rail-0, rail-1, ops/rail-2]}}\n  \
         rules:\n    - name: rails\n      pod: {{metadata: {{annotations: {{{NETWORKS}: {edit}}}}}}}\n"
    ))
}

#[track_caller]
fn attached(edit: &str, own: Option<&str>) -> String {
    let mut pod = pod();
    if let Some(own) = own {
        pod["metadata"]["annotations"][NETWORKS] = json!(own);
    }
    let injected = inject(&networks(edit), &pod);
    assert_eq!(injected.codes(), Vec::<&str>::new());
    injected.pod["metadata"]["annotations"][NETWORKS].as_str().unwrap_or_default().to_owned()
}

#[test]
fn each_network_of_a_list_is_attached_once() {
    assert_eq!(attached("'${rails}'", None), "rail-0,rail-1,ops/rail-2");
    assert_eq!(attached("[rail-0, '${rails[2]}']", None), "rail-0,ops/rail-2");
    assert_eq!(attached("rail-0", None), "rail-0");
    assert_eq!(attached("'${null}'", None), "");
}

#[test]
fn networks_that_the_pod_has_count_in_the_form_that_it_has() {
    assert_eq!(attached("'${rails}'", Some("default/rail-1, x")), "default/rail-1, x,rail-0,ops/rail-2");
    let json = r#"[{"name":"rail-2","namespace":"ops"}]"#;
    let all = r#"[{"name":"rail-2","namespace":"ops"},{"name":"rail-0"},{"name":"rail-1"}]"#;
    assert_eq!(attached("'${rails}'", Some(json)), all);
}

#[test]
fn a_network_of_a_list_can_have_an_interface() {
    let edit = "[rail-0@net7, ops/rail-1@net8]";
    assert_eq!(attached(edit, None), "rail-0@net7,ops/rail-1@net8");
    assert_eq!(attached(edit, Some("storage@net7")), "storage@net7,rail-0,ops/rail-1@net8");
    assert_eq!(attached(edit, Some("rail-0")), "rail-0,ops/rail-1@net8");
}

#[test]
fn a_list_of_networks_is_one_line_of_the_report() {
    let injected = inject(&networks("'${rails}'"), &pod());
    assert_eq!(
        injected.report["added"],
        json!([format!("pod: annotation {NETWORKS} fabric-injector.io/injected")])
    );
    let mut host = pod();
    host["spec"]["hostNetwork"] = json!(true);
    assert_eq!(inject(&networks("'${rails}'"), &host).codes(), ["host_network"]);
    let mut malformed = pod();
    malformed["metadata"]["annotations"][NETWORKS] = json!("[{");
    assert_eq!(inject(&networks("'${rails}'"), &malformed).codes(), ["kept_annotation"]);
}

/// A policy with an entry of `devices.add`, and lists of resources and of networks for it.
fn devices(entry: &str) -> String {
    policy(&format!(
        "  parameters:\n    \
         nics: {{type: stringList, description: d, default: [example.com/nic-0, example.com/nic-1, example.com/nic-2]}}\n    \
         rails: {{type: stringList, description: d, default: [rail-0, rail-1, ops/rail-2]}}\n  \
         devices:\n    add: [{{name: nics, {entry}}}]\n  \
         rules: [{{name: settings, env: {{A: b}}}}]\n"
    ))
}

/// The networks of a pod that gets devices, and has these networks itself.
#[track_caller]
fn attached_devices(entry: &str, own: Option<&str>) -> String {
    let mut pod = pod();
    if let Some(own) = own {
        pod["metadata"]["annotations"][NETWORKS] = json!(own);
    }
    networks_of(&devices(entry), &pod)
}

#[track_caller]
fn networks_of(policy: &str, pod: &Value) -> String {
    let injected = inject(policy, pod);
    assert_eq!(injected.codes(), Vec::<&str>::new());
    injected.pod["metadata"]["annotations"][NETWORKS].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_network_is_attached_once_for_each_device_that_the_pod_requests() {
    let two = "resources: {example.com/nic: 2}, networks: rail-0";
    assert_eq!(attached_devices(two, None), "rail-0,rail-0");
    let all = "resources: {example.com/nic: '${gpus}'}, networks: rail-0";
    assert_eq!(attached_devices(all, None), ["rail-0"; 8].join(","));
    assert_eq!(attached_devices("resources: {example.com/nic: 0}, networks: rail-0", None), "");
    assert_eq!(attached_devices("resources: {example.com/nic: 2}, networks: '${null}'", None), "");
    assert_eq!(attached_devices(two, Some("rail-0")), "rail-0,rail-0");
    assert_eq!(attached_devices(two, Some("x")), "x,rail-0,rail-0");
    let mut more = pod();
    let other = json!({"name": "b", "image": "i", "resources": {"limits": {"example.com/nic": 1}}});
    more["spec"]["containers"].as_array_mut().unwrap().push(other);
    assert_eq!(networks_of(&devices(two), &more), "rail-0,rail-0,rail-0");
}

#[test]
fn each_network_of_a_list_is_attached_to_the_device_at_its_place() {
    let first = |count: &str| format!("resources: {{'${{nics}}': {count}}}, networks: '${{rails}}'");
    assert_eq!(attached_devices(&first("2"), None), "rail-0,rail-1");
    assert_eq!(attached_devices(&first("0"), None), "");
    let all = inject(&devices(&first("'${gpus}'")), &pod());
    assert_eq!(all.pod["metadata"]["annotations"][NETWORKS], "rail-0,rail-1,ops/rail-2");
    assert_eq!(all.codes(), ["too_few_resources"]);
    assert_eq!(
        all.report["warnings"][0]["message"],
        "`spec.containers[a].resources.limits`: `nics` has 3 resources left for a container that needs 8: \
         extend its list, or request fewer GPUs"
    );
    let injected = inject(&devices(&first("2")), &pod());
    let limits = json!({"nvidia.com/gpu": 8, "example.com/nic-0": "1", "example.com/nic-1": "1"});
    assert_eq!(injected.pod["spec"]["containers"][0]["resources"]["limits"], limits);
    // One resource, of which the devices go with the networks.
    let one = |count: &str| format!("resources: {{example.com/nic: {count}}}, networks: '${{rails}}'");
    assert_eq!(attached_devices(&one("2"), None), "rail-0,rail-1");
    let short = inject(&devices(&one("8")), &pod());
    assert_eq!(short.pod["metadata"]["annotations"][NETWORKS], "rail-0,rail-1,ops/rail-2");
    assert_eq!(short.codes(), ["too_few_networks"]);
    assert_eq!(
        short.report["warnings"][0]["message"],
        "`metadata.annotations[k8s.v1.cni.cncf.io/networks]`: `nics` has 3 networks for 8 devices of the pod: \
         extend its list of networks"
    );
    assert_eq!(attached_devices("networks: '${rails}'", None), "rail-0,rail-1,ops/rail-2");
    let interfaces = "resources: {'${nics}': 2}, networks: [rail-0@net7, ops/rail-1@net8]";
    assert_eq!(attached_devices(interfaces, None), "rail-0@net7,ops/rail-1@net8");
    assert_eq!(attached_devices(interfaces, Some("storage@net7")), "storage@net7,rail-0,ops/rail-1@net8");
}

#[test]
fn networks_of_devices_that_the_pod_has_count_in_the_form_that_it_has() {
    let rails = "resources: {'${nics}': 3}, networks: '${rails}'";
    assert_eq!(attached_devices(rails, Some("default/rail-1, x")), "default/rail-1, x,rail-0,ops/rail-2");
    let json = r#"[{"name":"rail-2","namespace":"ops"}]"#;
    let all = r#"[{"name":"rail-2","namespace":"ops"},{"name":"rail-0"},{"name":"rail-1"}]"#;
    assert_eq!(attached_devices(rails, Some(json)), all);
}

const INTERFACES: &str = "networking.gke.io/interfaces";

fn interfaces(on_conflict: &str, edit: &str) -> String {
    policy(&format!(
        "  rules:\n    - name: nics\n      onConflict: {on_conflict}\n      \
         pod: {{metadata: {{annotations: {{{edit}}}}}}}\n"
    ))
}

const TWO: &str = "'networking.gke.io/interfaces[interfaceName]': [{interfaceName: eth0, network: default}, {interfaceName: eth1, network: r1}]";

#[track_caller]
fn listed(policy: &str, own: Option<&str>) -> (String, Vec<String>) {
    let mut pod = pod();
    if let Some(own) = own {
        pod["metadata"]["annotations"][INTERFACES] = json!(own);
    }
    let injected = inject(policy, &pod);
    let codes = injected.codes().into_iter().map(str::to_owned).collect();
    (injected.pod["metadata"]["annotations"][INTERFACES].as_str().unwrap_or_default().to_owned(), codes)
}

#[test]
fn entries_are_merged_by_their_key_in_the_form_that_the_pod_has() {
    let policy = interfaces("keep", TWO);
    let all = r#"[{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth1","network":"r1"}]"#;
    let none = Vec::<String>::new();
    assert_eq!(listed(&policy, None), (all.to_owned(), none.clone()));
    for (own, after) in [
        (r#"[{"interfaceName":"eth0","network":"default"}]"#, all),
        (
            "[\n  {\"interfaceName\":\"eth0\",\"network\":\"default\"}\n]",
            "[\n  {\"interfaceName\":\"eth0\",\"network\":\"default\"},\n  {\"interfaceName\":\"eth1\",\"network\":\"r1\"}\n]",
        ),
    ] {
        assert_eq!(listed(&policy, Some(own)), (after.to_owned(), none.clone()));
    }
    let yaml = "- interfaceName: eth0\n  network: default\n";
    assert_eq!(listed(&policy, Some(yaml)), (yaml.to_owned(), vec!["kept_annotation".to_owned()]));
}

#[test]
fn an_entry_with_another_value_is_kept_or_replaced() {
    let own = r#"[{"interfaceName":"eth1","network":"mine"}]"#;
    let (text, codes) = listed(&interfaces("keep", TWO), Some(own));
    assert_eq!(
        text,
        r#"[{"interfaceName":"eth1","network":"mine"},{"interfaceName":"eth0","network":"default"}]"#
    );
    assert_eq!(codes, ["kept_annotation"]);
    let own = r#"[{"interfaceName":"eth1","network":"mine"},{"interfaceName":"eth0","network":"default","ip":"1"}]"#;
    let (text, codes) = listed(&interfaces("replace", TWO), Some(own));
    let replaced =
        r#"[{"interfaceName":"eth1","network":"r1"},{"interfaceName":"eth0","network":"default","ip":"1"}]"#;
    assert_eq!((text.as_str(), codes), (replaced, vec!["replaced".to_owned()]));
}

#[test]
fn a_text_that_is_no_list_of_objects_stays() {
    for own in ["eth0", "[1]", "{}"] {
        assert_eq!(
            listed(&interfaces("keep", TWO), Some(own)),
            (own.to_owned(), vec!["kept_annotation".to_owned()])
        );
    }
}

#[test]
fn entries_can_be_computed() {
    let edit =
        "'networking.gke.io/interfaces[i]': \"${lists.range(2).map(n, {'i': 'eth' + string(n), 'net': n})}\"";
    let all = r#"[{"i":"eth0","net":0},{"i":"eth1","net":1}]"#;
    assert_eq!(listed(&interfaces("keep", edit), None).0, all);
    let edit =
        "'networking.gke.io/interfaces[i]': [{i: eth0, net: '${totalGpus}'}, {i: eth1, net: '${null}'}]";
    assert_eq!(listed(&interfaces("keep", edit), None).0, r#"[{"i":"eth0","net":8}]"#);
}

#[test]
fn an_entry_with_a_parameter_without_a_value_is_left_out_whatever_else_it_reads() {
    let body = "  parameters:\n    none: {description: d, type: string}\n  rules:\n    - name: list\n      pod:\n        \
                metadata:\n          annotations:\n            example.com/list[name]: [{name: a, network: \
                '${none}', gpus: '${totalGpus}'}, {name: b, gpus: '${totalGpus}'}]\n";
    let injected = inject(&policy(body), &pod());
    assert_eq!(injected.pod["metadata"]["annotations"]["example.com/list"], r#"[{"name":"b","gpus":8}]"#);
}
