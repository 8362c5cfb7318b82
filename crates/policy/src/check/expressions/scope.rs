//! The types of the names that the expressions of a policy read.

use std::collections::BTreeMap;

use crate::definition::{Definition, VALUE};
use crate::expression::types::{Kind, Member, Texts, Type};
use crate::interpolation::{BUILT_IN, Interpolation};
use crate::parameter::{Parameter, ParameterType, Table, VariableValue};

/// The types of names.
pub(crate) struct Scope(BTreeMap<String, Type>);

impl Scope {
    pub(crate) fn new(definition: &Definition) -> Self {
        let built_in =
            BUILT_IN.iter().map(|known| (known.name.to_owned(), (known.of)(&definition.gpus.resources)));
        let mut scope = Self(built_in.collect());
        for parameter in &definition.parameters {
            scope.0.insert(parameter.name.clone(), of_parameter(parameter));
        }
        for variable in &definition.variables {
            let fallback = scope.of_variable(&variable.value);
            let rows = variable.column.iter().flat_map(|column| column.tables().flat_map(Table::values));
            let inferred = rows.map(Type::of_value).fold(fallback, Type::or);
            scope.0.insert(variable.name.clone(), inferred);
        }
        scope
    }

    pub(crate) fn get(&self, name: &str) -> Type {
        match self.0.get(name) {
            Some(known) => known.clone(),
            // Of a warning about a variable. No policy with one has another such name.
            None if name == VALUE => Type::string(),
            None if name.starts_with("@offeredNames(") => Type::list(Type::string()),
            None if name.starts_with("@offeredName(") => Type::string().or(Type::null()),
            None => Type::Dyn,
        }
    }

    /// The type of the value that a string of the policy has.
    pub(crate) fn of_text(&self, text: &Interpolation) -> Type {
        match text {
            Interpolation::Literal(text) => Type::text(text),
            Interpolation::Expression(expression) => expression.infer(&|name| self.get(name)).0,
            Interpolation::Mixed(_) => {
                let may_be_null = text.expressions().any(|expression| {
                    let inferred = expression.infer(&|name| self.get(name)).0;
                    inferred.may_be(|kind| *kind == Kind::Null)
                });
                if may_be_null { Type::string().or(Type::null()) } else { Type::string() }
            }
        }
    }

    fn of_variable(&self, value: &VariableValue) -> Type {
        match value {
            VariableValue::Text(text) => self.of_text(text),
            VariableValue::Scalar(value) => Type::of_value(value),
            VariableValue::List(items) => {
                Type::list(items.iter().map(|item| self.of_variable(item)).fold(Type::NEVER, Type::or))
            }
            VariableValue::Map(entries) => {
                let member = |(key, value): &(String, VariableValue)| Member {
                    key: key.clone(),
                    value: self.of_variable(value),
                };
                Type::from_kind(Kind::Record(entries.iter().map(member).collect()))
            }
        }
    }
}

/// The values that a parameter can have: an operator can change each of them.
fn of_parameter(parameter: &Parameter) -> Type {
    let known = match parameter.kind {
        ParameterType::Integer => Type::int(),
        ParameterType::Number => Type::double(),
        ParameterType::String => match &parameter.one_of {
            Some(values) => Type::from_kind(Kind::String(Texts::These(values.iter().cloned().collect()))),
            None => Type::string(),
        },
        ParameterType::Boolean => Type::bool(),
        ParameterType::Quantity => Type::string(),
        ParameterType::StringList => Type::list(Type::string()),
        // The operator writes the expression.
        ParameterType::Template => return Type::Dyn,
        // A variable's type is that of its rows and of its fallback.
        ParameterType::Any => return Type::Dyn,
    };
    if parameter.default.is_null() { known.or(Type::null()) } else { known }
}
