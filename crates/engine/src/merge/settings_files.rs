//! Settings of libraries for processes that do not inherit the environment of their container.
//!
//! The lines of a settings file are in an annotation of the pod. A downward API volume projects it, so the file needs
//! no object in the namespace. Containers with the same lines share one annotation. The variables themselves are merged
//! by the rules, before this.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use fabric_policy::OnConflict;
use fabric_policy::definition::SettingsFile;
use fabric_policy::schema::SETTINGS_DOMAIN;
use fabric_yaml::json::items;
use fabric_yaml::pointer::at_pointer;

use super::env::name_of;
use super::mounts;
use super::pod_state::{FileNames, PodState, SettingsFiles};
use super::rule::Merge;
use super::volumes::clean_path;
use crate::analysis::PodAnalysis;
use crate::record::{
    ChangeLog, Cursor, OrReason, Place, ValueKind, WarningKind, change_annotations, shorten,
};

/// The longest value in bytes. The libraries that read such files use a buffer of 1,024 bytes, including the
/// terminator, and truncate a longer value silently.
const MAX_VALUE: usize = 1023;

/// The mount of a container at the path of a settings file.
enum Mounted {
    Nothing,
    /// The annotation with this key.
    Annotation(String),
    /// Another volume.
    Other(String),
}

/// The settings that the policy gives a container, after its rules were merged.
pub(super) struct SettingsOf<'a> {
    pub(super) file: &'a SettingsFile,
    pub(super) container: Place,
    pub(super) analysis: &'a PodAnalysis,
    pub(super) facts: &'a mut PodState,
    pub(super) log: &'a mut ChangeLog,
}

