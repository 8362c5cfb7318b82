//! The policies of the installation, and the status of each server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::explain::Sources;
use crate::pools::pools;
use fabric_engine::admission::Mode;
use fabric_policy::Policy;
use fabric_policy::objects::ObjectKind;
use fabric_yaml::counted;

use super::{
    CLOCKS, Finding, Found, Read, Seen, Status, Unread, fail, found, is_wrong, list, names, ok, text, unread,
    warn,
};

/// A server with an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The name of its pod, or its address if it is none.
    pub name: String,
    /// The port of its resources without TLS.
    pub admin_port: Option<u64>,
    /// True if API servers send pods to it.
    pub is_ready: bool,
}

/// The status of a server.
#[derive(Debug)]
pub struct Server {
    /// That of its [`Endpoint`].
    pub name: String,
    pub is_ready: bool,
    /// `/readyz?verbose`
    pub ready: Read<String>,
    /// `/policies`
    pub in_use: Read,
}

/// The endpoints in a list of `EndpointSlices` that do not end, each once: one slice has the IPv4 addresses, another one
/// those of IPv6.
pub fn endpoints(slices: &Value) -> BTreeSet<Endpoint> {
    let mut found = BTreeSet::new();
    for slice in list(slices, "items") {
        let admin_port =
            list(slice, "ports").find(|port| port["name"] == "admin").and_then(|port| port["port"].as_u64());
        let stay = list(slice, "endpoints").filter(|endpoint| endpoint["conditions"]["terminating"] != true);
        found.extend(stay.map(|endpoint| {
            let address = endpoint["addresses"][0].as_str().unwrap_or_default();
            let name = endpoint["targetRef"]["name"].as_str().unwrap_or(address).to_owned();
            Endpoint { name, admin_port, is_ready: endpoint["conditions"]["ready"] != false }
        }));
    }
    found
}

/// The servers that have an address, at least one.
fn servers<'f>(seen: &Seen<'f>) -> Result<&'f [Server], Finding> {
    seen.service()?;
    seen.facts.endpoints.as_ref().map_err(unread)?;
    match seen.facts.servers.as_slice() {
        [] if are_ready(seen) => {
            Err(unread(&"the Service selects no server: see the line `endpoints`".into()))
        }
        [] => Err(unread(&"no server runs: see the line `release`".into())),
        servers => Ok(servers),
    }
}

/// Returns whether the Deployment has ready servers, which the Service may not select.
pub(super) fn are_ready(seen: &Seen<'_>) -> bool {
    let ready = seen.release.deployment.and_then(|deployment| deployment["status"]["readyReplicas"].as_u64());
    ready.is_some_and(|ready| ready > 0)
}

/// Compares the policies that this version loads with those that each server has in use.
pub(super) fn policies(seen: &Seen<'_>) -> Found {
    seen.deployment()?;
    if let Err(error) = &seen.facts.policies
        && is_wrong(error)
    {
        let remedy = "`fabric-injector policy check` shows each error; a server keeps the previous policies";
        return fail(format!("cannot be loaded: {error}"), remedy);
    }
    let loaded: BTreeSet<&str> = seen.policies()?.policies().iter().map(Policy::stamp).collect();
    let mut others: BTreeMap<BTreeSet<String>, Vec<&str>> = BTreeMap::new();
    let servers = servers(seen)?;
    if servers.iter().all(|server| !server.is_ready) {
        return Err(unread(&"no server is ready: see the line `servers`".into()));
    }
    for server in servers.iter().filter(|server| server.is_ready) {
        let in_use = server.in_use.as_ref().map_err(|error| match error {
            Unread::Forbidden(_) => unread(error),
            _ => unread(&"a server does not answer: see the line `servers`".into()),
        })?;
        let in_use = list(in_use, "policies");
        let in_use: BTreeSet<String> =
            in_use.map(|policy| format!("{}@{}", text(policy, "name"), text(policy, "digest"))).collect();
        if !in_use.iter().map(String::as_str).eq(loaded.iter().copied()) {
            others.entry(in_use).or_default().push(&server.name);
        }
    }
    if others.is_empty() {
        return ok(format!("{} in use", names(loaded)));
    }
    let others = others.iter().map(|(in_use, servers)| {
        let in_use = if in_use.is_empty() { "none".to_owned() } else { names(in_use) };
        let have = if servers.len() > 1 { "have" } else { "has" };
        format!("{} {have} in use: {in_use}", names(servers))
    });
    warn(
        format!("the ConfigMaps have {}\n{}", names(loaded), others.collect::<Vec<_>>().join("\n")),
        "after a change, wait a minute for the kubelet to update the files; else see the log for `reload failed`",
    )
}

/// Whether each server answers, in the mode that is configured, and its checks that do not pass.
pub(super) fn state(seen: &Seen<'_>) -> Found {
    let configured = match seen.release.deployment {
        Some(_) => seen.release.option("--mode").next().unwrap_or(Mode::Inject.name()),
        None if seen.probe.audit => Mode::Audit.name(),
        None => Mode::Inject.name(),
    };
    let servers = servers(seen)?;
    let mut names_of: BTreeMap<Finding, Vec<&str>> = BTreeMap::new();
    for server in servers {
        for problem in of_server(server, configured)? {
            names_of.entry(problem).or_default().push(&server.name);
        }
    }
    let problems: Vec<Finding> = names_of
        .into_iter()
        .map(|((status, told, remedy), servers)| {
            let each = if servers.len() > 1 { "each of " } else { "" };
            (status, format!("{each}{} {told}", names(servers)), remedy)
        })
        .collect();
    if problems.is_empty() {
        let reports = servers.iter().flat_map(|server| &server.ready).flat_map(|report| report.lines());
        let passed: BTreeSet<&str> = reports.filter_map(|line| line.strip_prefix("[+]")).collect();
        let passed: Vec<&str> = passed.into_iter().collect();
        let count = counted(servers.len(), "server");
        return ok(format!("{count} in the mode `{configured}`: {}", passed.join("; ")));
    }
    let has_failed = problems.iter().any(|(status, ..)| *status == Status::Fail);
    let texts: Vec<&str> = problems.iter().map(|(_, text, _)| text.as_str()).collect();
    let remedies: BTreeSet<&str> = problems.iter().map(|(.., remedy)| remedy.as_str()).collect();
    let remedies = remedies.into_iter().collect::<Vec<_>>().join("; ");
    found(if has_failed { Status::Fail } else { Status::Warn }, texts.join("\n"), remedies)
}

