//! The known kinds of workloads: the table `kinds.yaml`.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use fabric_policy::group_of;
use fabric_yaml as yaml;
use fabric_yaml::pointer::{at_pointer, expanded};

static TABLE: LazyLock<Table> = LazyLock::new(|| read().unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// The groups whose objects are no workloads.
    pub(super) no_workloads: Vec<String>,
    kinds: Vec<Kind>,
    pub(super) signs: Signs,
    nodes: NodeGpus,
    /// The labels of nodes in pools that grow by nodes of other sizes.
    pub(super) growing_nodes: Vec<String>,
    pub(super) injected: OfInjected,
    pub(super) by_hand: ByHand,
}

/// Whether the pods of one object work on one job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Together {
    Always,
    /// With a second sign; without one, there is a note.
    Often,
    /// With a second sign.
    Sometimes,
    #[default]
    Never,
}

/// A kind of workloads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kind {
    /// `Kind.group` of each kind like this one.
    names: Vec<String>,
    pub(super) together: Together,
    /// Kind and group of the controller of the pods, if that is another one.
    pub(crate) owner: Option<String>,
    pods: Vec<Pods>,
    pub(super) apart: bool,
    pub(super) signs: Vec<String>,
    pub(super) texts: Vec<String>,
    /// The paths, from an object of this kind, to those that it creates.
    pub(super) wraps: Vec<String>,
    /// The source of the annotations for pods of a kind without a template.
    pub(super) annotations: Option<String>,
    pub(super) own_form: bool,
}

/// The kinds of owners that pods of known workloads have.
pub fn known() -> impl Iterator<Item = &'static str> {
    let names = |kind: &'static Kind| kind.names.iter().chain(&kind.owner);
    TABLE.kinds.iter().flat_map(names).filter_map(|name| name.split('.').next())
}

/// The kind of the controller of a kind's pods, if that is another one.
pub fn controller_of(kind: &str) -> Option<&'static str> {
    let has_name = |known: &&Kind| known.names.iter().any(|name| name.split('.').next() == Some(kind));
    TABLE.kinds.iter().find(has_name)?.owner.as_deref()
}

/// Equal pods of a kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Pods {
    path: String,
    template: Option<String>,
    gpus: Option<String>,
    count: Vec<String>,
    /// Of what `count` says, each pod has so many.
    per: String,
    of_object: Vec<String>,
    less: Option<String>,
    only: BTreeMap<String, Value>,
}

/// The signs that pods work together.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signs {
    pub(super) programs: Vec<String>,
    pub(super) except: Vec<String>,
    pub(super) nodes: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) local: Vec<String>,
    pub(super) tensor_parallel: Vec<String>,
    pub(super) pipeline_parallel: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeGpus {
    gpus: HashMap<String, i64>,
    others: i64,
    machines: BTreeMap<String, i64>,
}

/// The settings that make a job slow or hang despite its fabric.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfInjected {
    pub(super) meshes: Vec<Mesh>,
    pub(super) ucx_images: Vec<String>,
    pub(super) nixl: Nixl,
    pub(super) interface_variables: Vec<String>,
    /// The interfaces of a pod without networks of its own.
    pub(super) interfaces: Vec<String>,
    /// The minimum size of `/dev/shm` for each GPU.
    pub(super) shared_memory: String,
}

/// The programs that move data with NIXL.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nixl {
    pub(super) devices: Vec<String>,
    pub(super) words: Vec<String>,
    pub(super) variable: String,
    pub(super) backend: String,
}

/// A service mesh, whose sidecar takes over the connections of a pod.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mesh {
    /// The label or annotation with which a pod requests the sidecar, with one of these values.
    pub(super) key: String,
    pub(super) values: Vec<String>,
    /// The value by which a pod refuses it.
    pub(super) refusal: String,
    /// The prefixes of the annotations that exclude ports.
    pub(super) excludes: String,
    /// True if it reads labels: those of namespaces, and those of pods before their annotations.
    pub(super) labels: bool,
    /// The labels or annotations by which a namespace requests it for its pods, with their values; empty for any.
    pub(super) namespaces: BTreeMap<String, Vec<String>>,
    /// Those by which it refuses it.
    pub(super) unless: BTreeMap<String, String>,
}

/// The settings that give a pod its fabric without a policy.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ByHand {
    pub(super) annotations: Vec<String>,
    pub(super) host_paths: Vec<String>,
    pub(super) other_devices: Vec<String>,
    pub(super) shared_devices: Vec<String>,
    pub(super) self_contained: Vec<String>,
    /// The variable with a file whose name tells the link layer.
    pub(super) topology: String,
}

/// Equal pods of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PodsOfObject {
    /// JSON Pointer, from the object, to its part that describes them.
    pub(super) part: String,
    /// JSON Pointer, from the object, to their pod template; `None` for a kind without one.
    pub(super) template: Option<String>,
    /// JSON Pointer to their GPUs, for a kind without a template.
    pub(super) gpus: Option<String>,
    pub(super) count: i64,
}

fn read() -> Result<Table, String> {
    let read = yaml::read_value(include_str!("../../../../facts/kinds.yaml"))
        .map_err(|error| format!("{error:?}"))?;
    serde_json::from_value(read.root.unwrap_or_default()).map_err(|error| error.to_string())
}

pub(super) fn table() -> &'static Table {
    &TABLE
}

