//! What `devices.add` gives to pods, and what `hasDevice` says of it.

use serde_json::{Value, json};

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{Mutation, Outcome, Reason};
use fabric_policy::Definition;

use super::helpers::{gpu_container, inject, injected, lab, policy, reason, set, with};

const MATCH: &str = "labels: {fabric: fast}";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// A rule for containers with a device.
const READER: &str = "  rules: [{name: r, containers: 'hasDevice', env: {NCCL_NET: IB}}]\n";

/// A policy with these entries of `devices.add`, and these parts.
fn adding(entries: &str, body: &str) -> PolicySet {
    set(vec![policy("test", MATCH, &body_of(entries, body))])
}

fn body_of(entries: &str, body: &str) -> String {
    format!("  devices: {{resources: ['rdma/*'], add: [{entries}]}}\n{body}")
}

/// The message of a policy that does not load.
#[track_caller]
fn refused(entries: &str, body: &str) -> String {
    Definition::read("test.yaml", &lab("test", MATCH, &body_of(entries, body))).unwrap_err().to_string()
}

fn pod(gpus: u32, resources: &Value) -> Value {
    let container = with(gpu_container("main", gpus), &json!({}));
    let mut pod =
        json!({"metadata": {"name": "p", "labels": {"fabric": "fast"}}, "spec": {"containers": [container]}});
    for list in ["limits", "requests"] {
        for (name, amount) in resources.as_object().unwrap() {
            pod["spec"]["containers"][0]["resources"][list][name] = amount.clone();
        }
    }
    pod
}

/// The networks of a pod and its amounts other than GPUs, after it was served.
#[track_caller]
fn attached(policies: &PolicySet, pod: Value) -> (Value, Vec<String>) {
    let (pod, _) = injected(policies, pod);
    let limits = pod["spec"]["containers"][0]["resources"]["limits"].as_object().unwrap();
    let limits = limits.iter().filter(|(name, _)| *name != "nvidia.com/gpu");
    let limits = limits.map(|(name, amount)| format!("{name}={amount}")).collect();
    (pod["metadata"]["annotations"][NETWORKS].clone(), limits)
}

#[test]
fn a_network_of_a_list_goes_with_the_resource_at_its_position() {
    let entry = "{name: nics, resources: {\"${['rdma/a', 'rdma/b', 'rdma/c', 'rdma/d']}\": '${gpus}'}, networks: [na, nb, nc, nd]}";
    let policies = adding(entry, "");
    let on = |pod: Value| attached(&policies, pod).0;
    assert_eq!(on(pod(2, &json!({}))), "na,nb");
    assert_eq!(on(pod(4, &json!({}))), "na,nb,nc,nd");
}

/// Four resources with a network each, of which a container gets one for each GPU.
const RAILS: &str = "{name: nics, resources: {\"${['rdma/a', 'rdma/b', 'rdma/c', 'rdma/d']}\": '${gpus}'}, networks: [na, nb, nc, nd]}";

/// The devices of each container, the networks of the pod, and the codes of the warnings, which are those of both calls.
#[track_caller]
fn rails(policies: &PolicySet, pod: Value) -> (Vec<String>, Value, Vec<String>) {
    let codes_of = |mutation: &Mutation| -> Vec<String> {
        mutation.warnings.iter().map(|warning| warning.code().to_owned()).collect()
    };
    let mutation = inject(policies, pod);
    let codes = codes_of(&mutation);
    let pod = match mutation.outcome {
        Outcome::Mutated(mutated) => mutated.pod,
        Outcome::Unchanged { pod, reason: Reason::NothingToAdd } => pod,
        other => panic!("{other:?}"),
    };
    let again = inject(policies, pod.clone());
    assert!(matches!(again.outcome, Outcome::Unchanged { reason: Reason::NothingToAdd, .. }), "{again:?}");
    assert_eq!(codes_of(&again), codes);
    let lists = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
    let devices = |container: &Value| {
        let limits = container["resources"]["limits"].as_object().into_iter().flatten();
        let devices = limits.filter_map(|(name, amount)| Some((name.strip_prefix("rdma/")?, amount)));
        let text = |(name, amount): (&str, &Value)| {
            let amount = amount.to_string();
            let amount = amount.trim_matches('"');
            if amount == "1" { name.to_owned() } else { format!("{name}{amount}") }
        };
        devices.map(text).collect::<Vec<_>>().join(" ")
    };
    let devices = lists.into_iter().flatten().flatten().map(devices).collect();
    (devices, pod["metadata"]["annotations"][NETWORKS].clone(), codes)
}

