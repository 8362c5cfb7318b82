//! Parts of a policy that exclude each other, or have no effect together.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::check::{named_containers, writes};
use crate::definition::{Definition, OnConflict, Rule, keys};
use crate::expression::Expression;
use crate::interpolation::{Interpolation, names_in};
use crate::matcher::ANY_VALUE;
use crate::overlay::{Addition, Section, Target, Tree, Write};
use crate::source::{
    ALWAYS_FALSE, ALWAYS_TRUE, CONFLICTING_FIELDS, CONFLICTING_RULES, DEFAULT_STAYS, Diagnostic,
    NEVER_INJECTS, UNUSED_PARAMETER, VOLUME_WITHOUT_REQUEST,
};

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = excluded_annotations(definition);
    found.extend(definition.rules.iter().filter_map(never));
    definition.texts(&mut |text| found.extend(text.expressions().filter_map(constant)));
    found.extend(definition.rules.iter().flat_map(defaults));
    found.extend(capabilities(definition));
    found.extend(privileged(definition));
    found.extend(gpu_among_devices(definition));
    found.extend(networks(definition));
    found.extend(huge_pages(definition));
    found.extend(parameters_without_effect(definition));
    found
}

/// Variables of own rules in place of those that a parameter of the base sets.
fn parameters_without_effect(definition: &Definition) -> Vec<Diagnostic> {
    let set = |of_base: bool| {
        let is_one = move |rule: &&Rule| {
            definition.is_of_base(rule.span) == of_base && (of_base || rule.when.is_none())
        };
        let rules = definition.rules.iter().filter(is_one);
        let additions = rules.flat_map(|rule| rule.additions_to(&Section::Selected));
        additions.flat_map(Addition::writes).filter(|write| write.path == ["env"])
    };
    let names: HashMap<String, &str> =
        definition.parameters.iter().map(|one| (format!("${{{}}}", one.name), one.name.as_str())).collect();
    let of_base = |write: Write<'_>| {
        let parameter = names.get(&write.value.get("value")?.source()?)?;
        Some((write.name()?.to_owned(), *parameter))
    };
    let by_parameters: HashMap<String, &str> = set(true).filter_map(of_base).collect();
    let finding = |write: Write<'_>| {
        let (name, value) = (write.name()?, write.value.literal("value")?);
        let parameter = by_parameters.get(name)?;
        let message =
            format!("the base sets `{name}` by the parameter `{parameter}`, which has no effect now");
        let warning = Diagnostic::warning(UNUSED_PARAMETER, write.span(), message);
        Some(warning.hint(format!("write `parameters: {{{parameter}: {value}}}` in place of the variable")))
    };
    set(false).filter_map(finding).collect()
}

/// GPUs of a container that the policy adds: the pod would have more with each call.
pub(crate) fn gpus_of_added(definition: &Definition) -> Vec<Diagnostic> {
    let added = named_containers(definition).filter(|(_, addition)| addition.image().is_some());
    let gpus: HashSet<&str> = definition.gpus.resources.iter().map(String::as_str).collect();
    let is_gpu =
        |write: &Write<'_>| write.is_amount() && write.name().is_some_and(|name| gpus.contains(name));
    let finding = |write: Write<'_>| {
        let message =
            "a container that the policy adds requests GPUs, which makes it another rank of the job";
        Diagnostic::error(CONFLICTING_RULES, write.span(), message).hint("leave the GPUs out")
    };
    added.flat_map(|(_, addition)| addition.writes()).filter(is_gpu).map(finding).collect()
}

