//! The names that GPUs and the devices of a fabric go by: `gpus` and `devices.own` of a policy.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use fabric_yaml::{Content, Node};

use crate::claims::{ClaimRequest, PodClaim};
use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation, Names, Phase};
use crate::keys;
use crate::matcher::Pattern;
use crate::schema::Format;
use crate::source::reader::{self, Fields};
use crate::source::{Checked, Diagnostic, MISSING_KEY, TOO_EARLY, all};

/// `gpus`: the resources that count as GPUs, and the claims that bring GPUs.
#[derive(Debug, Default)]
pub struct Gpus {
    pub resources: Vec<String>,
    claims: NameList,
}

/// `devices.own`: the names that devices of the policy's fabric go by.
#[derive(Debug, Default)]
pub(crate) struct OwnDevices {
    resources: NameList,
    claims: NameList,
}

/// A list of names. An expression, over parameters only, yields a name or a list of names.
#[derive(Debug, Default)]
struct NameList(Vec<Interpolation>);

/// Claims by name, for certain parameter values.
#[derive(Debug, Default)]
pub struct ClaimNames(Vec<ClaimName>);

/// A name of claims, such as `single-gpu=1`, or a class of devices, such as `class:gpu.example.com=8`.
#[derive(Debug, Clone)]
pub struct ClaimName {
    pub pattern: Pattern,
    /// True for a class.
    is_class: bool,
    /// The devices of such a claim, if the name has its own number; for a class, those of a request for all devices of
    /// a node.
    pub(crate) devices: Option<i64>,
}

/// The names of a fabric, for certain parameter values.
#[derive(Debug, Default)]
pub struct DeviceNames {
    pub resources: Vec<Pattern>,
    pub claims: ClaimNames,
}

impl Gpus {
    /// Reads the parts without problems.
    pub(crate) fn read(&mut self, node: &Node, names: &Names) -> Checked<()> {
        let mut fields = Fields::read(node, &keys::GPUS)?;
        self.resources = fields.required("resources", gpu_resources).unwrap_or_default();
        let claims = fields.optional("claims", |node| match &node.content {
            Content::Map(_) => Err(reader::expected(node, "`claims` to be a list")
                .hint("write each name with the GPUs of such a claim, as in `[single-gpu=1]`")
                .into()),
            _ => NameList::read(node, "`claims`", names, gpu_claim),
        });
        self.claims = claims.ok().flatten().unwrap_or_default();
        fields.finish()
    }

    /// Calls `visit` with every interpolation.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.claims.0.iter().for_each(visit);
    }

    pub(crate) fn claims(&self, bindings: &Bindings<'_, '_>) -> Result<ClaimNames, EvaluationError> {
        self.claims.resolve(bindings, gpu_claim).map(ClaimNames::new)
    }
}

fn gpu_resources(node: &Node) -> Checked<Vec<String>> {
    let items = reader::items(node, "`resources`")?;
    if items.is_empty() {
        let message = "`resources` names no resource, so no container has GPUs";
        return Err(Diagnostic::new(node.span, message).hint("write for example `[example.com/gpu]`").into());
    }
    reader::at_most(items.len(), "resources of GPUs", node.span)?;
    let mut known = BTreeSet::new();
    let names: Vec<String> = all(items.iter().map(|item| {
        let name = reader::text(item, "`resources`")?;
        let invalid = |problem| {
            Diagnostic::new(item.span, format!("an entry of `resources` is wrong: {problem}"))
                .hint("write the name of a resource, such as `example.com/gpu`")
        };
        Format::ResourceName.check(name).map_err(invalid)?;
        if !name.contains('/') {
            return Err(invalid(format!("`{name}` is not an extended resource")));
        }
        Ok::<_, Diagnostic>(name.to_owned())
    }))?;
    // The base may name the same resource. Its GPUs count once.
    Ok(names.into_iter().filter(|name| known.insert(name.clone())).collect())
}

