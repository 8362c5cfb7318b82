//! The values for clusters of one kind, which docs/clusters.md has, and audit mode.

use std::collections::BTreeMap;

use fabric_yaml as yaml;
use serde_json::{Value, json};

use crate::cases::{enabled, render, with};
use crate::helm::Helm;
use crate::objects::{Objects, strings};
use crate::{pods, read, root};

/// The values that a page has below a heading.
fn documented(page: &str, heading: &str) -> Value {
    let text = read(&root().join("docs").join(page));
    let (_, section) = text.split_once(&format!("# {heading}\n")).unwrap_or_else(|| panic!("no `{heading}`"));
    let (_, block) = section.split_once("```yaml\n# values.yaml\n").unwrap();
    yaml::read_value(block.split_once("```").unwrap().0).unwrap().root.unwrap()
}

fn with_aws(helm: &Helm, values: &Value) -> Objects {
    render(helm, &with(enabled("aws"), values))
}

pub(crate) fn aks_leaves_a_configuration_with_the_annotation_alone(helm: &Helm) {
    let values = documented("clusters.md", "AKS");
    for certificate in crate::cases::certificates() {
        let objects = render(helm, &with(with(enabled("azure"), &values), &certificate));
        let annotations = &objects.the("MutatingWebhookConfiguration")["metadata"]["annotations"];
        assert_eq!(annotations["admissions.enforcer/disabled"], "true");
        // The chart has one of its own, unless the certificate is the operator's.
        let own = usize::from(certificate["tls"].is_null());
        assert_eq!(annotations.as_object().unwrap().len(), 1 + own, "{annotations}");
    }
    for key in ["fabric-injector.io/certificate-secret", "cert-manager.io/inject-ca-from"] {
        let values = json!({"webhook": {"annotations": {key: "x"}}});
        let error = helm.template(&with(enabled("azure"), &values)).unwrap_err();
        assert!(error.contains("/webhook/annotations/"), "{error}");
    }
}

pub(crate) fn openshift_chooses_the_users(helm: &Helm) {
    let values = documented("clusters.md", "OpenShift");
    let objects = with_aws(helm, &values);
    let wanted = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(objects.pod()["spec"]["securityContext"], wanted);
    assert_eq!(objects.of_kind("Pod").next().unwrap()["spec"]["securityContext"], wanted);
    // Values are merged into the defaults at every depth, and a context can go as a whole.
    let values = json!({
        "podSecurityContext": {"fsGroup": 1, "seccompProfile": {"type": "Localhost", "localhostProfile": "x"}},
        "securityContext": null,
    });
    let objects = with_aws(helm, &values);
    let context = &objects.pod()["spec"]["securityContext"];
    let profile = json!({"type": "Localhost", "localhostProfile": "x"});
    assert_eq!((&context["fsGroup"], &context["runAsUser"]), (&json!(1), &json!(65532)));
    assert_eq!(context["seccompProfile"], profile);
    assert_eq!(objects.server()["securityContext"], Value::Null);
}

