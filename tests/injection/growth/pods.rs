//! Pods, and the objects that say what their nodes and claims are.
//!
//! `cargo test --profile bench --test injection growth`.

use fabric_policy::schema::{self, Object, Shape};
use serde_json::{Map, Value, json};

use super::dimensions::{DIMENSIONS, LIMITED, VALUES};
use super::measure::{Input, WAYS, Way, problem};
use crate::cost::sets;
use crate::helpers::{INSTANCE_TYPE, TRIGGER};

/// The sizes of a list or a map, and of a text: as usual, ten and a hundred times that.
const ENTRIES: [usize; 3] = [10, 100, 1_000];
const BYTES: [usize; 3] = [100, 1_000, 10_000];
/// Those of two together. Where one is within the other, the last has their product.
const PAIRS: [usize; 3] = [1, 12, 60];

/// A pod with something of everything that an expression, a record or a loop over nodes, claims or requirements reads.
fn usual() -> Input {
    let container = |name: &str| {
        json!({
            "name": name, "image": "i",
            "env": [{"name": "A", "value": "$(B)"}, {"name": "NCCL_DEBUG", "value": "INFO"}],
            "command": ["torchrun"], "args": ["train.py"],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8", "cpu": "1"},
                "claims": [{"name": "nic"}]},
        })
    };
    let pod = json!({
        "metadata": {
            "name": "a", "namespace": "team", "labels": {"app": "a"}, "annotations": {TRIGGER: "true"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u", "controller": true}],
        },
        "spec": {
            "containers": [container("a")], "initContainers": [container("i")],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
            "nodeSelector": {INSTANCE_TYPE: "p5.48xlarge"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]}}},
        },
    });
    let node = json!({
        "kind": "Node",
        "metadata": {"name": "n", "labels": {INSTANCE_TYPE: "p5.48xlarge", "pool": "a", "kubernetes.io/hostname": "n"}},
        "spec": {"providerID": "aws:///a/i-1", "taints": [{"key": "t", "value": "v", "effect": "PreferNoSchedule"}]},
        "status": {"capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
            "allocatable": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
            "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let slice = json!({
        "kind": "ResourceSlice",
        "spec": {"driver": "dra.net", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"type": {"string": "nic"}}, "capacity": {"b": {"value": "1"}}}]},
    });
    let request = json!({"name": "nic", "exactly": {"deviceClassName": "nics", "count": 8,
        "selectors": [{"cel": {"expression": "true"}}]}});
    let template = json!({"kind": "ResourceClaimTemplate", "metadata": {"name": "nics", "namespace": "team"},
        "spec": {"spec": {"devices": {"requests": [request], "constraints": [{"requests": ["nic"], "matchAttribute": "a/b"}],
            "config": [{"requests": ["nic"], "opaque": {"driver": "dra.net", "parameters": {"a": "b"}}}]}}}});
    let claim = json!({"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "team"},
        "spec": template["spec"]["spec"]});
    let domain = json!({"kind": "ComputeDomain", "metadata": {"name": "d", "namespace": "team"},
        "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel"}}}});
    let class = json!({"kind": "DeviceClass", "metadata": {"name": "nics"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'dra.net'"}}],
            "config": [{"opaque": {"driver": "dra.net", "parameters": {"a": "b"}}}]}});
    Input { pod, nodes: vec![node, slice], claims: vec![template, claim, domain, class] }
}

