//! What expressions can read of a pod, each thing worked out when it is first read: most pods are served
//! without ever being shown to an expression.

use std::collections::HashMap;

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::core::policy::expression::{
    Bindings, Computed, EVERY_ENTRY, Lookup, NOTHING_OF_IT, PodUse, Resolver,
};
use crate::core::policy::matcher::namespace_of;
use crate::core::policy::text::{EvaluationError, Text};
use crate::core::policy::{Request, Variant};

use super::Stop;
use super::merge::evaluation_failed;
use super::pod::{self, Container};

/// What a scope adds to the one around it. Only what some expression of the variant reads is filled in.
#[derive(Debug)]
pub(super) enum Source {
    /// The pod as it came.
    Pod { total_gpus: i64, host_network: bool, namespace: Value, part: Value },
    /// One of its containers.
    Container { gpus: i64, container: Value },
    /// The pod after its containers were served.
    Served { requests: Value },
}

impl Source {
    pub(super) fn pod(variant: &Variant, pod: &Value, containers: &[Container], request: &Request) -> Self {
        let total = || {
            let gpus: HashMap<(&str, usize), i64> = containers
                .iter()
                .map(|container| ((container.list, container.index), container.gpus))
                .collect();
            pod::scheduled(pod, |list, index, _| gpus.get(&(list, index)).copied().unwrap_or_default())
        };
        let read =
            |name: &str, value: &dyn Fn() -> Value| if variant.reads(name) { value() } else { Value::Null };
        Self::Pod {
            total_gpus: if variant.reads("totalGpus") { total() } else { 0 },
            host_network: pod["spec"]["hostNetwork"].as_bool() == Some(true),
            namespace: read("podNamespace", &|| Value::from(namespace_of(&pod["metadata"], request))),
            part: read("pod", &|| with_labels(part_of(pod, variant.pod_use()), request)),
        }
    }

    pub(super) fn container(variant: &Variant, pod: &Value, container: &Container) -> Self {
        let value = &pod["spec"][container.list][container.index];
        let value = if variant.reads("container") { value.clone() } else { Value::Null };
        Self::Container { gpus: container.gpus, container: value }
    }

    pub(super) fn served(variant: &Variant, pod: &Value) -> Self {
        Self::Served { requests: if variant.reads("podRequests") { pod::requests(pod) } else { Value::Null } }
    }
}

/// One scope of a pod, inside of another or of the variant's fixed values.
pub(super) struct PodScope<'a> {
    source: Source,
    variant: &'a Variant,
    outer: Option<&'a PodScope<'a>>,
    variables: &'a [(String, Text)],
    computed: Vec<OnceLock<Option<Computed>>>,
    built_in: [OnceLock<Computed>; BUILT_IN],
    /// The first variable that could not be evaluated. A lookup cannot fail, so it is kept here.
    failure: OnceLock<(String, EvaluationError)>,
}

/// How many built-in names one scope has at most: `pod`, `namespace`, `hostNetwork`, `totalGpus`.
const BUILT_IN: usize = 4;

impl<'a> PodScope<'a> {
    pub(super) fn new(source: Source, variant: &'a Variant, outer: Option<&'a PodScope<'a>>) -> Self {
        let variables = match source {
            Source::Pod { .. } => &variant.pod_variables,
            Source::Container { .. } => &variant.container_variables,
            Source::Served { .. } => &variant.final_variables,
        };
        let computed = variables.iter().map(|_| OnceLock::new()).collect();
        let built_in = std::array::from_fn(|_| OnceLock::new());
        Self { source, variant, outer, variables, computed, built_in, failure: OnceLock::new() }
    }

    fn variable(&self, at: usize) -> Option<&Computed> {
        let (name, text) = &self.variables[at];
        let compute = || {
            let resolver = Resolver(self);
            let mut bindings = self.variant.bindings.child();
            bindings.resolve_by(&resolver);
            match text.evaluate(&bindings) {
                Ok(value) => Some(Computed::of(&value)),
                Err(error) => {
                    let _ = self.failure.set((name.clone(), error));
                    None
                }
            }
        };
        self.computed[at].get_or_init(compute).as_ref()
    }

    fn built_in(&self, name: &str) -> Option<&Computed> {
        let slot = |at: usize, compute: &dyn Fn() -> Computed| Some(self.built_in[at].get_or_init(compute));
        match (&self.source, name) {
            (Source::Pod { part, .. }, "pod") => slot(0, &|| Computed::of(part)),
            (Source::Pod { namespace, .. }, "podNamespace") => slot(1, &|| Computed::of(namespace)),
            (Source::Pod { host_network, .. }, "hostNetwork") => slot(2, &|| Computed::bool(*host_network)),
            (Source::Pod { total_gpus, .. }, "totalGpus") => slot(3, &|| Computed::int(*total_gpus)),
            (Source::Container { gpus, .. }, "gpus") => slot(0, &|| Computed::int(*gpus)),
            (Source::Container { container, .. }, "container") => slot(1, &|| Computed::of(container)),
            (Source::Served { requests }, "podRequests") => slot(0, &|| Computed::of(requests)),
            _ => None,
        }
    }

