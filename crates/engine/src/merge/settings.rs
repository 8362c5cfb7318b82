//! Settings of libraries for processes that do not inherit the environment of their container.
//!
//! The lines of a settings file are in an annotation of the pod. A downward API volume projects it, so the file needs
//! no object in the namespace. Containers with the same lines share one annotation. The variables themselves are merged
//! by the rules, before this.

mod file;

use serde_json::{Value, json};

use fabric_policy::OnConflict;
use fabric_policy::definition::SettingsFile;

use super::container;
use super::pod_state::PodFacts;
use super::rule::Merge;
use crate::analysis::PodAnalysis;
use crate::record::{ChangeLog, Cursor, Kept, Reason, WarningKind, change_annotations, shorten};
use file::{DOMAIN, Mounted};

/// The settings that the policy gives a container, after its rules were merged.
pub(super) struct SettingsOf<'a> {
    pub(super) file: &'a SettingsFile,
    /// The container, by list and index.
    pub(super) container: (&'static str, usize),
    pub(super) analysis: &'a PodAnalysis,
    pub(super) facts: &'a mut PodFacts,
    pub(super) log: &'a mut ChangeLog,
}

impl SettingsOf<'_> {
    /// Writes the file of the settings, and mounts it into the container.
    pub(super) fn inject(mut self, pod: &mut Value) -> Result<(), Reason> {
        let Self { file, container: (list, index), .. } = self;
        let (lines, left_out) = file::lines(file, &pod["spec"][list][index], &self.facts.variables);
        if lines.is_empty() && left_out.is_empty() {
            return Ok(());
        }
        let mut cursor = Cursor::container(pod, self.log, list, index)?;
        if let Some(variable) = file::other_file(file, cursor.get("env")) {
            let kind = WarningKind::SettingsElsewhere { variable, file: file.path.clone() };
            cursor.log.warn(kind, &file.name);
            return Ok(());
        }
        for variable in left_out {
            let kind = WarningKind::NotInFile { variable, file: file.path.clone() };
            cursor.log.warn(kind, &file.name);
        }
        if lines.is_empty() {
            return Ok(());
        }
        match file::mounted(file, cursor.get("volumeMounts"), self.facts) {
            Mounted::Nothing => self.mount(lines, pod),
            Mounted::Annotation(key) => self.annotate(&key, lines, pod),
            Mounted::Other(volume) => {
                let (seen, wanted) = (format!("volume {volume}"), format!("settings {}", file.name));
                let kind = WarningKind::Kept { what: Kept::Mount, seen, wanted };
                cursor.warn("volumeMounts", kind, &file.name);
                Ok(())
            }
        }
    }

    /// Mounts a file with these lines.
    fn mount(mut self, lines: String, pod: &mut Value) -> Result<(), Reason> {
        let Self { file, container: (list, index), analysis, .. } = self;
        let name = file::free_name(file, &pod["metadata"]["annotations"], &lines, &mut self.facts.files);
        let key = format!("{DOMAIN}/{name}");
        let path = file.path.rsplit('/').next();
        let field = format!("metadata.annotations['{key}']");
        let item = json!({"path": path, "fieldRef": {"fieldPath": field}});
        let volume = json!({"name": format!("{name}-settings"), "downwardAPI": {"items": [item]}});
        let volume = self.facts.volumes.declare_settings(&file.path, volume);
        let mount = json!({"name": volume, "mountPath": file.path, "subPath": path, "readOnly": true});
        let mut cursor = Cursor::container(pod, self.log, list, index)?;
        let on_conflict = OnConflict::Keep;
        let mut merge = Merge { rule: &file.name, on_conflict, analysis, pod: self.facts };
        container::mounts(&mut merge, &mut cursor, [mount])?;
        match file::mounted(file, cursor.get("volumeMounts"), self.facts) {
            Mounted::Annotation(_) => self.annotate(&key, lines, pod),
            // The container has a block device there. This is reported.
            Mounted::Nothing | Mounted::Other(_) => Ok(()),
        }
    }

    /// Writes the lines of a file that the container mounts.
    fn annotate(&mut self, key: &str, lines: String, pod: &mut Value) -> Result<(), Reason> {
        let is_free = self.facts.files.used.insert(key.to_owned());
        change_annotations(pod, self.log, |annotations| {
            let seen = annotations.get(key).and_then(Value::as_str);
            if seen == Some(lines.as_str()) {
                return Ok(());
            }
            if let Some(seen) = seen.map(shorten) {
                let wanted = shorten(&lines);
                if !is_free {
                    // Another container has the file with other lines.
                    let kind = WarningKind::Kept { what: Kept::Annotation, seen, wanted };
                    annotations.warn(key, kind, &self.file.name);
                    return Ok(());
                }
                if !annotations.log.at(key, |log| log.was_added()) {
                    annotations.warn(key, WarningKind::Replaced { seen, wanted }, &self.file.name);
                }
            }
            self.facts.count_annotation(key, key.len() + lines.len())?;
            annotations.put(key, Value::from(lines));
            Ok(())
        })
    }
}
