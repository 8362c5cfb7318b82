//! The rules of a policy, and the fields that they add: as written in the policy, and with its parameters.

use serde::Serialize;
use serde_json::Value;

use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::{EvaluationError, Interpolation};
use fabric_policy::overlay::{Entry, Evaluation, PodOverlay, Target, Tree, Write, writes};
use fabric_policy::schema::{self, Object, Shape};
use fabric_policy::{OnConflict, Policy, Rule};

use super::constants::constants;
use crate::explain::columns::{one_line, shown};
use crate::explain::lines::{FileLine, in_file};

/// A rule, with the fields that it adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleFact {
    pub name: String,
    pub place: Option<FileLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The value of `when` if it is the same for every pod with these parameters.
    pub applies: Option<bool>,
    /// The condition for each container.
    pub containers: String,
    pub on_conflict: &'static str,
    /// The fields of each selected container.
    pub container: Vec<AdditionFact>,
    /// The fields of the pod.
    pub pod: Vec<AdditionFact>,
}

/// A field that a rule adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdditionFact {
    /// The path from the container or the pod.
    pub path: String,
    /// The value as written in the policy.
    pub value: Value,
    /// The value with these parameters, if it is the same for every pod; `null` if the field is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constant: Option<Value>,
}

/// The rules of a policy with the values of its parameters.
pub(super) fn rules(policy: &Policy) -> Vec<RuleFact> {
    let constants = constants(policy);
    let additions = |add: &dyn Fn(&mut Additions<'_, '_, '_>)| {
        let mut additions = Additions { constants: &constants, found: Vec::new() };
        add(&mut additions);
        additions.found
    };
    let fact = |rule: &Rule| RuleFact {
        name: rule.name.clone(),
        place: Some(in_file(policy.definition(), rule.span)),
        when: rule.when.as_ref().map(Interpolation::on_one_line),
        applies: rule.when.as_ref().map_or(Some(true), |when| when.is_true(&constants).ok()),
        containers: rule.containers.condition().map(Interpolation::on_one_line).unwrap_or_default(),
        on_conflict: match rule.on_conflict {
            OnConflict::Keep => "keep",
            OnConflict::Replace => "replace",
            OnConflict::Refuse => "refuse",
        },
        container: additions(&|additions| additions.object("", &rule.container, schema::container())),
        pod: additions(&|additions| additions.pod(&rule.pod)),
    };
    policy.definition().rules.iter().map(fact).collect()
}

/// A value as written in the policy, and the value for every pod, if it is the same.
type Built = (Value, Option<Value>);

/// The fields that an overlay adds.
struct Additions<'a, 'p, 'v> {
    constants: &'a Bindings<'p, 'v>,
    found: Vec<AdditionFact>,
}

impl Additions<'_, '_, '_> {
    fn pod(&mut self, overlay: &PodOverlay) {
        self.object("", &overlay.claims, schema::pod());
        for container in &overlay.containers {
            let name = self.evaluation().value(&container.name, &Shape::Opaque);
            let (name, constant) = built(&container.name, name);
            let at = format!("spec.{}[{}]", container.list, shown(&constant.unwrap_or(name)));
            self.object(&at, &container.fields, schema::container());
        }
        for volume in &overlay.volumes {
            let built = built(volume, self.evaluation().volume(volume));
            self.named("spec.volumes", &["name"], built, "");
        }
        self.object("", &overlay.fields, schema::pod());
    }

    fn object(&mut self, at: &str, tree: &Tree, object: &'static Object) {
        for write in writes(tree, object) {
            self.write(at, &write);
        }
    }

    fn write(&mut self, at: &str, write: &Write<'_>) {
        let start = [at].into_iter().filter(|at| !at.is_empty());
        let path = start.chain(write.path.iter().copied()).collect::<Vec<_>>().join(".");
        let evaluated = self.evaluation().write(write);
        if write.is_computed()
            && let Ok(Some(tree)) = &evaluated
        {
            // The fields that the value of an expression has.
            return write.writes_of(tree).iter().for_each(|write| self.write(at, write));
        }
        let built = built(write.value, evaluated);
        match write.target {
            Target::Whole => self.push(path, built),
            Target::Entry(entry) => {
                let built = if write.is_edit() { added_by(built) } else { built };
                self.push(format!("{path}[{}]", self.key(entry)), built);
            }
            Target::Item(keys) if write.is_edit() => self.named(&path, keys, built, ".value"),
            Target::Item(keys) => self.named(&path, keys, built, ""),
        }
    }

    /// Adds an entry of a list that is identified by some of its fields, or by its value.
    fn named(&mut self, at: &str, keys: &[&str], built: Built, field: &str) {
        let entry = built.1.as_ref().filter(|value| !value.is_null()).unwrap_or(&built.0);
        let names = keys.iter().map(|key| &entry[*key]).filter(|name| !name.is_null());
        let path = match keys {
            [] => format!("{at}[{}]", entry.as_str().unwrap_or("…")),
            _ => format!("{at}[{}]{field}", names.map(shown).collect::<Vec<_>>().join("/")),
        };
        if field.is_empty() {
            return self.push(path, built);
        }
        let written = |variable: &Value| {
            let (side, added) = variable["value"].as_object()?.iter().next()?;
            let (added, own) = (added.as_str()?, format!("$({})", shown(&variable["name"])));
            Some(Value::from(if side == "$prepend" {
                format!("{added}:{own}")
            } else {
                format!("{own}:{added}")
            }))
        };
        let constant = built.1.map(|variable| written(&variable).unwrap_or_default());
        self.push(path, (written(&built.0).unwrap_or_default(), constant));
    }

    fn key(&self, entry: &Entry) -> String {
        let text = entry.text().and_then(|text| text.evaluate(self.constants).ok()).filter(Value::is_string);
        shown(&text.unwrap_or_else(|| one_line(&entry.source()).into()))
    }

    fn evaluation(&self) -> Evaluation<'_, '_, '_> {
        Evaluation::new(self.constants, false)
    }

    fn push(&mut self, path: String, (value, constant): Built) {
        self.found.push(AdditionFact { path, value, constant });
    }
}

/// The networks or objects that an edit of an annotation adds.
fn added_by((mut edit, constant): Built) -> Built {
    if let Value::Object(edit) = &mut edit {
        edit.retain(|key, _| key == "$append");
        if let Some(Value::Array(names)) = edit.get_mut("$append")
            && let [Value::String(_)] = names.as_slice()
        {
            edit["$append"] = names.remove(0);
        }
    }
    let constant = constant.map(|edit| match &edit["$append"] {
        Value::Array(entries) if entries.is_empty() => Value::Null,
        Value::String(name) => Value::Array(vec![name.as_str().into()]),
        entries => entries.clone(),
    });
    (edit, constant)
}

/// A tree as written in the policy, and its value for every pod.
fn built(tree: &Tree, evaluated: Result<Option<Tree>, EvaluationError>) -> Built {
    let constant = evaluated.ok().map(|tree| tree.and_then(Tree::into_value).unwrap_or_default());
    (tree.written(&one_line), constant)
}
