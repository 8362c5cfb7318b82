//! The workloads that API servers send to the webhook for advice.

use cel::{Context, Program, Value as Cel};
use serde_json::{Value, json};

use crate::cases::{certificates, enabled, render, with};
use crate::helm::Helm;

/// Whether each condition holds for a request.
fn is_sent(conditions: &Value, before: Option<&Value>, object: &Value) -> bool {
    conditions.as_array().unwrap().iter().all(|condition| {
        let program = Program::compile(condition["expression"].as_str().unwrap()).unwrap();
        let mut context = Context::default();
        let operation = if before.is_some() { "UPDATE" } else { "CREATE" };
        context.add_variable("request", json!({"operation": operation})).unwrap();
        context.add_variable("object", object).unwrap();
        context.add_variable("oldObject", before.unwrap_or(&Value::Null)).unwrap();
        match program.execute(&context).unwrap() {
            Cel::Bool(holds) => holds,
            other => panic!("{condition} is {other:?}"),
        }
    })
}

pub(crate) fn the_templates_of_a_workload_and_its_owner_decide_whether_it_is_sent(helm: &Helm) {
    let objects = render(helm, &enabled("aws"));
    let conditions = &objects.the("ValidatingWebhookConfiguration")["webhooks"][0]["matchConditions"];
    let template = |image: &str| json!({"spec": {"containers": [{"image": image}]}});
    let job = |image: &str, replicas: u8| json!({"metadata": {"name": "j"}, "spec": {"parallelism": replicas, "template": template(image)}});
    let ray = |image: &str, replicas: u8| {
        let group = json!({"replicas": replicas, "template": template(image)});
        json!({"metadata": {}, "spec": {"headGroupSpec": {"template": template("h")}, "workerGroupSpecs": [group]}})
    };
    let cron = |image: &str, replicas: u8| json!({"metadata": {}, "spec": {"suspend": replicas > 1, "jobTemplate": {"spec": {"template": template(image)}}}});
    for workload in [&job as &dyn Fn(&str, u8) -> Value, &ray, &cron] {
        assert!(is_sent(conditions, None, &workload("a", 1)));
        assert!(is_sent(conditions, Some(&workload("a", 1)), &workload("b", 1)));
        assert!(!is_sent(conditions, Some(&workload("a", 1)), &workload("a", 2)));
    }
    let owned = |controller: Value| {
        let mut job = job("a", 1);
        job["metadata"]["ownerReferences"] =
            json!([{"kind": "JobSet", "name": "s", "controller": controller}]);
        job
    };
    assert!(!is_sent(conditions, None, &owned(json!(true))));
    assert!(is_sent(conditions, None, &owned(json!(false))));
    let mut referenced = owned(json!(false));
    referenced["metadata"]["ownerReferences"][0].as_object_mut().unwrap().remove("controller");
    assert!(is_sent(conditions, None, &referenced));
    // A finalizer is removed from an object that nothing else is known of.
    assert!(!is_sent(conditions, Some(&json!({"metadata": {}})), &json!({"metadata": {}})));
}

pub(crate) fn events_need_a_role_and_the_api_and_no_dry_run(helm: &Helm) {
    for certificate in certificates() {
        for on in [false, true] {
            let events = json!({"events": {"enabled": on}});
            let objects = render(helm, &with(with(enabled("aws"), &certificate), &events));
            let side_effects = &objects.the("MutatingWebhookConfiguration")["webhooks"][0]["sideEffects"];
            assert_eq!(*side_effects, if on { "NoneOnDryRun" } else { "None" });
            assert_eq!(objects.arguments().contains(&"--events"), on);
            let role = objects.named("ClusterRole", "fabric-injector-events");
            assert_eq!(role.is_some(), on);
            assert_eq!(objects.named("ClusterRoleBinding", "fabric-injector-events").is_some(), on);
            if let Some(role) = role {
                let create =
                    json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]});
                assert_eq!(role["rules"], json!([create]));
                assert_eq!(objects.pod()["spec"]["automountServiceAccountToken"], true);
                assert_eq!(objects.the("NetworkPolicy")["spec"]["egress"].as_array().unwrap().len(), 2);
            }
        }
    }
}
