//! The types of expressions, and the values that are needed in their places.

use crate::definition::Definition;
use crate::expression::types::{Kind, Texts, Type};
use crate::expression::{Expression, TypeFinding};
use crate::interpolation::Interpolation;
use crate::overlay::{Wanted, is_list, is_object};
use crate::schema::Shape;
use crate::source::{Diagnostic, TYPE_MISMATCH};

use super::scope::Scope;

pub(crate) fn findings(definition: &Definition, scope: &Scope) -> Vec<Diagnostic> {
    let mut checker = Checker { scope, found: Vec::new() };
    for variable in &definition.variables {
        variable.value.texts(&mut |text| _ = checker.text(text));
    }
    let mut place = |text: &Interpolation, wanted: Wanted| checker.place(text, wanted);
    definition.gpus.places(&mut place);
    definition.own_devices.iter().for_each(|own| own.places(&mut place));
    for rule in &definition.rules {
        rule.pod.places_with(&rule.container, &mut place);
    }
    for check in &definition.checks {
        checker.text(&check.message);
    }
    definition.conditions().for_each(|condition| checker.condition(condition));
    checker.found
}

struct Checker<'s> {
    scope: &'s Scope,
    found: Vec<Diagnostic>,
}

impl Checker<'_> {
    fn condition(&mut self, text: &Interpolation) {
        let Interpolation::Expression(expression) = text else { return };
        let Some(inferred) = self.text(text) else { return };
        if !inferred.may_be(|kind| matches!(kind, Kind::Bool)) {
            let message = format!("the expression is {inferred}, but a condition needs `true` or `false`");
            let name = expression.source().trim();
            let is_number = inferred.may_be(|kind| matches!(kind, Kind::Int | Kind::Double));
            let example = if is_number && expression.names().contains(name) { name } else { "totalGpus" };
            self.unfit(expression, message, &format!("compare it, as in `{example} > 0`"));
        }
    }

    fn place(&mut self, text: &Interpolation, wanted: Wanted) {
        let Some(inferred) = self.text(text) else { return };
        let Interpolation::Expression(expression) = text else { return };
        if inferred.may_be(|kind| fits(kind, &wanted)) {
            return;
        }
        if let Some([Kind::Record(members)]) = inferred.kinds()
            && members.iter().any(|member| member.key == "$replace")
        {
            let message = "an expression cannot yield `$replace`".to_owned();
            self.unfit(expression, message, "write the key out, and let its value be an expression");
            return;
        }
        let message = format!("the expression is {inferred}, but {} is needed", wanted.describe());
        self.unfit(expression, message, remedy(&wanted, &inferred));
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
                self.unfit(expression, message, "end it with `.orValue(…)`");
                continue;
            }
            whole = Some(inferred);
        }
        whole
    }

    fn unfit(&mut self, expression: &Expression, message: String, hint: &str) {
        let source = expression.source();
        let hint = Some(hint.to_owned());
        let finding = TypeFinding { warning: None, message, hint, at: 0, length: source.len() };
        self.found.push(of_expression(expression, finding));
    }
}

fn of_expression(expression: &Expression, finding: TypeFinding) -> Diagnostic {
    let span = expression.span(finding.at, finding.length);
    let diagnostic = match finding.warning {
        Some(code) => Diagnostic::warning(code, span, finding.message),
        None => Diagnostic::new(span, finding.message).code(TYPE_MISMATCH),
    };
    Diagnostic { hint: finding.hint, ..diagnostic }
}

/// How to write a value that fits in a place.
fn remedy(wanted: &Wanted, inferred: &Type) -> &'static str {
    let is = |fits: fn(&Kind) -> bool| inferred.kinds().is_some_and(|kinds| kinds.iter().any(fits));
    match wanted {
        Wanted::Field(Shape::Integer(..)) if is(|kind| matches!(kind, Kind::Double)) => {
            "use `devices(gpus, ratio)` for a number of devices, or `int(…)`"
        }
        Wanted::Field(Shape::Integer(..)) => "write a whole number, or an expression that yields one",
        Wanted::Field(Shape::Boolean) => "write `true` or `false` without quotes, or a comparison",
        Wanted::Field(Shape::Quantity) => "write a number, or a string such as `'64Gi'`",
        Wanted::Field(shape) if is_list(shape) => "write a list, as in `${[…]}`",
        Wanted::Field(shape) if is_object(shape) => "write a map, as in `${{'key': …}}`",
        Wanted::Field(_) | Wanted::Text if is(|kind| matches!(kind, Kind::List(_))) => {
            "join the list, as in `${list.join(',')}`"
        }
        Wanted::Field(_) | Wanted::Text | Wanted::Entry => "read one field of it, as in `${profile.name}`",
        Wanted::NameOrNames => "write a name, or a list of names",
        Wanted::Entries => "write a list of maps, as in `${[{'key': …}]}`",
    }
}

/// Returns whether a value of this kind may be right in a place. `null` leaves it out.
fn fits(kind: &Kind, wanted: &Wanted) -> bool {
    let is_text = |inferred: &Type| inferred.may_be(|kind| matches!(kind, Kind::String(_) | Kind::Null));
    let is_scalar = matches!(kind, Kind::Bool | Kind::Int | Kind::Double | Kind::String(_));
    let is_map = matches!(kind, Kind::Map(_) | Kind::Record(_) | Kind::Object(_));
    match (wanted, kind) {
        (_, Kind::Null) => true,
        (_, Kind::Optional(_)) => false,
        (Wanted::Entry, _) => true,
        (Wanted::Text, _) => is_scalar,
        (Wanted::NameOrNames, Kind::List(items)) => is_text(items),
        (Wanted::NameOrNames, _) => matches!(kind, Kind::String(_)),
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
            matches!(kind, Kind::Int | Kind::String(_))
        }
        (Wanted::Field(Shape::Boolean), _) => matches!(kind, Kind::Bool),
        (Wanted::Field(Shape::Quantity), _) => matches!(kind, Kind::Int | Kind::Double | Kind::String(_)),
        (Wanted::Field(_), _) => true,
    }
}
