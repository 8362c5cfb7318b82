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
    let set =
        "set `multinodeNetworking.PROVIDER.enabled=true` for a provider that `fabric-injector policy list`";
    let unwatched = json!({"nodes": {"watch": false}});
    refused(helm, &unwatched, &["no provider is enabled", "`nodes.watch=true`", set]);
    let all_off = json!({"multinodeNetworking": {"oci": {"enabled": false, "rdmaDevicesPerGPU": 8}}});
    refused(helm, &with(all_off.clone(), &unwatched), &["no provider is enabled"]);
    // The nodes choose among all policies.
    for values in [json!({}), all_off] {
        let text = helm.template(&values).unwrap();
        assert!(text.contains("--watch-nodes") && !text.contains("--policy="), "{text}");
    }
    let unknown = ["no policy has the provider `awz`", "hint: there are policies for `aws`, `azure`, "];
    refused(helm, &enabled("awz"), &unknown);
    let beside_ours = with(enabled("awz"), &json!({"extraPolicies": {"lab.yaml": lab_policy("lab")}}));
    refused(helm, &beside_ours, &unknown);
    let off = json!({"multinodeNetworking": {"awz": {"enabled": false}}});
    refused(helm, &off, &unknown);
    assert!(helm.template(&json!({"multinodeNetworking": null})).is_ok());
}

pub(crate) fn the_block_takes_the_parameters_of_the_policies_and_no_others(helm: &Helm) {
    let aws = |settings: Value| json!({"multinodeNetworking": {"aws": settings}});
    refused_with_aws(
        helm,
        &aws(json!({"efaDevicesPerGpu": 4})),
        &["/multinodeNetworking/aws'", "additional properties 'efaDevicesPerGpu' not allowed"],
    );
    let ours = json!({"extraPolicies": {"ours.yaml": "{apiVersion: fabric-injector.io/v1alpha1, kind: FabricPolicy, \
        metadata: {name: ours}, spec: {extends: aws-efa, parameters: {debug: {type: string, description: d}}}}"}});
    let set = with(ours, &aws(json!({"debug": "INFO", "efaDevicesPerGPU": 4})));
    assert!(helm.template(&with(enabled("aws"), &set)).is_ok());
    refused_with_aws(helm, &aws(json!({"debug": "INFO"})), &["additional properties 'debug' not allowed"]);
    refused_with_aws(helm, &aws(json!({"enabled": "yes"})), &["enabled", "got string, want boolean"]);
    refused_with_aws(helm, &aws(json!(4)), &["/multinodeNetworking/aws", "got number, want object"]);
}

/// A parameter of `onprem`, values that it can have, and values that it cannot have with what Helm says.
type Case = (&'static str, Value, Vec<(Value, &'static str)>);

