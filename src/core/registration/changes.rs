//! The changes that an object of the cluster needs: named fields, and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::jsonptr::{PointerBuf, Token};
use json_patch::{AddOperation, Patch, PatchError, PatchOperation, ReplaceOperation};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Condition;

/// The annotation with the hash of the condition that a replica registered last. It distinguishes the condition of a
/// replica with other policies from one that another client wrote.
const LAST_APPLIED: &str = "fabric-injector.io/last-applied-hash";

/// The annotation with the Secret of the replicas that manage a configuration. Helm sets it together with `caBundle`,
/// so that replicas that still run do not overwrite a certificate from another source.
const CERTIFICATE_SECRET: &str = "fabric-injector.io/certificate-secret";

/// Returns whether the replicas that share this Secret manage a configuration.
pub(crate) fn is_managed_by(configuration: &Value, secret: &str) -> bool {
    configuration["metadata"]["annotations"][CERTIFICATE_SECRET] == secret
}

/// The client that wrote the registered condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOwner {
    /// A replica with the same policies: the condition is the wanted one.
    ThisReplica,
    /// A replica with other policies.
    OtherReplica,
    /// Another client, or none: there is no condition.
    Unmanaged,
}

impl ConditionOwner {
    /// The owner of the condition in a webhook configuration, where this replica wants `wanted`.
    pub fn of(configuration: &Value, wanted: &Condition) -> Self {
        let registered =
            entries(configuration).map(|(_, entry)| expression(&entry["matchConditions"], wanted.name));
        let registered: Vec<Option<&str>> = registered.collect();
        if registered.iter().all(|one| *one == Some(wanted.expression.as_str())) {
            return Self::ThisReplica;
        }
        let last_applied = configuration["metadata"]["annotations"][LAST_APPLIED].as_str();
        let first = registered.first().copied().flatten();
        let is_last_applied = first.is_some_and(|first| last_applied == Some(&hash(first)))
            && registered.iter().all(|one| *one == first);
        if is_last_applied { Self::OtherReplica } else { Self::Unmanaged }
    }
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

/// The patch that sets the CAs in each entry, and the condition, if one is given. It is empty if they are set, and
/// fails with a conflict if the object has changed since it was read.
pub fn webhook_changes(configuration: &Value, ca_bundle: &str, condition: Option<&Condition>) -> Patch {
    let mut changes = Changes::default();
    let encoded = STANDARD.encode(ca_bundle);
    for (at, entry) in entries(configuration) {
        let at = at.to_string();
        if entry["clientConfig"]["caBundle"].as_str() != Some(&encoded) {
            changes.put(&["webhooks", &at, "clientConfig", "caBundle"], json!(encoded));
        }
        if let Some(condition) = condition {
            changes.condition(&["webhooks", &at], entry, condition);
        }
    }
    if let Some(condition) = condition {
        changes.last_applied(configuration, condition);
    }
    changes.of_this_version(configuration)
}

/// The patch that sets the conditions of a guard. It is empty if they are set.
pub fn guard_changes(guard: &Value, conditions: &[Condition]) -> Patch {
    guard_changes_of_any_version(guard, conditions).of_this_version(guard)
}

fn guard_changes_of_any_version(guard: &Value, conditions: &[Condition]) -> Changes {
    let mut changes = Changes::default();
    // The second condition goes into the list that the first one creates.
    let mut spec = guard["spec"].clone();
    for condition in conditions {
        changes.condition(&["spec"], &spec, condition);
        if !spec["matchConditions"].is_array() {
            spec["matchConditions"] = json!([]);
        }
    }
    changes
}

/// Sets the condition of a new webhook configuration, with its hash.
pub(crate) fn register(configuration: &mut Value, condition: &Condition) -> Result<(), PatchError> {
    let mut changes = Changes::default();
    for (at, entry) in entries(configuration) {
        changes.condition(&["webhooks", &at.to_string()], entry, condition);
    }
    changes.last_applied(configuration, condition);
    json_patch::patch(configuration, &changes.0)
}

/// Sets the conditions of a new guard.
pub(crate) fn register_guard(guard: &mut Value, conditions: &[Condition]) -> Result<(), PatchError> {
    let changes = guard_changes_of_any_version(guard, conditions);
    json_patch::patch(guard, &changes.0)
}

fn entries(configuration: &Value) -> impl Iterator<Item = (usize, &Value)> {
    configuration["webhooks"].as_array().into_iter().flatten().enumerate()
}

fn expression<'c>(conditions: &'c Value, name: &str) -> Option<&'c str> {
    let conditions = conditions.as_array()?;
    conditions.iter().find(|condition| condition["name"] == name)?["expression"].as_str()
}

fn hash(expression: &str) -> String {
    let digest = Sha256::digest(expression);
    let bytes = digest.iter().take(6).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    format!("{bytes:012x}")
}

#[derive(Debug, Default)]
struct Changes(Vec<PatchOperation>);

impl Changes {
    fn put(&mut self, path: &[&str], value: Value) {
        let path = PointerBuf::from_tokens(path.iter().map(|token| Token::new(*token)));
        self.0.push(PatchOperation::Add(AddOperation { path, value }));
    }

    /// Sets one condition in the list of `parent`, and keeps those of other names.
    fn condition(&mut self, place: &[&str], parent: &Value, condition: &Condition) {
        let wanted = json!({"name": condition.name, "expression": condition.expression});
        let place: Vec<&str> = place.iter().copied().chain(["matchConditions"]).collect();
        let Some(conditions) = parent["matchConditions"].as_array() else {
            return self.put(&place, json!([wanted]));
        };
        match conditions.iter().position(|one| one["name"] == condition.name) {
            Some(at) if conditions[at]["expression"] == wanted["expression"] => {}
            Some(at) => self
                .put(&[&place[..], &[&at.to_string(), "expression"]].concat(), wanted["expression"].clone()),
            None => self.put(&[&place[..], &["-"]].concat(), wanted),
        }
    }

    fn last_applied(&mut self, configuration: &Value, condition: &Condition) {
        let hash = hash(&condition.expression);
        match configuration["metadata"]["annotations"].as_object() {
            None => self.put(
                &["metadata", "annotations"],
                Value::Object(Map::from_iter([(LAST_APPLIED.to_owned(), json!(hash))])),
            ),
            Some(annotations) if annotations.get(LAST_APPLIED) == Some(&json!(hash)) => {}
            Some(_) => self.put(&["metadata", "annotations", LAST_APPLIED], json!(hash)),
        }
    }

    fn of_this_version(self, object: &Value) -> Patch {
        if self.0.is_empty() {
            return Patch::default();
        }
        // `replace` rather than `test`: the API server answers a failed test with 422, and another version with 409.
        let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
        let value = object["metadata"]["resourceVersion"].clone();
        let version = PatchOperation::Replace(ReplaceOperation { path, value });
        Patch(std::iter::once(version).chain(self.0).collect())
    }
}
