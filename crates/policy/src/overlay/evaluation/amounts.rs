//! The amounts of resources, whose keys can yield lists of names.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expression::Bindings;
use crate::interpolation::{Evaluated, EvaluationError, Interpolation, text_of};
use crate::schema::{AMOUNT_LISTS, Format, Shape};
use crate::source::Diagnostic;

use super::super::scalars::accept;
use super::super::{Entry, Key, Tree, check};
use super::Evaluation;

/// The key of a map; `None` if it is `null`. That of an amount can yield a list of resources.
pub(super) fn key(
    text: &Interpolation,
    keys: Format,
    is_amount: bool,
    bindings: &Bindings<'_, '_>,
) -> Evaluated<Option<Key>> {
    let name = |value: &Value| {
        let accepted = accept(value, &Shape::Text(keys)).map_err(|message| text.failed(message))?;
        Ok(accepted.map(|name| text_of(&name)))
    };
    let value = text.evaluate(bindings)?;
    let Value::Array(names) = &value else {
        return Ok(name(&value)?.map(|name| Key::Name(name.into())));
    };
    if !is_amount {
        return name(&value).map(|_: Option<String>| None);
    }
    let names = names.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    let mut known = BTreeSet::new();
    match names.iter().flatten().find(|name| !known.insert(*name)) {
        Some(twice) => {
            let error = text.failed(format!("the list names `{twice}` twice"));
            Err(error.with_hint("name it once where the list has its value"))
        }
        None => Ok(Some(Key::Resources(names.into()))),
    }
}

/// Fails for a resource that two keys of a map name, of which one is a list.
pub(super) fn check_names(amounts: &[Entry]) -> Evaluated<()> {
    let mut known = BTreeSet::new();
    for amount in amounts {
        let mut names = amount.name().into_iter().chain(amount.resources());
        if let Some(twice) = names.find(|name| !known.insert(*name)) {
            let message = format!("`{twice}` has two amounts: another key of the map names it, too");
            return Err(amount_failed(amount, message));
        }
    }
    Ok(())
}

/// An error about an amount, at the expression of its name or else of its value.
pub(super) fn amount_failed(entry: &Entry, message: String) -> EvaluationError {
    let error = EvaluationError::about(|visit| entry.texts(visit), message);
    let size = entry.name().and_then(|name| name.strip_prefix("hugepages-"));
    match size {
        Some("1G" | "2M" | "512M" | "16G") => {
            error.with_hint("write the size with an `i`, as in `hugepages-2Mi`")
        }
        Some(_) => error.with_hint("correct the amount, or the default of the parameter that it is"),
        None => error.with_hint("correct the value; `devices(gpus, ratio)` rounds up"),
    }
}

impl Evaluation<'_, '_, '_> {
    /// Fails for an amount that the API server refuses.
    pub(super) fn check_amounts(&mut self, tree: &Tree, evaluated: &Tree) -> Evaluated<()> {
        let refused = AMOUNT_LISTS.iter().find_map(|list| {
            let amounts = evaluated.get(list).map_or(&[][..], Tree::entries).iter();
            let mut refused = amounts.filter_map(|amount| {
                Some((list, amount, check::check_amount(evaluated, list, amount).err()?))
            });
            refused.next()
        });
        let Some((list, amount, (message, hint))) = refused else { return Ok(()) };
        if self.checks {
            let own = "write a number of devices, or a quantity such as `64Gi`";
            self.problems.add(Diagnostic::new(amount.value.span, message).hint(hint.unwrap_or(own)));
            return Ok(());
        }
        let written = tree.get(list).map_or(&[][..], Tree::entries);
        let is_same = |entry: &&Entry| entry.text().is_some() || entry.name() == amount.name();
        let mut error = match written.iter().find(is_same) {
            Some(entry) => amount_failed(entry, message),
            None => EvaluationError::about(|visit| tree.texts(visit), message).with_hint("correct the value"),
        };
        error.fault.hint = hint.map(str::to_owned).or(error.fault.hint);
        Err(error)
    }
}