    /// The error behind an expression that failed: that of a variable it reads, if one failed first.
    pub(super) fn explain(&self, place: &str, error: EvaluationError) -> Stop {
        let mut scope = Some(self);
        while let Some(present) = scope {
            if let Some((name, error)) = present.failure.get() {
                return Stop::Refuse(evaluation_failed(&format!("the variable `{name}`"), error.clone()));
            }
            scope = present.outer;
        }
        Stop::Refuse(evaluation_failed(place, error))
    }
}

impl Lookup for PodScope<'_> {
    fn value(&self, name: &str) -> Option<&Computed> {
        if let Some(at) = self.variables.iter().position(|(known, _)| known == name) {
            return self.variable(at);
        }
        self.built_in(name).or_else(|| self.outer.and_then(|outer| outer.value(name)))
    }
}

/// Bindings over the fixed values of a variant and a scope of a pod.
pub(super) fn bindings<'s>(variant: &'s Variant, resolver: &'s Resolver<'s>) -> Bindings<'s, 's> {
    let mut bindings: Bindings<'s, 's> = variant.bindings.child();
    bindings.resolve_by(resolver);
    bindings
}

/// As much of the pod as expressions read.
fn part_of(pod: &Value, pod_use: &PodUse) -> Value {
    let PodUse::Paths(paths) = pod_use else { return pod.clone() };
    // Always there for an expression to look into; nothing else is made up.
    let mut part = serde_json::json!({"metadata": {}, "spec": {}});
    for path in paths {
        copy_path(pod, &mut part, path);
    }
    part
}

fn copy_path(from: &Value, to: &mut Value, path: &[String]) {
    let Some((key, rest)) = path.split_first() else {
        *to = from.clone();
        return;
    };
    match (from, key.as_str()) {
        (_, NOTHING_OF_IT) => {
            if to.is_null() {
                *to = if from.is_object() { Value::Object(Map::new()) } else { from.clone() };
            }
        }
        (Value::Array(entries), EVERY_ENTRY) => {
            if !to.is_array() {
                *to = Value::Array(vec![Value::Null; entries.len()]);
            }
            let copies = to.as_array_mut().into_iter().flatten();
            copies.zip(entries).for_each(|(copy, entry)| copy_path(entry, copy, rest));
        }
        (Value::Object(map), key) => {
            // To Kubernetes, `null` and nothing are the same.
            let Some(value) = map.get(key).filter(|value| !value.is_null()) else { return };
            if !to.is_object() {
                *to = Value::Object(Map::new());
            }
            if let Value::Object(copies) = to {
                copy_path(value, copies.entry(key).or_insert(Value::Null), rest);
            }
        }
        // Whatever an expression makes of a value of another kind, it gets the value.
        _ => *to = from.clone(),
    }
}

/// A template has not yet the labels that its controller gives to the pods.
fn with_labels(mut pod: Value, request: &Request) -> Value {
    for (key, value) in &request.labels {
        let labels = &mut pod["metadata"]["labels"];
        if labels.is_null() {
            *labels = Value::Object(Map::new());
        }
        if let Value::Object(labels) = labels {
            labels.entry(key.as_str()).or_insert_with(|| Value::from(value.as_str()));
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_read_is_copied() {
        let pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "name": "n"},
            "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}, {"name": "d"}], "x": null}});
        let part = |paths: &[&str]| {
            let paths = paths.iter().map(|path| path.split(' ').map(str::to_owned).collect()).collect();
            part_of(&pod, &PodUse::Paths(paths))
        };
        assert_eq!(part(&[]), json!({"metadata": {}, "spec": {}}));
        assert_eq!(
            part(&["metadata labels a", "spec hostNetwork", "spec missing x"]),
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"hostNetwork": true}})
        );
        assert_eq!(
            part(&["spec containers * name", "spec containers * ."]),
            json!({"metadata": {}, "spec": {"containers": [{"name": "c"}, {"name": "d"}]}})
        );
        assert_eq!(part(&["spec x", "spec x deeper"])["spec"], json!({}));
        // A shorter path takes in the longer ones.
        assert_eq!(
            part(&["metadata labels", "metadata labels a"])["metadata"],
            json!({"labels": {"a": "1", "b": "2"}})
        );
    }
}
