//! Settings of libraries for processes that do not inherit the environment of their container.
//!
//! The lines of a settings file are in an annotation of the pod. A downward API volume projects it, so the file needs
//! no object in the namespace. Containers with the same lines share one annotation. The variables themselves are merged
//! by the rules, before this.

mod file;

use serde_json::{Value, json};

use fabric_policy::OnConflict;
use fabric_policy::definition::SettingsFile;
use fabric_policy::schema::{self, Shape};

use super::container;
use super::pod_state::PodFacts;
use super::rule::Merge;
use crate::analysis::PodAnalysis;
use crate::record::{ChangeLog, Cursor, Kept, Reason, WarningKind, shorten};
use file::{DOMAIN, File, Mounted};

/// The settings that the policy gives a container, after its rules were merged.
pub(super) struct SettingsOf<'a> {
    pub(super) analysis: &'a PodAnalysis,
    /// The container, by list and index.
    pub(super) container: (&'static str, usize),
}

impl SettingsOf<'_> {
    fn cursor<'c>(&self, pod: &'c mut Value, log: &'c mut ChangeLog) -> Result<Cursor<'c>, Reason> {
        Cursor::container(pod, log, self.container.0, self.container.1)
    }

    /// Writes the file of the settings, and mounts it into the container.
    pub(super) fn inject(
        &self,
        settings: &SettingsFile,
        pod: &mut Value,
        facts: &mut PodFacts,
        log: &mut ChangeLog,
    ) -> Result<(), Reason> {
        let file = &File(settings);
        let container = &pod["spec"][self.container.0][self.container.1];
        let (lines, left_out) = file.lines(container, &facts.variables);
        if lines.is_empty() && left_out.is_empty() {
            return Ok(());
        }
        let mut cursor = self.cursor(pod, log)?;
        if let Some(variable) = file.other_file(cursor.get("env")) {
            let kind = WarningKind::SettingsElsewhere { variable, file: file.0.path.clone() };
            cursor.warn_here(kind, &file.0.name);
            return Ok(());
        }
        for variable in left_out {
            let kind = WarningKind::NotInFile { variable, file: file.0.path.clone() };
            cursor.warn_here(kind, &file.0.name);
        }
        if lines.is_empty() {
            return Ok(());
        }
        match file.mounted(cursor.get("volumeMounts"), facts) {
            Mounted::Nothing => self.mount(file, lines, pod, facts, log),
            Mounted::Annotation(key) => update(file, &key, lines, pod, facts, log),
            Mounted::Other(volume) => {
                let (seen, wanted) = (format!("volume {volume}"), format!("settings {}", file.0.name));
                let kind = WarningKind::Kept { what: Kept::Mount, seen, wanted };
                cursor.warn("volumeMounts", kind, &file.0.name);
                Ok(())
            }
        }
    }

    /// Mounts a file with these lines.
    fn mount(
        &self,
        file: &File<'_>,
        lines: String,
        pod: &mut Value,
        facts: &mut PodFacts,
        log: &mut ChangeLog,
    ) -> Result<(), Reason> {
        let name = file.free_name(&pod["metadata"]["annotations"], &lines, &mut facts.files);
        let key = format!("{DOMAIN}/{name}");
        let volume = file.volume(&format!("{name}-settings"), &key);
        let volume = facts.volumes.declare_settings(&file.0.path, volume);
        let Some(Shape::List { items, .. }) =
            schema::container().field("volumeMounts").map(|field| &field.shape)
        else {
            return Ok(());
        };
        let mount = json!({
            "name": volume, "mountPath": file.0.path, "subPath": file.name(), "readOnly": true,
        });
        let mut cursor = self.cursor(pod, log)?;
        let mut merge =
            Merge { rule: &file.0.name, on_conflict: OnConflict::Keep, analysis: self.analysis, pod: facts };
        container::mounts(&mut merge, &mut cursor, items, [mount])?;
        match file.mounted(cursor.get("volumeMounts"), facts) {
            Mounted::Annotation(_) => annotate(file, &key, lines, pod, facts, log),
            // The container has a block device there. This is reported.
            Mounted::Nothing | Mounted::Other(_) => Ok(()),
        }
    }
}

/// Updates the lines of a file that the container mounts.
fn update(
    file: &File<'_>,
    key: &str,
    lines: String,
    pod: &mut Value,
    facts: &mut PodFacts,
    log: &mut ChangeLog,
) -> Result<(), Reason> {
    let seen = pod["metadata"]["annotations"][key].as_str();
    if seen == Some(lines.as_str()) {
        facts.files.used.insert(key.to_owned());
        return Ok(());
    }
    // Another container has the file with other lines.
    if facts.files.used.contains(key) {
        let (seen, wanted) = (shorten(seen.unwrap_or_default()), shorten(&lines));
        let kind = WarningKind::Kept { what: Kept::Annotation, seen, wanted };
        let mut pod = Cursor::pod(pod, log)?;
        return pod.within("metadata", |metadata| {
            metadata.within("annotations", |annotations| {
                annotations.warn(key, kind, &file.0.name);
                Ok(())
            })
        });
    }
    annotate(file, key, lines, pod, facts, log)
}

fn annotate(
    file: &File<'_>,
    key: &str,
    lines: String,
    pod: &mut Value,
    facts: &mut PodFacts,
    log: &mut ChangeLog,
) -> Result<(), Reason> {
    facts.files.used.insert(key.to_owned());
    Cursor::pod(pod, log)?.within("metadata", |metadata| {
        metadata.within("annotations", |annotations| {
            let seen = annotations.get(key).and_then(Value::as_str).map(str::to_owned);
            if seen.as_ref() != Some(&lines) {
                if let Some(seen) = seen
                    && !annotations.was_added(key)
                {
                    let kind = WarningKind::Replaced { seen: shorten(&seen), wanted: shorten(&lines) };
                    annotations.warn(key, kind, &file.0.name);
                }
                facts.count_annotation(key, key.len() + lines.len())?;
                annotations.put(key, Value::from(lines));
            }
            Ok(())
        })
    })
}
