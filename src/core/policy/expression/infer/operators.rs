//! Conditions and comparisons.

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use crate::core::policy::source::{
    ALWAYS_FALSE, QUANTITY_AS_TEXT, UNKNOWN_ENUM_VALUE, UNLIKE_TYPES, closest,
};
use crate::core::schema::Format;

use super::super::types::{Kind, Texts, Type, is_lower_case};
use super::Walker;
use super::fields::literal_text;

impl Walker<'_> {
    pub(super) fn both(&mut self, left: &IdedExpr, right: &IdedExpr) -> Type {
        let (left, right) = (self.truth_of(left), self.truth_of(right));
        Type::bool(match (left, right) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        })
    }

    pub(super) fn either(&mut self, left: &IdedExpr, right: &IdedExpr) -> Type {
        let (left, right) = (self.truth_of(left), self.truth_of(right));
        Type::bool(match (left, right) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        })
    }

    pub(super) fn not(&mut self, inner: &IdedExpr) -> Type {
        Type::bool(self.truth_of(inner).map(|value| !value))
    }

    pub(super) fn choice(&mut self, condition: &IdedExpr, then: &IdedExpr, other: &IdedExpr) -> Type {
        let truth = self.truth_of(condition);
        let (then, other) = (self.of(then), self.of(other));
        match truth {
            Some(true) => then,
            Some(false) => other,
            None => then.or(other),
        }
    }

    /// The value of a part that has to be a boolean, if it is known.
    fn truth_of(&mut self, expression: &IdedExpr) -> Option<bool> {
        let inferred = self.of(expression);
        if !inferred.may_be(|kind| matches!(kind, Kind::Bool(_))) {
            let message = format!("{} is {inferred} where a boolean is needed", self.quoted(expression));
            self.error(expression, message, Some("compare it, as in `totalGpus > 0`".to_owned()));
        }
        inferred.truth()
    }

    /// `==`, and `!=` if `equal` is false.
    pub(super) fn equality(&mut self, left: &IdedExpr, right: &IdedExpr, equal: bool) -> Type {
        let (one, other) = (self.of(left), self.of(right));
        let same = self.compare(left, right, &one, &other);
        Type::bool(same.map(|same| same == equal))
    }

    /// `entry in list`
    pub(super) fn membership(
        &mut self,
        expression: &IdedExpr,
        call: &CallExpr,
        entry: &IdedExpr,
        list: &IdedExpr,
    ) -> Type {
        let one = self.of(entry);
        if let Expr::List(written) = &list.expr
            && written.optional_indices.is_empty()
        {
            let mut never = true;
            for element in &written.elements {
                let other = self.of(element);
                never &= self.compare(entry, element, &one, &other) == Some(false);
            }
            return Type::bool(never.then_some(false));
        }
        let other = self.of(list);
        self.checked_call(expression, call, None, &[one.clone(), other.clone()]);
        let Some([Kind::List(items)]) = other.kinds() else { return Type::bool(None) };
        Type::bool(if meet(&one, items) { None } else { Some(false) })
    }

    /// Returns whether two values are equal, if that is the same for all. Reports what is most likely a mistake.
    fn compare(&mut self, left: &IdedExpr, right: &IdedExpr, one: &Type, other: &Type) -> Option<bool> {
        if meet(one, other) {
            return known_equal(one, other).then_some(true);
        }
        if let Some(text) = literal_text(right) {
            self.unequal(right, text, left, one);
        } else if let Some(text) = literal_text(left) {
            self.unequal(left, text, right, other);
        } else if unlike(one, other) && !is_null(one) && !is_null(other) {
            let message = format!(
                "{} is {one}, and {} {other}: they are never equal",
                self.quoted(left),
                self.quoted(right)
            );
            self.warn(right, UNLIKE_TYPES, message, None);
        }
        Some(false)
    }

    /// Reports a text that a value never equals.
    fn unequal(&mut self, literal: &IdedExpr, text: &str, value: &IdedExpr, inferred: &Type) {
        let Some(kinds) = inferred.kinds() else { return };
        let name = self.quoted(value);
        let texts = kinds.iter().find_map(|kind| match kind {
            Kind::String(texts) => Some(texts),
            _ => None,
        });
        match texts {
            None => {
                let hint = match kinds {
                    [Kind::Bool(_)] if text == "true" => Some(format!("write {name} alone")),
                    [Kind::Bool(_)] if text == "false" => Some(format!("write `!` and {name}")),
                    [Kind::Int(..)] if text.parse::<i64>().is_ok() => {
                        Some(format!("write `{text}` without quotes"))
                    }
                    _ => None,
                };
                let message = format!("{name} is {inferred}, which never equals the string `'{text}'`");
                self.warn(literal, UNLIKE_TYPES, message, hint);
            }
            Some(Texts::LowerCase) => {
                let message = format!(
                    "{name} is in lower case, as values of labels of nodes are, so that it never equals `'{text}'`"
                );
                self.warn(literal, ALWAYS_FALSE, message, Some(format!("write `'{}'`", text.to_lowercase())));
            }
            Some(Texts::These(known)) => {
                let listed: Vec<String> = known
                    .iter()
                    .filter(|text| !text.is_empty())
                    .take(12)
                    .map(|text| format!("`{text}`"))
                    .collect();
                let message = format!("{name} is never `{text}`: it is one of {}", listed.join(", "));
                let hint = closest(text, known.iter().map(String::as_str));
                self.warn(
                    literal,
                    UNKNOWN_ENUM_VALUE,
                    message,
                    hint.map(|hint| format!("did you mean `{hint}`?")),
                );
            }
            Some(Texts::Of(format)) => {
                let problem = format.check(text).err().unwrap_or_default();
                let message = format!("{name} is never `{text}`: {problem}");
                let lower = text.to_lowercase();
                let hint = format.check(&lower).is_ok().then(|| format!("write `'{lower}'`"));
                let hint = hint.unwrap_or_else(|| "compare with a value that it can have".to_owned());
                self.warn(literal, ALWAYS_FALSE, message, Some(hint));
            }
            Some(Texts::Any) => {}
        }
    }

    /// The type of a comparison of two numbers, of which the bounds may be known.
    pub(super) fn comparison(
        &mut self,
        expression: &IdedExpr,
        call: &CallExpr,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Type {
        let (one, other) = (self.of(left), self.of(right));
        self.checked_call(expression, call, None, &[one.clone(), other.clone()]);
        let is_text = |inferred: &Type| {
            matches!(inferred.kinds(), Some([Kind::String(_)] | [Kind::Null, Kind::String(_)]))
        };
        if is_text(&one) && is_text(&other) {
            let (left, right) = (self.quoted(left), self.quoted(right));
            let message =
                format!("{left} and {right} are compared as texts, so that `9Gi` is more than `64Gi`");
            let hint = "compare with `==` or `in`, or use a parameter of the type `integer` or `number`";
            self.warn(expression, QUANTITY_AS_TEXT, message, Some(hint.to_owned()));
        }
        let (Some([Kind::Int(low, high)]), Some([Kind::Int(other_low, other_high)])) =
            (one.kinds(), other.kinds())
        else {
            return Type::bool(None);
        };
        let less = |always: bool, never: bool| if always { Some(true) } else { never.then_some(false) };
        Type::bool(match call.func_name.as_str() {
            "_<_" => less(high < other_low, low >= other_high),
            "_<=_" => less(high <= other_low, low > other_high),
            "_>_" => less(low > other_high, high <= other_low),
            _ => less(low >= other_high, high < other_low),
        })
    }

    /// `startsWith` and its like, of a text of which something is known.
    pub(super) fn part_of_text(&mut self, call: &CallExpr, target: &Type) -> Option<Type> {
        let name = call.func_name.as_str();
        let holds: fn(&str, &str) -> bool = match name {
            "startsWith" => |text, part| text.starts_with(part),
            "endsWith" => |text, part| text.ends_with(part),
            "contains" => |text, part| text.contains(part),
            _ => return None,
        };
        let [argument] = call.args.as_slice() else { return None };
        let part = literal_text(argument)?;
        let Some([Kind::String(texts)]) = target.kinds() else { return None };
        let known = match texts {
            Texts::Any => None,
            Texts::LowerCase => (!is_lower_case(part)).then_some(false),
            Texts::Of(format) => (!may_be_part_of(*format, part)).then_some(false),
            Texts::These(texts) => {
                let mut results = texts.iter().map(|text| holds(text, part));
                let first = results.next()?;
                results.all(|other| other == first).then_some(first)
            }
        };
        if known == Some(false) && *texts == Texts::LowerCase {
            let receiver = call.target.as_deref().map(|target| self.quoted(target)).unwrap_or_default();
            let message = format!(
                "{receiver} is in lower case, as values of labels of nodes are, so that `{name}('{part}')` is never true"
            );
            self.warn(argument, ALWAYS_FALSE, message, Some(format!("write `'{}'`", part.to_lowercase())));
        }
        if let (Some(false), Texts::Of(_)) = (known, texts) {
            let receiver = call.target.as_deref().map(|target| self.quoted(target)).unwrap_or_default();
            let message = format!("`{name}('{part}')` is never true: {receiver} has no such characters");
            self.warn(
                argument,
                ALWAYS_FALSE,
                message,
                Some("compare with a part of a value that occurs".to_owned()),
            );
        }
        Some(Type::bool(known))
    }
}

