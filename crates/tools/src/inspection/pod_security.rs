//! The fields of a pod that the Pod Security Standards forbid, as far as policies for a fabric add them: no sysctls,
//! and no options of `SELinux`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::list;

/// The capabilities that `baseline` allows.
const CAPABILITIES: &str = "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID \
     SETPCAP SETUID SYS_CHROOT";
/// The sources of volumes that `restricted` allows.
const VOLUMES: &str = "configMap csi downwardAPI emptyDir ephemeral persistentVolumeClaim projected secret";

fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// The values of a pod that a level forbids. They do not include values that `restricted` requires and the pod lacks.
pub(super) fn forbidden(level: &str, pod: &Value) -> BTreeSet<String> {
    let restricted = level == "restricted";
    let spec = &pod["spec"];
    let mut found = BTreeSet::new();
    let switches = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| spec[key] == true);
    found.extend(switches.map(|key| format!("`{key}`")));
    for volume in list(spec, "volumes") {
        let mut sources = volume.as_object().into_iter().flat_map(|volume| volume.keys());
        let source = sources.find(|key| *key != "name").map_or("emptyDir", String::as_str);
        if source == "hostPath" {
            found.insert(format!("the host path {}", volume["hostPath"]["path"]));
        } else if restricted && !has(VOLUMES, source) {
            found.insert(format!("a volume of the type `{source}`"));
        }
    }
    let containers = list(spec, "initContainers").chain(list(spec, "containers"));
    for context in containers.chain([spec]).map(|owner| &owner["securityContext"]) {
        of_context(context, restricted, &mut found);
    }
    found
}

fn of_context(context: &Value, restricted: bool, found: &mut BTreeSet<String>) {
    let capabilities = if restricted { "NET_BIND_SERVICE" } else { CAPABILITIES };
    let added = list(&context["capabilities"], "add").filter_map(Value::as_str);
    found
        .extend(added.filter(|name| !has(capabilities, name)).map(|name| format!("the capability `{name}`")));
    let unconfined = json!("Unconfined");
    let values = [
        ("/privileged", json!(true), true),
        ("/seccompProfile/type", unconfined.clone(), true),
        ("/appArmorProfile/type", unconfined, true),
        ("/allowPrivilegeEscalation", json!(true), restricted),
        ("/runAsNonRoot", json!(false), restricted),
        ("/runAsUser", json!(0), restricted),
    ];
    let set =
        values.iter().filter(|(at, value, is_checked)| *is_checked && context.pointer(at) == Some(value));
    found.extend(set.map(|(at, value, _)| format!("`{}: {value}`", at[1..].replace('/', "."))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(level: &str, spec: &Value) -> Vec<String> {
        forbidden(level, &json!({"spec": spec})).into_iter().collect()
    }

    #[test]
    fn each_level_forbids_its_values() {
        let spec = json!({
            "hostNetwork": true,
            "volumes": [{"name": "a", "hostPath": {"path": "/sys"}}, {"name": "b", "nfs": {}}, {"name": "c"}],
            "containers": [{"securityContext": {"capabilities": {"add": ["IPC_LOCK", "KILL"]}, "runAsUser": 0}}],
            "initContainers": [{"securityContext": {"privileged": true, "seccompProfile": {"type": "Unconfined"}}}],
        });
        let baseline = [
            "`hostNetwork`",
            "`privileged: true`",
            "`seccompProfile.type: \"Unconfined\"`",
            "the capability `IPC_LOCK`",
            "the host path \"/sys\"",
        ];
        assert_eq!(found("baseline", &spec), baseline);
        let more = ["a volume of the type `nfs`", "the capability `KILL`", "`runAsUser: 0`"];
        let restricted = found("restricted", &spec);
        for value in baseline.iter().chain(&more) {
            assert!(restricted.iter().any(|found| found == value), "{value}: {restricted:?}");
        }
        assert_eq!(restricted.len(), baseline.len() + more.len());
        let context = json!({"capabilities": {"add": ["NET_BIND_SERVICE"]}});
        assert!(found("restricted", &json!({"containers": [{"securityContext": context}]})).is_empty());
    }
}
