//! The fields of a pod that the Pod Security Standards forbid, as far as a policy can add them.

use std::collections::BTreeSet;

use serde_json::Value;

/// The capabilities that `baseline` allows.
const BASELINE: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The sysctls that `baseline` allows, in its latest version.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
/// The types of SELinux that `baseline` allows.
const SE_LINUX: [&str; 4] = ["container_engine_t", "container_init_t", "container_kvm_t", "container_t"];
/// The sources of volumes that `restricted` allows.
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The values of a pod that a level forbids. A value that `restricted` demands, and the pod lacks, is none of them.
pub(super) fn forbidden(level: &str, pod: &Value) -> BTreeSet<String> {
    let restricted = level == "restricted";
    let spec = &pod["spec"];
    let list = |key: &str| spec[key].as_array().into_iter().flatten();
    let mut found = BTreeSet::new();
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[key] == true {
            found.insert(format!("`{key}`"));
        }
    }
    for volume in list("volumes") {
        let sources = volume.as_object().into_iter().flat_map(|volume| volume.keys());
        for source in sources.filter(|key| *key != "name") {
            if source == "hostPath" {
                found.insert(format!("the host path {}", volume["hostPath"]["path"]));
            } else if restricted && !VOLUMES.contains(&source.as_str()) {
                found.insert(format!("a volume of the type `{source}`"));
            }
        }
    }
    let contexts =
        list("initContainers").chain(list("containers")).map(|container| &container["securityContext"]);
    for context in contexts.chain([&spec["securityContext"]]) {
        of_context(context, restricted, &mut found);
    }
    found
}

fn of_context(context: &Value, restricted: bool, found: &mut BTreeSet<String>) {
    if context["privileged"] == true {
        found.insert("`privileged`".to_owned());
    }
    let allowed = if restricted { &["NET_BIND_SERVICE"][..] } else { &BASELINE };
    let added = context["capabilities"]["add"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in added {
        if !allowed.contains(&name) {
            found.insert(format!("the capability `{name}`"));
        }
    }
    for profile in ["seccompProfile", "appArmorProfile"] {
        if context[profile]["type"] == "Unconfined" {
            found.insert(format!("`{profile}: Unconfined`"));
        }
    }
    let sysctls = context["sysctls"].as_array().into_iter().flatten();
    for name in sysctls.filter_map(|sysctl| sysctl["name"].as_str()).filter(|name| !SYSCTLS.contains(name)) {
        found.insert(format!("the sysctl `{name}`"));
    }
    let options = context["seLinuxOptions"].as_object().into_iter().flatten();
    for (key, value) in options.filter(|(key, _)| *key != "level") {
        if key != "type" || !value.as_str().is_some_and(|kind| SE_LINUX.contains(&kind)) {
            found.insert(format!("`seLinuxOptions.{key}: {value}`"));
        }
    }
    if restricted {
        for (key, value) in [
            ("allowPrivilegeEscalation", Value::from(true)),
            ("runAsNonRoot", false.into()),
            ("runAsUser", 0.into()),
        ] {
            if context[key] == value {
                found.insert(format!("`{key}: {value}`"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(level: &str, spec: Value) -> Vec<String> {
        forbidden(level, &json!({"spec": spec})).into_iter().collect()
    }

    #[test]
    fn each_level_forbids_its_values() {
        let spec = json!({
            "hostNetwork": true,
            "volumes": [{"name": "a", "hostPath": {"path": "/sys"}}, {"name": "b", "nfs": {}}, {"name": "c", "emptyDir": {}}],
            "containers": [{"securityContext": {"capabilities": {"add": ["IPC_LOCK", "KILL"]}, "runAsUser": 0}}],
            "initContainers": [{"securityContext": {"privileged": true, "seccompProfile": {"type": "Unconfined"}}}],
        });
        let context = json!({"sysctls": [{"name": "net.core.rmem_max"}, {"name": "net.ipv4.tcp_rmem"}],
            "seLinuxOptions": {"level": "s0", "type": "container_t", "user": "root"}});
        assert_eq!(
            found("baseline", json!({"securityContext": context})),
            ["`seLinuxOptions.user: \"root\"`", "the sysctl `net.core.rmem_max`"]
        );
        let baseline = [
            "`hostNetwork`",
            "`privileged`",
            "`seccompProfile: Unconfined`",
            "the capability `IPC_LOCK`",
            "the host path \"/sys\"",
        ];
        assert_eq!(found("baseline", spec.clone()), baseline);
        let more = ["a volume of the type `nfs`", "the capability `KILL`", "`runAsUser: 0`"];
        let restricted = found("restricted", spec);
        assert!(
            baseline.iter().chain(&more).all(|value| restricted.iter().any(|found| found == value)),
            "{restricted:?}"
        );
        assert_eq!(restricted.len(), baseline.len() + more.len());
        assert!(
            found(
                "restricted",
                json!({"containers": [{"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}]})
            )
            .is_empty()
        );
    }
}
