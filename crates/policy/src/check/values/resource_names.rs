//! Names of resources and node labels that are almost those in the rest of the policy.

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::{Definition, entries};
use crate::expression::{Expression, Step, Use};
use crate::interpolation::Interpolation;
use crate::known_names::NAMES;
use crate::matcher::{Pattern, current};
use crate::overlay::Write;
use crate::parameter::{Parameter, Table};
use crate::source::{
    ALWAYS_FALSE, Diagnostic, UNKNOWN_LABEL, UNKNOWN_RESOURCE, did_you_mean, is_misspelling,
};
use fabric_yaml::{Entry, Node, Span};

use crate::check::writes;

/// The places at which expressions look up a key.
type Seen = BTreeMap<String, Vec<Span>>;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let (mut labels, mut resources) = (Seen::new(), Seen::new());
    definition.texts(&mut |text| {
        for expression in text.expressions() {
            add(expression, &mut labels, &mut resources);
        }
    });
    let mut found = Vec::new();
    misspelled(&labels, &known_labels(definition), &NAMES.labels, UNKNOWN_LABEL, &mut found);
    found.extend(unlike_own(definition));
    misspelled(&resources, &known_resources(definition), &NAMES.resources, UNKNOWN_RESOURCE, &mut found);
    found.extend(["gpus", "devices"].iter().flat_map(|key| hidden_claims(definition, key)));
    found
}

/// Names of claims that a pattern before them matches.
fn hidden_claims(definition: &Definition, key: &str) -> Vec<Diagnostic> {
    let claims = entries(definition.spec.get(key).and_then(|map| map.get("claims")));
    let counts = |claim: &Entry<Node>| claim.value.to_value() != 0;
    let of_classes = |claim: &Entry<Node>| claim.key.starts_with("class:");
    let mut patterns: Vec<(Pattern, &Entry<Node>)> = Vec::new();
    let mut found = Vec::new();
    for zero in claims.iter().filter(|claim| !counts(claim) && Pattern::new(&claim.key).stars() > 0) {
        let pattern = Pattern::new(&zero.key);
        let hides = |claim: &&Entry<Node>| {
            counts(claim) && of_classes(claim) == of_classes(zero) && pattern.matches(&claim.key)
        };
        found.extend(claims.iter().filter(hides).map(|claim| {
            let message = format!("`{}` has no effect: `{}: 0` has precedence over it", claim.key, zero.key);
            Diagnostic::warning(ALWAYS_FALSE, claim.span, message)
                .hint(format!("leave `{}` out: a claim with another name has no devices", zero.key))
        }));
    }
    for claim in claims.iter().filter(|claim| counts(claim)) {
        let hides = |(pattern, before): &&(Pattern, &Entry<Node>)| {
            pattern.matches(&claim.key)
                && of_classes(before) == of_classes(claim)
                && definition.is_of_base(before.span) == definition.is_of_base(claim.span)
        };
        if let Some((_, before)) = patterns.iter().find(hides) {
            let message =
                format!("`{}` has no effect: `{}` before it matches its claims", claim.key, before.key);
            let finding = Diagnostic::warning(ALWAYS_FALSE, claim.span, message);
            found.push(finding.hint("write the longer name first"));
        }
        let pattern = Pattern::new(&claim.key);
        if pattern.stars() > 0 {
            patterns.push((pattern, claim));
        }
    }
    found
}

/// Adds the labels of nodes and the resources that an expression reads.
fn add(expression: &Expression, labels: &mut Seen, resources: &mut Seen) {
    for Use { root, path, literals, .. } in &expression.uses {
        let fields = path
            .iter()
            .filter_map(|step| if let Step::Field(name) = step { Some(name.as_str()) } else { None });
        let asked = literals.iter().filter_map(|literal| literal.as_str());
        let steps: Vec<&str> = [root.as_str()].into_iter().chain(fields).chain(asked).collect();
        let (seen, key) = match steps.as_slice() {
            ["node", label, ..] => (&mut *labels, current(label)),
            ["podRequests", name, ..] | [.., "resources", "limits" | "requests", name] => {
                (&mut *resources, *name)
            }
            _ => continue,
        };
        seen.entry(key.to_owned()).or_default().push(expression.span_of_name(key));
    }
}

