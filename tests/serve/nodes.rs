//! A server whose policies are of several providers, among which the nodes choose, and what it does without them.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::api_server::{ApiServer, Listing};
use super::certificates::Site;
use super::eventually;
use super::reviews::{pod, response, review};
use super::server::{Server, folder, run, serve};

/// A policy of a provider, whose nodes have its name in `spec.providerID`.
fn policy(provider: &str) -> String {
    format!(
        r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {{name: {provider}}}
spec:
  provider: {provider}
  nodes: {{providerIDs: ["{provider}://*"]}}
  description: A policy to try things on
  gpus: {{resources: [nvidia.com/gpu]}}
  match:
    anyAnnotation: {{nmp.nvidia.com/enable-multi-node-networking: "true"}}
  rules: [{{name: fabric, env: {{FABRIC: {provider}}}}}]
"#
    )
}

fn two_providers() -> TempDir {
    folder(&[("alpha.yaml", &policy("alpha")), ("beta.yaml", &policy("beta"))])
}

/// A server that listens, and may not be ready.
async fn watching(site: &Site, api: &ApiServer, policies: &str, options: &[&str]) -> Server {
    let tls = site.path("");
    let mut command = serve(&["--tls-dir", &tls, "--policy", policies, "--watch-nodes"]);
    command.env("KUBECONFIG", api.kubeconfig()).args(options);
    Server::try_spawn(&mut command).await.unwrap_or_else(|said| panic!("it ended:\n{said}"))
}

/// Waits until the server says this of itself, and is ready or not.
async fn says(server: &Server, ready: bool, lines: &str) {
    let mut reply = server.get("/readyz?verbose").await;
    eventually(lines, async || {
        reply = server.get("/readyz?verbose").await;
        reply.text().contains(lines)
    })
    .await;
    assert_eq!(reply.status, if ready { 200 } else { 503 }, "{}", reply.text());
}

/// The review of the pod of a Job.
fn of_job(uid: &str, job: &str, change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut pod = pod();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": true}]);
    change(&mut pod);
    review(uid, &pod)
}

const FORBIDDEN: &str = "    nodes is forbidden: User \"server\" cannot list resource \"nodes\" in API group \"\" at the \
                         cluster scope\n    hint: grant `list` and `watch` of nodes in a ClusterRole";

#[tokio::test]
async fn a_server_that_needs_nodes_and_never_had_them_is_not_ready_and_says_what_to_do() {
    let (site, policies) = (Site::new(), two_providers());
    let policies = policies.path().to_str().unwrap();
    let need = "and policies of several providers need them\n";
    let api = ApiServer::start(Listing::Hangs).await;
    let server = watching(&site, &api, policies, &[]).await;
    says(&server, false, "[-]nodes: none in use, the first list began at ").await;
    says(
        &server,
        false,
        &format!("{need}    hint: see whether the API server responds, and whether a NetworkPolicy"),
    )
    .await;
    assert_eq!(server.metric("fabric_injector_node_watch{state=\"starting\"}").await, 1);
    // Whoever comes nonetheless gets the reason.
    let reply = site.client(&server).post(of_job("a", "train", |_| ())).await.unwrap();
    let refused = response(&reply, "a");
    assert_eq!((&refused["allowed"], &refused["status"]["code"]), (&json!(false), &json!(500)), "{refused}");
    assert!(
        refused["status"]["message"]
            .as_str()
            .unwrap()
            .contains("the nodes of the cluster, which choose the provider, are not known")
    );
    let failed = "fabric_injector_reviews_total{policy=\"\",outcome=\"failed\",reason=\"nodes_unknown\",mode=\"inject\"}";
    assert_eq!(server.metric(failed).await, 1);

    for (listing, lines) in
        [(Listing::Forbidden, FORBIDDEN), (Listing::Fails, "    etcd has no leader\n    hint: see whether")]
    {
        let api = ApiServer::start(listing).await;
        let server = watching(&site, &api, policies, &[]).await;
        says(&server, false, &format!("[-]nodes: none in use, the first list failed, {need}{lines}")).await;
        assert_eq!(server.metric("fabric_injector_node_watch{state=\"unavailable\"}").await, 1);
        api.lists(Listing::Nodes(vec!["alpha"]));
        says(&server, true, "[+]nodes: 1 in use\n").await;
    }
}

#[tokio::test]
async fn a_server_whose_policies_are_of_one_provider_is_ready_without_nodes() {
    let site = Site::new();
    let policies = folder(&[("alpha.yaml", &policy("alpha"))]);
    let folder = policies.path().to_str().unwrap();
    let api = ApiServer::start(Listing::Forbidden).await;
    let server = watching(&site, &api, folder, &[]).await;
    says(&server, true, &format!("[!]nodes: none in use, the first list failed\n{FORBIDDEN}")).await;

    // A second provider needs the nodes: the policies from before stay in use until they are known.
    fs::write(policies.path().join("beta.yaml"), policy("beta")).unwrap();
    let failed = "[!]policies: the last reload failed, the previous version is in use\n    the policies are of \
                  several providers, between which the nodes choose, but the nodes are not known\n    hint: see \
                  the check `nodes`";
    says(&server, true, failed).await;
    says(&server, true, "[+]policies: 1 in use\n").await;
    api.lists(Listing::Nodes(vec!["alpha", "beta"]));
    says(&server, true, "[+]nodes: 2 in use\n").await;
    fs::write(policies.path().join("beta.yaml"), policy("beta").replace("things", "more things")).unwrap();
    says(&server, true, "[+]policies: 2 in use\n").await;
}

