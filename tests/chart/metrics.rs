//! The metrics in alerts and dashboard.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cases::{certificates, enabled, render, with};
use crate::helm::Helm;
use crate::{chart, read, root};

/// Words of an expression that begin as our metrics, those of the process, or those of others do.
fn metrics(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let prefixes = ["fabric_injector_", "process_", "apiserver_", "kube_", "up"];
    let metric = |word: &&str| prefixes.iter().any(|prefix| word.starts_with(prefix));
    words.filter(metric).map(str::to_owned).collect()
}

/// The metrics that the pages for operators name.
fn known() -> String {
    read(&root().join("docs/serve.md")) + &read(&root().join("docs/operating.md"))
}

fn check(place: &str, expression: &str, known: &str) {
    let used = metrics(expression);
    assert!(!used.is_empty(), "{place}: {expression}");
    for metric in used {
        let base = metric.strip_suffix("_bucket").unwrap_or(&metric);
        assert!(known.contains(&format!("`{base}`")), "{place}: no page has the metric `{base}`");
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&read(&chart().join("files/dashboard.json"))).unwrap()
}

pub(crate) fn every_panel_of_the_dashboard_has_known_metrics() {
    let known = known();
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            check(title, expression, &known);
            balanced(title, expression);
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            check("a variable", variable["definition"].as_str().unwrap(), &known);
        }
    }
}

/// No two panels lie on each other, and none reaches beyond the edge.
pub(crate) fn the_panels_of_the_dashboard_have_their_place() {
    let mut taken = BTreeSet::new();
    for panel in dashboard()["panels"].as_array().unwrap() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{}", panel["title"]);
            }
        }
    }
}

fn balanced(place: &str, expression: &str) {
    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
        let count = |letter| expression.matches(letter).count();
        assert_eq!(count(open), count(close), "{place}: {expression}");
    }
}

pub(crate) fn every_alert_has_known_metrics_and_a_description(helm: &Helm) {
    let values = json!({"prometheusRule": {"enabled": true, "certificateDays": 3}});
    let objects = render(helm, &with(enabled("aws"), &values));
    let known = known();
    let mut alerts = BTreeSet::new();
    for rule in objects.the("PrometheusRule")["spec"]["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        alerts.insert(name.to_owned());
        let expression = rule["expr"].as_str().unwrap();
        check(name, expression, &known);
        balanced(name, expression);
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        for text in ["summary", "description"] {
            assert!(
                rule["annotations"][text].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {text}"
            );
        }
    }
    let wanted = [
        "FabricInjectorAbsent",
        "FabricInjectorAdviceUnreachable",
        "FabricInjectorNodesStale",
        "FabricInjectorObjectsNotThere",
        "FabricInjectorCertificateExpiring",
        "FabricInjectorClientsStall",
        "FabricInjectorConditionsDiffer",
        "FabricInjectorEventsFail",
        "FabricInjectorInjectionFailed",
        "FabricInjectorUnreachable",
        "FabricInjectorNotReady",
        "FabricInjectorReplicaMissing",
        "FabricInjectorPodsWithoutFabric",
        "FabricInjectorPodsNotInjected",
        "FabricInjectorPoliciesDiffer",
        "FabricInjectorReconcileFailed",
        "FabricInjectorReloadFailed",
        "FabricInjectorOverloaded",
    ];
    assert_eq!(alerts, wanted.map(str::to_owned).into());
}

pub(crate) fn the_alert_on_reconciliation_exists_with_managed_certificates_only(helm: &Helm) {
    for certificate in certificates() {
        let values = with(json!({"prometheusRule": {"enabled": true}}), &certificate);
        let watched = alert(helm, &values, "FabricInjectorReconcileFailed");
        assert_eq!(watched.is_some(), certificate == json!({}), "{certificate}");
    }
}

pub(crate) fn the_alert_on_expiry_fires_after_the_renewal_was_due(helm: &Helm) {
    let days = |days: f64| json!({"prometheusRule": {"enabled": true, "certificateDays": days}});
    let cases = [
        (days(7.0), json!({}), "604800"),
        (days(0.5), json!({}), "43200"),
        // A quarter of the 30 days is less than that.
        (days(8.0), json!({}), "648000"),
        (days(30.0), json!({"certManager": {"enabled": true}}), "2592000"),
    ];
    for (days, certificate, seconds) in cases {
        let rule = alert(helm, &with(days, &certificate), "FabricInjectorCertificateExpiring").unwrap();
        let wanted = format!(
            "min(fabric_injector_certificate_expiry_timestamp_seconds{{namespace=\"fabric-injector\"}}) - time() \
             < {seconds}"
        );
        assert_eq!(rule["expr"], wanted);
    }
}

/// The rule of this alert, if it is there with these values.
fn alert(helm: &Helm, values: &Value, name: &str) -> Option<Value> {
    let objects = render(helm, &with(enabled("aws"), values));
    let rules = &objects.the("PrometheusRule")["spec"]["groups"][0]["rules"];
    rules.as_array().unwrap().iter().find(|rule| rule["alert"] == name).cloned()
}

