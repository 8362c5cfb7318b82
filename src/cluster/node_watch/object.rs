//! What is read of a Node, a `ResourceSlice`, or an object that pods name: some values, by their paths. The rest, most of
//! the text, is skipped while it is parsed, so that no tree of it is in memory.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The paths of all that [`fabric_policy::nodes`] and [`fabric_policy::claims`] read. `[]` stands for each item of a list,
/// and `*` for each key of a map. Each path ends at a text, a number or a boolean.
const READ: &str = "metadata.name metadata.namespace metadata.annotations.* metadata.ownerReferences.[].kind metadata.resourceVersion metadata.labels.* spec.providerID \
                    spec.taints.[].* status.capacity.* status.allocatable.* status.conditions.[].type \
                    status.conditions.[].status spec.driver spec.nodeName spec.pool.* \
                    spec.devices.[].attributes.*.* spec.selectors.[].cel.expression spec.extendedResourceName \
                    spec.config.[].opaque.driver spec.channel.resourceClaimTemplate.name spec.devices.requests.[].* \
                    spec.devices.requests.[].exactly.* spec.devices.requests.[].firstAvailable.[].* \
                    spec.devices.requests.[].selectors.[].cel.expression \
                    spec.devices.requests.[].exactly.selectors.[].cel.expression \
                    spec.devices.requests.[].firstAvailable.[].selectors.[].cel.expression \
                    spec.spec.devices.requests.[].selectors.[].cel.expression \
                    spec.spec.devices.requests.[].exactly.selectors.[].cel.expression \
                    spec.spec.devices.requests.[].firstAvailable.[].selectors.[].cel.expression \
                    spec.spec.devices.requests.[].* spec.spec.devices.requests.[].exactly.* \
                    spec.spec.devices.requests.[].firstAvailable.[].*";
/// The longest text that is read, more than the 10 KiB of a CEL expression. A longer one is no name.
const LONGEST_TEXT: usize = 16 << 10;
/// The items of a list that are read: a slice has at most 128 devices, and a claim 32 requests.
const MOST_ITEMS: usize = 128;
/// The keys of a map that are read: a node has some hundred labels.
const MOST_KEYS: usize = 1_024;

/// The objects that the watcher reads.
#[derive(Debug, Clone)]
pub(super) struct Object {
    /// Only name and namespace, and the resource version from which the watcher continues.
    metadata: ObjectMeta,
    pub(super) value: Value,
}

/// What identifies an object among those of its kind.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Object {
    pub(super) fn key(&self) -> Key<'_> {
        let text = |key: &str| self.value["metadata"][key].as_str().unwrap_or_default();
        Key { namespace: text("namespace"), name: text("name") }
    }

    /// Returns whether the object is a claim that a template created for a pod. No other pod names it.
    pub(super) fn is_of_pod(&self) -> bool {
        let owners = self.value["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Pod"))
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
        let value = Paths(READ.split(' ').collect()).deserialize(object)?;
        let text = |key: &str| value["metadata"][key].as_str().map(str::to_owned);
        let (name, namespace, resource_version) = (text("name"), text("namespace"), text("resourceVersion"));
        let metadata = ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, value })
    }
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

macro_rules! scalars {
    ($($visit:ident: $scalar:ty),*) => {
        $(fn $visit<E>(self, value: $scalar) -> Result<Value, E> { Ok(value.into()) })*
    };
}

/// Reads of a value what is at these paths within it. A value of another type than its reader expects counts as absent.
#[derive(Clone)]
struct Paths<'p>(Vec<&'p str>);

impl Paths<'_> {
    fn paths_in(&self, key: &str) -> Self {
        let paths = self.0.iter().filter_map(|path| {
            let (first, rest) = path.split_once('.').unwrap_or((path, ""));
            (!path.is_empty() && [key, "*"].contains(&first)).then_some(rest)
        });
        Self(paths.collect())
    }
}

