//! The files of a policy: its own, and those that it extends, found by `extends` and made one definition.

use serde_json::json;

use fabric_yaml::{self as yaml, Content, Node, Span, escape};

use super::extension::{Extending, extend, leave_out, unknown_keys};
use super::{Extendable, PolicyFile, devices, parse};
use crate::check;
use crate::definition::Definition;
use crate::keys::{API_VERSION, KIND};
use crate::source::{
    Diagnostic, EXTENSION, Problems, SourceError, SourceErrors, SourceFile, TOO_COSTLY, UNKNOWN_BASE,
    UNUSED_PART, suggest,
};

/// The longest chain of files that extend each other.
const MAX_DEPTH: usize = 16;
/// The most text of policies that are in use together, in bytes, each with the files that it extends.
const MAX_TEXT: usize = 16 << 20;

impl Definition {
    /// Reads a policy file that extends no other. `file` is its name for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceErrors> {
        let file = PolicyFile::read(file, text)?;
        Ok(definitions(std::slice::from_ref(&file), &[])?.remove(0))
    }
}

/// The policies of files in use, or every error in them. The files can extend each other and `extendable` ones, which
/// are not in use themselves.
pub fn definitions(files: &[PolicyFile], extendable: &[Extendable]) -> Result<Vec<Definition>, SourceErrors> {
    let (definitions, mut errors) = composed(files, extendable);
    if definitions.is_empty() && errors.is_empty() {
        errors.extend(files.iter().map(PolicyFile::part_error));
    }
    if errors.is_empty() { Ok(definitions) } else { Err(SourceErrors::new(errors)) }
}

/// The policies without errors, and the errors of the others. A part has neither.
pub fn composed(files: &[PolicyFile], extendable: &[Extendable]) -> (Vec<Definition>, Vec<SourceError>) {
    let (mut definitions, mut errors, mut bytes) = (Vec::new(), Vec::new(), 0);
    for file in files {
        let mut composition = Composition { files, extendable, way: Vec::new(), found: Vec::new() };
        let added = composition.add(file);
        bytes += composition.found.iter().map(|one| one.source.text.len()).sum::<usize>();
        if bytes > MAX_TEXT {
            let message = format!("the policies, each with its bases, have more than {MAX_TEXT} bytes");
            errors.push(file.error(TOO_COSTLY, file.name_span, message, "load fewer policies".to_owned()));
            break;
        }
        match added {
            Ok(true) => match combined(&composition.found) {
                Ok(definition) => definitions.push(definition),
                Err(found) => errors.extend(found),
            },
            Ok(false) => {
                let located = |error| SourceError::in_file(&file.source, error);
                errors.extend(unknown_keys(&file.spec).map(located));
            }
            Err(found) => errors.extend(found),
        }
    }
    (definitions, errors)
}

/// A warning for each part among the files that no policy takes.
pub fn untaken(files: &[PolicyFile], definitions: &[Definition]) -> Vec<SourceError> {
    let is_taken = |file: &&PolicyFile| {
        let mut sources = definitions.iter().flat_map(|one| &one.sources);
        sources.any(|known| known.file == file.source.file)
    };
    let unused = files.iter().filter(|file| !file.is_policy() && !is_taken(file));
    let warning = |file: &PolicyFile| {
        let message = format!("no policy here takes the part `{}`, so it is not checked", file.name());
        let diagnostic = Diagnostic::warning(UNUSED_PART, file.name_span, message)
            .hint("check it together with a policy that names it in `extends`");
        SourceError::in_file(&file.source, diagnostic)
    };
    unused.map(warning).collect()
}

/// The files that a policy consists of, found by `extends`.
struct Composition<'f> {
    files: &'f [PolicyFile],
    extendable: &'f [Extendable],
    /// The chain of files that leads to the current one.
    way: Vec<&'f str>,
    /// Each file after those that it extends, once.
    found: Vec<Found<'f>>,
}

struct Found<'f> {
    file: &'f PolicyFile,
    source: SourceFile,
}

impl<'f> Composition<'f> {
    /// Adds a file after those that it extends, and returns whether it is a policy rather than a part.
    fn add(&mut self, file: &'f PolicyFile) -> Result<bool, SourceErrors> {
        self.way.push(file.name());
        let mut policy: Option<(&PolicyFile, &(String, Span))> = None;
        for extended in &file.extends {
            let (name, span) = extended;
            let refused = |message: String, hint: &str| {
                Err(file.error(EXTENSION, *span, message, hint.to_owned()).into())
            };
            if self.way.contains(&name.as_str()) {
                let message = format!("`{name}` extends itself, directly or through another policy");
                let names = self.files.iter().map(PolicyFile::name);
                let names = names.chain(self.extendable.iter().map(|other| other.name));
                let hint = match names.filter(|known| known == name).count() {
                    0 | 1 => "extend a policy that does not extend this one",
                    _ => "give this policy another name than that of its base",
                };
                return refused(message, hint);
            }
            if self.way.len() == MAX_DEPTH {
                let message = format!("more than {MAX_DEPTH} files extend each other in a row");
                return refused(message, "name the parts in one list");
            }
            let base = self.named(file, name, *span)?;
            let known = self.found.iter().find(|known| std::ptr::eq(known.file, base));
            let is_policy = match known {
                Some(known) => known.source.is_policy,
                None => self.add(base)?,
            };
            if !is_policy {
                continue;
            }
            let (first, _) = policy.get_or_insert((base, extended));
            if !std::ptr::eq(*first, base) {
                let message = format!("`{}` and `{name}` are both policies", first.name());
                let hint =
                    "extend one policy; what has neither `provider` nor `description` is a part of policies";
                return refused(message, hint);
            }
        }
        self.way.pop();
        let is_policy = file.is_policy() || policy.is_some();
        let extends = policy.map(|(_, extended)| extended.clone());
        self.found.push(Found { file, source: SourceFile { is_policy, extends, ..file.source.clone() } });
        Ok(is_policy)
    }

