//! Rules about several fields of one object, as `k8s.io/kubernetes/pkg/apis/core/validation` has them.
//!
//! Each rule is checked on an object whose fields have valid values of their own.

use std::collections::HashSet;

use serde_json::{Map, Value};

use fabric_yaml::quantity::Quantity;

/// The maps of `resources` with the amounts of a container.
pub const AMOUNT_LISTS: [&str; 2] = ["limits", "requests"];

type Fields = Map<String, Value>;

/// The text of a field; `""` if it has none.
fn text<'a>(object: &'a Fields, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Fields, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn has(object: &Fields, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null())
}

fn require(holds: bool, message: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message.to_owned()) }
}

/// The first value that occurs twice.
fn repeated<'a>(mut values: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    values.find(|value| !seen.insert(*value))
}

fn has_at_most(most: usize, object: &Fields, name: &str) -> Result<(), String> {
    require(items(object, name).len() <= most, &format!("`{name}` has more than {most} entries"))
}

pub(super) fn node_field(object: &Fields) -> Result<(), String> {
    has_at_most(1, object, "values")
}

pub(super) fn dns_config(object: &Fields) -> Result<(), String> {
    has_at_most(3, object, "nameservers")?;
    has_at_most(32, object, "searches")?;
    let searches = items(object, "searches");
    let characters: usize = searches.iter().filter_map(Value::as_str).map(|search| search.len() + 1).sum();
    require(
        characters <= 2049,
        "the search domains have more than 2048 characters, with the spaces between them",
    )
}

pub(super) fn volume_mount(object: &Fields) -> Result<(), String> {
    if !["Enabled", "IfPossible"].contains(&text(object, "recursiveReadOnly")) {
        return Ok(());
    }
    let read_only = object.get("readOnly").and_then(Value::as_bool) == Some(true);
    require(read_only, "a mount with recursiveReadOnly needs readOnly: true")?;
    require(
        ["", "None"].contains(&text(object, "mountPropagation")),
        "a mount with recursiveReadOnly has no mountPropagation other than None",
    )
}

/// A divisor is one unit: `1`, a decimal unit such as `1M` or a binary unit such as `1Mi`; for CPUs `1` or `1m`.
pub(super) fn divisor(object: &Fields) -> Result<(), String> {
    let Some(value) = object.get("divisor").filter(|value| !value.is_null()) else { return Ok(()) };
    let is = |unit: &str| Quantity::from_value(value) == Quantity::parse(unit);
    let binary = value.as_str().is_some_and(|text| text.ends_with('i'));
    let exponent = value.as_str().is_some_and(|text| text.contains(['e', 'E']) && !text.ends_with('E'));
    let units: &[&str] = match text(object, "resource") {
        "limits.cpu" | "requests.cpu" => &["1m"],
        _ if binary => &["1k", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"],
        _ => &["1k", "1M", "1G", "1T", "1P", "1E"],
    };
    let unit = is("0") || is("1") || !exponent && units.iter().any(|unit| is(unit));
    require(unit, "the divisor is not one unit, such as `1`, `1m` (of CPUs only), `1Mi` or `1M`")
}

pub(super) fn empty_dir(object: &Fields) -> Result<(), String> {
    let limit = object.get("sizeLimit").and_then(Quantity::from_value);
    require(limit >= Quantity::parse("0") || limit.is_none(), "sizeLimit is negative")
}

pub(super) fn sysctls(object: &Fields) -> Result<(), String> {
    let names = items(object, "sysctls").iter().filter_map(|sysctl| sysctl["name"].as_str());
    repeated(names).map_or(Ok(()), |name| Err(format!("`{name}` is in sysctls twice")))
}

pub(super) fn localhost_profile(object: &Fields) -> Result<(), String> {
    match (text(object, "type"), has(object, "localhostProfile")) {
        ("Localhost", false) => Err("a profile of type Localhost needs localhostProfile".to_owned()),
        (other, true) if other != "Localhost" => {
            Err(format!("a profile of type {other} has no localhostProfile"))
        }
        _ => Ok(()),
    }
}

pub(super) fn selector_requirement(object: &Fields) -> Result<(), String> {
    let operator = text(object, "operator");
    let values = items(object, "values").len();
    match operator {
        "In" | "NotIn" => require(values > 0, "the operators In and NotIn need values"),
        "Gt" | "Lt" => require(values == 1, "the operators Gt and Lt need one value"),
        _ => require(values == 0, "the operators Exists and DoesNotExist have no values"),
    }
}

pub(super) fn toleration(object: &Fields) -> Result<(), String> {
    let exists = text(object, "operator") == "Exists";
    require(exists || !text(object, "key").is_empty(), "a toleration without a key needs operator: Exists")?;
    require(
        !exists || text(object, "value").is_empty(),
        "a toleration with operator: Exists must not have a `value`",
    )?;
    require(
        !has(object, "tolerationSeconds") || text(object, "effect") == "NoExecute",
        "a toleration with tolerationSeconds needs effect: NoExecute",
    )
}

pub(super) fn topology_spread_constraint(object: &Fields) -> Result<(), String> {
    require(
        !has(object, "minDomains") || text(object, "whenUnsatisfiable") == "DoNotSchedule",
        "a constraint with minDomains needs whenUnsatisfiable: DoNotSchedule",
    )
}

/// The files of all sources have different paths. The API server does not compare the file of a token.
pub(super) fn projected_paths(object: &Fields) -> Result<(), String> {
    let files = |source: &'static str| {
        items(object, "sources").iter().filter_map(move |projection| projection[source]["items"].as_array())
    };
    let files = ["configMap", "downwardAPI", "secret"].into_iter().flat_map(files).flatten();
    let paths = files.filter_map(|file| file["path"].as_str());
    repeated(paths).map_or(Ok(()), |path| Err(format!("two sources have a file `{path}`")))
}

