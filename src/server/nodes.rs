//! The nodes and objects that reviews use, the report about them, and the search for objects that are absent.

use std::sync::Arc;

use tokio::time::interval;

use crate::cluster::{OtherWatch, WatchState, Watched};
use fabric_engine::admission::OnError;
use fabric_policy::objects::ObjectKind;
use fabric_yaml::counted;

use super::absent::INTERVAL;
use super::state::AppState;

/// The hint for an API server that does not answer. A missing permission has its own hint.
const UNREACHED: &str = "hint: see whether the API server responds, and whether a NetworkPolicy lets this server reach it \
                         (`networkPolicy.apiServerTo` and `networkPolicy.apiServerPorts` of the chart)";

/// Records a state of the watch, and reports each change.
pub(super) fn put_in_use(state: &AppState, watched: Watched) {
    let (name, nodes) = (watched.state.name(), watched.count());
    state.metrics.nodes_in_use(watched.state, nodes);
    let watched = Arc::new(watched);
    let before = state.nodes.swap(Arc::clone(&watched));
    for OtherWatch { kind, error, over, .. } in &watched.others {
        if kind.api().namespaced {
            state.metrics.over_bound(&kind.api().resource, over.len());
        }
        let was = before.others.iter().find(|before| before.kind == *kind);
        if let Some(error) =
            error.as_ref().filter(|error| was.and_then(|was| was.error.as_ref()) != Some(error))
        {
            tracing::warn!(error, "the watch of the {} failed", kind.api().name);
        }
    }
    if before.state == watched.state {
        return;
    }
    match &watched.error {
        None => tracing::info!(state = name, nodes, "watch of the nodes"),
        Some(error) => tracing::warn!(state = name, nodes, error, "the watch of the nodes failed"),
    }
}

/// Looks for the absent objects until the task is aborted.
pub(super) async fn look_for_absent(state: Arc<AppState>) {
    let mut ticks = interval(INTERVAL);
    loop {
        let now = ticks.tick().await;
        let (messages, counts) = state.absent.look(state.nodes.load().objects.as_deref(), now);
        for kind in ObjectKind::all() {
            state
                .metrics
                .absent_objects(&kind.api().resource, counts.get(&kind).copied().unwrap_or_default());
        }
        for message in messages {
            tracing::warn!(owner = %message.owner["name"], namespace = %message.owner["namespace"], why = message.warnings[0].1, "a pod cannot start");
            if let Some(events) = state.events.get()
                && !events.offer(message)
            {
                state.metrics.events.count("dropped");
            }
        }
    }
}

/// The check of the nodes in `/readyz`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) ok: bool,
    /// The lines of `?verbose`; none if nodes are not watched, and no policy needs them.
    pub(super) lines: String,
}

/// A server whose policies need nodes is ready once it has listed them: until then, it would deny every pod that
/// requests the fabric. A server that allows such pods is ready without them.
pub(super) fn check(watched: &Watched, are_needed: bool, on_error: OnError) -> Check {
    let lack = are_needed && watched.nodes.is_none();
    let ok = !lack || on_error == OnError::Allow;
    let since = watched.since.map(|at| format!(" at {}", humantime::format_rfc3339_seconds(at)));
    let since = since.unwrap_or_default();
    let nodes = watched.count();
    let (mark, detail) = match watched.state {
        WatchState::Off if !lack => return Check { ok, lines: String::new() },
        WatchState::Off => ("[!]", "not watched".to_owned()),
        WatchState::Starting => ("[+]", format!("none in use, the first list began{since}")),
        WatchState::Unavailable => ("[!]", "none in use, the first list failed".to_owned()),
        WatchState::Watching => ("[+]", format!("{nodes} in use")),
        WatchState::Stale => ("[!]", format!("the watch failed{since}, the last {nodes} stay in use")),
    };
    let (mark, need) = match (ok, lack) {
        (false, _) => ("[-]", ", and policies of several providers need them"),
        (true, true) => ("[!]", ", and policies of several providers need them"),
        (true, false) => (mark, ""),
    };
    let mut lines = format!("{mark}nodes: {detail}{need}\n{}", indented(watched.error.as_deref()));
    let has_hint = watched.error.as_ref().is_some_and(|error| error.contains("\nhint: "));
    match watched.state {
        WatchState::Off => lines += &indented(Some("hint: start the server with `--watch-nodes`")),
        _ if mark != "[+]" && !has_hint => lines += &indented(Some(UNREACHED)),
        _ => {}
    }
    for other in &watched.others {
        if let Some(error) = &other.error {
            lines += &format!("[!]{}: the watch failed\n{}", other.kind.api().name, indented(Some(error)));
        }
        if let Some(first) = other.over.first() {
            let (over, resource) = (counted(other.over.len(), "namespace"), &other.kind.api().resource);
            let has = format!("[!]claims: {over} with too many {resource}, such as `{first}`");
            lines += &format!("{has}: names decide about claims beyond the bound\n");
        }
    }
    Check { ok, lines }
}

fn indented(error: Option<&str>) -> String {
    error.into_iter().flat_map(str::lines).fold(String::new(), |all, line| all + "    " + line + "\n")
}
