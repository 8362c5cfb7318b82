//! From the YAML of a policy file to its [`Definition`].

use crate::core::schema::Format;
use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{self, Content, Node, Span};

use super::definition::{Definition, OnConflict, PolicyWarning, Rule, Variable};
use super::diagnostic::{Diagnostic, SourceError, suggest};
use super::interpolation::Interpolation;
use super::matcher::Matcher;
use super::node::NodeLabels;
use super::overlay::{Compiler, Element};
use super::parameter::Parameter;
use super::phase::{Names, Phase};
use super::reader::{self, Fields};

const API_VERSION: &str = "fabric-injector.io/v1alpha1";
const KIND: &str = "FabricPolicy";

impl Definition {
    /// Reads a policy file. `file` is its name for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceError> {
        let read = || {
            let root = yaml::read_node(text)?.ok_or_else(|| {
                Diagnostic::new(yaml::Span::default(), "the file is empty").hint("see docs/policy.md")
            })?;
            policy(&root, file, text)
        };
        read().map_err(|diagnostic| SourceError::new(file, text, diagnostic))
    }
}

fn policy(root: &Node, file: &str, text: &str) -> Result<Definition, Diagnostic> {
    let mut fields = Fields::of(root, "a policy")?;
    constant(fields.required("apiVersion")?, "apiVersion", API_VERSION)?;
    constant(fields.required("kind")?, "kind", KIND)?;
    let mut metadata = Fields::of(fields.required("metadata")?, "`metadata`")?;
    let name = dns_label(metadata.required("name")?, "the name of a policy")?;
    metadata.finish()?;
    let spec_node = fields.required("spec")?;
    fields.finish()?;

    let mut spec = Fields::of(spec_node, "`spec`")?;
    let provider = dns_label(spec.required("provider")?, "the provider")?;
    let description = reader::text(spec.required("description")?, "the description")?.to_owned();
    let gpu_resources = reader::texts(spec.required("gpuResources")?, "`gpuResources`")?;
    let node_labels = spec.optional("nodeLabels").map(NodeLabels::read).transpose()?.unwrap_or_default();
    let matcher = Matcher::read(spec.required("match")?)?;
    let mut names = Names::built_in();
    let parameters = parameters(spec.optional("parameters"), &node_labels, &mut names)?;
    let variables = variables(spec.optional("variables"), &mut names)?;
    let warnings = warnings(spec.optional("warnings"), &names)?;
    let rules = rules(spec.required("rules")?, &names)?;
    spec.finish()?;
    let (file, text) = (file.to_owned(), text.to_owned());
    Ok(Definition {
        file,
        text,
        name,
        provider,
        description,
        parameters,
        gpu_resources,
        node_labels,
        matcher,
        variables,
        warnings,
        rules,
        names,
    })
}

fn constant(node: &Node, field: &str, wanted: &str) -> Result<(), Diagnostic> {
    let seen = reader::text(node, field)?;
    if seen == wanted {
        return Ok(());
    }
    Err(Diagnostic::new(node.span, format!("`{field}` is `{seen}`"))
        .hint(format!("a policy has `{field}: {wanted}`")))
}

/// A DNS label: it becomes part of an annotation.
fn dns_label(node: &Node, what: &str) -> Result<String, Diagnostic> {
    let text = reader::text(node, what)?;
    if Format::DnsLabel.check(text).is_ok() {
        return Ok(text.to_owned());
    }
    let message = format!("{what} is `{text}`");
    Err(Diagnostic::new(node.span, message).hint("use lower-case letters, digits and hyphens, at most 63"))
}

/// A name that an expression can read.
fn identifier(name: &str, span: Span) -> Result<(), Diagnostic> {
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits {
        return Ok(());
    }
    let message = format!("`{name}` cannot be a name in an expression");
    Err(Diagnostic::new(span, message).hint("use letters, digits and `_`, a letter first"))
}

