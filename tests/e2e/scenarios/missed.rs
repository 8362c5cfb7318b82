//! The table of `docs/pods-without-the-fabric.md`: each way in which a pod misses the fabric is taken, and each cell of its
//! row reports it.

mod series;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabric_yaml as yaml;
use futures_util::future::join_all;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use self::series::selected;
use super::examination::{ADMISSION, check};
use super::neighbours;
use super::node_watch::{all_know, all_tell, take_binding};
use super::outages::{WEBHOOK, scale};
use super::undecided::{
    Kind, MEGA, NDV5, Node, P5, ULTRA, asks, bring_up, leave_nodes_that_are_gone, wait_without_a_list,
};
use crate::cluster::Cluster;
use crate::helm::RELEASE;
use crate::workloads::{annotated_template, is_injected, job, pod};
use crate::{eventually, kubelet, nodes};

/// The rows that no scenario takes, and why.
const UNTRIED: &[(&str, &str)] = &[("panic", "it needs a bug of the program; tests/webhook makes one")];

const RAILS: Node = (
    "up-rails",
    "",
    "rack-9",
    &[
        ("nvidia.com/gpu", 8),
        ("rdma/rdma_shared_resource_rail_0", 63),
        ("rdma/rdma_shared_resource_rail_1", 63),
    ],
);
const NODES: &[Node] = &[P5, NDV5, MEGA, ULTRA, RAILS];

/// A row of the table.
#[derive(Debug, Clone)]
struct Row {
    outcome: String,
    event: String,
    alert: String,
    check: String,
    remedy: String,
}

/// The rows by the first cell.
fn table() -> BTreeMap<String, Row> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pods-without-the-fabric.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("| way | outcome | Event | alert | `check` | remedy |\n").unwrap();
    let rows = rest.lines().skip(1).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [way, outcome, event, alert, check, remedy] = cells[..] else { panic!("{line}") };
        let plain = |cell: &str| cell.replace('`', "");
        let row = Row {
            outcome: plain(outcome),
            event: plain(event),
            alert: plain(alert),
            check: plain(check),
            remedy: remedy.to_owned(),
        };
        (plain(way), row)
    });
    rows.collect()
}

