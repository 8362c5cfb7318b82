//! The names that GPUs and the devices of a fabric go by: `gpus` and `devices` of a policy.

use std::collections::BTreeSet;

use serde_json::Value;

use fabric_yaml::quantity::Quantity;
use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Entry, Node, Span, Text};

use crate::claims::{ClaimRequest, DeviceClass};
use crate::expression::Bindings;
use crate::interpolation::{Evaluated, Interpolation, Names, Phase, text_of};
use crate::keys;
use crate::matcher::Pattern;
use crate::objects::PodClaim;
use crate::schema::Format;
use crate::source::reader::{self, Fields};
use crate::source::{Checked, Diagnostic, MISSING_KEY, Reported, TOO_EARLY, all};

/// `gpus`: the resources that count as GPUs, and the claims that bring GPUs.
#[derive(Debug, Clone, Default)]
pub struct Gpus {
    pub resources: Vec<String>,
    pub(crate) claims: ClaimList,
}

/// `resources` and `claims` of `devices`: the names that devices of the policy's fabric go by.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceList {
    /// Names, or expressions over parameters only, each of which yields a name or a list of names.
    resources: Vec<Interpolation>,
    claims: ClaimList,
}

/// Names of claims, each with its number of devices; both as expressions over parameters only.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClaimList(Vec<(Interpolation, Interpolation)>);

/// Claims by name, for certain parameter values.
#[derive(Debug, Default)]
pub struct ClaimNames(Vec<ClaimName>);

/// A name of claims, such as `single-gpu`, or a class of devices, such as `class:gpu.example.com`.
#[derive(Debug, Clone)]
pub struct ClaimName {
    pub pattern: Pattern,
    /// True for a class.
    is_class: bool,
    /// The devices of such a claim; for a class, those of a request for all devices of a node.
    pub(crate) devices: i64,
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
        let resources = fields.optional("resources", gpu_resources);
        let claims = fields.optional("claims", |node| ClaimList::read(node, names));
        let is_misspelt = ["resources", "claims"].iter().any(|key| fields.misspells(key));
        if matches!((&resources, &claims), (Ok(None), Ok(None))) && !is_misspelt {
            let missing = Diagnostic::error(MISSING_KEY, node.span, "`gpus` names no GPU");
            let _ = fields.take(Err::<(), _>(missing.hint("give it names under `resources` or `claims`")));
        }
        self.resources = resources.ok().flatten().unwrap_or_default();
        self.claims = claims.ok().flatten().unwrap_or_default();
        fields.finish()
    }

    /// Returns whether a name that is written without an expression counts claims of this name as GPUs.
    pub(crate) fn has_claim(&self, claim: &str) -> bool {
        let matching = self.claims.0.iter().filter_map(|(name, devices)| match name {
            Interpolation::Literal(name) if Pattern::new(name).matches(claim) => Some(devices),
            _ => None,
        });
        let is_none =
            |devices: &Interpolation| matches!(devices, Interpolation::Literal(number) if &**number == "0");
        let mut matching = matching.peekable();
        matching.peek().is_some() && !matching.any(is_none)
    }
}

fn gpu_resources(node: &Node) -> Checked<Vec<String>> {
    let items = reader::items(node, "`resources`")?;
    if items.is_empty() {
        let hint = "write for example `[example.com/gpu]`, or leave the key out next to `claims`";
        return Err(Diagnostic::new(node.span, "`resources` names no resource").hint(hint).into());
    }
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

impl DeviceList {
    /// Reads the names among the fields of `devices`, which may have none.
    pub(crate) fn read(fields: &mut Fields<'_>, span: Span, names: &Names) -> Result<Option<Self>, Reported> {
        let resources = fields.optional("resources", |node| resources(node, names));
        let claims = fields.optional("claims", |node| ClaimList::read(node, names));
        let (resources, claims) = (resources?, claims?);
        if resources.is_none() && claims.is_none() {
            return Ok(None);
        }
        let own = Self { resources: resources.unwrap_or_default(), claims: claims.unwrap_or_default() };
        if own.resources.is_empty() && own.claims.0.is_empty() {
            let none = Diagnostic::error(MISSING_KEY, span, "`devices` names no device");
            fields.take(Err::<(), _>(none.hint("give it names under `resources` or `claims`")))?;
        }
        Ok(Some(own))
    }

    /// Calls `visit` with every interpolation.
    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.resources.iter().for_each(&mut *visit);
        self.claims.texts(visit);
    }

    pub(crate) fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Evaluated<DeviceNames> {
        let mut resources = Vec::with_capacity(self.resources.len());
        for text in &self.resources {
            for name in names_of(text, bindings)? {
                resources.push(resource(&name).map_err(|message| text.failed(message))?);
            }
        }
        Ok(DeviceNames { resources, claims: self.claims.evaluate(bindings)? })
    }
}