pub(super) fn claim(object: &Fields) -> Result<(), String> {
    let modes = items(object, "accessModes");
    let exclusive = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    let others = modes.iter().any(|mode| mode != "ReadWriteOncePod");
    require(!exclusive || !others, "ReadWriteOncePod does not go together with other access modes")?;
    let storage = object.get("resources").and_then(|resources| resources.pointer("/requests/storage"));
    require(
        storage.and_then(Quantity::from_value) > Quantity::parse("0"),
        "a claim needs a request of storage, which is more than 0",
    )
}

pub(super) fn resources(object: &Fields) -> Result<(), String> {
    for list in AMOUNT_LISTS {
        let amounts = object.get(list).and_then(Value::as_object);
        for (name, amount) in amounts.into_iter().flatten() {
            resource_amount(name, amount)?;
        }
    }
    Ok(())
}

/// Checks that a container can have this amount of a resource.
pub fn resource_amount(name: &str, amount: &Value) -> Result<(), String> {
    let quantity = Quantity::from_value(amount);
    require(
        quantity >= Quantity::parse("0"),
        &format!("{amount} of `{name}` is not an amount of at least 0"),
    )?;
    if let Some(size) = name.strip_prefix("hugepages-") {
        let whole = quantity.zip(Quantity::parse(size)).is_some_and(|(all, one)| all.is_multiple_of(one));
        return require(whole, &format!("{amount} of `{name}` is not a multiple of {size}"));
    }
    if is_extended_resource(name) {
        let whole = quantity.and_then(Quantity::as_count).is_some();
        return require(whole, &format!("{amount} of `{name}` is not a whole number"));
    }
    Ok(())
}

/// Fails if a container cannot have this limit and this request of a resource.
pub fn resource_pair(name: &str, limit: &Value, request: &Value) -> Result<(), String> {
    let pair = Quantity::from_value(limit).zip(Quantity::from_value(request));
    let fits =
        pair.is_some_and(|(limit, request)| request == limit || request < limit && can_overcommit(name));
    require(fits, &format!("the request {request} of `{name}` does not go with the limit {limit}"))
}

/// Returns whether the limit of a resource can be more than its request.
pub fn can_overcommit(name: &str) -> bool {
    !name.starts_with("hugepages-") && !is_extended_resource(name)
}

