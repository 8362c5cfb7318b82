//! Pods, and the objects that say what their nodes and claims are.
//!
//! `cargo test --profile bench --test injection growth`. With `FABRIC_GROWTH=1` it prints each case.

#![allow(clippy::needless_for_each, reason = "each dimension is one expression")]

use fabric_policy::schema::{self, Object, Shape};
use serde_json::{Map, Value, json};

use super::measure::{Input, WAYS, Way, problem};
use crate::cost::sets;
use crate::helpers::{INSTANCE_TYPE, NETWORKS, TRIGGER};

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

/// Makes something larger, up to a size.
type Larger = fn(&mut Input, usize);

fn extend(value: &mut Value, size: usize, item: impl Fn(usize) -> Value) {
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut().unwrap().extend((0..size).map(item));
}

fn extend_map(value: &mut Value, size: usize, entry: impl Fn(usize) -> (String, Value)) {
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut().unwrap().extend((0..size).map(entry));
}

fn terms(input: &mut Input) -> &mut Value {
    &mut input.pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
}

/// Changes the record of the nodes of an earlier injection.
fn recorded(input: &mut Input, change: impl FnOnce(&mut Value)) {
    let annotations = &mut input.pod["metadata"]["annotations"];
    let known = annotations["fabric-injector.io/nodes"].as_str();
    let usual = || json!([{"labels": {"pool": "a"}, "gpus": 8, "resources": {"vpc.amazonaws.com/efa": 32}}]);
    let mut record = known.map_or_else(usual, |text| serde_json::from_str(text).unwrap());
    change(&mut record);
    annotations["fabric-injector.io/nodes"] = json!(record.to_string());
    annotations["fabric-injector.io/injected"] = json!("aws-efa@0");
}

/// Changes the record of its claims.
fn recorded_claims(input: &mut Input, change: impl FnOnce(&mut Map<String, Value>)) {
    let annotations = &mut input.pod["metadata"]["annotations"];
    let known = annotations["fabric-injector.io/claims"].as_str();
    let mut record = known.map_or_else(Map::new, |text| serde_json::from_str(text).unwrap());
    change(&mut record);
    annotations["fabric-injector.io/claims"] = json!(Value::Object(record).to_string());
    annotations["fabric-injector.io/injected"] = json!("aws-efa@0");
}

