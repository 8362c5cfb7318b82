//! What the service account of the servers may do.

use serde_json::json;

use super::values;
use crate::cluster::Cluster;
use crate::discovery::{Resource, resources};

const SERVERS: &str = "system:serviceaccount:fabric-injector:fabric-injector";

/// Whether the servers may do something: a verb, a resource with its group, a namespace, and a name.
async fn may(cluster: &Cluster, verb: &str, resource: (&str, &str), namespace: &str, name: &str) -> bool {
    let attributes = json!({
        "verb": verb, "group": resource.0, "resource": resource.1, "namespace": namespace, "name": name,
    });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": SERVERS, "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    cluster.api.post(path, &review).await.ok()["status"]["allowed"] == true
}

/// What everybody may do who is known to the API server: ask about themselves.
fn is_for_everybody(group: &str, resource: &str) -> bool {
    group == "authentication.k8s.io" && resource == "selfsubjectreviews"
        || group == "authorization.k8s.io" && resource.starts_with("selfsubject")
}

pub(super) async fn servers_may_do_what_they_need_and_nothing_else(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let registration = "admissionregistration.k8s.io";
    let webhooks = (registration, "mutatingwebhookconfigurations");
    let (own, secrets) = ("fabric-injector", ("", "secrets"));
    for verb in ["get", "watch", "patch"] {
        assert!(may(cluster, verb, webhooks, "", own).await, "{verb}");
    }
    for verb in ["get", "patch"] {
        assert!(
            may(cluster, verb, (registration, "validatingwebhookconfigurations"), "", own).await,
            "{verb}"
        );
    }
    for verb in ["get", "create", "patch"] {
        assert!(may(cluster, verb, secrets, own, "fabric-injector-tls").await, "{verb}");
        assert!(!may(cluster, verb, secrets, "default", "fabric-injector-tls").await, "{verb}");
    }
    let reads_nodes = |verb: &str, group: &str, resource: &str| {
        let watched = match group {
            "" => &["nodes"][..],
            "resource.k8s.io" => {
                &["resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses"]
            }
            "resource.nvidia.com" => &["computedomains"],
            _ => &[],
        };
        watched.contains(&resource) && ["list", "watch"].contains(&verb)
    };
    let creates_events = |verb: &str, group: &str, resource: &str| {
        (verb, group, resource) == ("create", "events.k8s.io", "events")
    };
    // Nothing else at all of any resource as a whole, nor of an object of another name.
    for Resource { group, name: resource, verbs, .. } in resources(&cluster.api).await {
        for verb in verbs.iter().filter(|_| !is_for_everybody(&group, &resource)) {
            for name in ["", "another"] {
                for namespace in ["", own, "default"] {
                    let allowed = may(cluster, verb, (&group, &resource), namespace, name).await;
                    assert_eq!(
                        allowed,
                        reads_nodes(verb, &group, &resource) || creates_events(verb, &group, &resource),
                        "{verb} {group}/{resource} `{name}` in `{namespace}`"
                    );
                }
            }
        }
    }
}
