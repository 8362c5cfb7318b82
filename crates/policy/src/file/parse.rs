//! From the YAML of a policy file to its [`Definition`].

use std::collections::BTreeSet;

use fabric_yaml::{Content, Entry, Node, Span};

use super::declared_names::{identifier, taken};
use super::devices::Devices;
use super::{contradictions, env, variables};
use crate::definition::{Containers, Definition, Gpus, OnConflict, Rule, checks, files, precedence};
use crate::interpolation::{Interpolation, Names, Phase};
use crate::keys::{self, API_VERSION, KIND};
use crate::matcher::Matcher;
use crate::overlay::Compiler;
use crate::parameter::{Files, Layer, Parameter, ParameterType, machines};
use crate::source::reader::{self, Fields};
use crate::source::{
    Checked, DUPLICATE_NAME, Diagnostic, EXTENSION, MISSING_KEY, Problems, SourceFile, closest,
};

/// The head of a policy file, and the problems in it, which do not hide those of the `spec`.
pub(crate) struct Header {
    /// Empty if it is invalid.
    pub(crate) name: String,
    /// The place of the name.
    pub(crate) name_span: Span,
    pub(crate) spec: Option<Node>,
    pub(crate) problems: Problems,
}

impl Header {
    pub(crate) fn read(root: &Node) -> Checked<Self> {
        let mut fields = Fields::of(root, &keys::POLICY)?;
        let _ = fields.required("apiVersion", |node| constant(node, "apiVersion", API_VERSION));
        let _ = fields.required("kind", |node| constant(node, "kind", KIND));
        let name = fields.required("metadata", |node| {
            let mut metadata = Fields::of(node, &keys::METADATA)?;
            let name = metadata.required("name", |node| {
                reader::dns_label(node, "the name of a policy").map(|name| (name, node.span))
            });
            metadata.finish()?;
            Ok::<_, Problems>(name?)
        });
        let spec = fields.required("spec", |node| Ok::<_, Diagnostic>(node.clone()));
        let problems = fields.finish().err().unwrap_or_default();
        let (name, name_span) = name.unwrap_or_default();
        Ok(Self { name, name_span, spec: spec.ok(), problems })
    }
}

