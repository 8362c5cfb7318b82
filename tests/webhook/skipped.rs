//! Pods that are left alone on purpose, and refusals that a policy declares.

use fabric_engine::{SKIPPED, STAMP};
use serde_json::{Value, json};

use crate::answers::{audit, denied, patch, patched, warnings};
use crate::reviews::{pod, pod_with, review_of, with};
use crate::scrape::{ANSWERED, OPERATIONS, reviews};
use crate::server::{LAB, Server, lab_with};

/// The sample policy under a condition, which reads a label of the pod.
fn on_pool(name: &str, pool: &str) -> String {
    let condition =
        format!("  match:\n    when: \"pod.metadata.?labels[?'pool'].orValue('') == '{pool}'\"\n");
    lab_with("  match:\n", &condition).replace("name: lab\n", &format!("name: {name}\n"))
}

fn two_pools() -> Server {
    Server::serving(&[&on_pool("old", "old"), &on_pool("new", "new")])
}

fn in_pool(pool: &str) -> Value {
    pod_with("/metadata/labels", json!({"pool": pool}))
}

fn annotation<'p>(pod: &'p Value, key: &str) -> &'p str {
    pod["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_condition_tells_two_policies_behind_one_annotation_apart() {
    let server = two_pools();
    for pool in ["old", "new"] {
        let response = server.review(&review_of(&in_pool(pool))).await;
        let pod = patched(&in_pool(pool), &response);
        assert!(annotation(&pod, STAMP).starts_with(&format!("{pool}@")), "{pod}");
        assert_eq!(annotation(&pod, SKIPPED), "");
    }
}

#[tokio::test]
async fn a_pod_for_which_no_condition_holds_is_marked_and_nothing_else() {
    let server = two_pools();
    let before = server.scrape();
    let pod = in_pool("other");
    let response = server.review(&review_of(&pod)).await;
    assert_eq!(patch(&response).0.len(), 1);
    let marked = patched(&pod, &response);
    let mark = annotation(&marked, SKIPPED);
    assert!(mark.starts_with("the conditions `match.when` of the policies `old`, `new`"), "{mark}");
    assert!(mark.contains(" (old@") && mark.contains(",new@") && mark.ends_with(')'), "{mark}");
    assert_eq!(marked["spec"], pod["spec"]);
    assert!(
        warnings(&response)[0]
            .contains("left alone: the conditions `match.when` of the policies `old`, `new`")
    );
    assert_eq!(audit(&response)["outcome"], "skipped: condition_false");
    let series = reviews("", "skipped", "condition_false");
    server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1), (OPERATIONS, 1)]);
    // The second call changes nothing.
    assert_eq!(server.review(&review_of(&marked)).await.get("patch"), None);
}

#[tokio::test]
async fn a_pod_never_has_both_annotations() {
    let server = two_pools();
    let to_pool = |pod: Value, pool: &str| with(pod, "/metadata/labels/pool", json!(pool));
    let skipped = patched(&in_pool("other"), &server.review(&review_of(&in_pool("other"))).await);
    let moved = to_pool(skipped, "new");
    let injected = patched(&moved, &server.review(&review_of(&moved)).await);
    assert!(annotation(&injected, STAMP).starts_with("new@") && annotation(&injected, SKIPPED).is_empty());
    let moved = to_pool(injected, "other");
    let response = server.review(&review_of(&moved)).await;
    let skipped = patched(&moved, &response);
    assert!(annotation(&skipped, STAMP).is_empty() && !annotation(&skipped, SKIPPED).is_empty());
    assert_eq!(audit(&response)["warnings"], "injected_before");
}

#[tokio::test]
async fn a_condition_without_a_value_is_a_fault_of_the_policy() {
    let condition = "  match:\n    when: pod.metadata.?labels[?'nodes'].orValue('2') == string(int(pod.metadata.?labels[?'nodes'].orValue('2')))\n";
    let server = Server::serving(&[&lab_with("  match:\n", condition)]);
    let response = server.review(&review_of(&pod_with("/metadata/labels", json!({"nodes": "two"})))).await;
    assert!(denied(&response, 500).contains("of `match.when` cannot be evaluated"), "{response}");
    assert_eq!(audit(&response)["outcome"], "failed: evaluation_failed");
    assert_eq!(server.review(&review_of(&pod())).await["patchType"], "JSONPatch");
}

