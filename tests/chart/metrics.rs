//! The metrics in alerts and dashboard.

use std::collections::BTreeSet;

use fabric_engine::Reason;
use fabric_engine::admission::Record;
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
        "FabricInjectorCertificateExpiring",
        "FabricInjectorClientsStall",
        "FabricInjectorInjectionFailed",
        "FabricInjectorUnreachable",
        "FabricInjectorNotReady",
        "FabricInjectorPodsWithoutFabric",
        "FabricInjectorPodsNotInjected",
        "FabricInjectorReconcileFailed",
        "FabricInjectorReloadFailed",
        "FabricInjectorOverloaded",
    ];
    assert_eq!(alerts, wanted.map(str::to_owned).into());
    let page = read(&root().join("docs/operating.md"));
    for alert in alerts {
        assert!(page.contains(&format!("`{alert}`")), "docs/operating.md has no `{alert}`");
    }
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

/// The reasons for which a pod that asks, and has GPUs, needs nothing; and those of pods that do not ask or have none.
const IN_ORDER: [&str; 7] = [
    "no_policy_matches",
    "no_gpu_container",
    "nothing_to_add",
    "opted_out",
    "mirror_pod",
    "windows_pod",
    "not_a_new_pod",
];

/// The values that a matcher of an expression for a label lists.
fn listed<'e>(expression: &'e str, matcher: &str) -> BTreeSet<&'e str> {
    let (_, list) = expression.split_once(matcher).unwrap_or_else(|| panic!("no {matcher} in {expression}"));
    list.split('"').nth(1).unwrap().split('|').collect()
}

/// A reason that the program gets later is counted, unless somebody says that it is none.
pub(crate) fn every_pod_that_asks_and_is_not_injected_is_counted_by_its_reason(helm: &Helm) {
    let of_engine = [Reason::LEFT_ALONE, Reason::SKIPPED, Reason::REFUSED, Reason::FAULTS].concat();
    let of_server = Record::REASONS.iter().map(|(reason, _)| *reason);
    let known: BTreeSet<&str> = of_engine.into_iter().chain(of_server).collect();
    assert!(IN_ORDER.iter().all(|reason| known.contains(reason)), "{known:?}");
    let rules = json!({"prometheusRule": {"enabled": true}});
    let rule = |name: &str| alert(helm, &rules, name).unwrap();
    let without = rule("FabricInjectorPodsWithoutFabric");
    let failed = rule("FabricInjectorInjectionFailed");
    let panels = dashboard()["panels"].as_array().unwrap().clone();
    let panel = panels.iter().find(|panel| panel["title"] == "Pods without the fabric, by reason").unwrap();
    let shown = panel["targets"][0]["expr"].as_str().unwrap();
    let alerted = without["expr"].as_str().unwrap();
    let failures = failed["expr"].as_str().unwrap();
    for expression in [alerted, shown] {
        assert_eq!(listed(expression, "reason!~"), IN_ORDER.into());
    }
    assert_eq!(listed(alerted, "outcome=~"), ["skipped", "refused", "unchanged"].into());
    assert_eq!(listed(failures, "outcome="), ["failed"].into());
    assert_eq!(listed(shown, "outcome=~"), ["skipped", "refused", "unchanged", "failed"].into());
    assert!([alerted, failures, shown].iter().all(|expression| {
        let (by, _) = expression.strip_prefix("sum by (").unwrap().split_once(')').unwrap();
        by.split(", ").any(|label| label == "reason")
    }));
    assert_eq!(
        (&failed["labels"]["severity"], &without["labels"]["severity"]),
        (&json!("critical"), &json!("warning"))
    );
}

pub(crate) fn the_dashboard_in_the_cluster_is_the_file(helm: &Helm) {
    let objects = render(helm, &with(enabled("aws"), &json!({"dashboard": {"enabled": true}})));
    let map = objects.named("ConfigMap", "fabric-injector-dashboard").unwrap();
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = map["data"]["fabric-injector.json"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), dashboard());
}