/// The remedy for what a new server does not have, and a server of before the upgrade has.
const WAIT: &str = "during an upgrade, wait until all replicas are replaced; else see the log of the servers";

/// The problems of a server, or that it may not be asked.
fn of_server(Server { ready, in_use, .. }: &Server, configured: &str) -> Result<Vec<Finding>, Finding> {
    let (report, in_use) = match (ready, in_use) {
        (Err(error @ Unread::Forbidden(_)), _) | (_, Err(error @ Unread::Forbidden(_))) => {
            return Err(unread(error));
        }
        (Err(error), _) | (_, Err(error)) => {
            return Ok(vec![(Status::Fail, format!("does not answer: {error}"), WAIT.to_owned())]);
        }
        (Ok(report), Ok(in_use)) => (report, in_use),
    };
    let mut problems = Vec::new();
    let mode = text(in_use, "mode");
    if mode.is_empty() {
        let told = "does not report its mode: it runs an earlier version".to_owned();
        problems.push((Status::Warn, told, WAIT.to_owned()));
    } else if mode != configured {
        let told = format!("is in the mode `{mode}`, and `{configured}` is configured");
        problems.push((Status::Fail, told, WAIT.to_owned()));
    }
    let is_passed = |line: &&str| line.starts_with("[+]") || line.ends_with("ready");
    let failed: Vec<&str> = report.lines().filter(|line| !is_passed(line)).collect();
    if !failed.is_empty() {
        // Without current nodes, a server injects pods by those that it knew, or lets them run without the fabric.
        let is_grave = |line: &&str| {
            line.starts_with("[-]") || watches().any(|watch| line.starts_with(&format!("[!]{watch}")))
        };
        let status = if failed.iter().any(is_grave) { Status::Fail } else { Status::Warn };
        let told = format!("reports\n{}", first(&failed));
        problems.push((status, told, remedy(&failed).to_owned()));
    }
    Ok(problems)
}

/// The first failed checks of a report, each with the lines below it: one missing right fails them all.
fn first(failed: &[&str]) -> String {
    const MOST: usize = 3;
    let begins: Vec<usize> = (0..failed.len()).filter(|at| failed[*at].starts_with('[')).collect();
    match begins.get(MOST) {
        None => failed.join("\n"),
        Some(end) => format!("{}\nand {} more", failed[..*end].join("\n"), begins.len() - MOST),
    }
}

/// The watches of a server, by their names in `/readyz`.
fn watches() -> impl Iterator<Item = &'static str> {
    ["nodes", "resource-slices"].into_iter().chain(ObjectKind::all().map(|kind| kind.api().name.as_str()))
}

/// The remedy for failed lines of `/readyz?verbose`.
fn remedy(failed: &[&str]) -> &'static str {
    let has = |text: &str| failed.iter().any(|line| line.contains(text));
    match () {
        () if watches().any(|watch| has(&format!("]{watch}: "))) => {
            "correct what the lines name: without a list of nodes, pods do not get the fabric or are denied; with an old \
             one, they may get that of other nodes"
        }
        () if has("]events: ") => {
            "compare the ClusterRole of the release with the suffix `-events` and its binding with those of the chart, and \
             see whether a quota refuses Events"
        }
        () if has("]claims: ") => "delete the objects that no pod uses",
        () if has("]certificate: not valid before") => CLOCKS,
        () if has("]certificate: expired") => "renew it: see the line `certificate`",
        () if has("the last reload failed") => "correct the file that the error names",
        () => WAIT,
    }
}

/// Counts the nodes with GPUs by the policy that their pods get, and their problems.
pub(super) fn nodes(seen: &Seen<'_>) -> Found {
    seen.deployment()?;
    if seen.release.option("--watch-nodes").next().is_none() {
        return ok("the servers do not watch nodes");
    }
    let nodes = seen.facts.nodes.as_ref().map_err(unread)?;
    let pools = pools(seen.policies()?, Sources { values: None, sets: &BTreeMap::new() }, nodes, None);
    let mut by_policy: BTreeMap<&str, usize> = BTreeMap::new();
    for pool in &pools {
        *by_policy.entry(pool.policy.as_deref().unwrap_or("no policy")).or_default() += pool.nodes;
    }
    let of_policies = by_policy.iter().map(|(policy, nodes)| format!("; {nodes} with GPUs get {policy}"));
    let unwatched = seen.release.option("--unwatched").map(|kinds| format!("; not watched: {kinds}"));
    let about = of_policies.chain(unwatched).collect::<String>();
    let counts = format!("{}{about}", counted(nodes.len(), "node"));
    match pools.iter().map(|pool| pool.problems.len()).sum() {
        0 => ok(counts),
        problems => warn(
            format!("{counts}; {}", counted(problems, "problem")),
            "`fabric-injector nodes` shows the pools, and each problem",
        ),
    }
}
