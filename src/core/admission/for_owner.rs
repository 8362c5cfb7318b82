//! What the owner of a pod has to know: the warnings about the pod go to a controller, which drops them.

use serde_json::{Value, json};

use crate::core::engine::{Mutation, Outcome};

use super::response::{MAX_MESSAGE, cut};
use super::review::AdmissionRequest;

/// The most warnings of one pod.
const MOST: usize = 8;
/// The length of a name or a uid, which comes from the author of the pod.
const MAX_NAME: usize = 253;

/// Warnings about an injected pod for the controller that owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForOwner {
    /// The reference to the owner, with its namespace.
    pub owner: Value,
    /// The code and the text of each warning that asks for action.
    pub warnings: Vec<(String, String)>,
}

impl ForOwner {
    pub(super) fn of<O>(request: &AdmissionRequest<O>, mutation: &Mutation) -> Option<Self> {
        let Outcome::Mutated(mutated) = &mutation.outcome else { return None };
        let asking = mutation.warnings.iter().filter(|warning| warning.asks_for_action());
        let asking = asking.map(|warning| (warning.code().to_owned(), cut(warning.to_string(), MAX_MESSAGE)));
        let warnings: Vec<_> = asking.take(MOST).collect();
        let namespace = request.namespace.as_deref()?;
        if warnings.is_empty() || request.dry_run == Some(true) {
            return None;
        }
        let owners = mutated.pod["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        let text = |key: &str| owner[key].as_str().filter(|text| text.len() <= MAX_NAME);
        let owner = json!({
            "apiVersion": text("apiVersion")?, "kind": text("kind")?, "name": text("name")?, "uid": text("uid")?,
            "namespace": namespace,
        });
        Some(Self { owner, warnings })
    }
}
