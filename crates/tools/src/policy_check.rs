//! Checking policy files: every error and warning in them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use fabric_engine::policy_set::{tried, validated};
use fabric_engine::validate::findings;
use fabric_policy::check::{overlaps, warnings, warnings_of_values};
use fabric_policy::definition::{At, keys};
use fabric_policy::source::{
    DUPLICATE_NAME, MISSING_KEY, MOST_SHOWN, NEVER_INJECTS, ODD_TEXT, TEMPLATE_BRACES, TEXT_NOT_EXPRESSION,
    UNKNOWN_BASE, UNKNOWN_ENUM_VALUE, UNUSED_PARAMETER, UNUSED_SUPPRESSION, UNUSED_VARIABLE, did_you_mean,
    suggest,
};
use fabric_policy::work::Work;
use fabric_policy::{
    Definition, Diagnostic, Extendable, Override, PolicyFile, Severity, SourceError, SourceErrors, WARNINGS,
    composed, definitions, kind_and_group, untaken,
};
use fabric_workloads::advice::{controller_of, known};
use fabric_yaml::Span;

/// Every error and warning in policy files, each a name and a text, that are checked together. `others` can be
/// extended.
///
/// The parameters have their defaults. An empty result means that the policies load. `loading` counts the work.
pub fn check(files: &[(String, String)], others: &[Extendable], loading: &Work) -> Vec<SourceError> {
    let (read, mut found) = read(files);
    let all_read = found.is_empty();
    let (definitions, errors) = composed(&read, others);
    // A base may seem to be missing because its file could not be read.
    found.extend(errors.into_iter().filter(|error| all_read || error.diagnostic.code != UNKNOWN_BASE));
    for (at, file) in read.iter().enumerate() {
        found.extend(file.same_name(&read[..at]));
        found.extend(file.yaml_mistakes(others));
    }
    found.extend(parameter_types(&definitions));
    if !has_errors(&found) {
        found.extend(untaken(&read, &definitions));
        found.extend(overlaps(&definitions.iter().collect::<Vec<_>>()));
    }
    let sources: Vec<BTreeSet<String>> = definitions.iter().map(files_of).collect();
    let mut in_parts = Vec::new();
    for definition in definitions {
        let file = definition.file.clone();
        let mut warned = warnings(&definition);
        warned.extend(owner_kinds(&definition));
        match validated(definition, BTreeMap::new(), loading) {
            Ok(policy) => {
                warned.extend(warnings_of_values(&policy));
                warned.extend(findings(&policy, loading));
                found.extend(other_values(policy.definition(), loading));
            }
            Err(errors) => found.extend(errors),
        }
        // Those in a policy that it extends are that policy's.
        let (own, others): (Vec<_>, Vec<_>) = warned.into_iter().partition(|warning| *warning.file == *file);
        found.extend(own);
        let is_of_part = |warning: &SourceError| {
            // What a part declares may be for a policy that is not here.
            !CONSEQUENCES.contains(&warning.diagnostic.code)
                && read.iter().any(|file| file.is_part(&warning.file))
        };
        in_parts.extend(others.into_iter().filter(is_of_part));
    }
    found.extend(common(&in_parts, &sources));
    let has_errors = has_errors(&found);
    // An expression that does not load seems to read nothing.
    found.retain(|error| !has_errors || !CONSEQUENCES.contains(&error.diagnostic.code));
    let mut found = without_ignored(files, SourceErrors::new(found).into_iter().collect());
    let position = |error: &SourceError| files.iter().position(|(file, _)| **file == *error.file);
    found.sort_by_key(|error| {
        let Diagnostic { span: Span { line, column, .. }, severity, code, .. } = *error.diagnostic;
        let is_effect = severity == Severity::Warning && !CAUSES.contains(&code);
        let order = (is_effect, CONSEQUENCES.contains(&code) || code == MISSING_KEY);
        (position(error), order, line, !CAUSES.contains(&code), column)
    });
    shown(found)
}

/// Warnings about text that may be why there are errors.
const CAUSES: [&str; 3] = [TEXT_NOT_EXPRESSION, TEMPLATE_BRACES, ODD_TEXT];

/// Warnings about what a mistake elsewhere may leave without a use.
const CONSEQUENCES: [&str; 2] = [UNUSED_PARAMETER, UNUSED_VARIABLE];

/// The first findings of each code. The last one of those that are shown tells of the others.
fn shown(mut found: Vec<SourceError>) -> Vec<SourceError> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for error in &found {
        *counts.entry(error.diagnostic.code).or_default() += 1;
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    found.retain_mut(|SourceError { diagnostic, .. }| {
        let seen = seen.entry(diagnostic.code).or_default();
        *seen += 1;
        if *seen == MOST_SHOWN && counts[diagnostic.code] > MOST_SHOWN {
            diagnostic.message += " (others like this one are reported once these are corrected)";
        }
        *seen <= MOST_SHOWN
    });
    found
}

