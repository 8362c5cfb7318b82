//! Reads a file of cases.

use serde_json::Value;

use crate::helm_values::{Values, overrides};
use fabric_engine::policy_set::PolicySet;
use fabric_engine::{Reason, Warning};
use fabric_policy as policy;
use fabric_policy::keys::API_VERSION;
use fabric_policy::schema::{self, Shape};
use fabric_policy::source::reader::{self, Fields};
use fabric_policy::source::{Checked, Problems, all, closest, suggest};
use fabric_policy::{
    Definition, Diagnostic, Effect, Overrides, PodContext, Policy, SourceError, SourceErrors,
};
use fabric_yaml::{self as yaml, Content, Entry, Node, Span};

use super::compare::merge;
use super::context;
use super::expectation::{Expectation, Reference, checks_nothing, expectation, known_fields};
use super::keys::{self, KIND};

/// A file of cases.
#[derive(Debug)]
pub struct CaseFile {
    /// The name of the file, for messages.
    pub file: String,
    pub text: String,
    pub cases: Vec<Case>,
}

/// A pod or a workload, and the expected result of policies.
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
    pub(super) context: PodContext,
    pub(super) expectations: Vec<Expectation>,
}

impl Case {
    /// Returns whether the nodes of the cluster are given.
    pub fn has_nodes(&self) -> bool {
        self.context.nodes.is_some()
    }

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

/// Policies, each with the operator's settings for it.
pub type WithSettings = Vec<(Definition, Overrides)>;

impl CaseFile {
    /// Reads a file of cases. `file` is its name for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, SourceErrors> {
        let cases = read(text).map_err(|problems| errors_in(file, text, problems))?;
        Ok(Self { file: file.to_owned(), text: text.to_owned(), cases })
    }

    /// An error at a position of the file.
    pub fn error(&self, span: Span, message: impl Into<String>, hint: &str) -> SourceError {
        SourceError::new(&self.file, self.text.as_str(), Diagnostic::new(span, message).hint(hint))
    }

