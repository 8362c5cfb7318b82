//! Limits and requests of a container.
//!
//! The rules are those of `ValidateContainerResourceRequirements` in Kubernetes: a request is at most its limit, a
//! resource that cannot be overcommitted has a limit and an equal request, and huge pages need cpu or memory.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use fabric_policy::OnConflict;
use fabric_policy::overlay::{Entry, Tree, count_of, is_zero};
use fabric_policy::schema::{AMOUNT_LISTS, can_overcommit};
use fabric_yaml::quantity::{Quantity, same_quantity};

use super::rule::{Merge, brief};
use crate::record::{Cursor, OrReason, ValueKind, WarningKind};

/// The amounts of a resource in the policy, of each of the [`AMOUNT_LISTS`].
struct Wanted<'t> {
    resource: &'t str,
    amounts: [Option<Value>; 2],
}

/// Merges amounts into the resources of a container, and returns the other fields.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    resources: &mut Cursor<'_>,
    fields: Tree,
) -> OrReason<Vec<(Arc<str>, Tree)>> {
    let mut wanted = Vec::new();
    // Limits and requests are of the same devices of a list.
    let mut lists: Vec<(&Entry, Vec<&str>)> = Vec::new();
    for amounts in fields.entries() {
        let Some(list) = amounts.name().and_then(position) else { continue };
        for entry in amounts.value.entries() {
            let Some(amount) = entry.value.as_value() else { continue };
            if let Some(resource) = entry.name() {
                add_amount(&mut wanted, list, resource, amount.clone());
                continue;
            }
            let count = count_of(amount).unwrap_or(0);
            // The container refuses all of them.
            if count == 0 {
                for device in entry.resources() {
                    add_amount(&mut wanted, list, device, amount.clone());
                }
                continue;
            }
            if !lists.iter().any(|(known, _)| *known == entry) {
                lists.push((entry, devices_of_list(merge, resources, entry, count)?));
            }
            for (_, devices) in lists.iter().filter(|(known, _)| *known == entry) {
                for device in devices {
                    add_amount(&mut wanted, list, device, "1".into());
                }
            }
        }
    }
    // Huge pages depend on cpu and memory.
    wanted.sort_by_key(|wanted| is_huge_pages(wanted.resource));
    for wanted in wanted {
        let Some(first) = wanted.amounts.iter().position(Option::is_some) else { continue };
        if merge.pod.pod_resources && !wanted.resource.contains('/') {
            let against = "resources of its own in `spec.resources`".to_owned();
            let setting = wanted.resource.to_owned();
            let kind = WarningKind::Excluded { what: ValueKind::Device, setting, against };
            resources.warn(AMOUNT_LISTS[first], kind, merge.rule);
        } else if can_overcommit(wanted.resource) {
            overcommittable(merge, resources, wanted)?;
        } else {
            device(merge, resources, wanted)?;
        }
    }
    Ok(fields.into_entries().filter(|(field, _)| position(field).is_none()).collect())
}

/// The position of a list among the [`AMOUNT_LISTS`].
fn position(field: &str) -> Option<usize> {
    AMOUNT_LISTS.iter().position(|list| *list == field)
}

/// The resources of a list of which a container gets one device each: the first ones that no other container of the pod
/// requests. A container that requests others of the list keeps those.
fn devices_of_list<'t>(
    merge: &mut Merge<'_, '_>,
    resources: &mut Cursor<'_>,
    entry: &'t Entry,
    count: usize,
) -> OrReason<Vec<&'t str>> {
    // By name; true for an amount of 0, with which a container refuses a device.
    let own_amount = |name| Some((name, is_zero(first_amount(resources, name)?.1)));
    let has: HashMap<&str, bool> = entry.resources().filter_map(own_amount).collect();
    let own: Vec<&str> = entry.resources().filter(|name| has.get(name) == Some(&false)).collect();
    let is_free = |name: &str| has.contains_key(name) || !merge.pod.requested.by_another(name);
    let devices: Vec<&str> = entry.resources().filter(|name| is_free(name)).take(count).collect();
    // An earlier call adds the same.
    let is_equal =
        own.iter().all(|name| devices.contains(name)) && devices.iter().all(|name| has.contains_key(name));
    if !own.is_empty() && !is_equal && merge.on_conflict != OnConflict::Replace {
        if own.len() == count {
            return Ok(own);
        }
        let (seen, wanted) = (own.join(", ").into(), devices.join(", ").into());
        merge.resolve_conflict(resources, "limits", &seen, &wanted, ValueKind::Device)?;
        // One that is only requested gets a limit.
        let is_one = |name: &str| {
            let mut amounts = AMOUNT_LISTS.iter().filter_map(|list| amount(resources, list, name));
            amounts.all(|amount| count_of(amount) == Some(1))
        };
        return Ok(own.iter().copied().filter(|name| is_one(name)).collect());
    }
    if devices.len() < count {
        let kind = WarningKind::TooFewResources { given: devices.len(), wanted: count };
        resources.warn("limits", kind, merge.rule);
    }
    devices.iter().filter(|name| !has.contains_key(*name)).for_each(|name| merge.pod.requested.add(name));
    Ok(devices)
}

