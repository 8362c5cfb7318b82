//! What `check` says of the registration of the webhook, and of the webhooks beside it.

use fabric_tools::inspection::{Facts, Status};
use serde_json::{Value, json};

use super::{DAY, healthy, lines, list, namespace, registered, reported, webhook, without};

#[test]
fn faults_of_the_registration_are_reported() {
    use Status::{Fail, Warn};
    let dependent = [
        "endpoints",
        "certificate",
        "advice",
        "conditions",
        "policies",
        "servers",
        "pod-security",
        "other-webhooks",
    ];
    reported("webhook", Fail, "no pod is injected", &dependent, |facts| facts.webhooks = Ok(list(&[])));
    reported("webhook", Fail, "`fabric-injector`, `another` are registered", &["other-webhooks"], |facts| {
        let mut another = webhook();
        another["metadata"]["name"] = json!("another");
        facts.webhooks = Ok(list(&[webhook(), another]));
    });
    reported(
        "endpoints",
        Fail,
        "the Service `fabric-injector/fabric-injector` selects none of the ready replicas",
        &[],
        |facts| {
            facts.endpoints = Ok(list(&[]));
        },
    );
    reported("certificate", Fail, "`caBundle` of `fabric-injector` is empty", &[], |facts| {
        registered(facts, "/webhooks/0/clientConfig/caBundle", Value::Null);
    });
    reported("certificate", Fail, "with `caBundle` of `fabric-injector`: UnknownIssuer", &[], |facts| {
        facts.certificate.as_mut().unwrap().accepted = Err("UnknownIssuer".to_owned());
    });
    let skewed = "certificate not valid yet\nsynchronize the clocks of the nodes";
    reported("certificate", Fail, skewed, &[], |facts| {
        facts.certificate.as_mut().unwrap().accepted = Err("certificate not valid yet".to_owned());
    });
    reported("certificate", Warn, "(6 days)", &[], |facts| {
        facts.certificate.as_mut().unwrap().left = 6 * DAY;
    });
    reported("certificate", Fail, "no object `tls`", &["advice"], |facts| {
        facts.certificate = Err("there is no object `tls`".into());
    });
    reported(
        "conditions",
        Fail,
        "the condition `policy-matches-pod` of `fabric-injector` is not that",
        &[],
        |facts| {
            registered(facts, "/webhooks/0/matchConditions/1/expression", json!("false"));
        },
    );
    reported("conditions", Fail, "has no condition `has-trigger`", &[], |facts| {
        registered(facts, "/webhooks/0/matchConditions", json!([]));
    });
    // An older release may write it in another form.
    reported("conditions", Status::Warn, "is not that of this version", &["version"], |facts| {
        registered(facts, "/webhooks/0/matchConditions/1/expression", json!("false"));
        facts.deployments.as_mut().unwrap()["items"][0]["metadata"]["labels"]["app.kubernetes.io/version"] =
            json!("0.0.9");
    });
}