pub(crate) fn eks_with_a_network_plugin_of_its_own_reaches_ports_of_the_nodes(helm: &Helm) {
    let values = documented("clusters.md", "EKS with another network plugin");
    let values = with(values, &json!({"ports": {"webhook": 9443, "admin": 9080}}));
    for certificate in crate::cases::certificates() {
        let objects = with_aws(helm, &with(values.clone(), &certificate));
        let spec = &objects.pod()["spec"];
        assert_eq!(spec["hostNetwork"], true);
        assert_eq!(spec["dnsPolicy"], "ClusterFirstWithHostNet");
        let ports = objects.server()["ports"].as_array().unwrap();
        let ports: BTreeMap<&str, u64> = ports
            .iter()
            .map(|port| (port["name"].as_str().unwrap(), port["containerPort"].as_u64().unwrap()))
            .collect();
        assert_eq!(ports, BTreeMap::from([("https", 9443), ("admin", 9080)]));
        let arguments = objects.arguments();
        assert!(arguments.contains(&"--listen=0.0.0.0:9443"), "{arguments:?}");
        assert!(arguments.contains(&"--admin-listen=0.0.0.0:9080"), "{arguments:?}");
        // By their names, so that they follow the ports.
        pods::probes(&objects);
        let service = objects.the("Service")["spec"]["ports"].as_array().unwrap();
        let targets: Vec<(&Value, &Value)> =
            service.iter().map(|port| (&port["port"], &port["targetPort"])).collect();
        assert_eq!(targets, [(&json!(443), &json!("https")), (&json!(8080), &json!("admin"))]);
        // A surplus replica would find no node with free ports, and the rollout would never end.
        let rolling = &objects.the("Deployment")["spec"]["strategy"]["rollingUpdate"];
        assert_eq!(*rolling, json!({"maxUnavailable": 1, "maxSurge": 0}));
        assert!(objects.find("NetworkPolicy").is_none());
    }
    let values = json!({"hostNetwork": true, "ports": {"webhook": 10250}});
    let error = helm.template(&with(enabled("aws"), &values)).unwrap_err();
    assert!(error.contains("10250 is the port of the kubelet"), "{error}");
    for (ports, says) in [
        (json!({"admin": 8443}), "`webhook` and `admin` are both 8443"),
        (json!({"webhook": 443}), "/ports/webhook"),
        (json!({"admin": 70000}), "/ports/admin"),
    ] {
        let error = helm.template(&with(enabled("aws"), &json!({"ports": ports}))).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

pub(crate) fn gke_reaches_the_port_of_the_kubelet_in_pods_too(helm: &Helm) {
    let objects = render(helm, &with(enabled("gcp"), &documented("clusters.md", "GKE")));
    assert!(objects.arguments().contains(&"--listen=0.0.0.0:10250"));
    assert_eq!(objects.server()["ports"][0], json!({"name": "https", "containerPort": 10250}));
    assert_eq!(objects.pod()["spec"]["hostNetwork"], Value::Null);
    assert!(objects.find("NetworkPolicy").is_some());
}

pub(crate) fn nodes_without_a_cloud_have_the_provider_that_is_enabled(helm: &Helm) {
    let values = documented("clusters.md", "Nodes without a cloud");
    assert_eq!(values, enabled("aws"));
    assert!(render(helm, &values).arguments().contains(&"--values=/etc/fabric-injector/values/values.yaml"));
}

pub(crate) fn in_audit_mode_no_pod_depends_on_the_webhook_and_there_is_no_guard(helm: &Helm) {
    for certificate in crate::cases::certificates() {
        let values =
            with(json!({"webhook": {"mode": "audit"}, "prometheusRule": {"enabled": true}}), &certificate);
        let objects = with_aws(helm, &values);
        let arguments = objects.arguments();
        for wanted in ["--mode=audit", "--on-error=allow"] {
            assert!(arguments.contains(&wanted), "{arguments:?}");
        }
        assert_eq!(objects.the("MutatingWebhookConfiguration")["webhooks"][0]["failurePolicy"], "Ignore");
        // The test looks for one all the same.
        let own = objects.0.iter().filter(|object| !crate::objects::is_test(object));
        let all = own.map(Value::to_string).collect::<String>();
        assert!(!all.contains("-guard"), "{all}");
        let test = objects.of_kind("Pod").next().unwrap();
        assert!(strings(&test["spec"]["containers"][0]["args"]).contains(&"--audit"));
        let notes = helm.notes(&with(enabled("aws"), &values));
        assert!(
            notes.contains("reports on pods") && notes.contains("no pod is changed or rejected"),
            "{notes}"
        );
        assert!(!notes.contains("The guard"), "{notes}");
    }
    let injecting = with_aws(helm, &json!({}));
    assert!(injecting.arguments().contains(&"--mode=inject"));
    assert!(
        !strings(&injecting.of_kind("Pod").next().unwrap()["spec"]["containers"][0]["args"])
            .contains(&"--audit")
    );
    assert!(!helm.notes(&enabled("aws")).contains("audit"));
}

pub(crate) fn a_label_of_the_namespace_opts_in(helm: &Helm) {
    let mut values = documented("install.md", "Trying it in one namespace first");
    let label = values["webhook"]["namespaceSelectorExpressions"][0].clone();
    assert_eq!(label, json!({"key": "fabric-injector.io/inject", "operator": "In", "values": ["true"]}));
    assert_eq!(values["webhook"]["mode"], "audit");
    values["webhook"]["mode"] = json!("inject");
    let objects = with_aws(helm, &values);
    let webhook = &objects.the("MutatingWebhookConfiguration")["webhooks"][0]["namespaceSelector"];
    let guard = objects.ending("ValidatingAdmissionPolicy", "-guard").unwrap();
    let guard = &guard["spec"]["matchConstraints"]["namespaceSelector"];
    let notes = helm.notes(&with(enabled("aws"), &values));
    assert!(
        notes.contains("Only pods in namespaces that meet `webhook.namespaceSelectorExpressions`"),
        "{notes}"
    );
    for selector in [webhook, guard] {
        let expressions = selector["matchExpressions"].as_array().unwrap();
        assert_eq!((expressions.len(), &expressions[1]), (2, &label), "{selector}");
    }
}

/// They end no pod to get a place, and prefer nodes that no policy takes for one with GPUs.
pub(crate) fn the_servers_take_no_place_of_others(helm: &Helm) {
    let objects = with_aws(helm, &json!({}));
    let class = objects.the("PriorityClass");
    assert_eq!((&class["preemptionPolicy"], &class["value"]), (&json!("Never"), &json!(1_000_000)));
    assert_eq!(class["metadata"]["name"], objects.pod()["spec"]["priorityClassName"]);
    let affinity = &objects.pod()["spec"]["affinity"];
    assert!(affinity["podAntiAffinity"].is_object(), "{affinity}");
    let kind = "preferredDuringSchedulingIgnoredDuringExecution";
    let keys: Vec<&String> = affinity["nodeAffinity"].as_object().unwrap().keys().collect();
    assert_eq!(keys, [kind], "in a cluster of GPU nodes alone, they run there");
    let preferred = &affinity["nodeAffinity"][kind];
    assert_eq!((preferred.as_array().unwrap().len(), &preferred[0]["weight"]), (1, &json!(100)));
    let terms = preferred[0]["preference"]["matchExpressions"].as_array().unwrap();
    let (machines, labels): (Vec<_>, Vec<_>) = terms.iter().partition(|term| term["operator"] == "NotIn");
    let labels: Vec<&str> = labels.iter().map(|term| term["key"].as_str().unwrap()).collect();
    for label in crate::shared_files::tables().keys() {
        // Names of machines, and what other nodes have, too. Nodes with the name of a GPU have their number as well.
        let others = [
            "instance-type",
            "instance-family",
            "instance-gpu-name",
            "kubernetes.io/arch",
            ".coreweave.cloud/",
        ];
        let is_other = others.iter().any(|part| label.contains(part));
        assert!(is_other || labels.contains(&label.as_str()), "{label} is not in `gpuNodeLabels`");
    }
    let [machines] = machines.as_slice() else { panic!("{terms:?}") };
    assert_eq!(machines["key"], "node.kubernetes.io/instance-type");
    for machine in ["p5.48xlarge", "BM.GPU.H100.8", "Standard_ND40rs_v2"] {
        assert!(machines["values"].as_array().unwrap().contains(&json!(machine)), "{machine}");
    }
    let own = json!({"gpuNodeLabels": ["lab.example/gpu"], "priorityClassName": "system-cluster-critical"});
    let objects = with_aws(helm, &own);
    assert!(objects.find("PriorityClass").is_none());
    let terms = &objects.pod()["spec"]["affinity"]["nodeAffinity"][kind][0]["preference"]["matchExpressions"];
    assert_eq!(terms[0], json!({"key": "lab.example/gpu", "operator": "DoesNotExist"}));
    let all = json!({"affinity": {"podAntiAffinity": {}}});
    assert_eq!(with_aws(helm, &all).pod()["spec"]["affinity"], all["affinity"]);
}
