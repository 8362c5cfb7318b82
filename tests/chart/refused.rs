//! Values that the chart does not take, and that it says why.

use std::fs;
use std::process::Command;

use fabric_injector::policy_sources::PolicySources;
use serde_json::{Value, json};

use crate::cases::{enabled, lab_policy, with};
use crate::helm::Helm;

/// Checks that these values are refused, and that each of the texts is in what Helm says.
pub(crate) fn refused(helm: &Helm, values: &Value, says: &[&str]) -> String {
    let error = helm.template(values).expect_err(&format!("{values:#} is taken"));
    for text in says {
        assert!(error.contains(text), "`{text}` is not in\n{error}");
    }
    error
}

/// The same, besides `aws`.
fn refused_with_aws(helm: &Helm, values: &Value, says: &[&str]) -> String {
    refused(helm, &with(enabled("aws"), values), says)
}

pub(crate) fn exactly_one_provider_may_be_enabled(helm: &Helm) {
    let two = with(enabled("aws"), &enabled("gcp"));
    refused(
        helm,
        &two,
        &["`aws`, `gcp` are enabled", "a cluster has one provider", "hint: keep `enabled: true`"],
    );
    let set = "use `--set multinodeNetworking.PROVIDER.enabled=true` with one of `aws`, `azure`, ";
    let unwatched = json!({"nodes": {"watch": false}});
    refused(helm, &unwatched, &["no provider is enabled", "`nodes.watch=true`", set]);
    let all_off = json!({"multinodeNetworking": {"oci": {"enabled": false, "rdmaDevicesPerGPU": 8}}});
    refused(helm, &with(all_off.clone(), &unwatched), &["no provider is enabled"]);
    // The nodes choose among all policies.
    for values in [json!({}), all_off] {
        let text = helm.template(&values).unwrap();
        assert!(text.contains("--watch-nodes") && !text.contains("--policy="), "{text}");
    }
    refused(
        helm,
        &enabled("awz"),
        &["no policy has the provider `awz`", "there are policies for `aws`, `azure`, "],
    );
}

pub(crate) fn the_block_takes_the_parameters_of_the_policies_and_no_others(helm: &Helm) {
    let aws = |settings: Value| json!({"multinodeNetworking": {"aws": settings}});
    refused_with_aws(
        helm,
        &aws(json!({"efaDevicesPerGpu": 4})),
        &["multinodeNetworking.aws: no policy has the parameter `efaDevicesPerGpu`", "`efaDevicesPerGPU`"],
    );
    let ours = json!({"extraPolicies": {"ours.yaml": "{apiVersion: fabric-injector.io/v1alpha1, kind: FabricPolicy, \
        metadata: {name: ours}, spec: {extends: aws-efa, parameters: {debug: {type: string, description: d}}}}"}});
    let set = with(ours, &aws(json!({"debug": "INFO", "efaDevicesPerGPU": 4})));
    assert!(helm.template(&with(enabled("aws"), &set)).is_ok());
    refused_with_aws(helm, &aws(json!({"debug": "INFO"})), &["no policy has the parameter `debug`"]);
    refused_with_aws(helm, &aws(json!({"enabled": "yes"})), &["enabled", "got string, want boolean"]);
    refused_with_aws(helm, &aws(json!(4)), &["/multinodeNetworking/aws", "got number, want object"]);
}

