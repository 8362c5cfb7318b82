//! Values for installations that differ in one respect.

use std::process::Command;

use fabric_yaml as yaml;
use serde_json::{Value, json};

use crate::cases::{enabled, lab_policy, render, with};
use crate::helm::Helm;
use crate::objects::{identity, is_test, read_objects, strings};
use crate::{chart, read, root};

pub(crate) fn variables_and_egress_reach_the_servers(helm: &Helm) {
    let env = json!([{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.monitoring:4318"}]);
    let rule = json!({"to": [{"podSelector": {}}], "ports": [{"port": 4318}]});
    let values = json!({"server": {"extraEnv": env}, "networkPolicy": {"extraEgress": [rule]}});
    let objects = render(helm, &values);
    assert_eq!(objects.server()["env"], env);
    let egress = &objects.the("NetworkPolicy")["spec"]["egress"];
    assert_eq!((egress.as_array().unwrap().len(), &egress[0]), (3, &rule));
    assert_eq!(render(helm, &json!({})).server()["env"], Value::Null);
}

pub(crate) fn the_durations_of_certificate_and_scrapes_are_set(helm: &Helm) {
    let certificate = |values: &Value| {
        let enabled = json!({"certManager": {"enabled": true}});
        let objects = render(helm, &with(enabled, values));
        let mut found = objects.of_kind("Certificate").filter(|one| one["spec"]["isCA"] != true);
        let spec = found.next().unwrap()["spec"].clone();
        (spec["duration"].clone(), spec["renewBefore"].clone())
    };
    let values = json!({"certManager": {"duration": "720h", "renewBefore": "240h"}});
    assert_eq!(certificate(&values), (json!("720h"), json!("240h")));
    assert_eq!(certificate(&json!({})), (Value::Null, Value::Null));
    for interval in ["", "30s"] {
        let values = json!({"serviceMonitor": {"enabled": true, "interval": interval}});
        let objects = render(helm, &values);
        let seen = &objects.the("ServiceMonitor")["spec"]["endpoints"][0]["interval"];
        assert_eq!(seen.as_str().unwrap_or_default(), interval);
    }
}

pub(crate) fn accounts_and_roles_can_be_those_of_another_team(helm: &Helm) {
    let without_account = json!({"serviceAccount": {"create": false, "name": "central"}});
    let without_roles = json!({"rbac": {"create": false}});
    for (values, kinds) in [
        (without_account.clone(), &["ServiceAccount"][..]),
        (without_roles.clone(), &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ] {
        let objects = render(helm, &values);
        let found: Vec<_> = kinds.iter().flat_map(|kind| objects.of_kind(kind)).map(identity).collect();
        assert!(found.is_empty(), "{values}: {found:?}");
    }
    let objects = render(helm, &with(without_account, &without_roles));
    assert_eq!(objects.pod()["spec"]["serviceAccountName"], "central");
    let test = objects.of_kind("Pod").next().unwrap();
    assert_eq!(test["spec"]["serviceAccountName"], "central");
    assert_eq!(objects.0.iter().filter(|object| is_test(object)).count(), 1);
    let bound = render(helm, &json!({"serviceAccount": {"create": false, "name": "central"}}));
    for binding in bound.of_kind("ClusterRoleBinding").chain(bound.of_kind("RoleBinding")) {
        assert_eq!(binding["subjects"][0]["name"], "central", "{}", identity(binding));
    }
}

/// The first example in YAML of a section of a page.
fn documented(page: &str, section: &str) -> Value {
    let text = read(&root().join("docs").join(page));
    let (_, text) = text.split_once(&format!("\n{section}\n")).unwrap();
    let example = text.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    yaml::read_value(example).unwrap().root.unwrap()
}

pub(crate) fn the_documented_values_are_taken(helm: &Helm) {
    let objects = render(helm, &documented("operating.md", "## Where the servers run"));
    assert_eq!(objects.pod()["spec"]["nodeSelector"]["node-pool"], "system");
    let values = documented("values.md", "### Policies of another team");
    let webhook = render(helm, &values).the("MutatingWebhookConfiguration")["webhooks"][0].clone();
    assert!(webhook["matchConditions"].to_string().contains("lab.example/fabric"), "{webhook}");
}

/// With `kubectl apply` and kustomize, hooks are objects like all others.
pub(crate) fn the_test_can_be_skipped(helm: &Helm) {
    let rendered = |options: &[&str]| {
        let mut command = Command::new(helm.binary());
        command.args(["template", "fabric-injector", "--kube-version", "1.36.3", "--namespace", "gpu"]);
        let output =
            command.args(["--set", "image.repository=x/y"]).args(options).arg(chart()).output().unwrap();
        read_objects(&String::from_utf8(output.stdout).unwrap()).0
    };
    let all = rendered(&[]);
    assert_eq!(all.iter().filter(|object| is_test(object)).count(), 8);
    let kept: Vec<Value> = all.into_iter().filter(|object| !is_test(object)).collect();
    assert_eq!(rendered(&["--skip-tests"]), kept);
}

/// The conditions of webhook, guard and advice.
fn conditions(helm: &Helm, values: &Value) -> Vec<Value> {
    let objects = render(helm, values);
    let webhooks = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    let of_webhooks = webhooks.map(|kind| objects.the(kind)["webhooks"][0]["matchConditions"].clone());
    let guard = objects.named("ValidatingAdmissionPolicy", "fabric-injector-guard").unwrap();
    of_webhooks.into_iter().chain([guard["spec"]["matchConditions"].clone()]).collect()
}

/// Those of the policies of `extraPolicies`, which Helm can read.
pub(crate) fn policies_of_a_config_map_have_the_conditions_of_their_triggers(helm: &Helm) {
    let text_of_lab = lab_policy("aws");
    let spec = &yaml::read_value(&text_of_lab).unwrap().root.unwrap()["spec"];
    let trigger = json!({"provider": "aws", "gpus": spec["gpus"], "match": spec["match"]});
    // An extension has the rest of `match` from its base.
    let extending =
        json!({"extends": "aws-efa", "match": {"anyAnnotation": {"team.example/fabric": "true"}}});
    let text = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: ours}\nspec:\n  \
                extends: aws-efa\n  description: x\n  match: {anyAnnotation: {team.example/fabric: \"true\"}}\n";
    let known = json!({"extraPolicies": {"lab.yaml": text_of_lab, "ours.yaml": text}});
    let named = json!({
        "extraPoliciesConfigMap": "of-a-team", "extraPoliciesTriggers": {"lab-roce": trigger, "ours": extending},
    });
    for provider in [json!({}), enabled("aws")] {
        let (read, named) = (with(provider.clone(), &known), with(provider, &named));
        assert_eq!(conditions(helm, &read), conditions(helm, &named));
        let objects = render(helm, &named);
        assert!(
            objects.of_kind("ConfigMap").all(|map| map["metadata"]["name"] != "fabric-injector-policies")
        );
        let from_policies = render(helm, &read);
        assert_eq!(objects.arguments(), from_policies.arguments());
        let volumes = objects.pod()["spec"]["volumes"].as_array().unwrap();
        let policies = volumes.iter().find(|volume| volume["name"] == "policies").unwrap();
        assert_eq!(policies["configMap"]["name"], "of-a-team");
        let role = objects.named("Role", "fabric-injector-test").unwrap();
        let mut granted = role["rules"].as_array().unwrap().iter();
        let readable = granted.find(|rule| rule["resources"][0] == "configmaps").unwrap();
        assert!(strings(&readable["resourceNames"]).contains(&"of-a-team"), "{readable}");
    }
}

pub(crate) fn the_pod_of_the_test_has_labels_annotations_and_priority_of_the_servers(helm: &Helm) {
    let values = json!({
        "commonLabels": {"cost": "gpu"}, "podLabels": {"team": "platform"},
        "podAnnotations": {"sidecar.istio.io/inject": "false"}, "annotations": {"reload.example/auto": "true"}, "priorityClassName": "high",
    });
    for (values, class) in [(values, "high"), (json!({}), "fabric-injector-nonpreempting-1000000")] {
        let objects = render(helm, &values);
        let (server, test) = (objects.pod(), objects.of_kind("Pod").next().unwrap());
        let mut labels = server["metadata"]["labels"].clone();
        labels["app.kubernetes.io/component"] = json!("test");
        assert_eq!(test["metadata"]["labels"], labels);
        let (own, of_server) = (&test["metadata"]["annotations"], &server["metadata"]["annotations"]);
        assert_eq!(own["sidecar.istio.io/inject"], of_server["sidecar.istio.io/inject"]);
        assert_eq!(own["helm.sh/hook"], "test");
        assert_eq!(test["spec"]["priorityClassName"], class);
        assert_eq!(server["spec"]["priorityClassName"], class);
        // The Deployment has annotations of its own.
        let of_deployment = &objects.the("Deployment")["metadata"]["annotations"];
        assert_eq!(of_deployment["reload.example/auto"], values["annotations"]["reload.example/auto"]);
        if values["commonLabels"].is_object() {
            assert!(objects.0.iter().all(|object| object["metadata"]["labels"]["cost"] == "gpu"));
        }
    }
}

pub(crate) fn invalid_options_are_refused(helm: &Helm) {
    let trigger =
        json!({"provider": "lab", "gpus": {"resources": ["a/b"]}, "match": {"labels": {"team": "x"}}});
    for (values, says) in [
        (
            json!({"server": {"extraEnv": [{"name": "FABRIC_INJECTOR_MODE", "value": "audit"}]}}),
            "`extraEnv` has `FABRIC_INJECTOR_MODE`, the variable of an option",
        ),
        (json!({"server": {"log": "verbose"}}), "server/log"),
        (json!({"server": {"log": "info,verbose"}}), "server/log"),
        (json!({"resources": {"limits": {"memory": "12Q"}}}), "resources/limits/memory"),
        (
            json!({"certManager": {"duration": "24h", "renewBefore": "48h"}}),
            "`renewBefore` is 48h, and `duration` is 24h",
        ),
        (json!({"server": {"extraEnv": [{"value": "x"}]}}), "server/extraEnv/0"),
        (json!({"certManager": {"duration": "90d"}}), "certManager/duration"),
        (json!({"serviceMonitor": {"interval": "often"}}), "serviceMonitor/interval"),
        (
            json!({"extraPoliciesConfigMap": "a"}),
            "one of `extraPoliciesConfigMap` and `extraPoliciesTriggers` is given",
        ),
        (
            json!({"extraPoliciesTriggers": {"a": trigger}}),
            "one of `extraPoliciesConfigMap` and `extraPoliciesTriggers`",
        ),
        (
            json!({"extraPoliciesConfigMap": "a", "extraPoliciesTriggers": {"a": {"rules": []}}}),
            "extraPoliciesTriggers/a",
        ),
        (
            json!({"extraPoliciesConfigMap": "a", "extraPoliciesTriggers": {"a": {"match": {"labels": "x"}}}}),
            "in `extraPoliciesTriggers.a`, `spec.match.labels` must be a map",
        ),
        (
            json!({"extraPoliciesConfigMap": "a", "extraPoliciesTriggers": {"a": trigger}, "extraPolicies": {"b.yaml": "x"}}),
            "`extraPoliciesConfigMap` and `extraPolicies` are both given",
        ),
    ] {
        let error = helm.template(&values).unwrap_err();
        assert!(error.contains(says), "`{says}` is not in\n{error}");
    }
}

/// As `helm show` prints it.
pub(crate) fn the_chart_describes_itself(helm: &Helm) {
    let show = |what: &str| {
        let output = Command::new(helm.binary()).args(["show", what]).arg(chart()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let readme = show("readme");
    assert_eq!(readme.trim_end(), read(&chart().join("README.md")).trim_end());
    // The command with which it begins renders the chart.
    let install = readme.lines().find_map(|line| line.strip_prefix("helm install ")).unwrap();
    let install = install.replace("CHART", chart().to_str().unwrap());
    let mut command = Command::new(helm.binary());
    command.arg("template").args(install.split(' ')).args(["--kube-version", "1.36.3"]);
    assert!(command.args(["--set", "image.repository=x/y"]).output().unwrap().status.success(), "{install}");
    for value in readme.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '.']).next()) {
        assert!(read(&chart().join("values.yaml")).contains(&format!("\n{value}:")), "{value}");
    }
    let metadata = yaml::read_value(&show("chart")).unwrap().root.unwrap();
    assert!(metadata["icon"].as_str().unwrap().starts_with("data:image/svg+xml;base64,"));
    assert!(metadata["maintainers"][0]["name"].is_string());
    let lint = helm.lint(&chart(), &json!({}));
    let said = String::from_utf8(lint.stdout).unwrap();
    assert!(!said.contains("[INFO]") && !said.contains("[WARNING]"), "{said}");
}
