//! The workloads that API servers send to the webhook for advice.

use std::collections::BTreeSet;

use cel::{Context, Program, Value as Cel};
use fabric_yaml::read_value;
use serde_json::{Value, json};

use crate::cases::{certificates, enabled, render, with};
use crate::helm::Helm;
use crate::objects::{Objects, strings};
use crate::{read, root};

/// Whether each condition holds for a request about a Job.
fn is_sent(conditions: &Value, before: Option<&Value>, object: &Value) -> bool {
    is_sent_of("batch/jobs", conditions, before, object)
}

/// The same for a group and a resource.
fn is_sent_of(kind: &str, conditions: &Value, before: Option<&Value>, object: &Value) -> bool {
    conditions.as_array().unwrap().iter().all(|condition| {
        let program = Program::compile(condition["expression"].as_str().unwrap()).unwrap();
        let mut context = Context::default();
        let operation = if before.is_some() { "UPDATE" } else { "CREATE" };
        let (group, resource) = kind.split_once('/').unwrap();
        let request = json!({"operation": operation, "resource": {"group": group, "resource": resource}});
        context.add_variable("request", request).unwrap();
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
    let gpus = json!({"limits": {"nvidia.com/gpu": "8"}});
    let template = |image: &str| json!({"spec": {"containers": [{"image": image, "resources": gpus}]}});
    let job = |image: &str, replicas: u8| json!({"metadata": {"name": "j"}, "spec": {"parallelism": replicas, "template": template(image)}});
    let ray = |image: &str, replicas: u8| {
        let group = json!({"replicas": replicas, "template": template(image)});
        json!({"metadata": {}, "spec": {"headGroupSpec": {"template": template("h")}, "workerGroupSpecs": [group]}})
    };
    let cron = |image: &str, replicas: u8| json!({"metadata": {}, "spec": {"suspend": replicas > 1, "jobTemplate": {"spec": {"template": template(image)}}}});
    let makers = [&job as &dyn Fn(&str, u8) -> Value, &ray, &cron];
    for (kind, workload) in ["batch/jobs", "ray.io/rayclusters", "batch/cronjobs"].into_iter().zip(makers) {
        assert!(is_sent_of(kind, conditions, None, &workload("a", 1)));
        assert!(is_sent_of(kind, conditions, Some(&workload("a", 1)), &workload("b", 1)));
        assert!(!is_sent_of(kind, conditions, Some(&workload("a", 1)), &workload("a", 2)));
    }
    let owned = |kind: &str, controller: Value| {
        let mut job = job("a", 1);
        let (version, kind) = kind.rsplit_once('/').unwrap_or(("jobset.x-k8s.io/v1alpha2", kind));
        let owner = json!({"apiVersion": version, "kind": kind, "name": "s", "controller": controller});
        job["metadata"]["ownerReferences"] = json!([owner]);
        job
    };
    assert!(!is_sent(conditions, None, &owned("JobSet", json!(true))));
    assert!(is_sent(conditions, None, &owned("JobSet", json!(false))));
    // The kind of another group has the same name.
    assert!(!is_sent(conditions, None, &owned("batch.volcano.sh/v1alpha1/Job", json!(true))));
    assert!(is_sent(conditions, None, &owned("company.example/v1/Job", json!(true))));
    // The API server does not send such an owner, so that this one is the first that can be reviewed.
    assert!(is_sent(conditions, None, &owned("CompanyJob", json!(true))));
    let mut referenced = owned("JobSet", json!(false));
    referenced["metadata"]["ownerReferences"][0].as_object_mut().unwrap().remove("controller");
    assert!(is_sent(conditions, None, &referenced));
    // A finalizer is removed from an object that nothing else is known of.
    let bare = json!({"metadata": {}});
    assert!(!is_sent_of("ray.io/rayclusters", conditions, Some(&bare), &bare));
}

/// The kinds of workloads that `lint` knows, with the paths of their pods.
pub(crate) fn known_kinds() -> Vec<(String, Vec<String>)> {
    let table = read(&root().join("facts/kinds.yaml"));
    let table = read_value(&table).unwrap().root.unwrap();
    let mut kinds = Vec::new();
    for kind in table["kinds"].as_array().unwrap() {
        let pods = kind["pods"].as_array().into_iter().flatten();
        let path = |pods: &Value| {
            let text = |key: &str| pods[key].as_str().unwrap_or_default();
            format!("{}{}{}", text("path"), text("template"), text("gpus"))
        };
        let paths: Vec<String> = pods.map(path).chain(kind["wraps"][0].as_str().map(str::to_owned)).collect();
        kinds.extend(strings(&kind["names"]).into_iter().map(|name| (name.to_owned(), paths.clone())));
    }
    kinds
}

/// Otherwise, `lint` would find what `kubectl apply` is silent about.
pub(crate) fn every_kind_that_lint_knows_is_sent_and_its_pods_are_watched(helm: &Helm) {
    let objects = render(helm, &json!({}));
    let webhook = &objects.the("ValidatingWebhookConfiguration")["webhooks"][0];
    let mut sent = BTreeSet::new();
    for rule in webhook["rules"].as_array().unwrap() {
        // `*` includes the kinds of the cluster, such as ClusterTrainingRuntime.
        assert_eq!((&rule["scope"], &rule["operations"]), (&json!("*"), &json!(["CREATE", "UPDATE"])));
        for resource in strings(&rule["resources"]) {
            sent.insert(format!("{resource}.{}", strings(&rule["apiGroups"])[0]));
        }
    }
    let resource = |name: &str| {
        let (kind, group) = name.split_once('.').unwrap();
        format!("{}s.{group}", kind.to_lowercase())
    };
    let known = known_kinds();
    let wanted = known.iter().map(|(name, _)| resource(name));
    let others = ["daemonsets.apps", "rollouts.argoproj.io"].map(str::to_owned);
    assert_eq!(sent, wanted.chain(others).collect());

    let conditions = &webhook["matchConditions"];
    assert_eq!(conditions[1]["name"], "changes-templates");
    let only = json!([conditions[1]]);
    for (name, paths) in &known {
        let (kind, group) = name.split_once('.').unwrap();
        let owner = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "controller": true});
        let workload = json!({"metadata": {"ownerReferences": [owner]}});
        assert!(!is_sent_of("apps/deployments", &json!([conditions[0]]), None, &workload), "{name}");
        for path in paths {
            // The field of `spec`, with what is in it.
            let field = path.strip_prefix("/spec/").unwrap().split('/').next().unwrap();
            let with = |image: &str| {
                let value =
                    if field == "workerGroupSpecs" { json!([{"template": image}]) } else { json!(image) };
                json!({"spec": {field: value}})
            };
            assert!(is_sent_of("a/b", &only, Some(&with("a")), &with("b")), "{name} {path}");
            assert!(!is_sent_of("a/b", &only, Some(&with("a")), &with("a")), "{name} {path}");
        }
    }
    // Where the annotations of kinds without a template are.
    for field in ["annotations", "predictor", "services", "driver", "executor"] {
        let with = |value: &str| json!({"spec": {field: value}});
        assert!(is_sent_of("a/b", &only, Some(&with("a")), &with("b")), "{field}");
    }
}

