//! Policy files, and the files that they extend: another policy, and parts of policies.
//!
//! `extension` combines the trees of the files, and `parse` turns the result into a `Definition`. This module does not
//! access the file system, and finds only mistakes in the text.

mod checks;
mod contradictions;
mod declared_names;
mod devices;
mod env;
mod extendable;
mod extension;
mod near_names;
mod other_kind;
mod parameters;
mod parse;
mod rules;
mod settings_files;
mod variables;
mod yaml_mistakes;

pub use extendable::Extendable;
pub use other_kind::OtherKind;

use serde_json::json;

use fabric_yaml::{self as yaml, Content, Node, Span, escape};

use crate::check;
use crate::definition::Definition;
use crate::keys::{self, API_VERSION, KIND};
use crate::source::reader::Fields;
use crate::source::{
    Checked, DUPLICATE_KEY, DUPLICATE_NAME, Diagnostic, EXTENSION, MISSING_KEY, Problems, SourceError,
    SourceErrors, SourceFile, TOO_COSTLY, UNUSED_PART, all, closest, reader, suggest,
};
use extension::{Extending, extend, leave_out, unknown_keys};

/// A policy file before it is combined with the files that it extends.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    source: SourceFile,
    /// Without `extends` and `without`.
    spec: Node,
    /// The items of its base files that it leaves out.
    without: Option<Node>,
    extends: Vec<(String, Span)>,
    name_span: Span,
    /// Outside of `spec`.
    problems: Problems,
}

/// The longest chain of files that extend each other.
const MAX_DEPTH: usize = 16;
/// The most text of policies that are in use together, in bytes, each with the files that it extends.
const MAX_TEXT: usize = 16 << 20;

impl PolicyFile {
    /// Reads a policy file. `file` is its name for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceErrors> {
        let source = SourceFile::new(file, text);
        Self::parse(source.clone()).map_err(|problems| SourceErrors::in_files(&[source], problems))
    }

    fn parse(mut source: SourceFile) -> Checked<Self> {
        let explained = |error| yaml_mistakes::explained(error, &source.text);
        let (root, duplicates) = yaml::read_unique(&source.text).map_err(explained)?;
        let root = root.ok_or_else(|| {
            Diagnostic::error(MISSING_KEY, Span::default(), "the file is empty")
                .hint("`fabric-injector policy new` writes a policy to start from")
        })?;
        other_kind::check(&root)?;
        let mut fields = Fields::read(&root, &keys::POLICY)?;
        let _ = fields.required("apiVersion", |node| constant(node, "apiVersion", API_VERSION));
        let _ = fields.required("kind", |node| constant(node, "kind", KIND));
        let name = fields.required("metadata", |node| {
            let mut metadata = Fields::read(node, &keys::METADATA)?;
            let name = metadata.required("name", |node| {
                reader::dns_label(node, "the name of a policy").map(|name| (name, node.span))
            });
            metadata.finish()?;
            Ok::<_, Problems>(name?)
        });
        let spec = fields.required("spec", |node| Ok::<_, Diagnostic>(node.clone()));
        let mut problems = fields.finish().err().unwrap_or_default();
        for error in duplicates {
            let hint = "keep one of them; write the entries of two maps or lists into one";
            problems.add(Diagnostic::error(DUPLICATE_KEY, error.span, error.message).hint(hint));
        }
        let Ok(mut spec) = spec else { return Err(problems) };
        let without = take(&mut spec, "without");
        // Without it, everything in the base would seem to be missing.
        if let Some(misspelt) = extension::misspelt_extends(&spec) {
            return Err(misspelt.into());
        }
        // Without its base, everything else in the file would seem to be wrong.
        let extends = take(&mut spec, "extends").map(|node| names(&node)).transpose()?;
        let (name, name_span) = name.unwrap_or_default();
        source.policy = name;
        Ok(Self { source, spec, without, extends: extends.unwrap_or_default(), name_span, problems })
    }

    /// An error about the name, if an earlier file has the same one.
    pub fn same_name(&self, earlier: &[Self]) -> Option<SourceError> {
        let same = earlier.iter().find(|known| !self.name().is_empty() && known.name() == self.name())?;
        let message = format!("two policies are called `{}`, here and in {}", self.name(), same.source.file);
        let hint = "give one of them another name";
        Some(self.error(DUPLICATE_NAME, self.name_span, message, hint.to_owned()))
    }

    /// Warnings about mistakes that YAML accepts, and names that are almost those of other policies.
    pub fn yaml_mistakes(&self, extendable: &[Extendable]) -> impl Iterator<Item = SourceError> {
        let mut warnings = Vec::new();
        yaml_mistakes::find(&self.spec, &mut warnings);
        let others: Vec<&Node> =
            extendable.iter().filter_map(|other| other.read().ok()).map(|other| &other.spec).collect();
        warnings.extend(near_names::find(&self.spec, &others));
        warnings.into_iter().map(|warning| SourceError::in_file(&self.source, warning))
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.source.policy
    }

    /// Returns whether it is a policy rather than a part: a part has neither a provider nor a description.
    fn is_policy(&self) -> bool {
        let has = |key: &str| self.spec.get(key).is_some();
        !matches!(self.spec.content, Content::Map(_)) || has("provider") || has("description")
    }

    /// Returns whether it is a part of policies, in a file of this name.
    pub fn is_part(&self, file: &str) -> bool {
        self.source.file == file && !self.is_policy()
    }

    /// An error for a part of policies where a policy is required.
    fn part_error(&self) -> SourceError {
        let message =
            format!("`{}` is a part of policies: it has no `provider`, and matches no pod", self.name());
        let hint = "name it in `extends` of a policy, and load that; a policy has a `provider`";
        self.error(EXTENSION, self.name_span, message, hint.to_owned())
    }

    fn error(&self, code: &'static str, span: Span, message: String, hint: String) -> SourceError {
        let diagnostic = Diagnostic::error(code, span, message).hint(hint);
        SourceError::in_file(&self.source, diagnostic)
    }
}

fn constant(node: &Node, field: &str, wanted: &str) -> Result<(), Diagnostic> {
    let seen = reader::text(node, field)?;
    if seen == wanted {
        return Ok(());
    }
    let hint = match closest(seen, [wanted]) {
        Some(_) => format!("did you mean `{field}: {wanted}`?"),
        None => format!("a policy has `{field}: {wanted}`"),
    };
    Err(Diagnostic::new(node.span, format!("`{field}` is `{seen}`")).hint(hint))
}

/// The name in `extends`, or the names of a list.
fn names(node: &Node) -> Checked<Vec<(String, Span)>> {
    reader::check_count(node.one_or_items().len(), reader::MOST, "`extends`", node.span)?;
    all(node.one_or_items().iter().map(|item| match reader::text(item, "`extends`") {
        Ok(name) => Ok((name.to_owned(), item.span)),
        Err(error) if matches!(item.content, Content::Map(_)) => {
            Err(error.hint("write the name of a policy, or a list of names"))
        }
        Err(error) => Err(error),
    }))
}

/// Removes a field of a map.
fn take(node: &mut Node, key: &str) -> Option<Node> {
    let Content::Map(entries) = &mut node.content else { return None };
    let at = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(at).value)
}

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
            known => suggest(wanted.trim_end_matches(".yaml"), known.iter().copied()),
        };
        refused(format!("there is no policy `{wanted}` to extend"), hint)
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