#[test]
fn a_container_that_requests_resources_of_a_list_gets_no_others() {
    let policies = adding(RAILS, "");
    let injected_for_two = injected(&policies, pod(2, &json!({}))).0;
    let copied = |pointer: &str, value: Value| {
        let mut pod = injected_for_two.clone();
        for list in ["limits", "requests"] {
            pod["spec"]["containers"][0]["resources"][list][pointer] = value.clone();
        }
        pod
    };
    for (pod, devices, networks, codes) in [
        (pod(1, &json!({"rdma/d": "1"})), "d", json!("nd"), &[][..]),
        (pod(2, &json!({"rdma/a": "1"})), "a", json!("na"), &["kept_device"]),
        (pod(2, &json!({"rdma/a": 1, "rdma/b": 1})), "a b", json!("na,nb"), &[]),
        (pod(2, &json!({"rdma/b": 1, "rdma/a": 2})), "b a2", json!("na,nb"), &["kept_device"]),
        (pod(1, &json!({"rdma/a": 1, "rdma/b": 1})), "a b", json!("na,nb"), &["kept_device"]),
        // None is requested.
        (pod(4, &json!({"rdma/b": "0"})), "b0 a c d", json!("na,nc,nd"), &["device_denied"]),
        (pod(2, &json!({"rdma/d": "0"})), "d0 a b", json!("na,nb"), &[]),
        // The author of a pod has copied an injected one.
        (copied("nvidia.com/gpu", json!(4)), "a b", json!("na,nb"), &["kept_device"]),
        (copied("rdma/a", json!("2")), "a2 b", json!("na,nb"), &["kept_device"]),
        (copied("rdma/a", json!("0")), "a0 b", json!("na,nb"), &["device_denied"]),
    ] {
        let text = pod.to_string();
        let expected =
            (vec![devices.to_owned()], networks, codes.iter().map(|&code| code.to_owned()).collect());
        assert_eq!(rails(&policies, pod), expected, "{text}");
    }
}

