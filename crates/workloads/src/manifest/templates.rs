//! Finds the pods in a manifest by their shape: a map with a `spec` that has a list of `containers` is a pod or a pod
//! template, in any kind of workload.

use serde_json::Value;

use crate::advice::Kind;
use fabric_engine::admission::creates_pod;
use fabric_policy::work::{Work, goes_on};
use fabric_policy::{PodContext, group_of};
use fabric_yaml::json::items;
use fabric_yaml::pointer::push_token;

/// A pod or pod template in a document.
#[derive(Debug, Clone)]
pub struct Found {
    /// The JSON Pointer from the document's root; empty if the document is the pod.
    pub pointer: String,
    /// The namespace, owners and labels that the pods of the template get from their controller.
    pub request: PodContext,
}

/// The object and the field that enclose the current value.
#[derive(Debug, Clone, Default)]
struct Around<'v> {
    api_version: &'v str,
    kind: &'v str,
    namespace: Option<&'v str>,
    /// Field and role in a workload of Kubeflow, such as `("mpiReplicaSpecs", "Launcher")`.
    replica: Option<(&'v str, &'v str)>,
}

impl<'v> Around<'v> {
    /// What encloses the fields of a map.
    fn within(&self, map: &'v Value) -> Self {
        let mut around = self.clone();
        if let (Some(kind), Some(api_version)) = (map["kind"].as_str(), map["apiVersion"].as_str()) {
            (around.api_version, around.kind) = (api_version, kind);
            around.namespace = map["metadata"]["namespace"].as_str().or(around.namespace);
            around.replica = None;
        }
        around
    }
}

/// The fields of a `TrainJob` that have parts of pod templates.
const PATCHES: [&str; 2] = ["podTemplateOverrides", "runtimePatches"];

/// How often the pointer of a template is copied: into findings, their messages and paths.
const COPIES: usize = 8;

/// Returns every pod template of a document, in the order of the document; fewer if `work` ends.
pub fn find(document: &Value, work: Option<&Work>) -> Vec<Found> {
    let mut search = Search { work, found: Vec::new() };
    if document["kind"] == "AdmissionReview" {
        search.found.extend(reviewed_pod(document));
    } else {
        search.walk(document, &mut String::new(), &Around::default());
    }
    search.found
}

/// Returns every pod template of one item of a `List`.
pub fn find_in_item(list: &Value, index: usize, work: Option<&Work>) -> Vec<Found> {
    let mut search = Search { work, found: Vec::new() };
    let around = Around::default().within(list);
    search.walk(&list["items"][index], &mut format!("/items/{index}"), &around);
    search.found
}

/// The pod of a review, if the webhook injects it. In a handwritten review, only the object may have a kind.
fn reviewed_pod(review: &Value) -> Option<Found> {
    let request = &review["request"];
    let kind = request["kind"]["kind"].as_str().or_else(|| request["object"]["kind"].as_str());
    let creates_pod = creates_pod(
        request["operation"].as_str().unwrap_or_default(),
        request["kind"]["group"].as_str().unwrap_or_default(),
        kind.unwrap_or_default(),
        request["subResource"].as_str(),
    );
    creates_pod.then(|| Found {
        pointer: "/request/object".to_owned(),
        request: PodContext {
            namespace: request["namespace"].as_str().map(str::to_owned),
            by_kubelet: Some(items(&request["userInfo"], "groups").contains(&"system:nodes".into())),
            ..PodContext::default()
        },
    })
}

struct Search<'w> {
    work: Option<&'w Work>,
    found: Vec<Found>,
}

impl Search<'_> {
    fn walk<'v>(&mut self, value: &'v Value, pointer: &mut String, around: &Around<'v>) {
        match value {
            Value::Object(map) => {
                let around = around.within(value);
                if value["spec"]["containers"].is_array() {
                    self.found.push(Found { pointer: pointer.clone(), request: request(&around) });
                    goes_on(self.work, pointer.len().saturating_mul(COPIES));
                    return;
                }
                for (key, child) in map {
                    let is_partial = around.kind == "TrainJob" && PATCHES.contains(&key.as_str());
                    if is_partial {
                        continue;
                    }
                    let mut inner = around.clone();
                    if key.ends_with("ReplicaSpecs") {
                        inner.replica = Some((key, ""));
                    } else if let Some((field, "")) = inner.replica {
                        inner.replica = Some((field, key));
                    }
                    self.child(child, pointer, key, &inner);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.child(item, pointer, &index.to_string(), around);
                }
            }
            _ => {}
        }
    }

    fn child<'v>(&mut self, child: &'v Value, pointer: &mut String, token: &str, around: &Around<'v>) {
        let may_have_pods = child.is_object() || child.is_array();
        if may_have_pods && goes_on(self.work, 0) {
            let before = pointer.len();
            push_token(pointer, token);
            self.walk(child, pointer, around);
            pointer.truncate(before);
        }
    }
}

