//! The names that GPUs and the devices of a fabric go by: `gpus` and `devices.own` of a policy.

use std::fmt;

use serde_json::Value;

use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Node, Text};

use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{EvaluationError, Interpolation, Names, Phase};
use crate::core::policy::keys;
use crate::core::policy::matcher::Pattern;
use crate::core::policy::overlay::Wanted;
use crate::core::policy::source::reader::{self, Fields};
use crate::core::policy::source::{Checked, Diagnostic, MISSING_KEY, TOO_EARLY, all};
use crate::core::schema::{Format, Shape};

/// `gpus`: the resources that count as GPUs, and the claims that bring GPUs.
#[derive(Debug, Default)]
pub(crate) struct Gpus {
    pub(crate) resources: Vec<String>,
    pub(crate) claims: Option<GpuClaims>,
}

/// The claims that bring GPUs, and how many each of them brings.
#[derive(Debug)]
pub(crate) struct GpuClaims {
    names: NameList,
    gpus: Interpolation,
}

/// `devices.own`: the names that devices of the policy's fabric go by.
#[derive(Debug, Default)]
pub(crate) struct OwnDevices {
    resources: NameList,
    networks: NameList,
    claims: NameList,
}

/// A list of names, with expressions over parameters.
#[derive(Debug)]
enum NameList {
    Written(Vec<Interpolation>),
    /// One expression that yields the list.
    Computed(Interpolation),
}

/// The claims that bring GPUs, for certain parameter values.
#[derive(Debug, Default)]
pub(crate) struct ClaimedGpus {
    pub(crate) names: Vec<ClaimName>,
    /// The GPUs of one claim.
    pub(crate) gpus: i64,
}

/// A name of claims, such as `single-gpu=1`.
#[derive(Debug, Clone)]
pub(crate) struct ClaimName {
    pub(crate) pattern: Pattern,
    /// The devices of such a claim, if the name has its own number.
    pub(crate) devices: Option<i64>,
}

/// The names of a fabric, for certain parameter values.
#[derive(Debug, Default)]
pub(crate) struct DeviceNames {
    pub(crate) resources: Vec<Pattern>,
    pub(crate) networks: Vec<Pattern>,
    pub(crate) claims: Vec<ClaimName>,
}

impl Default for NameList {
    fn default() -> Self {
        Self::Written(Vec::new())
    }
}

impl Gpus {
    /// Reads what has no problem.
    pub(crate) fn read(&mut self, node: &Node, names: &Names) -> Checked<()> {
        let mut fields = Fields::of(node, &keys::GPUS)?;
        self.resources = fields.required("resources", gpu_resources).unwrap_or_default();
        let claims = fields.optional("claims", |node| GpuClaims::read(node, names));
        self.claims = claims.ok().flatten();
        fields.finish()
    }
}

fn gpu_resources(node: &Node) -> Checked<Vec<String>> {
    let items = reader::items(node, "`resources`")?;
    if items.is_empty() {
        let message = "`resources` names no resource, so that no container has GPUs";
        return Err(Diagnostic::new(node.span, message).hint("write for example `[example.com/gpu]`").into());
    }
    all(items.iter().map(|item| {
        let name = reader::text(item, "`resources`")?;
        let invalid = |problem| {
            Diagnostic::new(item.span, format!("an entry of `resources` is wrong: {problem}"))
                .hint("write the name of a resource, such as `example.com/gpu`")
        };
        Format::ResourceName.check(name).map_err(invalid)?;
        Ok::<_, Diagnostic>(name.to_owned())
    }))
}

impl GpuClaims {
    fn read(node: &Node, names: &Names) -> Checked<Self> {
        let mut fields = Fields::of(node, &keys::CLAIMS)?;
        let list = fields.required("names", |node| NameList::read(node, "`names`", names, claim));
        let gpus = fields.required("gpus", |node| read_gpus(node, names));
        fields.finish()?;
        Ok(Self { names: list?, gpus: gpus? })
    }

