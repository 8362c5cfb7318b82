//! The policies of the installation, and the status of each server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::explain::Sources;
use crate::pools::pools;
use fabric_engine::admission::Mode;
use fabric_policy::Policy;
use fabric_yaml::counted;

use super::{
    Finding, Found, Read, Seen, Status, fail, found, is_forbidden, list, names, ok, text, unread, warn,
};

/// A server to which API servers send pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The name of its pod, or its address if it is none.
    pub name: String,
    /// The port of its resources without TLS.
    pub admin_port: Option<u64>,
}

/// The status of a server.
#[derive(Debug)]
pub struct Server {
    /// That of its [`Endpoint`].
    pub name: String,
    /// `/readyz?verbose`
    pub ready: Read<String>,
    /// `/policies`
    pub in_use: Read,
}

/// The ready endpoints in a list of `EndpointSlices`, each once: one slice has the IPv4 addresses, another one those of
/// IPv6.
pub fn endpoints(slices: &Value) -> BTreeSet<Endpoint> {
    let mut found = BTreeSet::new();
    for slice in list(slices, "items") {
        let admin_port =
            list(slice, "ports").find(|port| port["name"] == "admin").and_then(|port| port["port"].as_u64());
        let ready = list(slice, "endpoints").filter(|endpoint| endpoint["conditions"]["ready"] != false);
        found.extend(ready.map(|endpoint| {
            let address = endpoint["addresses"][0].as_str().unwrap_or_default();
            let name = endpoint["targetRef"]["name"].as_str().unwrap_or(address).to_owned();
            Endpoint { name, admin_port }
        }));
    }
    found
}

/// The servers that API servers call, at least one.
fn servers<'f>(seen: &Seen<'f>) -> Result<&'f [Server], Finding> {
    seen.service()?;
    seen.facts.endpoints.as_ref().map_err(unread)?;
    match seen.facts.servers.as_slice() {
        [] => Err(unread(&"no server is ready: see the line `endpoints`".to_owned())),
        servers => Ok(servers),
    }
}

/// Compares the policies that this version loads with those that each server has in use.
pub(super) fn policies(seen: &Seen<'_>) -> Found {
    seen.deployment()?;
    if let Err(error) = &seen.facts.policies
        && !is_forbidden(error)
    {
        let remedy = "`fabric-injector policy check` shows each error; a server keeps the previous policies";
        return fail(format!("cannot be loaded: {error}"), remedy);
    }
    let loaded: BTreeSet<&str> = seen.policies()?.policies().iter().map(Policy::stamp).collect();
    let mut others: BTreeMap<BTreeSet<String>, Vec<&str>> = BTreeMap::new();
    for server in servers(seen)? {
        let in_use = list(server.in_use.as_ref().map_err(unread)?, "policies");
        let in_use: BTreeSet<String> =
            in_use.map(|policy| format!("{}@{}", text(policy, "name"), text(policy, "digest"))).collect();
        if !in_use.iter().map(String::as_str).eq(loaded.iter().copied()) {
            others.entry(in_use).or_default().push(&server.name);
        }
    }
    let others: Vec<String> = others
        .iter()
        .map(|(in_use, servers)| {
            let in_use =
                if in_use.is_empty() { "none".to_owned() } else { names(in_use.iter().map(String::as_str)) };
            format!("{} in use: {in_use}", have(servers))
        })
        .collect();
    if others.is_empty() {
        return ok(format!("{} in use", names(loaded)));
    }
    warn(
        format!("the ConfigMaps have {}\n{}", names(loaded), others.join("\n")),
        "after a change, wait a minute for the kubelet to update the files; else see the log for `reload failed`",
    )
}

/// The names of servers, with a verb.
fn have(servers: &[&str]) -> String {
    format!("{} {}", names(servers.iter().copied()), if servers.len() > 1 { "have" } else { "has" })
}

/// Whether each server answers, in the mode that is configured, and its checks that do not pass.
pub(super) fn state(seen: &Seen<'_>) -> Found {
    let configured = match seen.release.deployment {
        Some(_) => seen.release.option("--mode").next().unwrap_or(Mode::Inject.name()),
        None if seen.probe.audit => Mode::Audit.name(),
        None => Mode::Inject.name(),
    };
    let servers = servers(seen)?;
    let mut problems = Vec::new();
    for server in servers {
        problems.extend(of_server(server, configured)?);
    }
    if problems.is_empty() {
        let reports = servers.iter().flat_map(|server| &server.ready).flat_map(|report| report.lines());
        let passed: BTreeSet<&str> = reports.filter_map(|line| line.strip_prefix("[+]")).collect();
        let passed: Vec<&str> = passed.into_iter().collect();
        let count = counted(servers.len(), "server");
        return ok(format!("{count} in the mode `{configured}`: {}", passed.join("; ")));
    }
    let has_failed = problems.iter().any(|(status, _)| *status == Status::Fail);
    let texts: Vec<String> = problems.into_iter().map(|(_, text)| text).collect();
    let remedy = "during an upgrade, wait until all replicas are replaced; else see the log of the servers";
    found(if has_failed { Status::Fail } else { Status::Warn }, texts.join("\n"), remedy)
}

/// The problems of a server, or that it may not be asked.
fn of_server(
    Server { name, ready, in_use }: &Server,
    configured: &str,
) -> Result<Vec<(Status, String)>, Finding> {
    let (report, in_use) = match (ready, in_use) {
        (Err(error), _) | (_, Err(error)) if is_forbidden(error) => return Err(unread(error)),
        (Err(error), _) | (_, Err(error)) => {
            return Ok(vec![(Status::Fail, format!("`{name}` does not answer: {error}"))]);
        }
        (Ok(report), Ok(in_use)) => (report, in_use),
    };
    let mut problems = Vec::new();
    let mode = text(in_use, "mode");
    if mode.is_empty() {
        let told = format!("`{name}` does not report its mode: it runs an earlier version");
        problems.push((Status::Warn, told));
    } else if mode != configured {
        let told = format!("`{name}` is in the mode `{mode}`, and `{configured}` is configured");
        problems.push((Status::Fail, told));
    }
    let is_passed = |line: &&str| line.starts_with("[+]") || line.ends_with("ready");
    let failed: Vec<&str> = report.lines().filter(|line| !is_passed(line)).collect();
    if !failed.is_empty() {
        let is_down = failed.iter().any(|line| line.starts_with("[-]"));
        let status = if is_down { Status::Fail } else { Status::Warn };
        problems.push((status, format!("`{name}` reports\n{}", failed.join("\n"))));
    }
    Ok(problems)
}

/// Counts the nodes with GPUs by the policy that their pods get, and their problems.
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