/// Warns of each name that is almost a declared one, or is read once where another one is read more often.
fn misspelled(
    seen: &Seen,
    declared: &BTreeSet<String>,
    well_known: &[String],
    code: &'static str,
    found: &mut Vec<Diagnostic>,
) {
    let what = if code == UNKNOWN_LABEL { "the node label" } else { "the amount of" };
    for (name, spans) in seen {
        if declared.contains(name) || well_known.contains(name) {
            continue;
        }
        let often =
            seen.iter().filter(|(_, others)| spans.len() == 1 && others.len() > 1).map(|(other, _)| other);
        let known =
            declared.iter().chain(often).map(String::as_str).chain(well_known.iter().map(String::as_str));
        if let Some(known) = known.into_iter().find(|known| is_misspelling(name, known)) {
            found.extend(spans.iter().map(|span| {
                let message =
                    format!("the expression reads {what} `{name}`, which is nowhere else in the policy");
                Diagnostic::warning(code, *span, message).hint(did_you_mean(known))
            }));
        }
    }
}

/// The labels in tables and in overlays.
fn known_labels(definition: &Definition) -> BTreeSet<String> {
    let tables = definition.by_node().flat_map(Parameter::tables).flat_map(Table::labels);
    let mut known: BTreeSet<String> = tables.map(|table| table.label.clone()).collect();
    let selected = writes(definition).filter(|write| write.field.name == "nodeSelector");
    known.extend(selected.filter_map(|write| write.name()).map(str::to_owned));
    known
}

/// The resources that count as GPUs, and those of overlays and of the fabric.
fn known_resources(definition: &Definition) -> BTreeSet<String> {
    let mut known: BTreeSet<String> = definition.gpus.resources.iter().cloned().collect();
    if let Some(list) = &definition.device_list {
        list.texts(&mut |text| known.extend(literal(text).filter(|name| !name.contains('*'))));
    }
    let amounts = writes(definition).filter(Write::is_amount);
    known.extend(amounts.filter_map(|write| write.name()).map(str::to_owned));
    known
}

/// Warnings for amounts of resources that are almost devices of `devices.resources`, and for those of `fromNodes` and
/// `fromNetworks` that are almost devices of the policy.
fn unlike_own(definition: &Definition) -> Vec<Diagnostic> {
    let mut own = Vec::new();
    definition.device_list.iter().for_each(|devices| devices.texts(&mut |text| own.extend(literal(text))));
    let amounts = || writes(definition).filter(Write::is_amount);
    let finding = |write: Write<'_>| {
        let name = write.name()?;
        if own.iter().any(|own| Pattern::new(own).matches(name)) {
            return None;
        }
        let known = own.iter().find(|known| !known.contains('*') && is_misspelling(name, known))?;
        let message = format!("the rule adds `{name}`, which `devices.resources` does not name");
        let hint = format!("did you mean `{known}`? Else correct it in `devices.resources`");
        Some(Diagnostic::warning(UNKNOWN_RESOURCE, write.span(), message).hint(hint))
    };
    let mut found: Vec<Diagnostic> = amounts().filter_map(finding).collect();
    // The request of a limit has the same place.
    found.dedup();
    let added = amounts();
    own.extend(added.filter_map(|write| write.name().map(str::to_owned)));
    let parameters = entries(definition.spec.get("parameters")).iter();
    let sources = parameters.flat_map(|parameter| {
        let source = |key| Some((key, parameter.value.get(key)?));
        ["fromNodes", "fromNetworks"].into_iter().filter_map(source)
    });
    let offered = sources.flat_map(|(key, node)| node.one_or_items().iter().map(move |node| (key, node)));
    found.extend(offered.filter_map(|(key, node)| {
        let written = node.text()?.text;
        let name = written.strip_suffix("=1").unwrap_or(written);
        let meets = |own: &String| Pattern::new(own).matches(name) || Pattern::new(name).matches(own);
        let known =
            own.iter().find(|known| is_misspelling(name, known)).filter(|_| !own.iter().any(meets))?;
        let message = format!("`{key}` names `{name}`, which is almost the device `{known}` of the policy");
        let hint = format!("did you mean `{known}`? Else correct it in `devices`");
        Some(Diagnostic::warning(UNKNOWN_RESOURCE, node.span, message).hint(hint))
    }));
    found
}

fn literal(text: &Interpolation) -> Option<String> {
    if let Interpolation::Literal(text) = text { Some(text.clone()) } else { None }
}
