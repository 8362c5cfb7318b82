//! Reads a file of cases.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::policy::diagnostic::suggest;
use crate::core::policy::reader::{self, Fields};
use crate::core::policy::{Definition, Diagnostic, Setting, SourceError};
use crate::core::schema::{self, Shape};
use crate::core::values::Values;
use crate::core::yaml::{self, Content, Entry, Node, Span};

use super::expectation::{Expectation, checks_nothing, expectation, known_fields};
use super::strategic;

/// The `kind` of a file of cases.
pub const KIND: &str = "PolicyTest";
const API_VERSION: &str = "fabric-injector.io/v1alpha1";

/// A file of cases.
#[derive(Debug)]
pub struct CaseFile {
    /// The name of the file, for messages.
    pub file: String,
    pub text: String,
    pub cases: Vec<Case>,
}

/// A pod or a workload, and what policies are expected to make of it.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    /// The position of the name.
    pub span: Span,
    /// Names of built-in policies, and paths from the folder of the file.
    pub policies: Vec<Reference>,
    values: Option<Node>,
    parameters: Vec<Entry<Node>>,
    pub subject: Subject,
    /// The namespace of the pods, if the case gives one.
    pub(super) namespace: Option<String>,
    /// The kind of the owner of the pods, if the case gives one.
    pub(super) owner: Option<String>,
    pub(super) expectations: Vec<Expectation>,
}

impl Case {
    pub fn has_values(&self) -> bool {
        self.values.is_some()
    }

    /// A text that is the same for cases with the same values and parameters.
    pub fn given(&self) -> String {
        let parameters =
            self.parameters.iter().map(|entry| format!("{}={}", entry.key, entry.value.to_value()));
        let values = self.values.as_ref().map(Node::to_value).unwrap_or_default();
        format!("{values} {}", parameters.collect::<Vec<_>>().join(" "))
    }
}

/// The name of a policy or the path of a file, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub text: String,
    pub span: Span,
}

/// The object that a case is about.
#[derive(Debug)]
pub enum Subject {
    /// One pod.
    Pod(Value),
    /// An object with pod templates.
    Workload(Value),
    /// A file with objects; the path from the folder of the file of cases.
    File(Reference),
}

/// The values of a file that its cases share.
struct Shared<'n> {
    policies: Vec<Reference>,
    pod: Option<&'n Node>,
}

impl CaseFile {
    /// Reads a file of cases. `file` is its name for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceError> {
        let cases = read(text).map_err(|diagnostic| SourceError::new(file, text, diagnostic))?;
        Ok(Self { file: file.to_owned(), text: text.to_owned(), cases })
    }

    /// An error at a position of the file.
    pub fn error(&self, span: Span, message: impl Into<String>, hint: &str) -> SourceError {
        SourceError::new(&self.file, &self.text, Diagnostic::new(span, message).hint(hint))
    }

    /// The operator's settings of a case for each of its policies.
    pub fn settings(
        &self,
        case: &Case,
        definitions: Vec<Definition>,
        built_in: &[Definition],
    ) -> Result<Vec<(Definition, BTreeMap<String, Setting>)>, SourceError> {
        let fail = |diagnostic| SourceError::new(&self.file, &self.text, diagnostic);
        let values = case.values.as_ref().map(|block| Values::of_block(&self.file, &self.text, block));
        let values = values.transpose()?;
        if let Some(values) = &values {
            values.check(&definitions, built_in)?;
        }
        for entry in &case.parameters {
            let mut parameters = definitions.iter().flat_map(|definition| &definition.parameters);
            if !parameters.clone().any(|parameter| parameter.name == entry.key) {
                let message = format!("no policy of this case has a parameter `{}`", entry.key);
                let known: Vec<&str> = parameters.by_ref().map(|known| known.name.as_str()).collect();
                return Err(fail(Diagnostic::new(entry.span, message).hint(suggest(&entry.key, known))));
            }
        }
        let mut with_settings = Vec::new();
        for definition in definitions {
            let mut settings = match &values {
                Some(values) => values.overrides(&definition)?,
                None => BTreeMap::new(),
            };
            for Entry { key, value, .. } in &case.parameters {
                let parameter = definition.parameters.iter().find(|parameter| parameter.name == *key);
                let Some(parameter) = parameter else { continue };
                let setting = Setting::read(parameter, value, &definition.node_labels).map_err(fail)?;
                settings.extend(setting.map(|setting| (key.clone(), setting)));
            }
            with_settings.push((definition, settings));
        }
        Ok(with_settings)
    }
}