/// A Job or the like with a template, and a CronJob with it.
fn each_kind(template: &Value) -> [Value; 2] {
    let spec = json!({"template": template});
    [
        json!({"metadata": {"name": "w"}, "spec": spec}),
        json!({"metadata": {"name": "w"}, "spec": {"jobTemplate": {"spec": spec}}}),
    ]
}

/// Asserts whether workloads with this template are sent.
#[track_caller]
fn assert_sent(objects: &Objects, template: &Value, wanted: bool) {
    let conditions = &objects.the("ValidatingWebhookConfiguration")["webhooks"][0]["matchConditions"];
    let [deployment, cron] = each_kind(template);
    for (kind, workload) in [
        ("apps/deployments", &deployment),
        ("batch/jobs", &deployment),
        ("argoproj.io/rollouts", &deployment),
        ("batch/cronjobs", &cron),
    ] {
        assert_eq!(is_sent_of(kind, conditions, None, workload), wanted, "{kind} {workload}");
    }
}

/// A template of one container with these resources.
fn with_resources(resources: &Value) -> Value {
    json!({"spec": {"containers": [{"name": "sidecar"}, {"name": "main", "resources": resources}]}})
}

pub(crate) fn plain_workloads_are_not_sent_and_those_with_something_to_be_said_are(helm: &Helm) {
    let objects = render(helm, &json!({}));
    let conditions = &objects.the("ValidatingWebhookConfiguration")["webhooks"][0]["matchConditions"];
    let plain =
        with_resources(&json!({"limits": {"cpu": "1", "example.com/fuse": "1"}, "requests": {"cpu": "1"}}));
    for template in [&plain, &with_resources(&json!({"limits": {"nvidia.com/gpu": "0"}, "claims": []}))] {
        assert_sent(&objects, template, false);
    }
    for gpus in [
        json!({"limits": {"nvidia.com/gpu": "8"}}),
        json!({"limits": {"amd.com/gpu": 1}}),
        json!({"limits": {"aws.amazon.com/neuron": "16"}}),
        json!({"limits": {"deviceclass.resource.kubernetes.io/nics.example": "1"}}),
        json!({"claims": [{"name": "gpus"}]}),
    ] {
        assert_sent(&objects, &with_resources(&gpus), true);
        let mut at_first = plain.clone();
        at_first["spec"]["initContainers"] = json!([{"name": "first", "resources": gpus}]);
        assert_sent(&objects, &at_first, true);
    }
    // Where the annotation belongs, and where it is a near miss.
    for map in ["annotations", "labels"] {
        for key in ["nmp.nvidia.com/enable-multi-node-networking", "nvidia.com/multi-node-networking-efa"] {
            let mut template = plain.clone();
            template["metadata"] = json!({map: {"other": "x", key: "true"}});
            assert_sent(&objects, &template, true);
            template["metadata"] = json!({map: {"nvidia.com/multi-node": "true"}});
            assert_sent(&objects, &template, false);
            for mut workload in each_kind(&plain) {
                workload["metadata"] = json!({map: {key: "true"}});
                assert!(is_sent(conditions, None, &workload), "{workload}");
            }
            let mut cron = each_kind(&plain)[1].clone();
            cron["spec"]["jobTemplate"]["metadata"] = json!({map: {key: "true"}});
            assert!(is_sent(conditions, None, &cron), "{cron}");
        }
    }
    // The other kinds have no place that the API server would know.
    for workload in each_kind(&plain) {
        assert!(!is_sent(conditions, None, &workload));
        for kind in ["jobset.x-k8s.io/jobsets", "batch.volcano.sh/jobs", "argoproj.io/workflows"] {
            assert!(is_sent_of(kind, conditions, None, &workload), "{kind}");
        }
    }
    // The template of this Rollout is that of a Deployment.
    let referring =
        json!({"metadata": {"name": "w"}, "spec": {"workloadRef": {"kind": "Deployment", "name": "w"}}});
    assert!(!is_sent_of("argoproj.io/rollouts", conditions, None, &referring));
}