/// Reads a `spec`, that of an extension together with its base's. With problems, the result lacks what they are about.
pub(crate) fn definition(
    node: Node,
    own: SourceFile,
    bases: Vec<SourceFile>,
    extends: Option<(String, Span)>,
    files: &Files,
) -> (Option<Definition>, Problems) {
    let mut spec = match Fields::of(&node, &keys::SPEC) {
        Ok(spec) => spec,
        Err(problems) => return (None, problems),
    };
    let provider = spec.required("provider", |node| reader::dns_label(node, "the provider"));
    let description =
        spec.required("description", |node| reader::text(node, "the description").map(str::to_owned));
    let mut names = Names::built_in();
    let parameters = spec.optional("parameters", |node| parameters(node, &mut names, files));
    let variables = spec.optional("variables", |node| variables::read(node, &mut names));
    if spec.misspells("parameters") || spec.misspells("variables") {
        names.add_unknown();
    }
    // Of a column whose declaration has a problem, that problem is the only one.
    let are_read = parameters.is_ok() && variables.is_ok() && !names.has_unknown();
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
    let _ = spec.required_unless("rules", adds_devices, |node| {
        rules(node, &names, &mut read_rules, files).result(())
    });
    let read_files = spec.optional("files", |node| files::read(node, &names));
    let problems = spec.finish().err().unwrap_or_default();
    let SourceFile { policy: name, file, text } = own;
    let (extends, extends_span) = extends.unzip();
    let mut definition = Definition {
        file,
        text,
        bases,
        extends,
        extends_span: extends_span.unwrap_or_default(),
        name,
        provider: provider.unwrap_or_default(),
        description: description.unwrap_or_default(),
        parameters,
        gpus,
        own_devices: devices.own,
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

fn constant(node: &Node, field: &str, wanted: &str) -> Result<(), Diagnostic> {
    let seen = reader::text(node, field)?;
    if seen == wanted {
        return Ok(());
    }
    let hint = match closest(seen, [wanted]) {
        Some(_) => format!("did you mean `{field}: {wanted}`?"),
        None => format!("a policy has `{field}: {wanted}`"),
    };
    Err(Diagnostic::new(node.span, format!("`{field}` is `{seen}`")).hint(hint))
}

fn parameters(node: &Node, names: &mut Names, files: &Files) -> Checked<Vec<Parameter>> {
    let entries = reader::entries(node, "`parameters`").inspect_err(|_| names.add_unknown())?;
    reader::at_most(entries.len(), "parameters", node.span).inspect_err(|_| names.add_unknown())?;
    let mut problems = Problems::default();
    let mut read: Vec<Parameter> = Vec::new();
    for entry in entries {
        let known = read.iter_mut().find(|known| known.name == entry.key);
        match files.extension_at(entry.span) {
            Some(file) if !matches!(entry.value.content, Content::Map(_)) => {
                problems.take(
                    known.map_or_else(|| Err(undeclared(entry).into()), |known| set(known, entry, file)),
                );
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
    let is_template = |known: &Parameter| known.kind == ParameterType::Template;
    let phase = if parameter.as_ref().is_ok_and(is_template) { Phase::Pod } else { Phase::Fixed };
    // `enabled` is a key of the provider's block in a values file.
    if entry.key == "enabled" || !names.add(&entry.key, phase) {
        return Err(taken(entry).into());
    }
    parameter
}

/// The error for a `default` that an extension gives to a parameter for which its base has a value for every pod.
fn default_without_effect(parameter: &Parameter, node: &Node, files: &Files) -> Option<Diagnostic> {
    let default = node.entry("default")?;
    let file = files.extension_at(default.span)?;
    let value = parameter.layers.iter().find(|layer| layer.value.is_some() && layer.is_of_base(file))?;
    let line = value.value.as_ref().map(|(_, span)| files.line(*span))?;
    let name = &parameter.name;
    let message = format!(
        "`default` of `{name}` has no effect: a policy that this one extends has a value for every pod"
    );
    let hint = format!("write the value itself, as in `{name}: 4`; the other is at line {line} of its file");
    Some(Diagnostic::new(default.span, message).code(EXTENSION).hint(hint))
}

/// The error for a value of a parameter that no base has.
fn undeclared(entry: &Entry<Node>) -> Diagnostic {
    Diagnostic::new(entry.span, format!("no base has a parameter `{}`", entry.key))
        .code(EXTENSION)
        .hint(format!("declare it: `{}: {{description: …, default: …}}`", entry.key))
}

/// Sets a parameter of a base to the value that an extension gives it.
fn set(parameter: &mut Parameter, entry: &Entry<Node>, file: usize) -> Checked<()> {
    let value = parameter.read_value(&entry.value)?;
    Layer::of(parameter, file).value = Some((value, entry.value.span));
    Ok(())
}

/// Adds the rules without problems to the entries of `devices.add`, and returns the problems of the others.
fn rules(node: &Node, names: &Names, rules: &mut Vec<Rule>, files: &Files) -> Problems {
    let mut problems = Problems::default();
    let items = problems.take(reader::items(node, "`rules`")).unwrap_or_default();
    for item in items {
        let Some(rule) = problems.take(rule(item, names)) else { continue };
        if rules.iter().any(|known| known.name == rule.name) {
            let message = format!("two rules are called `{}`", rule.name);
            problems.add(Diagnostic::new(item.span, message).code(DUPLICATE_NAME));
        }
        rules.push(rule);
    }
    if problems.is_empty() && items.is_empty() {
        // The entries of `devices.add` are rules, too.
        let hint = if rules.is_empty() { "see docs/policy.md" } else { "write one, or leave `rules` out" };
        problems.add(Diagnostic::new(node.span, "a policy needs at least one rule").hint(hint));
    }
    let values = rules.iter().map(Rule::size);
    let is_bounded = problems.take(reader::at_most(values.sum(), "values in rules", node.span)).is_some();
    if !is_bounded {
        return problems;
    }
    problems.take(precedence::find(rules, files));
    problems.add(contradictions::find(node, rules, files));
    problems
}

fn rule(node: &Node, names: &Names) -> Checked<Rule> {
    let mut fields = Fields::of(node, &keys::RULE)?;
    let name = fields.required("name", |node| reader::dns_label(node, "the name of a rule"));
    let when = fields.optional("when", |node| Interpolation::condition(node, "when", names, Phase::Pod));
    let containers = fields
        .optional("containers", |node| Interpolation::condition(node, "containers", names, Phase::Container));
    let on_conflict =
        fields.optional("onConflict", |node| reader::one_of(node, "onConflict", &OnConflict::WORDS));
    let compiler = Compiler { names };
    let env = fields.optional("env", |node| {
        let mut problems = Problems::default();
        let overlay = env::overlay(node, &mut problems)?;
        let variables = overlay.and_then(|overlay| problems.take(compiler.container(&overlay)));
        problems.result(variables.unwrap_or_default())
    });
    let container = fields.optional("container", |node| {
        env::refuse_list(node)?;
        compiler.container(node)
    });
    let pod = fields.optional("pod", |node| compiler.pod(node));
    fields.finish()?;
    let (env, container, pod) = (env?, container?, pod?);
    let adds_nothing = env.is_none() && container.is_none() && pod.is_none();
    let (name, containers) = (name?, containers?);
    if adds_nothing {
        return Err(Diagnostic::new(node.span, format!("the rule `{name}` adds nothing"))
            .code(MISSING_KEY)
            .hint("give it `env`, `container`, `pod` or several of them")
            .into());
    }
    let containers = match (containers, env.is_some(), container.is_some()) {
        (Some(condition), ..) => Containers::If(condition),
        (None, true, true) => {
            let message =
                format!("the rule `{name}` has `env` and `container`, and does not say for which containers");
            return Err(Diagnostic::new(node.span, message)
                .code(MISSING_KEY)
                .hint("add `containers: ranks`, or `containers: gpus > 0` to leave out the launcher of a job")
                .into());
        }
        (None, true, false) => Containers::Ranks,
        (None, false, _) => Containers::Gpus,
    };
    let rule = Rule {
        span: node.span,
        name,
        when: when?,
        containers,
        on_conflict: on_conflict?.unwrap_or_default(),
        container: env.into_iter().chain(container).flatten().collect(),
        pod: pod.unwrap_or_default(),
        device: None,
        parameters: BTreeSet::new(),
        gives_way: Vec::new(),
    };
    Ok(rule)
}
