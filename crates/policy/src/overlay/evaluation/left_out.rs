//! The values that an evaluation leaves out, each with the reason.

use serde_json::Value;

use super::super::Tree;
use super::Evaluation;
use crate::schema::Shape;

/// A value that is left out because an expression in it has none.
#[derive(Debug)]
pub struct LeftOut {
    /// The keys and names that lead to it.
    pub path: Vec<String>,
    pub because: String,
}

impl Evaluation<'_, '_, '_> {
    /// Evaluates what a key leads to.
    pub(super) fn within<T>(&mut self, name: &str, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        if self.left_out.is_none() {
            return evaluate(self);
        }
        self.path.push(name.to_owned());
        let evaluated = evaluate(self);
        self.path.pop();
        evaluated
    }

    pub(super) fn leave_out(&mut self, because: impl FnOnce() -> String) {
        if let Some(left_out) = &mut self.left_out {
            left_out.push(LeftOut { path: self.path.clone(), because: because() });
        }
    }

    /// Notes that an entry of a list is left out.
    pub(super) fn leave_out_entry(&mut self, tree: &Tree, keys: &[&str]) {
        if self.left_out.is_none() {
            return;
        }
        let name = keys.first().map(|key| {
            let named = tree.get(key).and_then(|key| self.value(key, &Shape::Opaque).ok()?);
            named.and_then(|name| name.source()).unwrap_or_else(|| "…".to_owned())
        });
        match name {
            Some(name) => self.within(&name, |this| this.leave_out_null(tree)),
            None => self.leave_out_null(tree),
        }
    }

    /// Notes that a value is left out because a text in it is `null`.
    pub(super) fn leave_out_null(&mut self, tree: &Tree) {
        let Some(bindings) = self.bindings else { return };
        self.leave_out(|| {
            let mut because = "it has no value".to_owned();
            tree.texts(&mut |text| {
                let what = match text.evaluate(bindings) {
                    Ok(value) if !value.is_null() && value != "" => return,
                    Ok(_) if tree.edit_at("value").is_some() => "has no value",
                    Ok(Value::Null) => "is null",
                    Ok(_) => "is empty",
                    Err(_) => return,
                };
                // An extension leaves out a variable of its base by a literal `null`.
                because = match text.source().as_str() {
                    "${null}" => "`null` leaves it out".to_owned(),
                    source => format!("`{source}` {what}"),
                };
            });
            because
        });
    }
}