impl OwnDevices {
    pub(crate) fn read(node: &Node, names: &Names) -> Checked<Self> {
        let mut fields = Fields::read(node, &keys::OWN)?;
        let kinds: [(_, Parse<Pattern>); 2] = [
            ("resources", resource),
            ("claims", |name| match claim_name(name)? {
                ClaimName { pattern, devices: None | Some(0), .. } => Ok(pattern),
                known => Err(format!(
                    "`{name}` has a number of GPUs, which belongs under `claims` of `gpus`; here, write `{}`",
                    ClaimName { devices: None, ..known }
                )),
            }),
        ];
        let [resources, claims] = kinds.map(|(key, check)| {
            fields.optional(key, |node| NameList::read(node, &format!("`{key}`"), names, check))
        });
        fields.finish()?;
        let own = Self { resources: resources?.unwrap_or_default(), claims: claims?.unwrap_or_default() };
        if [&own.resources, &own.claims].into_iter().all(|list| list.0.is_empty()) {
            return Err(Diagnostic::new(node.span, "`own` names no device")
                .code(MISSING_KEY)
                .hint("give it `resources` or `claims`")
                .into());
        }
        Ok(own)
    }

    /// Calls `visit` with every interpolation.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        [&self.resources, &self.claims].into_iter().flat_map(|list| &list.0).for_each(visit);
    }

    pub(crate) fn resolve(&self, bindings: &Bindings<'_, '_>) -> Result<DeviceNames, EvaluationError> {
        Ok(DeviceNames {
            resources: self.resources.resolve(bindings, resource)?,
            claims: ClaimNames::new(self.claims.resolve(bindings, claim_name)?),
        })
    }
}

impl NameList {
    /// `parse` reads the names that are not expressions.
    fn read<T>(node: &Node, what: &str, names: &Names, parse: Parse<T>) -> Checked<Self> {
        let item = |item: &Node| {
            let name = fixed(item, what, names)?;
            match &name {
                Interpolation::Literal(_) if !matches!(node.content, Content::List(_)) => Err(
                    reader::expected(node, &format!("{what} to be a list, or an expression that yields one")),
                ),
                Interpolation::Literal(text) => match parse(text) {
                    Ok(_) => Ok(name),
                    Err(problem) => {
                        Err(Diagnostic::new(item.span, problem).hint(format!("correct the entry of {what}")))
                    }
                },
                _ => Ok(name),
            }
        };
        all(node.one_or_items().iter().map(item)).map(Self)
    }

