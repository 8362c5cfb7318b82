//! Evaluates what does not depend on the pod, once for each set of parameter values.

use serde_json::Value;

use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation, Names, Phase};
use crate::schema::Format;

use super::build::evaluate_key;
use super::compile::compile_computed;
use super::values::solidified;
use super::{
    Amount, Element, EntriesEdit, EnvEntry, Instruction, Instructions, ListEdit, NamedContainer,
    NetworksEdit, PodOverlay, StringValue, Template,
};

/// The values of the parameters, and the names of a policy.
pub(crate) struct Fold<'a, 'p, 'v> {
    pub(crate) names: &'a Names,
    pub(crate) fixed: &'a Bindings<'p, 'v>,
}

/// A piece of an overlay for these parameters; `None` if it is `null`.
type Folded<T> = Result<Option<T>, EvaluationError>;

impl Fold<'_, '_, '_> {
    /// An overlay for a pod with everything evaluated that does not depend on the pod.
    pub(crate) fn pod(&self, overlay: &PodOverlay) -> Result<PodOverlay, EvaluationError> {
        let container = |container: &NamedContainer| {
            let Some(name) = self.template(&container.name)? else { return Ok(None) };
            let instructions = self.instructions(&container.instructions)?;
            Ok(Some(NamedContainer { list: container.list, name, instructions }))
        };
        Ok(PodOverlay {
            claims: self.instructions(&overlay.claims)?,
            instructions: self.instructions(&overlay.instructions)?,
            volumes: self.elements(&overlay.volumes)?,
            containers: each(&overlay.containers, container)?,
        })
    }

    /// Instructions with everything evaluated that does not depend on the pod.
    pub(crate) fn instructions(&self, instructions: &Instructions) -> Result<Instructions, EvaluationError> {
        each(instructions, |instruction| self.instruction(instruction))
    }

    fn instruction(&self, instruction: &Instruction) -> Folded<Instruction> {
        Ok(Some(match instruction {
            Instruction::Object { field, instructions } => {
                let folded = self.instructions(instructions)?;
                if folded.is_empty() && !instructions.is_empty() {
                    return Ok(None);
                }
                Instruction::Object { field, instructions: folded }
            }
            Instruction::Value { field, template } => {
                return Ok(self.template(template)?.map(|template| Instruction::Value { field, template }));
            }
            Instruction::Map { field, keys, entries } => Instruction::Map {
                field,
                keys: *keys,
                entries: each(entries, |(key, value)| self.entry(key, *keys, self.string(value)?))?,
            },
            Instruction::Keyed { field, keys, entries } => {
                Instruction::Keyed { field, keys, entries: self.elements(entries)? }
            }
            Instruction::Env { field, variables } => {
                Instruction::Env { field, variables: each(variables, |variable| self.variable(variable))? }
            }
            Instruction::Amounts(amounts) => {
                let folded = amounts.iter().map(|amount| self.amount(amount));
                let folded: Vec<Vec<Amount>> = folded.collect::<Result<_, _>>()?;
                Instruction::Amounts(folded.into_iter().flatten().collect())
            }
            Instruction::Computed { object, field, expression } => {
                if expression.phase(self.names) != Phase::Fixed {
                    return Ok(Some(instruction.clone()));
                }
                let value = expression.evaluate(self.fixed)?;
                let compiled = compile_computed(&value, field, object);
                return compiled.map_err(|error| expression.invalid(error));
            }
        }))
    }

    /// A template; `None` if it is `null`.
    fn template(&self, template: &Template) -> Folded<Template> {
        if self.is_fixed(template) {
            return Ok(template.build(self.fixed)?.map(Template::Constant));
        }
        Ok(Some(solidified(match template {
            Template::Object(object, fields) => {
                let field = |(field, value): &(_, Template)| {
                    Ok(Some((*field, self.template(value)?.unwrap_or(Template::Constant(Value::Null)))))
                };
                Template::Object(object, each(fields, field)?)
            }
            Template::Map(keys, entries) => {
                let entry = |(key, value): &(_, _)| self.entry(key, *keys, self.template(value)?);
                Template::Map(*keys, each(entries, entry)?)
            }
            Template::List(items) => Template::List(self.elements(items)?),
            Template::Constant(_) | Template::Computed(..) => template.clone(),
        })))
    }

    fn elements(&self, elements: &[Element]) -> Result<Vec<Element>, EvaluationError> {
        each(elements, |element| self.element(element))
    }

    fn element(&self, element: &Element) -> Folded<Element> {
        if self.is_fixed(&element.0) {
            return Ok(element.build(self.fixed)?.map(|value| Element(Template::Constant(value))));
        }
        let folded = self.template(&element.0)?;
        let complete = |template: &Template| match template {
            Template::Object(_, fields) => {
                fields.iter().all(|(_, value)| !matches!(value, Template::Constant(Value::Null)))
            }
            _ => true,
        };
        Ok(folded.filter(complete).map(Element))
    }

    fn entry<T>(&self, key: &Interpolation, keys: Format, value: Option<T>) -> Folded<(Interpolation, T)> {
        let Some(value) = value else { return Ok(None) };
        if key.phase(self.names) != Phase::Fixed {
            return Ok(Some((key.clone(), value)));
        }
        Ok(evaluate_key(key, keys, self.fixed)?.map(|key| (Interpolation::Literal(key), value)))
    }

    fn string(&self, value: &StringValue) -> Folded<StringValue> {
        Ok(match value {
            StringValue::Text(template) => self.template(template)?.map(StringValue::Text),
            StringValue::Networks(edit) => Some(StringValue::Networks(self.networks(edit)?)),
            StringValue::Entries(edit) => Some(StringValue::Entries(self.entries(edit)?)),
        })
    }

    fn networks(&self, edit: &NetworksEdit) -> Result<NetworksEdit, EvaluationError> {
        let folded = edit.map(|text| self.text(text))?;
        let mut fixed = true;
        folded.texts(&mut |text| fixed &= self.is_known(text));
        if fixed {
            // A wrong number or name is an error of the policy before any pod comes.
            folded.evaluate(self.fixed)?;
        }
        Ok(folded)
    }

    fn entries(&self, edit: &EntriesEdit) -> Result<EntriesEdit, EvaluationError> {
        let mut fixed = true;
        edit.texts(&mut |text| fixed &= self.is_known(text));
        if fixed { edit.constant(self.fixed) } else { Ok(edit.clone()) }
    }

    fn variable(&self, variable: &EnvEntry) -> Folded<EnvEntry> {
        Ok(match variable {
            EnvEntry::Entry(element) => {
                let folded = self.element(element)?.filter(|folded| match &folded.0 {
                    Template::Constant(value) => !element.yields_empty(value),
                    _ => true,
                });
                folded.map(EnvEntry::Entry)
            }
            EnvEntry::List { name, edit } => {
                let edit = ListEdit { entry: self.text(&edit.entry)?, ..*edit };
                self.template(name)?.map(|name| EnvEntry::List { name, edit })
            }
        })
    }

    fn amount(&self, amount: &Amount) -> Result<Vec<Amount>, EvaluationError> {
        let fold = |template: &Option<Template>| {
            template.as_ref().map_or(Ok(None), |template| self.template(template))
        };
        let folded =
            Amount { limit: fold(&amount.limit)?, request: fold(&amount.request)?, ..amount.clone() };
        if !self.is_known(&amount.resource) {
            return Ok(vec![folded]);
        }
        let named = |(name, nth)| Amount { resource: Interpolation::Literal(name), nth, ..folded.clone() };
        Ok(amount.names(self.fixed)?.into_iter().map(named).collect())
    }

    /// A text that reads parameters only, as the literal that it is with these parameters.
    pub(crate) fn text(&self, text: &Interpolation) -> Result<Interpolation, EvaluationError> {
        if matches!(text, Interpolation::Literal(_)) || text.phase(self.names) != Phase::Fixed {
            return Ok(text.clone());
        }
        Ok(match text.evaluate(self.fixed)? {
            Value::String(value) => Interpolation::Literal(value),
            _ => text.clone(),
        })
    }

    fn is_fixed(&self, template: &Template) -> bool {
        let mut fixed = true;
        template.texts(&mut |text| fixed &= self.is_known(text));
        fixed
    }

    /// Returns whether a text has the same value for every pod.
    fn is_known(&self, text: &Interpolation) -> bool {
        text.phase(self.names) == Phase::Fixed
    }
}

fn each<T, U>(items: &[T], fold: impl Fn(&T) -> Folded<U>) -> Result<Vec<U>, EvaluationError> {
    items.iter().filter_map(|item| fold(item).transpose()).collect()
}
