//! Whether what is said of an injection is what the patch does.

use serde_json::Value;

use super::adapter::{Injection, Result as Outcome, STAMP};
use super::generator::{items, pods};
use super::places::tokens;

/// The first statement that is not true.
pub(crate) fn agree(policy: &str, before: &Value, injection: &Injection) -> Option<(String, String)> {
    if let Outcome::Mutated { pod, stamp, patch, added } = &injection.outcome {
        if patch.0.is_empty() {
            return Some(("mutated without a change".to_owned(), String::new()));
        }
        let seen = &pod["metadata"]["annotations"][STAMP];
        if seen.as_str() != Some(stamp) {
            return Some(("stamp".to_owned(), format!("the pod has {seen}, the report {stamp}")));
        }
        if let Some(line) = added.iter().find_map(|line| not_added(line, before, pod)) {
            return Some(("an added line".to_owned(), line));
        }
        if let Some(missing) = unmentioned(before, pod, added) {
            return Some(("nothing said of".to_owned(), missing));
        }
    }
    let after = match &injection.outcome {
        Outcome::Mutated { pod, .. } | Outcome::Skipped { pod, .. } | Outcome::Unchanged { pod, .. } => pod,
        Outcome::Refused { .. } => return None,
    };
    let nowhere = |path: &str| !exists(after, path) && !is_asked_for(policy, after, path);
    let warning = injection.warnings.iter().find(|warning| nowhere(&warning.path))?;
    Some((format!("path of {}", warning.code), warning.path.clone()))
}

/// Whether the policy has the rest of a path, where the pod's own part of it ends.
fn is_asked_for(policy: &str, after: &Value, path: &str) -> bool {
    let tokens = tokens(path);
    let own = (0..tokens.len()).rev().find(|end| exists_tokens(after, &tokens[..*end])).unwrap_or(0);
    let of_policy = |token: &String| policy.contains(token.as_str()) || token.parse::<usize>().is_ok();
    own > 0 && tokens[own..].iter().all(of_policy)
}

/// The part of a line that says what the patch does not do.
fn not_added(line: &str, before: &Value, after: &Value) -> Option<String> {
    let (holder, items_text) = line.split_once(": ")?;
    let find = |pod: &'_ Value| {
        pods::containers(pod).find(|(_, _, one)| one["name"] == holder).map(|(_, _, one)| one.clone())
    };
    let mut kind = "";
    let of_pod = holder == "pod";
    let (was, is) = if of_pod {
        (before.clone(), after.clone())
    } else {
        (find(before).unwrap_or_default(), find(after)?)
    };
    for item in items_text.split(", ") {
        for (at, word) in item.split(' ').enumerate() {
            if at == 0
                && ["claim", "env", "mount", "capability", "container", "volume", "annotation", "field"]
                    .contains(&word)
            {
                kind = word;
                continue;
            }
            if at == 0 {
                kind = "device";
            }
            let wrong = match kind {
                "env" => changed(&was["env"], &is["env"], "name", word).is_none(),
                "mount" => changed(&was["volumeMounts"], &is["volumeMounts"], "mountPath", word).is_none(),
                "volume" => changed(&was["spec"]["volumes"], &is["spec"]["volumes"], "name", word).is_none(),
                "device" if at == 0 => {
                    let (list, name) = match word.strip_prefix("requests.") {
                        Some(name) => ("requests", name),
                        None => ("limits", word),
                    };
                    let amount = |container: &Value| container["resources"][list][name].clone();
                    amount(&was) == amount(&is)
                }
                _ => false,
            };
            if wrong {
                return Some(format!("{line}: {kind} {word}"));
            }
        }
    }
    None
}

/// The entry of a list, if it is new or changed.
fn changed<'v>(before: &Value, after: &'v Value, key: &str, name: &str) -> Option<&'v Value> {
    let named = |entry: &&Value| entry[key] == name;
    let entry = items(after).iter().rfind(named)?;
    let before: Vec<&Value> = items(before).iter().filter(named).collect();
    (before.last() != Some(&entry)).then_some(entry)
}

/// A variable or mount that was added and that no line names.
fn unmentioned(before: &Value, after: &Value, added: &[String]) -> Option<String> {
    for (list, at, container) in pods::containers(after) {
        let was = &before["spec"][list][at];
        if was.is_null() {
            continue;
        }
        let holder = container["name"].as_str().unwrap_or_default();
        let lines: Vec<&String> =
            added.iter().filter(|line| line.starts_with(&format!("{holder}: "))).collect();
        for (entries, key) in [("env", "name"), ("volumeMounts", "mountPath")] {
            for entry in items(&container[entries]) {
                let name = entry[key].as_str().unwrap_or_default();
                let said = lines.iter().any(|line| line.contains(name));
                if changed(&was[entries], &container[entries], key, name).is_some() && !said {
                    return Some(format!("{holder}.{entries}.{name}: {added:?}"));
                }
            }
        }
    }
    None
}

fn exists(pod: &Value, path: &str) -> bool {
    exists_tokens(pod, &tokens(path))
}

/// Whether there is a place such as `spec.containers[main].env[A]`.
fn exists_tokens(pod: &Value, tokens: &[String]) -> bool {
    let place = tokens.iter().try_fold(pod, |place, token| match place {
        Value::Array(list) => list
            .iter()
            .find(|entry| ["name", "mountPath"].iter().any(|key| entry[*key] == token.as_str()))
            .or_else(|| list.get(token.parse::<usize>().ok()?)),
        place => place.get(token),
    });
    place.is_some()
}
