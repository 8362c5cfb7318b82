//! The nodes that reviews use, and what the server reports about them. They affect readiness only before the first list,
//! if they choose the provider: otherwise a pod is injected without them, too.

use std::sync::Arc;

use crate::core::policy_set::PolicySet;
use crate::shell::cluster::{NodeWatch, STALE_FOR, WatchState, Watched};

use super::state::State;

/// Watches the nodes until the task is aborted.
pub(super) async fn run(watch: NodeWatch, state: Arc<State>) {
    let publish = |watched: Watched| {
        let (name, nodes) = (watched.state.name(), watched.count());
        state.metrics.nodes_in_use(name, nodes);
        let watched = Arc::new(watched);
        let before = state.nodes.swap(Arc::clone(&watched));
        if let Some(error) =
            watched.slices_error.as_ref().filter(|_| before.slices_error != watched.slices_error)
        {
            tracing::warn!(error, "the watch of the ResourceSlices failed");
        }
        if before.state == watched.state {
            return;
        }
        match &watched.error {
            None => tracing::info!(state = name, nodes, "watch of the nodes"),
            Some(error) => tracing::warn!(state = name, nodes, error, "the watch of the nodes failed"),
        }
    };
    watch.run(publish).await;
}

/// Returns whether the nodes are known as far as the policies need them. Without the permission to read them, a server is
/// ready, and skips the pods with a reason.
pub(super) fn are_known(watched: &Watched, policies: &PolicySet) -> bool {
    !policies.needs_nodes() || watched.state != WatchState::Starting
}

/// The lines about the nodes in `/readyz?verbose`; none if they are not watched. `known` is the result of
/// [`are_known`].
pub(super) fn lines(watched: &Watched, known: bool) -> String {
    let nodes = watched.count();
    let (mark, detail) = match watched.state {
        WatchState::Off => return String::new(),
        WatchState::Starting => {
            (if known { "[+]" } else { "[-]" }, "none in use before the first list has ended".to_owned())
        }
        WatchState::Watching => ("[+]", format!("{nodes} in use")),
        WatchState::Stale => {
            let time = humantime::format_duration(STALE_FOR);
            ("[!]", format!("the watch failed, the last {nodes} stay in use for {time}"))
        }
        WatchState::Unavailable => ("[!]", "the watch failed, none in use".to_owned()),
        WatchState::Forbidden => ("[!]", "the permission is missing, none in use".to_owned()),
    };
    let nodes = format!("{mark}nodes: {detail}\n{}", below(watched.error.as_deref()));
    match watched.slices_error.as_deref() {
        None => nodes,
        error => format!("{nodes}[!]resource-slices: the watch failed\n{}", below(error)),
    }
}

fn below(error: Option<&str>) -> String {
    error.into_iter().flat_map(str::lines).fold(String::new(), |all, line| all + "    " + line + "\n")
}
