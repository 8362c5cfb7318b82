//! The values that expressions read. Each is computed when it is read first: most pods are injected without that any
//! expression reads them.

use std::borrow::Cow;

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::core::policy::expression::{Bindings, Computed, Lookup, ReadSet, Resolver, Step};
use crate::core::policy::interpolation::EvaluationError;
use crate::core::policy::matcher::namespace_of;
use crate::core::policy::{PodContext, ResolvedPolicy, Variable};

use crate::core::schema::{self, Shape, complete};

use super::Stop;
use super::context::evaluation_failed;
use super::pod::{self, Container};
use super::{claims, own_fabric};

/// The values that a scope adds to the one around it. A value that no expression of the policy reads is left empty.
#[derive(Debug)]
pub(super) enum Source {
    /// The pod before anything is injected.
    Pod {
        total_gpus: i64,
        host_network: bool,
        own_fabric: bool,
        namespace: Value,
        claims: Value,
        part: Value,
    },
    /// One of its containers.
    Container { gpus: i64, counts: Value, container: Value },
    /// The pod after its containers were injected.
    Injected { requests: Value },
}

impl Source {
    pub(super) fn pod(
        policy: &ResolvedPolicy,
        pod: &Value,
        containers: &[Container],
        context: &PodContext,
    ) -> Self {
        let namespace = namespace_of(&pod["metadata"], context);
        let read =
            |name: &str, value: &dyn Fn() -> Value| if policy.reads(name) { value() } else { Value::Null };
        Self::Pod {
            total_gpus: if policy.reads("totalGpus") {
                pod::total_gpus(pod, containers, &policy.devices)
            } else {
                0
            },
            host_network: pod["spec"]["hostNetwork"].as_bool() == Some(true),
            namespace: read("podNamespace", &|| Value::from(namespace)),
            claims: read("claimNames", &|| claims::names(pod)),
            own_fabric: policy.reads("ownFabric")
                && !own_fabric::found(pod, &policy.devices, namespace).is_empty(),
            part: read("pod", &|| {
                let mut part = part_of(pod, &policy.reads_of_pod, &Shape::Object(schema::pod()));
                // A pod without it is malformed, which other code reports.
                if part["spec"].is_null() {
                    part["spec"] = Value::Object(Map::new());
                }
                with_labels(part, context)
            }),
        }
    }

    pub(super) fn container(policy: &ResolvedPolicy, pod: &Value, container: &Container) -> Self {
        let value = &pod["spec"][container.list][container.index];
        let shape = Shape::Object(schema::container());
        let value = if policy.reads("container") {
            part_of(value, &policy.reads_of_container, &shape)
        } else {
            Value::Null
        };
        let counts = if policy.reads("gpuCounts") {
            pod::gpu_counts(pod, container, &policy.devices)
        } else {
            Value::Null
        };
        Self::Container { gpus: container.gpus, counts, container: value }
    }

    pub(super) fn injected(policy: &ResolvedPolicy, pod: &Value) -> Self {
        Self::Injected {
            requests: if policy.reads("podRequests") { pod::requests(pod) } else { Value::Null },
        }
    }
}

/// One scope of a pod, inside of another or of the policy's fixed values.
pub(super) struct PodScope<'a> {
    source: Source,
    policy: &'a ResolvedPolicy,
    outer: Option<&'a PodScope<'a>>,
    variables: &'a [Variable],
    computed: Vec<OnceLock<Option<Computed>>>,
    built_in: [OnceLock<Computed>; BUILT_IN],
    /// The first variable that could not be evaluated. A lookup cannot fail, so it is kept here.
    failure: OnceLock<(String, EvaluationError)>,
}

/// How many built-in names one scope has at most: `pod`, `namespace`, `hostNetwork`, `totalGpus`,
/// `claimNames`, `ownFabric`.
const BUILT_IN: usize = 6;

