//! The functions that expressions can call.

use std::sync::{Arc, LazyLock};

use cel::common::types::{CelDouble, CelInt, DOUBLE_TYPE, INT_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

use super::conversion::to_f64;

/// The functions and macros of expressions.
#[expect(
    clippy::expect_used,
    reason = "the functions are constant, and an error is one that is declared twice"
)]
pub(super) static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(environment().expect("declared once")));

fn environment() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib();
    env.add_extension(cel::extensions::math)?;
    env.add_extension(cel::extensions::strings)?;
    env.add_extension(cel::extensions::lists)?;
    super::budget::extension(&mut env)?;
    super::numbers::extension(&mut env)?;
    for (id, ratio) in [("devices_int_double", DOUBLE_TYPE), ("devices_int_int", INT_TYPE)] {
        env.add_overload("devices", id, vec![INT_TYPE, ratio], devices)?;
    }
    Ok(env)
}

/// `devices(gpus, ratio)`: the number of devices for a number of GPUs, rounded up.
#[expect(clippy::needless_pass_by_value, reason = "the library's type of a function")]
fn devices<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let gpus = args.first().and_then(|value| value.downcast_ref::<CelInt>()).map(|value| *value.inner());
    let ratio = args.get(1).and_then(|value| {
        let whole = value.downcast_ref::<CelInt>().map(|value| to_f64(*value.inner()));
        whole.or_else(|| value.downcast_ref::<CelDouble>().map(|value| *value.inner()))
    });
    let (Some(gpus), Some(ratio)) = (gpus, ratio) else {
        return Err(ExecutionError::function_error("devices", "takes an integer and a number"));
    };
    device_count(gpus, ratio)
        .map(|count| CowVal::owned(CelInt::from(count)))
        .ok_or_else(|| ExecutionError::function_error("devices", "is beyond any device count"))
}

/// GPUs times ratio, rounded up; a ratio such as 0.07 must not gain a device by binary rounding.
fn device_count(gpus: i64, ratio: f64) -> Option<i64> {
    const BILLION: f64 = 1e9;
    let product = to_f64(gpus) * ratio;
    let count = ((product * BILLION).round() / BILLION).ceil();
    #[expect(clippy::cast_possible_truncation, reason = "checked to be within 2^53")]
    (0.0..9e15).contains(&count).then_some(count as i64)
}

/// Returns whether a function is one into which the library turns operators and macros.
pub(super) fn is_operator(function: &str) -> bool {
    function.contains('@')
        || function.contains(['_', '!']) && !function.starts_with(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_rounded_up_and_never_gained_by_binary_fractions() {
        for (gpus, ratio, expected) in [
            (8, 4.0, 32),
            (8, 0.5, 4),
            (1, 0.5, 1),
            (3, 0.5, 2),
            (8, 0.125, 1),
            (9, 0.125, 2),
            (100, 0.07, 7),
            (3, 0.333_333_333_333, 1),
            (0, 4.0, 0),
            (8, 0.0, 0),
        ] {
            assert_eq!(device_count(gpus, ratio), Some(expected), "{gpus} x {ratio}");
        }
        assert_eq!(device_count(i64::MAX, 1e9), None);
        assert_eq!(device_count(8, f64::NAN), None);
        assert_eq!(device_count(8, -1.0), None);
    }
}