/// The properties that policies match and that a pod gets from the controller of its template.
fn request(around: &Around<'_>) -> PodContext {
    let of_table = || Kind::find(around.api_version, around.kind)?.owner.as_deref();
    let owner = match (around.kind, around.replica) {
        // The mpi-operator runs the launcher as a Job; the training-operator, with `v1`, as a pod.
        ("MPIJob", Some((_, "Launcher"))) if around.api_version != "kubeflow.org/v1" => "Job.batch",
        (kind, _) => match of_table() {
            Some(owner) => owner,
            None => &with_group(kind, group_of(around.api_version)),
        },
    };
    let owner_kinds = if owner.is_empty() || owner == "Pod" { Vec::new() } else { vec![owner.to_owned()] };
    let labels = match around.replica {
        Some((field, role)) if !role.is_empty() => {
            let role = role.to_lowercase();
            let mut labels = vec![("training.kubeflow.org/replica-type".to_owned(), role.clone())];
            if field == "mpiReplicaSpecs" {
                labels.push(("training.kubeflow.org/job-role".to_owned(), role));
            }
            labels
        }
        _ => Vec::new(),
    };
    PodContext {
        namespace: around.namespace.map(str::to_owned),
        owner_kinds,
        labels,
        // A controller creates the pods of a template.
        by_kubelet: (around.kind != "Pod").then_some(false),
        ..PodContext::default()
    }
}

/// `Kind.group`; the core group has no name.
fn with_group(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(document: &Value) -> Vec<String> {
        find(document, None).into_iter().map(|found| found.pointer).collect()
    }

    #[test]
    fn templates_are_found_at_any_depth() {
        let template = json!({"spec": {"containers": []}});
        assert_eq!(pointers(&template), [""]);
        let workload = json!({"apiVersion": "example.io/v1", "kind": "Unheard",
            "spec": {"groups": [{"podTemplate": template}, {"a/b": template}]}});
        assert_eq!(pointers(&workload), ["/spec/groups/0/podTemplate", "/spec/groups/1/a~1b"]);
        assert_eq!(pointers(&json!({"spec": {"containers": {"type": "array"}}})), Vec::<String>::new());
        assert_eq!(pointers(&json!([1, "x", null])), Vec::<String>::new());
    }

    #[test]
    fn replicas_carry_the_labels_of_their_controller() {
        let job = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"namespace": "n"},
            "spec": {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": []}}}}}});
        let request = &find(&job, None)[0].request;
        assert_eq!(request.namespace.as_deref(), Some("n"));
        assert_eq!(request.owner_kinds, ["Job.batch"]);
        assert!(request.labels.contains(&("training.kubeflow.org/job-role".into(), "launcher".into())));
    }

    #[test]
    fn who_creates_a_pod_is_known_of_a_review_and_of_a_template() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}});
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod["spec"]}}});
        let review = |groups: Value| {
            json!({"kind": "AdmissionReview", "request": {"operation": "CREATE", "object": pod,
                "userInfo": {"groups": groups}}})
        };
        let by_kubelet = |document: &Value| find(document, None)[0].request.by_kubelet;
        assert_eq!(by_kubelet(&review(json!(["system:nodes", "system:authenticated"]))), Some(true));
        assert_eq!(by_kubelet(&review(json!(["system:authenticated"]))), Some(false));
        assert_eq!(by_kubelet(&review(Value::Null)), Some(false));
        assert_eq!(by_kubelet(&job), Some(false));
        assert_eq!(by_kubelet(&pod), None);
    }

    #[test]
    fn of_a_review_only_the_new_pod_counts() {
        let pod = json!({"kind": "Pod", "spec": {"containers": []}});
        let review = |operation: &str| {
            json!({"kind": "AdmissionReview",
                "request": {"operation": operation, "namespace": "n", "object": pod, "oldObject": pod}})
        };
        assert_eq!(pointers(&review("CREATE")), ["/request/object"]);
        assert_eq!(pointers(&review("UPDATE")), Vec::<String>::new());
    }
}
