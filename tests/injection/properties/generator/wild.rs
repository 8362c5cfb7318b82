//! Any field of a Pod, from the schema of the API's own types. Most values are valid by themselves; whether they are
//! valid in a pod is for the program to know when it loads a policy.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::Dice;
use super::api_types::pod_schema;

static SCHEMA: LazyLock<Value> = LazyLock::new(pod_schema);

/// Values by the names of the fields that may have them.
const TEXTS: &[(&str, &[&str])] = &[
    ("imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("pullPolicy", &["Always", "IfNotPresent"]),
    ("dnsPolicy", &["ClusterFirst", "Default", "ClusterFirstWithHostNet"]),
    ("restartPolicy", &["Always", "Never", "OnFailure", "NotRequired"]),
    ("terminationMessagePolicy", &["File", "FallbackToLogsOnError"]),
    ("protocol", &["TCP", "UDP", "SCTP"]),
    ("scheme", &["HTTP", "HTTPS"]),
    ("effect", &["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    ("operator", &["Exists", "Equal", "In", "DoesNotExist"]),
    ("whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]),
    ("nodeAffinityPolicy", &["Honor", "Ignore"]),
    ("nodeTaintsPolicy", &["Honor", "Ignore"]),
    ("type", &["RuntimeDefault", "Unconfined", "Directory", "DirectoryOrCreate", ""]),
    ("procMount", &["Default", "Unmasked"]),
    ("fsGroupChangePolicy", &["OnRootMismatch", "Always"]),
    ("supplementalGroupsPolicy", &["Merge", "Strict"]),
    ("seLinuxChangePolicy", &["Recursive", "MountOption"]),
    ("medium", &["", "Memory", "HugePages"]),
    ("mountPropagation", &["None", "HostToContainer", "Bidirectional"]),
    ("recursiveReadOnly", &["Disabled", "IfPossible", "Enabled"]),
    ("preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ("stopSignal", &["SIGTERM", "SIGUSR1"]),
    ("volumeMode", &["Filesystem", "Block"]),
    (
        "fieldPath",
        &["metadata.name", "metadata.labels['app']", "status.podIP", "spec.nodeName", "metadata.labels"],
    ),
    ("resource", &["limits.cpu", "requests.memory", "limits.hugepages-2Mi"]),
    ("resourceName", &["cpu", "memory"]),
    ("divisor", &["1", "1Mi", "1m"]),
    ("image", &["registry.test/wild:1"]),
    ("mountPath", &["/wild", "/wild/deep", "wild"]),
    ("devicePath", &["/dev/wild"]),
    ("subPath", &["wild", "a/b"]),
    ("subPathExpr", &["$(MINE)"]),
    ("workingDir", &["/wild"]),
    ("terminationMessagePath", &["/dev/wild"]),
    ("localhostProfile", &["wild.json"]),
    ("ip", &["10.0.0.9", "fd00::1"]),
    ("hostIP", &["10.0.0.9"]),
    ("nameservers", &["10.0.0.10"]),
    ("hostnames", &["wild.test"]),
    ("searches", &["wild.test"]),
    ("topologyKey", &["zone", "example.com/rack"]),
    ("matchLabelKeys", &["app"]),
    ("hostname", &["wild"]),
    ("subdomain", &["wild"]),
    ("path", &["/wild", "wild", "a/b"]),
    ("command", &["true"]),
    ("add", &["IPC_LOCK", "SYS_ADMIN", "NET_RAW"]),
    ("drop", &["ALL", "NET_RAW"]),
    ("accessModes", &["ReadWriteOnce"]),
    ("sizeLimit", &["1Gi"]),
    ("conditionType", &["example.com/ready"]),
    ("driver", &["csi.test"]),
    ("repository", &["https://git.test/x"]),
    ("level", &["s0:c1"]),
    ("prefix", &["WILD_"]),
    ("host", &["wild.test"]),
    ("value", &["1", "net"]),
];

/// A field of a container, or of a pod, with a value.
pub(crate) fn field(dice: &mut Dice, of_pod: bool) -> (String, Value) {
    let spec = &SCHEMA["properties"]["spec"];
    let schema = if of_pod { spec } else { &spec["properties"]["containers"]["items"] };
    let fields = schema["properties"].as_object().unwrap();
    let names: Vec<&String> = fields
        .keys()
        .filter(|name| {
            !["containers", "initContainers", "name", "env", "ephemeralContainers"].contains(&name.as_str())
        })
        .collect();
    let name = dice.pick(&names).clone();
    let value = value(dice, &fields[&name], &name, 0);
    (name, value)
}

fn value(dice: &mut Dice, schema: &Value, name: &str, depth: usize) -> Value {
    if schema["format"] == "quantity" {
        return json!(text(dice, name, "1Gi"));
    }
    if let Some(fields) = schema["properties"].as_object() {
        return object(dice, schema, fields, depth);
    }
    match schema["type"].as_str() {
        Some("array") => {
            (0..=dice.below(2)).map(|_| value(dice, &schema["items"], name, depth + 1)).collect()
        }
        Some("object") => match (name, schema.get("additionalProperties")) {
            ("limits" | "requests" | "overhead", _) => {
                json!({dice.pick(&["cpu", "memory", "wild.test/dev"]): dice.pick(&["1", "2"])})
            }
            (_, Some(values)) => {
                json!({dice.pick(&["app", "example.com/x"]): value(dice, values, name, depth + 1)})
            }
            (_, None) => json!({}),
        },
        Some("integer") => json!(dice.pick(&[1, 2, 5, 10, 30, 0, 8080])),
        Some("boolean") => json!(dice.chance(60)),
        Some(_) => json!(text(dice, name, "wild")),
        None => dice.pick(&[json!(8080), json!("metrics")]),
    }
}

/// An object with the fields that it needs, and some others.
fn object(dice: &mut Dice, schema: &Value, fields: &Map<String, Value>, depth: usize) -> Value {
    let required: Vec<&str> = super::items(&schema["required"]).iter().filter_map(Value::as_str).collect();
    let chance = if fields.len() > 8 { 15 } else { 40 };
    let mut object = Map::new();
    for (name, schema) in fields {
        if required.contains(&name.as_str()) || (depth < 6 && dice.chance(chance)) {
            object.insert(name.clone(), value(dice, schema, name, depth + 1));
        }
    }
    // Of sources and handlers there is one.
    if object.is_empty()
        && let Some((name, schema)) = fields.iter().nth(dice.below(fields.len()))
    {
        object.insert(name.clone(), value(dice, schema, name, depth + 1));
    }
    object.into()
}

fn text(dice: &mut Dice, name: &str, otherwise: &'static str) -> &'static str {
    let known = TEXTS.iter().find(|(known, _)| *known == name);
    match known {
        Some((_, texts)) if dice.chance(95) => dice.pick(texts),
        _ => otherwise,
    }
}