#[test]
fn no_resource_of_a_list_is_requested_by_two_containers_at_the_same_time() {
    let policies = adding(RAILS, "");
    let on = |init: &[Value], containers: &[Value]| {
        let named = |list: &str, containers: &[Value]| -> Value {
            let named = containers.iter().enumerate().map(|(at, container)| {
                let mut container = container.clone();
                container["name"] = format!("{list}-{at}").into();
                container
            });
            named.collect()
        };
        let mut pod = pod(0, &json!({}));
        pod["spec"] = json!({"initContainers": named("i", init), "containers": named("c", containers)});
        rails(&policies, pod)
    };
    let one = |gpus: u32| gpu_container("main", gpus);
    let sidecar = |gpus: u32| with(one(gpus), &json!({"restartPolicy": "Always"}));
    let bringing = |gpus: u32, name: &str| {
        let mut container = one(gpus);
        for list in ["limits", "requests"] {
            container["resources"][list][name] = json!("1");
        }
        container
    };
    let case = |init: &[Value], containers: &[Value], devices: &[&str], networks: &str, codes: &[&str]| {
        let (found, attached, warned) = on(init, containers);
        assert_eq!(
            (found, attached),
            (devices.iter().map(|&names| names.to_owned()).collect(), json!(networks))
        );
        assert_eq!(warned, codes);
    };
    case(&[], &[one(2), one(1)], &["a b", "c"], "na,nb,nc", &[]);
    case(&[], &[one(2), one(0), one(2)], &["a b", "", "c d"], "na,nb,nc,nd", &[]);
    case(&[], &[one(3), one(2)], &["a b c", "d"], "na,nb,nc,nd", &["too_few_resources"]);
    case(&[], &[one(4), one(1)], &["a b c d", ""], "na,nb,nc,nd", &["too_few_resources"]);
    case(&[], &[one(5)], &["a b c d"], "na,nb,nc,nd", &["too_few_resources"]);
    // An init container ends before the others start.
    case(&[one(4)], &[one(2)], &["a b c d", "a b"], "na,nb,nc,nd", &[]);
    case(&[sidecar(1)], &[one(2)], &["a", "b c"], "na,nb,nc", &[]);
    case(&[sidecar(1), one(3)], &[one(2)], &["a", "b c d", "b c"], "na,nb,nc,nd", &[]);
    case(&[one(2), sidecar(1)], &[one(1)], &["a b", "a", "b"], "na,nb", &[]);
    // One that ends before a sidecar starts can have what the sidecar brings, and one after it cannot.
    let sidecar_with_a = || with(bringing(1, "rdma/a"), &json!({"restartPolicy": "Always"}));
    case(&[one(2), sidecar_with_a(), one(1)], &[one(1)], &["a b", "a", "b", "b"], "na,nb", &[]);
    // Those that the pod brings are nobody else's, also before their container.
    case(&[], &[bringing(1, "rdma/b"), one(2)], &["b", "a c"], "na,nb,nc", &[]);
    case(&[], &[one(1), bringing(1, "rdma/a")], &["b", "a"], "na,nb", &[]);
    case(&[one(2)], &[bringing(1, "rdma/a")], &["a b", "a"], "na,nb", &[]);
    case(&[], &[one(1), bringing(0, "rdma/a")], &["b", "a"], "na,nb", &[]);
}