/// One step to a part of a pod.
#[derive(Debug, Clone, Copy)]
enum Step {
    Field(&'static str),
    /// The first entry of a list, or one of a map.
    Entry,
}

/// The lists, maps and texts below an object of the tables of a Pod.
fn parts(object: &'static Object, path: &[Step], found: &mut Vec<(Vec<Step>, Shape)>) {
    for field in object.fields {
        let mut path = path.to_vec();
        path.push(Step::Field(field.name));
        parts_of(field.shape, &path, found);
    }
}

fn parts_of(shape: Shape, path: &[Step], found: &mut Vec<(Vec<Step>, Shape)>) {
    match shape {
        Shape::Object(object) | Shape::Atomic(object) => return parts(object, path, found),
        Shape::List { items: inner, .. } | Shape::Map { values: inner, .. } => {
            let mut below = path.to_vec();
            below.push(Step::Entry);
            parts_of(*inner, &below, found);
        }
        Shape::Text(_) => {}
        _ => return,
    }
    found.push((path.to_vec(), shape));
}

/// The smallest value of a shape; entries of a list have different ones.
fn smallest(shape: Shape, at: usize) -> Value {
    match shape {
        Shape::Object(object) | Shape::Atomic(object) => {
            let is_name = |name: &str| ["name", "key", "mountPath", "type", "path", "ip"].contains(&name);
            let fields = object.fields.iter().filter(|field| field.required || is_name(field.name));
            fields
                .map(|field| (field.name.to_owned(), smallest(field.shape, at)))
                .collect::<Map<_, _>>()
                .into()
        }
        Shape::Map { values, .. } => json!({format!("example.com/k{at}"): smallest(*values, at)}),
        Shape::List { items, .. } => json!([smallest(*items, at)]),
        Shape::Text(_) => json!(format!("x{at}")),
        Shape::Integer(..) => json!(1 + at),
        Shape::Boolean => json!(true),
        Shape::Quantity => json!("1"),
        Shape::PortNumberOrName => json!(80 + at),
        Shape::Opaque => json!({}),
    }
}

/// Makes the part of a pod at a path as long as `size` says.
fn grow(value: &mut Value, path: &[Step], shape: Shape, size: usize) {
    match (path.split_first(), shape) {
        (Some((Step::Field(name), rest)), Shape::Object(object) | Shape::Atomic(object)) => {
            let shape = object.field(name).unwrap().shape;
            if value.is_null() {
                *value = smallest(Shape::Object(object), 0);
            }
            grow(&mut value[*name], rest, shape, size);
        }
        (Some((Step::Entry, rest)), Shape::List { items, .. }) => {
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = smallest(shape, 0);
            }
            grow(&mut value[0], rest, *items, size);
        }
        (Some((Step::Entry, rest)), Shape::Map { values, .. }) => {
            if value.is_null() {
                *value = json!({});
            }
            grow(&mut value["example.com/k"], rest, *values, size);
        }
        (None, Shape::List { items, .. }) => {
            let mut list = value.as_array().cloned().unwrap_or_default();
            list.extend((0..size).map(|at| smallest(*items, at)));
            *value = list.into();
        }
        (None, Shape::Map { values, .. }) => {
            let mut map = value.as_object().cloned().unwrap_or_default();
            map.extend((0..size).map(|at| (format!("example.com/k{at}"), smallest(*values, at))));
            *value = map.into();
        }
        (None, Shape::Text(_)) => *value = "x".repeat(size).into(),
        _ => panic!("the path does not fit the tables"),
    }
}

fn name_of(path: &[Step]) -> String {
    path.iter().fold(String::new(), |text, step| match step {
        Step::Field(name) => format!("{text}.{name}"),
        Step::Entry => format!("{text}[]"),
    })
}

/// Reports what is wrong, by the name of the case.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn check(&mut self, what: &str, ways: &[Way], sizes: [usize; 3], write: &dyn Fn(usize) -> Input) {
        for (name, policies) in sets() {
            for way in ways {
                if let Some(problem) = problem(policies, *way, sizes, write) {
                    self.0.push(format!("{what}, {name}, {way:?}: {problem}"));
                }
            }
        }
    }

    /// Fails if there are any, except for these.
    fn end(self, except: &[&str]) {
        let is_known = |problem: &&String| !except.iter().any(|known| problem.starts_with(known));
        let found: Vec<&String> = self.0.iter().filter(is_known).collect();
        assert!(found.is_empty(), "{} cases: {found:#?}", found.len());
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it takes minutes without optimization")]
fn each_part_of_a_pod() {
    let mut all = Vec::new();
    parts(schema::pod(), &[], &mut all);
    assert!(all.len() > 300, "{}", all.len());
    let mut problems = Problems::default();
    let usual = usual();
    for (path, part) in &all {
        let sizes = if matches!(part, Shape::Text(_)) { BYTES } else { ENTRIES };
        let write = |size| {
            let mut input = usual.clone();
            grow(&mut input.pod, path, Shape::Object(schema::pod()), size);
            input
        };
        problems.check(&name_of(path), &WAYS, sizes, &write);
    }
    problems.end(&[]);
}

/// The lists, maps and texts of an object as JSON Pointers.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().filter(|(key, _)| *key != "kind").for_each(|(key, value)| {
            pointers(value, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        Value::Array(items) => {
            items.iter().take(1).for_each(|item| pointers(item, &format!("{pointer}/0"), found));
        }
        Value::String(_) => {}
        _ => return,
    }
    found.push(pointer.to_owned());
}

