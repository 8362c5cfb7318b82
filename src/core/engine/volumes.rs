//! The volumes of a policy: added only if something mounts them, under a name that the pod does not use.

use std::borrow::Cow;

use serde_json::Value;

use crate::core::schema::{self, Shape, covers};

use super::cursor::Cursor;
use super::log::ChangeLog;
use super::report::{Reason, WarningKind};
use super::trace::Author;

/// Names of volumes are DNS labels.
const MAX_NAME: usize = 63;

/// A volume of an applied rule.
#[derive(Debug)]
pub(super) struct PolicyVolume {
    /// The name in the policy.
    pub(super) name: String,
    /// The rule or settings that declare it.
    pub(super) author: Author,
    /// The entry, under its final name once that is known.
    value: Value,
    /// True if the pod came with this volume.
    in_pod: bool,
    resolved: Option<String>,
    used: bool,
}

/// All volumes of the applied rules.
#[derive(Debug, Default)]
pub(super) struct PolicyVolumes(Vec<PolicyVolume>);

impl PolicyVolumes {
    /// Adds a volume. Of several with one name, the first one counts.
    pub(super) fn declare(&mut self, author: Author, value: Value) {
        let Some(name) = value["name"].as_str().map(str::to_owned) else { return };
        if !self.0.iter().any(|known| known.name == name) {
            self.0.push(PolicyVolume { name, author, value, in_pod: false, resolved: None, used: false });
        }
    }

    /// The policy's volume of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|volume| volume.name == name).map(|volume| &volume.value)
    }

    /// The policy's volume that has this name in the pod.
    pub(super) fn in_pod(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|volume| volume.resolved.as_deref() == Some(name)).map(|volume| &volume.value)
    }

    /// The name that the policy's volume `name` has in the pod.
    pub(super) fn resolve(&mut self, name: &str, pod: &[Value]) -> Option<String> {
        let at = self.0.iter().position(|volume| volume.name == name)?;
        if let Some(resolved) = &self.0[at].resolved {
            return Some(resolved.clone());
        }
        let taken: Vec<String> = self.0.iter().filter_map(|volume| volume.resolved.clone()).collect();
        let volume = &mut self.0[at];
        for candidate in candidates(name) {
            let existing = pod.iter().find(|existing| existing["name"].as_str() == Some(&candidate));
            let free = match existing {
                Some(existing) => is_volume(existing, &volume.value),
                None => !taken.contains(&candidate),
            };
            if free {
                volume.in_pod = existing.is_some();
                volume.value["name"] = Value::from(candidate.clone());
                volume.resolved = Some(candidate.clone());
                return Some(candidate);
            }
        }
        None
    }

    /// Records that a mount of the volume was added.
    pub(super) fn mark_used(&mut self, name: &str) {
        if let Some(volume) = self.0.iter_mut().find(|volume| volume.name == name) {
            volume.used = true;
        }
    }

    /// The volumes that are mounted and that the pod did not come with.
    pub(super) fn missing(self) -> impl Iterator<Item = (PolicyVolume, Value)> {
        self.0.into_iter().filter(|volume| volume.used && !volume.in_pod).map(|mut volume| {
            let value = volume.value.take();
            (volume, value)
        })
    }
}

/// Adds the volumes that are mounted by now.
pub(super) fn add_missing(
    pod: &mut Value,
    volumes: PolicyVolumes,
    log: &mut ChangeLog,
) -> Result<(), Reason> {
    let missing: Vec<_> = volumes.missing().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Cursor::pod(pod, log)?.within("spec", |spec| {
        spec.list("volumes", |volumes| {
            for (volume, value) in missing {
                let to = value["name"].as_str().unwrap_or_default().to_owned();
                volumes.written_by(&volume.author);
                volumes.push(value);
                if to != volume.name {
                    volumes.warn_here(
                        WarningKind::RenamedVolume { from: volume.name, to },
                        volume.author.name(),
                    );
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

/// Returns whether a volume of the pod is the policy's: it has everything that the policy's has, except for the name.
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
        volumes.declare(
            Author::Rule("rule".to_owned()),
            json!({"name": "shm", "emptyDir": {"medium": "Memory"}}),
        );
        volumes
    }

    #[test]
    fn a_name_that_the_pod_uses_for_something_else_is_left_to_the_pod() {
        let pod = [json!({"name": "shm", "persistentVolumeClaim": {"claimName": "c"}})];
        assert_eq!(volumes().resolve("shm", &pod).unwrap(), "shm-fabric");
        let both = [pod[0].clone(), json!({"name": "shm-fabric", "emptyDir": {}})];
        assert_eq!(volumes().resolve("shm", &both).unwrap(), "shm-fabric-2");
    }

    #[test]
    fn the_pods_own_volume_serves_if_it_is_the_same() {
        let mut with_defaults = volumes();
        let pod = [json!({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})];
        assert_eq!(with_defaults.resolve("shm", &pod).unwrap(), "shm");
        with_defaults.mark_used("shm");
        assert_eq!(with_defaults.missing().count(), 0);
    }

    #[test]
    fn a_volume_that_nothing_mounts_is_not_added() {
        let mut unused = volumes();
        unused.resolve("shm", &[]);
        assert_eq!(unused.missing().count(), 0);
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
