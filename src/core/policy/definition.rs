//! A policy file, read and compiled, before any parameter has its value.

use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{self, Content, Node};

use super::diagnostic::{Diagnostic, SourceError, suggest};
use super::matcher::Matcher;
use super::overlay::Compiler;
use super::parameter::Parameter;
use super::reader::{self, Fields};
use super::schema::PodSchema;
use super::scope::{Names, Scope};
use super::template::Template;
use super::text::Text;

const API_VERSION: &str = "fabric-injector.io/v1alpha1";
const KIND: &str = "FabricPolicy";

/// A policy as its file says it.
#[derive(Debug)]
pub struct Definition {
    /// The name of the file, for messages.
    pub file: String,
    /// The text of the file.
    pub text: String,
    /// `metadata.name`.
    pub name: String,
    /// The key of its block in a values file.
    pub provider: String,
    /// One sentence for people.
    pub description: String,
    /// What an operator may set.
    pub parameters: Vec<Parameter>,
    pub(crate) gpu_resources: Vec<String>,
    pub(crate) strip_prefixes: Vec<String>,
    pub(crate) matcher: Matcher,
    pub(crate) variables: Vec<Variable>,
    pub(crate) warnings: Vec<PolicyWarning>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) names: Names,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: Text,
    pub(crate) scope: Scope,
}

#[derive(Debug)]
pub(crate) struct PolicyWarning {
    pub(crate) code: String,
    pub(crate) when: Text,
    pub(crate) message: Text,
}

/// What to do where a pod already says something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The pod's value stays and is reported.
    #[default]
    Keep,
    /// The policy's value takes its place.
    Replace,
    /// The pod is refused.
    Refuse,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) when: Option<Text>,
    pub(crate) containers: Option<Text>,
    pub(crate) requires_pod_network: bool,
    pub(crate) on_conflict: OnConflict,
    pub(crate) container: Option<Template>,
    pub(crate) pod: Option<Template>,
}

impl Definition {
    /// The annotations that trigger the policy, each with its value.
    pub fn triggers(&self) -> &[(String, String)] {
        &self.matcher.any_annotation
    }

    /// The names of the resources that count as GPUs.
    pub fn gpu_resources(&self) -> &[String] {
        &self.gpu_resources
    }

    /// Reads a policy file. `file` is its name as it is to appear in messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceError> {
        Self::compile(file, text).map_err(|diagnostic| SourceError::new(file, text, diagnostic))
    }

    fn compile(file: &str, text: &str) -> Result<Self, Diagnostic> {
        let root = yaml::read_node(text)?.ok_or_else(|| {
            Diagnostic::new(yaml::Span::default(), "the file is empty").hint("see docs/policy.md")
        })?;
        let mut fields = Fields::of(&root, "a policy")?;
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
        let strip_prefixes = match spec.optional("instanceTypes") {
            Some(node) => read_instance_types(node)?,
            None => Vec::new(),
        };
        let matcher = Matcher::read(spec.required("match")?)?;
        let mut names = Names::built_in();
        let parameters = read_parameters(spec.optional("parameters"), &mut names)?;
        let variables = read_variables(spec.optional("variables"), &mut names)?;
        let warnings = read_warnings(spec.optional("warnings"), &names)?;
        let rules = read_rules(spec.required("rules")?, &names)?;
        spec.finish()?;
        Ok(Self {
            file: file.to_owned(),
            text: text.to_owned(),
            name,
            provider,
            description,
            parameters,
            gpu_resources,
            strip_prefixes,
            matcher,
            variables,
            warnings,
            rules,
            names,
        })
    }

    /// The codes of the warnings that the policy declares.
    pub fn warning_codes(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(|warning| warning.code.as_str())
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

/// A name of at most 63 lower-case letters, digits and hyphens: it becomes part of an annotation.
fn dns_label(node: &Node, what: &str) -> Result<String, Diagnostic> {
    let text = reader::text(node, what)?;
    let fits = !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if fits {
        return Ok(text.to_owned());
    }
    let message = format!("{what} is `{text}`");
    Err(Diagnostic::new(node.span, message).hint("use lower-case letters, digits and hyphens, at most 63"))
}

/// A name that an expression can read.
fn identifier(name: &str, span: yaml::Span) -> Result<(), Diagnostic> {
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits {
        return Ok(());
    }
    let message = format!("`{name}` cannot be a name in an expression");
    Err(Diagnostic::new(span, message).hint("use letters, digits and `_`, a letter first"))
}

fn read_instance_types(node: &Node) -> Result<Vec<String>, Diagnostic> {
    let mut fields = Fields::of(node, "`instanceTypes`")?;
    let prefixes = match fields.optional("stripPrefixes") {
        Some(node) => reader::texts(node, "`stripPrefixes`")?,
        None => Vec::new(),
    };
    fields.finish()?;
    Ok(prefixes.into_iter().map(|prefix| prefix.to_lowercase()).collect())
}

fn read_parameters(node: Option<&Node>, names: &mut Names) -> Result<Vec<Parameter>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut parameters = Vec::new();
    for entry in reader::entries(node, "`parameters`")? {
        identifier(&entry.key, entry.span)?;
        // The block of a values file has this key for itself.
        if entry.key == "enabled" || !names.add(&entry.key, Scope::Fixed) {
            return Err(Diagnostic::new(entry.span, format!("the name `{}` is taken", entry.key)));
        }
        parameters.push(Parameter::read(&entry.key, &entry.value)?);
    }
    Ok(parameters)
}

