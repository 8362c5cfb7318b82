//! `list.distinct()` in time in proportion to the list: that of the library compares each element with each other one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cel::ExecutionError;
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelOptional, CelString, CelUInt,
};
use cel::common::value::{CowVal, Val};

/// The first of each set of equal elements, in order.
#[expect(clippy::needless_pass_by_value, reason = "the library's type of a function")]
pub(super) fn distinct<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let list = args.first().and_then(|list| list.downcast_ref::<CelList<'_>>());
    let list = list.ok_or_else(|| ExecutionError::function_error("distinct", "takes a list"))?;
    let mut known: HashMap<u64, Vec<&dyn Val>> = HashMap::new();
    let mut unique: Vec<Box<dyn Val + 'v>> = Vec::new();
    for item in list.inner() {
        let mut hasher = DefaultHasher::new();
        // A number that is none equals nothing.
        if hash(&**item, &mut hasher) {
            let alike = known.entry(hasher.finish()).or_default();
            if alike.iter().any(|seen| item.equals(*seen)) {
                continue;
            }
            alike.push(&**item);
        }
        unique.push(item.clone_as_boxed());
    }
    Ok(CowVal::owned(CelList::from(unique)))
}

/// Hashes a value, so that equal values have one hash: `1`, `1u` and `1.0` are equal. Returns false for a value that does
/// not equal itself.
fn hash(value: &dyn Val, hasher: &mut DefaultHasher) -> bool {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        text.inner().hash(hasher);
    } else if let Some(number) = number(value) {
        // Adding zero turns -0.0 into 0.0, which it equals.
        (number + 0.0).to_bits().hash(hasher);
        return !number.is_nan();
    } else if let Some(flag) = value.downcast_ref::<CelBool>() {
        flag.inner().hash(hasher);
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        bytes.inner().hash(hasher);
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        list.inner().len().hash(hasher);
        return list.inner().iter().all(|item| hash(&**item, hasher));
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        // The entries have no order.
        let mut sum = 0_u64;
        for (key, value) in map.inner() {
            let mut entry = DefaultHasher::new();
            if !hash(key.inner(), &mut entry) || !hash(&**value, &mut entry) {
                return false;
            }
            sum = sum.wrapping_add(entry.finish());
        }
        sum.hash(hasher);
    } else if let Some(inner) = value.downcast_ref::<CelOptional<'_>>().and_then(CelOptional::option) {
        return hash(inner, hasher);
    }
    true
}

#[expect(clippy::cast_precision_loss, reason = "equal numbers stay equal")]
fn number(value: &dyn Val) -> Option<f64> {
    let whole = value.downcast_ref::<CelInt>().map(|number| *number.inner() as f64);
    let unsigned = || value.downcast_ref::<CelUInt>().map(|number| *number.inner() as f64);
    let double = || value.downcast_ref::<CelDouble>().map(|number| *number.inner());
    whole.or_else(unsigned).or_else(double)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Bindings, Expression};

    fn evaluate(source: &str) -> Value {
        Expression::compile(source).unwrap().evaluate(&Bindings::new()).unwrap()
    }

    #[test]
    fn the_first_of_equal_elements_stays() {
        assert_eq!(evaluate("['b', 'a', 'b'].distinct()"), json!(["b", "a"]));
        assert_eq!(evaluate("[1, 1u, 1.0, '1', 2u, true, true, null, null].distinct().size()"), json!(5));
        assert_eq!(evaluate("[0.0, -0.0].distinct().size()"), json!(1));
        assert_eq!(evaluate("[double('NaN'), double('NaN')].distinct().size()"), json!(2));
        assert_eq!(evaluate("[[1], [1.0], [2], []].distinct().size()"), json!(3));
        assert_eq!(
            evaluate("[{'a': 1, 'b': 2}, {'b': 2.0, 'a': 1u}, {'a': 2, 'b': 1}].distinct().size()"),
            json!(2)
        );
        assert_eq!(
            evaluate("[optional.of('a'), optional.of('a'), optional.none()].distinct().size()"),
            json!(2)
        );
        assert_eq!(evaluate("[bytes('a'), bytes('a'), bytes('b')].distinct().size()"), json!(2));
        assert!(Expression::compile("'aa'.distinct()").unwrap().evaluate(&Bindings::new()).is_err());
    }
}
