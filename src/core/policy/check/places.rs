//! The places of the values of rules in the files of a policy.

use std::cell::OnceCell;

use crate::core::policy::definition::Definition;
use crate::core::policy::node::spellings;
use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Entry, Node, Span, read_unique};

/// A step from a rule to a value in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Field(String),
    /// The entry of a list in which a field has a value.
    Entry(&'static str, String),
}

/// The files of a policy, read again when a place is asked for.
pub(super) struct Places<'d> {
    definition: &'d Definition,
    files: OnceCell<Vec<(&'d str, Option<Node>)>>,
}

/// The place of a value.
pub(super) struct Place<'d> {
    pub(super) file: &'d str,
    pub(super) span: Span,
}

impl<'d> Places<'d> {
    pub(super) fn of(definition: &'d Definition) -> Self {
        Self { definition, files: OnceCell::new() }
    }

    /// The place of a value of a rule, or of the last step to it that the file has.
    pub(super) fn value(&self, rule: &str, path: &[Step]) -> Option<Place<'d>> {
        self.files().iter().find_map(|(file, root)| {
            let rules = field(field(root.as_ref()?, "spec")?, "rules")?;
            let mut node = entry(rules, "name", rule)?;
            let mut span = node.span;
            for step in path {
                let next = match step {
                    Step::Field(name) => entry_of(node, name).map(|entry| (&entry.value, entry.span)),
                    Step::Entry(key, value) => entry(node, key, value).map(|node| (node, node.span)),
                };
                let Some((next, key_span)) = next else { break };
                node = next;
                // The span of a map or list is that of its first character.
                span = match (step, &node.content) {
                    (Step::Entry(key, _), _) => field(node, key).map_or(node.span, |key| key.span),
                    (Step::Field(_), Content::Scalar { .. }) => node.span,
                    (Step::Field(_), _) => key_span,
                };
            }
            Some(Place { file, span })
        })
    }

    /// A field of `spec` in the policy's own file.
    pub(super) fn of_spec(&self, name: &str) -> Option<&Node> {
        let root = self.files().first()?.1.as_ref()?;
        field(field(root, "spec")?, name)
    }

    /// The place of a prefix of `nodeLabels` in the policy's own file.
    pub(super) fn prefix(&self, label: &str, prefix: &str) -> Option<Span> {
        let labels = self.of_spec("nodeLabels")?;
        let prefixes = spellings(label).find_map(|label| field(field(labels, label)?, "stripPrefixes"))?;
        let Content::List(items) = &prefixes.content else { return None };
        let is_prefix = |item: &&Node| item.text().is_some_and(|text| text.text.to_lowercase() == prefix);
        // Of two that are the same, the second one has no effect.
        items.iter().rfind(is_prefix).map(|item| item.span)
    }

    fn files(&self) -> &[(&'d str, Option<Node>)] {
        self.files.get_or_init(|| {
            let read = |text: &str| read_unique(text).ok().and_then(|(root, _)| root);
            let bases = self.definition.bases.iter().map(|base| (base.file.as_str(), base.text.as_str()));
            let own = (self.definition.file.as_str(), self.definition.text.as_str());
            [own].into_iter().chain(bases).map(|(file, text)| (file, read(text))).collect()
        })
    }
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    entry_of(node, name).map(|entry| &entry.value)
}

fn entry_of<'n>(node: &'n Node, name: &str) -> Option<&'n Entry<Node>> {
    let Content::Map(entries) = &node.content else { return None };
    entries.iter().find(|entry| entry.key == name)
}

fn entry<'n>(node: &'n Node, key: &str, value: &str) -> Option<&'n Node> {
    let Content::List(items) = &node.content else { return None };
    items.iter().find(|item| {
        let found = field(item, key).map(|node| &node.content);
        match found {
            Some(Content::Scalar { value: Scalar::String(text), .. }) => text == value,
            Some(Content::Scalar { value: Scalar::Number(number), .. }) => number.to_string() == value,
            _ => false,
        }
    })
}
