//! The policies of the installation, and what a server says about itself.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::policy::Policy;

use super::{Facts, Line, Release, is_forbidden, names};

/// Compares the policies that this version loads with those that a server has in use.
pub(super) fn policies(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "policies";
    if release.deployment.is_none() {
        return Line::without(CHECK, "the Deployment");
    }
    let loaded = match &facts.policies {
        Ok(loaded) => loaded,
        Err(error) if is_forbidden(error) => return Line::unread(CHECK, error),
        Err(error) => {
            let remedy =
                "`fabric-injector policy check` shows each error; a server keeps the policies from before";
            return Line::fail(CHECK, format!("cannot be loaded: {error}"), remedy);
        }
    };
    let loaded: BTreeSet<String> =
        loaded.policies().iter().map(|policy| Policy::stamp(policy).to_owned()).collect();
    let shown = |stamps: &BTreeSet<String>| names(stamps.iter().map(String::as_str));
    let in_use = match &facts.in_use {
        Ok(in_use) => in_use,
        Err(error) => {
            let line = Line::unread(CHECK, error);
            return Line {
                seen: format!("{} can be loaded; of the server {}", shown(&loaded), line.seen),
                ..line
            };
        }
    };
    let text = |policy: &Value, key: &str| policy[key].as_str().unwrap_or_default().to_owned();
    let in_use = in_use["policies"].as_array().into_iter().flatten();
    let in_use: BTreeSet<String> =
        in_use.map(|policy| format!("{}@{}", text(policy, "name"), text(policy, "digest"))).collect();
    if loaded == in_use {
        return Line::ok(CHECK, format!("{} in use", shown(&loaded)));
    }
    let seen = format!("a server has {} in use, and the ConfigMaps have {}", shown(&in_use), shown(&loaded));
    let remedy = "after a change, wait a minute for the kubelet to update the files; else see the line `servers` and the \
                  log for `reload failed`";
    Line::warn(CHECK, seen, remedy)
}

/// The checks of a server that do not pass.
pub(super) fn state(facts: &Facts) -> Vec<Line> {
    const CHECK: &str = "servers";
    let text = match &facts.ready {
        Ok(text) => text,
        Err(error) => return vec![Line::unread(CHECK, error)],
    };
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines() {
        if let Some(reported) = line.strip_prefix("[-]") {
            lines.push(Line::fail(CHECK, format!("a server reports {reported}"), ""));
        } else if let Some(reported) = line.strip_prefix("[!]") {
            // The server is ready all the same.
            lines.push(Line::warn(CHECK, format!("a server reports {reported}"), ""));
        } else if let (Some(detail), Some(last)) = (line.strip_prefix("    "), lines.last_mut()) {
            last.seen.push_str(&format!("\n{detail}"));
        }
    }
    if lines.is_empty() {
        let checks = text.lines().filter_map(|line| line.strip_prefix("[+]")).collect::<Vec<_>>().join("; ");
        lines.push(Line::ok(CHECK, format!("a server reports {checks}")));
    }
    lines
}