/// The table, the expression of each alert, and the ways that were taken.
struct Walk<'c> {
    cluster: &'c Cluster,
    rows: BTreeMap<String, Row>,
    alerts: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl<'c> Walk<'c> {
    async fn new(cluster: &'c Cluster) -> Self {
        let rules = ["template", RELEASE, "--kube-version", "1.33.0", "--set", "prometheusRule.enabled=true"];
        let only = ["--show-only", "templates/prometheusrule.yaml"];
        let (succeeded, said) = cluster.helm.run_with(&[&rules[..], &only].concat(), &json!({})).await;
        assert!(succeeded, "{said}");
        let (_, text) = said.split_once("---\n").unwrap();
        let rules = yaml::read_value(text).unwrap().root.unwrap();
        let rules = rules["spec"]["groups"][0]["rules"].as_array().unwrap().clone();
        let text = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_owned();
        let alerts = rules.iter().map(|rule| (text(rule, "alert"), text(rule, "expr"))).collect();
        Self { cluster, rows: table(), alerts, taken: BTreeSet::new() }
    }

    fn row(&mut self, way: &str) -> Row {
        assert!(self.taken.insert(way.to_owned()), "{way} twice");
        self.rows.get(way).unwrap_or_else(|| panic!("the table has no row `{way}`")).clone()
    }

    /// The samples that an alert selects, of all servers and the API server.
    async fn alerted(&self, alert: &str, labels: &[(&str, &str)]) -> f64 {
        let mut metrics = self.cluster.api.get("/metrics").await.body.as_str().unwrap().to_owned();
        for server in self.cluster.servers().await {
            let address = server["status"]["podIP"].as_str().unwrap_or_default();
            metrics += &kubelet::get(address, 8080, "/metrics").await.unwrap_or_default().1;
        }
        selected(&metrics, &self.alerts[alert], labels)
    }

    /// Waits until the line of the row fails, and has these texts; the line.
    async fn check_fails(&self, way: &str, row: &Row, text: &str) -> String {
        let mut found = String::new();
        eventually(&format!("{way}: `check` fails at `{}` with `{text}`", row.check), async || {
            let lines = check(self.cluster, &[]).await;
            let line = lines
                .into_iter()
                .find(|(name, status, said)| *name == row.check && status == "fail" && said.contains(text));
            line.map(|(.., said)| found = said).is_some()
        })
        .await;
        found
    }

    /// Creates a Job, sees that each cell of the row of its pods reports them, and removes it.
    async fn pods(&mut self, way: &str, count: usize, template: &Value) {
        let namespace = self.reported(way, count, template).await;
        self.end(&namespace).await;
    }

    /// Creates a Job, and sees that each cell of the row of its pods reports them; its namespace.
    async fn reported(&mut self, way: &str, count: usize, template: &Value) -> String {
        let row = self.row(way);
        let way_of_code = way.split(',').next().unwrap_or(way);
        let code = if way == "a check with action: refuse" { ways::REFUSING } else { way_of_code };
        let namespace = self.cluster.namespace(&format!("missed-{}", self.taken.len())).await;
        let mut labels = vec![("outcome", row.outcome.as_str()), ("reason", code)];
        if row.outcome != "failed" {
            labels.push(("pod_namespace", &namespace));
        }
        let before = self.alerted(&row.alert, &labels).await;
        self.cluster.api.create(&job(&namespace, "train", count, template)).await.ok();
        let message = self.event(way, &namespace, &row.event).await;
        eventually(&format!("{way}: {} counts it", row.alert), async || {
            self.alerted(&row.alert, &labels).await > before
        })
        .await;
        let text = if row.check == "not-injected" { format!("Job {namespace}/train") } else { String::new() };
        let line = self.check_fails(way, &row, &text).await;
        let remedy = if code == ways::REFUSING { "remove the label" } else { &row.remedy };
        assert!(
            message.contains(remedy) || line.contains(remedy),
            "{way}: no `{remedy}` in {message}\n{line}"
        );
        namespace
    }

    /// Waits for an Event of a reason on the Job; its message.
    async fn event(&self, way: &str, namespace: &str, reason: &str) -> String {
        let events = format!("/api/v1/namespaces/{namespace}/events");
        let mut message = String::new();
        eventually(&format!("{way}: the Job has the Event {reason}"), async || {
            let events = self.cluster.api.list(&events).await;
            let event = events
                .iter()
                .find(|event| event["reason"] == reason && event["involvedObject"]["kind"] == "Job");
            event.and_then(|event| event["message"].as_str()).unwrap_or_default().clone_into(&mut message);
            event.is_some()
        })
        .await;
        message
    }

    /// Creates a Job that no server reviews, whose pods run if `runs`, and sees that the alert is above what it was.
    async fn unreviewed(&self, way: &str, row: &Row, template: &Value, runs: bool, before: f64) -> String {
        let namespace = self.cluster.namespace(&format!("missed-{}", self.taken.len())).await;
        self.cluster.api.create(&job(&namespace, "train", 2, template)).await.ok();
        if runs {
            let pods = format!("/api/v1/namespaces/{namespace}/pods");
            eventually(&format!("{way}: the pods run without the fabric"), async || {
                let pods = self.cluster.api.list(&pods).await;
                pods.len() == 2 && !pods.iter().any(is_injected)
            })
            .await;
        } else {
            self.event(way, &namespace, &row.event).await;
        }
        let rises = async || self.alerted(&row.alert, &[]).await > before;
        eventually(&format!("{way}: {} counts it", row.alert), rises).await;
        namespace
    }

    /// Removes a namespace, and waits until its pods are gone.
    async fn end(&self, namespace: &str) {
        let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs/train");
        self.cluster.api.delete(&jobs).await.ok();
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        eventually("the pods are gone", async || self.cluster.api.list(&pods).await.is_empty()).await;
        self.cluster.remove(namespace).await;
    }

    /// Nodes that are no longer watched, and none at all.
    async fn nodes(&mut self, values: &Value) {
        let binding = take_binding(self.cluster).await;
        all_tell(self.cluster, "[!]nodes: the watch failed at ").await;
        let row = self.row("the nodes are no longer watched");
        eventually("the age of the nodes rises", async || {
            self.alerted(&row.alert, &[("resource", "nodes")]).await > 0.0
        })
        .await;
        let line = self.check_fails("stale", &row, "[!]nodes: the watch failed at").await;
        assert!(line.contains(&row.remedy), "{line}");
        let mut ignoring = values.clone();
        ignoring["webhook"] = json!({"failurePolicy": "Ignore"});
        self.cluster.api.create(&binding).await.ok();
        self.cluster.ensure(&ignoring).await;
        let binding = take_binding(self.cluster).await;
        wait_without_a_list(self.cluster).await;
        self.pods("nodes_unknown", 2, &asks(Kind::Gpus, "", "")).await;
        self.cluster.api.create(&binding).await.ok();
        all_know(self.cluster).await;
    }

    /// Servers that do not answer.
    async fn outages(&mut self, values: &Value) {
        for (policy, way) in [
            ("Ignore", "no server answers, failurePolicy: Ignore"),
            ("Fail", "no server answers, failurePolicy: Fail"),
        ] {
            let mut values = values.clone();
            values["webhook"] = json!({"failurePolicy": policy});
            self.cluster.ensure(&values).await;
            let row = self.row(way);
            scale(self.cluster, 0).await;
            let before = self.alerted(&row.alert, &[]).await;
            let runs = policy == "Ignore";
            let namespace = self.unreviewed(way, &row, &annotated_template(), runs, before).await;
            if policy == "Ignore" {
                scale(self.cluster, 2).await;
                self.cluster.serves().await;
            }
            let text = if policy == "Ignore" {
                format!("2 running pods requested the fabric and are not injected: `Job {namespace}/train`")
            } else {
                String::new()
            };
            let line = self.check_fails(way, &row, &text).await;
            assert!(line.contains(&row.remedy), "{line}");
            if policy == "Fail" {
                scale(self.cluster, 2).await;
            }
            self.end(&namespace).await;
        }
    }

    /// A registration that was edited by hand, or is older than the policies.
    async fn registration(&mut self, values: &Value) {
        let condition = |at: usize| {
            let path = format!("/webhooks/0/matchConditions/{at}/expression");
            json!({"op": "replace", "path": path, "value": "false"})
        };
        let selector =
            json!({"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}});
        let trigger =
            json!({"op": "replace", "path": "/spec/matchConditions/0/expression", "value": "false"});
        let guard = format!("{ADMISSION}/validatingadmissionpolicies/fabric-injector-guard");
        for (way, edits) in [
            ("a condition of the webhook is changed", vec![(WEBHOOK, condition(1))]),
            ("a selector of the webhook is changed", vec![(WEBHOOK, selector)]),
            ("a trigger is not registered", vec![(WEBHOOK, condition(0)), (&guard, trigger)]),
            ("the webhook configuration is deleted", Vec::new()),
        ] {
            self.cluster.ensure(values).await;
            self.cluster.serves().await;
            let row = self.row(way);
            let before = self.alerted(&row.alert, &[]).await;
            for (path, edit) in &edits {
                self.cluster.api.patch(path, &json!([edit])).await.ok();
            }
            if edits.is_empty() {
                self.cluster.api.delete(WEBHOOK).await.ok();
            }
            self.cluster.forget().await;
            let asked = pod("default", "asked", &annotated_template());
            eventually("no server is asked", async || {
                let reply = self.cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await;
                reply.status == 201 && !is_injected(&reply.body)
            })
            .await;
            let namespace = self.unreviewed(way, &row, &annotated_template(), true, before).await;
            let line = self.check_fails(way, &row, "").await;
            assert!(line.contains(&row.remedy), "{line}");
            self.end(&namespace).await;
            self.cluster.uninstall().await;
        }
    }

    /// Another webhook, which is called after ours, annotates pods.
    async fn annotated_later(&mut self, values: &Value) {
        let way = "a webhook that is called later annotates the pod";
        self.cluster.ensure(values).await;
        let row = self.row(way);
        let all = neighbours::register(self.cluster).await;
        let mut template = annotated_template();
        template["metadata"] = json!({"labels": neighbours::labels("annotates", "later")});
        let before = self.alerted(&row.alert, &[]).await;
        let namespace = self.unreviewed(way, &row, &template, true, before).await;
        let line = self.check_fails(way, &row, &format!("Job {namespace}/train")).await;
        assert!(line.contains(&row.remedy), "{line}");
        neighbours::remove(self.cluster, &all).await;
        self.end(&namespace).await;
    }

    /// Conditions of other policies: the API server sends pods that no policy in use matches.
    async fn other_policies(&mut self, values: &Value) {
        self.cluster.ensure(values).await;
        self.cluster.serves().await;
        let expression = |at: usize| {
            let path = format!("/webhooks/0/matchConditions/{at}/expression");
            json!({"op": "replace", "path": path, "value": "object.metadata.?labels[?'other'].orValue('') == 'policy'"})
        };
        self.cluster.api.patch(WEBHOOK, &json!([expression(0), expression(1)])).await.ok();
        self.cluster.forget().await;
        all_tell(self.cluster, "[!]conditions: ").await;
        let mut template = annotated_template();
        template["metadata"] = json!({"labels": {"other": "policy"}});
        self.pods("other_policies_registered, within a minute after a change", 1, &template).await;
        sleep(Duration::from_mins(1)).await;
        self.pods("other_policies_registered, later", 1, &template).await;
        self.cluster.uninstall().await;
    }

    /// Servers that have no time for a pod, because of others.
    async fn overload(&mut self) {
        let busy = pod("default", "busy", &ways::slow());
        // A small pod need not wait. Of these, the Job creates many together.
        let (cluster, mut template) = (self.cluster, annotated_template());
        template["spec"]["containers"][0]["args"] = json!(["x".repeat(100 << 10)]);
        let send = || async {
            loop {
                // The API server ends some of the requests itself.
                let path = "/api/v1/namespaces/default/pods?dryRun=All";
                let _ = cluster.api.try_send(Method::POST, path, "application/json", Some(&busy)).await;
            }
        };
        let keep_busy = join_all((0..16).map(|_| send()));
        let namespace = tokio::select! {
            _ = keep_busy => unreachable!("it goes on"),
            namespace = self.reported("overload, failurePolicy: Ignore", 60, &template) => namespace,
        };
        // A busy API server would take long for it.
        self.end(&namespace).await;
    }
}

pub(super) async fn each_way_in_which_a_pod_misses_the_fabric_is_reported(cluster: &Cluster) {
    let mut walk = Walk::new(cluster).await;
    nodes::remove_gpus(&cluster.api).await;
    let on_host = json!({"oci": {"rdmaAttachment": "hostNetwork"}});
    let clouds = json!({"server": {"log": "debug"}, "multinodeNetworking": on_host});
    cluster.ensure(&clouds).await;
    leave_nodes_that_are_gone(cluster).await;
    bring_up(cluster, NODES).await;
    for (way, template) in ways::of_clouds() {
        walk.pods(way, 1, &template).await;
    }
    walk.nodes(&clouds).await;
    walk.outages(&clouds).await;

    let mut lab = json!({"server": {"log": "debug"}, "extraPolicies": ways::lab()});
    cluster.ensure(&lab).await;
    for (way, template) in ways::of_lab() {
        walk.pods(way, 1, &template).await;
    }
    lab["webhook"] = json!({"failurePolicy": "Ignore"});
    lab["server"]["extraArgs"] = json!(["--max-in-flight=1"]);
    cluster.ensure(&lab).await;
    walk.overload().await;
    walk.annotated_later(&clouds).await;
    walk.registration(&clouds).await;
    walk.other_policies(&clouds).await;
    for (name, ..) in NODES {
        cluster.api.delete(&format!("/api/v1/nodes/{name}")).await.ok();
    }
    nodes::restore_gpus(&cluster.api).await;

    let untried = UNTRIED.iter().map(|(way, _)| (*way).to_owned());
    walk.taken.extend(untried);
    let rows: BTreeSet<String> = walk.rows.into_keys().collect();
    assert_eq!(walk.taken, rows, "each row of the table has a scenario");
}
