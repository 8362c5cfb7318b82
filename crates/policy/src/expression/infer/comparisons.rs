//! Comparisons that never hold, or compare texts as if they were numbers.

use cel::common::ast::{Expr, IdedExpr};

use crate::source::{ALWAYS_FALSE, QUANTITY_AS_TEXT, UNKNOWN_ENUM_VALUE, UNLIKE_TYPES, closest};

use super::super::types::{Kind, Texts, Type};
use super::{Walker, literal_text};

impl Walker<'_> {
    /// `==` and `!=`.
    pub(super) fn equality(&mut self, left: &IdedExpr, right: &IdedExpr) -> Type {
        let (one, other) = (self.infer(left), self.infer(right));
        self.compare(left, right, &one, &other);
        Type::bool()
    }

    /// `entry in list`
    pub(super) fn membership(&mut self, entry: &IdedExpr, list: &IdedExpr) -> Type {
        let one = self.infer(entry);
        match &list.expr {
            Expr::List(written) if written.optional_indices.is_empty() => {
                for element in &written.elements {
                    let other = self.infer(element);
                    self.compare(entry, element, &one, &other);
                }
            }
            _ => _ = self.infer(list),
        }
        Type::bool()
    }

    /// Reports two values that are never equal, which is most likely a mistake.
    fn compare(&mut self, left: &IdedExpr, right: &IdedExpr, one: &Type, other: &Type) {
        if meet(one, other) {
            return;
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
            self.report(right, Some(UNLIKE_TYPES), message, None);
        }
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
                    [Kind::Bool] if text == "true" => Some(format!("write {name} alone")),
                    [Kind::Bool] if text == "false" => Some(format!("write `!` and {name}")),
                    [Kind::Int] if text.parse::<i64>().is_ok() => {
                        Some(format!("write `{text}` without quotes"))
                    }
                    _ => None,
                };
                let message = format!("{name} is {inferred}, which never equals the string `'{text}'`");
                self.report(literal, Some(UNLIKE_TYPES), message, hint);
            }
            Some(Texts::LowerCase) => {
                let message = format!(
                    "{name} is in lower case, as the values of node labels are, so it never equals `'{text}'`"
                );
                self.report(
                    literal,
                    Some(ALWAYS_FALSE),
                    message,
                    Some(format!("write `'{}'`", text.to_lowercase())),
                );
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
                self.report(
                    literal,
                    Some(UNKNOWN_ENUM_VALUE),
                    message,
                    hint.map(|hint| format!("did you mean `{hint}`?")),
                );
            }
            Some(Texts::Of(format)) => {
                let problem = format.check(text).err().unwrap_or_default();
                let message = format!("{name} is never `{text}`: {problem}");
                let lower = text.to_lowercase();
                let hint = format.check(&lower).is_ok().then(|| format!("write `'{lower}'`"));
                let hint = hint.unwrap_or_else(|| match text.strip_suffix('*') {
                    Some(start) => {
                        format!(
                            "write `{}.startsWith('{start}')`: `==` takes no pattern",
                            name.trim_matches('`')
                        )
                    }
                    None => "compare with a value that it can have".to_owned(),
                });
                self.report(literal, Some(ALWAYS_FALSE), message, Some(hint));
            }
            Some(Texts::Any) => {}
        }
    }

    /// `<` and its like.
    pub(super) fn comparison(&mut self, expression: &IdedExpr, left: &IdedExpr, right: &IdedExpr) -> Type {
        let (one, other) = (self.infer(left), self.infer(right));
        let is_text = |inferred: &Type| {
            matches!(inferred.kinds(), Some([Kind::String(_)] | [Kind::Null, Kind::String(_)]))
        };
        if is_text(&one) && is_text(&other) {
            let (left, right) = (self.quoted(left), self.quoted(right));
            let message = format!("{left} and {right} are compared as strings, so `9Gi` is more than `64Gi`");
            let hint = "compare with `==` or `in`, or use a parameter of the type `integer` or `number`";
            self.report(expression, Some(QUANTITY_AS_TEXT), message, Some(hint.to_owned()));
        }
        Type::bool()
    }
}

fn is_null(inferred: &Type) -> bool {
    matches!(inferred.kinds(), Some([Kind::Null]))
}

/// Returns whether a value may be of both types.
fn meet(one: &Type, other: &Type) -> bool {
    let (Some(one), Some(other)) = (one.kinds(), other.kinds()) else { return true };
    let may_equal = |one: &Kind, other: &Kind| match (one, other) {
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
        Kind::Double => Kind::Int.rank(),
        other => other.rank(),
    }
}