#[test]
fn a_rule_that_replaces_adds_the_first_resources_of_a_list_to_those_of_the_pod() {
    let rule = |on_conflict: &str| {
        let list = "\"${['rdma/a', 'rdma/b', 'rdma/c', 'rdma/d']}\": '${gpus}'";
        let body = format!(
            "  rules: [{{name: r, onConflict: {on_conflict}, container: {{resources: {{limits: {{{list}}}, requests: {{{list}}}}}}}}}]\n"
        );
        set(vec![policy("test", MATCH, &body)])
    };
    let own = || pod(2, &json!({"rdma/d": 1, "rdma/a": 3}));
    let (devices, _, codes) = rails(&rule("keep"), own());
    assert_eq!((devices[0].as_str(), &codes[..]), ("d a3", &["kept_device".to_owned()][..]));
    let (replaced, _) = injected(&rule("replace"), own());
    let limits = &replaced["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(*limits, json!({"nvidia.com/gpu": "2", "rdma/d": 1, "rdma/a": "1", "rdma/b": "1"}));
}

#[test]
fn a_list_has_one_number_of_devices_in_limits_and_requests() {
    let rule = |limit: &str, request: &str| {
        let list = "\"${['rdma/a', 'rdma/b']}\"";
        format!(
            "  rules: [{{name: r, container: {{resources: {{limits: {{{list}: {limit}}}, requests: {{{list}: {request}}}}}}}}}]\n"
        )
    };
    let both = set(vec![policy("test", MATCH, &rule("'${gpus}'", "'${gpus}'"))]);
    assert_eq!(rails(&both, pod(1, &json!({}))).0, ["a"]);
    let definition = policy("test", MATCH, &rule("2", "1"));
    let error = PolicySet::new(vec![(definition, std::collections::BTreeMap::new())]).unwrap_err();
    assert!(error.to_string().contains("rdma/a"), "{error}");
}

#[test]
fn what_is_left_out_of_a_list_moves_no_other_entry() {
    let (none, all) = ("  variables: {none: null}\n", "[na, '${none}', nc]");
    let entry = |names: &str, networks: &str| {
        format!("{{name: nics, resources: {{\"${{{names}}}\": '${{gpus}}'}}, networks: {networks}}}")
    };
    let case = |names: &str, networks: &str, expected: &str| {
        let policies = adding(&entry(names, networks), none);
        assert_eq!(attached(&policies, pod(2, &json!({}))).0, expected, "{names} {networks}");
    };
    case("['rdma/a', 'rdma/b']", all, "na");
    // One that is left out takes no place: the container gets as many devices as it has GPUs.
    case("[none, 'rdma/b', 'rdma/c']", "[na, nb, nc]", "nb,nc");
    case("['rdma/a', 'rdma/b', 'rdma/c']", all, "na");
}

#[test]
fn networks_go_with_the_resources_in_their_order() {
    let entry = "{name: nics, resources: {\"${['rdma/a', 'rdma/b']}\": 1, rdma/c: 1, \"${['rdma/d']}\": '${gpus > 1 ? 1 : 0}'}, networks: [na, nb, nc, nd]}";
    let policies = adding(entry, "");
    assert_eq!(attached(&policies, pod(1, &json!({}))).0, "na,nc");
    assert_eq!(attached(&policies, pod(2, &json!({}))).0, "na,nc,nd");
    let one = adding("{name: nics, resources: {rdma/a: '${gpus - 1}'}, networks: [na, nb]}", READER);
    assert_eq!(attached(&one, pod(3, &json!({}))), (json!("na,nb"), vec!["rdma/a=\"2\"".to_owned()]));
    // Without a device, none is attached.
    assert_eq!(attached(&one, pod(1, &json!({}))), (Value::Null, Vec::new()));
}

#[test]
fn a_container_without_a_device_has_none_by_has_device() {
    let no_names =
        "{name: nics, resources: {\"${offeredNames('rdma/rail*')}\": '${gpus}'}, networks: [n0, n1]}";
    let without = |entry: &str, body: &str| {
        let (pod, _) = injected(&adding(entry, body), pod(4, &json!({})));
        assert_eq!(pod["metadata"]["annotations"][NETWORKS], Value::Null);
        assert_eq!(pod["spec"]["containers"][0]["env"], Value::Null);
        assert_eq!(pod["spec"]["containers"][0]["resources"], gpu_container("main", 4)["resources"]);
    };
    without(no_names, READER);
    let no_template = "{name: claim, claims: {nic: '${template}'}}";
    without(no_template, &format!("  variables: {{template: null}}\n{READER}"));
}

#[test]
fn a_pod_with_another_claim_of_the_name_is_refused() {
    let policies = adding("{name: claim, claims: {nic: nics}}", READER);
    let mut other = pod(4, &json!({}));
    other["spec"]["resourceClaims"] = json!([{"name": "nic", "resourceClaimTemplateName": "scratch-disk"}]);
    assert_eq!(reason(&inject(&policies, other.clone())), "conflict");
    other["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = json!("nics");
    let (pod, _) = injected(&policies, other);
    assert_eq!(pod["spec"]["containers"][0]["resources"]["claims"], json!([{"name": "nic"}]));
    assert_eq!(pod["spec"]["containers"][0]["env"][0]["value"], "IB");
}

#[test]
fn a_claim_of_another_template_is_the_pods_own() {
    let body = format!(
        "  devices: {{claims: {{'*nic*': 1}}, add: [{{name: claim, claims: {{nic: nics}}}}]}}\n{READER}"
    );
    let policies = set(vec![policy("test", MATCH, &body)]);
    let mut own = pod(4, &json!({}));
    own["spec"]["resourceClaims"] = json!([{"name": "nic", "resourceClaimTemplateName": "our-nics"}]);
    own["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "nic"}]);
    let (served, warnings) = injected(&policies, own.clone());
    assert_eq!(served["spec"]["resourceClaims"], own["spec"]["resourceClaims"]);
    assert_eq!(served["spec"]["containers"][0]["env"][0]["value"], "IB");
    let codes: Vec<&str> = warnings.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(codes, ["kept_fabric", "claim_by_name"]);
}

#[test]
fn what_no_pod_can_have_is_refused_at_loading() {
    let case = |entry: &str, body: &str, expected: &str| {
        let message = refused(entry, body);
        assert!(message.contains(expected), "{message}");
    };
    let nics = "{name: nics, resources: {rdma/a: '${gpus}'}, networks: na}";
    let host = "  rules: [{name: h, containers: 'READ', pod: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet}}}]\n";
    case(nics, &host.replace("READ", "hasDevice"), "`hostNetwork` depends on `hasDevice`");
    let variable = format!("  variables: {{fast: '${{hasDevice}}'}}\n{}", host.replace("READ", "fast"));
    case(nics, &variable, "`hostNetwork` depends on `fast`");
    case("{name: nics, resources: {nvidia.com/gpu: 1}}", "", "`nvidia.com/gpu` counts as a GPU");
    case("{name: nics, resources: {rdma/a: 1}, claims: {nic: nics}}", "", "resources or claims, not both");
    case("{name: nics, resources: {}}", "", "`resources` is empty");
    let twice = "{name: nics, resources: {rdma/a: 1, \"${['rdma/b', 'rdma/a']}\": '${gpus}'}}";
    let definition = policy("test", MATCH, &body_of(twice, ""));
    let error =
        PolicySet::new(vec![(definition, std::collections::BTreeMap::new())]).unwrap_err().to_string();
    assert!(error.contains("`rdma/a` has two amounts"), "{error}");
    let misspelt = refused("{name: nics, resource: {rdma/a: 1}}", "");
    assert!(
        misspelt.contains("did you mean `resources`?") && !misspelt.contains("adds no device"),
        "{misspelt}"
    );
    case("{name: nics, networks: {}}", "", "`networks` is empty");
    case("{name: nics, networks: ['a@net1', 'b@net1']}", "", "have the interface `net1`");
    let undeclared = Definition::read("test.yaml", &lab("test", MATCH, READER)).unwrap_err().to_string();
    assert!(
        undeclared.contains("`hasDevice` is read, and the policy has no names of devices"),
        "{undeclared}"
    );
}

#[test]
fn a_list_that_names_a_resource_twice_is_refused() {
    let entry = "{name: nics, resources: {\"${['rdma/a', 'rdma/b', 'rdma/a']}\": '${gpus}'}}";
    let definition = policy("test", MATCH, &body_of(entry, ""));
    let error = PolicySet::new(vec![(definition, std::collections::BTreeMap::new())]).unwrap_err();
    assert!(error.to_string().contains("the list names `rdma/a` twice"), "{error}");
}

/// The path of the warning is that of the list that the rule writes.
#[test]
fn huge_pages_alone_are_named_where_the_rule_requests_them() {
    let container = "{resources: {requests: {hugepages-2Mi: 1Gi}}}";
    let rule = format!("  rules: [{{name: r, containers: 'true', container: {container}}}]\n");
    let mut bare = pod(8, &json!({}));
    bare["spec"]["containers"] = json!([{"name": "bare", "image": "train"}]);
    let (_, warnings) = injected(&set(vec![policy("test", MATCH, &rule)]), bare);
    let about = warnings.iter().find(|(code, _)| code == "huge_pages_alone");
    let path = "`spec.containers[bare].resources.requests`";
    assert!(about.is_some_and(|(_, text)| text.contains(path)), "{warnings:?}");
}

/// A pod may bring any number of devices: sixteen times as many take no more than some sixteen times as long.
#[test]
fn the_devices_of_a_pod_are_found_in_linear_time() {
    let policies = adding("{name: rail, resources: {rdma/rail: 1}}", READER);
    let mut times = Vec::new();
    for count in [2_000, 32_000] {
        let names = (0..count).map(|at| (format!("rdma/own{at}"), json!("1"))).collect();
        let began = std::time::Instant::now();
        let mutation = inject(&policies, pod(8, &Value::Object(names)));
        assert_eq!(reason(&mutation), "mutated");
        times.push(began.elapsed());
    }
    // A square would take 256 times as long.
    assert!(times[1] < times[0] * 64 + std::time::Duration::from_millis(200), "{times:?}");
}