    /// Calls `visit` with every interpolation, and the value that is needed in its place.
    pub(crate) fn places(&self, visit: &mut dyn FnMut(&Interpolation, Wanted)) {
        self.names.places(visit);
        visit(&self.gpus, Wanted::Field(Shape::Integer(0, i64::MAX)));
    }

    /// The claims for these parameters; `None` if names or number are `null`.
    pub(crate) fn resolve(
        &self,
        bindings: &Bindings<'_, '_>,
    ) -> Result<Option<ClaimedGpus>, EvaluationError> {
        let names = self.names.resolve(bindings, claim_name)?;
        let gpus = self.gpus.evaluate(bindings)?;
        if gpus.is_null() || names.is_empty() {
            return Ok(None);
        }
        match gpus.as_i64().filter(|gpus| *gpus >= 0) {
            Some(gpus) => Ok(Some(ClaimedGpus { names, gpus })),
            None => Err(self
                .gpus
                .failed(format!("the result is `{gpus}` where `gpus` needs a whole number of at least 0"))),
        }
    }
}

impl OwnDevices {
    pub(crate) fn read(node: &Node, names: &Names) -> Checked<Self> {
        let mut fields = Fields::of(node, &keys::OWN)?;
        let kinds: [(_, Check); 3] = [("resources", resource), ("networks", pattern), ("claims", claim)];
        let [resources, networks, claims] = kinds.map(|(key, check)| {
            fields.optional(key, |node| NameList::read(node, &format!("`{key}`"), names, check))
        });
        fields.finish()?;
        let own = Self {
            resources: resources?.unwrap_or_default(),
            networks: networks?.unwrap_or_default(),
            claims: claims?.unwrap_or_default(),
        };
        let is_empty = |list: &NameList| matches!(list, NameList::Written(names) if names.is_empty());
        if [&own.resources, &own.networks, &own.claims].into_iter().all(is_empty) {
            return Err(Diagnostic::new(node.span, "`own` names no device")
                .code(MISSING_KEY)
                .hint("give it `resources`, `networks` or `claims`")
                .into());
        }
        Ok(own)
    }

    /// Calls `visit` with every interpolation, and the value that is needed in its place.
    pub(crate) fn places(&self, visit: &mut dyn FnMut(&Interpolation, Wanted)) {
        for list in [&self.resources, &self.networks, &self.claims] {
            list.places(visit);
        }
    }

    pub(crate) fn resolve(&self, bindings: &Bindings<'_, '_>) -> Result<DeviceNames, EvaluationError> {
        Ok(DeviceNames {
            resources: self.resources.resolve(bindings, resource)?,
            networks: self.networks.resolve(bindings, pattern)?,
            claims: self.claims.resolve(bindings, claim_name)?,
        })
    }
}

impl NameList {
    /// `check` is for the names that are no expressions.
    fn read(node: &Node, what: &str, names: &Names, check: Check) -> Checked<Self> {
        let wanted = format!("{what} to be a list, or an expression that yields one");
        match &node.content {
            Content::List(items) => {
                let item = |item: &Node| {
                    let name = fixed(item, "a name", names)?;
                    if let Interpolation::Literal(name) = &name {
                        let fail = |problem| Diagnostic::new(item.span, problem).hint("write a name");
                        check(name).map_err(fail)?;
                    }
                    Ok::<_, Diagnostic>(name)
                };
                all(items.iter().map(item)).map(Self::Written)
            }
            Content::Scalar { value: Scalar::String(_), .. } => match fixed(node, what, names)? {
                expression @ Interpolation::Expression(_) => Ok(Self::Computed(expression)),
                _ => Err(reader::expected(node, &wanted).into()),
            },
            _ => Err(reader::expected(node, &wanted).into()),
        }
    }

    fn places(&self, visit: &mut dyn FnMut(&Interpolation, Wanted)) {
        match self {
            Self::Written(names) => names.iter().for_each(|name| visit(name, Wanted::Text)),
            Self::Computed(text) => visit(text, Wanted::Names),
        }
    }

