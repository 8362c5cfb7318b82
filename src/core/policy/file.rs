//! Policy files, and the policies that they extend.

use crate::core::yaml::{self, Content, Entry, Node, Span};

use super::check::{self, is_slip};
use super::definition::Definition;
use super::diagnostic::{
    DUPLICATE_KEY, DUPLICATE_NAME, Diagnostic, EXTENSION, MISSING_KEY, UNKNOWN_ANNOTATION,
};
use super::extension::extend;
use super::foreign;
use super::parse::{self, Header};
use super::problems::Problems;
use super::reader;
use super::slips;
use super::source_error::{SourceError, SourceErrors};
use super::source_file::SourceFile;
use super::suggestion::suggest;

/// A policy file before it is combined with the policy that it extends.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    source: SourceFile,
    /// Without `extends`.
    spec: Node,
    extends: Option<(String, Span)>,
    name_span: Span,
    /// Outside of `spec`.
    problems: Problems,
}

impl PolicyFile {
    /// Reads a policy file. `file` is its name for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceErrors> {
        let mut source = SourceFile { policy: String::new(), file: file.to_owned(), text: text.to_owned() };
        let read = || {
            let (root, duplicates) =
                yaml::read_unique(text).map_err(|error| slips::explained(error, text))?;
            let root = root.ok_or_else(|| {
                Diagnostic::new(Span::default(), "the file is empty")
                    .code(MISSING_KEY)
                    .hint("`fabric-injector policy new` writes a policy to start from")
            })?;
            foreign::check(&root)?;
            let mut header = Header::read(&root)?;
            let duplicates = duplicates.into_iter().map(|error| {
                Diagnostic::new(error.span, error.message).code(DUPLICATE_KEY).hint("keep one of them")
            });
            duplicates.for_each(|duplicate| header.problems.add(duplicate));
            let Some(mut spec) = header.spec else { return Err(header.problems) };
            let mut extends = None;
            if let Some(node) = take(&mut spec, "extends") {
                let name = header.problems.take(reader::text(&node, "`extends`"));
                extends = name.map(|name| (name.to_owned(), node.span));
            }
            Ok((header.name, header.name_span, spec, extends, header.problems))
        };
        match read() {
            Ok((policy, name_span, spec, extends, problems)) => {
                source.policy = policy;
                Ok(Self { source, spec, extends, name_span, problems })
            }
            Err(problems) => Err(SourceErrors::of(&[source], problems)),
        }
    }

    /// An error about the name, if an earlier file has the same one.
    pub(crate) fn same_name(&self, earlier: &[Self]) -> Option<SourceError> {
        let same = earlier.iter().find(|known| !self.name().is_empty() && known.name() == self.name())?;
        let message = format!("two policies are called `{}`, here and in {}", self.name(), same.source.file);
        let diagnostic = Diagnostic::new(self.name_span, message)
            .code(DUPLICATE_NAME)
            .hint("give one of them another name");
        Some(SourceError::new(&self.source.file, &self.source.text, diagnostic))
    }

    /// Warnings about slips that YAML accepts, and annotations that are almost those of other policies.
    pub(crate) fn slips(&self, others: &[Self]) -> impl Iterator<Item = SourceError> {
        let mut warnings = Vec::new();
        slips::template_braces(&self.spec, &mut warnings);
        let known: Vec<&str> =
            others.iter().flat_map(Self::triggers).map(|entry| entry.key.as_str()).collect();
        for Entry { key, span, .. } in
            self.triggers().iter().filter(|entry| !known.contains(&entry.key.as_str()))
        {
            if let Some(meant) = known.iter().find(|known| is_slip(key, known)) {
                let message =
                    format!("the annotation `{key}` is almost `{meant}`, which other policies have");
                let warning = Diagnostic::warning(UNKNOWN_ANNOTATION, *span, message);
                warnings.push(warning.hint(format!("did you mean `{meant}`?")));
            }
        }
        warnings.into_iter().map(|warning| SourceError::new(&self.source.file, &self.source.text, warning))
    }

    /// The entries of `match.anyAnnotation`.
    fn triggers(&self) -> &[Entry<Node>] {
        let mut node = &self.spec;
        for key in ["match", "anyAnnotation"] {
            let Content::Map(entries) = &node.content else { return &[] };
            let Some(entry) = entries.iter().find(|entry| entry.key == key) else { return &[] };
            node = &entry.value;
        }
        if let Content::Map(entries) = &node.content { entries } else { &[] }
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.source.policy
    }

    /// The name of the policy that it extends.
    pub fn base(&self) -> Option<&str> {
        self.extends.as_ref().map(|(name, _)| name.as_str())
    }

    fn error(&self, message: String, hint: String) -> SourceError {
        let span = self.extends.as_ref().map_or(Span::default(), |(_, span)| *span);
        let diagnostic = Diagnostic::new(span, message).code(EXTENSION).hint(hint);
        SourceError::new(&self.source.file, &self.source.text, diagnostic)
    }
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
        definition(&file, &[], &[])
    }
}

/// The policy of a file, with all that it has from those that it extends.
pub(crate) fn definition(
    file: &PolicyFile,
    files: &[PolicyFile],
    others: &[PolicyFile],
) -> Result<Definition, SourceErrors> {
    combined(&chain(file, files, others)?)
}