/// What an expression, a loop over nodes, claims or requirements, or a record reads.
const DIMENSIONS: &[(&str, Larger)] = &[
    ("containers", |input, size| {
        let first = input.pod["spec"]["containers"][0].clone();
        extend(&mut input.pod["spec"]["containers"], size, |at| {
            let mut container = first.clone();
            container["name"] = json!(format!("c{at}"));
            container
        });
    }),
    ("init containers", |input, size| {
        let item = |at| json!({"name": format!("s{at}"), "restartPolicy": "Always"});
        extend(&mut input.pod["spec"]["initContainers"], size, item);
    }),
    ("variables", |input, size| {
        let containers = input.pod["spec"]["containers"].as_array_mut().unwrap();
        let item = |at| json!({"name": format!("V{at}"), "value": format!("$(V{})", at + 1)});
        containers.iter_mut().for_each(|one| extend(&mut one["env"], size, item));
    }),
    ("mounts", |input, size| {
        let containers = input.pod["spec"]["containers"].as_array_mut().unwrap();
        let item = |at| json!({"name": "data", "mountPath": format!("/m{at}")});
        containers.iter_mut().for_each(|one| extend(&mut one["volumeMounts"], size, item));
    }),
    ("resources", |input, size| {
        let containers = input.pod["spec"]["containers"].as_array_mut().unwrap();
        let entry = |at| (format!("vpc.amazonaws.com/efa{at}"), json!("1"));
        containers.iter_mut().for_each(|one| extend_map(&mut one["resources"]["limits"], size, entry));
    }),
    ("used claims", |input, size| {
        let containers = input.pod["spec"]["containers"].as_array_mut().unwrap();
        let item = |at| json!({"name": format!("c{at}"), "request": "nic"});
        containers.iter_mut().for_each(|one| extend(&mut one["resources"]["claims"], size, item));
    }),
    ("claims", |input, size| {
        let item = |at| json!({"name": format!("c{at}"), "resourceClaimTemplateName": "nics"});
        extend(&mut input.pod["spec"]["resourceClaims"], size, item);
    }),
    ("claims of one name", |input, size| {
        let item = |_| json!({"name": "nic", "resourceClaimTemplateName": "nics"});
        extend(&mut input.pod["spec"]["resourceClaims"], size, item);
    }),
    ("volumes", |input, size| {
        extend(
            &mut input.pod["spec"]["volumes"],
            size,
            |at| json!({"name": format!("v{at}"), "emptyDir": {}}),
        );
    }),
    ("annotations", |input, size| {
        extend_map(&mut input.pod["metadata"]["annotations"], size, |at| {
            (format!("a{at}"), json!("multi-node-networking"))
        });
    }),
    ("labels", |input, size| {
        extend_map(&mut input.pod["metadata"]["labels"], size, |at| (format!("l{at}"), json!("x")));
    }),
    ("labels of the selector", |input, size| {
        extend_map(&mut input.pod["spec"]["nodeSelector"], size, |at| (format!("l{at}"), json!("x")));
    }),
    ("a value of the selector", |input, size| {
        input.pod["spec"]["nodeSelector"]["pool"] = json!("x".repeat(10 * size));
    }),
    ("terms", |input, size| {
        let item =
            |at| json!({"matchExpressions": [{"key": format!("l{at}"), "operator": "In", "values": ["x"]}]});
        extend(terms(input), size, item);
    }),
    ("expressions", |input, size| {
        let terms = terms(input).as_array_mut().unwrap();
        let item = |at| json!({"key": format!("l{at}"), "operator": "NotIn", "values": ["x"]});
        terms.iter_mut().for_each(|term| extend(&mut term["matchExpressions"], size, item));
    }),
    ("values that are excluded", |input, size| {
        let values: Value = (0..size).map(|at| json!(format!("p{at}"))).collect();
        let item = json!({"key": "pool", "operator": "NotIn", "values": values});
        let terms = terms(input).as_array_mut().unwrap();
        terms.iter_mut().for_each(|term| extend(&mut term["matchExpressions"], 1, |_| item.clone()));
    }),
    ("tolerations", |input, size| {
        extend(
            &mut input.pod["spec"]["tolerations"],
            size,
            |at| json!({"key": format!("t{at}"), "operator": "Exists"}),
        );
    }),
    ("networks", |input, size| {
        let networks = (0..size).map(|at| format!("net-{at}")).collect::<Vec<_>>().join(",");
        input.pod["metadata"]["annotations"][NETWORKS] = json!(networks);
    }),
    ("interfaces", |input, size| {
        let item = |at| json!({"interfaceName": format!("eth{at}"), "network": "x"});
        let list: Value = (0..size).map(item).collect();
        input.pod["metadata"]["annotations"]["networking.gke.io/interfaces"] = json!(list.to_string());
    }),
    ("owners", |input, size| {
        let item = |at| json!({"apiVersion": "batch/v1", "kind": format!("K{at}"), "name": "a", "uid": "u"});
        extend(&mut input.pod["metadata"]["ownerReferences"], size, item);
    }),
    ("labels of the record", |input, size| {
        recorded(input, |record| {
            let kinds = record.as_array_mut().unwrap();
            kinds
                .iter_mut()
                .for_each(|kind| extend_map(&mut kind["labels"], size, |at| (format!("l{at}"), json!("x"))));
        });
    }),
    ("resources of the record", |input, size| {
        recorded(input, |record| {
            let kinds = record.as_array_mut().unwrap();
            let entry = |at| (format!("vpc.amazonaws.com/efa{at}"), json!(1));
            kinds.iter_mut().for_each(|kind| extend_map(&mut kind["resources"], size, entry));
        });
    }),
    ("depth of the record", |input, size| {
        recorded(input, |record| {
            let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
            extend(&mut record[0]["deep"], size, |_| deep.clone());
        });
    }),
    ("claims of the record", |input, size| {
        recorded_claims(input, |record| {
            record.extend((0..size).map(|at| (format!("c{at}/template/nics"), json!(["nic:nics=8"]))));
        });
    }),
    ("depth of the claims of the record", |input, size| {
        recorded_claims(input, |record| {
            let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
            record.insert("x".to_owned(), (0..size).map(|_| deep.clone()).collect());
        });
    }),
    ("nodes", |input, size| {
        let first = input.nodes[0].clone();
        input.nodes.extend((0..size).map(|at| {
            let mut node = first.clone();
            (node["metadata"]["name"], node["metadata"]["labels"]["l0"]) =
                (json!(format!("n{at}")), json!(format!("{at}")));
            node
        }));
    }),
    ("labels of nodes", |input, size| {
        let nodes = input.nodes.iter_mut().filter(|one| one["kind"] == "Node");
        nodes.for_each(|node| {
            extend_map(&mut node["metadata"]["labels"], size, |at| (format!("l{at}"), json!("x")));
        });
    }),
    ("taints of nodes", |input, size| {
        let nodes = input.nodes.iter_mut().filter(|one| one["kind"] == "Node");
        let item = |at| json!({"key": format!("t{at}"), "effect": "NoSchedule"});
        nodes.for_each(|node| extend(&mut node["spec"]["taints"], size, item));
    }),
    ("resources of nodes", |input, size| {
        let nodes = input.nodes.iter_mut().filter(|one| one["kind"] == "Node");
        let entry = |at| (format!("vpc.amazonaws.com/efa{at}"), json!("1"));
        nodes.for_each(|node| extend_map(&mut node["status"]["capacity"], size, entry));
    }),
    ("devices of slices", |input, size| {
        let item =
            |at| json!({"name": format!("d{at}"), "attributes": {"type": {"string": format!("k{at}")}}});
        extend(&mut input.nodes[1]["spec"]["devices"], size, item);
    }),
];

