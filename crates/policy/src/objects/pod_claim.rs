//! The claims of a pod.

use super::ObjectKind;
use crate::claims::Requests;

/// A claim of a pod.
#[derive(Debug)]
pub struct PodClaim<'p> {
    /// The name within the pod.
    pub name: &'p str,
    /// The name of the claim, or of its template.
    pub target: &'p str,
    /// [`ObjectKind::Claim`] or [`ObjectKind::Template`].
    pub kind: ObjectKind,
    /// What the claim requests; none if that is unknown.
    pub requests: Requests,
    /// True if a policy lists a class of each request, so that names do not count.
    pub is_known: bool,
}

impl PodClaim<'_> {
    /// The names of the classes of a claim.
    pub fn classes(&self) -> impl Iterator<Item = &String> {
        self.requests.iter().flat_map(|request| &request.classes)
    }
}
