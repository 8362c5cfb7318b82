//! A policy in several files: an extension, the policy that it extends, and a part.
//!
//! The generator and the model have one document with everything, in which `of` says the file of a rule, a check or an
//! entry of `files`, and `layout` how the files are put together. A policy without `layout` is one file.

use serde_json::{Map, Value, json};

use super::{Dice, items};

/// The names of the files, in the order of precedence.
pub(crate) const FILES: [&str; 3] = ["generated", "base", "shared"];
/// Parts of the program that policies of these tests can take.
const BUILT_IN: [&str; 4] = ["nccl", "shared-memory", "locked-memory", "nccl-file"];

/// Distributes the rules and checks of a policy over files. Returns whether the model knows what comes of it.
///
/// So often, of a hundred times, it takes a part of the program.
pub(crate) fn divide(dice: &mut Dice, document: &mut Value, built_in: u32) -> bool {
    let mut layout = json!({"base": dice.chance(80)});
    if layout["base"] == false || dice.chance(35) {
        layout["part"] = json!(true);
    }
    let has = |layout: &Value, file: &str| {
        file == "base" && layout["base"] == true || file == "shared" && layout["part"] == true
    };
    let spec = &mut document["spec"];
    for list in ["rules", "checks"] {
        let entries = spec[list].as_array_mut().map_or(&mut [][..], Vec::as_mut_slice);
        let last = entries.len().saturating_sub(1);
        for (at, entry) in entries.iter_mut().enumerate() {
            let of = if at == last && list == "rules" { "base" } else { dice.pick(&FILES) };
            // What is in no other file is in the first one.
            if has(&layout, of) {
                entry["of"] = json!(of);
            }
        }
    }
    let mut known = true;
    if layout["base"] == true {
        // Both may be in use: then the extension takes the pods.
        layout["together"] = json!(dice.chance(15));
        without(dice, spec, &mut layout);
        if !spec["variables"].is_null() && dice.chance(15) {
            let names = spec["variables"].as_object().into_iter().flatten();
            let replaced: Map<String, Value> =
                names.map(|(name, _)| (name.clone(), json!("other"))).collect();
            layout["variables"] = replaced.into();
            known = false;
        }
        if !spec["parameters"]["interface"].is_null() && dice.chance(30) {
            layout["parameters"] = json!({"interface": "ours"});
            known = false;
        }
    }
    if dice.chance(built_in) {
        layout["builtIn"] = json!(dice.pick(&BUILT_IN));
        known = false;
    }
    document["layout"] = layout;
    known
}

/// Leaves out a rule and a check of the base.
fn without(dice: &mut Dice, spec: &Value, layout: &mut Value) {
    let mut names = Vec::new();
    for list in ["rules", "checks"] {
        let of_base: Vec<&Value> = items(&spec[list]).iter().filter(|entry| entry["of"] == "base").collect();
        // With one rule, the base would have nothing to add.
        if of_base.len() > 1 && dice.chance(20) {
            names.push(of_base[dice.below(of_base.len())]["name"].clone());
        }
    }
    if spec["files"].is_object() && dice.chance(20) {
        names.extend(spec["files"].as_object().into_iter().flatten().map(|(path, _)| json!(path)));
    }
    if !names.is_empty() {
        layout["without"] = names.into();
    }
}

/// The rank of a rule's file: lower ones have precedence.
pub(crate) fn rank(document: &Value, rule: &Value) -> usize {
    let names = names(&document["layout"]);
    let of = rule["of"].as_str().filter(|file| names.contains(file));
    FILES.iter().position(|file| Some(*file) == of).unwrap_or(0)
}

/// The files that there are.
fn names(layout: &Value) -> Vec<&'static str> {
    let is_there = |file: &&str| match *file {
        "base" => layout["base"] == true,
        "shared" => layout["part"] == true,
        _ => true,
    };
    FILES.into_iter().filter(is_there).collect()
}

/// Whether an extension leaves out the rule or check of this name.
pub(crate) fn is_left_out(document: &Value, name: &Value) -> bool {
    items(&document["layout"]["without"]).contains(name)
}

/// The documents of a policy, each with the name of its file; that of the policy is the first one.
pub(crate) fn files(document: &Value) -> Vec<(String, Value)> {
    let mut whole = document.clone();
    let layout = whole.as_object_mut().and_then(|whole| whole.shift_remove("layout")).unwrap_or_default();
    let names = names(&layout);
    let mut documents: Vec<(String, Value)> = Vec::new();
    for file in &names {
        let mut one = json!({"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": {"name": file}, "spec": {}});
        // All that has no file of its own is in the base, or in the policy if it has none.
        let home = if names.contains(&"base") { "base" } else { "generated" };
        for (key, value) in whole["spec"].as_object().into_iter().flatten() {
            let value = match key.as_str() {
                "rules" | "checks" => of_file(value, file, &names),
                _ if *file == home => value.clone(),
                _ => Value::Null,
            };
            if !value.is_null() {
                one["spec"][key] = value;
            }
        }
        let folder = if *file == "shared" { "parts/" } else { "" };
        documents.push((format!("{folder}{file}.yaml"), one));
    }
    let first = &mut documents[0].1;
    let mut extends: Vec<Value> = names[1..].iter().map(|name| json!(name)).collect();
    extends.extend(layout.get("builtIn").cloned());
    if !extends.is_empty() {
        first["spec"]["extends"] = if extends.len() == 1 { extends[0].clone() } else { extends.into() };
    }
    for key in ["without", "variables", "parameters"] {
        if !layout[key].is_null() {
            first["spec"][key] = layout[key].clone();
        }
    }
    if names.contains(&"base") {
        first["spec"]["description"] = json!("an extension");
    }
    documents
}

/// The entries of a list that are in a file.
fn of_file(list: &Value, file: &str, names: &[&str]) -> Value {
    let home =
        |entry: &Value| names.iter().find(|name| entry["of"] == **name).copied().unwrap_or("generated");
    let own = items(list).iter().filter(|entry| home(entry) == file).cloned();
    let own: Vec<Value> = own
        .map(|mut entry| {
            entry.as_object_mut().map(|entry| entry.shift_remove("of"));
            entry
        })
        .collect();
    if own.is_empty() { Value::Null } else { own.into() }
}
