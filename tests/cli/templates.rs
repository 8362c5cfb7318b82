//! Parameters whose values read the pod.

use super::policy_errors::with_policy;
use super::{POD, POLICY, folder, run_in};

fn policy(default: &str) -> String {
    let parameters = format!(
        "  parameters:\n    channel: {{type: template, description: d{default}}}\n    {}",
        "size: {type: integer, description: d, default: 1}\n"
    );
    let rules = "  rules:\n    - name: r\n      when: channel != null\n      env: {A: '${channel}'}\n    \
                 - {name: s, env: {B: b}}\n";
    format!("{}{parameters}{rules}", POLICY.split_once("  parameters:\n").unwrap().0)
}

fn value(policy: &str, pod: &str) -> Option<String> {
    let pod = &with_policy(policy, pod).exits(0).documents()[0];
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    env.iter().find(|entry| entry["name"] == "A").map(|entry| entry["value"].as_str().unwrap().to_owned())
}

#[test]
fn the_value_of_a_template_reads_the_pod() {
    let default = ", default: '${pod.metadata.name}-channel'";
    assert_eq!(value(&policy(default), POD), Some("trainer-channel".to_owned()));
    assert_eq!(value(&policy(", default: plain"), POD), Some("plain".to_owned()));
    assert_eq!(value(&policy(""), POD), None);
}

#[test]
fn the_operator_sets_a_template() {
    let folder = folder(&[("lab.yaml", &policy(""))]);
    let set = "channel=${pod.metadata.name}-x";
    let run = run_in(folder.path(), &["mutate", "--policy", "lab.yaml", "--set", set], POD).exits(0);
    assert_eq!(run.documents()[0]["spec"]["containers"][0]["env"][0]["value"], "trainer-x");
}
