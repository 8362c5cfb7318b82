//! What a policy asks for, worked out from its document and the pod alone: which rules apply to which containers, and
//! the values of their overlays.

mod of_nodes;

use serde_json::{Map, Value, json};

use super::adapter::Context;
use super::claims::claim;
use super::generator::author::Phase;
use super::generator::containers::gpus;
use super::generator::expressions::{Names, plain};
use super::generator::fabric::{brings_device, claimed, own_devices, requests_device};
use super::generator::pods;
use super::generator::policies::Policy;
use super::generator::pools::{JOB_ROLE, NETWORKS};
use super::generator::{defaults, extends, items};
use super::places::Place;
use of_nodes::fixed;

/// What a rule asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) rule: String,
    /// Lists and indexes of the containers that the rule selects, each with what the container is to have.
    pub(crate) containers: Vec<(&'static str, usize, Value)>,
    /// What the pod is to have.
    pub(crate) pod: Value,
    /// The rank of the rule's file: lower ones have precedence.
    pub(crate) file: usize,
    /// Whether it replaces what the pod or a rule before it has.
    pub(crate) replaces: bool,
    /// The places that it names, each with its value, or `null` for one that it leaves out.
    pub(crate) claims: Vec<(Place, Value)>,
}

/// What a policy asks for.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    pub(crate) asked: Vec<Asked>,
}

/// Whether the pod is one of the policy's.
pub(crate) fn matches(policy: &Policy, pod: &Value, context: &Context) -> bool {
    let matcher = &policy.document["spec"]["match"];
    let annotations = &pod["metadata"]["annotations"];
    let has = |(key, value): (&String, &Value)| annotations[key] == *value;
    let pairs = |key: &str| matcher[key].as_object().into_iter().flatten();
    let labels = pairs("labels").all(|(key, value)| pod["metadata"]["labels"][key] == *value);
    let any = matcher["anyAnnotation"].is_null() || pairs("anyAnnotation").any(has);
    let except = pairs("exceptAnnotation")
        .any(|(key, value)| has((key, value)) || value == "*" && annotations[key].is_string());
    let namespace = json!(namespace(pod, context));
    let namespaces = matcher["namespaces"].is_null() || items(&matcher["namespaces"]).contains(&namespace);
    let owned_by = |kind: &Value| {
        items(&pod["metadata"]["ownerReferences"]).iter().any(|owner| {
            let group = owner["apiVersion"].as_str().and_then(|version| version.split_once('/'));
            let with_group =
                format!("{}.{}", owner["kind"].as_str().unwrap_or_default(), group.unwrap_or_default().0);
            *kind == owner["kind"] || *kind == with_group
        })
    };
    let kinds = matcher["ownerKinds"].is_null() || items(&matcher["ownerKinds"]).iter().any(owned_by);
    any && !except && labels && namespaces && kinds
}

fn namespace(pod: &Value, context: &Context) -> String {
    let own = || pod["metadata"]["namespace"].as_str().map(str::to_owned);
    context.namespace.clone().or_else(own).unwrap_or_else(|| "default".to_owned())
}