    fn resolve<T>(
        &self,
        bindings: &Bindings<'_, '_>,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, EvaluationError> {
        let name = |text: &Interpolation, value: &Value| {
            let Value::String(name) = value else {
                return Err(text.failed(format!("the result is `{value}` where a name is needed")));
            };
            parse(name).map_err(|message| text.failed(message))
        };
        match self {
            Self::Written(texts) => {
                let mut names = Vec::with_capacity(texts.len());
                for text in texts {
                    match text.evaluate(bindings)? {
                        Value::Null => {}
                        value => names.push(name(text, &value)?),
                    }
                }
                Ok(names)
            }
            Self::Computed(text) => match text.evaluate(bindings)? {
                Value::Null => Ok(Vec::new()),
                Value::Array(names) => names.iter().map(|value| name(text, value)).collect(),
                other => Err(text.failed(format!("the result is `{other}` where a list of names is needed"))),
            },
        }
    }
}

fn read_gpus(node: &Node, names: &Names) -> Result<Interpolation, Diagnostic> {
    match &node.content {
        Content::Scalar { value: Scalar::Number(number), .. } if number.as_u64().is_some() => {
            Interpolation::compile(&Text::on_line(&format!("${{{number}}}"), node.span), names, None)
        }
        Content::Scalar { value: Scalar::String(text), .. } if text.trim().starts_with("${") => {
            fixed(node, "`gpus`", names)
        }
        _ => Err(reader::expected(node, "a whole number, or an expression that yields one")
            .hint("write for example `8`, or `${gpusPerClaim}`")),
    }
}

/// A string with expressions over parameters only.
fn fixed(node: &Node, what: &str, names: &Names) -> Result<Interpolation, Diagnostic> {
    let compiled = Interpolation::compile(&reader::located(node, what)?.trim(), names, None)?;
    if compiled.phase(names) == Phase::Fixed {
        return Ok(compiled);
    }
    Err(Diagnostic::new(node.span, format!("`{}` depends on the pod", compiled.source()))
        .code(TOO_EARLY)
        .hint("the names of devices are the same for every pod: read parameters only"))
}

/// A check of a name.
type Check = fn(&str) -> Result<Pattern, String>;

fn pattern(name: &str) -> Result<Pattern, String> {
    if name.is_empty() { Err("a name is empty".to_owned()) } else { Ok(Pattern::new(name)) }
}

/// The name of a resource, in which a `*` stands for any text.
fn resource(name: &str) -> Result<Pattern, String> {
    Format::ResourceName.check(&name.replace('*', "x")).map_err(|_| {
        format!("`{name}` is not the name of a resource, `DOMAIN/NAME`, in which `*` stands for any text")
    })?;
    pattern(name)
}

fn claim(text: &str) -> Result<Pattern, String> {
    claim_name(text).map(|name| name.pattern)
}

fn claim_name(text: &str) -> Result<ClaimName, String> {
    let Some((name, devices)) = text.split_once('=') else {
        return Ok(ClaimName { pattern: pattern(text)?, devices: None });
    };
    let devices =
        devices.parse::<u32>().map_err(|_| format!("`{devices}` in `{text}` is not a number of devices"))?;
    Ok(ClaimName { pattern: pattern(name)?, devices: Some(devices.into()) })
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern.fmt(f)?;
        self.devices.map_or(Ok(()), |devices| write!(f, "={devices}"))
    }
}

impl ClaimedGpus {
    /// The GPUs of a claim with this name in the pod, and this name of its own or of its template.
    pub(crate) fn of(&self, name: &str, target: &str) -> i64 {
        first_match(&self.names, name, target).map_or(0, |known| known.devices.unwrap_or(self.gpus))
    }
}

impl DeviceNames {
    /// Returns whether a claim with these names brings devices of the fabric.
    pub(crate) fn has_claim(&self, name: &str, target: &str) -> bool {
        first_match(&self.claims, name, target).is_some_and(|known| known.devices != Some(0))
    }
}

/// The first name that matches one of the two decides.
fn first_match<'n>(names: &'n [ClaimName], name: &str, target: &str) -> Option<&'n ClaimName> {
    names.iter().find(|known| known.pattern.matches(name) || known.pattern.matches(target))
}
