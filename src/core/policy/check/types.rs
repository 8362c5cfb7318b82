//! The types of expressions, and the values that are needed in their places.

use crate::core::policy::definition::Definition;
use crate::core::policy::diagnostic::Diagnostic;
use crate::core::policy::expression::types::{Kind, Texts, Type};
use crate::core::policy::expression::{Expression, TypeFinding};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::overlay::{Wanted, is_list, is_object};
use crate::core::policy::variable::VariableValue;
use crate::core::schema::Shape;

use super::Finding;
use super::scope::Scope;

/// The code of an error in the types of an expression.
const TYPE_MISMATCH: &str = "type_mismatch";

pub(super) fn findings(definition: &Definition, scope: &Scope) -> Vec<Finding> {
    let mut checker = Checker { scope, found: Vec::new() };
    for variable in &definition.variables {
        checker.variable(&variable.value);
    }
    let mut place = |text: &Interpolation, wanted: Wanted| checker.place(text, wanted);
    definition.gpu_claims.iter().for_each(|claims| claims.places(&mut place));
    definition.fabric.iter().for_each(|fabric| fabric.places(&mut place));
    for rule in &definition.rules {
        rule.container.iter().for_each(|instruction| instruction.places(&mut place));
        rule.pod.places(&mut place);
    }
    for warning in definition.warnings.iter().chain(&definition.refusals) {
        checker.place(&warning.message, Wanted::Text);
    }
    super::conditions::of(definition, &mut |condition, _| checker.condition(condition));
    checker.found
}

struct Checker<'s> {
    scope: &'s Scope,
    found: Vec<Finding>,
}

impl Checker<'_> {
    fn variable(&mut self, value: &VariableValue) {
        match value {
            VariableValue::Text(text) => _ = self.text(text),
            VariableValue::Scalar(_) => {}
            VariableValue::List(items) => items.iter().for_each(|item| self.variable(item)),
            VariableValue::Map(entries) => entries.iter().for_each(|(_, value)| self.variable(value)),
        }
    }

    fn condition(&mut self, text: &Interpolation) {
        let Interpolation::Expression(expression) = text else { return };
        let Some(inferred) = self.text(text) else { return };
        if !inferred.may_be(|kind| matches!(kind, Kind::Bool(_))) {
            let message = format!("the condition is {inferred}, and has to be `true` or `false`");
            self.unfit(expression, message, Some("compare it, as in `totalGpus > 0`".to_owned()));
        }
    }

    fn place(&mut self, text: &Interpolation, wanted: Wanted) {
        let Some(inferred) = self.text(text) else { return };
        let Interpolation::Expression(expression) = text else { return };
        if inferred.may_be(|kind| fits(kind, &wanted)) {
            return;
        }
        let message = format!("the expression is {inferred} where {} is needed", wanted.describe());
        let hint = match (&wanted, inferred.kinds()) {
            (Wanted::Field(Shape::Integer(..)), Some([Kind::Double])) => {
                Some("use `devices(gpus, ratio)` for a number of devices, or `int(…)`")
            }
            _ => None,
        };
        self.unfit(expression, message, hint.map(str::to_owned));
    }

    /// Checks the expressions of a text. Returns the type of one that is the whole text, if it has no error.
    fn text(&mut self, text: &Interpolation) -> Option<Type> {
        let mut whole = None;
        for expression in text.expressions() {
            let (inferred, findings) = expression.infer(&|name| self.scope.get(name));
            let has_error = findings.iter().any(|finding| finding.warning.is_none());
            self.found.extend(findings.into_iter().map(|finding| of_expression(expression, finding)));
            if has_error {
                continue;
            }
            if !inferred.may_be(|kind| !matches!(kind, Kind::Optional(_))) {
                let message = format!("the expression is {inferred}, which no pod can hold");
                self.unfit(expression, message, Some("end it with `.orValue(…)`".to_owned()));
                continue;
            }
            whole = Some(inferred);
        }
        whole
    }

    fn unfit(&mut self, expression: &Expression, message: String, hint: Option<String>) {
        let source = expression.source();
        let finding = TypeFinding { warning: None, message, hint, at: 0, length: source.len() };
        self.found.push(of_expression(expression, finding));
    }
}

fn of_expression(expression: &Expression, finding: TypeFinding) -> Finding {
    let span = expression.span(finding.at, finding.length);
    let diagnostic = match finding.warning {
        Some(code) => Diagnostic::warning(code, span, finding.message),
        None => Diagnostic::new(span, finding.message).code(TYPE_MISMATCH),
    };
    let diagnostic = Diagnostic { hint: finding.hint, ..diagnostic };
    Finding { diagnostic, text: expression.source().to_owned() }
}

/// Returns whether a value of this kind may be right in a place. `null` leaves it out.
fn fits(kind: &Kind, wanted: &Wanted) -> bool {
    let is_text = |inferred: &Type| inferred.may_be(|kind| matches!(kind, Kind::String(_) | Kind::Null));
    let is_scalar = matches!(kind, Kind::Bool(_) | Kind::Int(..) | Kind::Double | Kind::String(_));
    let is_map = matches!(kind, Kind::Map(_) | Kind::Record(_) | Kind::Object(_));
    match (wanted, kind) {
        (_, Kind::Null) => true,
        (_, Kind::Optional(_)) => false,
        (Wanted::Text, _) => is_scalar,
        (Wanted::Networks, Kind::List(items)) | (Wanted::Names, Kind::List(items)) => is_text(items),
        (Wanted::Networks, _) => matches!(kind, Kind::String(_)),
        (Wanted::Names, _) => false,
        (Wanted::Entries, Kind::List(items)) => {
            items.may_be(|kind| matches!(kind, Kind::Map(_) | Kind::Record(_) | Kind::Object(_) | Kind::Null))
        }
        (Wanted::Entries, _) => false,
        (Wanted::Field(shape), _) if is_list(shape) => matches!(kind, Kind::List(_)),
        (Wanted::Field(shape), _) if is_object(shape) => is_map,
        (Wanted::Field(Shape::Text(_)), _) => is_scalar,
        (Wanted::Field(Shape::Integer(..)), Kind::String(Texts::These(texts))) => {
            texts.iter().any(|text| text.parse::<i64>().is_ok())
        }
        (Wanted::Field(Shape::Integer(..) | Shape::PortNumberOrName), _) => {
            matches!(kind, Kind::Int(..) | Kind::String(_))
        }
        (Wanted::Field(Shape::Boolean), _) => matches!(kind, Kind::Bool(_)),
        (Wanted::Field(Shape::Quantity), _) => matches!(kind, Kind::Int(..) | Kind::Double | Kind::String(_)),
        (Wanted::Field(_), _) => true,
    }
}
