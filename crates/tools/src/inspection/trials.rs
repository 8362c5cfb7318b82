//! The pods that a check creates as dry runs: pods that this cluster could have, one for each policy that they get.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::explain::Sources;
use crate::pools::{Pool, pools};
use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::validate;
use fabric_engine::{Outcome, PROVIDER, Warning};
use fabric_policy::nodes::{Node, Nodes};
use fabric_policy::{PodContext, Policy};

use super::Probe;

/// The label with which a pod selects one node.
const HOSTNAME: &str = "kubernetes.io/hostname";

impl Probe {
    /// The pods to try: the one that the user describes, else a pod for GPU nodes of each policy that applies there,
    /// else one for each provider that the nodes may belong to. None if no policy injects such a pod. A `hardened` pod
    /// complies with the restricted Pod Security Standard.
    pub fn pods(
        &self,
        policies: &PolicySet,
        namespace: &str,
        hardened: bool,
        nodes: Option<&Arc<Nodes>>,
    ) -> Vec<Value> {
        let context = PodContext {
            namespace: Some(namespace.to_owned()),
            nodes: nodes.cloned(),
            ..PodContext::default()
        };
        let trials = Trials { probe: self, policies, hardened, context: &context };
        if self.describes_pod() {
            return trials.described().into_iter().collect();
        }
        let of_nodes = nodes.map(|nodes| trials.for_nodes(nodes)).unwrap_or_default();
        if of_nodes.is_empty() { trials.for_providers(nodes) } else { of_nodes }
    }
}

struct Trials<'t> {
    probe: &'t Probe,
    policies: &'t PolicySet,
    hardened: bool,
    context: &'t PodContext,
}

/// How conclusively a pod shows that the webhook works.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Injected,
    /// With warnings that are not about the installation.
    Warned,
    /// By a policy other than the one that is tried.
    Otherwise,
    NotInjected,
}

