//! Groups processes into jobs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::process::Process;

/// The processes of each job: those that have a communicator in common. Releases before 2.16 do not name them, and all
/// their processes are one job.
pub(super) fn groups(processes: &[Process]) -> Vec<Vec<&Process>> {
    let mut parents: Vec<usize> = (0..processes.len()).collect();
    let mut first: HashMap<u64, usize> = HashMap::new();
    for (at, process) in processes.iter().enumerate() {
        for id in &process.communicators {
            let (mut one, mut other) = (root(&mut parents, at), *first.entry(*id).or_insert(at));
            other = root(&mut parents, other);
            if one > other {
                std::mem::swap(&mut one, &mut other);
            }
            parents[other] = one;
        }
    }
    let mut named: BTreeMap<usize, Vec<&Process>> = BTreeMap::new();
    let mut others: Vec<&Process> = Vec::new();
    for (at, process) in processes.iter().enumerate() {
        if process.communicators.is_empty() {
            others.push(process);
        } else {
            named.entry(root(&mut parents, at)).or_default().push(process);
        }
    }
    let mut groups: Vec<Vec<&Process>> = named.into_values().collect();
    let mut of_source: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        for process in group {
            of_source.entry(&process.source).or_default().insert(at);
        }
    }
    let mut strangers = Vec::new();
    for other in others {
        let near: Vec<usize> = of_source.get(other.source.as_str()).into_iter().flatten().copied().collect();
        match near.as_slice() {
            // Lines without a process belong to all jobs of their source.
            several @ [_, ..] if other.host.is_empty() && !other.is_rank() => {
                for at in several {
                    groups[*at].push(other);
                }
            }
            [at] => groups[*at].push(other),
            [] if groups.len() == 1 && !other.is_rank() => groups[0].push(other),
            _ => strangers.push(other),
        }
    }
    // A pod without a line of NCCL and without a cause proves nothing.
    let says = |process: &&Process| {
        !process.host.is_empty()
            || process.is_rank()
            || !process.causes.is_empty()
            || process.traffic.is_some()
    };
    if groups.is_empty() || strangers.iter().any(says) {
        groups.push(strangers);
    }
    groups.retain(|group| !group.is_empty());
    // An empty log is also unknown.
    if groups.is_empty() {
        groups.push(Vec::new());
    }
    groups
}

fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}
