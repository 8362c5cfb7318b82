//! The nodes of the provider of a policy.

use crate::nodes;
use crate::schema::Format;
use fabric_yaml::Node;

use super::pattern::Pattern;
use crate::keys;
use crate::source::reader::{self, Fields};
use crate::source::{Checked, Diagnostic, MISSING_KEY, all};

/// The nodes of a provider. A node matches by its `spec.providerID`, or by a label if the policy names no
/// provider IDs, because on-premises nodes can have labels of a cloud. A pod that selects such a label also matches.
#[derive(Debug, Clone)]
pub struct NodeMatch {
    provider_ids: Vec<Pattern>,
    /// Keys and values.
    labels: Vec<(Pattern, Pattern)>,
}

impl NodeMatch {
    pub(crate) fn read(node: &Node) -> Checked<Self> {
        let mut fields = Fields::read(node, &keys::NODES)?;
        let provider_ids = fields.optional("providerIDs", |node| {
            all(reader::items(node, "`providerIDs`")?.iter().map(provider_id))
        });
        let labels = fields.optional("labels", |node| {
            all(reader::entries(node, "`labels`")?.iter().map(|entry| {
                let value = reader::text(&entry.value, "the value of a label")?;
                let start = entry.key.strip_suffix('*');
                let example = start.map_or_else(|| entry.key.clone(), |start| format!("{start}x"));
                Format::QualifiedName.check(&example).map_err(|problem| {
                    Diagnostic::new(entry.span, format!("no node can have this label: {problem}"))
                        .hint("write a label, or the beginning of one with a `*`, such as `example.com/*`")
                })?;
                Ok::<_, Diagnostic>((Pattern::new(&entry.key), Pattern::new(value)))
            }))
        });
        fields.finish()?;
        let provider_ids: Option<Vec<Pattern>> = provider_ids?;
        let labels: Vec<(Pattern, Pattern)> = labels?.unwrap_or_default();
        // An empty list of provider IDs would leave the choice to the labels.
        if provider_ids.as_ref().map_or(labels.is_empty(), Vec::is_empty) {
            let hint = "give `providerIDs` or `labels`, or leave `nodes` out";
            return Err(Diagnostic::error(MISSING_KEY, node.span, "`nodes` matches no node")
                .hint(hint)
                .into());
        }
        Ok(Self { provider_ids: provider_ids.unwrap_or_default(), labels })
    }

    pub fn matches(&self, node: &nodes::Node) -> bool {
        let has = |(key, value): &(Pattern, Pattern)| {
            node.labels_from(key.start()).any(|(label, seen)| key.matches(label) && value.matches(seen))
        };
        if self.provider_ids.is_empty() {
            return self.labels.iter().any(has);
        }
        self.provider_ids.iter().any(|pattern| pattern.matches(node.provider_id()))
    }

    /// Returns whether nodes with a label are such nodes; without a value, those with any value of it.
    pub(crate) fn has_label(&self, label: &str, value: Option<&str>) -> bool {
        let has = |(key, known): &(Pattern, Pattern)| {
            key.matches(label) && value.map_or(known.is_any(), |value| known.matches(value))
        };
        self.labels.iter().any(has)
    }
}

/// A provider ID, or a pattern of them. The name of a provider is not an ID.
fn provider_id(node: &Node) -> Result<Pattern, Diagnostic> {
    let id = reader::text(node, "`providerIDs`")?;
    if id.contains([':', '.', '*']) && !id.ends_with('/') {
        return Ok(Pattern::new(id));
    }
    let name = id.split(':').next().unwrap_or_default();
    Err(Diagnostic::new(node.span, format!("no node has the provider ID `{id}`"))
        .hint(format!("write the beginning of the IDs and a `*`, as in `\"{name}://*\"`")))
}
