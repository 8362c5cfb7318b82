//! The objects of an installation without Helm and kustomize: the rendered chart, with the choices of the operator.

use serde_json::{Value, json};

use fabric_engine::admission::Mode;
use fabric_engine::registration::Condition;
use fabric_yaml as yaml;

/// The rendered chart, with its default values.
const RENDERED: &str = include_str!("../../../deploy/manifests/fabric-injector.yaml");
/// The namespace in the rendered chart.
const NAMESPACE: &str = "fabric-injector";
/// The names of the guard and of its binding.
pub(crate) const GUARD: &str = "fabric-injector-guard";
/// The directory where the Deployment mounts policies of the operator.
const POLICIES: &str = "/etc/fabric-injector/policies";

/// A bug in the built-in manifests.
#[derive(Debug, thiserror::Error)]
pub enum BadChart {
    /// They cannot be parsed.
    #[error("the built-in manifests cannot be read: {}", .0.message)]
    Yaml(yaml::Error),
    /// They lack a condition.
    #[error("the built-in manifests have no condition `{0}`")]
    Condition(&'static str),
}

/// The action of the guard on a pod that was not injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardAction {
    /// There is no guard.
    None,
    /// The API server warns the client.
    Warn,
    /// The API server rejects the pod.
    Deny,
}

/// An installation with the choices of the operator.
#[derive(Debug, Clone)]
pub struct Installation {
    pub namespace: String,
    /// The image of the server.
    pub image: String,
    /// `Fail` or `Ignore`.
    pub failure_policy: &'static str,
    pub guard: GuardAction,
    pub mode: Mode,
    /// The `multinodeNetworking` block.
    pub settings: Value,
    /// The names of built-in policies that `settings` do not choose.
    pub built_in: Vec<String>,
    /// The policies of the operator: file name and text.
    pub policies: Vec<(String, String)>,
    /// The conditions of the webhook.
    pub conditions: [Condition; 2],
    /// The conditions of the guard that follow from the policies.
    pub guard_conditions: [Condition; 3],
    /// The condition of the webhook for workloads that follows from the policies.
    pub advice_condition: Condition,
}

/// The objects of the rendered chart.
pub(crate) fn rendered() -> impl Iterator<Item = Result<Value, BadChart>> {
    let documents = RENDERED.split("\n---\n").map(|one| yaml::read_value(one).map_err(BadChart::Yaml));
    documents.filter_map(|document| document.map(|manifest| manifest.root).transpose())
}

impl Installation {
    /// The objects, in the order of their creation. They include the namespace only if it is the default one: another
    /// one may have pods that violate its labels, and must not be deleted with the installation.
    pub fn objects(&self) -> Result<Vec<Value>, BadChart> {
        let mut objects = Vec::new();
        for object in rendered() {
            let mut object = object?;
            let is_guard = object["metadata"]["name"] == GUARD;
            let is_other_namespace = object["kind"] == "Namespace" && self.namespace != NAMESPACE;
            if is_guard && self.guard == GuardAction::None || is_other_namespace {
                continue;
            }
            put_namespace(&mut object, "", &self.namespace);
            self.put_choices(&mut object)?;
            if let Some(manager) = object.pointer_mut("/metadata/labels/app.kubernetes.io~1managed-by") {
                *manager = json!("fabric-injector");
            }
            objects.push(object);
        }
        if !self.policies.is_empty() {
            // The Deployment mounts it.
            objects.insert(0, self.policies_config_map());
            if self.namespace == NAMESPACE {
                objects.swap(0, 1);
            }
        }
        Ok(objects)
    }