impl SettingsOf<'_> {
    /// Writes the file of the settings, and mounts it into the container.
    pub(super) fn inject(mut self, pod: &mut Value) -> OrReason {
        let Self { file, container: container @ (list, index), .. } = self;
        let (lines, left_out) = lines(file, &pod["spec"][list][index], &self.facts.variables);
        if lines.is_empty() && left_out.is_empty() {
            return Ok(());
        }
        let mut cursor = Cursor::container(pod, self.log, container)?;
        if let Some(variable) = other_file(file, cursor.get("env")) {
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
        match mounted(file, cursor.get("volumeMounts"), self.facts) {
            Mounted::Nothing => self.mount(lines, pod),
            Mounted::Annotation(key) => self.annotate(&key, lines, pod),
            Mounted::Other(volume) => {
                let (seen, wanted) = (format!("volume {volume}"), format!("settings {}", file.name));
                let kind = WarningKind::Kept { what: ValueKind::Mount, seen, wanted };
                cursor.warn("volumeMounts", kind, &file.name);
                Ok(())
            }
        }
    }

    /// Mounts a file with these lines.
    fn mount(mut self, lines: String, pod: &mut Value) -> OrReason {
        let Self { file, container, analysis, .. } = self;
        let name = free_name(file, &pod["metadata"]["annotations"], &lines, &mut self.facts.files);
        let key = format!("{SETTINGS_DOMAIN}/{name}");
        let path = file.path.rsplit('/').next();
        let field = format!("metadata.annotations['{key}']");
        let item = json!({"path": path, "fieldRef": {"fieldPath": field}});
        let volume = json!({"name": format!("{name}-settings"), "downwardAPI": {"items": [item]}});
        let volume = self.facts.volumes.declare_settings(&file.path, volume);
        let mount = json!({"name": volume, "mountPath": file.path, "subPath": path, "readOnly": true});
        let mut cursor = Cursor::container(pod, self.log, container)?;
        let on_conflict = OnConflict::Keep;
        let mut merge = Merge { rule: &file.name, on_conflict, analysis, pod: self.facts };
        mounts::merge(&mut merge, &mut cursor, [mount])?;
        match mounted(file, cursor.get("volumeMounts"), self.facts) {
            Mounted::Annotation(_) => self.annotate(&key, lines, pod),
            // The container has a block device there. This is reported.
            Mounted::Nothing | Mounted::Other(_) => Ok(()),
        }
    }

    /// Writes the lines of a file that the container mounts.
    fn annotate(&mut self, key: &str, lines: String, pod: &mut Value) -> OrReason {
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
                    let kind = WarningKind::Kept { what: ValueKind::Annotation, seen, wanted };
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

/// The lines for the variables of the policy, with the values that the container has, and the variables whose values a
/// file cannot hold.
fn lines(file: &SettingsFile, container: &Value, variables: &[String]) -> (String, Vec<String>) {
    let (mut lines, mut left_out) = (String::new(), Vec::new());
    // Of several entries, the last one counts. A variable that several rules set has one line.
    let mut entries: BTreeMap<&str, &Value> =
        items(container, "env").iter().filter_map(|entry| Some((name_of(entry)?, entry))).collect();
    for name in variables.iter().filter(|name| file.include(name)) {
        let Some(entry) = entries.remove(name.as_str()) else { continue };
        let value = entry["value"].as_str().unwrap_or_default();
        let fits = |value: &String| value.len() <= MAX_VALUE && !value.contains(['\n', '\r', '\0']);
        match expanded(value).filter(|_| entry["valueFrom"].is_null()).filter(fits) {
            Some(value) => lines.extend([name, "=", &value, "\n"]),
            None => left_out.push(name.clone()),
        }
    }
    (lines, left_out)
}

/// The variable of the container that names another file.
fn other_file(file: &SettingsFile, env: Option<&Value>) -> Option<String> {
    let entries = env.and_then(Value::as_array).into_iter().flatten();
    let mut names = entries.filter_map(name_of);
    names.find(|name| file.env.as_deref() == Some(name)).map(str::to_owned)
}

fn mounted(file: &SettingsFile, mounts: Option<&Value>, facts: &PodState) -> Mounted {
    let mut mounts = mounts.and_then(Value::as_array).into_iter().flatten();
    let at_path =
        |mount: &&Value| mount["mountPath"].as_str().is_some_and(|path| clean_path(path) == file.path);
    let Some(mount) = mounts.find(at_path) else { return Mounted::Nothing };
    let volume = mount["name"].as_str().unwrap_or_default();
    match facts.volume(volume).and_then(annotation_of) {
        Some(key) => Mounted::Annotation(key.to_owned()),
        None => Mounted::Other(volume.to_owned()),
    }
}

/// The name of an annotation that has these lines, or that the pod does not have.
fn free_name(
    SettingsFile { name, .. }: &SettingsFile,
    annotations: &Value,
    lines: &str,
    files: &mut SettingsFiles,
) -> String {
    let FileNames { count, by_lines } = files.names.entry(name.clone()).or_default();
    let existing = |name: &str| annotations.get(format!("{SETTINGS_DOMAIN}/{name}"));
    let is_right = |name: &&String| existing(name).is_none_or(|known| known == lines);
    if let Some(name) = by_lines.get(lines).filter(is_right) {
        return name.clone();
    }
    loop {
        *count += 1;
        let name = if *count == 1 { name.clone() } else { format!("{name}-{count}") };
        let known = existing(&name).map(|known| known.as_str().unwrap_or_default());
        let is_free = known.is_none_or(|known| known == lines);
        by_lines.insert(known.unwrap_or(lines).to_owned(), name.clone());
        if is_free {
            return name;
        }
    }
}

/// The value of a variable as the container sees it; `None` if it refers to another variable. The kubelet expands the
/// environment, but not files.
fn expanded(value: &str) -> Option<String> {
    let last_close = value.rfind(')').unwrap_or_default();
    let (mut text, mut rest) = (String::with_capacity(value.len()), value);
    while let Some((before, after)) = rest.split_once('$') {
        if after.starts_with('(') && value.len() - after.len() < last_close {
            return None;
        }
        text.extend([before, "$"]);
        rest = after.strip_prefix('$').unwrap_or(after);
    }
    Some(text + rest)
}

/// The annotation with settings that a volume projects.
fn annotation_of(volume: &Value) -> Option<&str> {
    let field = at_pointer(volume, "/downwardAPI/items/0/fieldRef/fieldPath")?.as_str()?;
    let key = field.strip_prefix("metadata.annotations['")?.strip_suffix("']")?;
    key.strip_prefix(SETTINGS_DOMAIN)?.starts_with('/').then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_value_that_the_kubelet_gives_to_the_container() {
        for (value, seen) in [
            ("a", Some("a")),
            ("a$$b", Some("a$b")),
            ("a$b$", Some("a$b$")),
            ("$$(A)", Some("$(A)")),
            ("$$$$", Some("$$")),
            ("$(A", Some("$(A")),
            (")$(A", Some(")$(A")),
            ("$(A)", None),
            ("$$$(A)", None),
            ("$(A$$B)", None),
        ] {
            assert_eq!(expanded(value).as_deref(), seen, "{value}");
        }
    }
}
