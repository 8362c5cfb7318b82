//! Policies and pods, serving the pods, and looking at what came out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{Mutation, Outcome, Warning};
use fabric_injector::builtin;
use fabric_policy::{Definition, PodContext};
use fabric_tools::inspection::change;
use fabric_tools::policy_schema;
use fabric_yaml::quantity::Quantity;
use serde_json::{Value, json};

use super::api_server::assert_api_server_would_accept;

pub(crate) const TRIGGER: &str = "nmp.nvidia.com/enable-multi-node-networking";
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub(crate) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The folder of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The JSON Schema of policy files.
pub(crate) fn policy_schema() -> Value {
    policy_schema::policy()
}

/// The JSON Schema of files of cases.
pub(crate) fn cases_schema() -> Value {
    policy_schema::cases()
}

/// The text of a policy around the parts that a test is about.
pub(crate) fn lab(name: &str, matcher: &str, body: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata:\n  name: {name}\nspec:\n  \
         provider: lab\n  description: For a test\n  gpus: {{resources: [nvidia.com/gpu, amd.com/gpu]}}\n  match:\n    \
         {matcher}\n{body}"
    )
}

/// A policy around the parts that a test is about.
pub(crate) fn policy(name: &str, matcher: &str, body: &str) -> Definition {
    Definition::read("test.yaml", &lab(name, matcher, body)).unwrap_or_else(|error| panic!("{error}"))
}

/// Policies with the defaults of their parameters.
pub(crate) fn set(definitions: Vec<Definition>) -> PolicySet {
    let with_defaults = definitions.into_iter().map(|definition| (definition, BTreeMap::new())).collect();
    PolicySet::new(with_defaults).unwrap_or_else(|error| panic!("{error}"))
}

/// Puts a pod through policies.
pub(crate) fn inject(policies: &PolicySet, pod: Value) -> Mutation {
    mutate(policies, pod, &PodContext::default())
}

/// Injects a pod twice: the second time changes nothing. The codes and sentences of the warnings are those of the first.
#[track_caller]
pub(crate) fn injected(policies: &PolicySet, pod: Value) -> (Value, Vec<(String, String)>) {
    let Served { pod, warnings } = Served::of(inject(policies, pod));
    let again = inject(policies, pod.clone()).outcome;
    assert!(matches!(again, Outcome::Unchanged { .. }), "{again:?}");
    assert_eq!(change(&pod, policies, None), None);
    let warnings = warnings.iter().map(|warning| (warning.code().to_owned(), warning.to_string())).collect();
    (pod, warnings)
}

/// What became of a pod: `mutated`, or the code that says why it is as it came.
pub(crate) fn reason(mutation: &Mutation) -> &str {
    match &mutation.outcome {
        Outcome::Mutated(_) => "mutated",
        Outcome::Skipped { reason, .. } | Outcome::Unchanged { reason, .. } | Outcome::Refused { reason } => {
            reason.code()
        }
    }
}

/// A pod with the trigger.
pub(crate) fn pod(spec: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker-0", "annotations": {TRIGGER: "true"}},
        "spec": spec,
    })
}

/// A container with GPUs, as the API server hands it to a webhook: the requests taken from the limits.
pub(crate) fn gpu_container(name: &str, gpus: u32) -> Value {
    let amounts = json!({"nvidia.com/gpu": gpus.to_string()});
    json!({"name": name, "image": "nemo", "resources": {"limits": amounts, "requests": amounts}})
}

/// A map with the fields of another map put into it.
pub(crate) fn with(mut map: Value, fields: &Value) -> Value {
    map.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    map
}

/// A triggered pod with one container, called `worker`, that has so many GPUs.
pub(crate) fn worker(gpus: u32) -> Value {
    worker_with(gpus, &json!({}))
}

/// The same, its container with further fields.
pub(crate) fn worker_with(gpus: u32, fields: &Value) -> Value {
    pod(&json!({"containers": [with(gpu_container("worker", gpus), fields)]}))
}

/// The pod, selecting an instance type.
pub(crate) fn on(instance_type: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeSelector"] = json!({INSTANCE_TYPE: instance_type});
    pod
}

/// The pod, in the network of its node.
pub(crate) fn on_host_network(mut pod: Value) -> Value {
    pod["spec"]["hostNetwork"] = json!(true);
    pod
}

/// A built-in policy, with parameters set as `--set` does. Each is loaded once, since a policy is tried out
/// when it is loaded.
pub(crate) fn policy_set(policy: &str, sets: &[(&str, &str)]) -> Arc<PolicySet> {
    static LOADED: Mutex<BTreeMap<String, Arc<PolicySet>>> = Mutex::new(BTreeMap::new());
    let key = format!("{policy} {sets:?}");
    // A policy that does not load fails its own tests, not those of the others.
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(loaded.entry(key).or_insert_with(|| Arc::new(load(policy, sets))))
}

