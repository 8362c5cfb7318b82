//! Networks of the cluster as the value of a parameter.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{NODES, Outcome};
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::objects::{KnownObjects, NamedObject};
use fabric_policy::work::Work;
use serde_json::{Value, json};

use crate::helpers::{self, NETWORKS, Served, policy, serve_as};

const RAILS: [&str; 3] = ["lab.example/rail_1", "lab.example/rail_2", "lab.example/rail_10"];

/// A network of Multus: its namespace, its name and its resource.
type Network<'n> = (&'n str, &'n str, &'n str);

/// The networks of all rails in a namespace.
fn all_of<'n>(namespace: &'n str, names: [&'n str; 3]) -> Vec<Network<'n>> {
    let networks = names.into_iter().zip(RAILS);
    networks.map(|(name, resource)| (namespace, name, resource)).collect()
}

fn known(networks: &[Network]) -> KnownObjects {
    let object = |(namespace, name, resource): &Network| {
        json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {
            "name": name, "namespace": namespace,
            "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource}}})
    };
    networks.iter().map(|network| NamedObject::read(&object(network), "default").unwrap()).collect()
}

/// A cluster with nodes that offer these resources.
fn cluster(resources: &[&str], objects: KnownObjects) -> PodContext {
    let capacity: BTreeMap<&str, &str> =
        resources.iter().map(|name| (*name, "8")).chain([("nvidia.com/gpu", "3")]).collect();
    let node = json!({"kind": "Node", "metadata": {"name": "a"}, "status": {"capacity": capacity,
        "conditions": [{"type": "Ready", "status": "True"}]}});
    PodContext {
        nodes: Some(Arc::new(Nodes::read(&node).unwrap())),
        objects: Some(Arc::new(objects)),
        namespace: Some("team".to_owned()),
        ..PodContext::default()
    }
}

/// A policy whose parameters `rails` and `networks` are those of the nodes and of the cluster, with these settings.
fn lab(settings: &[(&str, &str)]) -> PolicySet {
    let definition = policy(
        "test",
        "labels: {fabric: fast}",
        "  parameters:
    rails: {description: d, default: [lab.example/rail_1, lab.example/rail_2], fromNodes: lab.example/rail_*}
    networks: {description: d, default: [of-the-default], maximum: 32, fromNetworks: lab.example/rail_*}
    network: {description: d, default: of-the-default, fromNetworks: lab.example/rail_2}
  devices:
    resources: [lab.example/*]
    add: [{name: rails, resources: {\"${rails}\": \"${gpus}\"}, networks: \"${networks}\"}]
  rules: [{name: one, env: {NETWORK: \"${network}\"}}]\n",
    );
    let value = |(name, text): &(&str, &str)| {
        let parameter = definition.parameters.iter().find(|parameter| parameter.name == *name);
        ((*name).to_owned(), parameter.unwrap().parse(text).unwrap().into())
    };
    let settings = settings.iter().map(value).collect();
    PolicySet::new(vec![(definition, settings)]).unwrap_or_else(|error| panic!("{error}"))
}

fn pod() -> Value {
    let mut pod = helpers::pod(&json!({"containers": [helpers::gpu_container("train", 3)]}));
    pod["metadata"]["labels"] = json!({"fabric": "fast"});
    pod
}

/// The networks that a pod in the namespace `team` gets.
#[track_caller]
fn attached(policies: &PolicySet, context: &PodContext) -> String {
    let served = Served::of(serve_as(policies, pod(), context));
    served.annotation(NETWORKS).unwrap_or_default().to_owned()
}

#[test]
fn the_networks_are_those_of_the_pods_namespace_or_of_the_one_other_that_has_all() {
    let default = "of-the-default";
    let own = all_of("team", ["ten", "two", "one"]);
    let other = all_of("ops", ["rail-1", "rail-2", "rail-10"]);
    let third = all_of("net", ["a", "b", "c"]);
    let of_others = "ops/rail-1,ops/rail-2,ops/rail-10";
    let table: [(&str, Vec<Network>, &str); 10] = [
        ("no network", vec![], default),
        ("its own, in the order of the resources", own.clone(), "ten,two,one"),
        ("of another namespace", other.clone(), of_others),
        ("its own come first", [&own[..], &other].concat(), "ten,two,one"),
        ("of two others", [&other[..], &third].concat(), default),
        ("one of the second is missing", [&other[..], &third[1..]].concat(), of_others),
        ("one of its own is missing", [&own[..2], &other].concat(), of_others),
        ("one of all is missing", [&own[..2], &other[1..]].concat(), default),
        ("two of its own for one resource", [&own[..], &[("team", "more", RAILS[0])]].concat(), default),
        ("of another resource", vec![("team", "one", "lab.example/other")], default),
    ];
    for (what, networks, wanted) in table {
        assert_eq!(attached(&lab(&[]), &cluster(&RAILS, known(&networks))), wanted, "{what}");
    }
    // A network that changed belongs to its last resource.
    let changed = [&own[..], &[("team", "one", "lab.example/other")]].concat();
    assert_eq!(attached(&lab(&[]), &cluster(&RAILS, known(&changed))), default);
}

#[test]
fn a_string_is_the_network_of_one_resource() {
    let networks = all_of("ops", ["rail-1", "rail-2", "rail-10"]);
    let one = |resources: &[&str], networks: &[Network]| {
        let served = Served::of(serve_as(&lab(&[]), pod(), &cluster(resources, known(networks))));
        served.env("train", "NETWORK").unwrap().to_owned()
    };
    assert_eq!(one(&RAILS, &networks), "ops/rail-2");
    assert_eq!(one(&RAILS[..1], &networks), "of-the-default");
    assert_eq!(one(&RAILS, &networks[..1]), "of-the-default");
}

#[test]
fn networks_that_are_not_known_or_not_allowed_do_not_count() {
    let own = all_of("team", ["ten", "two", "one"]);
    let other = all_of("ops", ["rail-1", "rail-2", "rail-10"]);
    let with = |networks: &[Network], change: &dyn Fn(&mut KnownObjects)| {
        let mut objects = known(networks);
        change(&mut objects);
        attached(&lab(&[]), &cluster(&RAILS, objects))
    };
    let isolate = |objects: &mut KnownObjects| objects.isolates_networks = true;
    assert_eq!(with(&other, &isolate), "of-the-default");
    assert_eq!(with(&own, &isolate), "ten,two,one");
    let over = |namespace: &'static str| {
        move |objects: &mut KnownObjects| _ = objects.over.insert(namespace.to_owned())
    };
    assert_eq!(with(&own, &over("team")), "of-the-default");
    assert_eq!(with(&other, &over("team")), "of-the-default");
    assert_eq!(with(&other, &over("ops")), "of-the-default");
    // Without nodes, no device is known, and without objects, no network.
    let without_nodes = PodContext { nodes: None, ..cluster(&RAILS, known(&own)) };
    assert_eq!(attached(&lab(&[]), &without_nodes), "of-the-default");
    let without_objects = PodContext { objects: None, ..cluster(&RAILS, known(&own)) };
    assert_eq!(attached(&lab(&[]), &without_objects), "of-the-default");
    assert_eq!(attached(&lab(&[]), &cluster(&["lab.example/nic"], known(&own))), "of-the-default");
}

#[test]
fn what_the_operator_sets_comes_first_and_no_device_gets_the_network_of_another() {
    let context = cluster(&RAILS, known(&all_of("team", ["ten", "two", "one"])));
    assert_eq!(attached(&lab(&[("networks", "mine")]), &context), "mine");
    let rails = |rails: &[&str]| attached(&lab(&[("rails", &rails.join(","))]), &context);
    assert_eq!(rails(&RAILS), "ten,two,one");
    assert_eq!(rails(&RAILS[1..]), "of-the-default");
    assert_eq!(rails(&[RAILS[1], RAILS[0], RAILS[2]]), "of-the-default");
}

#[test]
fn a_second_call_decides_the_same_when_the_networks_have_changed() {
    let before = cluster(&RAILS, known(&all_of("team", ["ten", "two", "one"])));
    let first = Served::of(serve_as(&lab(&[]), pod(), &before)).pod;
    let recorded = first["metadata"]["annotations"][NODES].as_str().unwrap();
    assert!(recorded.contains(r#""networks":{"lab.example/rail_1":"ten","#), "{recorded}");
    for networks in [vec![], all_of("ops", ["rail-1", "rail-2", "rail-10"])] {
        let again = mutate(&lab(&[]), first.clone(), &cluster(&RAILS, known(&networks))).outcome;
        assert!(matches!(again, Outcome::Unchanged { .. }), "{again:?}");
    }
    // A pod that was injected without networks gets none later.
    let without = Served::of(serve_as(&lab(&[]), pod(), &cluster(&RAILS, known(&[])))).pod;
    let again = mutate(&lab(&[]), without, &before).outcome;
    assert!(matches!(again, Outcome::Unchanged { .. }), "{again:?}");
}

#[test]
fn networks_of_many_namespaces_cost_in_proportion() {
    let steps = |namespaces: usize| {
        let mut names = String::new();
        for at in 0..namespaces {
            writeln!(names, "n{at}").unwrap();
        }
        // One of the rails is in another namespace than the others.
        let rails = names.lines().flat_map(|name| all_of(name, ["a", "b", "c"]).into_iter().take(2));
        let networks: Vec<Network> = rails.chain([("ops", "c", RAILS[2])]).collect();
        let work = Work::of_input(1_000);
        let context = PodContext { work: Some(work.clone()), ..cluster(&RAILS, known(&networks)) };
        mutate(&lab(&[]), pod(), &context);
        assert_eq!(work.ended(), None);
        work.done()
    };
    let (few, many) = (steps(50), steps(2_500));
    // A comparison for each resource of a list and each namespace.
    assert!(many - few >= 2_450 && many - few < 10 * 2_450, "{few} and {many} steps");
}