/// Makes the part of an object longer: a list by copies of its entry, a map by entries, a text by letters.
fn longer(value: &mut Value, size: usize) {
    match value {
        Value::Object(map) => map.extend((0..size).map(|at| (format!("k{at}"), json!("1")))),
        Value::Array(items) => {
            let first = items.first().cloned().unwrap_or_default();
            items.extend((0..size).map(|at| {
                let mut item = first.clone();
                if let Some(map) = item.as_object_mut() {
                    map.insert("name".to_owned(), json!(format!("x{at}")));
                }
                item
            }));
        }
        Value::String(text) => text.push_str(&"x".repeat(10 * size)),
        _ => {}
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it takes minutes without optimization")]
fn each_part_of_an_object_of_the_cluster() {
    let mut problems = Problems::default();
    let usual = usual();
    let of_claims = usual.nodes.len();
    for (at, object) in usual.nodes.iter().chain(&usual.claims).enumerate() {
        let mut found = Vec::new();
        pointers(object, "", &mut found);
        for pointer in found {
            let write = |size| {
                let mut input = usual.clone();
                let mut objects = input.nodes.iter_mut().chain(&mut input.claims);
                let object = objects.nth(at).unwrap();
                longer(object.pointer_mut(&pointer).unwrap(), size);
                input
            };
            let kind = object["kind"].as_str().unwrap();
            problems.check(&format!("{kind} {pointer}"), &[Way::Review], ENTRIES, &write);
        }
        let many = |size| {
            let mut input = usual.clone();
            let list = if at < of_claims { &mut input.nodes } else { &mut input.claims };
            list.extend((0..size).map(|number| {
                let mut object = object.clone();
                object["metadata"]["name"] = json!(format!("x{number}"));
                object
            }));
            input
        };
        problems.check(&format!("many {}", object["kind"]), &[Way::Review], ENTRIES, &many);
    }
    problems.end(&[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it takes minutes without optimization")]
fn what_has_a_limit_of_its_own() {
    let mut problems = Problems::default();
    for (name, larger) in LIMITED.iter().chain([&VALUES]) {
        let write = |size: usize| {
            let mut input = usual();
            larger(&mut input, size);
            input
        };
        // Up to the limit.
        problems.check(name, &WAYS, [1, 8, 31], &write);
    }
    // Each kind is compared with each other one.
    problems.end(&["kinds of the record,"]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it takes minutes without optimization")]
fn each_pair_of_what_is_read_together() {
    let mut problems = Problems::default();
    let mut halfway = usual();
    // At their limits, 32 requests with 32 drivers in each claim end with the limit on steps.
    for (_, larger) in LIMITED {
        larger(&mut halfway, 16);
    }
    for (base, ways) in [(usual(), &[Way::Review, Way::Advice][..]), (halfway, &[Way::Review])] {
        for (at, (one, larger)) in DIMENSIONS.iter().enumerate() {
            for (other, larger_too) in &DIMENSIONS[at + 1..] {
                let write = |size| {
                    let mut input = base.clone();
                    larger(&mut input, size);
                    larger_too(&mut input, size);
                    input
                };
                problems.check(&format!("{one} and {other}"), ways, PAIRS, &write);
            }
        }
    }
    // Each kind of nodes is compared with each requirement. The limit on steps ends this.
    problems.end(&["expressions and nodes,", "terms and nodes,", "labels of the selector and nodes,"]);
}