/// What has a limit of its own, and is a factor up to it: 32 kinds of nodes, requests of a claim, and entries of a class.
const LIMITED: &[(&str, Larger)] = &[
    ("kinds of the record", |input, size| {
        recorded(input, |record| {
            let first = record[0].clone();
            let kinds = record.as_array_mut().unwrap();
            let kind = |at: usize| {
                let mut kind = first.clone();
                kind["gpus"] = json!(at);
                kind
            };
            kinds.extend((0..size.min(31)).map(kind));
        });
    }),
    ("requests of the record", |input, size| {
        recorded_claims(input, |record| {
            let requests: Value = (0..size).map(|at| json!(format!("r{at}:nics|dra.net=8"))).collect();
            record.insert("nic/template/nics".to_owned(), requests);
        });
    }),
    ("requests of a template", |input, size| {
        let requests = &mut input.claims[0]["spec"]["spec"]["devices"]["requests"];
        let item = |at| json!({"name": format!("r{at}"), "exactly": {"deviceClassName": "nics"}});
        extend(requests, size.min(31), item);
    }),
    ("drivers of a class", |input, size| {
        let item = |at| json!({"opaque": {"driver": format!("{at}.example")}});
        extend(&mut input.claims[3]["spec"]["config"], size.min(31), item);
    }),
];

/// 256 combinations of the values of labels, each with the parameters for it.
const VALUES: (&str, Larger) = ("values of the instance type", |input, size| {
    let terms = terms(input).as_array_mut().unwrap();
    let values: Value = (0..size).map(|at| json!(format!("p{at}"))).collect();
    let expression = json!({"key": INSTANCE_TYPE, "operator": "In", "values": values});
    terms.iter_mut().for_each(|term| extend(&mut term["matchExpressions"], 1, |_| expression.clone()));
    input.pod["spec"]["nodeSelector"] = json!({});
});

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
    let mut at_their_limits = usual();
    LIMITED.iter().for_each(|(_, larger)| larger(&mut at_their_limits, 31));
    for (base, ways) in [(usual(), &[Way::Review, Way::Advice][..]), (at_their_limits, &[Way::Review])] {
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