/// What the policy asks for. `after` is the pod as it came out, in which the requests of the finished pod are counted.
pub(crate) fn demand(policy: &Policy, pod: &Value, after: &Value, context: &Context) -> Demand {
    let spec = &policy.document["spec"];
    // Expressions see the pod with the API server's defaults, whether it has been there or not.
    let mut completed = pod.clone();
    defaults::complete(&mut completed);
    // Rules that set it come first.
    if after["spec"]["hostNetwork"] == true {
        completed["spec"]["hostNetwork"] = json!(true);
    }
    let pod = &completed;
    let resources: Vec<String> =
        items(&spec["gpus"]["resources"]).iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    let all = pods::containers(pod).map(|(_, _, container)| container);
    let by_claim = all.filter(|container| gpus(container, &resources) == 0);
    let total = scheduled(pod, |container| gpus(container, &resources)) + claimed(spec, pod, by_claim);
    let mut fixed = Names::new(fixed(policy, pod, total));
    policy.add_variables(Phase::Fixed, &mut fixed);
    let spec = &policy.on_nodes(&fixed);
    let gpus = |container: &Value| match gpus(container, &resources) {
        0 => claimed(spec, pod, [container]),
        of_plugin => of_plugin,
    };
    let mut of_pod = Names::within(
        &fixed,
        vec![
            ("pod".to_owned(), pod.clone()),
            ("podNamespace".to_owned(), namespace(pod, context).into()),
            ("hostNetwork".to_owned(), (pod["spec"]["hostNetwork"] == true).into()),
            ("totalGpus".to_owned(), total.into()),
            ("ownDevices".to_owned(), own_devices(spec, pod).into()),
        ],
    );
    policy.add_variables(Phase::Pod, &mut of_pod);
    let mut finished = Names::within(&of_pod, vec![("podRequests".to_owned(), requests(after))]);
    policy.add_variables(Phase::Final, &mut finished);

    let launcher = total == 0 && pod["metadata"]["labels"][JOB_ROLE] == "launcher";
    let entries: Vec<Value> = if own_devices(spec, pod) {
        Vec::new()
    } else {
        let on_host = pod["spec"]["hostNetwork"] == true;
        let may_apply = |entry: &&Value| !on_host || entry["networks"].is_null() && entry["claims"].is_null();
        items(&spec["devices"]["add"]).iter().filter(may_apply).map(|entry| as_rule(entry, after)).collect()
    };
    let mut demand = Demand::default();
    for rule in entries.iter().chain(items(&spec["rules"])) {
        let name = rule["name"].as_str().unwrap_or_default().to_owned();
        if rule["when"].as_str().is_some_and(|when| policy.evaluate(when, &of_pod) != true) {
            continue;
        }
        if extends::is_left_out(&policy.document, &rule["name"]) {
            continue;
        }
        let (mut containers, mut claims) = (Vec::new(), Vec::new());
        for (list, at, container) in pods::containers(pod) {
            let mut names = Names::within(
                &of_pod,
                vec![
                    ("gpus".to_owned(), gpus(container).into()),
                    ("container".to_owned(), container.clone()),
                ],
            );
            let has_device = requests_device(container, &[])
                || items(&container["resources"]["claims"]).iter().any(|used| {
                    let claims = items(&pod["spec"]["resourceClaims"]);
                    claims.iter().any(|claim| claim["name"] == used["name"] && brings_device(claim))
                })
                || gpus(container) > 0 && entries.iter().any(|entry| policy.gives(entry, &of_pod, &names));
            names.push("hasDevice", has_device.into());
            policy.add_variables(Phase::Container, &mut names);
            let selects = match rule["containers"].as_str() {
                Some(condition) => policy.evaluate(condition, &names) == true,
                None => gpus(container) > 0 || launcher && is_for_ranks(rule),
            };
            if selects {
                let mut wanted = policy.build(&rule["container"], &names).unwrap_or_default();
                let mut place = vec!["spec".to_owned(), list.to_owned(), plain(&container["name"])];
                if let Some(overlay) = rule.get("container") {
                    claim(overlay, &|text| policy.evaluate(text, &names), &mut place, &mut claims);
                }
                leave_out_empty(&mut wanted);
                containers.push((list, at, wanted));
            }
        }
        if containers.is_empty() {
            continue;
        }
        let mut pod = policy.build(&rule["pod"], &finished).unwrap_or_default();
        edit_lists(&mut pod);
        for list in ["containers", "initContainers"] {
            let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(leave_out_empty);
        }
        // It is left out whole for a pod that cannot be in the network of the host.
        if pod["spec"]["hostNetwork"] == true && after["spec"]["hostNetwork"] != true {
            continue;
        }
        if let Some(overlay) = rule.get("pod") {
            claim(overlay, &|text| policy.evaluate(text, &finished), &mut Vec::new(), &mut claims);
        }
        let (file, replaces) = (extends::rank(&policy.document, rule), rule["onConflict"] == "replace");
        demand.asked.push(Asked { rule: name, containers, pod, file, replaces, claims });
    }
    demand
}

/// Whether a rule without `containers` is for the launcher of an MPIJob as well: one that sets variables alone.
fn is_for_ranks(rule: &Value) -> bool {
    let fields = rule["container"].as_object();
    fields.is_some_and(|fields| fields.contains_key("env") && fields.len() == 1)
}

