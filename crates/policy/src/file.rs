//! Policy files as they are read, before they are combined with the files that they extend: another policy, and parts of
//! policies.
//!
//! `composition` finds these files, `extension` combines their trees, and `parse` turns the result into a `Definition`.
//! This module does not access the file system, and finds only mistakes in the text.

mod checks;
mod composition;
mod contradictions;
mod declared_names;
mod devices;
mod env;
mod extendable;
mod extension;
mod library_values;
mod near_names;
mod other_kind;
mod parameters;
mod parse;
mod plain_text;
mod rules;
mod settings_files;
mod variables;
mod yaml_mistakes;
mod yaml_repairs;

pub use composition::{composed, composed_text, definitions, untaken};
pub use extendable::Extendable;
pub use library_values::wrong_value;
pub use other_kind::OtherKind;

use fabric_yaml::{self as yaml, Content, Node, Span};

use crate::keys::{self, API_VERSION, KIND};
use crate::source::reader::Fields;
use crate::source::{
    Checked, DUPLICATE_KEY, DUPLICATE_NAME, Diagnostic, EXTENSION, MISSING_KEY, Problems, SourceError,
    SourceErrors, SourceFile, all, closest, reader,
};

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
            let hint = if error.message.contains("`name`") {
                "keep one of them; if another entry of a list begins here, write `- ` before it"
            } else {
                "keep one of them; write the entries of two maps or lists into one"
            };
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
        warnings.extend(plain_text::find(&self.spec, &self.source.text));
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
