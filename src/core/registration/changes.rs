//! What has to change in an object of the cluster for it to be right: named fields, and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::jsonptr::{PointerBuf, Token};
use json_patch::{AddOperation, Patch, PatchError, PatchOperation, ReplaceOperation};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Condition;

/// Tells which condition a server registered last, so that a change by somebody else can be told from one by a
/// replica with other policies.
const MARK: &str = "fabric-injector.io/registered";

/// Which Secret holds the certificate of the servers that look after a configuration: whose it is to change. It comes
/// and goes with `caBundle`, so that whoever brings another certificate need not race with servers that are there still.
const KEEPER: &str = "fabric-injector.io/certificate-secret";

/// Whether servers that share this Secret look after a configuration.
pub fn is_kept_by(configuration: &Value, secret: &str) -> bool {
    configuration["metadata"]["annotations"][KEEPER] == secret
}

/// Whose condition is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// The wanted one.
    AsWanted,
    /// Another one, which a server put there: one with other policies.
    ByAnotherServer,
    /// Another one, which no server put there.
    ByNobody,
}

impl Marked {
    /// Whose condition a webhook configuration has.
    pub fn of(configuration: &Value, wanted: &Condition) -> Self {
        let registered =
            entries(configuration).map(|(_, entry)| expression(&entry["matchConditions"], wanted.name));
        let registered: Vec<Option<&str>> = registered.collect();
        if registered.iter().all(|one| *one == Some(wanted.expression.as_str())) {
            return Self::AsWanted;
        }
        let mark = configuration["metadata"]["annotations"][MARK].as_str();
        let first = registered.first().copied().flatten();
        let is_marked = first.is_some_and(|first| mark == Some(&digest(first)))
            && registered.iter().all(|one| *one == first);
        if is_marked { Self::ByAnotherServer } else { Self::ByNobody }
    }
}

/// Name and namespace of the Service that a webhook configuration leads to.
pub fn service(configuration: &Value) -> Option<(&str, &str)> {
    let service = &configuration["webhooks"][0]["clientConfig"]["service"];
    Some((service["name"].as_str()?, service["namespace"].as_str()?))
}

/// The CAs, PEM, by which the API server knows the webhook: those that stand in every entry.
pub fn ca_bundle(configuration: &Value) -> Option<String> {
    let mut bundles = entries(configuration).map(|(_, entry)| entry["clientConfig"]["caBundle"].as_str());
    let first = bundles.next()??;
    if bundles.any(|other| other != Some(first)) {
        return None;
    }
    String::from_utf8(STANDARD.decode(first).ok()?).ok()
}

/// What makes a webhook configuration right: the CAs in each entry, and the condition, if one is given. Empty where it
/// is right. Applies to the object as it was read and to no other version of it.
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
        changes.mark(configuration, condition);
    }
    changes.of_this_version(configuration)
}

/// What makes a guard right. Empty where it is.
pub fn guard_changes(guard: &Value, conditions: &[Condition]) -> Patch {
    guard_changes_of_any_version(guard, conditions).of_this_version(guard)
}

fn guard_changes_of_any_version(guard: &Value, conditions: &[Condition]) -> Changes {
    let mut changes = Changes::default();
    // One after the other would miss that the list was just made.
    let mut spec = guard["spec"].clone();
    for condition in conditions {
        changes.condition(&["spec"], &spec, condition);
        if !spec["matchConditions"].is_array() {
            spec["matchConditions"] = json!([]);
        }
    }
    changes
}

/// Registers the webhook of a configuration that is being made, and says that it was.
pub fn register(configuration: &mut Value, condition: &Condition) -> Result<(), PatchError> {
    let mut changes = Changes::default();
    for (at, entry) in entries(configuration) {
        changes.condition(&["webhooks", &at.to_string()], entry, condition);
    }
    changes.mark(configuration, condition);
    json_patch::patch(configuration, &changes.0)
}

/// Has a guard that is being made look at the pods that the policies are for.
pub fn register_guard(guard: &mut Value, conditions: &[Condition]) -> Result<(), PatchError> {
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

fn digest(expression: &str) -> String {
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

    /// Has one condition in the list of `parent`; those of others stay as they are.
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

    fn mark(&mut self, configuration: &Value, condition: &Condition) {
        let mark = digest(&condition.expression);
        match configuration["metadata"]["annotations"].as_object() {
            None => self.put(
                &["metadata", "annotations"],
                Value::Object(Map::from_iter([(MARK.to_owned(), json!(mark))])),
            ),
            Some(annotations) if annotations.get(MARK) == Some(&json!(mark)) => {}
            Some(_) => self.put(&["metadata", "annotations", MARK], json!(mark)),
        }
    }

    fn of_this_version(self, object: &Value) -> Patch {
        if self.0.is_empty() {
            return Patch::default();
        }
        // Not a test of it, which the API server refuses like anything that makes no sense: an object of another version
        // than the stored one is a conflict.
        let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
        let value = object["metadata"]["resourceVersion"].clone();
        let version = PatchOperation::Replace(ReplaceOperation { path, value });
        Patch(std::iter::once(version).chain(self.0).collect())
    }
}