/// Returns whether a resource belongs to a device plugin. It is counted in whole numbers, and its request equals
/// its limit.
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Check = fn(&Fields) -> Result<(), String>;

    fn check(rule: Check, valid: &[Value], invalid: &[Value]) {
        for object in valid {
            assert_eq!(rule(object.as_object().unwrap()), Ok(()), "{object}");
        }
        for object in invalid {
            assert!(rule(object.as_object().unwrap()).is_err(), "{object}");
        }
    }

    #[test]
    fn mounts_and_profiles() {
        check(
            volume_mount,
            &[
                json!({}),
                json!({"recursiveReadOnly": "Disabled", "mountPropagation": "Bidirectional"}),
                json!({"recursiveReadOnly": "Enabled", "readOnly": true, "mountPropagation": "None"}),
            ],
            &[
                json!({"recursiveReadOnly": "Enabled"}),
                json!({"recursiveReadOnly": "IfPossible", "readOnly": true, "mountPropagation": "HostToContainer"}),
            ],
        );
        check(
            localhost_profile,
            &[json!({"type": "RuntimeDefault"}), json!({"type": "Localhost", "localhostProfile": "a"})],
            &[json!({"type": "Localhost"}), json!({"type": "Unconfined", "localhostProfile": "a"})],
        );
        let sysctl =
            |names: &[&str]| json!({"sysctls": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()});
        check(sysctls, &[json!({}), sysctl(&["a", "b"])], &[sysctl(&["a", "b", "a"])]);
    }

    #[test]
    fn divisors() {
        let of = |resource: &str, divisor: Value| json!({"resource": resource, "divisor": divisor});
        check(
            divisor,
            &[
                json!({"resource": "limits.cpu"}),
                of("limits.cpu", json!("0")),
                of("limits.cpu", json!(1)),
                of("limits.cpu", json!("1m")),
                of("limits.cpu", json!("1000m")),
                of("limits.memory", json!("1Mi")),
                of("limits.memory", json!("1024Ki")),
                of("limits.memory", json!("1000")),
                of("limits.memory", json!("1E")),
                of("limits.hugepages-2Mi", json!("1Gi")),
            ],
            &[
                of("limits.cpu", json!("2")),
                of("limits.cpu", json!("1k")),
                of("limits.memory", json!("1m")),
                of("limits.memory", json!("1024")),
                of("limits.memory", json!("1e3")),
                of("limits.memory", json!("2Mi")),
            ],
        );
    }

    #[test]
    fn scheduling() {
        let requirement = |operator: &str, values: &[&str]| json!({"operator": operator, "values": values});
        check(
            selector_requirement,
            &[requirement("In", &["a", "b"]), requirement("Exists", &[]), requirement("Gt", &["1"])],
            &[requirement("NotIn", &[]), requirement("DoesNotExist", &["a"]), requirement("Lt", &["1", "2"])],
        );
        check(
            toleration,
            &[
                json!({"operator": "Exists"}),
                json!({"key": "a"}),
                json!({"key": "a", "value": "b"}),
                json!({"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}),
            ],
            &[
                json!({}),
                json!({"value": "b"}),
                json!({"key": "a", "operator": "Exists", "value": "b"}),
                json!({"key": "a", "tolerationSeconds": 1}),
            ],
        );
        check(
            topology_spread_constraint,
            &[
                json!({"whenUnsatisfiable": "ScheduleAnyway"}),
                json!({"whenUnsatisfiable": "DoNotSchedule", "minDomains": 1}),
            ],
            &[json!({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1})],
        );
    }

    #[test]
    fn volumes() {
        check(empty_dir, &[json!({}), json!({"sizeLimit": "0"})], &[json!({"sizeLimit": "-1"})]);
        let files = |source: &str, path: &str| json!({source: {"items": [{"path": path}]}});
        check(
            projected_paths,
            &[json!({}), json!({"sources": [files("configMap", "a"), files("secret", "b")]})],
            &[json!({"sources": [files("configMap", "a"), files("downwardAPI", "a")]})],
        );
        let claim_of = |modes: &[&str], storage: &str| json!({"accessModes": modes, "resources": {"requests": {"storage": storage}}});
        check(
            claim,
            &[claim_of(&["ReadWriteOncePod"], "1Gi"), claim_of(&["ReadWriteOnce", "ReadOnlyMany"], "1")],
            &[
                claim_of(&["ReadWriteOncePod", "ReadWriteOnce"], "1Gi"),
                claim_of(&["ReadWriteOnce"], "0"),
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"cpu": 1}}}),
            ],
        );
        let searches = |count: usize| json!({"searches": vec!["a".repeat(127); count]});
        check(dns_config, &[json!({}), searches(16)], &[searches(17)]);
    }

    #[test]
    fn amounts() {
        let limits = |name: &str, amount: Value| json!({"limits": {name: amount}});
        check(
            resources,
            &[
                json!({}),
                limits("cpu", json!("100m")),
                limits("memory", json!(0)),
                limits("hugepages-2Mi", json!("5Gi")),
                limits("nvidia.com/gpu", json!("8")),
                limits("example.kubernetes.io/a", json!("1m")),
            ],
            &[
                limits("cpu", json!("-1")),
                limits("cpu", json!("one")),
                limits("hugepages-2Mi", json!("3Mi")),
                limits("nvidia.com/gpu", json!("500m")),
                json!({"requests": {"nvidia.com/gpu": "1.5"}}),
            ],
        );
    }
}
