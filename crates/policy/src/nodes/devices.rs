//! The devices that drivers offer on nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Texts;

/// Devices of a node that are alike in what selectors read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Devices {
    /// The name of a resource: the driver and the type of the devices.
    pub(super) name: Arc<str>,
    pub(super) driver: Arc<str>,
    /// What selectors read of a device, in JSON, with `null` for what is not known.
    device: Arc<str>,
    pub count: i64,
}

/// The devices of a slice from which on an attribute with another value in each of them, such as an address, is not kept.
/// It would be most of the memory, because no two nodes are alike in it.
const MANY: usize = 4;

impl Devices {
    /// Reads the devices of a `ResourceSlice`.
    pub(crate) fn read_all(items: &[Value], driver: &str, texts: &mut Texts) -> Vec<Self> {
        let read: Vec<BTreeMap<(&str, &str), Value>> =
            items.iter().map(|item| attributes(item, driver)).collect();
        let mut seen: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
        for (key, value) in read.iter().flatten() {
            seen.entry(*key).or_default().insert(value.to_string());
        }
        let is_own = |key: &(&str, &str)| items.len() >= MANY && seen[key].len() == items.len();
        let mut found: BTreeMap<(Arc<str>, Arc<str>), i64> = BTreeMap::new();
        for (item, attributes) in items.iter().zip(&read) {
            let kind = item["attributes"]["type"]["string"].as_str().unwrap_or("device");
            let mut domains = Map::from_iter([(driver.to_owned(), json!({}))]);
            for ((domain, name), value) in attributes {
                let value = if is_own(&(domain, name)) { Value::Null } else { value.clone() };
                domains.entry(*domain).or_insert_with(|| json!({}))[name] = value;
            }
            let device = json!({"driver": driver, "attributes": domains, "capacity": null}).to_string();
            *found.entry((texts.shared(&format!("{driver}/{kind}")), texts.shared(&device))).or_default() +=
                1;
        }
        let driver = texts.shared(driver);
        let devices = |((name, device), count)| Self { name, driver: Arc::clone(&driver), device, count };
        found.into_iter().map(devices).collect()
    }

    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// What selectors read of a device, with `null` for what is not known.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.device).unwrap_or_default()
    }
}

/// The attributes of a device, each by its domain and its name. One of a type that CEL does not compare with literals,
/// such as a version, is `null`.
fn attributes<'v>(device: &'v Value, driver: &'v str) -> BTreeMap<(&'v str, &'v str), Value> {
    let attributes = device["attributes"].as_object().into_iter().flatten();
    let read = attributes.map(|(name, value)| {
        let known = ["string", "bool", "int"].into_iter().find_map(|of| value.get(of));
        (name.split_once('/').unwrap_or((driver, name)), known.cloned().unwrap_or_default())
    });
    read.collect()
}
