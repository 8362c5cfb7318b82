//! The devices of nodes that drivers for dynamic resource allocation (DRA) offer.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::Texts;
use super::devices::Devices;

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
    devices: Vec<Devices>,
}

impl Slice {
    /// Reads a `ResourceSlice` object. A field of another type than the API server accepts counts as absent.
    pub fn read(slice: &Value, texts: &mut Texts) -> Self {
        let spec = &slice["spec"];
        let (pool, text) = (&spec["pool"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let driver = text(&spec["driver"]);
        let items = spec["devices"].as_array().map_or(&[][..], Vec::as_slice);
        Self {
            node: texts.shared(&text(&spec["nodeName"])),
            devices: Devices::read_all(items, &driver, texts),
            driver: texts.shared(&driver),
            pool: texts.shared(&text(&pool["name"])),
            generation: pool["generation"].as_i64().unwrap_or_default(),
            slices: pool["resourceSliceCount"].as_i64().unwrap_or_default(),
        }
    }
}

/// The devices by node. A driver replaces the slices of a pool one after the other: those of earlier generations do not
/// count, and none does until all of the latest are there.
pub(super) fn devices<'s>(slices: impl IntoIterator<Item = &'s Slice>) -> HashMap<&'s str, Vec<&'s Devices>> {
    let mut pools: HashMap<(&str, &str), Vec<&Slice>> = HashMap::new();
    for slice in slices {
        pools.entry((&slice.driver, &slice.pool)).or_default().push(slice);
    }
    let mut found: HashMap<&str, Vec<&Devices>> = HashMap::new();
    for mut pool in pools.into_values() {
        let latest = pool.iter().map(|slice| slice.generation).max();
        pool.retain(|slice| Some(slice.generation) == latest);
        if pool.iter().any(|slice| i64::try_from(pool.len()) != Ok(slice.slices)) {
            continue;
        }
        for slice in pool {
            found.entry(&slice.node).or_default().extend(&slice.devices);
        }
    }
    found
}