/// The first pod of a namespace creates its series. The servers decide which pods count.
pub(crate) fn every_pod_without_the_fabric_is_counted_by_its_reason(helm: &Helm) {
    let rules = json!({"prometheusRule": {"enabled": true}});
    let rule = |name: &str| alert(helm, &rules, name).unwrap();
    let without = rule("FabricInjectorPodsWithoutFabric");
    let failed = rule("FabricInjectorInjectionFailed");
    let panels = dashboard()["panels"].as_array().unwrap().clone();
    let title = "Pods without the fabric, by namespace and reason";
    let panel = panels.iter().find(|panel| panel["title"] == title).unwrap();
    let counted = |labels: &str, window: &str, selector: &str| {
        let pods = format!("fabric_injector_pods_without_fabric_total{{{selector}}}");
        format!("sum by ({labels}) ((({pods} - ({pods} offset {window})) >= 0) or {pods})")
    };
    let own = "namespace=\"fabric-injector\"";
    let labels = "pod_namespace, mode, outcome, reason";
    let wanted = counted(labels, "10m", &format!("outcome!=\"failed\", {own}")) + " > 0";
    // Nor what happened before a gap, of which `alerts.yaml` has more.
    let expression = without["expr"].as_str().unwrap();
    let unknown = " unless on (instance, job) ((up unless ((up offset 10m) == 1)) and on (instance, job) ((time() - \
                   process_start_time_seconds) > 600))";
    let (before, after) = expression.split_once(unknown).unwrap();
    let (rises, opens) = before.rsplit_once(" or (").unwrap();
    assert_eq!(format!("{rises} or {opens}{}", after.strip_prefix(')').unwrap()), wanted);
    // The team of the pods gets it.
    assert_eq!(without["labels"], json!({"severity": "warning", "namespace": "{{ $labels.pod_namespace }}"}));
    let shown = counted("pod_namespace, outcome, reason", "$__rate_interval", "namespace=\"$namespace\"");
    assert_eq!(panel["targets"][0]["expr"], shown);
    let failures = format!(
        "sum by (reason) (increase(fabric_injector_reviews_total{{outcome=\"failed\", {own}}}[10m])) > 0"
    );
    assert_eq!((&failed["expr"], &failed["labels"]["severity"]), (&json!(failures), &json!("critical")));
}

/// An alert that lasts longer than its window ends with the failures.
pub(crate) fn the_alert_on_reconciliation_does_not_outlive_the_failures(helm: &Helm) {
    let rule =
        alert(helm, &json!({"prometheusRule": {"enabled": true}}), "FabricInjectorReconcileFailed").unwrap();
    assert!(rule["expr"].as_str().unwrap().contains("[5m]") && rule["for"] == "10m", "{rule}");
}

/// The sections of the page for operators are those of the alerts.
pub(crate) fn each_alert_links_to_its_section(helm: &Helm) {
    let page = read(&root().join("docs/operating.md"));
    let values = |url: &str| json!({"prometheusRule": {"enabled": true, "runbookUrl": url}});
    for url in ["", "https://example.com/operating.md"] {
        let objects = render(helm, &with(enabled("aws"), &values(url)));
        for rule in objects.the("PrometheusRule")["spec"]["groups"][0]["rules"].as_array().unwrap() {
            let name = rule["alert"].as_str().unwrap();
            assert!(page.contains(&format!("\n### {name}\n")), "docs/operating.md has no section {name}");
            let wanted = (!url.is_empty()).then(|| json!(format!("{url}#{}", name.to_lowercase())));
            assert_eq!(rule["annotations"].get("runbook_url"), wanted.as_ref(), "{name}");
        }
    }
}

pub(crate) fn alerts_on_nodes_and_advice_exist_where_they_can_fire(helm: &Helm) {
    let rules = |values: Value| with(json!({"prometheusRule": {"enabled": true}}), &values);
    let has = |values: Value, name: &str| alert(helm, &rules(values), name).is_some();
    assert!(has(json!({}), "FabricInjectorNodesStale") && has(json!({}), "FabricInjectorAdviceUnreachable"));
    assert!(!has(json!({"nodes": {"watch": false}}), "FabricInjectorNodesStale"));
    let without = |keys: &[&str]| {
        let values = keys.iter().map(|key| ((*key).to_owned(), json!({"enabled": false}))).collect();
        has(Value::Object(values), "FabricInjectorAdviceUnreachable")
    };
    assert!(without(&["advice"]) && without(&["policyReview"]) && !without(&["advice", "policyReview"]));
}

pub(crate) fn the_dashboard_in_the_cluster_is_the_file(helm: &Helm) {
    let objects = render(helm, &with(enabled("aws"), &json!({"dashboard": {"enabled": true}})));
    let map = objects.named("ConfigMap", "fabric-injector-dashboard").unwrap();
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = map["data"]["fabric-injector.json"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), dashboard());
}
