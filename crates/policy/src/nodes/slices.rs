//! The devices of nodes that drivers for dynamic resource allocation (DRA) offer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::Texts;

/// The parts of a `ResourceSlice` of `resource.k8s.io/v1` about the devices of a node.
#[derive(Debug, PartialEq, Eq)]
pub struct Slice {
    /// Empty for devices that are not of one node.
    node: Arc<str>,
    driver: Arc<str>,
    pool: Arc<str>,
    generation: i64,
    /// The number of slices of the pool.
    slices: i64,
    /// The devices by the name of a resource: the driver and their type.
    devices: BTreeMap<Arc<str>, i64>,
}

impl Slice {
    /// Reads a `ResourceSlice` object. A field of another type than the API server accepts counts as absent.
    pub fn read(slice: &Value, texts: &mut Texts) -> Self {
        let spec = &slice["spec"];
        let (pool, text) = (&spec["pool"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let driver = text(&spec["driver"]);
        let mut devices = BTreeMap::new();
        for device in spec["devices"].as_array().into_iter().flatten() {
            let kind = device["attributes"]["type"]["string"].as_str().unwrap_or("device");
            *devices.entry(texts.shared(&format!("{driver}/{kind}"))).or_default() += 1;
        }
        Self {
            node: texts.shared(&text(&spec["nodeName"])),
            driver: texts.shared(&driver),
            pool: texts.shared(&text(&pool["name"])),
            generation: pool["generation"].as_i64().unwrap_or_default(),
            slices: pool["resourceSliceCount"].as_i64().unwrap_or_default(),
            devices,
        }
    }
}

/// The devices by node. A driver replaces the slices of a pool one after the other: those of earlier generations do not
/// count, and none does until all of the latest are there.
pub(super) fn devices<'s>(
    slices: impl IntoIterator<Item = &'s Slice>,
) -> HashMap<&'s str, BTreeMap<Arc<str>, i64>> {
    let mut pools: HashMap<(&str, &str), Vec<&Slice>> = HashMap::new();
    for slice in slices {
        pools.entry((&slice.driver, &slice.pool)).or_default().push(slice);
    }
    let mut found: HashMap<&str, BTreeMap<Arc<str>, i64>> = HashMap::new();
    for mut pool in pools.into_values() {
        let latest = pool.iter().map(|slice| slice.generation).max();
        pool.retain(|slice| Some(slice.generation) == latest);
        if pool.iter().any(|slice| i64::try_from(pool.len()) != Ok(slice.slices)) {
            continue;
        }
        for slice in pool {
            let of_node = found.entry(&slice.node).or_default();
            for (name, count) in &slice.devices {
                *of_node.entry(Arc::clone(name)).or_default() += count;
            }
        }
    }
    found
}
