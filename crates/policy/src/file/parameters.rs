//! `parameters`: those that a file declares, and values that it gives to those of its base.

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Entry, Node};

use super::declared_names::{identifier, taken};
use crate::interpolation::{Names, Phase};
use crate::keys::refuse_key;
use crate::parameter::{Layer, Parameter};
use crate::source::{Checked, Diagnostic, EXTENSION, Problems, SourceFile, at_line, extension_at, reader};

pub(super) fn read(node: &Node, names: &mut Names, files: &[SourceFile]) -> Checked<Vec<Parameter>> {
    let entries = reader::entries(node, "`parameters`").inspect_err(|_| names.has_unknown = true)?;
    // Any other value may be that of a parameter of a base.
    let mut empty = entries
        .iter()
        .filter(|entry| matches!(entry.value.content, Content::Scalar { value: Scalar::Null, .. }));
    empty.try_for_each(|entry| refuse_key(entry, "parameters")).inspect_err(|_| names.has_unknown = true)?;
    let mut problems = Problems::default();
    let mut read: Vec<Parameter> = Vec::new();
    for entry in entries {
        let known = read.iter_mut().find(|known| known.name == entry.key);
        match extension_at(files, entry.span) {
            Some(file) if !matches!(entry.value.content, Content::Map(_)) => {
                let undeclared = || Err(undeclared(entry).into());
                problems.take(known.map_or_else(undeclared, |known| set(known, entry, file)));
            }
            _ => read.extend(problems.take(parameter(entry, names))),
        }
    }
    for entry in entries {
        let known = read.iter().find(|known| known.name == entry.key);
        let found = known.and_then(|known| default_without_effect(known, &entry.value, files));
        problems.take(found.map_or(Ok(()), Err));
    }
    problems.result(read)
}

fn parameter(entry: &Entry<Node>, names: &mut Names) -> Checked<Parameter> {
    identifier(&entry.key, entry.span)?;
    let parameter = Parameter::read(entry);
    // `enabled` is a key of the provider's block in a values file.
    if entry.key == "enabled" || !names.add(&entry.key, Phase::Fixed) {
        return Err(taken(entry).into());
    }
    parameter
}

/// The error for a `default` that an extension gives to a parameter for which its base has a value for every pod.
fn default_without_effect(parameter: &Parameter, node: &Node, files: &[SourceFile]) -> Option<Diagnostic> {
    let default = node.entry("default")?;
    let file = extension_at(files, default.span)?;
    let value = parameter.layers.iter().find(|layer| layer.value.is_some() && layer.file < file)?;
    let line = value.value.as_ref().map(|(_, span)| at_line(files, span.line).1)?;
    let name = &parameter.name;
    let message = format!(
        "`default` of `{name}` has no effect: a policy that this one extends has a value for every pod"
    );
    let hint = format!("write the value itself, as in `{name}: 4`; the other is at line {line} of its file");
    Some(Diagnostic::error(EXTENSION, default.span, message).hint(hint))
}

/// The error for a value of a parameter that no base has.
fn undeclared(entry: &Entry<Node>) -> Diagnostic {
    Diagnostic::error(EXTENSION, entry.span, format!("no base has a parameter `{}`", entry.key))
        .hint(format!("declare it: `{}: {{description: …, default: …}}`", entry.key))
}

/// Sets a parameter of a base to the value that an extension gives it.
fn set(parameter: &mut Parameter, entry: &Entry<Node>, file: usize) -> Checked<()> {
    let value = parameter.read_value(&entry.value)?;
    Layer::insert(parameter, file).value = Some((value, entry.value.span));
    Ok(())
}