impl Trials<'_> {
    fn fit(&self, pod: &Value, wanted: Option<&Policy>) -> Fit {
        let mutation = mutate(self.policies, pod.clone(), self.context);
        let is_wanted = wanted.is_none_or(|policy| mutation.policy.as_deref() == Some(policy.name()));
        match mutation.outcome {
            Outcome::Mutated(_) if !is_wanted => Fit::Otherwise,
            Outcome::Mutated(_) if mutation.warnings.iter().any(Warning::asks_for_action) => Fit::Warned,
            Outcome::Mutated(_) => Fit::Injected,
            _ => Fit::NotInjected,
        }
    }

    /// The pod that fits best, the first of several.
    fn best(&self, wanted: Option<&Policy>, pods: impl IntoIterator<Item = Value>) -> Option<(Fit, Value)> {
        let tried = pods.into_iter().map(|pod| (self.fit(&pod, wanted), pod));
        tried.min_by(|(fit, _), (other, _)| fit.cmp(other))
    }

    /// The pods of a policy, starting with the one for the first nodes in its tables.
    fn samples(&self, policy: &Policy) -> impl Iterator<Item = Value> {
        [validate::sample(policy)]
            .into_iter()
            .chain(validate::samples_by_node(policy))
            .map(|sample| self.pod(&sample))
    }

    /// A pod with the choices of the user.
    fn described(&self) -> Option<Value> {
        let Probe { annotations, gpu_resource, node_selector, .. } = self.probe;
        let pods = self.policies.policies().iter().map(|policy| {
            let mut sample = validate::sample(policy);
            if !annotations.is_empty() {
                sample["metadata"]["annotations"] = map(annotations).into();
            }
            if let Some(resource) = gpu_resource {
                sample["spec"]["containers"][0]["resources"]["limits"] = json!({resource: "8"});
            }
            let selects_sample = annotations.is_empty() && gpu_resource.is_none();
            if !node_selector.is_empty() || !selects_sample {
                sample["spec"]["nodeSelector"] = map(node_selector).into();
            }
            self.pod(&sample)
        });
        // The pod that the user describes is tried, whether or not a policy injects it.
        self.best(None, pods).map(|(_, pod)| pod)
    }

    /// A pod for the nodes of one pool of each policy: the largest pool without a problem.
    fn for_nodes(&self, nodes: &Arc<Nodes>) -> Vec<Value> {
        let mut pools = pools(self.policies, Sources { values: None, sets: &BTreeMap::new() }, nodes, None);
        let mut best: BTreeMap<&str, &Pool> = BTreeMap::new();
        pools.sort_by_key(|pool| Reverse((pool.problems.is_empty(), pool.ready, pool.nodes)));
        for pool in &pools {
            best.entry(pool.policy.as_deref().unwrap_or_default()).or_insert(pool);
        }
        let pods = best.into_iter().filter_map(|(name, pool)| {
            let policy = self.policies.policies().iter().find(|policy| policy.name() == name)?;
            self.for_pool(policy, pool, nodes)
        });
        pods.collect()
    }

    /// A pod with all GPUs of a node of a pool, and only the restrictions that decide its policy.
    fn for_pool(&self, policy: &Policy, pool: &Pool, nodes: &Nodes) -> Option<Value> {
        let is_in_pool = |node: &&Node| {
            pool.labels.iter().all(|(key, value)| node.label(key) == Some(value))
                && pool.gpus.iter().all(|(gpu, count)| node.count(gpu) == *count)
        };
        let node = nodes.iter().filter(is_in_pool).max_by_key(|node| node.is_ready())?;
        let mut gpus = policy.definition().gpus.resources.iter();
        let (gpu, count) = gpus.find_map(|gpu| Some((gpu, *pool.gpus.get(gpu)?)))?;
        let pod = |selector: &BTreeMap<String, String>, tolerates: bool| {
            let mut sample = validate::sample(policy);
            sample["spec"]["nodeSelector"] = json!(selector);
            sample["spec"]["containers"][0]["resources"]["limits"] = json!({gpu: count});
            let mut pod = self.pod(&sample);
            if tolerates {
                pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
            }
            pod
        };
        let alone = node.label(HOSTNAME).map(|name| {
            let mut selector = pool.labels.clone();
            selector.insert(HOSTNAME.to_owned(), name.to_owned());
            selector
        });
        let selectors = [Some(pool.labels.clone()), alone].into_iter().flatten();
        let pods = selectors.flat_map(|selector| [pod(&selector, false), pod(&selector, true)]);
        self.best(Some(policy), pods).map(|(_, pod)| pod)
    }

    /// A pod for nodes that a policy knows, if the cluster has no GPUs now: of the provider in use, or of the providers
    /// of the other nodes.
    fn for_providers(&self, nodes: Option<&Arc<Nodes>>) -> Vec<Value> {
        let all = self.policies.policies();
        if !self.policies.several_providers {
            let found = self.best(None, all.iter().flat_map(|policy| self.samples(policy)));
            let found = found.into_iter().filter(|(fit, _)| *fit != Fit::NotInjected);
            return found.map(|(_, pod)| pod).collect();
        }
        let provider = |policy: &Policy| policy.definition().provider.clone();
        let names = |policy: &&Policy| {
            let wanted = policy.definition().provider_nodes.as_ref();
            let mut nodes = nodes.into_iter().flat_map(|nodes| nodes.iter());
            wanted.is_some_and(|wanted| nodes.any(|node| wanted.matches(node)))
        };
        let mut providers: BTreeSet<String> = all.iter().filter(names).map(provider).collect();
        if providers.is_empty() {
            let of_others = all.iter().find(|policy| policy.definition().provider_nodes.is_none());
            let first = of_others.filter(|_| nodes.is_some_and(|nodes| !nodes.is_empty())).or(all.first());
            providers.extend(first.map(provider));
        }
        let pods = providers.iter().filter_map(|name| {
            let of_provider = all.iter().filter(|policy| policy.definition().provider == *name);
            let pods = of_provider.flat_map(|policy| self.samples(policy)).map(|mut pod| {
                pod["metadata"]["annotations"][PROVIDER] = name.as_str().into();
                pod
            });
            self.best(None, pods).map(|(_, pod)| pod)
        });
        pods.collect()
    }

    /// The fields of a sample that choose its policy, in a pod that namespaces admit.
    fn pod(&self, sample: &Value) -> Value {
        let (metadata, spec) = (&sample["metadata"], &sample["spec"]);
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "fabric-injector-check-",
                "annotations": metadata["annotations"],
                "labels": metadata["labels"],
            },
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": spec["nodeSelector"],
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "main",
                    // A dry run pulls no image.
                    "image": "registry.k8s.io/pause",
                    "resources": spec["containers"][0]["resources"],
                }],
            },
        });
        if self.hardened {
            // Without `runAsUser`: OpenShift rejects a user that does not belong to the namespace.
            pod["spec"]["securityContext"] =
                json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
            pod["spec"]["containers"][0]["securityContext"] =
                json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        }
        pod
    }
}

fn map(pairs: &[(String, String)]) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}