impl<'a> PodScope<'a> {
    pub(super) fn new(source: Source, policy: &'a ResolvedPolicy, outer: Option<&'a PodScope<'a>>) -> Self {
        let variables = match source {
            Source::Pod { .. } => &policy.pod_variables,
            Source::Container { .. } => &policy.container_variables,
            Source::Injected { .. } => &policy.injected_variables,
        };
        let computed = variables.iter().map(|_| OnceLock::new()).collect();
        let built_in = std::array::from_fn(|_| OnceLock::new());
        Self { source, policy, outer, variables, computed, built_in, failure: OnceLock::new() }
    }

    fn variable(&self, at: usize) -> Option<&Computed> {
        let Variable { name, value, .. } = &self.variables[at];
        let compute = || {
            let resolver = Resolver(self);
            let mut bindings = self.policy.bindings.child();
            bindings.resolve_by(&resolver);
            match value.evaluate(&bindings) {
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
            (Source::Pod { claims, .. }, "claimNames") => slot(4, &|| Computed::of(claims)),
            (Source::Pod { own_fabric, .. }, "ownFabric") => slot(5, &|| Computed::bool(*own_fabric)),
            (Source::Container { counts, .. }, "gpuCounts") => slot(2, &|| Computed::of(counts)),
            (Source::Container { gpus, .. }, "gpus") => slot(0, &|| Computed::int(*gpus)),
            (Source::Container { container, .. }, "container") => slot(1, &|| Computed::of(container)),
            (Source::Injected { requests }, "podRequests") => slot(0, &|| Computed::of(requests)),
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
        if let Some(at) = self.variables.iter().position(|variable| variable.name == name) {
            return self.variable(at);
        }
        self.built_in(name).or_else(|| self.outer.and_then(|outer| outer.value(name)))
    }
}

/// Bindings over the fixed values of a policy and a scope of a pod.
pub(super) fn bindings<'s>(policy: &'s ResolvedPolicy, resolver: &'s Resolver<'s>) -> Bindings<'s, 's> {
    let mut bindings: Bindings<'s, 's> = policy.bindings.child();
    bindings.resolve_by(resolver);
    bindings
}

/// The parts of an object that expressions read, as the API server completes them.
fn part_of(object: &Value, reads: &ReadSet, shape: &Shape) -> Value {
    let mut part = Value::Object(Map::new());
    match reads {
        ReadSet::Whole => copy_path(object, &mut part, &[], shape),
        ReadSet::Paths(paths) => {
            for path in paths {
                copy_path(object, &mut part, path, shape);
            }
        }
    }
    part
}

fn copy_path(from: &Value, to: &mut Value, path: &[Step], shape: &Shape) {
    match (from, path.split_first()) {
        (_, Some((Step::Exists, _))) => {
            if to.is_null() {
                *to = if from.is_object() { Value::Object(Map::new()) } else { from.clone() };
            }
        }
        (Value::Array(entries), Some((Step::Every, rest))) => {
            if !to.is_array() {
                *to = Value::Array(vec![Value::Null; entries.len()]);
            }
            let items = if let Shape::List { items, .. } = shape { items } else { &Shape::Opaque };
            let copies = to.as_array_mut().into_iter().flatten();
            copies.zip(entries).for_each(|(copy, entry)| copy_path(entry, copy, rest, items));
        }
        (Value::Object(map), Some((Step::Field(key), rest))) => {
            if !to.is_object() {
                *to = Value::Object(Map::new());
            }
            let (value, shape) = field_of(map, key, shape);
            if let (Some(value), Value::Object(copies)) = (value, to) {
                let empty = if value.is_object() { Value::Object(Map::new()) } else { Value::Null };
                copy_path(&value, copies.entry(key).or_insert(empty), rest, &shape);
            }
        }
        // The end of the path, the keys of a map, or a value of another kind than the expression expects.
        _ => {
            *to = without_nulls(from, shape);
            complete(to, shape);
        }
    }
}

/// The value of a field as the API server completes it, and its shape.
fn field_of<'v>(map: &'v Map<String, Value>, key: &str, shape: &Shape) -> (Option<Cow<'v, Value>>, Shape) {
    let own = map.get(key).filter(|value| !value.is_null());
    match shape {
        Shape::Object(object) | Shape::Atomic(object) if object.field(key).is_some() => {
            let field = object.field(key);
            let own = own.filter(|value| field.is_none_or(|field| !field.is_absent(value)));
            let default = || field.and_then(|field| object.default_of(field, map)).map(Cow::Owned);
            (own.map(Cow::Borrowed).or_else(default), field.map_or(Shape::Opaque, |field| field.shape))
        }
        Shape::Map { values, .. } => {
            let empty = || (is_text(values) && map.contains_key(key)).then(|| Cow::Owned(Value::from("")));
            (own.map(Cow::Borrowed).or_else(empty), **values)
        }
        _ => (own.map(Cow::Borrowed), Shape::Opaque),
    }
}

