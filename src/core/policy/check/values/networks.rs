//! Rules that attach another number of networks than of devices.

use std::collections::BTreeMap;

use crate::core::policy::NETWORKS;
use crate::core::policy::compiled::{KnownNodes, ParameterValues, bound};
use crate::core::policy::definition::{Definition, Rule, keys};
use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::matcher::Selection;
use crate::core::policy::overlay::{Amount, NetworksEdit, Written, writes};
use crate::core::policy::source::{Diagnostic, NETWORKS_AND_COUNT_DIFFER};
use crate::core::schema::is_extended_resource;

/// A policy with more nodes in its tables is looked at for the first of them.
const MAX_NODES: usize = 100;

pub(in crate::core::policy::check) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let edits: Vec<(&Rule, &NetworksEdit)> = definition.rules.iter().filter_map(networks).collect();
    if edits.is_empty() {
        return Vec::new();
    }
    // The parameters have their defaults, and each row of a table its values.
    let nodes = KnownNodes::of(definition, &BTreeMap::new());
    let nodes = [Selection::default()].into_iter().chain(nodes.selections()).take(MAX_NODES);
    let rows: Vec<(Selection, Bindings<'_, '_>)> = nodes
        .filter_map(|node| {
            let values = ParameterValues::resolve(definition, &BTreeMap::new(), &node).values;
            let bindings = bound(definition, &values, &node).ok()?;
            Some((node, bindings))
        })
        .collect();
    let mut found = Vec::new();
    for (rule, edit) in edits {
        // A condition that reads the pod may hold.
        let may_hold = |when: Option<&Interpolation>, bindings: &Bindings<'_, '_>| {
            when.is_none_or(|when| when.holds(bindings).unwrap_or(true))
        };
        let applies = |row: &&(Selection, Bindings<'_, '_>)| {
            may_hold(definition.matcher.when.as_ref(), &row.1) && may_hold(rule.when.as_ref(), &row.1)
        };
        let rows: Vec<_> = rows.iter().filter(applies).collect();
        if let Some(message) = other_number(rule, edit, &rows) {
            let path = ["pod", "metadata", "annotations", NETWORKS, "$append"];
            let span = definition.place_in(rule, &keys(path));
            let diagnostic = Diagnostic::warning(NETWORKS_AND_COUNT_DIFFER, span, message);
            found.push(diagnostic.hint("attach one network for each device"));
        }
    }
    found
}

type Row<'r> = &'r (Selection, Bindings<'static, 'static>);

/// Another number of networks than of the devices that the rule adds.
fn other_number(rule: &Rule, edit: &NetworksEdit, rows: &[Row<'_>]) -> Option<String> {
    let amounts = writes(&rule.container).into_iter().filter_map(|write| match write.value {
        Written::Amount(amount) => device(amount).map(|_| amount),
        _ => None,
    });
    let amounts: Vec<&Amount> = amounts.collect();
    let [amount] = amounts.as_slice() else { return None };
    let device = device(amount)?;
    rows.iter().find_map(|(node, bindings)| {
        let value = amount.limit.as_ref()?.build(bindings).ok()??;
        let count = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
        let attached = attached(edit, bindings)?;
        if attached as u64 == count {
            return None;
        }
        let labels: Vec<String> = node.labels.iter().map(ToString::to_string).collect();
        let on = if labels.is_empty() { String::new() } else { format!(" on {}", labels.join(", ")) };
        let some = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let attached = some(attached as u64, "network");
        let added = some(count, "device");
        Some(format!("rule `{}` adds {added} `{device}` and attaches {attached}{on}", rule.name))
    })
}

/// The number of networks that are attached; `None` if it depends on the pod.
fn attached(edit: &NetworksEdit, bindings: &Bindings<'_, '_>) -> Option<usize> {
    let networks = edit.evaluate(bindings).ok()?;
    // One network of its own says nothing of a number.
    (edit.has_count() || networks.len() > 1).then(|| networks.iter().map(|(_, count)| count).sum())
}

fn device(amount: &Amount) -> Option<&str> {
    match &amount.resource {
        Interpolation::Literal(name) if is_extended_resource(name) => Some(name),
        _ => None,
    }
}

/// The networks of a rule.
fn networks(rule: &Rule) -> Option<(&Rule, &NetworksEdit)> {
    let edits = writes(&rule.pod.instructions).into_iter().filter(|write| write.name() == Some(NETWORKS));
    let mut edits =
        edits.filter_map(|write| if let Written::Networks(edit) = write.value { Some(edit) } else { None });
    edits.next_back().map(|edit| (rule, edit))
}