/// The policies of the files in use. `others` can be extended, and are not in use themselves; a file in use that another one
/// extends is replaced by that.
pub fn definitions(files: &[PolicyFile], others: &[PolicyFile]) -> Result<Vec<Definition>, SourceErrors> {
    let mut errors: Vec<SourceError> = second_extensions(files, others);
    let mut definitions = Vec::new();
    for file in files {
        match definition(file, files, others) {
            Ok(definition) => definitions.push(definition),
            Err(found) => errors.extend(found),
        }
    }
    if !errors.is_empty() {
        return Err(SourceErrors::new(errors));
    }
    Ok(in_use(files, definitions))
}

/// The policies that no file extends.
pub(crate) fn in_use(files: &[PolicyFile], mut definitions: Vec<Definition>) -> Vec<Definition> {
    definitions.retain(|definition| !files.iter().any(|file| file.base() == Some(&definition.name)));
    definitions
}

/// An error for each file that extends the same policy as another one.
pub(crate) fn second_extensions(files: &[PolicyFile], others: &[PolicyFile]) -> Vec<SourceError> {
    let mut extensions: Vec<(&str, &PolicyFile)> = Vec::new();
    let mut errors = Vec::new();
    let chains = files.iter().filter_map(|file| chain(file, files, others).ok());
    for file in chains.flat_map(|(_, extensions)| extensions) {
        let Some(base) = file.base() else { continue };
        match extensions.iter().find(|(known, _)| *known == base) {
            Some((_, first)) if !std::ptr::eq(*first, file) => {
                let message =
                    format!("the policies `{}` and `{}` both extend `{base}`", first.name(), file.name());
                let hint = format!("write `extends: {}`, or load only one of them", first.name());
                errors.push(file.error(message, hint));
            }
            Some(_) => {}
            None => extensions.push((base, file)),
        }
    }
    errors
}

/// The last of the policies that a file extends, and the files that extend it, this one last.
fn chain<'f>(
    file: &'f PolicyFile,
    files: &'f [PolicyFile],
    others: &'f [PolicyFile],
) -> Result<(&'f PolicyFile, Vec<&'f PolicyFile>), SourceError> {
    let mut extensions = Vec::new();
    let mut last = file;
    while let Some(wanted) = last.base() {
        if extensions.iter().chain([&last]).any(|known| known.name() == wanted) {
            let message = format!("`{wanted}` extends itself, directly or through another policy");
            return Err(last.error(message, "extend a policy that does not extend this one".to_owned()));
        }
        let named =
            |candidates: &'f [PolicyFile]| candidates.iter().filter(move |file| file.name() == wanted);
        if named(files).count() > 1 {
            let message = format!("two policies are called `{wanted}`");
            return Err(last.error(message, "give one of them another name".to_owned()));
        }
        let Some(base) = named(files).chain(named(others)).next() else {
            let known = files.iter().chain(others).map(PolicyFile::name).filter(|name| *name != last.name());
            let known: Vec<&str> = known.collect();
            let hint = match known.as_slice() {
                [] => "load the file of that policy too".to_owned(),
                known => suggest(wanted, known.iter().copied()),
            };
            return Err(last.error(format!("there is no policy `{wanted}` to extend"), hint));
        };
        extensions.push(last);
        last = base;
    }
    extensions.reverse();
    Ok((last, extensions))
}

/// The policy of the last file, with all that it has from the others.
fn combined((first, extensions): &(&PolicyFile, Vec<&PolicyFile>)) -> Result<Definition, SourceErrors> {
    let chain = [first].into_iter().chain(extensions);
    let sources: Vec<SourceFile> = chain.map(|file| file.source.clone()).collect();
    let mut problems = first.problems.clone();
    let mut spec = first.spec.clone();
    let mut base = first;
    let mut lines = 0;
    for extension in extensions {
        lines += base.source.lines();
        problems.add(extension.problems.moved(lines));
        problems.take(extend(&mut spec, &extension.spec.moved(lines), base.name()));
        base = extension;
    }
    let (spec, found) = parse::spec(&spec);
    let is_whole = found.is_empty();
    problems.add(found);
    let own = extensions.last().unwrap_or(first);
    let definition = spec.map(|spec| {
        let bases = sources[..extensions.len()].to_vec();
        spec.into_definition(own.source.clone(), bases, own.base().map(str::to_owned))
    });
    if let Some(definition) = definition.as_ref().filter(|_| is_whole) {
        problems.take(own_fabric_is_declared(definition));
    }
    match definition {
        Some(definition) if problems.is_empty() => Ok(definition),
        // The types of what could be read are checked even so.
        definition => {
            let types = definition.as_ref().map(check::errors).unwrap_or_default();
            Err(SourceErrors::new(SourceErrors::of(&sources, problems).into_iter().chain(types).collect()))
        }
    }
}

fn own_fabric_is_declared(definition: &Definition) -> Result<(), Diagnostic> {
    let mut read = None;
    definition.texts(&mut |text| {
        let mut readers = text.expressions().filter(|expression| expression.names().contains("ownFabric"));
        read = read.or_else(|| readers.next().map(|expression| expression.span_of_name("ownFabric")));
    });
    match read {
        Some(span) if definition.fabric.is_none() => {
            Err(Diagnostic::new(span, "`ownFabric` is read, and the policy has no `fabric`")
                .code(MISSING_KEY)
                .hint("add `fabric:` to `spec` with the names of its devices, see docs/policy.md"))
        }
        _ => Ok(()),
    }
}
