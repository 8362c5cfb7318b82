//! The policies of the installation, and what a server says about itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::counted;
use crate::core::explain::Sources;
use crate::core::policy::Policy;
use crate::core::pools::pools;

use super::{Found, Seen, Status, fail, is_forbidden, list, names, ok, text, unread, warn};

/// Compares the policies that this version loads with those that a server has in use.
pub(super) fn policies(seen: &Seen<'_>) -> Found {
    seen.deployment()?;
    if let Err(error) = &seen.facts.policies
        && !is_forbidden(error)
    {
        let remedy =
            "`fabric-injector policy check` shows each error; a server keeps the policies from before";
        return fail(format!("cannot be loaded: {error}"), remedy);
    }
    let loaded: BTreeSet<&str> = seen.policies()?.policies().iter().map(Policy::stamp).collect();
    let in_use = list(seen.facts.in_use.as_ref().map_err(unread)?, "policies");
    let in_use: Vec<String> =
        in_use.map(|policy| format!("{}@{}", text(policy, "name"), text(policy, "digest"))).collect();
    let in_use: BTreeSet<&str> = in_use.iter().map(String::as_str).collect();
    if loaded == in_use {
        return ok(format!("{} in use", names(loaded)));
    }
    warn(
        format!("a server has {} in use, and the ConfigMaps have {}", names(in_use), names(loaded)),
        "after a change, wait a minute for the kubelet to update the files; else see the log for `reload failed`",
    )
}

/// The checks of a server that do not pass.
pub(super) fn state(seen: &Seen<'_>) -> Found {
    let report = seen.facts.ready.as_ref().map_err(unread)?;
    let is_passed = |line: &&str| line.starts_with("[+]") || line.ends_with("ready");
    let problems: Vec<&str> = report.lines().filter(|line| !is_passed(line)).collect();
    if problems.is_empty() {
        let checks: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("[+]")).collect();
        return ok(format!("a server reports {}", checks.join("; ")));
    }
    let is_down = problems.iter().any(|line| line.starts_with("[-]"));
    let status = if is_down { Status::Fail } else { Status::Warn };
    let remedy = "see the log of the servers".to_owned();
    Ok((status, format!("a server reports\n{}", problems.join("\n")), remedy))
}

/// Counts the nodes with GPUs by the policy that their pods get, and what is wrong with them.
pub(super) fn nodes(seen: &Seen<'_>) -> Found {
    seen.deployment()?;
    if seen.release.option("--watch-nodes").next().is_none() {
        return ok("the servers do not watch nodes");
    }
    let nodes = seen.facts.nodes.as_ref().map_err(unread)?;
    let pools = pools(seen.policies()?, Sources { values: None, sets: &BTreeMap::new() }, nodes);
    let mut by_policy: BTreeMap<&str, usize> = BTreeMap::new();
    for pool in &pools {
        *by_policy.entry(pool.policy.as_deref().unwrap_or("no policy")).or_default() += pool.nodes;
    }
    let of_policies = by_policy.iter().map(|(policy, nodes)| format!("; {nodes} with GPUs get {policy}"));
    let counts = format!("{}{}", counted(nodes.len(), "node"), of_policies.collect::<String>());
    match pools.iter().map(|pool| pool.problems.len()).sum() {
        0 => ok(counts),
        problems => warn(
            format!("{counts}; {}", counted(problems, "problem")),
            "`fabric-injector nodes` shows the pools, and each problem",
        ),
    }
}
