//! What `check` looks at: the objects of the installation, and the pod that it tries.

use std::collections::BTreeMap;

use fabric_injector::core::engine::SKIPPED;
use fabric_injector::core::inspection::{Facts, Probe, Release, Status, inspect};
use fabric_injector::core::policy::Definition;
use fabric_injector::core::policy_set::PolicySet;
use serde_json::{Value, json};

use crate::helpers::{lab, policy, set};

use super::{FORBIDDEN, NAME, aws, dry_run, healthy, list, namespace, registered, reported};

#[test]
fn an_installation_is_found_by_the_name_of_its_release_or_of_its_objects() {
    let facts = healthy();
    for wanted in [None, Some("fabric-injector")] {
        let release = Release::find(&facts.webhooks, &facts.deployments, wanted);
        assert!(release.webhook.is_some() && release.deployment.is_some());
        assert_eq!((release.name(), release.namespace()), (Some(NAME), Some(NAME)));
        assert_eq!(release.secret(), Some("fabric-injector-tls"));
        let values = release.volume("/etc/fabric-injector/values/values.yaml").unwrap();
        assert_eq!(values["configMap"]["name"], "fabric-injector-values");
        assert!(release.volume("/etc/fabric-injector/value").is_none());
    }
    let none = Release::find(&facts.webhooks, &facts.deployments, Some("other"));
    assert!(none.webhook.is_none() && none.deployment.is_none() && none.name().is_none());
}

#[test]
fn the_pod_is_made_in_a_namespace_whose_pods_the_webhook_gets() {
    let chosen = |namespaces: &[Value], policies: PolicySet| {
        let facts = Facts { namespaces: Ok(list(namespaces)), ..healthy() };
        let release = Release::find(&facts.webhooks, &facts.deployments, None);
        Probe::default().namespace(&release, &facts.namespaces, &policies)
    };
    let some = |name: &str| Some(name.to_owned());
    let all = ["b", "a", "default", "kube-system"].map(|name| namespace(name, &[]));
    assert_eq!(chosen(&all, aws()), some("default"));
    assert_eq!(chosen(&all[..2], aws()), some("a"));
    assert_eq!(chosen(&all[3..], aws()), None);
    let matcher = "anyAnnotation: {lab/fabric: 'true'}\n    namespaces: [b]";
    assert_eq!(
        chosen(
            &all,
            set(vec![policy(
                "lab",
                matcher,
                "  rules: [{name: a, container: {env: [{name: A, value: b}]}}]"
            )])
        ),
        some("b")
    );
}

#[test]
fn the_pod_is_one_that_a_policy_injects_unless_the_user_says_otherwise() {
    let policies = aws();
    let pod = |probe: &Probe| probe.pod(&policies, "default").unwrap();
    let usual = pod(&Probe::default());
    let limits = &usual["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(usual["metadata"]["annotations"].as_object().unwrap().len(), 1);
    assert_eq!(limits["nvidia.com/gpu"], 8);
    assert_eq!(usual["spec"]["nodeSelector"], json!({"node.kubernetes.io/instance-type": "p5.48xlarge"}));
    let pair = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let chosen = pod(&Probe {
        annotations: pair("a", "b"),
        gpu_resource: Some("lab/gpu".to_owned()),
        node_selector: pair("pool", "x"),
        ..Probe::default()
    });
    assert_eq!(chosen["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(chosen["spec"]["nodeSelector"], json!({"pool": "x"}));
    assert_eq!(chosen["spec"]["containers"][0]["resources"]["limits"], json!({"lab/gpu": "8"}));
    let annotated = pod(&Probe { annotations: pair("a", "b"), ..Probe::default() });
    assert_eq!(annotated["spec"]["nodeSelector"], json!({}));

    let rule = "  rules: [{name: a, container: {env: [{name: A, value: b}]}}]";
    let of = |matcher: &str| Probe::default().pod(&set(vec![policy("lab", matcher, rule)]), "default");
    let owned = "anyAnnotation: {lab/fabric: 'true'}\n    ownerKinds: [Job]";
    assert_eq!(of(owned), None, "the pod has no owner");
    assert_eq!(of("labels: {fabric: 'on'}").unwrap()["metadata"]["labels"], json!({"fabric": "on"}));
    let several = |name: &str, provider: &str| {
        let text = lab(name, "anyAnnotation: {lab/fabric: 'true'}", rule);
        (Definition::read(name, &text.replace("provider: lab", provider)).unwrap(), BTreeMap::new())
    };
    let policies =
        PolicySet::by_nodes(vec![several("a", "provider: a"), several("b", "provider: b")]).unwrap();
    assert_eq!(Probe::default().pod(&policies, "default").unwrap()["spec"]["nodeSelector"], json!({}));
}

#[test]
fn a_pod_that_would_not_be_injected_is_reported_with_the_cause() {
    use Status::{Fail, Ok as Passed, Warn};
    let plain = || Ok(json!({"metadata": {}}));
    let as_answered = |check: Status, wanted: &str, result: Result<Value, &str>, warnings: &[&str]| {
        reported("pod", check, wanted, &[], |facts| facts.dry_run = dry_run(result.clone(), warnings));
    };
    as_answered(Fail, "failed calling webhook", Err("failed calling webhook"), &[]);
    as_answered(Warn, "grant this right", Err(FORBIDDEN), &[]);
    let gone = "namespaces \"default\" not found";
    as_answered(Warn, "not checked: namespaces \"default\" not found", Err(gone), &[]);
    as_answered(Fail, "the pod does not meet the conditions", plain(), &[]);
    as_answered(Fail, "fabric-injector: no GPU", plain(), &["fabric-injector: no GPU", "another"]);
    as_answered(Fail, "is left alone", Ok(json!({"metadata": {"annotations": {SKIPPED: "aws-efa@0"}}})), &[]);
    let audited = "fabric-injector: audit mode, the pod is unchanged: it would be injected by aws-efa@0";
    as_answered(Fail, "use `--audit`", plain(), &[audited]);
    reported("pod", Fail, "a failed call was ignored", &[], |facts| {
        facts.dry_run = dry_run(plain(), &[]);
        registered(facts, "/webhooks/0/failurePolicy", json!("Ignore"));
    });
    reported("pod", Fail, "excludes the namespace `default`", &[], |facts| {
        facts.dry_run = dry_run(plain(), &[]);
        registered(facts, "/webhooks/0/namespaceSelector", json!({"matchLabels": {"inject": "true"}}));
    });
    let expecting = |facts: &Facts| {
        let lines = inspect(facts, None, &Probe { audit: true, ..Probe::default() });
        lines.into_iter().find(|line| line.check == "pod").unwrap()
    };
    let line = expecting(&healthy());
    assert!(line.status == Fail && line.seen.contains("not in audit mode"), "{line:?}");
    let line = expecting(&Facts { dry_run: dry_run(plain(), &[audited]), ..healthy() });
    assert!(line.status == Passed && line.seen.contains("would be injected by aws-efa@0"), "{line:?}");
}
