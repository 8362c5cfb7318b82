//! From the YAML of a policy file to its [`Definition`].

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Node, Span};

use super::devices::Devices;
use super::{checks, parameters, rules, settings_files, variables};
use crate::definition::{Definition, Gpus};
use crate::interpolation::Names;
use crate::keys;
use crate::matcher::{Matcher, NodeMatch};
use crate::parameter::machines;
use crate::source::reader::{self, Fields};
use crate::source::{Problems, SourceFile};

/// The most expressions of a policy.
const MAX_EXPRESSIONS: usize = 10_000;

/// The number of expressions in the texts and keys of a tree. Those of conditions are their whole texts, which do not
/// count.
fn expressions_in(node: &Node) -> usize {
    let count = |text: &str| text.matches("${").count();
    match &node.content {
        Content::Scalar { value: Scalar::String(text), .. } => count(text),
        Content::Scalar { .. } => 0,
        Content::List(items) => items.iter().map(expressions_in).sum(),
        Content::Map(entries) => {
            entries.iter().map(|entry| count(&entry.key) + expressions_in(&entry.value)).sum()
        }
    }
}

/// Reads a `spec`. That of an extension is combined with its base's. The result lacks the parts that have problems.
pub(crate) fn definition(node: Node, files: &[SourceFile]) -> (Option<Definition>, Problems) {
    let Some((own, bases)) = files.split_last() else { return (None, Problems::default()) };
    // Compiling an expression takes some 50 microseconds.
    let count = expressions_in(&node);
    if let Err(found) = reader::check_count(count, MAX_EXPRESSIONS, "expressions", node.span) {
        return (None, found.into());
    }
    let mut spec = match Fields::read(&node, &keys::SPEC) {
        Ok(spec) => spec,
        Err(problems) => return (None, problems),
    };
    let provider = spec.required("provider", |node| {
        reader::dns_label(node, "the provider").map_err(|error| match &node.content {
            Content::Map(_) => error.hint("write `provider: NAME`, and `nodes` next to it in `spec`"),
            _ => error,
        })
    });
    let nodes = spec.optional("nodes", NodeMatch::read);
    let description =
        spec.required("description", |node| reader::text(node, "the description").map(str::to_owned));
    let mut names = Names::built_in();
    let parameters = spec.optional("parameters", |node| parameters::read(node, &mut names, files));
    let variables = spec.optional("variables", |node| variables::read(node, &mut names));
    if spec.misspells("parameters") || spec.misspells("variables") {
        names.has_unknown = true;
    }
    // If the declaration of a column has a problem, only that problem is reported.
    let are_read = parameters.is_ok() && variables.is_ok() && !names.has_unknown;
    let mut parameters = parameters.ok().flatten().unwrap_or_default();
    let mut variables = variables.ok().flatten().unwrap_or_default();
    let _ = spec.optional("machines", |node| {
        match machines::read(node, files, &mut parameters, &mut variables) {
            Err(_) if !are_read => Ok(()),
            result => result,
        }
    });
    let mut gpus = Gpus::default();
    let _ = spec.required("gpus", |node| gpus.read(node, &names));
    let mut devices = Devices::default();
    let _ = spec.optional("devices", |node| devices.read(node, &names, &variables));
    let matcher = spec.required("match", |node| Matcher::read(node, &names));
    let checks = spec.optional("checks", |node| checks::read(node, &names));
    let mut read_rules = devices.add;
    let adds_devices = !read_rules.is_empty() || devices.has_unread;
    let rules = |node: &Node| rules::read(node, &names, &mut read_rules, files).result(());
    let _ =
        if adds_devices { spec.optional("rules", rules).map(drop) } else { spec.required("rules", rules) };
    let read_files = spec.optional("files", |node| settings_files::read(node, &names));
    let problems = spec.finish().err().unwrap_or_default();
    let (extends, extends_span) = own.extends.clone().unzip();
    let lines: usize = bases.iter().map(|base| base.lines).sum();
    let mut definition = Definition {
        file: own.file.clone(),
        sources: files.to_vec(),
        extends,
        extends_span: extends_span.map(|span| Span { line: span.line + lines, ..span }).unwrap_or_default(),
        name: own.policy.clone(),
        provider: provider.unwrap_or_default(),
        provider_nodes: nodes.ok().flatten(),
        description: description.unwrap_or_default(),
        parameters,
        gpus,
        device_list: devices.list,
        matcher: matcher.unwrap_or_default(),
        variables,
        offered: Vec::new(),
        checks: checks.ok().flatten().unwrap_or_default(),
        rules: read_rules,
        files: read_files.ok().flatten().unwrap_or_default(),
        names,
        spec: node,
    };
    definition.find_offered();
    definition.find_parameters_of_rules();
    (Some(definition), problems)
}
