//! A Node object, as far as it decides: `managedFields`, the images on the node and the rest are most of its text, and
//! are not kept while it is read.

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the watcher reads.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Fields")]
pub(super) struct NodeObject {
    /// Only the resource version, with which the watcher goes on.
    metadata: ObjectMeta,
    /// The fields that [`crate::core::nodes::Node`] reads.
    pub(super) node: Value,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Fields {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Value,
    labels: Value,
    #[serde(skip_serializing)]
    resource_version: Option<String>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Value,
    taints: Value,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Status {
    capacity: Value,
    conditions: Value,
}

impl From<Fields> for NodeObject {
    fn from(mut fields: Fields) -> Self {
        let resource_version = fields.metadata.resource_version.take();
        let metadata = ObjectMeta { resource_version, ..ObjectMeta::default() };
        Self { metadata, node: serde_json::to_value(fields).unwrap_or_default() }
    }
}

impl Resource for NodeObject {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
