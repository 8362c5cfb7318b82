//! Makes a counterexample small: takes out of policy and pod what the failure does not need.

use serde_json::Value;

/// As many variants are tried at most.
const TRIES: usize = 1_500;

/// The smallest pair found for which `fails` still holds.
pub(crate) fn shrink(policy: &Value, pod: &Value, fails: &dyn Fn(&Value, &Value) -> bool) -> (Value, Value) {
    let mut pair = serde_json::json!([policy, pod]);
    let mut tries = 0;
    loop {
        let mut smaller = false;
        let mut places = Vec::new();
        collect(&pair, &mut String::new(), &mut places);
        // Large pieces first; of a list, later entries first, so that the places of the others stay.
        places.sort_by_key(|place| (place.matches('/').count(), std::cmp::Reverse(place.clone())));
        for place in places {
            let mut candidate = pair.clone();
            if !remove(&mut candidate, &place) || leaves_nothing(&candidate, &place) {
                continue;
            }
            tries += 1;
            if tries > TRIES {
                break;
            }
            if fails(&candidate[0], &candidate[1]) {
                pair = candidate;
                smaller = true;
            }
        }
        if !smaller || tries > TRIES {
            return (pair[0].take(), pair[1].take());
        }
    }
}

fn collect(value: &Value, pointer: &mut String, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => return,
    };
    for (token, child) in children {
        let before = pointer.len();
        pointer.push('/');
        pointer.push_str(&token);
        // The policy and the pod themselves stay.
        if before > 0 {
            places.push(pointer.clone());
        }
        collect(child, pointer, places);
        pointer.truncate(before);
    }
}

/// Whether a map or list is empty now: an overlay of nothing is another case.
fn leaves_nothing(value: &Value, pointer: &str) -> bool {
    let parent = pointer.rsplit_once('/').and_then(|(parent, _)| value.pointer(parent));
    parent.is_some_and(|parent| *parent == serde_json::json!({}) || *parent == serde_json::json!([]))
}

fn remove(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, token)) = pointer.rsplit_once('/') else { return false };
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => map.shift_remove(&token.replace("~1", "/").replace("~0", "~")).is_some(),
        Some(Value::Array(list)) => match token.parse::<usize>() {
            Ok(at) if at < list.len() => {
                list.remove(at);
                true
            }
            _ => false,
        },
        _ => false,
    }
}