/// A parameter of a provider, values that it can have, and values that it cannot have with what Helm says.
type Case = (&'static str, &'static str, Value, Vec<(Value, &'static str)>);

fn values_of_parameters() -> Vec<Case> {
    let networks = |count: usize| json!((0..count).map(|at| format!("rail-{at}")).collect::<Vec<_>>());
    let number = "`rdmaDevicesPerGPU` has to be a number, and `\"4\"` is not";
    vec![
        (
            "onprem",
            "rdmaDevicesPerGPU",
            json!([0, 0.5, 4, {"pool": {"a": 0.5, "b": {"8": 4}}, "default": 2}]),
            vec![
                (json!("4"), number),
                (json!(-1), "has to be at least 0, and `-1` is not"),
                (json!(33), "has to be at most 32, and `33` is not"),
                (json!({"pool": {"b": {"8": 33}}}), "`rdmaDevicesPerGPU.pool.b.8` has to be at most 32"),
                (json!(true), "has to be a number, and `true` is not"),
            ],
        ),
        (
            "onprem",
            "gidIndex",
            json!([0, 3, 255]),
            vec![
                (json!(1.5), "`gidIndex` has to be a whole number, and `1.5` is not"),
                (json!(256), "has to be at most 255"),
                (json!([3]), "has to be a whole number, and `[3]` is not"),
            ],
        ),
        (
            "onprem",
            "attachment",
            json!(["rails", {"pool": {"a": "sriov"}}]),
            vec![
                (
                    json!("rail"),
                    "has to be one of `shared`, `hostDevice`, `sriov`, `rails`, `claim`, and `\"rail\"` is not",
                ),
                (json!({"pool": {"a": "x"}}), "`attachment.pool.a` has to be one of"),
            ],
        ),
        ("onprem", "adapters", json!(["", "mlx5"]), vec![(json!(5), "has to be a string, and `5` is not")]),
        (
            "onprem",
            "ipcLock",
            json!([false]),
            vec![(json!("no"), "has to be `true` or `false`, and `\"no\"` is not")],
        ),
        (
            "onprem",
            "sharedMemorySize",
            json!(["64Gi", "1.5G", "1e9", "1024", 1024]),
            vec![
                (json!("much"), "has to be a quantity such as `64Gi`, and `\"much\"` is not"),
                (json!(false), "has to be a quantity such as `64Gi`"),
            ],
        ),
        (
            "onprem",
            "railResources",
            json!([["nvidia.com/a"]]),
            vec![
                (json!([]), "has to be a list of at least 1 items"),
                (networks(33), "has to be a list of at most 32 items"),
                (json!(["a", 5]), "has to be a list of strings"),
                (json!("a"), "has to be a list of strings"),
            ],
        ),
        (
            "onprem",
            "computeDomainTemplate",
            json!(["channel", "${pod.metadata.?name.orValue('a')}-x"]),
            vec![(json!(5), "has to be a string, and `5` is not")],
        ),
    ]
}

pub(crate) fn helm_and_the_program_take_the_same_values_of_parameters(helm: &Helm) {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let program = |values: &Value| {
        fs::write(file.path(), values.to_string()).unwrap();
        let values = Some(file.path().to_string_lossy().into_owned());
        PolicySources { values, ..PolicySources::default() }.load()
    };
    for (provider, parameter, taken, others) in values_of_parameters() {
        let values =
            |value: &Value| json!({"multinodeNetworking": {provider: {"enabled": true, parameter: value}}});
        for value in taken.as_array().unwrap() {
            let values = values(value);
            assert!(program(&values).is_ok(), "{values}");
            assert!(helm.template(&values).is_ok(), "{values}");
        }
        for (value, says) in others {
            let values = values(&value);
            assert!(program(&values).is_err(), "{values}");
            refused(helm, &values, &[&format!("multinodeNetworking.{provider}: "), says, "hint: "]);
        }
    }
}

pub(crate) fn an_extension_narrows_the_values_of_a_parameter(helm: &Helm) {
    let aws = |devices: u64| json!({"multinodeNetworking": {"aws": {"efaDevicesPerGPU": devices}}});
    assert!(helm.template(&with(enabled("aws"), &aws(4))).is_ok());
    for maximum in [2, 0] {
        let ours = format!(
            "{{apiVersion: fabric-injector.io/v1alpha1, kind: FabricPolicy, metadata: {{name: ours}}, spec: \
             {{extends: aws-efa, parameters: {{efaDevicesPerGPU: {{maximum: {maximum}}}}}}}}}"
        );
        let ours = json!({"extraPolicies": {"ours.yaml": ours}});
        assert!(helm.template(&with(with(enabled("aws"), &ours), &aws(maximum))).is_ok());
        let says = format!("has to be at most {maximum}");
        refused_with_aws(helm, &with(ours, &aws(maximum + 1)), &[&says, "policy show ours"]);
    }
}

pub(crate) fn other_values_have_their_type_and_their_key(helm: &Helm) {
    let cases = [
        (json!({"replica": 3}), "'replica' not allowed"),
        (json!({"replicas": "three"}), "/replicas"),
        (json!({"replicas": 0}), "/replicas"),
        (json!({"guard": {"action": "Stop"}}), "must be one of 'Warn', 'Deny'"),
        (json!({"webhook": {"failurePolicy": "fail"}}), "must be one of 'Fail', 'Ignore'"),
        (json!({"webhook": {"timeoutSeconds": 31}}), "/webhook/timeoutSeconds"),
        (json!({"image": {"digest": "sha256:abc"}}), "/image/digest"),
        (json!({"image": {"tag": "a: b"}}), "/image/tag"),
        (json!({"image": {"repository": "registry.example/fi:1"}}), "/image/repository"),
        (json!({"image": {"repository": "registry.example/fi@sha256:abc"}}), "/image/repository"),
        (json!({"certificates": {"duration": "30 days"}}), "/certificates/duration"),
        (json!({"certificates": {"caDuration": "1d12h"}}), "/certificates/caDuration"),
        (json!({"certificates": {"caOverlap": "1w"}}), "/certificates/caOverlap"),
        (json!({"certManager": {"duration": "90d"}}), "/certManager/duration"),
        (json!({"server": {"extraArgs": "--log=debug"}}), "/server/extraArgs"),
        (json!({"nameOverride": "fabric.injector"}), "/nameOverride"),
        (json!({"fullnameOverride": "fabric.injector"}), "/fullnameOverride"),
        (json!({"podAnnotations": {"kubectl.kubernetes.io/default-container": "x"}}), "/podAnnotations"),
        (json!({"server": {"drainTimeoutSeconds": "20s"}}), "/server/drainTimeoutSeconds"),
        // Helm would write it as `1e+06`.
        (json!({"server": {"shutdownDelaySeconds": 1_000_000}}), "/server/shutdownDelaySeconds"),
    ];
    for (values, says) in cases {
        refused_with_aws(helm, &values, &[says]);
    }
}

/// YAML takes the last of two equal keys, and tools that read the rendered chart refuse them.
pub(crate) fn no_label_is_set_twice(helm: &Helm) {
    let labels = |place: &str, labels: Value| match place.split_once('.') {
        Some((block, key)) => json!({block: {"enabled": true, key: labels}}),
        None => json!({place: labels}),
    };
    let places =
        ["commonLabels", "podLabels", "serviceMonitor.labels", "prometheusRule.labels", "dashboard.labels"];
    for place in places {
        for part in ["name", "instance", "component", "version", "managed-by"] {
            let values = labels(place, json!({format!("app.kubernetes.io/{part}"): "x"}));
            let says = format!("/{}/app.kubernetes.io~1{part}", place.replace('.', "/"));
            refused_with_aws(helm, &values, &[&says]);
        }
        refused_with_aws(helm, &labels(place, json!({"helm.sh/chart": "x"})), &["helm.sh~1chart"]);
    }
    for place in &places[1..] {
        let twice = with(labels(place, json!({"team": "a"})), &json!({"commonLabels": {"team": "b"}}));
        let says = format!("`team` is in `commonLabels` and in `{place}`");
        refused_with_aws(helm, &twice, &[&says, "hint: "]);
    }
}

pub(crate) fn the_name_of_the_service_is_one_that_api_servers_take(helm: &Helm) {
    let hint = "hint: begin with a letter and use lower-case letters, digits and hyphens";
    for (release, values) in [
        ("1st", json!({})),
        ("a.b", json!({})),
        ("fabric-injector", json!({"fullnameOverride": "1st"})),
        ("7", json!({"nameOverride": "fabric"})),
    ] {
        let error = helm.template_in(release, "gpu", &with(enabled("aws"), &values)).unwrap_err();
        assert!(error.contains("the objects would be called `") && error.contains(hint), "{error}");
    }
    let named = with(enabled("aws"), &json!({"fullnameOverride": "fabric"}));
    assert!(helm.template_in("1.2", "gpu", &named).is_ok());
}

pub(crate) fn conditions_and_selectors_are_those_that_api_servers_take(helm: &Helm) {
    let selector = |one: Value| json!({"webhook": {"namespaceSelectorExpressions": [one]}});
    for one in [
        json!({"key": "a", "operator": "In"}),
        json!({"key": "a", "operator": "NotIn", "values": []}),
        json!({"key": "a", "operator": "Exists", "values": ["b"]}),
        json!({"key": "a b", "operator": "Exists"}),
        json!({"key": "a", "operator": "In", "values": ["b c"]}),
    ] {
        refused_with_aws(helm, &selector(one), &["/webhook/namespaceSelectorExpressions/0"]);
    }
    for one in [
        json!({"key": "a", "operator": "In", "values": [""]}),
        json!({"key": "a/b", "operator": "DoesNotExist", "values": []}),
    ] {
        assert!(helm.template(&with(enabled("aws"), &selector(one))).is_ok());
    }
    let excluded = json!({"webhook": {"excludedNamespaces": ["a.b"]}});
    refused_with_aws(helm, &excluded, &["/webhook/excludedNamespaces/0"]);
    let conditions = |block: &str, names: &[&str]| {
        let list = |names: &[&str]| -> Value {
            names.iter().map(|name| json!({"name": name, "expression": "true"})).collect()
        };
        let kept = json!({"extraPoliciesConfigMap": "kept", "extraPoliciesTriggers": {"annotations": ["a/b"]},
            "webhook": {"matchConditions": list(&["a"])}, "guard": {"matchConditions": list(&["a"])}});
        with(kept, &json!({block: {"matchConditions": list(names)}}))
    };
    for block in ["webhook", "guard"] {
        let says = format!("{block}.matchConditions: two conditions are called `a`");
        refused(helm, &conditions(block, &["a", "b", "a"]), &[&says, "hint: "]);
        refused(helm, &conditions(block, &["a b"]), &[&format!("/{block}/matchConditions/0/name")]);
        assert!(helm.template(&conditions(block, &["a", "b"])).is_ok());
    }
}

pub(crate) fn there_is_one_certificate_and_its_ca_is_known(helm: &Helm) {
    let ca = "-----BEGIN CERTIFICATE-----\n";
    let both = json!({"certManager": {"enabled": true}, "tls": {"secretName": "own", "caBundle": ca}});
    refused_with_aws(helm, &both, &["`certManager.enabled` and `tls.secretName` are both given"]);
    refused_with_aws(helm, &json!({"tls": {"secretName": "own"}}), &["without `caBundle`", "--set-file"]);
    let key = json!({"tls": {"secretName": "own", "caBundle": "-----BEGIN PRIVATE KEY-----\nSECRET"}});
    let said = refused_with_aws(helm, &key, &["`caBundle` is not a certificate in PEM"]);
    assert!(!said.contains("SECRET"), "{said}");
    refused_with_aws(helm, &json!({"tls": {"caBundle": ca}}), &["without `secretName`"]);
    let key = json!({"server": {"clientCaBundle": "-----BEGIN PRIVATE KEY-----\nSECRET"}});
    let said = refused_with_aws(helm, &key, &["`clientCaBundle` is not a certificate in PEM", "--set-file"]);
    assert!(!said.contains("SECRET"), "{said}");
}

pub(crate) fn durations_are_long_enough_to_renew_and_not_longer_than_those_that_they_depend_on(helm: &Helm) {
    let durations = |duration: &str, ca: &str, overlap: &str| {
        with(
            enabled("aws"),
            &json!({"certificates": {"duration": duration, "caDuration": ca, "caOverlap": overlap}}),
        )
    };
    let cases = [
        ("9s", "1h", "3s", "`duration: 9s` leaves no time to renew"),
        ("0d", "1h", "3s", "`duration: 0d` leaves no time to renew"),
        ("10s", "1h", "2s", "`caOverlap: 2s` leaves API servers no time"),
        ("61m", "1h", "3s", "`duration: 61m` is longer than `caDuration: 1h`"),
        ("1h", "1h", "901s", "`caOverlap: 901s` is too long for `caDuration: 1h`"),
        ("30d", "36501d", "1h", "`caDuration: 36501d` is longer than a hundred years"),
        ("99999999999999999999s", "365d", "1h", "is longer than a hundred years"),
    ];
    for (duration, ca, overlap, says) in cases {
        refused(helm, &durations(duration, ca, overlap), &[says, "hint: "]);
    }
    for (duration, ca, overlap) in
        [("10s", "12s", "3s"), ("60m", "1h", "900s"), ("36500d", "876000h", "010h")]
    {
        assert!(helm.template(&durations(duration, ca, overlap)).is_ok(), "{duration} {ca} {overlap}");
    }
}

pub(crate) fn further_arguments_are_options_that_the_chart_does_not_set(helm: &Helm) {
    let argument = |argument: &str| json!({"server": {"extraArgs": ["--max-in-flight=64", argument]}});
    let variable = |name: &str| json!({"server": {"extraEnv": [{"name": name, "value": "x"}]}});
    for text in [
        "--policy=x",
        "--tls-dir=x",
        "--client-ca=x",
        "--listen=x",
        "--on-error=allow",
        "--mode=audit",
        "--log=debug",
        // Unknown ones, which would keep the servers from starting.
        "--max-inflight=64",
        "--verbose",
        "max-connections=9",
        "--max-connections",
        "--max-connections=",
        "-v",
        "",
    ] {
        refused_with_aws(helm, &argument(text), &["/server/extraArgs/1"]);
    }
    for name in ["POLICY", "TLS_DIR", "MANAGE_GUARD", "LISTEN", "ON_ERROR", "MODE", "LOG", "MAX_INFLIGHT"] {
        let name = format!("FABRIC_INJECTOR_{name}");
        refused_with_aws(helm, &variable(&name), &["/server/extraEnv/0/name"]);
    }
    for values in [argument("--max-connections=9"), variable("OTEL_SERVICE_NAME")] {
        assert!(helm.template(&with(enabled("aws"), &values)).is_ok(), "{values}");
    }
}

/// Values of options, and whether chart and program take them.
const VALUES_OF_OPTIONS: [(&str, &[&str], &[&str]); 3] = [
    (
        "max-connections",
        &["1", "64", "999999", "1000000"],
        &["abc", "0", "-1", "1.5", "1000001", "0x10", "1k"],
    ),
    ("max-in-flight", &["64"], &["abc", "0", "1000001"]),
    ("max-connection-age", &["500ms", "30s", "5m", "999999h"], &["abc", "5", "0s", "-5m", "5 parsecs"]),
];

/// A value that the program refuses would keep every replica from starting.
pub(crate) fn further_arguments_have_values_that_the_program_takes(helm: &Helm) {
    let program = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
        let output = command.args(["serve", argument, "--policy=/nonexistent/policy.yaml"]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("invalid value") != error.contains("/nonexistent"), "{error}");
        error.contains("/nonexistent")
    };
    for (option, taken, refused) in VALUES_OF_OPTIONS {
        let variable = format!("FABRIC_INJECTOR_{}", option.to_uppercase().replace('-', "_"));
        let values =
            taken.iter().map(|value| (value, true)).chain(refused.iter().map(|value| (value, false)));
        for (value, is_taken) in values {
            let argument = format!("--{option}={value}");
            assert_eq!(program(&argument), is_taken, "{argument}");
            for server in
                [json!({"extraArgs": [argument]}), json!({"extraEnv": [{"name": variable, "value": value}]})]
            {
                let rendered = helm.template(&with(enabled("aws"), &json!({"server": server})));
                assert_eq!(rendered.is_ok(), is_taken, "{server}");
            }
        }
    }
    let without = json!({"server": {"extraEnv": [{"name": "FABRIC_INJECTOR_MAX_IN_FLIGHT"}]}});
    refused_with_aws(helm, &without, &["/server/extraEnv/0", "missing property 'value'"]);
}

/// Helm removes a key whose value is null from the defaults, so that a template would find nothing in its place.
pub(crate) fn no_default_is_removed_by_null(helm: &Helm) {
    let schema: Value =
        serde_json::from_str(&crate::read(&crate::chart().join("values.schema.json"))).unwrap();
    let blocks = schema["required"].as_array().unwrap();
    assert!(blocks.len() > 15, "{blocks:?}");
    // The tests set the image themselves.
    for block in blocks.iter().filter_map(Value::as_str).filter(|block| *block != "image") {
        refused_with_aws(helm, &json!({block: null}), &[&format!("missing property '{block}'")]);
    }
    for (block, key) in [("webhook", "mode"), ("ports", "webhook"), ("server", "drainTimeoutSeconds")] {
        refused_with_aws(helm, &json!({block: {key: null}}), &[&format!("missing property '{key}'")]);
    }
    // The condition of a dependency.
    assert!(helm.template(&with(enabled("aws"), &json!({"enabled": true}))).is_ok());
}

pub(crate) fn the_namespace_is_for_the_servers_alone(helm: &Helm) {
    for namespace in ["default", "kube-system"] {
        let error = helm.template_in("a", namespace, &enabled("aws")).unwrap_err();
        assert!(error.contains(&format!("the namespace of the release is `{namespace}`")), "{error}");
    }
}

pub(crate) fn a_budget_that_no_drain_survives(helm: &Helm) {
    let budget = |most: Value| json!({"podDisruptionBudget": {"maxUnavailable": most}});
    for most in [json!(0), json!(-1), json!("0"), json!("0%"), json!("1"), json!("101%")] {
        refused_with_aws(helm, &budget(most), &["/podDisruptionBudget/maxUnavailable"]);
    }
    for most in [json!(2), json!("1%"), json!("50%"), json!("100%")] {
        let objects = crate::cases::render(helm, &with(enabled("aws"), &budget(most.clone())));
        assert_eq!(objects.the("PodDisruptionBudget")["spec"]["maxUnavailable"], most);
    }
}

pub(crate) fn an_extra_policy_does_not_fight_the_built_in_one(helm: &Helm) {
    let extra = |file: &str, text: &str| json!({"extraPolicies": {file: text}});
    let lab = lab_policy("lab");
    let twice = json!({"extraPolicies": {"a.yaml": lab, "b.yaml": lab}});
    refused(helm, &twice, &["two policies are called `lab-roce`"]);
    refused_with_aws(helm, &extra("lab.yaml", &lab), &["is for the provider `lab`, and `aws` is enabled"]);
    let same_name = lab_policy("aws").replace("lab-roce", "aws-efa");
    refused_with_aws(
        helm,
        &extra("a.yaml", &same_name),
        &["the built-in policy of `aws`", "aws.enabled=false"],
    );
}

pub(crate) fn conditions_are_given_where_the_chart_cannot_generate_them_and_nowhere_else(helm: &Helm) {
    let ours = json!([{"name": "ours", "expression": "true"}]);
    let bare = json!({"extraPoliciesConfigMap": "kept"});
    let given = json!({"webhook": {"matchConditions": ours}, "guard": {"matchConditions": ours}});
    for triggers in [
        json!(null),
        json!({}),
        json!({"annotations": null, "labels": null}),
        json!({"annotations": [], "labels": []}),
    ] {
        let values = with(with(bare.clone(), &given), &json!({"extraPoliciesTriggers": triggers}));
        refused(helm, &values, &["`extraPoliciesTriggers` has to say which pods they match"]);
    }
    let triggers = json!({"extraPoliciesTriggers": {"annotations": ["lab.example/fabric"]}});
    for (wrong, place) in [
        (json!({"annotations": ["*"]}), "/extraPoliciesTriggers/annotations/0"),
        (json!({"annotations": [""]}), "/extraPoliciesTriggers/annotations/0"),
        (json!({"labels": [{}]}), "/extraPoliciesTriggers/labels/0"),
        (json!({"labels": [{"a": "b c"}]}), "/extraPoliciesTriggers/labels/0/a"),
        (json!({"labels": [{"a": true}]}), "/extraPoliciesTriggers/labels/0/a"),
        (json!({"label": []}), "extraPoliciesTriggers"),
    ] {
        let values = with(with(bare.clone(), &given), &json!({"extraPoliciesTriggers": wrong}));
        refused(helm, &values, &[place]);
    }
    let kept = with(bare, &triggers);
    let twice = json!([{"name": "has-trigger", "expression": "true"}]);
    let twice = with(with(kept.clone(), &given), &json!({"guard": {"matchConditions": twice}}));
    refused(helm, &twice, &["the chart generates the condition `has-trigger`"]);
    refused(
        helm,
        &kept,
        &["`webhook.matchConditions` has to say", "fabric-injector manifests --policy FILE"],
    );
    let webhook = with(kept.clone(), &json!({"webhook": {"matchConditions": ours}}));
    refused(helm, &webhook, &["`guard.matchConditions` has to say", "or set `guard.enabled=false`"]);
    let audit = json!({"webhook": {"mode": "audit"}});
    assert!(helm.template(&with(webhook.clone(), &audit)).is_ok(), "there is no guard in audit mode");
    let both = with(kept, &json!({"extraPolicies": {"lab.yaml": lab_policy("lab")}}));
    refused(helm, &both, &["`extraPolicies` and `extraPoliciesConfigMap` are both given"]);
    for values in
        [json!({"webhook": {"matchConditions": ours}}), json!({"guard": {"matchConditions": ours}}), triggers]
    {
        refused_with_aws(helm, &values, &["are generated from the policies", "webhook.excludedNamespaces"]);
    }
}

pub(crate) fn an_extension_has_a_base_of_the_provider(helm: &Helm) {
    let extension = |name: &str, base: &str| {
        format!(
            "{{apiVersion: fabric-injector.io/v1alpha1, kind: FabricPolicy, metadata: {{name: {name}}}, spec: {{extends: {base}}}}}"
        )
    };
    let extra = |policies: &[(&str, &str)]| {
        let files: serde_json::Map<_, _> = policies
            .iter()
            .map(|(name, base)| (format!("{name}.yaml"), json!(extension(name, base))))
            .collect();
        json!({"extraPolicies": files})
    };
    refused_with_aws(helm, &extra(&[("one", "aws-eva")]), &["`one` extends `aws-eva`", "`aws-efa`"]);
    let circle = [("one", "two"), ("two", "one")];
    refused_with_aws(helm, &extra(&circle), &["extends itself, directly or through another policy"]);
    refused_with_aws(
        helm,
        &extra(&[("one", "oci-sriov")]),
        &["is for the provider `oci`, and `aws` is enabled"],
    );
}
