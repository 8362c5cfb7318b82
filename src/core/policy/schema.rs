//! The shape of a Pod, taken from the Kubernetes API's own types, so that an overlay field that no Pod has is
//! an error when a policy is loaded and not a silence when a pod is created.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// Where a shape stands in [`PodSchema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShapeId(usize);

/// What a field of a Pod holds.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// An object with these fields and no others.
    Object(BTreeMap<String, ShapeId>),
    /// An object whose keys the user chooses.
    Map(ShapeId),
    /// A list, and how two of them become one.
    List(ShapeId, ListMerge),
    String,
    Integer,
    Boolean,
    /// A resource quantity: string or number.
    Quantity,
    /// A port: name or number.
    IntOrString,
}

/// How the entries of an overlay join those that a pod already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMerge {
    /// An entry with the same values under these keys is the same entry.
    Keyed(&'static [&'static str]),
    /// Entries that are not there yet are added.
    Set,
    /// The list is one value.
    Atomic,
}

/// The keys that the Kubernetes API declares for its lists (`patchMergeKey`, `listMapKey`), by the type that
/// holds the list. A list that is not named here is atomic.
const LISTS: &[(&str, &str, ListMerge)] = &[
    ("PodSpec", "containers", ListMerge::Keyed(&["name"])),
    ("PodSpec", "initContainers", ListMerge::Keyed(&["name"])),
    ("PodSpec", "ephemeralContainers", ListMerge::Keyed(&["name"])),
    ("PodSpec", "volumes", ListMerge::Keyed(&["name"])),
    ("PodSpec", "imagePullSecrets", ListMerge::Keyed(&["name"])),
    ("PodSpec", "hostAliases", ListMerge::Keyed(&["ip"])),
    ("PodSpec", "topologySpreadConstraints", ListMerge::Keyed(&["topologyKey", "whenUnsatisfiable"])),
    ("PodSpec", "resourceClaims", ListMerge::Keyed(&["name"])),
    ("PodSpec", "schedulingGates", ListMerge::Keyed(&["name"])),
    // Atomic in the API's terms; their order means nothing, so a union loses nothing.
    ("PodSpec", "tolerations", ListMerge::Set),
    ("Container", "env", ListMerge::Keyed(&["name"])),
    ("Container", "envFrom", ListMerge::Set),
    ("Container", "ports", ListMerge::Keyed(&["containerPort", "protocol"])),
    ("Container", "volumeMounts", ListMerge::Keyed(&["mountPath"])),
    ("Container", "volumeDevices", ListMerge::Keyed(&["devicePath"])),
    ("ResourceRequirements", "claims", ListMerge::Keyed(&["name"])),
    ("Capabilities", "add", ListMerge::Set),
    ("Capabilities", "drop", ListMerge::Set),
    ("PodSecurityContext", "supplementalGroups", ListMerge::Set),
    ("ObjectMeta", "finalizers", ListMerge::Set),
    ("ObjectMeta", "ownerReferences", ListMerge::Keyed(&["uid"])),
];

/// The shapes of a Pod and of all that is in it.
#[derive(Debug)]
pub(crate) struct PodSchema {
    shapes: Vec<Shape>,
    pod: ShapeId,
    container: ShapeId,
}

impl PodSchema {
    /// The schema of the newest Kubernetes release that this build knows.
    pub(crate) fn get() -> &'static PodSchema {
        static SCHEMA: LazyLock<PodSchema> = LazyLock::new(PodSchema::from_api_types);
        &SCHEMA
    }

    pub(crate) fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0]
    }

    /// The shape of `Pod`.
    pub(crate) fn pod(&self) -> ShapeId {
        self.pod
    }

    /// The shape of one entry of `spec.containers`.
    pub(crate) fn container(&self) -> ShapeId {
        self.container
    }

    fn from_api_types() -> Self {
        let root =
            schemars::generate::SchemaSettings::draft07().into_generator().into_root_schema_for::<Pod>();
        let root = root.to_value();
        let mut builder =
            Builder { definitions: &root["definitions"], shapes: Vec::new(), known: HashMap::new() };
        let pod = builder.object("Pod", &root);
        let container = builder.reference("#/definitions/io.k8s.api.core.v1.Container");
        Self { shapes: builder.shapes, pod, container }
    }
}

struct Builder<'a> {
    definitions: &'a Value,
    shapes: Vec<Shape>,
    known: HashMap<String, ShapeId>,
}

