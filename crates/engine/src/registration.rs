//! The registration of the webhook and of the guard.
//!
//! Their conditions are generated from the policies in use. The API server and the engine therefore agree about the
//! pods that a policy matches. The chart has the same forms; a test compares both. Servers write `caBundle` only.

mod conditions;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use serde_json::{Value, json};

pub use conditions::{ASKS, MATCHES, advice_condition, forms, guard_conditions, webhook_conditions};

/// One of the `matchConditions` of a webhook or of a ValidatingAdmissionPolicy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The name, which identifies the condition in an object.
    pub name: &'static str,
    /// The expression, in CEL.
    pub expression: String,
}

/// The annotation with the Secret of the replicas that manage a configuration. Helm sets it together with `caBundle`,
/// so replicas that still run do not overwrite a certificate from another source.
const CERTIFICATE_SECRET: &str = "fabric-injector.io/certificate-secret";

/// Returns whether the replicas that share this Secret manage a configuration.
pub fn is_managed_by(configuration: &Value, secret: &str) -> bool {
    configuration["metadata"]["annotations"][CERTIFICATE_SECRET] == secret
}

/// Name and namespace of the Service in a webhook configuration.
pub fn service(configuration: &Value) -> Option<(&str, &str)> {
    let service = &configuration["webhooks"][0]["clientConfig"]["service"];
    Some((service["name"].as_str()?, service["namespace"].as_str()?))
}

/// The registered CAs, PEM, if they are the same in every entry.
pub fn ca_bundle(configuration: &Value) -> Option<String> {
    let mut bundles = entries(configuration).map(|(_, entry)| entry["clientConfig"]["caBundle"].as_str());
    let first = bundles.next()??;
    if bundles.any(|other| other != Some(first)) {
        return None;
    }
    String::from_utf8(STANDARD.decode(first).ok()?).ok()
}

/// The name of a registered condition whose expression differs from that in `conditions`, of a webhook configuration or
/// a ValidatingAdmissionPolicy. A condition under another name belongs to the operator.
pub fn differing_condition(object: &Value, conditions: &[Condition]) -> Option<&'static str> {
    let registered = |name: &str| {
        let parents = entries(object).map(|(_, entry)| entry).chain([&object["spec"]]);
        parents
            .flat_map(|parent| parent["matchConditions"].as_array().into_iter().flatten())
            .find(|registered| registered["name"] == name)
    };
    let differs = |condition: &&Condition| {
        registered(condition.name).is_some_and(|registered| registered["expression"] != condition.expression)
    };
    conditions.iter().find(differs).map(|condition| condition.name)
}

/// The patch that sets the CAs in each entry. It is empty if they are set, and fails with a conflict if the object has
/// changed since it was read.
pub fn ca_bundle_changes(configuration: &Value, ca_bundle: &str) -> Patch {
    let encoded = STANDARD.encode(ca_bundle);
    let differs = |entry: &Value| entry["clientConfig"]["caBundle"].as_str() != Some(&encoded);
    let changes: Vec<Value> = entries(configuration)
        .filter(|(_, entry)| differs(entry))
        .map(|(at, _)| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": encoded}))
        .collect();
    if changes.is_empty() {
        return Patch::default();
    }
    // `replace`, not `test`: a failed test is answered with 422 (`handlers/patch.go`), and another version with 409.
    let version = &configuration["metadata"]["resourceVersion"];
    let version = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version});
    let all: Vec<Value> = std::iter::once(version).chain(changes).collect();
    serde_json::from_value(all.into()).unwrap_or_default()
}

fn entries(configuration: &Value) -> impl Iterator<Item = (usize, &Value)> {
    configuration["webhooks"].as_array().into_iter().flatten().enumerate()
}
