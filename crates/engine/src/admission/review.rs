//! Parses an AdmissionReview.
//!
//! It does not use the type of `kube-core`, which builds every part of the request. Here, most objects are only passed
//! over, and an `oldObject` always is.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};

use crate::validate;
use fabric_policy::Policy;

/// The supported version of AdmissionReview.
pub(super) const V1: &str = "admission.k8s.io/v1";

/// A body that cannot be answered with an AdmissionReview.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadReview {
    /// It is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// It is JSON without the fields of an AdmissionReview.
    #[error("the body is not an AdmissionReview: {0}")]
    NotReview(String),
    /// It is another kind of object.
    #[error("the body is a `{kind}` of `{api_version}`; send an AdmissionReview of `{V1}`")]
    OtherKind { api_version: String, kind: String },
    /// It is an AdmissionReview without a request.
    #[error("the AdmissionReview has no `request`")]
    NoRequest,
    /// The request has no uid, which the response must repeat.
    #[error("the request of the AdmissionReview has no `uid`")]
    NoUid,
    /// The uid is longer than those of an API server.
    #[error("the `uid` of the request is longer than {MAX_UID} bytes")]
    LongUid,
}

/// The length of a uid, which the response repeats. Those of an API server have 36 bytes.
const MAX_UID: usize = 256;
/// The length of any other part of a request in a message.
const MAX_SHOWN: usize = 256;

/// A structure that is written as a map. Serde would also read one from a list.
#[derive(Debug)]
struct OnlyMap<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OnlyMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = OnlyMap<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OnlyMap<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OnlyMap)
            }
        }

        deserializer.deserialize_map(Read(PhantomData))
    }
}

impl From<serde_json::Error> for BadReview {
    fn from(error: serde_json::Error) -> Self {
        let text = shown(&error.to_string());
        if error.is_data() { Self::NotReview(text) } else { Self::NotJson(text) }
    }
}

impl BadReview {
    /// The stable code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotJson(_) => "not_json",
            Self::NotReview(_) | Self::OtherKind { .. } => "not_a_review",
            Self::NoRequest | Self::NoUid | Self::LongUid => "no_request",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<O> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<OnlyMap<AdmissionRequest<O>>>,
}

/// The fields of the `request` of an AdmissionReview that the webhook reads. `O` is the type of its object.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest<O> {
    /// The identifier that the response repeats.
    pub(super) uid: String,
    /// The kind of the object.
    pub(super) kind: GroupVersionKind,
    /// A subresource such as `status` or `binding`; none for the object itself.
    pub(super) sub_resource: Option<String>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(super) operation: String,
    /// Absent if the API server generates the name from `generateName`.
    pub(super) name: Option<String>,
    /// The namespace, which may be absent from the object.
    pub(super) namespace: Option<String>,
    /// The requester.
    user_info: Option<UserInfo>,
    /// True for a dry run: the answer must be the only effect.
    pub(super) dry_run: Option<bool>,
    /// Absent if the object is deleted.
    pub(super) object: Option<O>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct GroupVersionKind {
    /// Empty for the core group.
    #[serde(default)]
    pub(super) group: String,
    #[serde(default)]
    #[expect(dead_code, reason = "read so that one of another type, or two of them, are refused")]
    version: String,
    pub(super) kind: String,
}

#[derive(Debug, Clone, Deserialize)]
struct UserInfo {
    groups: Option<Vec<Group>>,
}

/// A group of the requester. Names of other groups take no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Group {
    #[serde(rename = "system:nodes")]
    Nodes,
    #[serde(other)]
    Other,
}

impl<O> AdmissionRequest<O> {
    /// Returns whether a kubelet sent the request.
    pub(super) fn is_by_kubelet(&self) -> bool {
        let groups = self.user_info.as_ref().and_then(|user| user.groups.as_deref());
        groups.is_some_and(|groups| groups.contains(&Group::Nodes))
    }

    pub(super) fn creates_pod(&self) -> bool {
        creates_pod(&self.operation, &self.kind.group, &self.kind.kind, self.sub_resource.as_deref())
    }
}

/// Returns whether a request creates a pod. The webhook changes nothing else: most of the spec of a pod is immutable
/// after its creation.
pub fn creates_pod(operation: &str, group: &str, kind: &str, sub_resource: Option<&str>) -> bool {
    operation == "CREATE" && kind == "Pod" && group.is_empty() && sub_resource.is_none_or(str::is_empty)
}

/// Parses the version and the request of a review.
pub(super) fn parse<'b, O: Deserialize<'b>>(
    body: &'b str,
) -> Result<(String, AdmissionRequest<O>), BadReview> {
    let OnlyMap::<Envelope<O>>(envelope) = serde_json::from_str(body).map_err(BadReview::from)?;
    let Envelope { api_version, kind, request } = envelope;
    let known = api_version.starts_with("admission.k8s.io/") && api_version.len() <= MAX_SHOWN;
    if kind != "AdmissionReview" || !known {
        return Err(BadReview::OtherKind { api_version: shown(&api_version), kind: shown(&kind) });
    }
    let OnlyMap(request) = request.ok_or(BadReview::NoRequest)?;
    if request.uid.is_empty() {
        return Err(BadReview::NoUid);
    }
    if request.uid.len() > MAX_UID {
        return Err(BadReview::LongUid);
    }
    Ok((api_version, request))
}

/// The namespace of the request in the beginning of a review: the first text under such a key. API servers write it before
/// the object, and no part before it has one.
pub(super) fn namespace(beginning: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\"namespace\"";
    memchr::memmem::find_iter(beginning, KEY).find_map(|at| {
        let after = beginning[at + KEY.len()..].trim_ascii_start().strip_prefix(b":")?;
        let text = after.trim_ascii_start().strip_prefix(b"\"")?;
        let end = memchr::memchr(b'"', text)?;
        String::from_utf8(text[..end].to_vec()).ok()
    })
}

/// The part of a text from the client that a message may contain.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

/// A review of a pod that a policy matches, to test a server with.
pub fn sample(policy: &Policy) -> Value {
    let mut pod = validate::sample(policy);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    json!({
        "apiVersion": V1,
        "kind": "AdmissionReview",
        "request": {
            "uid": "00000000-0000-4000-8000-000000000000",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": validate::context(policy).namespace.as_deref().unwrap_or("default"),
            "object": pod,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_found_before_the_object() {
        let of = |text: &str| namespace(text.as_bytes());
        let cut_off = r#"{"kind": "AdmissionReview", "request": {"uid": "1", "name": "namespace", "namespace": "a", "object": {"#;
        assert_eq!(of(cut_off).as_deref(), Some("a"));
        for none in ["", "{", "[]", r#"{"request": {"namespace": null}}"#, r#"{"request": {"namespace": "x"#]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
