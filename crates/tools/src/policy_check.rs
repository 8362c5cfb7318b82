//! Checking policy files: every error and warning in them.

mod ignored;

use std::collections::{BTreeMap, BTreeSet};

use fabric_engine::policy_set::{tried, validated};
use fabric_engine::validate::findings;
use fabric_policy::check::{overlaps, warnings};
use fabric_policy::definition::{At, keys};
use fabric_policy::source::{
    DUPLICATE_NAME, EXTENSION, NEVER_INJECTS, UNKNOWN_ENUM_VALUE, UNUSED_PARAMETER, UNUSED_VARIABLE,
};
use fabric_policy::work::Work;
use fabric_policy::{
    Definition, Diagnostic, Override, PolicyFile, Severity, SourceError, SourceErrors, composed, definitions,
    kind_and_group, untaken,
};
use fabric_workloads::advice::{controller_of, known};
use fabric_yaml::Span;
use serde_json::Value;

/// Every error and warning in policy files, each a name and a text, that are checked together. `others` can be
/// extended.
///
/// The parameters have their defaults. An empty result means that the policies load.
pub fn check(files: &[(String, String)], others: &[PolicyFile]) -> Vec<SourceError> {
    let (read, mut found) = read(files);
    let all_read = found.is_empty();
    let (definitions, errors) = composed(&read, others);
    // A base may seem to be missing because its file could not be read.
    found.extend(errors.into_iter().filter(|error| all_read || error.diagnostic.code != EXTENSION));
    for (at, file) in read.iter().enumerate() {
        found.extend(file.same_name(&read[..at]));
        found.extend(file.yaml_mistakes(others));
    }
    found.extend(parameter_types(&definitions));
    if !has_errors(&found) {
        found.extend(untaken(&read, &definitions));
        found.extend(overlaps(&definitions.iter().collect::<Vec<_>>()));
    }
    let loading = Work::of_loading();
    let sources: Vec<BTreeSet<String>> = definitions.iter().map(files_of).collect();
    let mut in_parts = Vec::new();
    for definition in definitions {
        let file = definition.file.clone();
        let mut warned = warnings(&definition);
        warned.extend(owner_kinds(&definition));
        match validated(definition, BTreeMap::new(), &loading) {
            Ok(policy) => {
                warned.extend(findings(&policy, &loading));
                found.extend(other_values(policy.definition()));
            }
            Err(errors) => found.extend(errors),
        }
        // Those in a policy that it extends are that policy's.
        let (own, others): (Vec<_>, Vec<_>) = warned.into_iter().partition(|warning| *warning.file == *file);
        found.extend(own);
        let is_of_part = |warning: &SourceError| {
            // What a part declares may be for a policy that is not here.
            ![UNUSED_PARAMETER, UNUSED_VARIABLE].contains(&warning.diagnostic.code)
                && read.iter().any(|file| file.is_part(&warning.file))
        };
        in_parts.extend(others.into_iter().filter(is_of_part));
    }
    found.extend(common(&in_parts, &sources));
    let mut found = ignored::without_ignored(files, SourceErrors::new(found).into_iter().collect());
    let position = |error: &SourceError| files.iter().position(|(file, _)| **file == *error.file);
    found.sort_by_key(|error| {
        let Span { line, column, .. } = error.diagnostic.span;
        (position(error), line, column)
    });
    found
}

/// The first error at each place with another value of a parameter that has a list of them, the others at their defaults.
fn other_values(definition: &Definition) -> Vec<SourceError> {
    let mut found: Vec<SourceError> = Vec::new();
    for parameter in &definition.parameters {
        let values = parameter.one_of.iter().flatten().map(|value| Value::from(value.as_str()));
        for value in values.filter(|value| parameter.default != *value) {
            let with = format!("with `{}: {}`, ", parameter.name, value.as_str().unwrap_or_default());
            let overrides = BTreeMap::from([(parameter.name.clone(), Override::Value(value))]);
            let tried = tried(definition.clone(), overrides, &Work::of_loading());
            for mut error in tried.err().into_iter().flatten() {
                let is_same = |known: &SourceError| {
                    (&known.file, known.diagnostic.span) == (&error.file, error.diagnostic.span)
                };
                if !found.iter().any(is_same) {
                    error.diagnostic.message.insert_str(0, &with);
                    found.push(error);
                }
            }
        }
    }
    found
}