fn resources(node: &Node, names: &Names) -> Checked<Vec<Interpolation>> {
    let item = |item: &Node| {
        let name = fixed(&reader::located(item, "`resources`")?, names)?;
        if let Interpolation::Literal(text) = &name {
            if !matches!(node.content, Content::List(_)) {
                let wanted = "`resources` to be a list, or an expression that yields one";
                return Err(reader::expected(node, wanted));
            }
            let hint = "correct the entry of `resources`";
            resource(text).map_err(|problem| Diagnostic::new(item.span, problem).hint(hint))?;
        }
        Ok(name)
    };
    reader::check_count(node.one_or_items().len(), reader::MOST, "`resources`", node.span)?;
    all(node.one_or_items().iter().map(item))
}

impl ClaimList {
    fn read(node: &Node, names: &Names) -> Checked<Self> {
        let hint = "write each name with its number of devices, as in `{single-gpu: 1, \"*channel*\": 0}`";
        let entries = reader::map(node, "`claims`").map_err(|error| error.hint(hint))?;
        reader::check_count(entries.len(), reader::MOST, "`claims`", node.span)?;
        let wrong = |span, problem| {
            let hint = "write a name and its number, as in `single-gpu: 1`, or `class:gpu.nvidia.com: 1` for a class";
            Diagnostic::new(span, problem).hint(hint)
        };
        let entry = |entry: &Entry<Node>| {
            let name = fixed(&Text::on_line(&entry.key, entry.span), names)?;
            let devices = match &entry.value.content {
                Content::Scalar { value: Scalar::Number(number), .. } => {
                    Interpolation::Literal(number.to_string())
                }
                _ => fixed(&reader::located(&entry.value, "a number of devices")?, names)?,
            };
            if let Interpolation::Literal(text) = &name {
                claim_name(text, 0).map_err(|problem| wrong(entry.span, problem))?;
            }
            if let Interpolation::Literal(number) = &devices {
                count(&Value::from(&**number)).map_err(|problem| wrong(entry.value.span, problem))?;
            }
            Ok::<_, Diagnostic>((name, devices))
        };
        all(entries.iter().map(entry)).map(Self)
    }

    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.0.iter().flat_map(|(name, devices)| [name, devices]).for_each(visit);
    }

    /// Names without devices come first, because they take precedence wherever they are written.
    pub(crate) fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Evaluated<ClaimNames> {
        let mut found = Vec::with_capacity(self.0.len());
        for (text, devices) in &self.0 {
            let number = devices.evaluate(bindings)?;
            let number = count(&number).map_err(|message| devices.failed(message))?;
            for name in names_of(text, bindings)? {
                let claim = claim_name(&name, number);
                let hint = "correct the name where the expression takes it from, such as a parameter";
                found.push(claim.map_err(|message| text.of_wrong_type(message, hint))?);
            }
        }
        found.sort_by_key(|name| name.devices != 0);
        Ok(ClaimNames(found))
    }
}

/// The name that a text yields, or the names of a list.
fn names_of(text: &Interpolation, bindings: &Bindings<'_, '_>) -> Evaluated<Vec<String>> {
    let names = match text.evaluate(bindings)? {
        Value::Null => Vec::new(),
        Value::Array(names) => names,
        one => vec![one],
    };
    let name = |name| match name {
        Value::String(name) => Ok(name),
        other => {
            let message = format!("the result is `{other}`, but a name is needed");
            Err(text.of_wrong_type(message, "write a name, or a list of names"))
        }
    };
    names.into_iter().map(name).collect()
}