fn load(policy: &str, sets: &[(&str, &str)]) -> PolicySet {
    let definition = builtin::find(policy).unwrap().definition().unwrap();
    let value = |(name, text): &(&str, &str)| {
        let parameter = definition.parameters.iter().find(|parameter| parameter.name == *name);
        ((*name).to_owned(), parameter.unwrap().parse(text).unwrap().into())
    };
    let overrides = sets.iter().map(value).collect();
    PolicySet::new(vec![(definition, overrides)]).unwrap()
}

/// Serves a pod by a built-in policy. Whatever comes out, the API server takes it, its patch leads to it, and
/// serving it again changes nothing.
pub(crate) fn serve(policy: &str, sets: &[(&str, &str)], pod: Value) -> Mutation {
    serve_as(&policy_set(policy, sets), pod, &PodContext::default())
}

/// The same, with what is known of the request.
pub(crate) fn serve_as(policies: &PolicySet, pod: Value, request: &PodContext) -> Mutation {
    let mutation = mutate(policies, pod.clone(), request);
    if let Outcome::Mutated(mutated) = &mutation.outcome {
        assert_api_server_would_accept(&mutated.pod);
        let mut patched = pod;
        json_patch::patch(&mut patched, &mutated.patch()).unwrap();
        assert_eq!(patched, mutated.pod, "the patch leads elsewhere");
        let again = mutate(policies, mutated.pod.clone(), request).outcome;
        let Outcome::Unchanged { reason, .. } = again else {
            panic!("serving the pod again changes it: {again:#?}")
        };
        assert_eq!(reason.code(), "nothing_to_add");
    }
    mutation
}

/// A pod that was served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) pod: Value,
    pub(crate) warnings: Vec<Warning>,
}

/// Serves a pod that a built-in policy is for.
pub(crate) fn served(policy: &str, sets: &[(&str, &str)], pod: Value) -> Served {
    Served::of(serve(policy, sets, pod))
}

impl Served {
    #[track_caller]
    pub(crate) fn of(mutation: Mutation) -> Self {
        let Outcome::Mutated(mutated) = mutation.outcome else { panic!("not served: {mutation:#?}") };
        Self { pod: mutated.pod, warnings: mutation.warnings }
    }

    /// A container or init container.
    pub(crate) fn container(&self, name: &str) -> &Value {
        let lists = ["initContainers", "containers"].map(|list| items(&self.pod["spec"][list]));
        let mut containers = lists.into_iter().flatten();
        containers.find(|container| container["name"] == name).unwrap()
    }

    /// How much of an extended resource a container has, its limit and its request alike; 0 if it has none.
    pub(crate) fn devices(&self, container: &str, resource: &str) -> i64 {
        let resources = &self.container(container)["resources"];
        let [limit, request] = ["limits", "requests"].map(|list| match &resources[list][resource] {
            Value::Null => None,
            amount => Some(Quantity::from_value(amount).unwrap().as_count().unwrap()),
        });
        assert_eq!(limit, request, "limit and request of {resource}");
        assert_ne!(limit, Some(0), "{resource} is there, and none of it");
        limit.unwrap_or(0)
    }

    /// The value of an environment variable of a container.
    pub(crate) fn env(&self, container: &str, name: &str) -> Option<&str> {
        let mut entries = items(&self.container(container)["env"]).iter();
        entries.find(|entry| entry["name"] == name).map(|entry| entry["value"].as_str().unwrap())
    }

    /// The environment variables of a container that have one of these beginnings, by name.
    pub(crate) fn variables(&self, container: &str, beginnings: &[&str]) -> BTreeMap<&str, &str> {
        let entries = items(&self.container(container)["env"]).iter();
        entries
            .map(|entry| (entry["name"].as_str().unwrap(), entry["value"].as_str().unwrap()))
            .filter(|(name, _)| beginnings.iter().any(|beginning| name.starts_with(beginning)))
            .collect()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.pod["metadata"]["annotations"].get(key).map(|value| value.as_str().unwrap())
    }

    /// The codes of the warnings.
    pub(crate) fn codes(&self) -> Vec<&str> {
        self.warnings.iter().map(Warning::code).collect()
    }

    /// The sentence of the one warning with this code.
    pub(crate) fn message(&self, code: &str) -> String {
        let found: Vec<&Warning> = self.warnings.iter().filter(|warning| warning.code() == code).collect();
        let [warning] = found.as_slice() else { panic!("not one `{code}` among {:#?}", self.warnings) };
        warning.to_string()
    }
}

/// The entries of a list; none if it is not there.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}