    /// Fails for an expected code that no result of these policies has.
    pub fn check_codes(&self, case: &Case, policies: &PolicySet) -> Result<(), SourceErrors> {
        let codes = |own: &[&[&'static str]], effects: &'static [Effect]| -> Vec<&str> {
            let definitions = policies.policies().iter().map(Policy::definition);
            own.concat().into_iter().chain(definitions.flat_map(|one| one.check_codes(effects))).collect()
        };
        let reasons = [Reason::LEFT_ALONE, Reason::SKIPPED, Reason::REFUSED, Reason::FAULTS];
        let reasons = codes(&reasons, &[Effect::Refuse, Effect::Skip]);
        let warnings = codes(&[Warning::CODES], &Effect::WARNINGS);
        let known = |what: &str, code: &Reference, known: &[&str]| {
            if known.contains(&code.text.as_str()) {
                return Ok(());
            }
            let message = format!("no {what} has the code `{}`", code.text);
            Err(Diagnostic::new(code.span, message).hint(suggest(&code.text, known.iter().copied())))
        };
        let checked = case.expectations.iter().flat_map(|expectation| {
            let warned = expectation.warnings.iter().flatten();
            let of_warnings = warned.map(|code| known("warning of these policies", code, &warnings));
            let of_reason = expectation.reason.iter().map(|code| known("reason", code, &reasons));
            of_warnings.chain(of_reason).collect::<Vec<_>>()
        });
        all::<_, _, Vec<()>>(checked)
            .map(|_| ())
            .map_err(|problems| errors_in(&self.file, &self.text, problems))
    }

    /// The operator's settings of a case for each of its policies.
    pub fn settings(
        &self,
        case: &Case,
        definitions: Vec<Definition>,
        built_in: &[Definition],
    ) -> Result<WithSettings, SourceErrors> {
        let fail = |problems| errors_in(&self.file, &self.text, problems);
        let values = case.values.as_ref().map(|block| Values::of_block(&self.file, &self.text, block));
        let values = values.transpose()?;
        if let Some(values) = &values {
            values.check(&definitions, built_in)?;
        }
        let parameters = definitions.iter().flat_map(|definition| &definition.parameters);
        let known: Vec<&str> = parameters.map(|parameter| parameter.name.as_str()).collect();
        if let Some(entry) = case.parameters.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            let message = format!("no policy of this case has a parameter `{}`", entry.key);
            return Err(fail(Diagnostic::new(entry.span, message).hint(suggest(&entry.key, known)).into()));
        }
        let mut with_settings = Vec::new();
        for definition in definitions {
            let of_values = values.as_ref().map(|values| values.overrides(&definition)).transpose()?;
            let mut settings = of_values.unwrap_or_default();
            settings.extend(overrides(&definition, &case.parameters).map_err(fail)?);
            with_settings.push((definition, settings));
        }
        Ok(with_settings)
    }
}

fn errors_in(file: &str, text: &str, problems: Problems) -> SourceErrors {
    SourceErrors::new(problems.into_iter().map(|problem| SourceError::new(file, text, problem)).collect())
}

fn read(text: &str) -> Checked<Vec<Case>> {
    let (root, repeated) = yaml::read_unique(text).map_err(Diagnostic::from)?;
    let mut problems = Problems::default();
    for error in repeated {
        problems.add(Diagnostic::from(error));
    }
    let Some(root) = root else {
        return Err(Diagnostic::new(Span::default(), "the file is empty")
            .hint("see docs/testing-policies.md")
            .into());
    };
    another_kind(&root)?;
    let mut fields = Fields::read(&root, &keys::CASE_FILE)?;
    for (key, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let _ = fields.required(key, |node| header(node, key, wanted));
    }
    let policies = fields.optional("policy", policies);
    let pod = fields.optional("pod", |pod| known_fields(pod, &Shape::Object(schema::pod())).map(|()| pod));
    let list = fields.required("cases", Ok::<_, Diagnostic>);
    problems.take(fields.finish());
    let (Ok(policies), Ok(pod), Ok(list)) = (policies, pod, list) else {
        return problems.result(Vec::new());
    };
    let policies = policies.unwrap_or_default();
    let mut cases: Vec<Case> = Vec::new();
    for item in reader::list(list, "`cases`")? {
        let Some(case) = problems.take(case(item, &policies, pod)) else { continue };
        if cases.iter().any(|known| known.name == case.name) {
            let message = format!("two cases are called `{}`", case.name);
            problems.add(Diagnostic::new(case.span, message).hint("say in the name how they differ"));
        }
        cases.push(case);
    }
    if cases.is_empty() && problems.is_empty() {
        problems.add(Diagnostic::new(list.span, "the file has no case").hint("see docs/testing-policies.md"));
    }
    problems.result(cases)
}

/// The error of a file of another kind, instead of one for each of its fields.
fn another_kind(root: &Node) -> Result<(), Diagnostic> {
    let Some((node, kind)) = root.get("kind").and_then(|node| Some((node, node.text()?.text))) else {
        return Ok(());
    };
    if closest(kind, [KIND]).is_some() {
        return Ok(());
    }
    let hint = if kind == policy::KIND {
        "the cases of a policy are in the folder `tests` next to it: name its folder".to_owned()
    } else {
        format!("a file of cases has `kind: {KIND}`")
    };
    Err(Diagnostic::new(node.span, format!("`kind` is `{kind}`, so the file has no cases")).hint(hint))
}

fn header(node: &Node, key: &str, wanted: &str) -> Result<(), Diagnostic> {
    let seen = reader::text(node, key)?;
    if seen == wanted {
        return Ok(());
    }
    Err(Diagnostic::new(node.span, format!("`{key}` is `{seen}`"))
        .hint(format!("a file of cases has `{key}: {wanted}`")))
}

/// Reads a case of a file, whose cases share these policies and this pod.
fn case(node: &Node, shared: &[Reference], pod: Option<&Node>) -> Checked<Case> {
    let mut fields = Fields::read(node, &keys::CASE)?;
    let name = fields.required("name", |node| {
        reader::text(node, "the name of a case").map(|name| (name.to_owned(), node.span))
    });
    let own = fields.optional("policy", policies);
    let values = fields.node("values").cloned();
    let parameters =
        fields.optional("parameters", |node| reader::entries(node, "`parameters`").map(<[_]>::to_vec));
    let context = fields.optional("context", context::read);
    let subject = subject(&mut fields, node, pod);
    let subject = fields.take(subject);
    let expectations = fields.required("expect", expectations);
    fields.finish()?;
    let ((name, span), policies) = (name?, own?.unwrap_or_else(|| shared.to_vec()));
    if policies.is_empty() {
        return Err(Diagnostic::new(node.span, format!("the case `{name}` names no policy"))
            .hint("add `policy:` to the case, or to the file for all of its cases")
            .into());
    }
    let context = context?.unwrap_or_default();
    let (subject, expectations) = (subject?, expectations?);
    let parameters = parameters?.unwrap_or_default();
    Ok(Case { name, span, policies, values, parameters, subject, context, expectations })
}

fn expectations(node: &Node) -> Checked<Vec<Expectation>> {
    let expectations: Vec<_> = all(node.one_or_items().iter().map(expectation))?;
    if expectations.is_empty() { Err(checks_nothing(node.span).into()) } else { Ok(expectations) }
}

fn policies(node: &Node) -> Result<Vec<Reference>, Diagnostic> {
    node.one_or_items().iter().map(|node| Reference::read(node, "the policy of a case")).collect()
}

/// The pod or workload of a case: `pod`, that of the file, with the changes of `with`; or `workload`.
fn subject(fields: &mut Fields<'_>, case: &Node, shared: Option<&Node>) -> Checked<Subject> {
    let shape = Shape::Object(schema::pod());
    let (pod, with, workload) = (fields.node("pod"), fields.node("with"), fields.node("workload"));
    if let Some(workload) = workload {
        if let Some(other) = pod.or(with) {
            return Err(Diagnostic::new(other.span, "a case has `workload`, or `pod` and `with`")
                .hint("remove one of them")
                .into());
        }
        if let Content::Map(_) = &workload.content {
            return Ok(Subject::Workload(workload.to_value()));
        }
        return Ok(Subject::File(Reference::read(workload, "`workload`, if it is no object,")?));
    }
    if let Some(own) = pod {
        known_fields(own, &shape)?;
    }
    let Some(pod) = pod.or(shared) else {
        return Err(Diagnostic::new(case.span, "a case has neither `pod` nor `workload`")
            .hint("add one of them, or `pod` to the file for all of its cases")
            .into());
    };
    let mut value = pod.to_value();
    if let Some(with) = with {
        known_fields(with, &shape)?;
        merge(&mut value, &with.to_value(), &shape);
    }
    Ok(Subject::Pod(value))
}