/// A number of devices.
fn count(value: &Value) -> Result<i64, String> {
    let number = Quantity::from_value(value).and_then(Quantity::as_count);
    number.ok_or_else(|| format!("a claim cannot have `{}` devices", text_of(value)))
}

/// A string with expressions over parameters only.
fn fixed(text: &Text<'_>, names: &Names) -> Result<Interpolation, Diagnostic> {
    let compiled = Interpolation::compile(&text.trim(), names, None)?;
    if compiled.phase(names) == Phase::Fixed {
        return Ok(compiled);
    }
    Err(Diagnostic::error(TOO_EARLY, text.span, format!("`{}` depends on the pod", compiled.source()))
        .hint("the names of devices are the same for every pod: read parameters only"))
}

/// Begins the class of the devices of a claim.
const CLASS: &str = "class:";

/// The name of a resource, in which a `*` matches any text.
fn resource(name: &str) -> Result<Pattern, String> {
    let is_extended =
        name.contains(['/', '*']) && Format::ResourceName.check(&name.replace('*', "x")).is_ok();
    if !is_extended {
        return Err(format!(
            "`{name}` is not the name of a resource, `DOMAIN/NAME`, in which `*` matches any text"
        ));
    }
    Ok(Pattern::new(name))
}

fn claim_name(text: &str, devices: i64) -> Result<ClaimName, String> {
    let class = text.strip_prefix(CLASS);
    let name = class.unwrap_or(text);
    if name.is_empty() || name.contains('=') {
        return Err(format!(
            "`{text}` is not the name of a claim; its number is a value of its own, as in `single-gpu: 1`"
        ));
    }
    if let Err(problem) = Format::DnsSubdomain.check(&name.replace('*', "x")) {
        return Err(format!("`{text}` is not the name of a claim or of a class: {problem}"));
    }
    Ok(ClaimName { pattern: Pattern::new(name), is_class: class.is_some(), devices })
}

impl ClaimNames {
    /// The number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bring_devices(&self) -> bool {
        self.0.iter().any(|name| name.devices != 0)
    }

    /// The names, without classes, of claims that bring devices.
    pub fn with_devices(&self) -> impl Iterator<Item = &ClaimName> {
        self.0.iter().filter(|name| !name.is_class && name.devices != 0)
    }

    /// The devices of a claim by its requests, each with its name; without a name for all of the claim. Those of a
    /// class of the list are counted. Where no policy lists a class of the claim, the first name decides that matches
    /// the claim's name in the pod, or its own or that of its template.
    pub fn devices_of<'c>(&self, claim: &'c PodClaim<'_>) -> Vec<(Option<&'c str>, i64)> {
        if let Some(known) = self.deciding_name(claim) {
            return vec![(None, known.devices)];
        }
        let of_request = |request: &'c ClaimRequest| {
            let known = self.of_request(request)?;
            let count = if known.devices == 0 { 0 } else { request.count.unwrap_or(known.devices) };
            Some((Some(request.name.as_str()), count))
        };
        claim.requests.iter().filter_map(of_request).collect()
    }

    /// Returns whether a claim brings devices of the list.
    pub fn has(&self, claim: &PodClaim<'_>) -> bool {
        self.devices_of(claim).iter().any(|(_, devices)| *devices > 0)
    }

    /// Returns whether devices of a class are those of the list.
    pub fn have_class(&self, class: &DeviceClass) -> bool {
        self.of_request(&class.request()).is_some_and(|known| known.devices > 0)
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

    /// The class of a request, if it is one of the list.
    pub fn of_request(&self, request: &ClaimRequest) -> Option<&ClaimName> {
        let matches = |known: &&ClaimName| request.classes.iter().any(|class| known.pattern.matches(class));
        self.0.iter().filter(|known| known.is_class).find(matches)
    }
}
