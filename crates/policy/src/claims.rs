//! What claims request: the device classes of their requests.
//!
//! The CEL selectors of a class are not evaluated. A class has its own name, and those of the drivers that its
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
        Some(ClaimRequest { name, classes, count, has_alternatives: item["firstAvailable"].is_array() })
    };
    items.filter_map(read).collect()
}

/// The drivers that a class names: those of its configuration, and those with which its selectors compare.
pub(crate) fn drivers(spec: &Value) -> Vec<String> {
    let items = |key: &str| spec[key].as_array().into_iter().flatten();
    let mut drivers: Vec<String> =
        items("config").filter_map(|config| config["opaque"]["driver"].as_str()).map(str::to_owned).collect();
    for text in items("selectors").filter_map(|selector| selector["cel"]["expression"].as_str()) {
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