impl<'de> DeserializeSeed<'de> for Paths<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        if self.0.is_empty() {
            return IgnoredAny::deserialize(value).map(|_| Value::Null);
        }
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Paths<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(if text.len() <= LONGEST_TEXT { text.into() } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (paths, mut read) = (self.paths_in("[]"), Vec::new());
        while !paths.0.is_empty() && read.len() < MOST_ITEMS {
            match items.next_element_seed(paths.clone())? {
                Some(item) => read.push(item),
                None => return Ok(read.into()),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(read.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let paths = self.paths_in(&key);
            if paths.0.is_empty() || read.len() == MOST_KEYS {
                fields.next_value::<IgnoredAny>()?;
            } else {
                read.insert(key, fields.next_value_seed(paths)?);
            }
        }
        Ok(read.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

    use fabric_policy::nodes::{Node, Slice, Texts};
    use fabric_policy::objects::{NamedObject, ObjectKind};
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str::<Object>(text).unwrap().value
    }

    #[test]
    fn a_part_of_an_object_says_the_same_as_the_whole() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"a.example/b": "c"}, "managedFields": [{"manager": "kubelet"}]},
            "spec": {"providerID": "aws:///i-1", "podCIDR": "10.0.0.0/24",
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "x"}]},
            "status": {"capacity": {"nvidia.com/gpu": "8", "cpu": 4}, "allocatable": {"nvidia.com/gpu": "7"},
                "images": [{"names": ["a"]}], "conditions": [{"type": "Ready", "status": "True", "reason": "r"}]},
        });
        let of_node = read(&node.to_string());
        assert_eq!(Node::read(&of_node, &mut Texts::default()), Node::read(&node, &mut Texts::default()));
        assert!(!["managedFields", "images", "podCIDR"].iter().any(|key| of_node.to_string().contains(key)));
        let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n",
            "pool": {"name": "p", "generation": 2, "resourceSliceCount": 1},
            "devices": [{"name": "a", "attributes": {"type": {"string": "gpu"}, "x": {"int": 1}}}, {"name": "b"}]}});
        let of_slice = read(&slice.to_string());
        assert_eq!(Slice::read(&of_slice, &mut Texts::default()), Slice::read(&slice, &mut Texts::default()));
        let fields = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 3, "adminAccess": false,
            "selectors": [{"cel": {"expression": "true"}}]});
        let mut next_to_name = fields.clone();
        next_to_name["name"] = json!("b");
        let claim = json!({"devices": {"requests": [{"name": "a", "exactly": fields}, next_to_name,
            {"name": "c", "firstAvailable": [fields, {"name": "y", "deviceClassName": "other"}]}], "config": [{}]}});
        let metadata =
            json!({"name": "t", "namespace": "ml", "resourceVersion": "7", "annotations": {"a": "b"}});
        let template = json!({"metadata": metadata, "spec": {"metadata": {}, "spec": claim}});
        let domain = json!({"metadata": metadata,
            "spec": {"numNodes": 1, "channel": {"resourceClaimTemplate": {"name": "t"}, "allocationMode": "All"}}});
        let class = json!({"metadata": metadata, "spec": {"config": [{"opaque": {"driver": "a", "parameters": {}}}],
            "selectors": [{"cel": {"expression": "device.driver == 'b'"}}]}});
        for (kind, object) in [
            (ObjectKind::Template, template),
            (ObjectKind::Claim, json!({"metadata": metadata, "spec": claim})),
            (ObjectKind::Domain, domain),
            (ObjectKind::Class, class),
        ] {
            let part = read(&object.to_string());
            let of = |object: &Value| NamedObject::of_kind(kind, object, "");
            assert_eq!(of(&part), of(&object), "{kind:?}");
            assert!(
                of(&part).is_some() && part.to_string().len() < object.to_string().len(),
                "{kind:?} {part}"
            );
            assert_eq!(part["metadata"]["resourceVersion"], "7");
        }
    }

    #[test]
    fn a_value_of_another_type_is_absent_and_the_rest_of_the_object_is_read() {
        let deep = format!("{}0{}", "[".repeat(100_000), "]".repeat(100_000));
        let long = format!("\"{}\"", "x".repeat(LONGEST_TEXT + 1));
        let map = r#"{"name": {"": {"": 1}}, "a": [{}]}"#;
        for value in [deep.as_str(), &long, map, "null", "-1e300", "true", "[[],{}]"] {
            for place in ["junk", "channel", "devices", "driver"] {
                let object = format!(
                    r#"{{"spec":{{"{place}":{value},"spec":{{"devices":{{"config":{value},"requests":[{value},
                        {{"name":"a","count":{value},"exactly":{{"deviceClassName":"c","count":{value}}}}}]}}}}}},
                        "status":{value},"metadata":{{"name":"t","labels":{value}}}}}"#
                );
                let part = read(&object);
                let of = |kind| NamedObject::of_kind(kind, &part, "");
                let Some(NamedObject::Claim { requests, .. }) = of(ObjectKind::Template) else {
                    panic!("{place} {value}")
                };
                assert_eq!((requests.len(), &requests[0].classes[..]), (1, &["c".to_owned()][..]));
                ObjectKind::all().for_each(|kind| drop(of(kind)));
                let _ = Node::read(&part, &mut Texts::default());
                let _ = Slice::read(&part, &mut Texts::default());
            }
        }
        let requests = vec![r#"{"name":"a","exactly":{"deviceClassName":"c"}}"#; 50_000].join(",");
        let object = format!(
            r#"{{"spec":{{"spec":{{"devices":{{"requests":[{requests}]}}}}}},"metadata":{{"name":"t"}}}}"#
        );
        let part = read(&object);
        assert_eq!(part["spec"]["spec"]["devices"]["requests"].as_array().unwrap().len(), MOST_ITEMS);
        assert_eq!(part["metadata"]["name"], "t");
    }
}
