//! The objects that injected pods name and the cluster lacks.

use std::collections::BTreeSet;

use fabric_policy::objects::ObjectName;
use fabric_yaml::{counted, first_names};

use super::workloads::Refused;
use super::{Found, Seen, ok, unread, warn};

/// The limit on objects, and on the workloads of each.
const MOST: usize = 3;

pub(super) fn absent(seen: &Seen<'_>) -> Found {
    seen.policies()?;
    let all = seen.facts.workloads.as_ref().map_err(unread)?;
    let none = || ok("no object is known to be absent that an injected pod names");
    of_absent(all).map_or_else(none, |(seen, remedy)| warn(seen, remedy))
}

/// What is said of the objects that injected pods name and the cluster lacks, with the remedy; `None` if there is none.
pub fn of_absent(all: &Refused) -> Option<(String, String)> {
    let (ObjectName { kind, namespace, name }, _) = all.absent.first_key_value()?;
    let count = counted(all.absent.len(), "object");
    let lines: String =
        all.absent.iter().take(MOST).map(|(object, workloads)| line(object, workloads)).collect();
    let more = all.absent.len().saturating_sub(MOST);
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let within = if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
    let (resource, group) = (&kind.api().resource, &kind.api().group);
    Some((
        format!("injected pods do not start without {count} that the cluster lacks{lines}{more}"),
        format!(
            "create them by hand or by GitOps, or correct the names: `kubectl get {resource}.{group}{within} {name}`"
        ),
    ))
}

fn line(ObjectName { kind, namespace, name }: &ObjectName, workloads: &BTreeSet<String>) -> String {
    let place = if namespace.is_empty() { String::new() } else { format!(" in the namespace `{namespace}`") };
    format!("\nthe {} `{name}`{place}: {}", kind.api().kind, first_names(workloads, MOST))
}