    /// The file of this name. Files that are not in use themselves cannot extend those that are.
    fn named(&self, from: &PolicyFile, wanted: &str, span: Span) -> Result<&'f PolicyFile, SourceErrors> {
        let refused = |message: String, hint: String| Err(from.error(EXTENSION, span, message, hint).into());
        let is_from = |other: &Extendable| {
            other.name == from.name() && other.read().is_ok_and(|other| std::ptr::eq(other, from))
        };
        let files = if self.extendable.iter().any(is_from) { &[] } else { self.files };
        let mut named = files.iter().filter(|file| file.name() == wanted);
        match (named.next(), named.next()) {
            (Some(_), Some(_)) => {
                let message = format!("two policies are called `{wanted}`");
                return refused(message, "give one of them another name".to_owned());
            }
            (Some(found), None) => return Ok(found),
            (None, _) => {}
        }
        if let Some(found) = self.extendable.iter().find(|other| other.name == wanted) {
            return found.read();
        }
        let known = files.iter().map(PolicyFile::name).chain(self.extendable.iter().map(|other| other.name));
        let known: Vec<&str> = known.filter(|name| *name != from.name()).collect();
        let hint = match known.as_slice() {
            [] => "load the file of that policy too".to_owned(),
            _ if wanted.contains([',', ' ']) => {
                let several: Vec<&str> = wanted.split([',', ' ']).filter(|name| !name.is_empty()).collect();
                format!("write several names as a list: `[{}]`", several.join(", "))
            }
            known => suggest(wanted.trim_end_matches(".yaml"), known.iter().copied()),
        };
        Err(from.error(UNKNOWN_BASE, span, format!("there is no policy `{wanted}` to extend"), hint).into())
    }
}

/// The `spec` of the last file with everything that it inherits, and the problems in their combination. The files have
/// consecutive line numbers.
fn spec_of(found: &[Found<'_>]) -> (Node, Problems) {
    let sources = sources(found);
    let mut problems = Problems::default();
    let mut spec = Node { span: Span::default(), content: Content::Map(Vec::new()) };
    let mut lines = 0;
    for Found { file, source } in found {
        problems.add(file.problems.moved(lines));
        let own = file.spec.moved(lines);
        if let Some(without) = &file.without {
            problems.take(leave_out(&mut spec, &without.moved(lines), source.is_policy));
        }
        if lines == 0 {
            spec = own;
        } else {
            let from = Extending { source, files: &sources };
            problems.take(extend(&mut spec, &own, &from));
            spec.span = own.span;
        }
        lines += source.lines;
    }
    (spec, problems)
}

fn sources(found: &[Found<'_>]) -> Vec<SourceFile> {
    found.iter().map(|one| one.source.clone()).collect()
}

/// The text of one file with the whole of a policy, or of a part, and its base files. An extension yields its base, and
/// then its own file and the parts that it takes: its values take precedence over the values of the nodes, which one
/// file cannot express.
pub fn composed_text(
    file: &PolicyFile,
    files: &[PolicyFile],
    extendable: &[Extendable],
) -> Result<String, SourceErrors> {
    let mut composition = Composition { files, extendable, way: Vec::new(), found: Vec::new() };
    composition.add(file)?;
    let found = composition.found;
    let (_, problems) = spec_of(&found);
    if !problems.is_empty() {
        return Err(SourceErrors::in_files(&sources(&found), problems));
    }
    let policy = found.iter().position(|one| one.source.is_policy).unwrap_or(found.len() - 1);
    let (base, extensions) = found.split_at(policy + 1);
    let extensions: String = extensions.iter().flat_map(|one| ["---\n", &*one.file.source.text]).collect();
    if let [one] = base {
        return Ok(format!("{}{extensions}", one.file.source.text));
    }
    let (spec, _) = spec_of(base);
    let name = base.last().map_or("", |one| one.file.name());
    let whole = json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec.to_value(),
    });
    let comment = base.iter().map(|one| format!("#   {}\n", escape::line(&one.source.file)));
    Ok(format!("# Composed of\n{}{}{extensions}", comment.collect::<String>(), yaml::write(&whole)))
}

/// The policy of the last file, with everything that it inherits.
fn combined(found: &[Found<'_>]) -> Result<Definition, SourceErrors> {
    let sources = sources(found);
    let (spec, mut problems) = spec_of(found);
    let (definition, found) = parse::definition(spec, &sources);
    let is_whole = found.is_empty();
    problems.add(found);
    for problem in definition.iter().filter(|_| is_whole).flat_map(devices::problems) {
        problems.add(problem);
    }
    match definition {
        Some(definition) if problems.is_empty() => Ok(definition),
        // The types of the readable parts are still checked.
        definition => {
            let types = definition.as_ref().map(check::errors).unwrap_or_default();
            Err(SourceErrors::new(
                SourceErrors::in_files(&sources, problems).into_iter().chain(types).collect(),
            ))
        }
    }
}
