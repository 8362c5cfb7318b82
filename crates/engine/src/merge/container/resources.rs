//! Limits and requests of a container.
//!
//! The rules are those of `ValidateContainerResourceRequirements` in Kubernetes: a request is at most its limit, a
//! resource that cannot be overcommitted has a limit and an equal request, and huge pages need cpu or memory.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use fabric_policy::OnConflict;
use fabric_policy::overlay::{Entry, Tree, count_of, is_zero};
use fabric_policy::schema::can_overcommit;
use fabric_yaml::quantity::{Quantity, same_quantity};

use crate::merge::rule::{Merge, Winner, brief};
use crate::record::{Cursor, Kept, Reason, WarningKind};

/// The amount of a resource in the policy.
struct Wanted<'t> {
    resource: &'t str,
    limit: Option<Value>,
    request: Option<Value>,
}

/// Merges amounts into the resources of a container, and returns the other fields.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    resources: &mut Cursor<'_>,
    fields: Tree,
) -> Result<Vec<(Arc<str>, Tree)>, Reason> {
    let mut wanted = Vec::new();
    // Limits and requests are of the same devices of a list.
    let mut lists: Vec<(&Entry, Vec<&str>)> = Vec::new();
    for amounts in fields.entries() {
        let Some(list) = amounts.name().filter(|list| is_amounts(list)) else { continue };
        for entry in amounts.value.entries() {
            let Some(amount) = entry.value.as_value() else { continue };
            if let Some(resource) = entry.name() {
                add_amount(&mut wanted, list, resource, amount.clone());
                continue;
            }
            if !lists.iter().any(|(known, _)| *known == entry) {
                let count = count_of(amount).unwrap_or(0);
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
    for mut wanted in wanted {
        if let Some(list) = wanted.drop_zero() {
            resources.log.left_out(&[list, wanted.resource], || "the amount is 0".to_owned());
        }
        if wanted.lists().next().is_none() {
            continue;
        }
        if merge.pod.pod_resources && !wanted.resource.contains('/') {
            let kind = WarningKind::Excluded {
                setting: wanted.resource.to_string(),
                against: "resources of its own in `spec.resources`".to_owned(),
            };
            resources.warn(wanted.lists().next().unwrap_or("limits"), kind, merge.rule);
        } else if can_overcommit(wanted.resource) {
            overcommittable(merge, resources, wanted)?;
        } else {
            device(merge, resources, wanted)?;
        }
    }
    Ok(fields.into_entries().filter(|(field, _)| !is_amounts(field)).collect())
}

fn is_amounts(field: &str) -> bool {
    matches!(field, "limits" | "requests")
}

/// The resources of a list of which a container gets one device each: the first ones that no other container of the pod
/// requests. A container that requests others of the list keeps those.
fn devices_of_list<'t>(
    merge: &mut Merge<'_, '_>,
    resources: &mut Cursor<'_>,
    entry: &'t Entry,
    count: usize,
) -> Result<Vec<&'t str>, Reason> {
    if count == 0 {
        resources.log.left_out(&["limits", &entry.source()], || "the amount is 0".to_owned());
        return Ok(Vec::new());
    }
    // By name; true for an amount of 0, with which a container refuses a device.
    let has: HashMap<&str, bool> = entry
        .resources()
        .filter_map(|name| {
            let amount = ["limits", "requests"].iter().find_map(|list| amount(resources, list, name))?;
            Some((name, is_zero(amount)))
        })
        .collect();
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
        merge.resolve_conflict(resources, "limits", &seen, &wanted, Kept::Device)?;
        // One that is only requested gets a limit.
        let is_one = |name: &str| {
            let amounts = ["limits", "requests"].iter().filter_map(|list| amount(resources, list, name));
            amounts.into_iter().all(|amount| count_of(amount) == Some(1))
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

/// Adds an amount of limits or requests.
fn add_amount<'t>(wanted: &mut Vec<Wanted<'t>>, list: &str, resource: &'t str, amount: Value) {
    let is_limit = list == "limits";
    let is_free = |known: &Wanted<'_>| if is_limit { known.limit.is_none() } else { known.request.is_none() };
    let known = wanted.iter().position(|known| known.resource == resource && is_free(known));
    let at = known.unwrap_or_else(|| {
        wanted.push(Wanted { resource, limit: None, request: None });
        wanted.len() - 1
    });
    *(if is_limit { &mut wanted[at].limit } else { &mut wanted[at].request }) = Some(amount);
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Merges a resource whose request equals its limit.
fn device(merge: &Merge<'_, '_>, resources: &mut Cursor<'_>, wanted: Wanted<'_>) -> Result<(), Reason> {
    let resource = wanted.resource;
    let own = ["limits", "requests"]
        .into_iter()
        .find_map(|list| amount(resources, list, resource).map(|amount| (list, amount.clone())));
    let lists: Vec<&str> = if wanted.limit.is_some() && wanted.request.is_none() {
        vec!["limits"]
    } else {
        vec!["limits", "requests"]
    };
    let Some(value) = wanted.limit.or(wanted.request) else { return Ok(()) };
    let Some((list, own)) = own else {
        if is_huge_pages(resource) && !has_cpu_or_memory(resources) {
            let kind = WarningKind::HugePagesAlone { resource: resource.to_owned() };
            resources.warn("limits", kind, merge.rule);
            return Ok(());
        }
        return lists.iter().try_for_each(|list| put(resources, list, resource, value.clone()));
    };
    if same_quantity(&own, &value) {
        resources.log.present(&[list, resource]);
    } else {
        let winner = resources
            .within(list, |amounts| merge.resolve_conflict(amounts, resource, &own, &value, Kept::Device))?;
        if winner == Winner::Policy {
            let replaced = ["limits", "requests"].into_iter();
            let replaced =
                replaced.filter(|list| lists.contains(list) || amount(resources, list, resource).is_some());
            return replaced
                .collect::<Vec<_>>()
                .into_iter()
                .try_for_each(|list| put(resources, list, resource, value.clone()));
        }
    }
    // The API server derives a request from the limit, but no limit from the request.
    if list == "requests" { put(resources, "limits", resource, own) } else { Ok(()) }
}

/// Merges a resource whose request is at most its limit.
fn overcommittable(
    merge: &Merge<'_, '_>,
    resources: &mut Cursor<'_>,
    wanted: Wanted<'_>,
) -> Result<(), Reason> {
    let resource = wanted.resource;
    let limit = amount(resources, "limits", resource).cloned();
    // The API server has derived the request from a limit that the pod came with.
    let derived = limit.clone().filter(|_| !is_added(resources, resource));
    let request = amount(resources, "requests", resource).cloned().or(derived);
    if let Some(wanted) = wanted.limit {
        let fits = request.as_ref().is_none_or(|request| at_most(request, &wanted));
        let against = request.as_ref().map(|request| format!("requests: {}", brief(request)));
        one(merge, resources, "limits", resource, limit.as_ref(), wanted, (fits, against))?;
    }
    if let Some(wanted) = wanted.request {
        let limit = amount(resources, "limits", resource).cloned();
        let fits = limit.as_ref().is_none_or(|limit| at_most(&wanted, limit));
        let against = limit.as_ref().map(|limit| format!("limits: {}", brief(limit)));
        one(merge, resources, "requests", resource, request.as_ref(), wanted, (fits, against))?;
    }
    Ok(())
}

/// Merges an amount of one list, unless it contradicts that of the other.
fn one(
    merge: &Merge<'_, '_>,
    resources: &mut Cursor<'_>,
    list: &str,
    resource: &str,
    seen: Option<&Value>,
    wanted: Value,
    (fits, against): (bool, Option<String>),
) -> Result<(), Reason> {
    if let Some(seen) = seen {
        if same_quantity(seen, &wanted) {
            resources.log.present(&[list, resource]);
            return Ok(());
        }
        if merge.on_conflict != OnConflict::Replace || fits {
            let winner = resources.within(list, |amounts| {
                merge.resolve_conflict(amounts, resource, seen, &wanted, Kept::Device)
            })?;
            if winner == Winner::Pod {
                return Ok(());
            }
        }
    }
    if fits {
        return put(resources, list, resource, wanted);
    }
    let setting = format!("{list}: {}", brief(&wanted));
    let kind = WarningKind::Excluded { setting, against: against.unwrap_or_default() };
    resources.within(list, |amounts| {
        amounts.warn(resource, kind, merge.rule);
        Ok(())
    })
}

fn amount<'c>(resources: &'c Cursor<'_>, list: &str, resource: &str) -> Option<&'c Value> {
    resources.get(list)?.get(resource).filter(|amount| !amount.is_null())
}

/// Returns whether the policy added the limit of a resource.
fn is_added(resources: &mut Cursor<'_>, resource: &str) -> bool {
    resources.within("limits", |limits| Ok(limits.was_added(resource))).unwrap_or(false)
}

fn put(resources: &mut Cursor<'_>, list: &str, resource: &str, amount: Value) -> Result<(), Reason> {
    resources.within(list, |amounts| {
        amounts.put(resource, amount);
        Ok(())
    })
}

fn has_cpu_or_memory(resources: &Cursor<'_>) -> bool {
    let has =
        |resource| ["limits", "requests"].iter().any(|list| amount(resources, list, resource).is_some());
    has("cpu") || has("memory")
}

/// Returns whether a quantity is at most another one.
fn at_most(less: &Value, more: &Value) -> bool {
    Quantity::from_value(less).zip(Quantity::from_value(more)).is_some_and(|(less, more)| less <= more)
}

impl Wanted<'_> {
    /// Drops amounts that are zero. Returns the first list that has one.
    fn drop_zero(&mut self) -> Option<&'static str> {
        let limit = self.limit.take_if(|limit| is_zero(limit)).map(|_| "limits");
        let request = self.request.take_if(|request| is_zero(request)).map(|_| "requests");
        limit.or(request)
    }

    fn lists(&self) -> impl Iterator<Item = &'static str> {
        let limit = self.limit.is_some().then_some("limits");
        limit.into_iter().chain(self.request.is_some().then_some("requests"))
    }
}