fn parameters(
    node: Option<&Node>,
    labels: &NodeLabels,
    names: &mut Names,
) -> Result<Vec<Parameter>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut parameters = Vec::new();
    for entry in reader::entries(node, "`parameters`")? {
        identifier(&entry.key, entry.span)?;
        // `enabled` is a key of the provider's block in a values file.
        if entry.key == "enabled" || !names.add(&entry.key, Phase::Fixed) {
            return Err(Diagnostic::new(entry.span, format!("the name `{}` is taken", entry.key)));
        }
        parameters.push(Parameter::read(&entry.key, &entry.value, labels)?);
    }
    Ok(parameters)
}

fn variables(node: Option<&Node>, names: &mut Names) -> Result<Vec<Variable>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut variables = Vec::new();
    for entry in reader::entries(node, "`variables`")? {
        identifier(&entry.key, entry.span)?;
        let Content::Scalar { value: Scalar::String(source), .. } = &entry.value.content else {
            return Err(reader::expected(&entry.value, "a string, most often an expression `${…}`"));
        };
        let value = Interpolation::compile(source, entry.value.span, names, None)?;
        one_phase(&value, &entry.value, names)?;
        let phase = value.phase(names);
        if !names.add(&entry.key, phase) {
            return Err(Diagnostic::new(entry.span, format!("the name `{}` is taken", entry.key)));
        }
        variables.push(Variable { name: entry.key.clone(), value, phase });
    }
    Ok(variables)
}

/// A variable belongs to a container or to the pod after injection, but not to both.
fn one_phase(value: &Interpolation, node: &Node, names: &Names) -> Result<(), Diagnostic> {
    let read = || value.expressions().flat_map(super::expression::Expression::names);
    let of = |phase: Phase| read().find(|name| names.get(name) == Some(phase));
    let (Some(container), Some(injected)) = (of(Phase::Container), of(Phase::Injected)) else {
        return Ok(());
    };
    let message = format!(
        "`{container}` is known {} only, and `{injected}` {} only",
        Phase::Container.describe(),
        Phase::Injected.describe()
    );
    let mut diagnostic =
        Diagnostic::new(node.span, message).hint("docs/policy.md says where each name can be used");
    diagnostic.needle = Some(container.as_str().into());
    Err(diagnostic)
}

fn warnings(node: Option<&Node>, names: &Names) -> Result<Vec<PolicyWarning>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    reader::items(node, "`warnings`")?.iter().map(|item| warning(item, names)).collect()
}

fn warning(node: &Node, names: &Names) -> Result<PolicyWarning, Diagnostic> {
    let mut fields = Fields::of(node, "a warning")?;
    let code_node = fields.required("code")?;
    let code = reader::text(code_node, "the code of a warning")?;
    let snake = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if code.is_empty() || code.len() > 63 || !snake {
        return Err(Diagnostic::new(code_node.span, format!("the code of a warning is `{code}`"))
            .hint("use lower-case letters, digits and `_`, at most 63"));
    }
    let when = Interpolation::condition(fields.required("when")?, "`when`", names, Phase::Injected)?;
    let message_node = fields.required("message")?;
    let message = reader::text(message_node, "the message of a warning")?;
    let message = Interpolation::compile(message, message_node.span, names, Some(Phase::Injected))?;
    fields.finish()?;
    Ok(PolicyWarning { code: code.to_owned(), when, message })
}

fn rules(node: &Node, names: &Names) -> Result<Vec<Rule>, Diagnostic> {
    let mut rules: Vec<Rule> = Vec::new();
    for item in reader::items(node, "`rules`")? {
        let rule = rule(item, names)?;
        if rules.iter().any(|known| known.name == rule.name) {
            return Err(Diagnostic::new(item.span, format!("two rules are called `{}`", rule.name)));
        }
        rules.push(rule);
    }
    if rules.is_empty() {
        return Err(Diagnostic::new(node.span, "a policy needs at least one rule").hint("see docs/policy.md"));
    }
    same_volumes(node, &rules)?;
    edits_and_insists(node, &rules)?;
    Ok(rules)
}