#[tokio::test]
async fn the_guard_sees_a_mark_wherever_it_may_see_gpus() {
    let server = Server::lab();
    let claim = json!({"claims": [{"name": "nic"}]});
    let class = json!({"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}});
    for resources in [claim, class] {
        let pod = pod_with("/spec/containers/0/resources", resources);
        let response = server.review(&review_of(&pod)).await;
        assert!(annotation(&patched(&pod, &response), SKIPPED).contains(" (lab@"), "{response}");
        assert_eq!(audit(&response)["outcome"], "skipped: no_gpu_container");
    }
    for resources in [json!({}), json!({"limits": {"nvidia.com/gpu": "0"}})] {
        let response = server.review(&review_of(&pod_with("/spec/containers/0/resources", resources))).await;
        assert_eq!(response.get("patch"), None);
        assert_eq!(audit(&response)["outcome"], "unchanged: no_gpu_container");
    }
    // A resource that is the GPU of another policy.
    let other = lab_with("name: lab\n", "name: other\n")
        .replace("lab.example/fabric", "lab.example/other")
        .replace("[nvidia.com/gpu]", "[amd.com/gpu]");
    let server = Server::serving(&[LAB, &other]);
    let pod = pod_with("/spec/containers/0/resources", json!({"limits": {"amd.com/gpu": 8}}));
    let response = server.review(&review_of(&pod)).await;
    assert!(annotation(&patched(&pod, &response), SKIPPED).contains(" (lab@"), "{response}");
}

#[tokio::test]
async fn warnings_are_given_where_no_rule_applies_and_the_reason_is_true() {
    let policy = LAB.split("  rules:").next().unwrap().to_owned()
        + "  rules:\n    - name: r\n      when: \"node[?'pool'].orValue('') == 'other'\"\n      env: {A: b}\n";
    let server = Server::serving(&[&policy]);
    let pod = pod_with("/spec/containers/0/resources", json!({"limits": {"nvidia.com/gpu": 4}}));
    let response = server.review(&review_of(&pod)).await;
    assert_eq!(audit(&response)["outcome"], "skipped: no_rule_applies");
    let said = warnings(&response);
    assert_eq!(said[0], "fabric-injector: the pod has fewer GPUs than a node");
    assert_eq!(
        said[1],
        "fabric-injector: left alone: no rule of the policy applies to this pod; change what the conditions of its rules read, \
         or remove the annotation"
    );
    assert!(annotation(&patched(&pod, &response), SKIPPED).contains(" (lab@"), "{response}");
}

#[tokio::test]
async fn a_policy_refuses_with_its_own_code_and_message() {
    let refusals = "  checks:\n    - name: half_a_node\n      when: totalGpus == 4\n      \
                    action: refuse\n      message: 'ask for 8 GPUs, not ${totalGpus}'\n";
    let server = Server::serving(&[&lab_with("  checks:\n", refusals)]);
    let before = server.scrape();
    assert_eq!(before.value(&reviews("lab", "refused", "half_a_node")), 0);
    let pod = pod_with("/spec/containers/0/resources", json!({"limits": {"nvidia.com/gpu": 4}}));
    let response = server.review(&review_of(&pod)).await;
    assert_eq!(denied(&response, 403), "fabric-injector: ask for 8 GPUs, not 4");
    assert_eq!(audit(&response)["outcome"], "refused: half_a_node");
    let series = reviews("lab", "refused", "half_a_node");
    server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
    assert_eq!(server.review(&review_of(&crate::reviews::pod())).await["patchType"], "JSONPatch");
}

/// Two teams have an extension each, for the pods of their namespace, and the base has the others.
#[tokio::test]
async fn an_extension_takes_the_pods_that_it_matches_from_its_base() {
    let team = |name: &str, keys: &str| {
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: {name}}}\nspec: {{{keys}}}\n"
        )
    };
    let first = team("first", "extends: lab, match: {namespaces: [first]}");
    let second = team("second", "extends: lab, match: {namespaces: [second], when: 'totalGpus > 4'}");
    let third = team("third", "extends: second, description: Of an extension");
    let policies = [LAB, &first, &second, &third];
    for at in 0..policies.len() {
        let mut texts = policies;
        texts.rotate_left(at);
        let server = Server::serving(&texts);
        for (namespace, gpus, policy) in
            [("first", 1, "first"), ("second", 8, "third"), ("second", 1, "lab"), ("other", 8, "lab")]
        {
            let pod = pod_with("/spec/containers/0/resources", json!({"limits": {"nvidia.com/gpu": gpus}}));
            let review = with(review_of(&pod), "/request/namespace", namespace.into());
            let pod = patched(&pod, &server.review(&review).await);
            assert!(annotation(&pod, STAMP).starts_with(&format!("{policy}@")), "{namespace} {gpus}: {pod}");
        }
    }
}