#[test]
fn a_registration_that_was_edited_is_reported() {
    use Status::Fail;
    let edited = |wanted: &str, pointer: &str, value: Value| {
        reported("webhook", Fail, wanted, &[], |facts| registered(facts, pointer, value.clone()));
    };
    let selector = json!({"matchLabels": {"a": "b"}});
    for (field, pointer, value) in [
        ("objectSelector", "/webhooks/0/objectSelector", selector),
        ("rules", "/webhooks/0/rules", Value::Null),
        ("rules", "/webhooks/0/rules/0/operations", json!(["UPDATE"])),
        ("rules", "/webhooks/0/rules/0/scope", json!("Cluster")),
        ("clientConfig.service.path", "/webhooks/0/clientConfig/service/path", json!("/mutatee")),
        ("clientConfig.service.port", "/webhooks/0/clientConfig/service/port", json!(8443)),
        ("matchPolicy", "/webhooks/0/matchPolicy", json!("Exact")),
        ("reinvocationPolicy", "/webhooks/0/reinvocationPolicy", json!("Never")),
    ] {
        edited(&format!("its `{field}` is `"), pointer, value);
    }
    for key in ["name", "namespace"] {
        let wanted = "and the servers are those of `fabric-injector/fabric-injector`\napply the output";
        reported("webhook", Fail, wanted, &[], |facts| {
            registered(facts, &format!("/webhooks/0/clientConfig/service/{key}"), json!("other"));
        });
    }
    edited(
        "its `failurePolicy` is `Ignore`, and that of the servers `Fail`",
        "/webhooks/0/failurePolicy",
        json!("Ignore"),
    );
    let selector = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["x"]}]});
    edited(
        "its `namespaceSelector` and that of `workloads",
        "/webhooks/0/namespaceSelector",
        selector.clone(),
    );
    // What a cloud or another controller adds to all webhooks is in both, and not in the guard.
    let both = |facts: &mut Facts, selector: &Value| {
        registered(facts, "/webhooks/0/namespaceSelector", selector.clone());
        facts.advice.as_mut().unwrap()["webhooks"][0]["namespaceSelector"] = selector.clone();
    };
    let wanted =
        "its `namespaceSelector` leaves out pods of `default`: no namespace is left\napply the output";
    reported("webhook", Fail, wanted, &[], |facts| both(facts, &selector));
    let managed = json!({"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]});
    let wanted =
        "its `namespaceSelector` leaves out pods of `gatekeeper`\nnothing, if a cloud's own namespaces";
    reported("webhook", Status::Warn, wanted, &[], |facts| {
        let system = namespace("gatekeeper", &[("control-plane", "true")]);
        facts.namespaces = Ok(list(&[namespace("default", &[]), system]));
        both(facts, &managed);
    });
    // The guard has a selector of its own.
    reported("guard", Status::Warn, "of the guard leaves out pods of `default`", &[], |facts| {
        facts.guard[0].as_mut().unwrap()["spec"]["matchConstraints"]["namespaceSelector"] = selector.clone();
    });
}

#[test]
fn a_condition_that_was_added_is_reported() {
    let added = "also has `mine`: pods that do not meet it are not injected\nif nobody wants this condition";
    reported("conditions", Status::Warn, added, &[], |facts| {
        let mut conditions = webhook()["webhooks"][0]["matchConditions"].clone();
        conditions.as_array_mut().unwrap().push(json!({"name": "mine", "expression": "false"}));
        registered(facts, "/webhooks/0/matchConditions", conditions);
    });
}

#[test]
fn edited_webhooks_for_advice_and_policies_are_reported() {
    for (at, pointer, value) in [
        (0, "/clientConfig/service/path", json!("/other")),
        (0, "/clientConfig/service/name", json!("other")),
        (0, "/failurePolicy", json!("Fail")),
        (0, "/rules/0/resources", json!(["daemonsets"])),
        (1, "/clientConfig/service/port", json!(8443)),
        (1, "/clientConfig/service/path", json!("/other")),
        (1, "/objectSelector", json!({"matchLabels": {"a": "b"}})),
        (1, "/failurePolicy", json!("Fail")),
    ] {
        let wanted = "fabric-injector.io` is not as it was installed: it";
        reported("advice", Status::Warn, wanted, &[], |facts| {
            *facts.advice.as_mut().unwrap()["webhooks"][at].pointer_mut(pointer).unwrap() = value.clone();
        });
    }
    // The rules of an older release may be others.
    reported("advice", Status::Ok, "accept the certificate", &["version"], |facts| {
        facts.advice.as_mut().unwrap()["webhooks"][0]["rules"] = json!([]);
        let deployment = &mut facts.deployments.as_mut().unwrap()["items"][0];
        deployment["metadata"]["labels"]["app.kubernetes.io/version"] = json!("0.0.9");
    });
}

#[test]
fn an_edited_guard_is_reported() {
    let rule =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}]);
    for (at, pointer, value) in [
        (0, "/spec/matchConstraints/resourceRules", rule.clone()),
        (0, "/spec/matchConstraints/excludeResourceRules", rule),
        (0, "/spec/matchConstraints/objectSelector", json!({"matchLabels": {"a": "b"}})),
        (0, "/spec/validations/0/expression", json!("true")),
        (1, "/spec/matchResources", json!({"objectSelector": {"matchLabels": {"a": "b"}}})),
    ] {
        reported("guard", Status::Warn, "the guard is not as it was installed: its `spec.", &[], |facts| {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = facts.guard[at].as_mut().unwrap().pointer_mut(parent).unwrap();
            parent[key] = value.clone();
        });
    }
}

#[test]
fn a_webhook_for_advice_that_api_servers_do_not_trust_is_reported() {
    use Status::{Ok as Passed, Warn};
    let untrusted = "for `workloads.fabric-injector.io` and `policies.fabric-injector.io`: UnknownIssuer\nthe replicas renew it \
                     and write `caBundle`";
    reported("advice", Warn, untrusted, &[], |facts| {
        facts.certificate.as_mut().unwrap().accepted_for_advice = Err("UnknownIssuer".to_owned());
    });
    reported("advice", Warn, "there is no ValidatingWebhookConfiguration `fabric-injector`", &[], |facts| {
        facts.advice = Ok(Value::Null);
    });
    reported("advice", Passed, "no webhook for advice", &[], |facts| {
        facts.advice = Ok(Value::Null);
        without(facts, "--manage-advice");
    });
}

#[test]
fn webhooks_that_are_called_later_for_the_same_pods_are_named() {
    let other = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut entry = json!({
            "name": "pods.other.io", "namespaceSelector": {},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        });
        change(&mut entry);
        json!({"metadata": {"name": name}, "webhooks": [entry]})
    };
    let seen = |other: Value| {
        let mut facts = healthy();
        facts.webhooks.as_mut().unwrap()["items"].as_array_mut().unwrap().push(other);
        lines(&facts).into_iter().find(|line| line.check == "other-webhooks").unwrap()
    };
    let later = seen(other("istio", &|_| {}));
    assert!(later.status == Status::Warn && later.seen.contains("`istio/pods.other.io`"), "{later:?}");
    let again = seen(other("a", &|entry| entry["reinvocationPolicy"] = json!("IfNeeded")));
    assert_eq!(again.status, Status::Warn, "{again:?}");
    let quiet: [&dyn Fn(&mut Value); 4] = [
        &|entry| entry["rules"][0]["resources"] = json!(["pods/status", "jobs"]),
        &|entry| entry["rules"][0]["operations"] = json!(["UPDATE"]),
        &|entry| entry["rules"][0]["apiGroups"] = json!(["apps"]),
        &|entry| entry["namespaceSelector"] = json!({"matchLabels": {"team": "web"}}),
    ];
    assert!(quiet.into_iter().all(|change| seen(other("istio", change)).status == Status::Ok));
    assert_eq!(seen(other("a", &|_| {})).status, Status::Ok, "it is called before");
}
