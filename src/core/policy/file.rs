//! Policy files, and the policies that they extend.

use crate::core::yaml::{self, Content, Node, Span};

use super::definition::Definition;
use super::diagnostic::{Diagnostic, SourceError, suggest};
use super::extension::extended;
use super::parse;
use super::reader;

/// The name and text of a policy file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The name of the policy.
    pub policy: String,
    /// The name of the file, for messages.
    pub file: String,
    pub text: String,
}

impl SourceFile {
    pub(super) fn lines(&self) -> usize {
        self.text.split('\n').count()
    }
}

/// A policy file before it is combined with the policy that it extends.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    source: SourceFile,
    /// Without `extends`.
    spec: Node,
    extends: Option<(String, Span)>,
}

impl PolicyFile {
    /// Reads a policy file. `file` is its name for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceError> {
        let read = || {
            let root = yaml::read_node(text)?.ok_or_else(|| {
                Diagnostic::new(Span::default(), "the file is empty").hint("see docs/policy.md")
            })?;
            let (policy, mut spec) = parse::header(&root)?;
            let extends = take(&mut spec, "extends");
            let extends = extends
                .map(|node| Ok::<_, Diagnostic>((reader::text(&node, "`extends`")?.to_owned(), node.span)))
                .transpose()?;
            let source = SourceFile { policy, file: file.to_owned(), text: text.to_owned() };
            Ok(Self { source, spec, extends })
        };
        read().map_err(|diagnostic| SourceError::new(file, text, diagnostic))
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
        SourceError::new(&self.source.file, &self.source.text, Diagnostic::new(span, message).hint(hint))
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
    pub fn read(file: &str, text: &str) -> Result<Self, SourceError> {
        let file = PolicyFile::read(file, text)?;
        combined(&chain(&file, &[], &[])?)
    }
}

/// The policies of the files in use. `others` can be extended, and are not in use themselves; a file in use that another one
/// extends is replaced by that.
pub fn definitions(files: &[PolicyFile], others: &[PolicyFile]) -> Result<Vec<Definition>, SourceError> {
    let chains = files.iter().map(|file| chain(file, files, others)).collect::<Result<Vec<_>, _>>()?;
    let mut extensions: Vec<(&str, &PolicyFile)> = Vec::new();
    for file in chains.iter().flat_map(|(_, extensions)| extensions).copied() {
        let Some(base) = file.base() else { continue };
        match extensions.iter().find(|(known, _)| *known == base) {
            Some((_, first)) if !std::ptr::eq(*first, file) => {
                let message =
                    format!("the policies `{}` and `{}` both extend `{base}`", first.name(), file.name());
                return Err(file
                    .error(message, format!("write `extends: {}`, or load only one of them", first.name())));
            }
            Some(_) => {}
            None => extensions.push((base, file)),
        }
    }
    let is_base = |file: &PolicyFile| extensions.iter().any(|(base, _)| *base == file.name());
    let in_use = files.iter().zip(&chains).filter(|(file, _)| !is_base(file));
    in_use.map(|(_, chain)| combined(chain)).collect()
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
fn combined((first, extensions): &(&PolicyFile, Vec<&PolicyFile>)) -> Result<Definition, SourceError> {
    let chain = [first].into_iter().chain(extensions);
    let sources: Vec<SourceFile> = chain.map(|file| file.source.clone()).collect();
    let read = || {
        let mut spec = first.spec.clone();
        let mut base = first;
        let mut lines = 0;
        for extension in extensions {
            lines += base.source.lines();
            spec = extended(spec, &extension.spec.moved(lines), base.name())?;
            base = extension;
        }
        parse::spec(&spec)
    };
    let spec = read().map_err(|diagnostic| SourceError::of(&sources, diagnostic))?;
    let own = extensions.last().unwrap_or(first);
    let bases = sources[..extensions.len()].to_vec();
    let definition = spec.into_definition(own.source.clone(), bases, own.base().map(str::to_owned));
    if definition.fabric.is_none() && definition.reads("ownFabric") {
        let message = "`ownFabric` is read, and the policy has no `fabric`";
        let diagnostic = Diagnostic::new(Span::default(), message)
            .hint("add `fabric:` to `spec` with the names of its devices, see docs/policy.md");
        return Err(definition.error_at(diagnostic, &["ownFabric"]));
    }
    Ok(definition)
}
