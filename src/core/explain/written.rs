//! Templates as a policy has them, with their expressions.

use serde_json::{Map, Value};

use crate::core::policy::overlay::{NetworksEdit, Template};

use super::condition::one_line;

/// An edit of networks as the policy has it.
pub(super) fn networks(edit: &NetworksEdit) -> Value {
    let mut names = Vec::new();
    edit.name_texts(&mut |text| names.push(Value::from(one_line(&text.source()))));
    let names = if let [one] = names.as_slice() { one.clone() } else { Value::Array(names) };
    let mut written = Map::from_iter([("$networks".to_owned(), names)]);
    written.extend(edit.count().map(|count| ("$count".to_owned(), source(count))));
    Value::Object(written)
}

/// A template as the policy has it.
pub(super) fn source(template: &Template) -> Value {
    match template {
        Template::Constant(value) => value.clone(),
        Template::Computed(text, _) => Value::from(one_line(&text.source())),
        Template::Object(_, fields) => fields
            .iter()
            .map(|(field, value)| (field.name.to_owned(), source(value)))
            .collect::<Map<_, _>>()
            .into(),
        Template::Map(_, entries) => {
            entries.iter().map(|(key, value)| (key.source(), source(value))).collect::<Map<_, _>>().into()
        }
        Template::List(items) => items.iter().map(|item| source(&item.0)).collect(),
    }
}
