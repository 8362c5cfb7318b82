//! The relevant fields of a Node, a `ResourceSlice`, or an object that says what claims bring. `managedFields`, the images on a node and the rest are most of
//! its text, and are skipped while it is read.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The objects that the watcher reads.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Fields")]
pub(super) struct Object {
    /// Only name and namespace, and the resource version from which the watcher continues.
    metadata: ObjectMeta,
    /// The fields that [`fabric_policy::nodes`] reads.
    pub(super) value: Value,
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
    name: Option<String>,
    namespace: Option<String>,
    labels: Value,
    #[serde(skip_serializing)]
    resource_version: Option<String>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Value,
    taints: Value,
    // Those of a ResourceSlice.
    driver: Value,
    node_name: Value,
    pool: Value,
    devices: Value,
    // That of a ResourceClaimTemplate.
    #[serde(rename = "spec")]
    of_claims: Value,
    // That of a ComputeDomain.
    channel: Value,
    // Those of a DeviceClass.
    selectors: Value,
    config: Value,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Status {
    capacity: Value,
    allocatable: Value,
    conditions: Value,
}

impl From<Fields> for Object {
    fn from(mut fields: Fields) -> Self {
        let resource_version = fields.metadata.resource_version.take();
        let name = fields.metadata.name.clone();
        let namespace = fields.metadata.namespace.clone();
        let metadata = ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() };
        Self { metadata, value: serde_json::to_value(fields).unwrap_or_default() }
    }
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