#[tokio::test]
async fn a_namespace_with_too_many_templates_is_told() {
    let site = Site::new();
    let policies = folder(&[("alpha.yaml", &policy("alpha"))]);
    let api = ApiServer::start(Listing::Templates(1_001)).await;
    let server = watching(&site, &api, policies.path().to_str().unwrap(), &[]).await;
    let told = "[!]claims: 1 namespace with too many resourceclaimtemplates, such as `full`: names decide about claims \
                beyond the bound\n";
    says(&server, true, told).await;
    let metric = |resource: &str| format!("fabric_injector_namespaces_over_bound{{resource=\"{resource}\"}}");
    assert_eq!(server.metric(&metric("resourceclaimtemplates")).await, 1);
    assert_eq!(server.metric(&metric("computedomains")).await, 0);
}

#[tokio::test]
async fn a_lost_watch_keeps_the_nodes_and_says_since_when() {
    let (site, policies) = (Site::new(), two_providers());
    let api = ApiServer::start(Listing::Nodes(vec!["alpha"])).await;
    let server = watching(&site, &api, policies.path().to_str().unwrap(), &[]).await;
    says(&server, true, "[+]nodes: 1 in use\n").await;
    assert_eq!(server.metric("fabric_injector_nodes_age_seconds{resource=\"nodes\"}").await, 0);
    for (listing, lines) in
        [(Listing::Fails, "    etcd has no leader\n    hint: see whether"), (Listing::Forbidden, FORBIDDEN)]
    {
        api.lists(listing);
        says(&server, true, "[!]nodes: the watch failed at ").await;
        says(&server, true, &format!(", the last 1 stay in use\n{lines}")).await;
        assert_eq!(server.metric("fabric_injector_node_watch{state=\"stale\"}").await, 1);
        assert_eq!(server.metric("fabric_injector_nodes").await, 1);
        let age = server.get("/metrics").await.text();
        let age = age
            .lines()
            .find_map(|line| line.strip_prefix("fabric_injector_nodes_age_seconds{resource=\"nodes\"} "));
        let age: f64 = age.unwrap().parse().unwrap();
        assert!(age > 0.0 && age < 60.0, "{age}");
        let reply = site.client(&server).post(of_job("a", "train", |_| ())).await.unwrap();
        assert_eq!(response(&reply, "a")["patchType"], "JSONPatch");
    }
    let logged = server.logged("the watch of the nodes failed", 1).await;
    assert_eq!((&logged[0]["state"], &logged[0]["nodes"]), (&json!("stale"), &json!(1)));
}

#[tokio::test]
async fn a_server_that_allows_what_it_cannot_inject_is_ready_and_the_owner_of_the_pod_gets_an_event() {
    let (site, policies) = (Site::new(), two_providers());
    for (option, mode) in [("--on-error=allow", "inject"), ("--mode=audit", "audit")] {
        let api = ApiServer::start(Listing::Forbidden).await;
        let server = watching(&site, &api, policies.path().to_str().unwrap(), &[option, "--events"]).await;
        let need =
            "[!]nodes: none in use, the first list failed, and policies of several providers need them\n";
        says(&server, true, &format!("{need}{FORBIDDEN}")).await;
        let client = site.client(&server);
        let text = "NOT injected, the pod has no fast network: the nodes of the cluster, which choose the provider, are not known";
        for number in 0..3 {
            let reply =
                client.post(of_job("a", "train", |pod| pod["metadata"]["name"] = json!(number))).await;
            let allowed = response(&reply.unwrap(), "a");
            assert_eq!((&allowed["allowed"], allowed.get("patch")), (&json!(true), None), "{allowed}");
            assert!(allowed["warnings"][0].as_str().unwrap().contains(text), "{allowed}");
        }
        let counted = format!(
            "fabric_injector_reviews_total{{policy=\"\",outcome=\"failed\",reason=\"nodes_unknown\",mode=\"{mode}\"}}"
        );
        assert_eq!(server.metric(&counted).await, 3);
        eventually("an event", async || !api.events().is_empty()).await;
        // Another owner gets one of its own; one about the same would have come before.
        client.post(of_job("a", "other", |_| ())).await.unwrap();
        eventually("an event of the other Job", async || api.events().len() > 1).await;
        let events = api.events();
        let owners: Vec<&str> = events.iter().map(|(owner, ..)| owner.as_str()).collect();
        assert_eq!(owners, ["train", "other"]);
        assert!(
            events.iter().all(|(_, reason, note)| reason == "NodesUnknown" && note.contains(text)),
            "{events:?}"
        );
    }
}

#[test]
fn policies_of_several_providers_without_nodes_are_refused() {
    let policies = two_providers();
    for options in [&["--policy", policies.path().to_str().unwrap()][..], &["--policy=aws-efa,gcp-gib"]] {
        let run = run(&mut serve(options));
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        assert!(
            run.stderr.contains(
                "one provider at a time\nhint: keep the policies of one provider, or let the nodes \
                                     choose with `--watch-nodes`"
            ),
            "{}",
            run.stderr
        );
    }
}

#[tokio::test]
async fn a_reload_of_a_second_provider_without_nodes_is_refused() {
    let policies = folder(&[("alpha.yaml", &policy("alpha"))]);
    let server = Server::start(&["--policy", policies.path().to_str().unwrap()]).await;
    fs::write(policies.path().join("beta.yaml"), policy("beta")).unwrap();
    says(&server, true, "one provider at a time\n    hint: keep the policies of one provider, or let").await;
    says(&server, true, "[+]policies: 1 in use\n").await;
}