/// Makes edits of the lists in annotations, whose keys say what they are.
fn edit_lists(pod: &mut Value) {
    let annotations = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        for (key, value) in std::mem::take(annotations) {
            let (key, value) = match key.strip_suffix(']').and_then(|key| key.split_once('[')) {
                Some((key, field)) => (key.to_owned(), json!({"$append": value, "$key": field})),
                None if key == NETWORKS && !value.is_object() => (key, json!({"$append": value})),
                None => (key, value),
            };
            annotations.insert(key, value);
        }
    }
}

/// An empty text leaves a variable out, and an empty entry of a list its edit.
fn leave_out_empty(container: &mut Value) {
    let is_empty =
        |value: &Value| [value, &value["$append"], &value["$prepend"]].iter().any(|text| *text == "");
    if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
        env.retain(|entry| !is_empty(&entry["value"]));
    }
}

/// An entry of `devices.add` as the rule that would do the same.
fn as_rule(entry: &Value, after: &Value) -> Value {
    let mut rule = json!({"name": entry["name"], "when": entry["when"]});
    if !entry["resources"].is_null() {
        rule["container"]["resources"] =
            json!({"limits": entry["resources"], "requests": entry["resources"]});
    }
    let requests = requests(after);
    let requested = entry["resources"].as_object().into_iter().flatten();
    let requested: Vec<i64> = requested.map(|(name, _)| requests[name].as_i64().unwrap_or(0)).collect();
    let sum: i64 = requested.iter().sum();
    match &entry["networks"] {
        Value::Null => {}
        Value::String(name) => {
            let count = if requested.is_empty() { 1 } else { sum };
            rule["pod"]["metadata"]["annotations"][NETWORKS] = json!({"$append": name, "$count": count});
        }
        names => {
            // The n-th network goes with the n-th resource, or with the n-th device of a single one.
            let has_device = |at: usize| match requested.len() {
                0 => true,
                1 => i64::try_from(at).is_ok_and(|at| at < sum),
                _ => requested.get(at).is_some_and(|count| *count > 0),
            };
            let attached = items(names).iter().enumerate().filter(|(at, _)| has_device(*at));
            let attached: Vec<&Value> = attached.map(|(_, name)| name).collect();
            if !attached.is_empty() {
                rule["pod"]["metadata"]["annotations"][NETWORKS] = json!({"$append": attached});
            }
        }
    }
    for (name, template) in entry["claims"].as_object().into_iter().flatten() {
        rule["container"]["resources"]["claims"] = json!([{"name": name}]);
        rule["pod"]["spec"]["resourceClaims"] =
            json!([{"name": name, "resourceClaimTemplateName": template}]);
    }
    rule
}

/// What the scheduler counts for a pod: containers and sidecars together, or more if an init container needs more.
fn scheduled(pod: &Value, amount: impl Fn(&Value) -> i64) -> i64 {
    let (mut sidecars, mut peak) = (0, 0);
    for container in items(&pod["spec"]["initContainers"]) {
        if container["restartPolicy"] == "Always" {
            sidecars += amount(container);
        } else {
            peak = peak.max(sidecars + amount(container));
        }
    }
    peak.max(sidecars + items(&pod["spec"]["containers"]).iter().map(amount).sum::<i64>())
}

/// What the pod requests of each resource of a vendor.
fn requests(pod: &Value) -> Value {
    let mut names: Vec<String> = Vec::new();
    for (_, _, container) in pods::containers(pod) {
        for list in ["limits", "requests"] {
            let keys = container["resources"][list].as_object().into_iter().flat_map(Map::keys);
            names.extend(keys.filter(|key| key.contains('/')).cloned());
        }
    }
    let total = |name: String| {
        let count = scheduled(pod, |container| gpus(container, std::slice::from_ref(&name)));
        (name, json!(count))
    };
    names.into_iter().map(total).collect::<Map<_, _>>().into()
}

impl Policy {
    /// Whether an entry of `devices.add` gives a container with GPUs a device.
    fn gives(&self, entry: &Value, of_pod: &Names<'_>, names: &Names<'_>) -> bool {
        let holds = entry["when"].as_str().is_none_or(|when| self.evaluate(when, of_pod) == true);
        let amounts = entry["container"]["resources"]["limits"].as_object();
        let given = |amount: &Value| {
            let value = amount.as_str().map_or_else(|| amount.clone(), |text| self.evaluate(text, names));
            !value.is_null() && value != json!(0) && value != json!("0")
        };
        holds && amounts.is_none_or(|amounts| amounts.values().any(given))
    }

