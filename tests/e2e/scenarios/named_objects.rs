//! Objects that pods name: absent at first, created later, deleted, and unknown without the right to read them.

use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::node_watch::{all_know, take_binding};
use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::processes::outcome;
use crate::workloads::{annotated_template, is_injected, job, pod};

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const DECLARATIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ABSENT: &str = "fabric_injector_absent_objects{resource=\"resourceclaimtemplates\"}";

/// Creates the class with a name, from whatever driver.
async fn create_class(cluster: &Cluster, name: &str) {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}});
    cluster.api.post(CLASSES, &class).await.ok();
}

/// Declares a kind of objects, as its operator does. Returns the path of the objects in a namespace.
async fn declare(cluster: &Cluster, api: &str, kind: &str, plural: &str, namespace: &str) -> String {
    let (group, version) = api.split_once('/').unwrap();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
    let versions = json!([{"name": version, "served": true, "storage": true, "schema": schema}]);
    let declaration = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": versions}});
    cluster.api.post(DECLARATIONS, &declaration).await.ok();
    let path = format!("/apis/{api}/namespaces/{namespace}/{plural}");
    eventually("the API is served", async || cluster.api.get(&path).await.status == 200).await;
    path
}

fn template(namespace: &str) -> Value {
    let devices =
        json!({"requests": [{"name": "nic", "exactly": {"deviceClassName": "efa.networking.k8s.aws"}}]});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "efa", "namespace": namespace}, "spec": {"spec": {"devices": devices}}})
}

/// What is said of objects that a pod names, which is injected in any case.
async fn said(cluster: &Cluster, namespace: &str, template: &Value) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let mut reply = cluster.api.post(&path, &pod(namespace, "tried", template)).await;
    let warnings = std::mem::take(&mut reply.warnings);
    let pod = reply.ok();
    assert!(is_injected(&pod), "{pod}");
    warnings.into_iter().filter(|warning| warning.contains("is not there yet")).collect()
}

