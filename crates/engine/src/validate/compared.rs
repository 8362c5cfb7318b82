//! The labels and annotations that make conditions of a policy true, so the rules behind such a condition are tried,
//! too.

use std::collections::BTreeSet;

use fabric_policy::Definition;
use fabric_policy::expression::{Expression, Path, Step, Use};
use fabric_policy::matcher::{SelectedLabel, Selection};
use fabric_policy::schema::Format;

/// The number of values that are tried at most.
const MAX_VALUES: usize = 64;

/// A label or annotation of pods.
pub(super) struct Metadata {
    /// `labels` or `annotations`.
    pub(super) map: &'static str,
    pub(super) key: String,
    pub(super) value: String,
}

/// The nodes with whose labels expressions compare.
pub(super) fn nodes(definition: &Definition) -> Vec<Selection> {
    let selection = |compared: Compared| match compared.path.as_slice() {
        [Step::Field(label)] if compared.root == "node" => {
            let values = vec![compared.text.to_lowercase()];
            let labels = vec![SelectedLabel { label: label.clone(), values }];
            Some(Selection { labels, ..Selection::default() })
        }
        _ => None,
    };
    all(definition).into_iter().filter_map(selection).collect()
}

/// The labels and annotations of pods with which expressions compare.
pub(super) fn metadata(definition: &Definition) -> Vec<Metadata> {
    let metadata = |compared: Compared| match compared.path.as_slice() {
        [Step::Field(metadata), Step::Field(map), Step::Field(key)] if metadata == "metadata" => {
            let map = ["labels", "annotations"].into_iter().find(|known| known == map)?;
            Some(Metadata { map, key: key.clone(), value: compared.text })
        }
        _ => None,
    };
    all(definition).into_iter().filter_map(metadata).collect()
}

/// The namespaces with which expressions compare that of the pod.
pub(super) fn namespaces(definition: &Definition) -> Vec<String> {
    all(definition)
        .into_iter()
        .filter(|compared| compared.root == "podNamespace")
        .map(|one| one.text)
        .collect()
}

/// A value of the pod or of its nodes, and a text with which an expression compares it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Compared {
    root: String,
    path: Path,
    text: String,
}

fn all(definition: &Definition) -> BTreeSet<Compared> {
    let mut compared = BTreeSet::new();
    definition.texts(&mut |text| {
        let uses = text.expressions().flat_map(Expression::uses);
        for Use { root, path, literals, .. } in
            uses.filter(|used| ["node", "pod", "podNamespace"].contains(&used.root.as_str()))
        {
            let is_namespace = root == "podNamespace";
            // The beginning or end of a name is not a name if it ends in a hyphen.
            let named = |text: String| match (is_namespace, text.starts_with('-'), text.ends_with('-')) {
                (true, true, _) => format!("a{text}"),
                (true, _, true) => format!("{text}a"),
                _ => text,
            };
            let texts = literals.iter().filter_map(|literal| Some(literal.as_str()?.to_owned()));
            let values = texts.map(named);
            let values = values.filter(|text| !text.is_empty() && Format::LabelValue.check(text).is_ok());
            compared.extend(values.map(|text| Compared { root: root.clone(), path: path.clone(), text }));
        }
    });
    compared.into_iter().take(MAX_VALUES).collect()
}