    /// The policy without the entries of `devices.add` that no pod on these nodes gets: the names in them are not the
    /// policy's there.
    fn on_nodes(&self, fixed: &Names<'_>) -> Value {
        let mut spec = self.document["spec"].clone();
        if let Some(entries) = spec.pointer_mut("/devices/add").and_then(Value::as_array_mut) {
            entries.retain(|entry| {
                let when = entry["when"].as_str();
                when.is_none_or(|when| !self.is_fixed(when) || self.evaluate(when, fixed) == true)
            });
        }
        spec
    }

    /// Whether an expression reads nothing of the pod, as far as its words tell.
    fn is_fixed(&self, text: &str) -> bool {
        const OF_POD: [&str; 6] =
            ["pod", "podNamespace", "hostNetwork", "totalGpus", "ownDevices", "claimNames"];
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.all(|word| {
            !OF_POD.contains(&word) && self.phases.get(word).is_none_or(|phase| *phase == Phase::Fixed)
        })
    }

    fn add_variables(&self, phase: Phase, names: &mut Names<'_>) {
        let variables = self.document["spec"]["variables"].as_object();
        for (name, text) in variables.into_iter().flatten() {
            // Nothing else has its name: it has a value from a row.
            let is_set = !names.get(name).is_null();
            if let Some(text) = text.as_str().filter(|_| !is_set && self.phases.get(name) == Some(&phase)) {
                let value = self.evaluate(text, names);
                names.push(name, value);
            }
        }
    }

    /// The value of a text: of the expression in it, or the text with the values of its expressions in it.
    fn evaluate(&self, text: &str, names: &Names<'_>) -> Value {
        let mut pieces: Vec<(bool, String)> = Vec::new();
        let mut rest = text;
        let mut literal = String::new();
        while let Some(at) = rest.find("${") {
            literal.push_str(&rest[..at]);
            if literal.ends_with('$') {
                literal.push('{');
                rest = &rest[at + 2..];
                continue;
            }
            let source = self.expressions.keys().filter(|source| {
                rest[at + 2..].strip_prefix(source.as_str()).is_some_and(|rest| rest.starts_with('}'))
            });
            let source = source.max_by_key(|source| source.len()).unwrap_or_else(|| panic!("{text}"));
            pieces.push((false, std::mem::take(&mut literal)));
            pieces.push((true, source.clone()));
            rest = &rest[at + 3 + source.len()..];
        }
        literal.push_str(rest);
        pieces.push((false, literal));
        pieces.retain(|(expression, text)| *expression || !text.is_empty());
        let value = |source: &String| self.expressions[source].value(names);
        if let [(true, source)] = pieces.as_slice() {
            return value(source);
        }
        let mut out = String::new();
        for (expression, text) in &pieces {
            match expression.then(|| value(text)) {
                Some(Value::Null) => return Value::Null,
                Some(value) => out.push_str(&plain(&value)),
                None => out.push_str(text),
            }
        }
        out.into()
    }

    /// The value of an overlay; `None` if it is left out.
    fn build(&self, overlay: &Value, names: &Names<'_>) -> Option<Value> {
        match overlay {
            Value::Null => None,
            Value::String(text) => Some(self.evaluate(text, names)).filter(|value| !value.is_null()),
            Value::Object(map) => {
                let mut built = Map::new();
                for (key, value) in map {
                    let key = self.evaluate(key, names);
                    if let (false, Some(value)) = (key.is_null(), self.build(value, names)) {
                        built.insert(plain(&key), value);
                    }
                }
                let edits = map.keys().any(|key| key.starts_with('$') && !key.starts_with("${"));
                let lost = if edits { built.len() < map.len() } else { built.is_empty() && !map.is_empty() };
                (!lost).then(|| built.into())
            }
            Value::Array(list) => {
                let built: Vec<Value> =
                    list.iter().filter_map(|item| self.build_entry(item, names)).collect();
                (!built.is_empty() || list.is_empty()).then(|| built.into())
            }
            other => Some(other.clone()),
        }
    }

    /// The value of an entry of a list: left out as soon as one of its own fields is.
    fn build_entry(&self, entry: &Value, names: &Names<'_>) -> Option<Value> {
        let built = self.build(entry, names)?;
        let whole = match (entry, &built) {
            (Value::Object(entry), Value::Object(built)) => entry.len() == built.len(),
            _ => true,
        };
        whole.then_some(built)
    }
}