    fn resolve<T>(&self, bindings: &Bindings<'_, '_>, parse: Parse<T>) -> Result<Vec<T>, EvaluationError> {
        let mut names = Vec::with_capacity(self.0.len());
        for text in &self.0 {
            let value = text.evaluate(bindings)?;
            let found = match &value {
                Value::Null => &[],
                Value::Array(found) => found.as_slice(),
                one => std::slice::from_ref(one),
            };
            for name in found {
                let Value::String(name) = name else {
                    let message = format!("the result is `{name}`, but a name is needed");
                    return Err(text.of_wrong_type(message, "write a name, or a list of names"));
                };
                names.push(parse(name).map_err(|message| text.failed(message))?);
            }
        }
        Ok(names)
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

/// Begins the class of the devices of a claim.
const CLASS: &str = "class:";

/// The function that parses a name.
type Parse<T> = fn(&str) -> Result<T, String>;

fn pattern(name: &str) -> Result<Pattern, String> {
    if name.is_empty() { Err("a name is empty".to_owned()) } else { Ok(Pattern::new(name)) }
}

/// The name of a resource, in which a `*` matches any text.
fn resource(name: &str) -> Result<Pattern, String> {
    let is_extended =
        name.contains(['/', '*']) && Format::ResourceName.check(&name.replace('*', "x")).is_ok();
    if !is_extended {
        return Err(format!(
            "`{name}` is not the name of a resource, `DOMAIN/NAME`, in which `*` matches any text"
        ));
    }
    pattern(name)
}

/// The name of claims that bring GPUs, with their number.
fn gpu_claim(text: &str) -> Result<ClaimName, String> {
    match claim_name(text)? {
        ClaimName { devices: None, .. } => {
            Err(format!("`{text}` does not say how many GPUs such a claim brings, as `{text}=8` does"))
        }
        name => Ok(name),
    }
}

fn claim_name(text: &str) -> Result<ClaimName, String> {
    let (name, devices) = match text.split_once('=') {
        None => (text, None),
        Some((name, devices)) => {
            let number = devices.parse::<u32>();
            let number = number.map_err(|_| format!("`{devices}` in `{text}` is not a number of devices"))?;
            (name, Some(number.into()))
        }
    };
    let class = name.strip_prefix(CLASS);
    Ok(ClaimName { pattern: pattern(class.unwrap_or(name))?, is_class: class.is_some(), devices })
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_class {
            f.write_str(CLASS)?;
        }
        self.pattern.fmt(f)?;
        self.devices.map_or(Ok(()), |devices| write!(f, "={devices}"))
    }
}

impl ClaimNames {
    /// The names without devices come first, because they take precedence wherever they are written.
    fn new(mut names: Vec<ClaimName>) -> Self {
        names.sort_by_key(|name| name.devices != Some(0));
        Self(names)
    }

    pub fn iter(&self) -> impl Iterator<Item = &ClaimName> {
        self.0.iter()
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bring_devices(&self) -> bool {
        self.0.iter().any(|name| name.devices != Some(0))
    }

    /// The names, without classes, of claims that bring devices.
    pub fn with_devices(&self) -> impl Iterator<Item = &ClaimName> {
        self.0.iter().filter(|name| !name.is_class && name.devices != Some(0))
    }

    /// The devices of a claim by its requests, each with its name; without a name for all of the claim. Those of a
    /// class of the list are counted. Where no policy lists a class of the claim, the first name decides that matches
    /// the claim's name in the pod, or its own or that of its template; without a number, it counts as one device.
    pub fn devices_of<'c>(&self, claim: &'c PodClaim<'_>) -> Vec<(Option<&'c str>, i64)> {
        if let Some(known) = self.deciding_name(claim) {
            return vec![(None, known.devices.unwrap_or(1))];
        }
        let of_request = |request: &'c ClaimRequest| {
            let known = self.of_request(request)?;
            let none = known.devices == Some(0);
            let count = if none { 0 } else { request.count.or(known.devices).unwrap_or(1) };
            Some((Some(request.name.as_str()), count))
        };
        claim.requests.iter().filter_map(of_request).collect()
    }

    /// Returns whether a claim brings devices of the list.
    pub fn has(&self, claim: &PodClaim<'_>) -> bool {
        self.devices_of(claim).iter().any(|(_, devices)| *devices > 0)
    }

    /// The name that decides about a claim of which no class is known.
    pub fn deciding_name(&self, claim: &PodClaim<'_>) -> Option<&ClaimName> {
        if claim.is_known || claim.requests.iter().any(|request| self.of_request(request).is_some()) {
            return None;
        }
        let matches =
            |known: &&ClaimName| known.pattern.matches(claim.name) || known.pattern.matches(claim.target);
        self.0.iter().filter(|known| !known.is_class).find(matches)
    }

    /// Returns whether the list has a class of a request.
    pub fn knows(&self, request: &ClaimRequest) -> bool {
        self.of_request(request).is_some()
    }

    /// The class of a request, if it is one of the list.
    fn of_request(&self, request: &ClaimRequest) -> Option<&ClaimName> {
        let matches = |known: &&ClaimName| request.classes.iter().any(|class| known.pattern.matches(class));
        self.0.iter().filter(|known| known.is_class).find(matches)
    }
}
