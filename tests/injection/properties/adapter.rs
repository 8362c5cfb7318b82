//! The program's functions as these tests use them; the only place that names them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric_engine::admission::{Mode, OnError, Reviewer};
use fabric_engine::policy_set::{PolicySet, mutate, mutate_traced};
use fabric_engine::{self as engine, Outcome};
use fabric_injector::builtin;
use fabric_policy::nodes::Nodes;
use fabric_policy::{Definition, PodContext, PolicyFile, definitions};
use fabric_tools::helm_values::Values;
use fabric_workloads::manifest::{self, Document, RawDocument, Wanted};
use fabric_yaml::quantity::Quantity;
use serde_json::{Value, json};

use super::generator::yaml;

pub(crate) use fabric_engine::STAMP;

/// A policy in use.
pub(crate) struct Loaded(PolicySet);

/// Facts about a pod that the pod does not contain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    pub(crate) namespace: Option<String>,
    pub(crate) owner_kinds: Vec<String>,
    /// The nodes of the cluster, if they are known.
    pub(crate) nodes: Option<Vec<Value>>,
}

/// A warning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Warning {
    pub(crate) code: String,
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The result for a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Injection {
    pub(crate) outcome: Result,
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Result {
    Mutated {
        pod: Value,
        stamp: String,
        patch: json_patch::Patch,
        added: Vec<String>,
    },
    /// Left alone on purpose, with nothing but the annotation that says so.
    Skipped {
        pod: Value,
        patch: json_patch::Patch,
        reason: String,
    },
    Unchanged {
        pod: Value,
        reason: String,
    },
    Refused {
        reason: String,
        text: String,
    },
}

impl Result {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Mutated { .. } => "mutated".to_owned(),
            Self::Skipped { reason, .. } => format!("skipped: {reason}"),
            Self::Unchanged { reason, .. } => format!("unchanged: {reason}"),
            Self::Refused { reason, .. } => format!("refused: {reason}"),
        }
    }
}

/// The policies in files, each with its name and text: that of the first file, and those that it extends.
pub(crate) fn read(files: &[(String, String)]) -> std::result::Result<Vec<Definition>, String> {
    let text = |error: fabric_policy::SourceErrors| error.to_string();
    let files: std::result::Result<Vec<_>, _> =
        files.iter().map(|(name, content)| PolicyFile::read(name, content)).collect();
    definitions(&files.map_err(text)?, builtin::files()).map_err(text)
}

/// Loads a policy from its files, with the policy that it extends if both are in use; the error is the message for the
/// author.
pub(crate) fn load(
    files: &[(String, String)],
    with_base: bool,
    overrides: &BTreeMap<String, Value>,
) -> std::result::Result<Loaded, String> {
    let mut policies = read(files)?;
    if !with_base {
        policies.truncate(1);
    }
    let mut block = json!(overrides);
    block["enabled"] = json!(true);
    let values = yaml::text(&json!({"multinodeNetworking": {&policies[0].provider: block}}));
    let values = Values::read("values.yaml", &values).map_err(|error| error.to_string())?;
    let with_settings = |policy: Definition| {
        let settings = values.overrides(&policy).map_err(|error| error.to_string())?;
        Ok((policy, settings))
    };
    let policies: std::result::Result<Vec<_>, String> = policies.into_iter().map(with_settings).collect();
    PolicySet::new(policies?).map(Loaded).map_err(|error| error.to_string())
}

/// Resources that the built-in policies request.
pub(crate) const DEVICES: [&str; 3] =
    ["vpc.amazonaws.com/efa", "nvidia.com/mlnxnics", "rdma/hca_shared_devices_a"];

/// The built-in policies, each with its text.
pub(crate) fn built_in() -> Vec<(String, Loaded)> {
    let load = |policy: &builtin::BuiltIn| {
        let set = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
        (policy.text.to_owned(), Loaded(set))
    };
    builtin::POLICIES.iter().map(load).collect()
}

/// Injects a pod.
pub(crate) fn inject(policies: &Loaded, pod: &Value, context: &Context) -> Injection {
    injection(mutate(&policies.0, pod.clone(), &context.of_pod()))
}