impl Builder<'_> {
    fn push(&mut self, shape: Shape) -> ShapeId {
        self.shapes.push(shape);
        ShapeId(self.shapes.len() - 1)
    }

    fn reference(&mut self, reference: &str) -> ShapeId {
        let name = reference.trim_start_matches("#/definitions/");
        if let Some(id) = self.known.get(name) {
            return *id;
        }
        let definition = &self.definitions[name];
        let type_name = name.rsplit('.').next().unwrap_or(name);
        if type_name == "Quantity" {
            let id = self.push(Shape::Quantity);
            self.known.insert(name.to_owned(), id);
            return id;
        }
        if definition.get("properties").is_some() {
            // Reserve the place first: JSONSchemaProps and the like contain themselves.
            let id = self.push(Shape::Object(BTreeMap::new()));
            self.known.insert(name.to_owned(), id);
            let fields = self.fields(type_name, definition);
            self.shapes[id.0] = Shape::Object(fields);
            return id;
        }
        let id = self.schema(definition, ListMerge::Atomic);
        self.known.insert(name.to_owned(), id);
        id
    }

    fn object(&mut self, type_name: &str, schema: &Value) -> ShapeId {
        let fields = self.fields(type_name, schema);
        self.push(Shape::Object(fields))
    }

    fn fields(&mut self, type_name: &str, schema: &Value) -> BTreeMap<String, ShapeId> {
        let empty = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let merge_of = |field: &str| {
            LISTS
                .iter()
                .find(|(holder, name, _)| *holder == type_name && *name == field)
                .map_or(ListMerge::Atomic, |(_, _, merge)| *merge)
        };
        properties
            .iter()
            .map(|(field, schema)| (field.clone(), self.schema(schema, merge_of(field))))
            .collect()
    }

    fn schema(&mut self, schema: &Value, merge: ListMerge) -> ShapeId {
        if let Some(reference) = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str()) {
            return self.reference(reference);
        }
        let shape = match schema["type"].as_str() {
            Some("array") => {
                let items = self.schema(&schema["items"], ListMerge::Atomic);
                Shape::List(items, merge)
            }
            Some("object") => {
                let values = match schema.get("additionalProperties") {
                    Some(values) => self.schema(values, ListMerge::Atomic),
                    None => self.push(Shape::String),
                };
                Shape::Map(values)
            }
            Some("integer") => Shape::Integer,
            Some("boolean") => Shape::Boolean,
            Some(_) => Shape::String,
            None => Shape::IntOrString,
        };
        self.push(shape)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::DeepMerge;
    use serde_json::json;

    use super::*;

    fn field(schema: &PodSchema, id: ShapeId, path: &[&str]) -> ShapeId {
        path.iter().fold(id, |id, name| match schema.shape(id) {
            Shape::Object(fields) => fields[*name],
            Shape::List(items, _) | Shape::Map(items) => match schema.shape(*items) {
                Shape::Object(fields) => fields[*name],
                other => panic!("{name} in {other:?}"),
            },
            other => panic!("{name} in {other:?}"),
        })
    }

    #[test]
    fn the_shape_of_a_pod_is_the_api_types_own() {
        let schema = PodSchema::get();
        let limits = field(schema, schema.container(), &["resources", "limits"]);
        let Shape::Map(values) = schema.shape(limits) else { panic!("limits are a map") };
        assert!(matches!(schema.shape(*values), Shape::Quantity));
        let size = field(schema, schema.pod(), &["spec", "volumes", "emptyDir", "sizeLimit"]);
        assert!(matches!(schema.shape(size), Shape::Quantity));
        let Shape::Object(pod) = schema.shape(schema.pod()) else { panic!("a pod is an object") };
        assert!(!pod.contains_key("annotations"), "NVIDIA's policy puts them there, where no Pod has them");
    }

    /// Every keyed list of the table, merged by the API's own implementation: entries with equal keys must
    /// become one there as well, and entries with other keys must not.
    #[test]
    fn list_keys_are_those_that_the_api_declares() {
        for (holder, list, merge) in LISTS {
            let ListMerge::Keyed(keys) = merge else { continue };
            let entry = |mark: i64| -> Value {
                keys.iter()
                    .map(|key| {
                        let value =
                            if *key == "containerPort" { json!(mark) } else { json!(format!("k{mark}")) };
                        ((*key).to_owned(), value)
                    })
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            };
            let merged = |left: i64, right: i64| {
                let pod = |mark| pod_with(holder, list, &fill(list, entry(mark)));
                let mut result: Pod = serde_json::from_value(pod(left)).unwrap();
                result.merge_from(serde_json::from_value(pod(right)).unwrap());
                let value = serde_json::to_value(result).unwrap();
                find_list(&value, list).unwrap_or_else(|| panic!("{list} in {value}")).len()
            };
            assert_eq!(merged(1, 1), 1, "{holder}.{list}: same keys");
            assert_eq!(merged(1, 2), 2, "{holder}.{list}: other keys");
        }
    }

    fn fill(list: &str, mut entry: Value) -> Value {
        let required: &[(&str, Value)] = match list {
            "volumeMounts" | "volumeDevices" => &[("name", json!("v"))],
            "topologySpreadConstraints" => &[("maxSkew", json!(1))],
            "ownerReferences" => &[("apiVersion", json!("v1")), ("kind", json!("Job")), ("name", json!("j"))],
            _ => &[],
        };
        for (key, value) in required {
            entry[*key] = value.clone();
        }
        entry
    }

    fn pod_with(holder: &str, list: &str, entry: &Value) -> Value {
        match holder {
            "PodSpec" => {
                let mut spec = json!({"containers": [{"name": "c"}]});
                spec[list] = json!([entry]);
                json!({"spec": spec})
            }
            "Container" => json!({"spec": {"containers": [{"name": "c", list: [entry]}]}}),
            "ResourceRequirements" => {
                json!({"spec": {"containers": [{"name": "c", "resources": {list: [entry]}}]}})
            }
            "ObjectMeta" => json!({"metadata": {list: [entry]}}),
            other => panic!("no sample for {other}"),
        }
    }

    fn find_list<'a>(value: &'a Value, name: &str) -> Option<&'a Vec<Value>> {
        match value {
            Value::Object(map) => map
                .get(name)
                .and_then(Value::as_array)
                .or_else(|| map.values().find_map(|value| find_list(value, name))),
            Value::Array(items) => items.iter().find_map(|value| find_list(value, name)),
            _ => None,
        }
    }
}