/// The steps to copy a byte of a policy, and to try what it says on a sample pod.
const STEPS_PER_BYTE: usize = 5;

/// The first error at each place with another value of a parameter that has a list of them, the others at their defaults.
fn other_values(definition: &Definition, loading: &Work) -> Vec<SourceError> {
    let text: usize = definition.sources.iter().map(|file| file.text.len()).sum();
    let mut found: Vec<SourceError> = Vec::new();
    for parameter in &definition.parameters {
        let values = parameter.one_of.iter().flatten().map(|value| Value::from(value.as_str()));
        let is_tried = |value: &Value| parameter.default != *value && loading.ended().is_none();
        for value in values.filter(is_tried) {
            let with = format!("with `{}: {}`, ", parameter.name, value.as_str().unwrap_or_default());
            let overrides = BTreeMap::from([(parameter.name.clone(), Override::Value(value))]);
            // Each time, the policy is copied and tried on a sample pod.
            loading.goes_on(text * STEPS_PER_BYTE);
            let tried = tried(definition.clone(), overrides, loading);
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
pub fn load(files: &[(String, String)], others: &[Extendable]) -> Result<Vec<Definition>, SourceErrors> {
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
            found.push(definition.error(diagnostic.hint(did_you_mean(meant))));
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
                let diagnostic =
                    Diagnostic::error(DUPLICATE_NAME, second.place_of_name(&known.name), message)
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

const MARK: &str = "# fabric-injector: ignore ";

/// A code in such a comment.
struct Ignored {
    span: Span,
    is_used: bool,
}

/// The line of the warnings, or `None` for those of the whole file, and the code.
type Key<'t> = (Option<usize>, &'t str);

/// Drops the warnings that comments suppress, and adds one for each code that suppresses none.
fn without_ignored(files: &[(String, String)], mut kept: Vec<SourceError>) -> Vec<SourceError> {
    let mut comments: Vec<HashMap<Key<'_>, Ignored>> =
        files.iter().map(|(_, text)| comments_in(text)).collect();
    if comments.iter().all(HashMap::is_empty) {
        return kept;
    }
    let by_name: HashMap<&str, usize> =
        files.iter().enumerate().map(|(at, (file, _))| (file.as_str(), at)).collect();
    kept.retain(|error| {
        let diagnostic = &error.diagnostic;
        let Some(at) = by_name.get(&*error.file).filter(|_| diagnostic.severity == Severity::Warning) else {
            return true;
        };
        let mut keys = [Some(diagnostic.span.line), None].into_iter().map(|line| (line, diagnostic.code));
        let Some(key) = keys.find(|key| comments[*at].contains_key(key)) else { return true };
        if let Some(ignored) = comments[*at].get_mut(&key) {
            ignored.is_used = true;
        }
        false
    });
    // In a file with errors, some warnings are unknown.
    let broken: HashSet<Box<str>> = kept
        .iter()
        .filter(|error| error.diagnostic.severity == Severity::Error)
        .map(|error| error.file.clone())
        .collect();
    for ((file, text), codes) in files.iter().zip(comments).filter(|((file, _), _)| !broken.contains(&**file))
    {
        let text: Arc<str> = text.as_str().into();
        for ((_, code), ignored) in codes.into_iter().filter(|(_, ignored)| !ignored.is_used) {
            let message = format!("there is no warning `{code}` to ignore here");
            let diagnostic = Diagnostic::warning(UNUSED_SUPPRESSION, ignored.span, message);
            let is_known = WARNINGS.contains(&code);
            let hint = if is_known {
                "remove it from the comment".to_owned()
            } else {
                suggest(code, WARNINGS.iter().copied())
            };
            kept.push(SourceError::new(file, Arc::clone(&text), diagnostic.hint(hint)));
        }
    }
    kept
}

fn comments_in(text: &str) -> HashMap<Key<'_>, Ignored> {
    let mut codes = HashMap::new();
    let mut in_head = true;
    // Comments on lines of their own apply to the next line.
    let mut above: Vec<(&str, Span)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (content, comment) =
            line.split_once(MARK).map_or((line, None), |(content, rest)| (content, Some(rest)));
        let column = content.chars().count() + 1;
        let length = line.chars().count() + 1 - column;
        let span = Span { line: at + 1, column, length };
        let named = comment.into_iter().flat_map(|rest| rest.split(',')).map(|code| (code.trim(), span));
        above.extend(named);
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let about = (!std::mem::take(&mut in_head)).then_some(at + 1);
        for (code, span) in above.drain(..) {
            // A comment at the end of the first line is not in the head.
            let about = if span.line == at + 1 { Some(at + 1) } else { about };
            codes.insert((about, code), Ignored { span, is_used: false });
        }
    }
    codes
}
