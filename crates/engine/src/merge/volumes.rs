//! The volumes of a policy: added only if something mounts them, under a name that the pod does not use.

use std::borrow::Cow;
use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::Value;

use crate::record::{Author, ChangeLog, Cursor, OrReason, WarningKind};
use fabric_policy::schema::{self, Shape, covers};
use fabric_yaml::json::items;

/// Names of volumes are DNS labels.
const MAX_NAME: usize = 63;

/// A volume of an applied rule, or of settings.
#[derive(Debug)]
pub(super) struct PolicyVolume {
    /// The name in the policy.
    name: String,
    /// The rule or settings that declare it.
    author: Author,
    /// The entry, under its final name once that is known.
    value: Value,
    /// True if the pod came with this volume.
    in_pod: bool,
    resolved: Option<String>,
    used: bool,
}

/// The volumes that the pod came with, by name.
pub(super) type OwnVolumes = HashMap<String, Value>;

/// All volumes of the applied rules and of their settings.
#[derive(Debug, Default)]
pub(super) struct PolicyVolumes {
    /// By their names in the mounts of the policy.
    by_key: IndexMap<String, PolicyVolume>,
    /// Their positions by their names in the pod.
    by_name: HashMap<String, usize>,
}

impl PolicyVolumes {
    /// Adds a volume of a rule. Of several with one name, the first one counts.
    pub(super) fn declare(&mut self, rule: &str, value: Value) {
        if let Some(name) = value["name"].as_str().map(str::to_owned) {
            self.add(name, Author::Rule(rule.to_owned()), value);
        }
    }

    /// Adds a volume of settings, and returns its name for mounts. No volume of a rule or of other settings has that
    /// name.
    pub(super) fn declare_settings(&mut self, settings: &str, value: Value) -> String {
        let key = format!("{settings}:{}", value["name"].as_str().unwrap_or_default());
        self.add(key.clone(), Author::File(settings.to_owned()), value);
        key
    }

    fn add(&mut self, key: String, author: Author, value: Value) {
        self.by_key.entry(key).or_insert_with(|| {
            let name = value["name"].as_str().unwrap_or_default().to_owned();
            PolicyVolume { name, author, value, in_pod: false, resolved: None, used: false }
        });
    }

    /// The policy's volume to which mounts refer by this name.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.by_key.get(key).map(|volume| &volume.value)
    }

    /// The policy's volume that has this name in the pod.
    pub(super) fn in_pod(&self, name: &str) -> Option<&Value> {
        self.by_name.get(name).map(|at| &self.by_key[*at].value)
    }

    /// The name that a volume of the policy has in the pod.
    pub(super) fn resolve(&mut self, key: &str, pod: &OwnVolumes) -> Option<String> {
        let (at, _, volume) = self.by_key.get_full_mut(key)?;
        if let Some(resolved) = &volume.resolved {
            return Some(resolved.clone());
        }
        for candidate in candidates(&volume.name) {
            let existing = pod.get(&candidate);
            let free = match existing {
                Some(existing) => is_volume(existing, &volume.value),
                None => !self.by_name.contains_key(&candidate),
            };
            if free {
                volume.in_pod = existing.is_some();
                volume.value["name"] = Value::from(candidate.clone());
                volume.resolved = Some(candidate.clone());
                self.by_name.insert(candidate.clone(), at);
                return Some(candidate);
            }
        }
        None
    }

    /// Records that a mount of the volume was added.
    pub(super) fn mark_used(&mut self, key: &str) {
        if let Some(volume) = self.by_key.get_mut(key) {
            volume.used = true;
        }
    }

    /// Notes the outcome for those that are not added.
    fn note_others(&self, pod: &Value, log: &mut ChangeLog) {
        log.go_to_pod();
        for volume in self.by_key.values().filter(|volume| volume.in_pod || !volume.used) {
            log.written_by(|| volume.author.clone());
            let name = &volume.value["name"];
            let path = ["spec", "volumes", name.as_str().unwrap_or_default()];
            let at = items(&pod["spec"], "volumes").iter().position(|one| one["name"] == *name);
            if let (true, Some(at)) = (volume.in_pod, at) {
                log.present(&["spec", "volumes", &at.to_string()]);
            } else {
                log.left_out(&path, || "no container mounts it".to_owned());
            }
        }
    }

    /// The volumes that are mounted and that the pod did not come with.
    fn missing(self) -> impl Iterator<Item = PolicyVolume> {
        self.by_key.into_values().filter(|volume| volume.used && !volume.in_pod)
    }
}