fn read(text: &str) -> Result<Vec<Case>, Diagnostic> {
    let Some(root) = yaml::read_node(text)? else {
        return Err(
            Diagnostic::new(Span::default(), "the file is empty").hint("see docs/testing-policies.md")
        );
    };
    let mut fields = Fields::of(&root, "a file of cases")?;
    for (key, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let node = fields.required(key)?;
        let seen = reader::text(node, key)?;
        if seen != wanted {
            return Err(Diagnostic::new(node.span, format!("`{key}` is `{seen}`"))
                .hint(format!("a file of cases has `{key}: {wanted}`")));
        }
    }
    let policies = fields.optional("policy").map(policies).transpose()?.unwrap_or_default();
    let pod = fields.optional("pod");
    if let Some(pod) = pod {
        known_fields(pod, &Shape::Object(schema::pod()))?;
    }
    let shared = Shared { policies, pod };
    let list = fields.required("cases")?;
    fields.finish()?;
    let mut cases: Vec<Case> = Vec::new();
    for item in reader::items(list, "`cases`")? {
        let case = case(item, &shared)?;
        if cases.iter().any(|known| known.name == case.name) {
            return Err(Diagnostic::new(case.span, format!("two cases are called `{}`", case.name))
                .hint("say in the name how they differ"));
        }
        cases.push(case);
    }
    if cases.is_empty() {
        return Err(Diagnostic::new(list.span, "the file has no case").hint("see docs/testing-policies.md"));
    }
    Ok(cases)
}

fn case(node: &Node, shared: &Shared<'_>) -> Result<Case, Diagnostic> {
    let mut fields = Fields::of(node, "a case")?;
    let name_node = fields.required("name")?;
    let name = reader::text(name_node, "the name of a case")?.to_owned();
    let own = fields.optional("policy").map(policies).transpose()?;
    let policies = own.unwrap_or_else(|| shared.policies.clone());
    if policies.is_empty() {
        return Err(Diagnostic::new(node.span, format!("the case `{name}` names no policy"))
            .hint("add `policy:` to the case, or to the file for all of its cases"));
    }
    let values = fields.optional("values").cloned();
    let parameters = match fields.optional("parameters") {
        Some(node) => reader::entries(node, "`parameters`")?.to_vec(),
        None => Vec::new(),
    };
    let (mut namespace, mut owner) = (None, None);
    if let Some(context) = fields.optional("context") {
        let mut context = Fields::of(context, "`context`")?;
        let text = |node: Option<&Node>, what| {
            node.map(|node| reader::text(node, what).map(str::to_owned)).transpose()
        };
        namespace = text(context.optional("namespace"), "`namespace`")?;
        owner = text(context.optional("owner"), "`owner`")?;
        context.finish()?;
    }
    let subject = subject(&mut fields, node, shared)?;
    let expect = fields.required("expect")?;
    let expectations = match &expect.content {
        Content::List(items) => items.iter().map(expectation).collect::<Result<Vec<_>, _>>()?,
        _ => vec![expectation(expect)?],
    };
    fields.finish()?;
    if expectations.is_empty() {
        return Err(checks_nothing(expect.span));
    }
    let span = name_node.span;
    Ok(Case { name, span, policies, values, parameters, subject, namespace, owner, expectations })
}

fn policies(node: &Node) -> Result<Vec<Reference>, Diagnostic> {
    let one = |node: &Node| {
        Ok(Reference { text: reader::text(node, "the policy of a case")?.to_owned(), span: node.span })
    };
    match &node.content {
        Content::List(items) => items.iter().map(one).collect(),
        _ => Ok(vec![one(node)?]),
    }
}

/// The pod or workload of a case: `pod`, that of the file, with the changes of `with`; or `workload`.
fn subject(fields: &mut Fields<'_>, case: &Node, shared: &Shared<'_>) -> Result<Subject, Diagnostic> {
    let shape = Shape::Object(schema::pod());
    let (pod, with, workload) =
        (fields.optional("pod"), fields.optional("with"), fields.optional("workload"));
    if let Some(workload) = workload {
        if let Some(other) = pod.or(with) {
            return Err(Diagnostic::new(other.span, "a case has `workload`, or `pod` and `with`")
                .hint("remove one of them"));
        }
        return match &workload.content {
            Content::Map(_) => Ok(Subject::Workload(workload.to_value())),
            _ => {
                let text = reader::text(workload, "`workload` to be an object or the path of a file")?;
                Ok(Subject::File(Reference { text: text.to_owned(), span: workload.span }))
            }
        };
    }
    if let Some(own) = pod {
        known_fields(own, &shape)?;
    }
    let Some(pod) = pod.or(shared.pod) else {
        return Err(Diagnostic::new(case.span, "a case has neither `pod` nor `workload`")
            .hint("add one of them, or `pod` to the file for all of its cases"));
    };
    let mut value = pod.to_value();
    if let Some(with) = with {
        known_fields(with, &shape)?;
        strategic::merge(&mut value, &with.to_value(), &shape);
    }
    Ok(Subject::Pod(value))
}