pub(crate) fn the_triggers_and_resources_of_an_operator_count(helm: &Helm) {
    let policy = |name: &str, matches: &str| {
        format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             provider: lab\n  description: x\n  gpus: {{resources: [lab.example/{name}]}}\n  match: {{{matches}}}\n  \
             rules: []\n"
        )
    };
    let extra = json!({"extraPolicies": {
        "a.yaml": policy("a", "anyAnnotation: {lab.example/fabric: 'on'}"),
        "b.yaml": policy("b", "anyAnnotation: {lab.example/enable-rail-networking: 'on'}"),
        "c.yaml": policy("c", "labels: {team: research, tier: gold}"),
    }});
    let objects = render(helm, &extra);
    let annotated = |map: &str, entries: Value| {
        let mut template = with_resources(&json!({}));
        template["metadata"] = json!({map: entries});
        template
    };
    for (template, wanted) in [
        (with_resources(&json!({"limits": {"lab.example/c": "1"}})), true),
        // That of no policy in use.
        (with_resources(&json!({"limits": {"nvidia.com/gpu": "1"}})), false),
        (annotated("annotations", json!({"lab.example/fabric": "off"})), true),
        (annotated("labels", json!({"lab.example/fabric": "on"})), true),
        (annotated("annotations", json!({"other.example/fabric": "on"})), false),
        (annotated("annotations", json!({"other.example/rail-networking": "on"})), true),
        (annotated("labels", json!({"team": "research", "tier": "gold"})), true),
        (annotated("labels", json!({"team": "research"})), false),
        (annotated("annotations", json!({"team": "research", "tier": "gold"})), false),
    ] {
        assert_sent(&objects, &template, wanted);
    }
}

pub(crate) fn events_need_a_role_and_the_api_and_no_dry_run(helm: &Helm) {
    for certificate in certificates() {
        for on in [false, true] {
            // On is the default.
            let events = if on { json!({}) } else { json!({"events": {"enabled": false}}) };
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