fn values_of_parameters() -> Vec<Case> {
    let networks = |count: usize| json!((0..count).map(|at| format!("rail-{at}")).collect::<Vec<_>>());
    vec![
        (
            "rdmaDevicesPerGPU",
            json!([0, 0.5, 4, {"pool": {"a": 0.5, "b": {"8": 4}}, "default": 2}]),
            vec![
                (json!("4"), "': got string, want null or number or object"),
                (json!(-1), "': minimum: got -1, want 0"),
                (json!(33), "': maximum: got 33, want 32"),
                (json!({"pool": {"b": {"8": 33}}}), "/pool/b/8': maximum: got 33, want 32"),
                (json!(true), "': got boolean, want null or number or object"),
            ],
        ),
        (
            "gidIndex",
            json!([0, 3, 255]),
            vec![
                (json!(1.5), "': got number, want null or integer or object"),
                (json!(256), "': maximum: got 256, want 255"),
                (json!([3]), "': got array, want null or integer or object"),
            ],
        ),
        (
            "attachment",
            json!(["rails", {"pool": {"a": "sriov"}}]),
            vec![
                (json!("rail"), "': value must be one of 'shared', 'hostDevice', 'sriov', 'rails', 'claim'"),
                (json!({"pool": {"a": "x"}}), "/pool/a': value must be one of"),
            ],
        ),
        ("adapters", json!(["", "mlx5"]), vec![(json!(5), "': got number, want null or string or object")]),
        ("ipcLock", json!([false]), vec![(json!("no"), "': got string, want null or boolean or object")]),
        (
            "sharedMemorySize",
            json!(["64Gi", "1.5G", "1e9", "1024", 1024]),
            vec![
                (json!("much"), "': 'much' does not match pattern"),
                (json!(-1), "': minimum: got -1, want 0"),
                (json!(false), "': got boolean, want null or number or string or object"),
            ],
        ),
        (
            "railResources",
            json!([["nvidia.com/a"]]),
            vec![
                (json!([]), "': minItems: got 0, want 1"),
                (networks(33), "': maxItems: got 33, want 32"),
                (json!(["a", 5]), "/1': got number, want string"),
                (json!("a"), "': got string, want null or array or object"),
            ],
        ),
        (
            "computeDomainTemplate",
            json!(["channel", "${pod.metadata.?name.orValue('a')}-x"]),
            vec![(json!(5), "': got number, want null or string or object")],
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
    for (parameter, taken, others) in values_of_parameters() {
        let values =
            |value: &Value| json!({"multinodeNetworking": {"onprem": {"enabled": true, parameter: value}}});
        for value in taken.as_array().unwrap() {
            let values = values(value);
            assert!(program(&values).is_ok(), "{values}");
            assert!(helm.template(&values).is_ok(), "{values}");
        }
        for (value, says) in others {
            let values = values(&value);
            assert!(program(&values).is_err(), "{values}");
            refused(helm, &values, &[&format!("/multinodeNetworking/onprem/{parameter}{says}")]);
        }
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
        (json!({"server": {"extraArgs": "--log=debug"}}), "/server/extraArgs"),
        (json!({"nameOverride": "fabric.injector"}), "/nameOverride"),
        (json!({"fullnameOverride": "fabric.injector"}), "/fullnameOverride"),
        (json!({"podAnnotations": {"kubectl.kubernetes.io/default-container": "x"}}), "/podAnnotations"),
    ];
    for (values, says) in cases {
        refused_with_aws(helm, &values, &[says]);
    }
}

/// YAML takes the last of two equal keys, and tools that read the rendered chart refuse them: `render` fails for one.
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
        let objects = crate::cases::render(helm, &with(enabled("aws"), &twice));
        let teams = objects.0.iter().chain([objects.pod()]).map(|one| &one["metadata"]["labels"]["team"]);
        let (own, common): (Vec<_>, Vec<_>) =
            teams.filter(|team| !team.is_null()).partition(|team| *team == "a");
        // Those of the pods are on that of `helm test`, too.
        let count = if *place == "podLabels" { 2 } else { 1 };
        assert!(own.len() == count && common.len() > 10 && common.iter().all(|team| *team == "b"), "{place}");
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
}

pub(crate) fn there_is_one_certificate_and_its_ca_is_known(helm: &Helm) {
    let ca = "-----BEGIN CERTIFICATE-----\n";
    let both = json!({"certManager": {"enabled": true}, "tls": {"secretName": "own", "caBundle": ca}});
    refused_with_aws(helm, &both, &["`certManager.enabled` and `tls.secretName` are both given"]);
    refused_with_aws(helm, &json!({"tls": {"secretName": "own"}}), &["without `caBundle`", "--set-file"]);
    let key = json!({"tls": {"secretName": "own", "caBundle": "-----BEGIN PRIVATE KEY-----\nSECRET"}});
    let said = refused_with_aws(helm, &key, &["`tls.caBundle` is not a certificate in PEM"]);
    assert!(!said.contains("SECRET"), "{said}");
    refused_with_aws(helm, &json!({"tls": {"caBundle": ca}}), &["without `secretName`"]);
    let key = json!({"server": {"clientCaBundle": "-----BEGIN PRIVATE KEY-----\nSECRET"}});
    let said =
        refused_with_aws(helm, &key, &["`server.clientCaBundle` is not a certificate in PEM", "--set-file"]);
    assert!(!said.contains("SECRET"), "{said}");
}

pub(crate) fn further_arguments_are_options_that_the_chart_does_not_set(helm: &Helm) {
    let argument = |argument: &str| json!({"server": {"extraArgs": ["--max-in-flight=64", argument]}});
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
    assert!(helm.template(&with(enabled("aws"), &argument("--max-connections=9"))).is_ok());
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
        let values =
            taken.iter().map(|value| (value, true)).chain(refused.iter().map(|value| (value, false)));
        for (value, is_taken) in values {
            let argument = format!("--{option}={value}");
            assert_eq!(program(&argument), is_taken, "{argument}");
            let server = json!({"server": {"extraArgs": [argument]}});
            assert_eq!(helm.template(&with(enabled("aws"), &server)).is_ok(), is_taken, "{server}");
        }
    }
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
    for (block, key) in [("webhook", "mode"), ("ports", "webhook"), ("server", "extraArgs")] {
        refused_with_aws(helm, &json!({block: {key: null}}), &[&format!("missing property '{key}'")]);
    }
    // The condition of a dependency.
    assert!(helm.template(&with(enabled("aws"), &json!({"enabled": true}))).is_ok());
}

pub(crate) fn an_extra_policy_does_not_fight_another(helm: &Helm) {
    let extra = |file: &str, text: &str| json!({"extraPolicies": {file: text}});
    let lab = lab_policy("lab");
    let twice = json!({"extraPolicies": {"a.yaml": lab, "b.yaml": lab}});
    refused(
        helm,
        &twice,
        &["in `b.yaml`, `metadata.name` must be unique, but is `lab-roce`, like that of another", "hint: "],
    );
    let provider = "in `lab.yaml`, the provider must be `aws`, like that of the others, but is `lab`";
    refused_with_aws(helm, &extra("lab.yaml", &lab), &[provider, "provider: write `provider: aws`; "]);
    let inherited = "{apiVersion: fabric-injector.io/v1alpha1, kind: FabricPolicy, metadata: {name: ours}, spec: \
                     {extends: oci-sriov}}";
    let provider = "in `a.yaml`, the provider must be `aws`, like that of the others, but is `oci`";
    refused_with_aws(helm, &extra("a.yaml", inherited), &[provider]);
    let two = json!({"extraPolicies": {"a.yaml": lab, "b.yaml": inherited}});
    refused(helm, &two, &["in `b.yaml`, the provider must be `lab`, like that of the others, but is `oci`"]);
    let same_name = lab_policy("aws").replace("lab-roce", "aws-efa");
    let name = "`metadata.name` must be unique, but is `aws-efa`, like that of another policy";
    refused_with_aws(
        helm,
        &extra("a.yaml", &same_name),
        &["in `a.yaml`, ", name, "`multinodeNetworking.aws.enabled=false`"],
    );
    assert!(helm.template(&extra("a.yaml", &same_name)).is_ok());
}

pub(crate) fn the_namespace_is_for_the_servers_alone(helm: &Helm) {
    for namespace in ["default", "kube-system"] {
        let error = helm.template_in("a", namespace, &enabled("aws")).unwrap_err();
        assert!(error.contains(&format!("the namespace of the release is `{namespace}`")), "{error}");
    }
}

pub(crate) fn an_extension_has_a_base(helm: &Helm) {
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
}
