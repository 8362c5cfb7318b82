//! From the YAML of a policy file to its [`Definition`].

use crate::core::schema::Format;
use crate::core::yaml::{Node, Span};

use super::definition::{Definition, OnConflict, PolicyWarning, Rule};
use super::device_names::{Fabric, GpuClaims};
use super::diagnostic::{Diagnostic, suggest};
use super::file::SourceFile;
use super::interpolation::Interpolation;
use super::matcher::Matcher;
use super::message;
use super::node::NodeLabels;
use super::overlay::{Compiler, Element, Lists, replaces_a_list};
use super::parameter::{Parameter, ParameterType};
use super::phase::{Names, Phase};
use super::reader::{self, Fields};
use super::settings::{self, Settings};
use super::variable::Variable;

pub(crate) const API_VERSION: &str = "fabric-injector.io/v1alpha1";
pub(crate) const KIND: &str = "FabricPolicy";

/// The `spec` of a policy, read and compiled.
pub(super) struct Spec {
    provider: String,
    description: String,
    gpu_resources: Vec<String>,
    gpu_claims: Option<GpuClaims>,
    fabric: Option<Fabric>,
    node_labels: NodeLabels,
    matcher: Matcher,
    parameters: Vec<Parameter>,
    variables: Vec<Variable>,
    warnings: Vec<PolicyWarning>,
    refusals: Vec<PolicyWarning>,
    rules: Vec<Rule>,
    settings: Vec<Settings>,
    names: Names,
}

/// The name and the `spec` of a policy file.
pub(super) fn header(root: &Node) -> Result<(String, Node), Diagnostic> {
    let mut fields = Fields::of(root, "a policy")?;
    constant(fields.required("apiVersion")?, "apiVersion", API_VERSION)?;
    constant(fields.required("kind")?, "kind", KIND)?;
    let mut metadata = Fields::of(fields.required("metadata")?, "`metadata`")?;
    let name = dns_label(metadata.required("name")?, "the name of a policy")?;
    metadata.finish()?;
    let spec = fields.required("spec")?.clone();
    fields.finish()?;
    Ok((name, spec))
}

/// Reads a `spec`, that of an extension together with its base's.
pub(super) fn spec(node: &Node) -> Result<Spec, Diagnostic> {
    let mut spec = Fields::of(node, "`spec`")?;
    // Read before, and known to the hint for a misspelled key.
    spec.optional("extends");
    let provider = dns_label(spec.required("provider")?, "the provider")?;
    let description = reader::text(spec.required("description")?, "the description")?.to_owned();
    let gpu_resources = reader::texts(spec.required("gpuResources")?, "`gpuResources`")?;
    let node_labels = spec.optional("nodeLabels").map(NodeLabels::read).transpose()?.unwrap_or_default();
    let match_node = spec.required("match")?;
    let mut names = Names::built_in();
    let parameters = parameters(spec.optional("parameters"), &node_labels, &mut names)?;
    let variables = variables(spec.optional("variables"), &mut names)?;
    let gpu_claims = spec.optional("gpuClaims").map(|node| GpuClaims::read(node, &names)).transpose()?;
    let fabric = spec.optional("fabric").map(|node| Fabric::read(node, &names)).transpose()?;
    let matcher = Matcher::read(match_node, &names)?;
    let warnings = message::read(spec.optional("warnings"), "warning", &names)?;
    let refusals = message::read(spec.optional("refusals"), "refusal", &names)?;
    let rules = rules(spec.required("rules")?, &names)?;
    let settings = settings::read(spec.optional("settings"), &names)?;
    spec.finish()?;
    Ok(Spec {
        provider,
        description,
        gpu_resources,
        gpu_claims,
        fabric,
        node_labels,
        matcher,
        parameters,
        variables,
        warnings,
        refusals,
        rules,
        settings,
        names,
    })
}

