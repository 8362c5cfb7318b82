//! Settings of libraries for processes that do not inherit the environment of their container.
//!
//! The lines of a settings file are in an annotation of the pod. A downward API volume projects it, so that the file
//! needs no object in the namespace. Containers with the same lines share one annotation.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::core::pointer::at_pointer;
use crate::core::policy::OnConflict;
use crate::core::policy::expression::Bindings;
use crate::core::policy::overlay::{Element, Template};
use crate::core::policy::settings::Settings;
use crate::core::schema;

use super::context::{FileNames, Merge, PodFacts, SettingsFiles};
use super::env::name_of;
use super::mounts;
use super::volumes::clean_path;
use crate::core::engine::analysis::PodAnalysis;
use crate::core::engine::record::{ChangeLog, Cursor, Kept, Reason, WarningKind, shorten};

/// The domain of the annotations that hold settings files.
const DOMAIN: &str = "settings.fabric-injector.io";

/// The settings that the policy gives a container, after its rules were merged.
pub(super) struct SettingsOf<'a> {
    pub(super) bindings: &'a Bindings<'a, 'a>,
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
        settings: &Settings,
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
        let volume = facts.volumes.declare_settings(&file.0.name, volume);
        let Some(field) = schema::container().field("volumeMounts") else { return Ok(()) };
        let mount = json!({
            "name": volume, "mountPath": file.0.path, "subPath": file.name(), "readOnly": true,
        });
        let mount = Element(Template::Constant(mount));
        let mut cursor = self.cursor(pod, log)?;
        let mut merge = Merge {
            rule: &file.0.name,
            on_conflict: OnConflict::Keep,
            bindings: self.bindings,
            analysis: self.analysis,
            pod: facts,
        };
        mounts::merge(&mut merge, &mut cursor, field, &[mount])?;
        match file.mounted(cursor.get("volumeMounts"), facts) {
            Mounted::Annotation(_) => annotate(file, &key, lines, pod, facts, log),
            // The container has a block device there, which is reported.
            Mounted::Nothing | Mounted::Other(_) => Ok(()),
        }
    }
}

/// Brings the lines of a file up to date that the container mounts.
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

/// A settings file of the policy.
struct File<'a>(&'a Settings);

/// The mount of a container at the path of a settings file.
enum Mounted {
    Nothing,
    /// The annotation with this key.
    Annotation(String),
    /// Another volume.
    Other(String),
}

impl File<'_> {
    fn name(&self) -> &str {
        self.0.path.rsplit('/').next().unwrap_or_default()
    }

    /// The lines for the variables of the policy, with the values that the container has, and the variables whose
    /// values a file cannot hold.
    fn lines(&self, container: &Value, variables: &[String]) -> (String, Vec<String>) {
        let (mut lines, mut left_out) = (String::new(), Vec::new());
        // Of several entries, the last one counts.
        let entries: BTreeMap<&str, &Value> = container["env"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| Some((name_of(entry)?, entry)))
            .collect();
        for name in variables.iter().filter(|name| self.0.include(name)) {
            let Some(entry) = entries.get(name.as_str()) else { continue };
            let value = entry["value"].as_str().unwrap_or_default();
            let fits =
                |value: &String| value.len() <= self.0.max_value && !value.contains(['\n', '\r', '\0']);
            match expanded(value).filter(|_| entry["valueFrom"].is_null()).filter(fits) {
                Some(value) => lines.extend([name, "=", &value, "\n"]),
                None => left_out.push(name.clone()),
            }
        }
        (lines, left_out)
    }

    /// The variable of the container that names another file.
    fn other_file(&self, env: Option<&Value>) -> Option<String> {
        let entries = env.and_then(Value::as_array).into_iter().flatten();
        let names = entries.filter_map(name_of);
        names.into_iter().find(|name| self.0.except.iter().any(|other| other == name)).map(str::to_owned)
    }

    fn mounted(&self, mounts: Option<&Value>, facts: &PodFacts) -> Mounted {
        let mounts = mounts.and_then(Value::as_array).into_iter().flatten();
        let at_path =
            |mount: &&Value| mount["mountPath"].as_str().is_some_and(|path| clean_path(path) == self.0.path);
        let Some(mount) = mounts.into_iter().find(at_path) else { return Mounted::Nothing };
        let volume = mount["name"].as_str().unwrap_or_default();
        match facts.volume(volume).and_then(annotation_of) {
            Some(key) => Mounted::Annotation(key.to_owned()),
            None => Mounted::Other(volume.to_owned()),
        }
    }

    /// The name of an annotation that has these lines, or that the pod does not have.
    fn free_name(&self, annotations: &Value, lines: &str, files: &mut SettingsFiles) -> String {
        let FileNames { count, by_lines } = files.names.entry(self.0.name.clone()).or_default();
        let existing = |name: &str| annotations.get(format!("{DOMAIN}/{name}"));
        let is_right = |name: &&String| existing(name).is_none_or(|known| known == lines);
        if let Some(name) = by_lines.get(lines).filter(is_right) {
            return name.clone();
        }
        loop {
            *count += 1;
            let name = &self.0.name;
            let name = if *count == 1 { name.clone() } else { format!("{name}-{count}") };
            let known = existing(&name).map(|known| known.as_str().unwrap_or_default());
            let is_free = known.is_none_or(|known| known == lines);
            by_lines.insert(known.unwrap_or(lines).to_owned(), name.clone());
            if is_free {
                return name;
            }
        }
    }

    fn volume(&self, name: &str, key: &str) -> Value {
        let field = format!("metadata.annotations['{key}']");
        let item = json!({"path": self.name(), "fieldRef": {"fieldPath": field}});
        json!({"name": name, "downwardAPI": {"items": [item]}})
    }
}

/// The value of a variable as the container sees it; `None` if it refers to another variable. The kubelet expands the
/// environment, and no file.
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
    key.strip_prefix(DOMAIN)?.starts_with('/').then_some(key)
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
