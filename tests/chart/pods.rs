//! The pods of the servers and of `helm test`: restricted, with the right files, and ended in good time.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::objects::{Objects, strings};

pub(crate) fn check(values: &Value, objects: &Objects) {
    restricted(&objects.pod()["spec"]);
    for test in objects.of_kind("Pod") {
        restricted(&test["spec"]);
    }
    certificates(values, objects);
    clients(values, objects);
    policies(values, objects);
    the_end(objects);
    probes(objects);
}

/// As the profile `restricted` of the Pod Security Standards asks for, and with a root that nobody can write to.
fn restricted(spec: &Value) {
    let pod = &spec["securityContext"];
    assert_eq!(pod["runAsNonRoot"], true);
    assert_eq!(pod["runAsUser"], 65532);
    assert_eq!(pod["seccompProfile"]["type"], "RuntimeDefault");
    for host in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
        assert_eq!(spec[host], Value::Null, "{host}");
    }
    for container in spec["containers"].as_array().unwrap() {
        let wanted = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        });
        assert_eq!(container["securityContext"], wanted);
        assert!(container["resources"]["limits"]["memory"].is_string());
        assert!(container["resources"]["limits"]["cpu"].is_null(), "throttled, it would be late");
        // The image has one program and no shell.
        assert_eq!(container["command"], Value::Null);
    }
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        assert!(volume["configMap"].is_object() || volume["secret"].is_object(), "{volume}");
    }
}

/// The certificate is managed or mounted. There is a token where one is needed.
fn certificates(values: &Value, objects: &Objects) {
    let fullname = objects.the("Deployment")["metadata"]["name"].as_str().unwrap();
    let arguments = objects.arguments();
    let mounted = values["certManager"]["enabled"] == true || values["tls"]["secretName"].is_string();
    let watches = values["nodes"]["watch"] != false;
    let events = values["events"]["enabled"] != false;
    assert_eq!(objects.pod()["spec"]["automountServiceAccountToken"], !mounted || watches || events);
    assert_eq!(arguments.contains(&"--watch-nodes"), watches);
    assert_eq!(arguments.contains(&"--tls-dir=/etc/fabric-injector/tls"), mounted);
    assert_eq!(arguments.contains(&format!("--manage-webhook={fullname}").as_str()), !mounted);
    assert_eq!(arguments.contains(&format!("--manage-secret={fullname}-tls").as_str()), !mounted);
    let volumes = objects.pod()["spec"]["volumes"].as_array().unwrap();
    let secrets: Vec<&str> =
        volumes.iter().filter_map(|volume| volume["secret"]["secretName"].as_str()).collect();
    let own = values["tls"]["secretName"].as_str().map(str::to_owned);
    let wanted = own.or_else(|| mounted.then(|| format!("{fullname}-serving")));
    assert_eq!(secrets, wanted.iter().collect::<Vec<_>>());
    for certificate in
        objects.of_kind("Certificate").filter(|certificate| certificate["spec"]["isCA"] != true)
    {
        assert_eq!(certificate["spec"]["secretName"], wanted.as_deref().unwrap());
        let names = strings(&certificate["spec"]["dnsNames"]);
        assert!(names.contains(&format!("{fullname}.fabric-injector.svc").as_str()), "{names:?}");
    }
}

/// The CAs of clients are a file beside the values.
fn clients(values: &Value, objects: &Objects) {
    let given = values["server"]["clientCaBundle"].as_str();
    let arguments = objects.arguments();
    let file = "--client-ca=/etc/fabric-injector/values/clients.crt";
    assert_eq!(
        arguments.iter().filter(|argument| argument.starts_with("--client-ca")).count(),
        given.iter().count()
    );
    assert_eq!(arguments.contains(&file), given.is_some());
    let map = objects.of_kind("ConfigMap").find(|map| map["data"]["values.yaml"].is_string()).unwrap();
    assert_eq!(map["data"]["clients.crt"].as_str().map(str::trim_end), given.map(str::trim_end));
}

/// With policies of one's own, the built-in one has to be named as well.
fn policies(values: &Value, objects: &Objects) {
    let providers = crate::cases::providers();
    let enabled =
        providers.iter().filter(|(provider, _)| values["multinodeNetworking"][provider]["enabled"] == true);
    let built_in =
        enabled.flat_map(|(_, policies)| policies).map(|policy| format!("--policy={}", policy.name));
    let mut wanted = Vec::new();
    if values["extraPolicies"].is_object() {
        wanted.extend(built_in);
        wanted.push("--policy=/etc/fabric-injector/policies".to_owned());
    }
    let arguments = objects.arguments();
    let named: Vec<&&str> = arguments.iter().filter(|argument| argument.starts_with("--policy=")).collect();
    assert_eq!(named, wanted.iter().collect::<Vec<_>>());
    let on_error =
        if values["webhook"]["failurePolicy"] == "Ignore" { "--on-error=allow" } else { "--on-error=deny" };
    assert!(arguments.contains(&on_error), "{arguments:?}");
}

/// The grace period is longer than the server takes to end by its defaults, which the chart does not change.
fn the_end(objects: &Objects) {
    static HELP: LazyLock<String> = LazyLock::new(crate::schema::help);
    let seconds = |option: &str| -> u64 {
        assert!(!objects.arguments().iter().any(|argument| argument.starts_with(option)), "{option}");
        let (_, text) = HELP.split_once(&format!("{option} <DURATION>")).unwrap();
        let (_, default) = text.split_once("[default: ").unwrap();
        default.split_once('s').unwrap().0.parse().unwrap()
    };
    let takes = seconds("--shutdown-delay") + seconds("--drain-timeout");
    let grace = objects.pod()["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(takes > 0 && grace > takes, "{grace} {takes}");
}

pub(crate) fn probes(objects: &Objects) {
    let server = objects.server();
    for (probe, path) in
        [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        assert_eq!(server[probe]["httpGet"], json!({"path": path, "port": "admin"}), "{probe}");
    }
}