pub(super) async fn what_a_pod_names_and_the_cluster_lacks_is_told_until_it_is_there(cluster: &Cluster) {
    let mut values = values();
    values["multinodeNetworking"]["aws"]["efaAttachment"] = json!("claim");
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("named-objects").await;
    create_class(cluster, "efa.networking.k8s.aws").await;
    let said = async || said(cluster, &namespace, &annotated_template()).await;
    let is_told = async || said().await.iter().any(|text| text.contains("`kubectl apply -f - <<< '{"));
    eventually("the absent template is told with its manifest", is_told).await;

    // A Job and its template, created at once in both orders: whatever its pods were told, nobody hears of it later.
    let (events, both) = (
        format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
        cluster.namespace("both-at-once").await,
    );
    let path = format!("/apis/resource.k8s.io/v1/namespaces/{both}/resourceclaimtemplates/efa");
    for at in 0..20 {
        let (job, template) = (job(&both, &format!("both-{at}"), 1, &annotated_template()), template(&both));
        let ordered = if at % 2 == 0 { [&job, &template] } else { [&template, &job] };
        for object in ordered {
            cluster.api.create(object).await.ok();
        }
        sleep(Duration::from_secs(1)).await;
        if at < 19 {
            cluster.api.delete(&path).await.ok();
        }
    }
    // The template of this Job does not come.
    cluster.api.create(&job(&namespace, "alone", 2, &annotated_template())).await.ok();
    let ours = async |path: &str| {
        let mut found = cluster.api.list(path).await;
        found.retain(|event| event["reason"] == "NotThereYet");
        found
    };
    for _ in 0..9 {
        sleep(Duration::from_secs(15)).await;
    }
    eventually("the Job has an event", async || !ours(&events).await.is_empty()).await;
    let told = ours(&events).await;
    assert_eq!((told.len(), &told[0]["regarding"]["name"]), (1, &json!("alone")), "{told:?}");
    assert!(cluster.metric(ABSENT).await >= 1);
    let others = ours(&format!("/apis/events.k8s.io/v1/namespaces/{both}/events")).await;
    assert!(others.is_empty(), "{others:?}");

    // The pods of the Job wait for it.
    let waiting =
        format!("the ResourceClaimTemplate `efa` in the namespace `{namespace}`: `Job {namespace}/alone`");
    let commands = [&["check"][..], &["nodes", "--policy", "aws-efa"]];
    for command in commands {
        let (_, said) = outcome(&mut cluster.program(command)).await;
        assert!(said.contains(&waiting), "{said}");
    }

    // It comes, and goes.
    cluster.api.create(&template(&namespace)).await.ok();
    for command in commands {
        let (_, said) = outcome(&mut cluster.program(command)).await;
        assert!(!said.contains(&waiting), "{said}");
    }
    eventually("the template is known", async || said().await.is_empty()).await;
    eventually("the metric falls", async || cluster.metric(ABSENT).await == 0).await;
    let own = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates/efa");
    cluster.api.delete(&own).await.ok();
    eventually("the template is missed", async || !said().await.is_empty()).await;
    // The API of networks is absent, and the class of the templates is there: nothing is said of them.
    let mut with_network = annotated_template();
    with_network["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!("ops/rail-0");
    let told = self::said(cluster, &namespace, &with_network).await;
    assert!(told.iter().all(|text| text.contains("ResourceClaimTemplate")), "{told:?}");
    // Of a namespace with more than is kept, what is not kept is unknown. The others lose nothing.
    let many = cluster.namespace("many-templates").await;
    for at in 0..5_000 {
        let mut template = template(&many);
        template["metadata"]["name"] = json!(format!("a-{at:04}"));
        cluster.api.create(&template).await.ok();
    }
    let of_many = async || self::said(cluster, &many, &annotated_template()).await;
    eventually("nothing is said of what is not kept", async || of_many().await.is_empty()).await;
    assert!(!said().await.is_empty());

    // Without the right to read them, as without `rbac.create`, nothing is known, and `check` says so.
    let binding = take_binding(cluster).await;
    eventually("nothing is said of what is not watched", async || said().await.is_empty()).await;
    let (_, examined) = outcome(&mut cluster.program(&["check"])).await;
    assert!(
        examined.contains("[!]resource-claims: the watch failed\n") && examined.contains("and 3 more"),
        "{examined}"
    );
    cluster.api.create(&binding).await.ok();
    all_know(cluster).await;
    eventually("it is said again", async || !said().await.is_empty()).await;
    cluster.api.delete(&format!("{CLASSES}/efa.networking.k8s.aws")).await.ok();
    cluster.remove(&both).await;
    cluster.remove(&many).await;
    cluster.remove(&namespace).await;
}

pub(super) async fn domains_and_networks_that_pods_name_are_told_until_they_are_there(cluster: &Cluster) {
    let namespace = cluster.namespace("domains-and-networks").await;
    // Servers look for these APIs when they begin, and every ten minutes.
    let domain = json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
        "metadata": {"name": "named", "namespace": namespace},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "channel"}}}});
    let network = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "named", "namespace": namespace}, "spec": {"config": "{}"}});
    let kinds = [(domain, "computedomains"), (network, "network-attachment-definitions")];
    let mut paths = Vec::new();
    for (object, plural) in &kinds {
        let [api, kind] = ["apiVersion", "kind"].map(|key| object[key].as_str().unwrap());
        paths.push(declare(cluster, api, kind, plural, &namespace).await);
    }
    let mut values = values();
    values["podAnnotations"] = json!({"restarted-for": "domains and networks"});
    cluster.ensure(&values).await;
    let class = "compute-domain-default-channel.nvidia.com";
    create_class(cluster, class).await;

    let mut template = annotated_template();
    template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!(format!("{namespace}/named"));
    template["spec"]["resourceClaims"] = json!([{"name": "channel", "resourceClaimTemplateName": "channel"}]);
    let is_told = async |text: &str| {
        let all = said(cluster, &namespace, &template).await;
        all.iter().any(|told| told.contains(text))
    };
    let texts = ["the ResourceClaimTemplate `channel` ", "the NetworkAttachmentDefinition `named` "];
    for ((object, _), (path, text)) in kinds.iter().zip(paths.iter().zip(texts)) {
        eventually("what is absent is told", async || is_told(text).await).await;
        cluster.api.post(path, object).await.ok();
        eventually("what was created is known", async || !is_told(text).await).await;
        cluster.api.delete(&format!("{path}/named")).await.ok();
        eventually("what was deleted is missed", async || is_told(text).await).await;
        cluster.api.post(path, object).await.ok();
    }
    eventually("nothing is absent", async || said(cluster, &namespace, &template).await.is_empty()).await;

    cluster.api.delete(&format!("{CLASSES}/{class}")).await.ok();
    for (object, plural) in &kinds {
        let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
        cluster.api.delete(&format!("{DECLARATIONS}/{plural}.{group}")).await.ok();
    }
    cluster.remove(&namespace).await;
}