/// Adds the volumes that are mounted so far.
pub(super) fn add_missing(pod: &mut Value, volumes: PolicyVolumes, log: &mut ChangeLog) -> OrReason {
    if log.trace.is_some() {
        volumes.note_others(pod, log);
    }
    let missing: Vec<_> = volumes.missing().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Cursor::pod(pod, log)?.within("spec", |spec| {
        spec.list("volumes", |volumes| {
            for PolicyVolume { name: from, author, value, .. } in missing {
                let to = value["name"].as_str().unwrap_or_default().to_owned();
                volumes.log.written_by(|| author.clone());
                volumes.push(value);
                if to != from {
                    volumes.log.warn(WarningKind::RenamedVolume { from, to }, author.name());
                }
            }
            Ok(())
        })
    })
}

/// The name in the policy, then others of at most 63 characters.
fn candidates(name: &str) -> impl Iterator<Item = String> + '_ {
    let suffixed = move |suffix: &str| {
        let base: String = name.chars().take(MAX_NAME - suffix.len()).collect();
        format!("{}{suffix}", base.trim_end_matches('-'))
    };
    (0..100).map(move |attempt| match attempt {
        0 => name.to_owned(),
        1 => suffixed("-fabric"),
        number => suffixed(&format!("-fabric-{number}")),
    })
}

/// Returns whether a volume of the pod is equivalent to the policy's: it has everything that the policy's has, except
/// for the name.
pub(super) fn is_volume(existing: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.clone();
    wanted["name"] = existing["name"].clone();
    covers(existing, &wanted, &Shape::Atomic(schema::volume()))
}

/// A path without double or trailing slashes, `.` and `..`.
pub(super) fn clean_path(path: &str) -> Cow<'_, str> {
    let is_clean =
        path.starts_with('/') && !path.ends_with('/') && !path.contains("//") && !path.contains("/.");
    if is_clean {
        return Cow::Borrowed(path);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Cow::Owned(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volumes() -> PolicyVolumes {
        let mut volumes = PolicyVolumes::default();
        volumes.declare("rule", json!({"name": "shm", "emptyDir": {"medium": "Memory"}}));
        volumes
    }

    fn pod(volumes: &[Value]) -> OwnVolumes {
        volumes.iter().map(|volume| (volume["name"].as_str().unwrap().to_owned(), volume.clone())).collect()
    }

    #[test]
    fn a_name_that_the_pod_uses_for_something_else_is_left_to_the_pod() {
        let claim = json!({"name": "shm", "persistentVolumeClaim": {"claimName": "c"}});
        assert_eq!(volumes().resolve("shm", &pod(std::slice::from_ref(&claim))).unwrap(), "shm-fabric");
        let both = pod(&[claim, json!({"name": "shm-fabric", "emptyDir": {}})]);
        assert_eq!(volumes().resolve("shm", &both).unwrap(), "shm-fabric-2");
    }

    #[test]
    fn the_pods_own_volume_serves_if_it_is_the_same() {
        let mut with_defaults = volumes();
        let own = json!({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}});
        assert_eq!(with_defaults.resolve("shm", &pod(&[own])).unwrap(), "shm");
        with_defaults.mark_used("shm");
        assert_eq!(with_defaults.missing().count(), 0);
    }

    #[test]
    fn a_volume_that_nothing_mounts_is_not_added() {
        let mut unused = volumes();
        unused.resolve("shm", &OwnVolumes::default());
        assert_eq!(unused.missing().count(), 0);
    }

    #[test]
    fn volumes_of_rules_and_settings_have_names_of_their_own() {
        let mut volumes = volumes();
        let own = OwnVolumes::default();
        let keys = ["a", "b"].map(|settings| volumes.declare_settings(settings, json!({"name": "shm"})));
        assert_eq!(volumes.resolve("shm", &own).unwrap(), "shm");
        assert_eq!(volumes.resolve(&keys[0], &own).unwrap(), "shm-fabric");
        assert_eq!(volumes.resolve(&keys[1], &own).unwrap(), "shm-fabric-2");
    }

    #[test]
    fn names_stay_within_the_limit() {
        let long = "x".repeat(63);
        assert!(candidates(&long).all(|name| name.len() <= 63));
    }

    #[test]
    fn paths_compare_as_the_kernel_sees_them() {
        for path in ["/dev/shm", "/dev/shm/", "//dev//shm", "/dev/./shm", "/dev/x/../shm"] {
            assert_eq!(clean_path(path), "/dev/shm");
        }
    }
}
