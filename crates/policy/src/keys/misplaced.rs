//! Where a key belongs that stands at another place.

use super::{CHECK, DEVICE, DEVICES, GPUS, MATCH, Map, NODES, PARAMETER, POLICY, RULE, SPEC};
use fabric_yaml::{Content, Entry, Node};

use crate::schema::{container, pod};
use crate::source::{Diagnostic, UNKNOWN_KEY};

/// Keys of Kyverno and of other engines, and what to write instead of each.
const OF_OTHERS: &[(&str, &str)] = &[
    ("any", "write `anyAnnotation`, `labels` and `namespaces` in `match`; only pods are matched"),
    ("context", "write `variables`, or `parameters`, which operators set"),
    ("deny", "write `action: refuse` and `message: TEXT` in an entry of `checks`"),
    (
        "exclude",
        "write `exceptAnnotation`, or a condition under `when`, in `match`; `without` leaves out rules of a base",
    ),
    ("foreach", "write `containers`: the rule is for each container that meets the condition"),
    ("mutate", "write `env`, `container` and `pod` in the rule itself"),
    ("namespace", "write `namespaces: [NAME]` in `match`; expressions read `podNamespace`"),
    ("patchStrategicMerge", "write `env`, `container` and `pod` in a rule"),
    ("patchesJson6902", "write `env`, `container` and `pod` in a rule"),
    ("preconditions", "write `when` for the pod, and `containers` for each container"),
    ("template", "write `pod`, which has the fields of a pod template"),
    ("validate", "write `checks`, as in `- {name: no_fabric, when: totalGpus == 0, message: TEXT}`"),
    ("validationFailureAction", "write `action: refuse` in an entry of `checks`"),
    ("validations", "write `checks`, as in `- {name: no_fabric, when: totalGpus == 0, message: TEXT}`"),
];

/// Fields of other APIs that people write in a pod or a container, and what to write instead of each.
const OF_OTHER_PODS: &[(&str, &str)] = &[
    ("annotations", "write it in `pod.metadata` of the rule"),
    ("labels", "write it in `pod.metadata` of the rule"),
    ("devices", "write a volume with `hostPath`, and mount it"),
    ("fsGroup", "write it in `securityContext` of `pod.spec`"),
    ("fsGroupChangePolicy", "write it in `securityContext` of `pod.spec`"),
    ("supplementalGroups", "write it in `securityContext` of `pod.spec`"),
    ("sysctls", "write it in `securityContext` of `pod.spec`"),
    ("environment", "write `env` of the rule, next to `container` and `pod`"),
    ("shmSize", "write a volume with `emptyDir: {medium: Memory}`, and mount it at `/dev/shm`"),
    ("sidecars", "write `initContainers`, whose entries have `restartPolicy: Always`"),
    ("spec", "leave it out: `container` has the fields of a container itself"),
    ("ulimits", "write `securityContext: {capabilities: {add: [IPC_LOCK]}}`"),
];

/// Directives of a strategic merge patch.
const DIRECTIVES: [&str; 4] = ["$patch", "$setElementOrder", "$retainKeys", "$deleteFromPrimitiveList"];

/// The hint for a key that `here` does not have: a map of the language by its name in messages, or a type of the API
/// whose fields a rule adds. `None` if no other place has the key.
pub(crate) fn hint_for_misplaced(here: &str, key: &str) -> Option<&'static str> {
    let is_of = |map: &Map| here == map.what;
    let is_overlay = here.starts_with(char::is_uppercase);
    // A part of a policy that has an unknown name or description has no other place for it.
    let maps = [&POLICY, &SPEC, &GPUS, &DEVICES, &DEVICE, &MATCH, &NODES, &PARAMETER, &CHECK, &RULE];
    if !is_overlay && !maps.into_iter().any(is_of)
        || ["name", "description"].contains(&key)
        || key == "namespace" && is_of(&MATCH)
    {
        return None;
    }
    let of_others = if is_overlay { OF_OTHER_PODS } else { OF_OTHERS };
    let of_others = of_others.iter().find(|(other, _)| *other == key).map(|(_, hint)| *hint);
    of_others.or_else(|| match key {
        _ if is_overlay && DIRECTIVES.iter().any(|directive| key.starts_with(directive)) => {
            Some("leave it out: entries of lists are merged by their names")
        }
        _ if is_of(&POLICY) && SPEC.key(key).is_some() => Some("indent it: it is a field of `spec`"),
        "match" if is_of(&RULE) => Some(
            "`match` is for the whole policy: write `when` for the pod, or `containers` for each container",
        ),
        "path" if here == "VolumeMount" => Some("did you mean `mountPath`?"),
        "env" if is_overlay => Some("write `env` of the rule, next to `container` and `pod`"),
        _ if is_overlay && RULE.key(key).is_some() => {
            Some("it is a key of the rule: indent it like `container` and `pod`")
        }
        "resources" | "networks" | "claims" if is_of(&SPEC) => Some("write it in an entry of `devices.add`"),
        "when" if is_of(&SPEC) => Some("write it in `match`, or in entries of `rules`"),
        _ if !is_of(&CHECK) && CHECK.key(key).is_some() && RULE.key(key).is_none() => {
            Some("write it in an entry of `checks`")
        }
        _ if is_of(&RULE) && container().field(key).is_some() => Some("write it in `container` of the rule"),
        _ if is_of(&RULE) && pod().field(key).is_some() => Some("write it in `pod` of the rule"),
        _ if (is_of(&RULE) || here == container().name) && pod().field_with(key).is_some() => {
            Some("pods have it: write it in `pod.spec` of the rule")
        }
        _ if here.starts_with("Pod") && is_of_container(key) => {
            Some("containers have it: write it in `container` of a rule")
        }
        _ if is_of(&RULE) && DEVICE.key(key).is_some() => Some("write it in an entry of `devices.add`"),
        _ if is_of(&SPEC) && RULE.key(key).is_some() => Some("write it in entries of `rules`"),
        _ if MATCH.key(key).is_some() && RULE.key(key).is_none() => Some("write it in `match`"),
        _ if !is_of(&SPEC) && SPEC.key(key).is_some() => Some("it is a field of `spec`: indent it less"),
        _ => None,
    })
}

/// Fails for an entry of a map with names of the author's choice that is a key of the language, one level too deep.
pub(crate) fn refuse_key(entry: &Entry<Node>, map: &str) -> Result<(), Diagnostic> {
    let is_key = [&SPEC, &RULE, &CHECK].iter().any(|keys| keys.key(&entry.key).is_some());
    if !is_key || matches!(entry.value.content, Content::Map(_)) {
        return Ok(());
    }
    let message = format!("`{}` is a key of the language, and not an entry of `{map}`", entry.key);
    let hint = if SPEC.key(&entry.key).is_some() {
        format!("it is a field of `spec`: indent it like `{map}`")
    } else {
        "write it in an entry of `rules`, or of `checks`".to_owned()
    };
    Err(Diagnostic::error(UNKNOWN_KEY, entry.span, message).hint(hint))
}

fn is_of_container(key: &str) -> bool {
    container().field(key).or(container().field_with(key)).is_some()
}