/// Returns whether a text of a form may have a part.
fn may_be_part_of(format: Format, part: &str) -> bool {
    let is_label = format == Format::LabelValue;
    let may_be_in = |c: char| match c {
        'a'..='z' | '0'..='9' | '-' => true,
        '.' => format != Format::DnsLabel,
        'A'..='Z' | '_' => is_label,
        _ => false,
    };
    part.chars().all(may_be_in)
}

fn is_null(inferred: &Type) -> bool {
    matches!(inferred.kinds(), Some([Kind::Null]))
}

/// Returns whether both are the same known value.
fn known_equal(one: &Type, other: &Type) -> bool {
    match (one.kinds(), other.kinds()) {
        (Some([Kind::Null]), Some([Kind::Null])) => true,
        (Some([Kind::Bool(Some(one))]), Some([Kind::Bool(Some(other))])) => one == other,
        (Some([Kind::Int(low, high)]), Some([Kind::Int(other_low, other_high)])) => {
            low == high && other_low == other_high && low == other_low
        }
        (Some([Kind::String(one)]), Some([Kind::String(other)])) => {
            one.one().is_some() && one.one() == other.one()
        }
        _ => false,
    }
}

/// Returns whether a value may be of both types.
fn meet(one: &Type, other: &Type) -> bool {
    let (Some(one), Some(other)) = (one.kinds(), other.kinds()) else { return true };
    let may_equal = |one: &Kind, other: &Kind| match (one, other) {
        (Kind::Bool(Some(one)), Kind::Bool(Some(other))) => one == other,
        (Kind::Int(low, high), Kind::Int(other_low, other_high)) => low <= other_high && other_low <= high,
        (Kind::String(one), Kind::String(other)) => one.meet(other),
        (one, other) => class(one) == class(other),
    };
    one.is_empty()
        || other.is_empty()
        || one.iter().any(|one| other.iter().any(|other| may_equal(one, other)))
}

/// Returns whether the types have no kind of value in common.
fn unlike(one: &Type, other: &Type) -> bool {
    let (Some(one), Some(other)) = (one.kinds(), other.kinds()) else { return false };
    !one.iter().any(|one| other.iter().any(|other| class(one) == class(other)))
}

/// Values of different classes are never equal. Numbers of both types can be.
fn class(kind: &Kind) -> u8 {
    match kind {
        Kind::Null => 0,
        Kind::Bool(_) => 1,
        Kind::Int(..) | Kind::Double => 2,
        Kind::String(_) => 3,
        Kind::List(_) => 4,
        Kind::Map(_) | Kind::Record(_) | Kind::Object(_) => 5,
        Kind::Optional(_) => 6,
    }
}
