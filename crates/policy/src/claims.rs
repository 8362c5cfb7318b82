//! What claims request: the device classes of their requests. A class has its own name, and those of the drivers that its
//! `DeviceClass` names.

use std::sync::Arc;

use serde_json::Value;

/// More devices than a claim can have.
const MOST_DEVICES: i64 = 1_024;

/// One request for devices of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClaimRequest {
    /// The name of the request, by which a container can use it alone.
    pub name: String,
    /// The name of the device class, and those of its drivers.
    pub classes: Vec<String>,
    /// The number of devices; `None` for all of a node.
    pub count: Option<i64>,
    /// Whether devices of other classes are taken where these are not available.
    pub has_alternatives: bool,
    /// The CEL expressions that a device meets besides those of its class.
    pub selectors: Vec<String>,
}

/// A class of devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceClass {
    pub name: String,
    /// Those of its configuration, and those with which its selectors compare.
    pub drivers: Vec<String>,
    /// The extended resource by which pods request devices of the class without a claim.
    pub resource: Option<String>,
    /// The CEL expressions that its devices meet.
    pub selectors: Vec<String>,
}

/// The prefix of the resources with which a container requests devices of a class without a claim. The scheduler
/// creates the claim.
pub const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

impl DeviceClass {
    /// Reads the `spec` of a class.
    pub(crate) fn read(name: String, spec: &Value) -> Self {
        let resource = spec["extendedResourceName"].as_str().map(str::to_owned);
        Self { name, drivers: drivers(spec), resource, selectors: selectors(spec) }
    }

    /// A request for devices of the class.
    pub fn request(&self) -> ClaimRequest {
        let classes = std::iter::once(&self.name).chain(&self.drivers).cloned().collect();
        ClaimRequest { classes, ..ClaimRequest::default() }
    }

    /// The resources with which containers request its devices without a claim.
    pub(crate) fn resources(&self) -> impl Iterator<Item = String> {
        [format!("{DEVICE_CLASS}{}", self.name)].into_iter().chain(self.resource.clone())
    }
}

/// The requests of a claim. Pods that refer to the same object share them.
pub type Requests = Arc<[ClaimRequest]>;

/// The requests of the `spec` of a claim. Of alternatives, the first one counts; access to devices that others use
/// (`adminAccess`) is none.
pub(crate) fn requests(spec: &Value) -> Requests {
    let items = spec["devices"]["requests"].as_array().into_iter().flatten();
    let read = |item: &Value| {
        // `v1beta1` has the fields of `exactly` next to the name.
        let exactly = [&item["exactly"], &item["firstAvailable"][0], item];
        let exactly = exactly.into_iter().find(|fields| fields["deviceClassName"].is_string())?;
        if exactly["adminAccess"] == true {
            return None;
        }
        let count = match exactly["allocationMode"].as_str() {
            Some("All") => None,
            _ => Some(exactly["count"].as_i64().unwrap_or(1).clamp(1, MOST_DEVICES)),
        };
        let name = item["name"].as_str().unwrap_or_default().to_owned();
        let classes = vec![exactly["deviceClassName"].as_str()?.to_owned()];
        let has_alternatives = item["firstAvailable"].is_array();
        Some(ClaimRequest { name, classes, count, has_alternatives, selectors: selectors(exactly) })
    };
    items.filter_map(read).collect()
}

/// The CEL expressions of a class or a request.
fn selectors(spec: &Value) -> Vec<String> {
    let items = spec["selectors"].as_array().into_iter().flatten();
    items.filter_map(|selector| selector["cel"]["expression"].as_str()).map(str::to_owned).collect()
}

/// The drivers that a class names: those of its configuration, and those with which its selectors compare.
fn drivers(spec: &Value) -> Vec<String> {
    let items = |key: &str| spec[key].as_array().into_iter().flatten();
    let mut drivers: Vec<String> =
        items("config").filter_map(|config| config["opaque"]["driver"].as_str()).map(str::to_owned).collect();
    for text in selectors(spec) {
        let compared = text.split("device.driver").skip(1).filter_map(|rest| {
            let quoted = rest.trim_start().strip_prefix("==")?.trim_start();
            let quote = quoted.chars().next().filter(|first| ['"', '\''].contains(first))?;
            quoted[1..].split_once(quote).map(|(driver, _)| driver.to_owned())
        });
        drivers.extend(compared);
    }
    drivers.sort();
    drivers.dedup();
    drivers
}
