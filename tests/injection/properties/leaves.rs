//! Whether a pod has what a policy asks for, field by field, or a warning says why not.

use std::collections::BTreeSet;

use serde_json::Value;

use super::adapter::{Warning, compare_amounts};
use super::generator::defaults::ZERO_IS_NOTHING;
use super::generator::expressions::plain;
use super::generator::{items, pods};
use super::model::Asked;
use super::places::{Place, class, clean, tokens, without_list};

/// A pod after injection, and what was said of it.
pub(crate) struct Outcome<'a> {
    pub(crate) before: &'a Value,
    pub(crate) after: &'a Value,
    pub(crate) warnings: &'a [Warning],
    /// Whether the policy edits lists inside of strings, which may change what another of its rules set.
    pub(crate) edits: bool,
    /// Places for which the policy asks two things, of which a rule replaces one, or of which one has precedence.
    pub(crate) contradictions: BTreeSet<Place>,
}

/// The keys by which entries of lists are known, from the Kubernetes API; a list with no keys is a set.
const CONTAINER_LISTS: [(&str, &[&str]); 16] = [
    ("env", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("ports", &["containerPort", "protocol"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("claims", &["name"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("envFrom", &[]),
    ("tolerations", &[]),
    ("capabilities", &[]),
    ("supplementalGroups", &[]),
];

/// A description of the first field that is neither there nor reported.
pub(crate) fn missing(asked: &Asked, outcome: &Outcome<'_>) -> Option<(String, String)> {
    let missing = outcome.of_rule(asked)?;
    Some((class(&missing), format!("{} of {}", missing.join("/"), asked.rule)))
}

impl Outcome<'_> {
    fn of_rule(&self, asked: &Asked) -> Option<Place> {
        for (list, at, wanted) in &asked.containers {
            let container = &self.after["spec"][*list][*at];
            let mut place = vec!["spec".to_owned(), (*list).to_owned(), plain(&container["name"])];
            if let Some(missing) = self.missing(wanted, container, &mut place) {
                return Some(missing);
            }
        }
        for list in ["containers", "initContainers"] {
            for wanted in items(&asked.pod["spec"][list]) {
                let found = pods::containers(self.after).find(|(_, _, one)| one["name"] == wanted["name"]);
                let mut place = vec!["spec".to_owned(), list.to_owned(), plain(&wanted["name"])];
                match found {
                    Some((home, _, container)) if home == list => {
                        if let Some(missing) = self.missing(wanted, container, &mut place) {
                            return Some(missing);
                        }
                    }
                    Some((home, ..))
                        if self.reported(&vec![
                            "spec".to_owned(),
                            home.to_owned(),
                            plain(&wanted["name"]),
                        ]) => {}
                    _ if self.reported(&place) => {}
                    _ => return Some(place),
                }
            }
        }
        let mut rest = asked.pod.clone();
        if let Some(spec) = rest.get_mut("spec").and_then(Value::as_object_mut) {
            // Volumes are checked with the mounts that need them.
            for list in ["containers", "initContainers", "volumes"] {
                spec.shift_remove(list);
            }
        }
        self.missing(&rest, self.after, &mut Vec::new())
    }

    /// The first place below `place` where `after` lacks something that is not reported.
    fn missing(&self, wanted: &Value, after: &Value, place: &mut Place) -> Option<Place> {
        let here = |outcome: &Self, place: &Place| (!outcome.reported(place)).then(|| place.clone());
        let list = CONTAINER_LISTS.iter().find(|(name, _)| place.last().is_some_and(|last| last == name));
        let in_capabilities = place.iter().rev().nth(1).is_some_and(|parent| parent == "capabilities");
        match wanted {
            Value::Null => None,
            Value::Object(map) if map.keys().any(|key| key.starts_with('$')) => {
                if edited(map, after) {
                    None
                } else {
                    here(self, place)
                }
            }
            Value::Object(map) => {
                if map.is_empty() && !after.is_object() {
                    return here(self, place);
                }
                map.iter().find_map(|(key, wanted)| {
                    if is_no_amount(place, wanted) || is_no_scheduler(key, wanted) {
                        return None;
                    }
                    place.push(key.clone());
                    let missing = self.missing(wanted, &after[key], place);
                    place.pop();
                    missing
                })
            }
            Value::Array(entries) if in_capabilities => entries.iter().find_map(|name| {
                let has = items(after).iter().any(|known| bare(known) == bare(name) || known == "ALL");
                if has { None } else { here(self, place) }
            }),
            Value::Array(entries) => match list {
                Some((_, [])) => entries.iter().find_map(|entry| {
                    if items(after).iter().any(|known| covers(known, entry)) {
                        None
                    } else {
                        here(self, place)
                    }
                }),
                Some((name, keys)) => {
                    entries.iter().find_map(|entry| self.missing_entry(name, keys, entry, after, place))
                }
                None if covers(after, wanted) => None,
                None => here(self, place),
            },
            scalar if same(after, scalar) => None,
            // The API server takes 0 for the default of a probe's numbers.
            Value::Number(zero)
                if zero.as_i64() == Some(0) && place.iter().any(|key| key.ends_with("Probe")) =>
            {
                None
            }
            Value::Bool(false)
                if after.is_null()
                    && place.last().is_some_and(|key| ZERO_IS_NOTHING.contains(&key.as_str())) =>
            {
                None
            }
            Value::String(text) if self.edits && after.as_str().is_some_and(|after| after.contains(text)) => {
                None
            }
            _ => here(self, place),
        }
    }

    fn missing_entry(
        &self,
        list: &str,
        keys: &[&str],
        entry: &Value,
        after: &Value,
        place: &mut Place,
    ) -> Option<Place> {
        let key_of = |entry: &Value| -> Vec<String> {
            let text = |key: &&str| match (*key, &entry[*key]) {
                ("protocol", Value::Null) => "TCP".to_owned(),
                ("mountPath", value) => clean(&plain(value)),
                (_, value) => plain(value),
            };
            keys.iter().map(text).collect()
        };
        let wanted_key = key_of(entry);
        place.push(if list == "ports" { "*".to_owned() } else { wanted_key[0].clone() });
        // Of several variables with one name the last one counts.
        let found = items(after).iter().rfind(|known| key_of(known) == wanted_key);
        let missing = match found {
            None if self.reported(place) => None,
            None => Some(place.clone()),
            Some(found) if list == "volumeMounts" => self.missing_of_mount(entry, found, place),
            Some(found) => {
                let mut entry = entry.clone();
                for key in keys {
                    entry.as_object_mut().map(|entry| entry.shift_remove(*key));
                }
                self.missing(&entry, found, place)
            }
        };
        place.pop();
        missing
    }

    /// A mount, and its volume under whatever name.
    fn missing_of_mount(&self, wanted: &Value, found: &Value, place: &mut Place) -> Option<Place> {
        let volumes = |pod: &Value| items(&pod["spec"]["volumes"]).to_vec();
        if !volumes(self.after).iter().any(|volume| volume["name"] == found["name"]) && !self.reported(place)
        {
            place.push("name".to_owned());
            let missing = place.clone();
            place.pop();
            return Some(missing);
        }
        let mut rest = wanted.clone();
        for key in ["mountPath", "name"] {
            rest.as_object_mut().map(|rest| rest.shift_remove(key));
        }
        let renamed = plain(&found["name"]).starts_with(plain(&wanted["name"]).trim_end_matches('-'));
        let same_volume = renamed || {
            let pick = |name: &Value| volumes(self.before).into_iter().find(|volume| volume["name"] == *name);
            pick(&found["name"]).is_some()
        };
        if !same_volume && !self.reported(place) {
            return Some(place.clone());
        }
        self.missing(&rest, found, place)
    }

    /// Whether this is a capability for a container that gets no more privileges than it has, of which a warning says that it
    /// does not run as root.
    fn is_capability_without_effect(&self, place: &Place) -> bool {
        let [_, list, name, context, field, ..] = place.as_slice() else { return false };
        let mut containers = items(&self.after["spec"][list.as_str()]).iter();
        let is_told = || {
            let mut told = self.warnings.iter().filter(|warning| warning.code == "capability_without_root");
            told.any(|warning| tokens(&warning.path) == place[..3])
        };
        context == "securityContext"
            && field == "capabilities"
            && containers
                .any(|one| one["name"] == **name && one[context]["allowPrivilegeEscalation"] == false)
            && is_told()
    }

    /// Whether a warning is about this place, what is in it, or what it is in.
    fn reported(&self, place: &Place) -> bool {
        if self.contradictions.iter().any(|known| known.starts_with(place) || place.starts_with(known)) {
            return true;
        }
        if self.is_capability_without_effect(place) {
            return true;
        }
        // Warnings about what is there, not about what is left out.
        let others = [
            "parameter_",
            "nodes_",
            "capability_without_root",
            "renamed_",
            "restamped",
            "annotation_contradicted",
            "generated",
        ];
        let reports =
            self.warnings.iter().filter(|warning| !others.iter().any(|kind| warning.code.starts_with(kind)));
        let place = without_list(place);
        reports.map(|warning| without_list(&tokens(&warning.path))).any(|path| {
            let same = |(one, other): (&String, &String)| {
                // Entries without a name are reported by their index.
                one == other || other == "*" || clean(one) == *other || one.parse::<usize>().is_ok()
            };
            !path.is_empty() && path.iter().zip(&place).all(same)
        })
    }
}

/// The API server takes an empty name of a scheduler for none, and puts its default in.
fn is_no_scheduler(key: &str, wanted: &Value) -> bool {
    *wanted == "" && key == "schedulerName"
}

/// An amount of 0 asks for nothing.
fn is_no_amount(place: &Place, wanted: &Value) -> bool {
    let in_amounts = place.last().is_some_and(|last| last == "limits" || last == "requests");
    in_amounts && compare_amounts(wanted, &Value::from(0)).is_some_and(std::cmp::Ordering::is_eq)
}

fn same(after: &Value, wanted: &Value) -> bool {
    let empty = |value: &Value| value.is_null() || *value == "";
    plain(after) == plain(wanted)
        || (empty(after) && empty(wanted))
        || (!after.is_null() && compare_amounts(after, wanted).is_some_and(std::cmp::Ordering::is_eq))
}

/// Whether `after` has all that `wanted` has; it may have more, since the API server completes it.
fn covers(after: &Value, wanted: &Value) -> bool {
    match (after, wanted) {
        (Value::Object(after), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| covers(after.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(after), Value::Array(wanted)) => {
            after.len() == wanted.len()
                && after.iter().zip(wanted).all(|(after, wanted)| covers(after, wanted))
        }
        (after, wanted) => same(after, wanted),
    }
}

/// Whether a string has the entries that an edit adds.
fn edited(edit: &serde_json::Map<String, Value>, after: &Value) -> bool {
    let text = after.as_str().unwrap_or_default();
    let of = |key: &str| edit.get(key).map(plain);
    if let (Some(key), Some(entries)) = (of("$key"), edit.get("$append")) {
        let listed = serde_json::from_str::<Vec<Value>>(text).ok();
        return items(entries).iter().all(|entry| match &listed {
            Some(listed) => listed.iter().any(|known| covers(known, entry)),
            None => text.contains(&plain(&entry[&key])),
        });
    }
    if let Some(Value::Array(networks)) = edit.get("$append") {
        let named = |network: &Value| text.contains(plain(network).rsplit('/').next().unwrap_or_default());
        return networks.iter().all(named);
    }
    // Of the model only: a policy says it by `devices.add`.
    if let (Some(network), Some(count)) = (of("$append"), edit.get("$count")) {
        let count = count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let name = network.rsplit('/').next().unwrap_or_default().to_owned();
        return text.matches(name.as_str()).count() >= count;
    }
    let wanted = of("$prepend").or_else(|| of("$append")).unwrap_or_default();
    // Networks in JSON have the namespace apart from the name.
    let is_json = text.trim_start().starts_with('[');
    let last = wanted.rsplit('/').next().unwrap_or_default();
    is_json && text.contains(last) || wanted.split(':').all(|part| text.contains(part))
}

fn bare(capability: &Value) -> String {
    let name = plain(capability).to_uppercase();
    name.strip_prefix("CAP_").map_or(name.clone(), str::to_owned)
}