/// Two rules can declare a volume of one name if it is the same volume.
fn same_volumes(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let mut known: Vec<(&str, &Element)> = Vec::new();
    for volume in rules.iter().flat_map(|rule| &rule.pod.volumes) {
        let Some(name) = volume.0.literal("name") else { continue };
        match known.iter().find(|(other, _)| *other == name) {
            Some((_, other)) if *other != volume => {
                let message = format!("two rules have different volumes `{name}`");
                let mut diagnostic =
                    Diagnostic::new(node.span, message).hint("give one of them another name");
                diagnostic.needle = Some(format!("name: {name}").into());
                return Err(diagnostic);
            }
            Some(_) => {}
            None => known.push((name, volume)),
        }
    }
    Ok(())
}

/// A rule that replaces or refuses other values of a variable or annotation, and another rule that edits it, undo each
/// other.
fn edits_and_insists(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let (mut edited, mut set) = (Vec::new(), Vec::new());
    for rule in rules {
        let named = rule.pod.containers.iter().flat_map(|container| &container.instructions);
        for instruction in rule.container.iter().chain(&rule.pod.instructions).chain(named) {
            instruction.strings(&mut |name, is_edit| {
                if is_edit {
                    edited.push((name.to_owned(), &rule.name));
                } else if rule.on_conflict != OnConflict::Keep {
                    set.push((name.to_owned(), &rule.name));
                }
            });
        }
    }
    for (name, editor) in &edited {
        if let Some((_, setter)) = set.iter().find(|(other, _)| other == name) {
            let message =
                format!("rule `{editor}` edits `{name}`, of which rule `{setter}` allows one value only");
            let mut diagnostic = Diagnostic::new(node.span, message).hint("set the whole value in one rule");
            diagnostic.needle = Some(name.as_str().into());
            return Err(diagnostic);
        }
    }
    Ok(())
}

fn rule(node: &Node, names: &Names) -> Result<Rule, Diagnostic> {
    let mut fields = Fields::of(node, "a rule")?;
    let name = dns_label(fields.required("name")?, "the name of a rule")?;
    fields.optional("description").map(|node| reader::text(node, "the description")).transpose()?;
    let condition = |node: Option<&Node>, what: &str, phase| {
        node.map(|node| Interpolation::condition(node, what, names, phase)).transpose()
    };
    let when = condition(fields.optional("when"), "`when`", Phase::Pod)?;
    let containers = condition(fields.optional("containers"), "`containers`", Phase::Container)?;
    let requires_pod_network = fields
        .optional("requiresPodNetwork")
        .map(|node| reader::boolean(node, "`requiresPodNetwork`"))
        .transpose()?
        .unwrap_or(false);
    let on_conflict = fields.optional("onConflict").map(self::on_conflict).transpose()?.unwrap_or_default();
    let compiler = Compiler { names };
    let (container, pod) = (fields.optional("container"), fields.optional("pod"));
    let adds_nothing = container.is_none() && pod.is_none();
    let container = container.map(|node| compiler.container(node)).transpose()?.unwrap_or_default();
    let pod = pod.map(|node| compiler.pod(node)).transpose()?.unwrap_or_default();
    fields.finish()?;
    if adds_nothing {
        return Err(Diagnostic::new(node.span, format!("the rule `{name}` adds nothing"))
            .hint("give it `container`, `pod` or both"));
    }
    if requires_pod_network && pod.sets_host_network() {
        let message = format!("the rule `{name}` requires the pod's own network and sets `hostNetwork`");
        let mut diagnostic = Diagnostic::new(node.span, message).hint("write two rules");
        diagnostic.needle = Some("hostNetwork".into());
        return Err(diagnostic);
    }
    Ok(Rule { name, when, containers, requires_pod_network, on_conflict, container, pod })
}

fn on_conflict(node: &Node) -> Result<OnConflict, Diagnostic> {
    let known =
        [("keep", OnConflict::Keep), ("replace", OnConflict::Replace), ("refuse", OnConflict::Refuse)];
    let text = reader::text(node, "`onConflict`")?;
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        Diagnostic::new(node.span, format!("`onConflict` is `{text}`"))
            .hint(suggest(text, known.iter().map(|(name, _)| *name)))
    })
}
