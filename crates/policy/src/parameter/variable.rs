//! Variables: named values, computed or constant.

use serde_json::{Map, Value};

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Node};

use crate::expression::{Bindings, Expression};
use crate::interpolation::{EvaluationError, Interpolation, Names, Phase};
use crate::parameter::Parameter;
use crate::source::{Checked, Diagnostic, all, reader};

/// A variable of a policy.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    /// The value where no row of `machines` gives one.
    pub value: VariableValue,
    pub phase: Phase,
    /// Its rows.
    pub column: Option<Box<Parameter>>,
}

/// The value of a variable. A map or a list is a table, which expressions look up.
#[derive(Debug, Clone)]
pub enum VariableValue {
    Text(Interpolation),
    /// A number, a boolean or `null`.
    Scalar(Value),
    List(Vec<VariableValue>),
    Map(Vec<(String, VariableValue)>),
}

/// Former keys of a variable. A table cannot have them, so an old policy does not load with another meaning.
pub const OLD_KEYS: [&str; 2] = ["byNode", "fromNodes"];

impl Variable {
    /// Reads a variable. Its phase follows from those of the variables that it reads.
    pub(crate) fn read(name: &str, node: &Node, names: &Names) -> Checked<Self> {
        if let Content::Map(entries) = &node.content
            && let Some(old) = entries.iter().find(|entry| OLD_KEYS.contains(&entry.key.as_str()))
        {
            return Err(reader::unknown("a variable", old).into());
        }
        let value = VariableValue::read(node, names)?;
        Ok(Self { name: name.to_owned(), value, phase: Phase::Fixed, column: None })
    }

    /// Determines when the value is known. The phases of all names that it reads are already known.
    pub(crate) fn find_phase(&mut self, names: &Names) -> Result<(), Diagnostic> {
        one_phase(&self.value, names)?;
        self.phase = self.value.phase(names);
        Ok(())
    }
}

impl VariableValue {
    fn read(node: &Node, names: &Names) -> Checked<Self> {
        Ok(match &node.content {
            Content::Scalar { value: Scalar::String(_), .. } => {
                Self::Text(Interpolation::compile(&reader::located(node, "a variable")?, names, None)?)
            }
            Content::Scalar { .. } => {
                reader::unambiguous(node)?;
                Self::Scalar(node.to_value())
            }
            Content::List(items) => Self::List(all(items.iter().map(|item| Self::read(item, names)))?),
            Content::Map(_) => {
                let entries = reader::entries(node, "a variable")?.iter();
                let entry = |entry: &fabric_yaml::Entry<Node>| {
                    Self::read(&entry.value, names).map(|value| (entry.key.clone(), value))
                };
                Self::Map(all(entries.map(entry))?)
            }
        })
    }

    /// Calls `visit` with every interpolation.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        match self {
            Self::Text(text) => visit(text),
            Self::Scalar(_) => {}
            Self::List(items) => items.iter().for_each(|item| item.texts(visit)),
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.texts(visit)),
        }
    }

    /// Calls `visit` with every name that its expressions read.
    pub fn names(&self, visit: &mut dyn FnMut(&str)) {
        self.texts(&mut |text| {
            text.expressions().flat_map(Expression::names).for_each(|name| visit(name));
        });
    }

    fn phase(&self, names: &Names) -> Phase {
        let mut phase = Phase::Fixed;
        self.texts(&mut |text| phase = phase.max(text.phase(names)));
        phase
    }

    pub fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Result<Value, EvaluationError> {
        match self {
            Self::Text(text) => text.evaluate(bindings),
            Self::Scalar(value) => Ok(value.clone()),
            Self::List(items) => {
                items.iter().map(|item| item.evaluate(bindings)).collect::<Result<_, _>>().map(Value::Array)
            }
            Self::Map(entries) => {
                let entry = |(key, value): &(String, Self)| Ok((key.clone(), value.evaluate(bindings)?));
                entries.iter().map(entry).collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
        }
    }
}

/// A variable belongs to a container or to the pod after injection, but not to both.
fn one_phase(value: &VariableValue, names: &Names) -> Result<(), Diagnostic> {
    let (mut container, mut injected) = (None, None);
    value.texts(&mut |text| {
        for (expression, name) in
            text.expressions().flat_map(|one| one.names().iter().map(move |name| (one, name)))
        {
            let found = match names.get(name) {
                Some(Phase::Container) => &mut container,
                Some(Phase::Injected) => &mut injected,
                _ => continue,
            };
            found.get_or_insert_with(|| (name.clone(), expression.span_of_name(name)));
        }
    });
    let (Some((container, span)), Some((injected, _))) = (container, injected) else { return Ok(()) };
    let message = format!(
        "`{container}` is known only {}, and `{injected}` only {}",
        Phase::Container.describe(),
        Phase::Injected.describe()
    );
    Err(Diagnostic::new(span, message).hint("docs/policy.md says where each name can be used"))
}
