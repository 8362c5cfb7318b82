//! Annotations: strings with a bound on their size, some of which hold lists.

use serde_json::Value;

use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::overlay::{ListEdit, NetworksEdit, StringValue, evaluate_key};
use crate::core::policy::parameter_text;
use crate::core::quantity::Quantity;
use crate::core::schema::{Field, Format};

use super::context::{MAX_ANNOTATIONS, Merge, Settled};
use super::cursor::{Cursor, malformed, shorten};
use super::list_in_string::with_entry;
use super::multus::with_networks;
use super::report::{Kept, Reason, WarningKind};

/// Merges entries into the annotations of the pod.
pub(super) fn merge(
    merge: &mut Merge<'_, '_>,
    metadata: &mut Cursor<'_>,
    field: &'static Field,
    keys: Format,
    entries: &[(Interpolation, StringValue)],
) -> Result<(), Reason> {
    metadata.within(field.name, |annotations| {
        for (key, value) in entries {
            let Some(key) = merge.evaluated(evaluate_key(key, keys, merge.bindings))? else { continue };
            let existing = match annotations.get(&key) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) => return Err(malformed(&annotations.pointer_to(&key), "a string", other)),
                None => None,
            };
            let wanted = match value {
                StringValue::Text(template) => match merge.build(template)? {
                    Some(wanted) => text(merge, annotations, &key, existing.as_deref(), &wanted)?,
                    None => None,
                },
                StringValue::List(edit) => list(merge, existing.as_deref(), edit)?,
                StringValue::Networks(edit) => networks(merge, annotations, &key, existing.as_deref(), edit)?,
            };
            if let Some(wanted) = wanted {
                let added =
                    existing.map_or(key.len() + wanted.len(), |text| wanted.len().saturating_sub(text.len()));
                merge.pod.count_annotation(&key, added)?;
                annotations.put(&key, Value::String(wanted));
            }
        }
        Ok(())
    })
}

/// The value to set; `None` to leave the annotation as it is.
fn text(
    merge: &Merge<'_, '_>,
    annotations: &mut Cursor<'_>,
    key: &str,
    existing: Option<&str>,
    wanted: &Value,
) -> Result<Option<String>, Reason> {
    let text = parameter_text(wanted);
    let Some(existing) = existing else { return Ok(Some(text)) };
    if existing == text {
        return Ok(None);
    }
    let settled = merge.settle(annotations, key, &Value::from(existing), wanted, Kept::Annotation)?;
    Ok((settled == Settled::Replace).then_some(text))
}

fn list(merge: &Merge<'_, '_>, existing: Option<&str>, edit: &ListEdit) -> Result<Option<String>, Reason> {
    let entry = merge.evaluated(edit.entry.evaluate(merge.bindings))?;
    if entry.is_null() {
        return Ok(None);
    }
    Ok(with_entry(existing.unwrap_or_default(), &parameter_text(&entry), &edit.separator, edit.prepend))
}

fn networks(
    merge: &mut Merge<'_, '_>,
    annotations: &mut Cursor<'_>,
    key: &str,
    existing: Option<&str>,
    edit: &NetworksEdit,
) -> Result<Option<String>, Reason> {
    let network = merge.evaluated(edit.network.evaluate(merge.bindings))?;
    let count = merge.evaluated(edit.count.evaluate(merge.bindings))?;
    let count = Quantity::from_value(&count).and_then(Quantity::as_count).unwrap_or(0);
    let (Some(network), Ok(count)) = (network.as_str(), usize::try_from(count)) else { return Ok(None) };
    if count == 0 || network.is_empty() {
        return Ok(None);
    }
    if merge.pod.host_network {
        annotations.warn(key, WarningKind::HostNetwork, merge.rule);
        return Ok(None);
    }
    // Before that many of them are written.
    if count.saturating_mul(network.len()) > MAX_ANNOTATIONS {
        return Err(Reason::AnnotationLimit { key: key.to_owned() });
    }
    let text = existing.unwrap_or_default();
    let edited = with_networks(text, network, count, &merge.pod.namespace);
    Ok(edited.unwrap_or_else(|_| {
        let wanted = format!("{count} times {network}");
        let kind = WarningKind::Kept { what: Kept::Annotation, seen: shorten(text), wanted };
        annotations.warn(key, kind, merge.rule);
        None
    }))
}