/// Injects a pod with a record of what happens. Also returns the JSON Pointers at which the record says that the pod has
/// a value.
pub(crate) fn inject_traced(policies: &Loaded, pod: &Value, context: &Context) -> (Injection, Vec<String>) {
    let (mutation, trace) = mutate_traced(&policies.0, pod.clone(), &context.of_pod());
    let has = |outcome: &&engine::FieldOutcome| {
        outcome.state == engine::FieldState::Present
            && outcome.because(pod).as_deref() == Some("the pod has it")
    };
    let present = trace.outcomes.iter().filter(has).map(|outcome| outcome.pointer.clone()).collect();
    (injection(mutation), present)
}

impl Context {
    fn of_pod(&self) -> PodContext {
        let list = |nodes: &Vec<Value>| Nodes::read(&json!({"kind": "NodeList", "items": nodes})).unwrap();
        PodContext {
            namespace: self.namespace.clone(),
            owner_kinds: self.owner_kinds.clone(),
            nodes: self.nodes.as_ref().map(|nodes| Arc::new(list(nodes))),
            ..PodContext::default()
        }
    }
}

fn injection(mutation: engine::Mutation) -> Injection {
    let warning = |warning: &engine::Warning| Warning {
        code: warning.code().to_owned(),
        path: warning.path.clone(),
        text: warning.to_string(),
    };
    let warnings = mutation.warnings.iter().map(warning).collect();
    let outcome = match mutation.outcome {
        Outcome::Mutated(mutated) => Result::Mutated {
            stamp: mutated.stamp.clone(),
            patch: mutated.patch(),
            added: mutated.summary(),
            pod: mutated.pod,
        },
        Outcome::Skipped { marked, reason } => {
            Result::Skipped { patch: marked.patch(), pod: marked.pod, reason: reason.code().to_owned() }
        }
        Outcome::Unchanged { pod, reason } => Result::Unchanged { pod, reason: reason.code().to_owned() },
        Outcome::Refused { reason } => {
            Result::Refused { reason: reason.code().to_owned(), text: reason.to_string() }
        }
    };
    Injection { outcome, warnings }
}

/// The answer of the webhook to the creation of a pod: the `response` of the review.
pub(crate) fn review(policies: &Loaded, pod: &Value, context: &Context) -> Value {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
            "namespace": context.namespace, "object": pod,
        },
    });
    let body = review.to_string();
    let (mode, on_error) = (Mode::Inject, OnError::Deny);
    let reviewer =
        Reviewer { policies: &policies.0, evaluate: &mutate, mode, on_error, has_changed: &|| false };
    let nodes = context.of_pod().nodes;
    let answer = reviewer.answer(body.as_bytes(), PodContext { nodes, ..PodContext::default() }).unwrap();
    let mut review: Value = serde_json::from_slice(&answer.body).unwrap();
    review["response"].take()
}

/// The command's result for a document: the document as it is now, and the result for each template with its path.
pub(crate) fn command(policies: &Loaded, document: &str) -> (Value, Vec<(String, Injection)>) {
    let raw = RawDocument::new(document.as_bytes().to_vec());
    let mut read = Document::read(&raw).unwrap();
    let before = read.value.clone().unwrap_or_default();
    let served = manifest::inject(
        &policies.0,
        &mut read,
        &raw,
        Wanted { patches: true, summary: true, ..Wanted::default() },
    )
    .unwrap();
    let after = served.value.unwrap_or(before);
    let templates = served.templates.into_iter();
    (after, templates.map(|template| (template.pointer, injection(template.mutation))).collect())
}

/// True if two amounts of a resource are equal; `None` if either is not an amount.
pub(crate) fn compare_amounts(left: &Value, right: &Value) -> Option<std::cmp::Ordering> {
    Some(Quantity::from_value(left)?.cmp(&Quantity::from_value(right)?))
}

/// Returns true if an amount is a whole multiple of another.
pub(crate) fn is_multiple(amount: &Value, of: &Value) -> bool {
    Quantity::from_value(amount)
        .zip(Quantity::from_value(of))
        .is_some_and(|(amount, unit)| amount.is_multiple_of(unit))
}