/// Annotations that request the fabric, and with the same value opt out.
fn excluded_annotations(definition: &Definition) -> Vec<Diagnostic> {
    let matcher = &definition.matcher;
    let finding = |(key, value): &(String, String)| {
        let excludes = |(other, excluded): &&(String, String)| {
            other == key && (excluded == value || excluded == ANY_VALUE)
        };
        matcher.except_annotation.iter().find(excludes)?;
        let message = format!("`{key}: {value}` requests the fabric, and `exceptAnnotation` excludes it");
        let place = definition.place(&keys(["match", "anyAnnotation", key]));
        Some(Diagnostic::warning(NEVER_INJECTS, place, message).hint("remove it from one of the two"))
    };
    let found: Vec<Diagnostic> = matcher.any_annotation.iter().filter_map(finding).collect();
    // If all are excluded, no sample pod is injected, which is another finding.
    if found.len() < matcher.any_annotation.len() { found } else { Vec::new() }
}

/// A rule whose condition is written as `false`.
fn never(rule: &Rule) -> Option<Diagnostic> {
    let when = rule.when.as_ref().filter(|when| when.on_one_line() == "false")?;
    let message = format!("`when` of rule `{}` is always false", rule.name);
    Some(Diagnostic::warning(ALWAYS_FALSE, when.span(), message).hint("remove the rule"))
}

/// A condition with sides that exclude each other, or of which one always holds.
fn constant(expression: &Expression) -> Option<Diagnostic> {
    let value = expression.constant()?;
    let span = expression.span(0, expression.source().len());
    let (code, hint) = if value {
        (ALWAYS_TRUE, "a side is true for each value: correct one of the two, or write `&&` in place of `||`")
    } else {
        (
            ALWAYS_FALSE,
            "no value makes both sides true: correct one of the two, or write `||` in place of `&&`",
        )
    };
    let message = format!("a part of `{}` is always {value}", expression.source());
    Some(Diagnostic::warning(code, span, message).hint(hint))
}

/// Fields of the pod to which the API server gives a value before any webhook sees it.
fn defaults(rule: &Rule) -> Vec<Diagnostic> {
    let of_pods = rule.additions.iter().filter(|addition| addition.section == Section::Pod);
    let stays = |write: &Write<'_>| {
        let default = write.field.static_default().filter(|default| !default.is_object());
        let has_default = default.is_some_and(|default| write.value.as_value() != Some(&default));
        has_default && matches!(write.target, Target::Whole) && rule.on_conflict == OnConflict::Keep
    };
    let finding = |write: Write<'_>| {
        let name = write.field.name;
        let message =
            format!("each pod has `{name}` from the API server, and keeps it: the rule has no effect");
        let hint = "write `onConflict: replace` in the rule";
        Diagnostic::warning(DEFAULT_STAYS, write.span(), message).hint(hint)
    };
    of_pods.flat_map(Addition::writes).filter(stays).map(finding).collect()
}

/// Capabilities that one rule adds and another one drops.
fn capabilities(definition: &Definition) -> Vec<Diagnostic> {
    let list = |list: &'static str| {
        let selected = definition.rules.iter().flat_map(|rule| rule.additions_to(&Section::Selected));
        let of_list = move |write: &Write<'_>| write.path == ["securityContext", "capabilities", list];
        selected.flat_map(Addition::writes).filter(of_list).map(|write| write.value)
    };
    let added: HashSet<&str> = list("add").filter_map(Tree::as_str).collect();
    let is_added = |dropped: &&Tree| dropped.as_str().is_some_and(|name| added.contains(name));
    let finding = |dropped: &Tree| {
        let name = dropped.as_str().unwrap_or_default();
        let message = format!("rules add the capability `{name}` and drop it");
        Diagnostic::warning(CONFLICTING_FIELDS, dropped.span, message).hint("keep one of the two")
    };
    list("drop").filter(is_added).map(finding).collect()
}

