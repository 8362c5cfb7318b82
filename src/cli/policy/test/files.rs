//! The files of cases, and the policies and workloads that they name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::builtin;
use crate::policy_sources::{policy_files, policy_texts};
use crate::stream::RawDocuments;
use fabric_allocator::held;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::work::Work;
use fabric_policy::{Definition, OtherKind, PolicyFile, definitions};
use fabric_tools::policy_test::{Case, CaseFile, KIND, Reference, Subject};
use fabric_workloads::manifest::Document;
use fabric_yaml::escape;

/// The name of the folder with the cases of the policies next to it.
const FOLDER: &str = "tests";

/// The cases that the command runs.
#[derive(Debug, Default)]
pub(super) struct Tests {
    pub(super) files: Vec<LoadedFile>,
    /// The policies of the folders that were named.
    pub(super) policies: Vec<String>,
    /// Files among the cases that none of them uses.
    pub(super) unused: Vec<String>,
}

/// A file of cases with the workloads that they name.
#[derive(Debug)]
pub(super) struct LoadedFile {
    pub(super) cases: CaseFile,
    /// The folder where it was found; `None` if it was named itself.
    pub(super) folder: Option<PathBuf>,
    /// The documents of each file, by its path.
    workloads: BTreeMap<String, Vec<Value>>,
}

/// Reads the files of cases at these paths.
pub(super) fn load(paths: &[String]) -> anyhow::Result<Tests> {
    let mut tests = Tests::default();
    let mut others = Vec::new();
    for path in paths {
        let given = Path::new(path);
        let mut found = Vec::new();
        if given.is_dir() {
            let tests_of = given.join(FOLDER);
            let folder = if tests_of.is_dir() { tests_of } else { given.to_owned() };
            if folder != given {
                tests.policies.extend(policies(given)?);
            }
            collect(&folder, &mut found).with_context(|| format!("{} cannot be read", folder.display()))?;
        } else {
            found.push(given.to_owned());
        }
        for file in found {
            let name = shown(&file);
            let text = fs::read_to_string(&file).with_context(|| format!("{name} cannot be read"))?;
            if is_case_file(&text) || !given.is_dir() {
                let folder = given.is_dir().then(|| given.to_owned());
                tests.files.push(LoadedFile::read(&name, &text, folder)?);
            } else {
                others.push(name);
            }
        }
    }
    ensure!(
        !tests.files.is_empty(),
        "{} has no cases; a file of cases is in the folder `{FOLDER}` and has `kind: {KIND}`",
        paths.join(", ")
    );
    let is_used = |name: &String| tests.files.iter().any(|file| file.workloads.contains_key(name));
    tests.unused = others.into_iter().filter(|name| !is_used(name)).collect();
    Ok(tests)
}

/// The files of policies in a folder. Manifests next to them have no rules to cover.
fn policies(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut policies = Vec::new();
    for file in policy_files(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let text = fs::read_to_string(&file).with_context(|| format!("{file} cannot be read"))?;
        if OtherKind::detect(&text).is_none_or(|foreign| foreign.is_cases()) {
            policies.push(shown(Path::new(&file)));
        }
    }
    Ok(policies)
}

/// The YAML and JSON files of a folder and of the folders in it, in alphabetical order.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        let ends_with = |known: &str| path.extension().is_some_and(|ending| ending == known);
        if path.is_dir() {
            collect(&path, found)?;
        } else if ["yaml", "yml", "json"].into_iter().any(ends_with) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_case_file(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("kind:") && line.contains(KIND))
}

