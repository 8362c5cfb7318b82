//! Pods that miss the fabric, by the way in which they do.

use serde_json::{Value, json};

use super::super::node_watch::INSTANCE_TYPE;
use super::super::undecided::{Kind, PROVIDER, asks};
use crate::workloads::{TRIGGER, annotated_template};

/// What an API server takes of annotations, in bytes.
const ANNOTATIONS: usize = 256 << 10;

fn on(machine: &str, change: impl Fn(&mut Value)) -> Value {
    let mut template = asks(Kind::Gpus, INSTANCE_TYPE, machine);
    change(&mut template);
    template
}

fn env(name: &'static str, value: &'static str) -> impl Fn(&mut Value) {
    move |template| template["spec"]["containers"][0]["env"] = json!([{"name": name, "value": value}])
}

/// With these, and the annotation that the controller of the Job adds, there is no place for that of the server.
fn crowded(template: &mut Value) {
    let taken =
        TRIGGER.len() + "true".len() + "batch.kubernetes.io/job-completion-index".len() + 1 + "big".len();
    template["metadata"]["annotations"]["big"] = json!("x".repeat(ANNOTATIONS - taken - 20));
}

/// Pods that policies of all clouds leave without the fabric.
pub(super) fn of_clouds() -> Vec<(&'static str, Value)> {
    let p5 = |change: &dyn Fn(&mut Value)| on("p5.48xlarge", change);
    let context = |context: Value| {
        move |template: &mut Value| {
            template["spec"]["containers"][0]["securityContext"] = context.clone();
        }
    };
    let mut private = asks(Kind::Gpus, PROVIDER, "nebius");
    context(json!({"allowPrivilegeEscalation": false}))(&mut private);
    vec![
        ("several_providers", asks(Kind::Gpus, "", "")),
        ("other_provider", asks(Kind::Gpus, PROVIDER, "azur")),
        ("setting_undecided", asks(Kind::Gpus, PROVIDER, "gcp")),
        ("condition_false", on("a2-highgpu-8g", |_| ())),
        ("trigger_value", p5(&|template| template["metadata"]["annotations"][TRIGGER] = json!("yes"))),
        ("annotation_limit", p5(&crowded)),
        ("capability_without_root", p5(&context(json!({"runAsUser": 1000})))),
        (
            "device_denied",
            p5(&|template| {
                template["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] = json!(0);
            }),
        ),
        ("host_network_denied", on("BM.GPU.H100.8", |template| template["spec"]["hostUsers"] = json!(false))),
        ("fabric_disabled", on("Standard_ND96isr_H100_v5", env("NCCL_IB_DISABLE", "1"))),
        (
            "fewer_gpus_than_node",
            on("a3-megagpu-8g", |template| {
                template["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": 4}});
            }),
        ),
        ("instance_type_without_fabric", on("g5.xlarge", |_| ())),
        (
            "no_gpu_container",
            p5(&|template| {
                template["spec"]["containers"][0]["resources"] =
                    json!({"limits": {"nvidia.com/gpu.shared": 8}});
            }),
        ),
        ("other_fi_provider", p5(&env("FI_PROVIDER", "tcp"))),
        ("other_net_plugin", p5(&env("NCCL_NET_PLUGIN", "none"))),
        ("privilege_denied", private),
        ("socket_network", p5(&env("NCCL_NET", "Socket"))),
        ("topology_unknown", asks(Kind::Gpus, "kubernetes.azure.com/agentpool", "gpus")),
        ("unknown_rail_networks", on("rack-9", |_| ())),
    ]
}

/// The code of the policy's own check that refuses pods.
pub(super) const REFUSING: &str = "too_old";

/// Two policies with each fault that a policy can have for a pod, by the pod's label.
pub(super) fn lab() -> Value {
    let policy = |name: &str, condition: &str, rest: &str| {
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: {name}}}\nspec:\n  provider: lab\n  \
             description: For a test\n  gpus: {{resources: [nvidia.com/gpu]}}\n  match:\n    anyAnnotation: {{{TRIGGER}: \"true\"}}\n    \
             when: {condition}\n  variables:\n    fault: \"${{pod.metadata.?labels[?'fault'].orValue('')}}\"\n    rank: \
             \"${{int(pod.metadata.?labels[?'rank'].orValue('1'))}}\"\n{rest}"
        )
    };
    let long = "x".repeat(64 << 10);
    let rest = format!(
        r#"  devices: {{add: [{{name: nic, when: fault == 'claim', claims: {{lab-nic: one-nic}}}}]}}
  checks:
    - name: {REFUSING}
      when: fault == 'old'
      action: refuse
      message: the pod is too old; remove the label
    - name: slow
      when: >-
        fault == 'slow' && pod.spec.containers.all(a, pod.spec.containers.all(b, pod.spec.containers.all(c, a.name != '')))
      message: it took long
  rules:
    - name: rank
      when: fault != 'bare'
      env: {{LAB_RANK: "${{string(rank)}}"}}
    - name: flip
      when: fault.startsWith('fl') && size(fault) > 2
      onConflict: replace
      env:
        LAB_FLIP: "${{container.?env.orValue([]).exists(e, e.?value.orValue('') == 'heads') ? 'tails' : 'heads'}}"
    - name: long
      when: fault == 'long'
      env: {{LAB_LONG: {long}}}
    - name: seal
      when: fault != 'bare'
      env: {{LAB_SEAL: sealed}}
"#
    );
    let second = "  rules: [{name: a, env: {A: b}}]\n";
    json!({
        "lab.yaml": policy("lab", "\"true\"", &rest),
        "second.yaml": policy("second", "\"pod.metadata.?labels[?'fault'].orValue('') == 'twice'\"", second),
    })
}

fn with_fault(fault: &str, containers: usize) -> Value {
    let mut template = annotated_template();
    template["metadata"]["labels"] = json!({"fault": fault});
    let first = template["spec"]["containers"][0].clone();
    let more = (1..containers).map(|number| {
        let mut container = first.clone();
        container["name"] = json!(format!("c{number}"));
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 1}});
        container
    });
    template["spec"]["containers"].as_array_mut().unwrap().extend(more);
    template
}

/// Pods that those policies leave without the fabric.
pub(super) fn of_lab() -> Vec<(&'static str, Value)> {
    let mut claiming = with_fault("claim", 1);
    claiming["spec"]["resourceClaims"] = json!([{"name": "lab-nic", "resourceClaimTemplateName": "other"}]);
    let mut failing = with_fault("", 1);
    failing["metadata"]["labels"] = json!({"rank": "first"});
    vec![
        ("several_policies_match", with_fault("twice", 1)),
        ("conflict", claiming),
        ("cost", with_fault("slow", 300)),
        ("a check with action: refuse", with_fault("old", 1)),
        ("no_rule_applies", with_fault("bare", 1)),
        ("pod_limit", with_fault("long", 60)),
        ("evaluation_failed", failing),
        ("not_idempotent", with_fault("flips", 1)),
    ]
}

/// A pod whose review takes as long as a review may: it ends at the limit of costs, however fast the machine is.
pub(super) fn slow() -> Value {
    with_fault("slow", 400)
}