    fn put_choices(&self, object: &mut Value) -> Result<(), BadChart> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "ConfigMap" => {
                let values = yaml::write(&json!({"multinodeNetworking": self.settings}));
                object["data"] = json!({"values.yaml": values});
            }
            "Deployment" => self.put_server(object),
            "MutatingWebhookConfiguration" => {
                object["webhooks"][0]["failurePolicy"] = json!(self.failure_policy);
                put_conditions(&mut object["webhooks"][0], &self.conditions)?;
            }
            "ValidatingWebhookConfiguration" => {
                put_conditions(&mut object["webhooks"][0], std::slice::from_ref(&self.advice_condition))?;
            }
            "ValidatingAdmissionPolicy" if object["metadata"]["name"] == GUARD => {
                let denies = self.guard == GuardAction::Deny;
                object["spec"]["failurePolicy"] = json!(if denies { "Fail" } else { "Ignore" });
                put_conditions(&mut object["spec"], &self.guard_conditions)?;
            }
            "ValidatingAdmissionPolicyBinding" if object["metadata"]["name"] == GUARD => {
                let action = if self.guard == GuardAction::Deny { "Deny" } else { "Warn" };
                object["spec"]["validationActions"] = json!([action, "Audit"]);
            }
            _ => {}
        }
        Ok(())
    }

    fn put_server(&self, deployment: &mut Value) {
        let pod = &mut deployment["spec"]["template"]["spec"];
        let server = &mut pod["containers"][0];
        server["image"] = json!(self.image);
        if let Some(arguments) = server["args"].as_array_mut() {
            // The same response, whether injection fails or the API server reaches no replica.
            let on_error = if self.failure_policy == "Ignore" { "allow" } else { "deny" };
            for (option, value) in [("--on-error=", on_error), ("--mode=", self.mode.name())] {
                let is_option = |one: &&mut Value| one.as_str().is_some_and(|one| one.starts_with(option));
                if let Some(place) = arguments.iter_mut().find(is_option) {
                    *place = json!(format!("{option}{value}"));
                }
            }
        }
        let folder = (!self.policies.is_empty()).then_some(POLICIES);
        let names = self.built_in.iter().map(String::as_str).chain(folder);
        let chosen = names.map(|name| json!(format!("--policy={name}")));
        push(&mut server["args"], chosen);
        if folder.is_none() {
            return;
        }
        push(
            &mut server["volumeMounts"],
            [json!({"name": "policies", "mountPath": POLICIES, "readOnly": true})],
        );
        let name = format!("{NAMESPACE}-policies");
        push(&mut pod["volumes"], [json!({"name": "policies", "configMap": {"name": name}})]);
    }

    fn policies_config_map(&self) -> Value {
        let files = self.policies.iter().map(|(name, text)| (name.clone(), json!(text)));
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": format!("{NAMESPACE}-policies"), "namespace": self.namespace,
                "labels": {"app.kubernetes.io/version": env!("CARGO_PKG_VERSION")},
            },
            "data": files.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// The keys of namespaces.
const NAMESPACE_KEYS: [&str; 3] = ["namespace", "values", "kubernetes.io/metadata.name"];

/// Puts the namespace of the operator in place of that of the rendered chart, in a value under this key.
fn put_namespace(value: &mut Value, key: &str, namespace: &str) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| put_namespace(value, key, namespace)),
        Value::Array(items) => items.iter_mut().for_each(|item| put_namespace(item, key, namespace)),
        Value::String(text) if text == NAMESPACE && NAMESPACE_KEYS.contains(&key) => {
            namespace.clone_into(text);
        }
        // An account of the servers, and a sentence.
        Value::String(text) => {
            for (before, after) in [("system:serviceaccount:", ":"), ("namespace `", "`")] {
                let place = |namespace: &str| format!("{before}{namespace}{after}");
                *text = text.replace(&place(NAMESPACE), &place(namespace));
            }
        }
        _ => {}
    }
}

/// Replaces the expressions of conditions that exist.
fn put_conditions(parent: &mut Value, conditions: &[Condition]) -> Result<(), BadChart> {
    for Condition { name, expression } in conditions {
        let mut known = parent["matchConditions"].as_array_mut().into_iter().flatten();
        let place = known.find(|known| known["name"] == *name).ok_or(BadChart::Condition(name))?;
        place["expression"] = json!(expression);
    }
    Ok(())
}

fn push(list: &mut Value, values: impl IntoIterator<Item = Value>) {
    if let Some(list) = list.as_array_mut() {
        list.extend(values);
    }
}