/// Privileged containers without the escalation that the API server requires of them.
fn privileged(definition: &Definition) -> Vec<Diagnostic> {
    let selected = definition.rules.iter().flat_map(|rule| rule.additions_to(&Section::Selected));
    let named = named_containers(definition).map(|(_, addition)| vec![addition]);
    let finding = |additions: Vec<&Addition>| {
        let set = |field: &'static str, value: bool| {
            let is_it = move |write: &Write<'_>| {
                write.path == ["securityContext", field] && write.value.as_value() == Some(&value.into())
            };
            additions.iter().flat_map(|addition| addition.writes()).find(is_it)
        };
        let escalation = set("privileged", true).and_then(|_| set("allowPrivilegeEscalation", false))?;
        let message = "the API server refuses `allowPrivilegeEscalation: false` of a privileged container";
        let warning = Diagnostic::warning(CONFLICTING_FIELDS, escalation.span(), message);
        Some(warning.hint("remove it, or `privileged: true`: one of the two is always left out"))
    };
    named.chain([selected.collect()]).filter_map(finding).collect()
}

/// A GPU among the devices: a container that requests one is taken for a container with devices of its own.
fn gpu_among_devices(definition: &Definition) -> Option<Diagnostic> {
    let devices = definition.spec.get("devices")?.get("resources")?.one_or_items();
    let is_gpu = |name: &str| definition.gpus.resources.iter().any(|gpu| gpu == name);
    let device = devices.iter().find(|device| device.text().is_some_and(|name| is_gpu(name.text)))?;
    let message = "a GPU among the devices: containers that request it get no other devices";
    Some(Diagnostic::warning(CONFLICTING_FIELDS, device.span, message).hint("name it in `gpus` only"))
}

/// Networks for pods that a rule puts into the network of their nodes.
fn networks(definition: &Definition) -> Option<Diagnostic> {
    // A condition that reads only whether the pod is there already holds for the others.
    let is_of_host = |when: &Interpolation| names_in(when).all(|name| name == "hostNetwork");
    let is_always = |rule: &&Rule| rule.when.as_ref().is_none_or(is_of_host);
    let mut always = definition.rules.iter().filter(is_always);
    let host = always.find_map(Rule::host_network).filter(|host| host.as_value() == Some(&true.into()))?;
    let entry = definition.rules.iter().find(|rule| rule.device.is_some_and(|device| device.to_network))?;
    let message =
        format!("each pod joins the network of its node, so that the entry `{}` has no effect", entry.name);
    let hint = "leave `networks` out of the entry, or give the rule a condition";
    Some(Diagnostic::warning(CONFLICTING_FIELDS, host.span, message).hint(hint))
}

/// Volumes of huge pages of which no rule requests any: the kubelet does not mount them.
fn huge_pages(definition: &Definition) -> Vec<Diagnostic> {
    let rules = definition.rules.iter().filter(|rule| rule.device.is_none());
    // An expression may yield any name, and is less than all.
    let amounts: BTreeSet<Option<&str>> =
        rules.flat_map(Rule::writes).filter(Write::is_amount).map(|write| write.name()).collect();
    let requested = |name: &str| {
        let known = amounts.range(Some(name)..).next().copied().flatten();
        amounts.contains(&None) || known.is_some_and(|known| known.starts_with(name))
    };
    let finding = |medium: &Tree| {
        let size = medium.as_str()?.strip_prefix("HugePages")?;
        let resource = format!("hugepages-{}", size.trim_start_matches('-'));
        if requested(&resource) {
            return None;
        }
        let message = format!("no rule requests `{resource}`, without which no kubelet mounts this volume");
        let hint = if size.is_empty() || size.ends_with('i') {
            format!("write the size of the pages, and `{resource}` under `limits` of `resources`")
        } else {
            "write the size of the pages as a quantity, as in `HugePages-2Mi` or `HugePages-1Gi`".to_owned()
        };
        Some(Diagnostic::warning(VOLUME_WITHOUT_REQUEST, medium.span, message).hint(hint))
    };
    let volumes = writes(definition).filter(Write::is_volume);
    volumes.filter_map(|volume| finding(volume.value.at(&["emptyDir", "medium"])?)).collect()
}