/// A path without `.` and `..` where they can be resolved by name.
fn shown(path: &Path) -> String {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match (part, parts.last()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.iter().collect::<PathBuf>().display().to_string()
}

impl LoadedFile {
    pub(super) fn read(name: &str, text: &str, folder: Option<PathBuf>) -> anyhow::Result<Self> {
        let cases = CaseFile::read(name, text)?;
        let mut workloads = BTreeMap::new();
        for case in &cases.cases {
            if let Subject::File(reference) = &case.subject
                && let Entry::Vacant(entry) = workloads.entry(path_from(name, &reference.text))
            {
                let read = documents(entry.key()).map_err(|error| failed(&cases, reference, &error))?;
                entry.insert(read);
            }
        }
        Ok(Self { cases, folder, workloads })
    }

    /// The documents of the workload file of a case; none if it has no such file.
    pub(super) fn documents(&self, case: &Case) -> anyhow::Result<&[Value]> {
        let Subject::File(reference) = &case.subject else { return Ok(&[]) };
        let path = path_from(&self.cases.file, &reference.text);
        let documents = self.workloads.get(&path).with_context(|| format!("{path} was not read"))?;
        Ok(documents)
    }
}

/// The path of a file that another file names.
fn path_from(file: &str, path: &str) -> String {
    shown(&Path::new(file).parent().unwrap_or(Path::new("")).join(path))
}

fn failed(file: &CaseFile, reference: &Reference, error: &anyhow::Error) -> anyhow::Error {
    file.error(reference.span, format!("{error:#}"), "write the path from the folder of this file").into()
}

fn documents(path: &str) -> anyhow::Result<Vec<Value>> {
    let bytes = fs::read(path).with_context(|| format!("{path} cannot be read"))?;
    let mut values = Vec::new();
    for raw in RawDocuments::new(bytes.as_slice()) {
        let document = Document::read(&raw.with_context(|| format!("{path} cannot be read"))?);
        values.extend(document.with_context(|| format!("{path} cannot be read"))?.value);
    }
    Ok(values)
}

/// The policies of cases, each set compiled once.
#[derive(Default)]
pub(super) struct PolicySets {
    built_in: Vec<Definition>,
    known: BTreeMap<String, Arc<PolicySet>>,
}

impl PolicySets {
    /// The policies of a case with its values and parameters.
    pub(super) fn get_or_load(&mut self, file: &LoadedFile, case: &Case) -> anyhow::Result<Arc<PolicySet>> {
        let mut files = Vec::new();
        for reference in &case.policies {
            let name = reference.text.as_str();
            let path = if builtin::find(name).is_some() {
                name.to_owned()
            } else {
                path_from(&file.cases.file, name)
            };
            if builtin::find(name).is_none() && !Path::new(&path).exists() {
                let message = format!("there is no built-in policy `{name}`, nor a file {path}");
                return Err(file.cases.error(reference.span, message, HINT).into());
            }
            files.push(path);
        }
        let key = format!("{files:?} {} {}", case.has_nodes(), case.given());
        if let Some(known) = self.known.get(&key) {
            file.cases.check_codes(case, known)?;
            return Ok(Arc::clone(known));
        }
        let with_settings = file.cases.settings(case, definitions_of(&files)?, self.built_in(case)?)?;
        let work = Work::of_loading().measured_by(held);
        let set = PolicySet::load(with_settings, case.has_nodes(), |_| false, &work).with_context(|| {
            escape::line(&format!("{}:{}: {}", file.cases.file, case.span.line, case.name)).into_owned()
        })?;
        file.cases.check_codes(case, &set)?;
        let set = Arc::new(set);
        self.known.insert(key, Arc::clone(&set));
        Ok(set)
    }

    /// All built-in policies, for a case with values: it can have those of other providers.
    fn built_in(&mut self, case: &Case) -> anyhow::Result<&[Definition]> {
        if self.built_in.is_empty() && case.has_values() {
            self.built_in = builtin::definitions()?;
        }
        Ok(&self.built_in)
    }
}

const HINT: &str =
    "write the name of a built-in policy, or the path of a policy file from the folder of this file";

/// The policies of these names and files.
pub(super) fn definitions_of(names: &[String]) -> anyhow::Result<Vec<Definition>> {
    let mut files = Vec::new();
    for name in names {
        for (file, text) in policy_texts(name)? {
            if is_case_file(&text) {
                bail!("{file} is a file of cases, and no policy");
            }
            files.push(PolicyFile::read(&file, &text)?);
        }
    }
    Ok(definitions(&files, builtin::files())?)
}
