//! Reading an AdmissionReview.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};

use crate::core::policy::Policy;
use crate::core::validate;

/// The version of AdmissionReview that is answered.
pub(super) const V1: &str = "admission.k8s.io/v1";

/// A body that is no AdmissionReview that could be answered as such.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReview {
    /// It is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, but not of the shape of an AdmissionReview.
    #[error("the body is not an AdmissionReview: {0}")]
    NotReview(String),
    /// It is another kind of object.
    #[error("the body is a `{kind}` of `{api_version}`; send an AdmissionReview of `{V1}`")]
    OtherKind {
        /// Its version.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// It is an AdmissionReview without a request.
    #[error("the AdmissionReview has no `request`")]
    NoRequest,
    /// The request has no uid, by which its answer would be known.
    #[error("the request of the AdmissionReview has no `uid`")]
    NoUid,
    /// The uid is longer than any that an API server makes.
    #[error("the `uid` of the request is longer than {MAX_UID} bytes")]
    LongUid,
}

/// An answer repeats the uid, so that it must not be of any length. That of an API server has 36 bytes.
const MAX_UID: usize = 256;
/// As much as an answer repeats of what else a stranger sent.
const MAX_SHOWN: usize = 256;

/// A structure that is written as a map. Serde would read one from a list as well.
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
    // By name, since `Option<O>` inside of a generic type would ask for `O: Default`.
    #[serde(default = "Option::default")]
    request: Option<OnlyMap<AdmissionRequest<O>>>,
}

/// The `request` of an AdmissionReview, as far as it is looked at. `O` is what its object is read as.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest<O> {
    /// By this the API server knows the answer.
    pub(super) uid: String,
    /// What is created, changed or deleted.
    pub(super) kind: GroupVersionKind,
    /// `status`, `binding` and the like; none for the object itself.
    #[serde(default)]
    pub(super) sub_resource: Option<String>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(super) operation: String,
    /// Absent when the API server will make a name of `generateName`.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The namespace; that of the object may be empty still.
    #[serde(default)]
    pub(super) namespace: Option<String>,
    /// Nothing will be stored. Makes no difference: there are no side effects.
    #[serde(default)]
    #[expect(dead_code, reason = "read so that one of another type, or two of them, are refused")]
    dry_run: Option<bool>,
    /// The object, absent when it is deleted.
    #[serde(default = "Option::default")]
    pub(super) object: Option<O>,
}

/// Group, version and kind of an object.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct GroupVersionKind {
    /// Empty for the core group.
    #[serde(default)]
    pub(super) group: String,
    /// The version.
    #[serde(default)]
    #[expect(dead_code, reason = "read so that one of another type, or two of them, are refused")]
    version: String,
    /// The kind.
    pub(super) kind: String,
}

impl<O> AdmissionRequest<O> {
    pub(super) fn creates_pod(&self) -> bool {
        creates_pod(&self.operation, &self.kind.group, &self.kind.kind, self.sub_resource.as_deref())
    }
}

/// Whether a request creates a pod. Anything else is not ours to change: most of a pod's spec is immutable once it
/// exists.
pub(crate) fn creates_pod(operation: &str, group: &str, kind: &str, sub_resource: Option<&str>) -> bool {
    operation == "CREATE" && kind == "Pod" && group.is_empty() && sub_resource.is_none_or(str::is_empty)
}

/// Reads a review: the version that it names, and its request.
pub(super) fn read<O: DeserializeOwned>(body: &str) -> Result<(String, AdmissionRequest<O>), BadReview> {
    let OnlyMap::<Envelope<O>>(envelope) = serde_json::from_str(body).map_err(|error| {
        if error.is_data() {
            BadReview::NotReview(shown(&error.to_string()))
        } else {
            BadReview::NotJson(shown(&error.to_string()))
        }
    })?;
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

/// As much of what a stranger sent as an answer may repeat.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

/// A review of a pod that a policy serves: something to try a server with.
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
