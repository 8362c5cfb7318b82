//! The `multinodeNetworking` block of a Helm values file.

use std::sync::Arc;

use fabric_policy::source::{Checked, all, reader, suggest};
use fabric_policy::{Definition, Diagnostic, Override, Overrides, SourceError, SourceErrors};
use fabric_yaml::{self as yaml, Content, Entry, Node, Span};

const BLOCK: &str = "multinodeNetworking";

/// The settings of a values file for each provider.
#[derive(Debug)]
pub struct Values {
    file: String,
    text: Arc<str>,
    providers: Vec<Provider>,
}

#[derive(Debug)]
struct Provider {
    name: String,
    span: Span,
    enabled: Option<bool>,
    settings: Vec<Entry<Node>>,
}

impl Values {
    /// Reads a values file. Everything outside the `multinodeNetworking` block is ignored.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceError> {
        let fail = |diagnostic| SourceError::new(file, text, diagnostic);
        // If a key is repeated, Helm uses the last one. That is an error only inside the block.
        let root = yaml::read_node_with_duplicates(text).map_err(|error| fail(error.into()))?;
        let mut blocks = match root.as_ref().map(|root| &root.content) {
            Some(Content::Map(entries)) => entries.iter().filter(|entry| entry.key == BLOCK).collect(),
            _ => Vec::new(),
        };
        if let [_, second, ..] = blocks.as_slice() {
            return Err(fail(
                Diagnostic::new(second.span, format!("`{BLOCK}` appears twice")).hint("keep one of them"),
            ));
        }
        let Some(block) = blocks.pop() else {
            let message = format!("there is no `{BLOCK}` block");
            return Err(fail(
                Diagnostic::new(Span { line: 1, column: 1, length: 1 }, message).hint(block_hint()),
            ));
        };
        if let Some(duplicate) = yaml::duplicate_key(&block.value) {
            return Err(fail(duplicate.into()));
        }
        Self::of_block(file, text, &block.value)
    }

    /// Reads the content of a `multinodeNetworking` block, which is part of the file `file`.
    pub(crate) fn of_block(file: &str, text: &str, block: &Node) -> Result<Self, SourceError> {
        let fail = |diagnostic| SourceError::new(file, text, diagnostic);
        let entries = map(block, BLOCK).map_err(|error| fail(error.hint(block_hint())))?;
        let providers = entries.iter().map(read_provider).collect::<Result<_, _>>().map_err(fail)?;
        Ok(Self { file: file.to_owned(), text: text.into(), providers })
    }

    /// The name of the enabled provider, if there is one. More than one is an error.
    pub fn enabled(&self) -> Result<Option<&str>, SourceError> {
        let mut enabled = self.providers.iter().filter(|provider| provider.enabled == Some(true));
        let first = enabled.next();
        match (first, enabled.next()) {
            (Some(first), Some(second)) => {
                let message = format!("`{}` and `{}` are both enabled", first.name, second.name);
                Err(self.error(Diagnostic::new(second.span, message).hint("enable exactly one provider")))
            }
            (first, _) => Ok(first.map(|provider| provider.name.as_str())),
        }
    }

    /// Checks the block of each provider against the parameters of its policies: of those in use, or of the built-in
    /// ones if none is in use.
    pub fn check(&self, in_use: &[Definition], built_in: &[Definition]) -> Result<(), SourceError> {
        for provider in &self.providers {
            let is_own = |definition: &&Definition| definition.provider == provider.name;
            let mut own: Vec<&Definition> = in_use.iter().filter(is_own).collect();
            let others: Vec<&Definition> = built_in.iter().filter(is_own).collect();
            if own.is_empty() {
                own.clone_from(&others);
            }
            if own.is_empty() {
                let definitions = in_use.iter().chain(built_in);
                let known = definitions.map(|definition| definition.provider.as_str());
                let message = format!("there is no policy for the provider `{}`", provider.name);
                return Err(
                    self.error(Diagnostic::new(provider.span, message).hint(suggest(&provider.name, known)))
                );
            }
            for entry in &provider.settings {
                // An empty value sets nothing: a values file may have the keys of all policies of a provider.
                let empty = entry.value.to_value().is_null();
                let policies = own.iter().chain(others.iter().filter(|_| empty));
                let parameters = policies.flat_map(|definition| &definition.parameters);
                if !parameters.clone().any(|parameter| parameter.name == entry.key) {
                    let message = format!("`{}` has no setting `{}`", provider.name, entry.key);
                    let known = parameters.map(|parameter| parameter.name.as_str()).chain(["enabled"]);
                    return Err(
                        self.error(Diagnostic::new(entry.span, message).hint(suggest(&entry.key, known)))
                    );
                }
            }
        }
        Ok(())
    }

    /// The settings of the policy's parameters in the file.
    pub fn overrides(&self, definition: &Definition) -> Result<Overrides, SourceErrors> {
        let (_, entries) = self.entries(&definition.provider);
        overrides(definition, entries).map_err(|problems| {
            SourceErrors::new(problems.into_iter().map(|problem| self.error(problem)).collect())
        })
    }

    /// The file, and the entries of a provider's block, for messages about the source of a value.
    pub(crate) fn entries(&self, provider: &str) -> (&str, &[Entry<Node>]) {
        let block = self.providers.iter().find(|known| known.name == provider);
        (&self.file, block.map_or(&[], |block| &block.settings))
    }

    fn error(&self, diagnostic: Diagnostic) -> SourceError {
        SourceError::new(&self.file, Arc::clone(&self.text), diagnostic)
    }
}

/// The settings of the policy's parameters among the entries of a map.
pub(crate) fn overrides(definition: &Definition, entries: &[Entry<Node>]) -> Checked<Overrides> {
    let of_entry = |Entry { key, value, .. }: &Entry<Node>| {
        let parameter = definition.parameters.iter().find(|parameter| parameter.name == *key)?;
        let setting = Override::read(parameter, value).transpose()?;
        Some(setting.map(|setting| (key.clone(), setting)))
    };
    all(entries.iter().filter_map(of_entry))
}

fn block_hint() -> String {
    format!("write `{BLOCK}: {{aws: {{enabled: true}}}}`, with the provider that you use")
}

fn map<'n>(node: &'n Node, what: &str) -> Result<&'n [Entry<Node>], Diagnostic> {
    match &node.content {
        Content::Map(entries) => Ok(entries),
        _ => Err(reader::expected(node, &format!("`{what}` to be a map"))),
    }
}

fn read_provider(entry: &Entry<Node>) -> Result<Provider, Diagnostic> {
    let settings = map(&entry.value, &entry.key)
        .map_err(|error| error.hint(format!("write `{}: {{enabled: true}}`, or remove it", entry.key)))?;
    let (enabled, settings): (Vec<_>, Vec<_>) =
        settings.iter().cloned().partition(|setting| setting.key == "enabled");
    let boolean = |Entry { value, .. }: &Entry<Node>| {
        let message = format!("expected `enabled` to be `true` or `false`, found {}", value.describe());
        value.to_value().as_bool().ok_or_else(|| Diagnostic::new(value.span, message))
    };
    let enabled = enabled.first().map(boolean).transpose()?;
    Ok(Provider { name: entry.key.clone(), span: entry.span, enabled, settings })
}