/// Adds an amount of one of the [`AMOUNT_LISTS`].
fn add_amount<'t>(wanted: &mut Vec<Wanted<'t>>, list: usize, resource: &'t str, amount: Value) {
    let known = wanted.iter_mut().find(|known| known.resource == resource && known.amounts[list].is_none());
    if let Some(known) = known {
        known.amounts[list] = Some(amount);
    } else {
        let mut amounts = [None, None];
        amounts[list] = Some(amount);
        wanted.push(Wanted { resource, amounts });
    }
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Merges a resource whose request equals its limit.
fn device(merge: &Merge<'_, '_>, resources: &mut Cursor<'_>, wanted: Wanted<'_>) -> OrReason {
    let Wanted { resource, amounts: [limit, request] } = wanted;
    let own = first_amount(resources, resource).map(|(list, amount)| (list, amount.clone()));
    let lists = if request.is_some() { &AMOUNT_LISTS[..] } else { &AMOUNT_LISTS[..1] };
    let written = if limit.is_some() { "limits" } else { "requests" };
    let Some(value) = limit.or(request) else { return Ok(()) };
    let Some((list, own)) = own else {
        if is_huge_pages(resource) && !has_cpu_or_memory(resources) {
            let kind = WarningKind::HugePagesAlone { resource: resource.to_owned() };
            resources.warn(written, kind, merge.rule);
            return Ok(());
        }
        return lists.iter().try_for_each(|list| put(resources, list, resource, value.clone()));
    };
    if same_quantity(&own, &value) {
        resources.log.present(&[list, resource]);
    } else {
        let is_replaced = resources.within(list, |amounts| {
            merge.resolve_conflict(amounts, resource, &own, &value, kind_of(resource, &own))
        })?;
        if is_replaced {
            for list in AMOUNT_LISTS {
                if lists.contains(&list) || amount(resources, list, resource).is_some() {
                    put(resources, list, resource, value.clone())?;
                }
            }
            return Ok(());
        }
    }
    // `SetDefaults_Pod` of the API server derives a request from the limit, but no limit from the request.
    if list == "requests" { put(resources, "limits", resource, own) } else { Ok(()) }
}

/// Merges a resource whose request is at most its limit: each amount, unless it contradicts that of the other list.
fn overcommittable(merge: &Merge<'_, '_>, resources: &mut Cursor<'_>, wanted: Wanted<'_>) -> OrReason {
    let Wanted { resource, amounts } = wanted;
    let limit = amount(resources, "limits", resource).cloned();
    // The API server has derived the request from a limit that the pod came with.
    let is_added = resources.log.at("limits", |log| log.at(resource, |log| log.was_added()));
    let derived = limit.filter(|_| !is_added);
    let request = amount(resources, "requests", resource).cloned().or(derived);
    for (list, wanted) in AMOUNT_LISTS.into_iter().zip(amounts) {
        let Some(wanted) = wanted else { continue };
        let limit = amount(resources, "limits", resource).cloned();
        let (seen, other) = if list == "limits" { (&limit, &request) } else { (&request, &limit) };
        let fits = other.as_ref().is_none_or(|other| {
            if list == "limits" { is_at_most(other, &wanted) } else { is_at_most(&wanted, other) }
        });
        if let Some(seen) = seen {
            if same_quantity(seen, &wanted) {
                resources.log.present(&[list, resource]);
                continue;
            }
            if merge.on_conflict != OnConflict::Replace || fits {
                let is_replaced = resources.within(list, |amounts| {
                    merge.resolve_conflict(amounts, resource, seen, &wanted, kind_of(resource, seen))
                })?;
                if !is_replaced {
                    continue;
                }
            }
        }
        if fits {
            put(resources, list, resource, wanted)?;
            continue;
        }
        let of_other = if list == "limits" { "requests" } else { "limits" };
        let what = other.as_ref().map_or(ValueKind::Device, |other| kind_of(resource, other));
        let (wanted, other) = (brief(&wanted), other.as_ref().map(brief).unwrap_or_default());
        let kind = if list == "requests" && merge.on_conflict == OnConflict::Keep {
            // The API server will derive the request from the limit.
            WarningKind::Kept { what, seen: other, wanted }
        } else {
            let (setting, against) = (format!("{list}: {wanted}"), format!("{of_other}: {other}"));
            WarningKind::Excluded { what: ValueKind::Device, setting, against }
        };
        resources.log.at(list, |log| log.at(resource, |log| log.warn(kind, merge.rule)));
    }
    Ok(())
}

/// An amount of 0 turns a device off. Huge pages are no device.
fn kind_of(resource: &str, own: &Value) -> ValueKind {
    let is_denied = brief(own) == "0" && !is_huge_pages(resource);
    if is_denied { ValueKind::DeniedDevice } else { ValueKind::Device }
}

fn amount<'c>(resources: &'c Cursor<'_>, list: &str, resource: &str) -> Option<&'c Value> {
    resources.get(list)?.get(resource).filter(|amount| !amount.is_null())
}

/// The limit of a resource or, without one, its request.
fn first_amount<'c>(resources: &'c Cursor<'_>, resource: &str) -> Option<(&'static str, &'c Value)> {
    AMOUNT_LISTS.into_iter().find_map(|list| Some((list, amount(resources, list, resource)?)))
}

fn put(resources: &mut Cursor<'_>, list: &str, resource: &str, amount: Value) -> OrReason {
    resources.within(list, |amounts| {
        amounts.put(resource, amount);
        Ok(())
    })
}

fn has_cpu_or_memory(resources: &Cursor<'_>) -> bool {
    ["cpu", "memory"].iter().any(|resource| first_amount(resources, resource).is_some())
}

/// Returns whether a quantity is at most another one.
fn is_at_most(less: &Value, more: &Value) -> bool {
    Quantity::from_value(less).zip(Quantity::from_value(more)).is_some_and(|(less, more)| less <= more)
}