/// The files of a policy.
fn files_of(definition: &Definition) -> BTreeSet<String> {
    definition.bases().iter().map(|base| &base.file).chain([&definition.file]).cloned().collect()
}

/// The warnings in parts of policies that every policy which takes the part has: a rule of a part may be for one of them.
fn common(in_parts: &[SourceError], sources: &[BTreeSet<String>]) -> Vec<SourceError> {
    let is_common = |warning: &&SourceError| {
        let takers = sources.iter().filter(|files| files.contains(&*warning.file)).count();
        in_parts.iter().filter(|other| other == warning).count() >= takers
    };
    in_parts.iter().filter(is_common).cloned().collect()
}

/// The policies of the files in use, or every error in them.
pub fn load(files: &[(String, String)], others: &[PolicyFile]) -> Result<Vec<Definition>, SourceErrors> {
    let (read, errors) = read(files);
    if errors.is_empty() { definitions(&read, others) } else { Err(SourceErrors::new(errors)) }
}

/// The files without errors, and the errors of the others.
fn read(files: &[(String, String)]) -> (Vec<PolicyFile>, Vec<SourceError>) {
    let (mut read, mut errors) = (Vec::new(), Vec::new());
    for (file, text) in files {
        match PolicyFile::read(file, text) {
            Ok(file) => read.push(file),
            Err(found) => errors.extend(found),
        }
    }
    (read, errors)
}

/// A warning for each kind of owners that is a known one in the plural, or with other capital letters.
fn owner_kinds(definition: &Definition) -> Vec<SourceError> {
    let singular = |kind: &str| kind.to_lowercase().trim_end_matches('s').to_owned();
    let place = |owner: &String| {
        definition.place(&[keys(["match", "ownerKinds"]), vec![At::Item("", owner.clone())]].concat())
    };
    let mut found = Vec::new();
    for owner in &definition.matcher.owner_kinds {
        let (kind, _) = kind_and_group(owner);
        let is_listed = |controller: &&str| {
            let kinds = definition.matcher.owner_kinds.iter().map(|owner| kind_and_group(owner).0);
            kinds.into_iter().any(|known| known == kind_and_group(controller).0)
        };
        if let Some(controller) = controller_of(kind).filter(|controller| !is_listed(controller)) {
            let message = format!("a `{kind}` owns no pods: those that it causes belong to a `{controller}`");
            let diagnostic = Diagnostic::warning(NEVER_INJECTS, place(owner), message);
            found.push(definition.error(diagnostic.hint(format!("write `{controller}`"))));
        }
        let Some(meant) = known().find(|known| singular(known) == singular(kind)) else { continue };
        let span = place(owner);
        if !known().any(|known| known == kind) {
            let message = format!("the owner kind `{kind}` is almost `{meant}`, which owners of pods have");
            let diagnostic = Diagnostic::warning(UNKNOWN_ENUM_VALUE, span, message);
            found.push(definition.error(diagnostic.hint(format!("did you mean `{meant}`?"))));
        }
    }
    found
}

/// An error for each parameter that has another type in another policy of its provider.
fn parameter_types(definitions: &[Definition]) -> Vec<SourceError> {
    let mut errors = Vec::new();
    for (at, second) in definitions.iter().enumerate() {
        for first in definitions[..at].iter().filter(|first| first.provider == second.provider) {
            for parameter in &second.parameters {
                let same = first.parameters.iter().find(|known| known.name == parameter.name);
                let Some(known) = same.filter(|known| known.kind != parameter.kind) else { continue };
                let message = format!(
                    "the parameter `{}` is `{}`, and `{}` in the policy `{}` ({})",
                    known.name,
                    parameter.kind.name(),
                    known.kind.name(),
                    first.name,
                    first.file
                );
                let diagnostic = Diagnostic::new(second.place_of_name(&known.name), message)
                    .code(DUPLICATE_NAME)
                    .hint("give it one type in all policies of the provider, or another name");
                errors.push(second.error(diagnostic));
            }
        }
    }
    errors
}

/// Returns whether an error is among them, not only warnings.
pub fn has_errors(found: &[SourceError]) -> bool {
    found.iter().any(|error| error.diagnostic.severity == Severity::Error)
}
