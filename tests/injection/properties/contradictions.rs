//! What a policy asks for in two ways.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::generator::expressions::plain;
use super::model::Demand;
use super::places::{Place, clean};

/// The places for which a policy asks two things. Which of the two a pod has depends on the order of the rules alone.
pub(crate) fn contradictions(demand: &Demand, pod: &Value) -> BTreeSet<Place> {
    let (mut wanted, mut twice) = (BTreeMap::new(), BTreeSet::new());
    for asked in &demand.asked {
        for (list, at, overlay) in &asked.containers {
            let name = plain(&pod["spec"][*list][*at]["name"]);
            note(overlay, &mut vec!["spec".to_owned(), (*list).to_owned(), name], &mut wanted, &mut twice);
        }
        note(&asked.pod, &mut Vec::new(), &mut wanted, &mut twice);
    }
    twice
}

fn note(value: &Value, place: &mut Place, wanted: &mut BTreeMap<Place, Value>, twice: &mut BTreeSet<Place>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) if !map.keys().any(|key| key.starts_with('$')) => {
            map.iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(list) => {
            let named =
                |entry: &Value| ["mountPath", "name"].iter().find_map(|key| entry[*key].as_str().map(clean));
            let named: Option<Vec<String>> = list.iter().map(named).collect();
            named.into_iter().flatten().zip(list).collect()
        }
        _ => Vec::new(),
    };
    // A variable or mount is one value.
    let is_entry =
        place.iter().rev().nth(1).is_some_and(|list| ["env", "volumeMounts"].contains(&list.as_str()));
    if entries.is_empty() || is_entry {
        if wanted.entry(place.clone()).or_insert_with(|| value.clone()) != value {
            twice.insert(place.clone());
        }
        return;
    }
    for (token, value) in entries {
        place.push(token);
        note(value, place, wanted, twice);
        place.pop();
    }
}
