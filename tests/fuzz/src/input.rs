//! A policy, a pod and a cluster, as one JSON object.

use std::sync::Arc;

use fabric_policy::PodContext;
use fabric_policy::device_classes::with_classes;
use fabric_policy::nodes::Objects;
use fabric_policy::objects::NamedObject;
use serde_json::{Map, Value};

use crate::work;

/// A policy, a pod and what is known about it.
pub struct Input {
    /// The name of a built-in policy, or the text of another one; empty for all built-in policies.
    pub policy: String,
    pub settings: Map<String, Value>,
    pub pod: Value,
    pub context: PodContext,
    bytes: usize,
}

impl Input {
    /// Reads `policy`, `settings`, `pod`, `namespace`, `owner`, and `objects`, a list of nodes and of what pods name.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let Ok(Value::Object(mut input)) = serde_json::from_slice(bytes) else { return None };
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        let (policy, namespace, owner) = (text("policy"), text("namespace"), text("owner"));
        let settings = input.get("settings").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut context =
            PodContext { namespace, owner_kinds: owner.into_iter().collect(), ..PodContext::default() };
        if let Some(list) = input.get("objects").and_then(Value::as_array) {
            let mut objects = Objects::default();
            for object in list {
                let _ = objects.read(object);
            }
            let named = std::mem::take(&mut objects.named);
            let nodes = with_classes(objects.nodes(), named.iter().filter_map(NamedObject::class));
            context.nodes = Some(Arc::new(nodes));
            context.objects = (!named.is_empty()).then(|| Arc::new(named.into_iter().collect()));
        }
        let pod = input.remove("pod")?;
        Some(Self { policy: policy.unwrap_or_default(), settings, pod, context, bytes: bytes.len() })
    }

    /// The context of one call, with the work that a server allows it.
    pub fn call(&self) -> PodContext {
        PodContext { work: Some(work(self.bytes)), ..self.context.clone() }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