impl Spec {
    pub(super) fn into_definition(
        self,
        own: SourceFile,
        bases: Vec<SourceFile>,
        extends: Option<String>,
    ) -> Definition {
        let SourceFile { policy, file, text } = own;
        Definition {
            file,
            text,
            bases,
            extends,
            name: policy,
            provider: self.provider,
            description: self.description,
            parameters: self.parameters,
            gpu_resources: self.gpu_resources,
            gpu_claims: self.gpu_claims,
            fabric: self.fabric,
            node_labels: self.node_labels,
            matcher: self.matcher,
            variables: self.variables,
            warnings: self.warnings,
            refusals: self.refusals,
            rules: self.rules,
            settings: self.settings,
            names: self.names,
        }
    }
}

fn constant(node: &Node, field: &str, wanted: &str) -> Result<(), Diagnostic> {
    let seen = reader::text(node, field)?;
    if seen == wanted {
        return Ok(());
    }
    Err(Diagnostic::new(node.span, format!("`{field}` is `{seen}`"))
        .hint(format!("a policy has `{field}: {wanted}`")))
}

/// Returns whether a text can be the name of a policy or of a provider: a DNS label.
pub fn is_policy_name(text: &str) -> bool {
    Format::DnsLabel.check(text).is_ok()
}

/// A DNS label: it becomes part of an annotation.
fn dns_label(node: &Node, what: &str) -> Result<String, Diagnostic> {
    let text = reader::text(node, what)?;
    if is_policy_name(text) {
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
        let parameter = Parameter::read(&entry.key, &entry.value, labels)?;
        let phase = if parameter.kind == ParameterType::Template { Phase::Pod } else { Phase::Fixed };
        // `enabled` is a key of the provider's block in a values file.
        if entry.key == "enabled" || !names.add(&entry.key, phase) {
            return Err(Diagnostic::new(entry.span, format!("the name `{}` is taken", entry.key)));
        }
        parameters.push(parameter);
    }
    Ok(parameters)
}

fn variables(node: Option<&Node>, names: &mut Names) -> Result<Vec<Variable>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut variables = Vec::new();
    for entry in reader::entries(node, "`variables`")? {
        identifier(&entry.key, entry.span)?;
        let variable = Variable::read(&entry.key, &entry.value, names)?;
        if !names.add(&entry.key, variable.phase) {
            return Err(Diagnostic::new(entry.span, format!("the name `{}` is taken", entry.key)));
        }
        variables.push(variable);
    }
    Ok(variables)
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
    additions_and_replacements(node, &rules)?;
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

/// A rule that replaces a list would remove what another rule adds to it.
fn additions_and_replacements(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let mut lists = Lists::default();
    for rule in rules {
        lists.of_rule(&rule.name, &rule.container, &rule.pod);
    }
    let Some((list, replacer, adder)) = lists.contradiction() else { return Ok(()) };
    let message = format!("rule `{replacer}` replaces `{list}`, to which rule `{adder}` adds");
    let mut diagnostic = Diagnostic::new(node.span, message).hint("write all entries into `$replace`");
    diagnostic.needle = Some("$replace".into());
    Err(diagnostic)
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
    let replaces = || {
        let others = pod.containers.iter().map(|container| &container.instructions);
        [&container, &pod.instructions].into_iter().chain(others).any(|list| replaces_a_list(list))
    };
    if on_conflict == OnConflict::Refuse && replaces() {
        let message = format!("the rule `{name}` replaces a list, and refuses pods with another one");
        let mut diagnostic = Diagnostic::new(node.span, message).hint("write two rules");
        diagnostic.needle = Some("$replace".into());
        return Err(diagnostic);
    }
    Ok(Rule { name, when, containers, requires_pod_network, on_conflict, container, pod })
}

/// The values of `onConflict`.
pub(crate) const ON_CONFLICT: [(&str, OnConflict); 3] =
    [("keep", OnConflict::Keep), ("replace", OnConflict::Replace), ("refuse", OnConflict::Refuse)];

fn on_conflict(node: &Node) -> Result<OnConflict, Diagnostic> {
    let known = ON_CONFLICT;
    let text = reader::text(node, "`onConflict`")?;
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        Diagnostic::new(node.span, format!("`onConflict` is `{text}`"))
            .hint(suggest(text, known.iter().map(|(name, _)| *name)))
    })
}
