//! What of a pod, or of the objects of its cluster, is read together.

#![allow(clippy::needless_for_each, reason = "each dimension is one expression")]

use serde_json::{Map, Value, json};

use super::measure::Input;
use crate::helpers::{INSTANCE_TYPE, NETWORKS};

/// Makes something larger, up to a size.
pub(super) type Larger = fn(&mut Input, usize);

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
pub(super) const DIMENSIONS: &[(&str, Larger)] = &[
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
pub(super) const LIMITED: &[(&str, Larger)] = &[
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
pub(super) const VALUES: (&str, Larger) = ("values of the instance type", |input, size| {
    let terms = terms(input).as_array_mut().unwrap();
    let values: Value = (0..size).map(|at| json!(format!("p{at}"))).collect();
    let expression = json!({"key": INSTANCE_TYPE, "operator": "In", "values": values});
    terms.iter_mut().for_each(|term| extend(&mut term["matchExpressions"], 1, |_| expression.clone()));
    input.pod["spec"]["nodeSelector"] = json!({});
});
