//! The variables that containers end with: their order, and the files that repeat them.

use serde_json::{Map, Value};

use super::generator::own_writes::BY_EXPRESSION;
use super::generator::{items, pods};
use super::model::{self, Demand};
use super::pair::{Pair, Verdict, fail};
use super::places::clean;

/// The kubelet replaces `$(A)` only by a variable that stands before it.
pub(crate) fn variables_follow_what_they_refer_to(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    // What a rule adds in a second run follows what the first one added.
    if !pair.known {
        return Ok(());
    }
    for (list, at, container) in pods::containers(after) {
        let own = items(&pair.pod["spec"][list][at]["env"]).len();
        let env = items(&container["env"]);
        let refers = |entry: &Value, to: &Value| {
            let (text, name) =
                (entry["value"].as_str().unwrap_or_default(), to["name"].as_str().unwrap_or_default());
            entry["name"] != to["name"] && text.contains(&format!("$({name})"))
        };
        for (at, entry) in env.iter().enumerate().skip(own) {
            let later = env[at..].iter().find(|later| refers(entry, later));
            // Of several entries of one name, the first one may do.
            let earlier = |name: &Value| env[..at].iter().any(|entry| entry["name"] == *name);
            if let Some(later) = later.filter(|later| !earlier(&later["name"]) && !refers(later, entry)) {
                return fail(list, format!("{entry} before {later}"));
            }
        }
    }
    Ok(())
}

/// An edit is written, and never what an expression yields.
pub(crate) fn no_expression_yields_an_edit(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    let has = |pod: &Value| pod["spec"].to_string().contains(BY_EXPRESSION);
    if has(after) && !has(&pair.pod) { fail("env", after["spec"].to_string()) } else { Ok(()) }
}

/// A file of settings has the values that rules set, as its container ends with them.
pub(crate) fn files_have_the_values_of_their_containers(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated().filter(|_| pair.known) else { return Ok(()) };
    // A rule that no longer applies to the result writes no line.
    let demand = model::demand(&pair.group.policy, after, after, &pair.context);
    let files = pair.group.policy.document["spec"]["files"].as_object();
    let annotations = &after["metadata"]["annotations"];
    for ((path, file), (list, at, container)) in
        files.into_iter().flatten().flat_map(|file| pods::containers(after).map(move |one| (file, one)))
    {
        let Some(key) = mounted(after, container, path) else { continue };
        // What the pod has stays for the containers that share it, with a warning.
        if !pair.pod["metadata"]["annotations"][key].is_null()
            || pair.first.warnings.iter().any(|warning| warning.path.contains(key))
        {
            continue;
        }
        let lines = annotations[key].as_str().unwrap_or_default();
        let own = values(&pair.pod["spec"][list][at]);
        for (name, value) in values(container).into_iter().filter(|value| !own.contains(value)) {
            let listed = items(&file["variables"]).iter().filter_map(Value::as_str);
            let is_listed = listed.into_iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == pattern,
            });
            let line = format!("{name}={value}");
            if is_listed
                && is_asked(&demand, (list, at, container), &name)
                && !lines.lines().any(|known| known == line)
            {
                return fail("a line", format!("no {line} in {lines:?}"));
            }
        }
    }
    Ok(())
}

/// Returns whether a rule that applies sets a variable of a container.
fn is_asked(demand: &Demand, (list, at, container): (&str, usize, &Value), name: &str) -> bool {
    let sets = |container: &Value| items(&container["env"]).iter().any(|one| one["name"] == name);
    demand.asked.iter().any(|asked| {
        let mut named = items(&asked.pod["spec"][list]).iter().filter(|one| one["name"] == container["name"]);
        named.any(sets)
            || asked.containers.iter().any(|(of, index, wanted)| (*of, *index) == (list, at) && sets(wanted))
    })
}

/// The key of the annotation that a container has at this path as a file of settings.
fn mounted<'p>(pod: &'p Value, container: &Value, path: &str) -> Option<&'p str> {
    let at_path = |mount: &&Value| mount["mountPath"].as_str().is_some_and(|known| clean(known) == path);
    let mount = items(&container["volumeMounts"]).iter().find(at_path)?;
    let volume = items(&pod["spec"]["volumes"]).iter().find(|volume| volume["name"] == mount["name"])?;
    let field = volume.pointer("/downwardAPI/items/0/fieldRef/fieldPath")?.as_str()?;
    field.strip_prefix("metadata.annotations['")?.strip_suffix("']")
}

/// The variables with values that a file can hold. The last entry of a name counts.
fn values(container: &Value) -> Vec<(String, String)> {
    let mut values = Map::new();
    for entry in items(&container["env"]) {
        let text = entry["value"]
            .as_str()
            .filter(|text| !text.contains(['$', '\n']) && entry["valueFrom"].is_null());
        let name = entry["name"].as_str().unwrap_or_default().to_owned();
        values.insert(name, text.map_or(Value::Null, Value::from));
    }
    values.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
}
