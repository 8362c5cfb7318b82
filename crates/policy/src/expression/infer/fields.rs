//! Fields of pods, and entries of maps and lists.

use cel::common::ast::{IdedExpr, SelectExpr};

use crate::source::{UNKNOWN_TABLE_KEY, suggest};

use super::super::types::{Kind, Member, Texts, Type, is_lower_case};
use super::Walker;

/// The result of looking up a key in one kind of value.
enum Found {
    Value(Type),
    /// The value has no such key: the name of the value, and its keys.
    Unknown(String, Vec<String>),
    /// A value of the kind has no keys at all.
    NoKeys,
}

impl Walker<'_> {
    /// `operand.field`, and `has(operand.field)`.
    pub(super) fn select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> Type {
        let operand = self.infer(&select.operand);
        let key = Type::text(&select.field);
        let value = self.lookup(expression, &select.operand, &operand, &key, select.test);
        if select.test { Type::bool() } else { value }
    }

    /// `operand[key]`, and with `optional`, `operand[?key]` and `operand.?key`.
    pub(super) fn index(
        &mut self,
        expression: &IdedExpr,
        operand: &IdedExpr,
        key: &IdedExpr,
        optional: bool,
    ) -> Type {
        let inferred = self.infer(operand);
        let key = self.infer(key);
        let value = self.lookup(expression, operand, &inferred, &key, optional);
        if optional { Type::optional(value) } else { value }
    }

    /// The value under a key. With `guarded`, the key may be absent.
    fn lookup(
        &mut self,
        expression: &IdedExpr,
        operand: &IdedExpr,
        inferred: &Type,
        key: &Type,
        guarded: bool,
    ) -> Type {
        // `pod.spec.?affinity.?nodeAffinity`: a field of an optional value is a field of its content.
        let inner = if guarded { super::value_of(inferred.clone()) } else { inferred.clone() };
        let Some(kinds) = inner.kinds() else { return Type::Dyn };
        let mut value = Type::NEVER;
        let mut has_value = kinds.is_empty();
        let mut unknown = None;
        for kind in kinds {
            match look_up(kind, key) {
                Found::Value(found) => {
                    value = value.or(found);
                    has_value = true;
                }
                Found::Unknown(what, known) => unknown = Some((what, known)),
                Found::NoKeys => {}
            }
        }
        if has_value {
            self.in_lower_case(expression, operand, kinds, key);
            return value;
        }
        let name = key_name(key);
        if let Some((what, known)) = unknown {
            let hint = Some(suggest(&name, known.iter().map(String::as_str)));
            // A pod never has a field that the Kubernetes API does not define. For a table, only the program knows the
            // keys.
            if what.is_empty() && guarded {
                let message = format!("{} never has the key `{name}`", self.quoted(operand));
                self.report(expression, Some(UNKNOWN_TABLE_KEY), message, hint);
                return Type::NEVER;
            }
            let message = if what.is_empty() {
                format!("{} has no key `{name}`", self.quoted(operand))
            } else {
                format!("no {what} has a field `{name}`")
            };
            self.report(expression, None, message, hint);
        } else if guarded {
            // The library has no value for a key of a value without keys.
            return Type::NEVER;
        } else {
            let message = format!("{} is {inferred}, which has no `{name}`", self.quoted(operand));
            self.report(expression, None, message, None);
        }
        Type::Dyn
    }
}

impl Walker<'_> {
    /// Reports keys of a table with capital letters, which the value of a label in lower case does not find.
    fn in_lower_case(&mut self, expression: &IdedExpr, operand: &IdedExpr, kinds: &[Kind], key: &Type) {
        let Some([Kind::String(Texts::LowerCase)]) = key.kinds() else { return };
        let members =
            kinds.iter().filter_map(|kind| if let Kind::Record(all) = kind { Some(all) } else { None });
        for Member { key, .. } in members.flatten().filter(|member| !is_lower_case(&member.key)).take(1) {
            let operand = self.quoted(operand);
            let message = format!(
                "{operand} has the key `{key}`, which this never finds: it looks up keys in lower case"
            );
            let hint = format!("write `{}` in the table", key.to_lowercase());
            self.report(expression, Some(UNKNOWN_TABLE_KEY), message, Some(hint));
        }
    }
}

fn look_up(kind: &Kind, key: &Type) -> Found {
    let text = match key.kinds() {
        Some([Kind::String(texts)]) => Some(texts),
        _ => None,
    };
    match (kind, text) {
        (Kind::Map(values), _) => Found::Value((**values).clone()),
        (Kind::List(items), text) => match text {
            Some(_) => Found::NoKeys,
            None => Found::Value((**items).clone()),
        },
        (Kind::Object(object), Some(texts)) => match texts.one() {
            Some(name) => match object.field(name) {
                Some(field) => Found::Value(Type::of_shape(&field.shape)),
                None => Found::Unknown(
                    object.name.to_owned(),
                    object.fields.iter().map(|field| field.name.to_owned()).collect(),
                ),
            },
            None => Found::Value(Type::Dyn),
        },
        (Kind::Record(members), Some(texts)) => of_record(members, texts),
        (Kind::Record(members), None) => Found::Value(all(members)),
        (Kind::Object(_) | Kind::Optional(_), _) => Found::Value(Type::Dyn),
        (Kind::Null | Kind::Bool | Kind::Int | Kind::Double | Kind::String(_), _) => Found::NoKeys,
    }
}

fn of_record(members: &[Member], texts: &Texts) -> Found {
    let found: Vec<&Member> =
        members.iter().filter(|member| texts.meet(&Texts::These([member.key.clone()].into()))).collect();
    if found.is_empty() && !members.is_empty() {
        return Found::Unknown(String::new(), members.iter().map(|member| member.key.clone()).collect());
    }
    Found::Value(found.into_iter().map(|member| member.value.clone()).fold(Type::NEVER, Type::or))
}

fn all(members: &[Member]) -> Type {
    members.iter().map(|member| member.value.clone()).fold(Type::NEVER, Type::or)
}

fn key_name(key: &Type) -> String {
    match key.kinds() {
        Some([Kind::String(texts)]) => texts.one().unwrap_or("…").to_owned(),
        _ => "…".to_owned(),
    }
}
