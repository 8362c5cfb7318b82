//! Requests and limits of a container.

use serde_json::{Map, Value};

use crate::core::policy::OnConflict;
use crate::core::policy::expression::Bindings;
use crate::core::policy::template::{Key, Template};
use crate::core::quantity::{Quantity, same_quantity};

use super::merge::{Merge, Place};
use super::pod::is_extended;
use super::report::{Kept, Reason, WarningKind};

type Target<'t> = &'t mut Map<String, Value>;

/// Requests and limits. What cannot be overcommitted keeps the two equal, whichever of them the pod gives.
pub(super) fn merge(
    merge: &mut Merge<'_>,
    target: Target<'_>,
    template: &Template,
    bindings: &Bindings<'_, '_>,
) -> Result<(), Reason> {
    let Template::Map(lists) = template else { return Ok(()) };
    if let Some(other) =
        target.get("resources").filter(|resources| !resources.is_null() && !resources.is_object())
    {
        return Err(merge.malformed("a map", other));
    }
    // Most often limits and requests are one expression.
    let mut evaluated: Option<(&Template, Option<Value>)> = None;
    let (mut ours, mut kept) = (Vec::new(), Vec::new());
    for (list, template) in lists {
        let Key::Literal(list) = list else { continue };
        let Template::Map(amounts) = template else {
            // `claims`: an ordinary keyed list.
            let map = merge.map_in(target, "resources")?;
            let before = merge.enter(list);
            merge.field(map, list, template, Place::Other, bindings)?;
            merge.pointer.truncate(before);
            continue;
        };
        for (key, template) in amounts {
            let Some(resource) = merge.evaluated(key.evaluate(bindings))? else { continue };
            let wanted = match &evaluated {
                Some((known, value)) if known.same_source(template) => value.clone(),
                _ => merge.evaluated(template.build(bindings))?,
            };
            evaluated = Some((template, wanted.clone()));
            let Some(wanted) = wanted else { continue };
            if Quantity::from_value(&wanted).and_then(Quantity::as_count) == Some(0) {
                continue;
            }
            let mut amount = Amount { list, resource: &resource, ours: &mut ours, kept: &mut kept };
            amount.merge(merge, target, wanted)?;
        }
    }
    Ok(())
}

/// One amount of one resource, in `limits` or `requests`.
struct Amount<'a> {
    list: &'a str,
    resource: &'a str,
    /// Resources whose limit this policy set.
    ours: &'a mut Vec<String>,
    /// Resources of which the pod's own amount stays: told once, not for limit and request.
    kept: &'a mut Vec<String>,
}

impl Amount<'_> {
    fn merge(&mut self, merge: &mut Merge<'_>, target: Target<'_>, mut wanted: Value) -> Result<(), Reason> {
        let (list, resource) = (self.list, self.resource);
        let resources = target.get("resources").unwrap_or(&Value::Null);
        if resources[list][resource].is_null() {
            if resource.starts_with("hugepages-") && !has_cpu_or_memory(resources) {
                if list == "limits" {
                    merge.warn(WarningKind::HugePagesAlone { resource: resource.to_owned() });
                }
                return Ok(());
            }
            let other = &resources[if list == "limits" { "requests" } else { "limits" }][resource];
            let others_own = !other.is_null() && !self.ours.iter().any(|ours| ours == resource);
            if others_own && merge.on_conflict != OnConflict::Replace {
                if list == "requests" && is_extended(resource) {
                    // The API server takes the request from the limit.
                    return Ok(());
                }
                if is_extended(resource) {
                    wanted = other.clone();
                } else if !in_order(list, &wanted, other) {
                    return Ok(());
                }
            }
        }
        let resources = merge.map_in(target, "resources")?;
        let before_list = merge.enter(list);
        let amounts = merge.map_in(resources, list)?;
        let before = merge.enter(resource);
        match amounts.get_mut(resource) {
            Some(existing) if !existing.is_null() => {
                let told =
                    merge.on_conflict == OnConflict::Keep && self.kept.iter().any(|kept| kept == resource);
                if !same_quantity(existing, &wanted) && !told {
                    merge.conflict(existing, wanted, Kept::Device)?;
                    self.kept.push(resource.to_owned());
                }
            }
            _ => {
                merge.insert(amounts, resource, wanted);
                self.ours.push(resource.to_owned());
            }
        }
        merge.pointer.truncate(before);
        merge.pointer.truncate(before_list);
        Ok(())
    }
}

fn has_cpu_or_memory(resources: &Value) -> bool {
    ["cpu", "memory"]
        .iter()
        .any(|resource| ["limits", "requests"].iter().any(|list| !resources[*list][*resource].is_null()))
}

/// Whether a request stays within its limit if `wanted` joins `list`.
fn in_order(list: &str, wanted: &Value, other: &Value) -> bool {
    let (Some(wanted), Some(other)) = (Quantity::from_value(wanted), Quantity::from_value(other)) else {
        return false;
    };
    if list == "requests" { wanted <= other } else { wanted >= other }
}