/// A copy without fields that are `null`, which Kubernetes treats as absent. In a map of texts, such as labels, it is an
/// empty text.
fn without_nulls(value: &Value, shape: &Shape) -> Value {
    let map = match value {
        Value::Object(map) => map,
        Value::Array(items) => {
            let shape = if let Shape::List { items, .. } = shape { items } else { &Shape::Opaque };
            return items.iter().map(|item| without_nulls(item, shape)).collect();
        }
        other => return other.clone(),
    };
    let of_texts = matches!(shape, Shape::Map { values, .. } if is_text(values));
    let entry = |(key, value): (&String, &Value)| {
        let shape = match shape {
            Shape::Object(object) | Shape::Atomic(object) => object.field(key).map(|field| field.shape),
            Shape::Map { values, .. } => Some(**values),
            _ => None,
        };
        let value = match value {
            Value::Null if of_texts => Value::from(""),
            Value::Null => return None,
            value => without_nulls(value, &shape.unwrap_or(Shape::Opaque)),
        };
        Some((key.clone(), value))
    };
    Value::Object(map.iter().filter_map(entry).collect())
}

fn is_text(shape: &Shape) -> bool {
    matches!(shape, Shape::Text(_))
}

/// Adds the labels that the controller of a template gives to its pods.
fn with_labels(mut pod: Value, context: &PodContext) -> Value {
    for (key, value) in &context.labels {
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
    use crate::core::policy::expression::Expression;

    #[test]
    fn a_null_in_a_map_of_texts_is_an_empty_text() {
        let pod =
            json!({"metadata": {"labels": {"a": null}, "name": null}, "spec": {"nodeSelector": {"b": null}}});
        let part = |source: &str| {
            let expression = Expression::compile(source).unwrap();
            part_of(&pod, expression.reads_of_pod(), &Shape::Object(schema::pod()))
        };
        assert_eq!(part("pod.metadata.labels.a == ''"), json!({"metadata": {"labels": {"a": ""}}}));
        assert_eq!(part("pod.metadata.labels[key] == ''"), json!({"metadata": {"labels": {"a": ""}}}));
        assert_eq!(part("size(pod.metadata) > 0")["metadata"], json!({"labels": {"a": ""}}));
        assert_eq!(part("has(pod.metadata.name)"), json!({"metadata": {}}));
    }

    #[test]
    fn only_the_parts_that_are_read_are_copied() {
        let pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "name": "n"},
            "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}, {"name": "d"}], "x": null}});
        let part = |source: &str| {
            let expression = Expression::compile(source).unwrap();
            part_of(&pod, expression.reads_of_pod(), &Shape::Opaque)
        };
        assert_eq!(part("1 > 0"), json!({}));
        assert_eq!(
            part("pod.metadata.labels.a == '1' && pod.spec.hostNetwork || has(pod.spec.missing.x)"),
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"hostNetwork": true}})
        );
        assert_eq!(
            part("pod.spec.containers.exists(c, c.name == 'd')"),
            json!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}})
        );
        assert_eq!(part("has(pod.spec.x.deeper)"), json!({"spec": {}}));
        let labels = json!({"labels": {"a": "1", "b": "2"}});
        assert_eq!(part("pod.metadata.labels.a == pod.metadata.labels[key]")["metadata"], labels);
        assert_eq!(part("pod.metadata.labels.exists(key, key == 'a')")["metadata"], labels);
    }
}