fn read_variables(node: Option<&Node>, names: &mut Names) -> Result<Vec<Variable>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut variables = Vec::new();
    for entry in reader::entries(node, "`variables`")? {
        identifier(&entry.key, entry.span)?;
        let source = match &entry.value.content {
            Content::Scalar { value: Scalar::String(text), .. } => text.clone(),
            _ => return Err(reader::expected(&entry.value, "a string, most often an expression `${…}`")),
        };
        let value = compile_variable(&source, &entry.value, names)?;
        let scope = value.scope(names);
        if !names.add(&entry.key, scope) {
            return Err(Diagnostic::new(entry.span, format!("the name `{}` is taken", entry.key)));
        }
        variables.push(Variable { name: entry.key.clone(), value, scope });
    }
    Ok(variables)
}

/// A variable may belong to a container or to the finished pod, but not to both.
fn compile_variable(source: &str, node: &Node, names: &Names) -> Result<Text, Diagnostic> {
    match Text::compile(source, node.span, names, Scope::Final) {
        Ok(text) => Ok(text),
        Err(of_the_pod) => match Text::compile(source, node.span, names, Scope::Container) {
            Ok(text) => Ok(text),
            // The error about the pod names a container's variable only if both are read.
            Err(of_a_container) => {
                let mixes = of_a_container.message.ends_with("only") && of_the_pod.message.ends_with("only");
                Err(if mixes { of_the_pod } else { of_a_container })
            }
        },
    }
}

fn read_warnings(node: Option<&Node>, names: &Names) -> Result<Vec<PolicyWarning>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    for item in reader::items(node, "`warnings`")? {
        let mut fields = Fields::of(item, "a warning")?;
        let code_node = fields.required("code")?;
        let code = reader::text(code_node, "the code of a warning")?;
        let snake =
            code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if code.is_empty() || code.len() > 63 || !snake {
            return Err(Diagnostic::new(code_node.span, format!("the code of a warning is `{code}`"))
                .hint("use lower-case letters, digits and `_`, at most 63"));
        }
        let when = Text::condition(fields.required("when")?, "`when`", names, Scope::Final)?;
        let message_node = fields.required("message")?;
        let message = reader::text(message_node, "the message of a warning")?;
        let message = Text::compile(message, message_node.span, names, Scope::Final)?;
        fields.finish()?;
        warnings.push(PolicyWarning { code: code.to_owned(), when, message });
    }
    Ok(warnings)
}

fn read_rules(node: &Node, names: &Names) -> Result<Vec<Rule>, Diagnostic> {
    let mut rules: Vec<Rule> = Vec::new();
    for item in reader::items(node, "`rules`")? {
        let rule = read_rule(item, names)?;
        if rules.iter().any(|known| known.name == rule.name) {
            return Err(Diagnostic::new(item.span, format!("two rules are called `{}`", rule.name)));
        }
        rules.push(rule);
    }
    if rules.is_empty() {
        return Err(Diagnostic::new(node.span, "a policy needs at least one rule").hint("see docs/policy.md"));
    }
    check_volumes(node, &rules)?;
    Ok(rules)
}

/// Two rules may both need a volume, but then it has to be the same one.
fn check_volumes(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let mut known: Vec<(&str, String)> = Vec::new();
    for rule in rules {
        for volume in rule.pod.as_ref().map_or(&[][..], Template::volumes) {
            let Some(name) = volume.literal("name") else { continue };
            let content = format!("{volume:?}");
            match known.iter().find(|(other, _)| *other == name) {
                Some((_, other)) if *other != content => {
                    let mut diagnostic =
                        Diagnostic::new(node.span, format!("two rules have different volumes `{name}`"))
                            .hint("give one of them another name");
                    diagnostic.needle = Some(format!("name: {name}").into());
                    return Err(diagnostic);
                }
                Some(_) => {}
                None => known.push((name, content)),
            }
        }
    }
    Ok(())
}

fn read_rule(node: &Node, names: &Names) -> Result<Rule, Diagnostic> {
    let schema = PodSchema::get();
    let mut fields = Fields::of(node, "a rule")?;
    let name = dns_label(fields.required("name")?, "the name of a rule")?;
    fields.optional("description").map(|node| reader::text(node, "the description")).transpose()?;
    let condition = |node: Option<&Node>, what: &str, scope| {
        node.map(|node| Text::condition(node, what, names, scope)).transpose()
    };
    let when = condition(fields.optional("when"), "`when`", Scope::Pod)?;
    let containers = condition(fields.optional("containers"), "`containers`", Scope::Container)?;
    let requires_pod_network = fields
        .optional("requiresPodNetwork")
        .map(|node| reader::boolean(node, "`requiresPodNetwork`"))
        .transpose()?
        .unwrap_or(false);
    let on_conflict = fields.optional("onConflict").map(read_on_conflict).transpose()?.unwrap_or_default();
    let overlay = |node: Option<&Node>, shape, scope| {
        node.map(|node| Compiler { names, scope }.compile(node, shape)).transpose()
    };
    let container = overlay(fields.optional("container"), schema.container(), Scope::Container)?;
    let pod = overlay(fields.optional("pod"), schema.pod(), Scope::Final)?;
    fields.finish()?;
    if container.is_none() && pod.is_none() {
        return Err(Diagnostic::new(node.span, format!("the rule `{name}` adds nothing"))
            .hint("give it `container`, `pod` or both"));
    }
    Ok(Rule { name, when, containers, requires_pod_network, on_conflict, container, pod })
}

fn read_on_conflict(node: &Node) -> Result<OnConflict, Diagnostic> {
    let known =
        [("keep", OnConflict::Keep), ("replace", OnConflict::Replace), ("refuse", OnConflict::Refuse)];
    let text = reader::text(node, "`onConflict`")?;
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        Diagnostic::new(node.span, format!("`onConflict` is `{text}`"))
            .hint(suggest(text, known.iter().map(|(name, _)| *name)))
    })
}