/// The GPUs of a node, as far as the values of a pod's node selector name its machine.
pub(super) fn gpus_of_node<'v>(resource: &str, mut selected: impl Iterator<Item = &'v str>) -> i64 {
    let NodeGpus { gpus, others, machines } = &TABLE.nodes;
    let of_value = |value: &'v str| {
        let value = value.to_ascii_lowercase();
        let mut words = value.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| machines.get(word).copied())
    };
    selected.find_map(of_value).unwrap_or_else(|| gpus.get(resource).copied().unwrap_or(*others))
}

/// The number of pods of a template of an object, by the template's pointer from there; `None` if it is not known.
pub fn pods_of_template(object: &Value, pointer: &str) -> Option<i64> {
    if object["kind"] == "Pod" && object["apiVersion"] == "v1" {
        return pointer.is_empty().then_some(1);
    }
    let kind = Kind::find(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
    let mut all = kind.parts(object).filter_map(|(pods, part)| pods.of_part(object, &part));
    all.find(|pods| pods.template.as_deref() == Some(pointer)).map(|pods| pods.count)
}

impl Kind {
    /// The entry of the table for an object.
    pub(crate) fn find(api_version: &str, kind: &str) -> Option<&'static Self> {
        let group = group_of(api_version);
        let is_name = |name: &String| {
            name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')).is_some_and(|of| of == group)
        };
        TABLE.kinds.iter().find(|known| known.names.iter().any(is_name))
    }

    /// The pods of an object of this kind that may work together.
    pub(super) fn pods(&self, object: &Value) -> Vec<PodsOfObject> {
        let is_met = |part: &str, (field, wanted): (&String, &Value)| {
            at_pointer(object, part).and_then(|part| at_pointer(part, field)) == Some(wanted)
        };
        let parts = self.parts(object).filter(|(pods, part)| pods.only.iter().all(|only| is_met(part, only)));
        parts.filter_map(|(pods, part)| pods.of_part(object, &part)).collect()
    }

    fn parts(&self, object: &Value) -> impl Iterator<Item = (&Pods, String)> {
        self.pods
            .iter()
            .flat_map(|pods| expanded(object, &pods.path).into_iter().map(move |part| (pods, part)))
    }
}

impl Pods {
    fn of_part(&self, object: &Value, part: &str) -> Option<PodsOfObject> {
        let value = at_pointer(object, part)?;
        let of_part = self.count.iter().map(|fields| number(value, fields));
        let of_object = self.of_object.iter().map(|fields| number(object, fields));
        let count = of_part.chain(of_object).fold(1, i64::saturating_mul);
        let less = self.less.as_ref().and_then(|less| at_pointer(object, less));
        let is_less = less.is_some_and(|less| !less.is_null());
        let pointer = |field: &String| format!("{part}{field}");
        Some(PodsOfObject {
            part: part.to_owned(),
            template: self.template.as_ref().map(pointer),
            gpus: self.gpus.as_ref().map(pointer),
            count: count / number(value, &self.per).max(1) - i64::from(is_less),
        })
    }
}

/// The largest number of fields; 1 if all are missing.
fn number(value: &Value, fields: &str) -> i64 {
    let of_field = |field| at_pointer(value, field)?.as_i64();
    fields.split('|').filter_map(of_field).max().unwrap_or(1).max(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods(object: &Value) -> Vec<(Option<String>, i64)> {
        let text = |key: &str| object[key].as_str().unwrap();
        let kind = Kind::find(text("apiVersion"), text("kind")).unwrap();
        kind.pods(object).into_iter().map(|pods| (pods.template, pods.count)).collect()
    }

    #[test]
    fn the_table_is_read() {
        read().unwrap();
        assert!(Kind::find("batch/v1", "Job").is_some());
        assert!(Kind::find("batch/v1", "Jo").is_none());
        assert_ne!(
            Kind::find("batch/v1", "Job").unwrap().names,
            Kind::find("batch.volcano.sh/v1", "Job").unwrap().names
        );
        assert_eq!(gpus_of_node("nvidia.com/gpu", ["p5.48xlarge"].into_iter()), 8);
        assert_eq!(gpus_of_node("nvidia.com/gpu", ["a", "NVIDIA-GB200"].into_iter()), 4);
        assert_eq!(gpus_of_node("nvidia.com/gpu", ["data4xlarge"].into_iter()), 8);
        assert_eq!(gpus_of_node("aws.amazon.com/neuron", [].into_iter()), 16);
    }

    #[test]
    fn the_pods_of_an_object_are_counted() {
        let group = |leader: Value| {
            json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
                "spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": leader, "workerTemplate": {}}}})
        };
        let leader = (Some("/spec/leaderWorkerTemplate/leaderTemplate".to_owned()), 1);
        let worker = |count| (Some("/spec/leaderWorkerTemplate/workerTemplate".to_owned()), count);
        assert_eq!(pods(&group(json!({}))), [leader, worker(3)]);
        let job = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {
            "Master": {}, "Worker": {"replicas": 3}}}});
        let template = |role: &str| Some(format!("/spec/pytorchReplicaSpecs/{role}/template"));
        assert_eq!(pods(&job), [(template("Master"), 1), (template("Worker"), 3)]);
        let job = |mode: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"completionMode": mode, "parallelism": 2}});
        assert_eq!(pods(&job("Indexed")), [(Some("/spec/template".to_owned()), 2)]);
        assert_eq!(pods(&job("NonIndexed")), []);
        let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [
            {"replicas": 2, "template": {"spec": {"parallelism": 4}}}]}});
        assert_eq!(pods(&set), [(Some("/spec/replicatedJobs/0/template/spec/template".to_owned()), 8)]);
    }
}
