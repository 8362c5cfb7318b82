//! Kubernetes quantities: `8`, `500m`, `64Gi`, `1e3`.

use std::cmp::Ordering;

use serde_json::Value;

/// An exact quantity, counted in billionths (the smallest suffix, `n`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Reads a quantity as the API server does. Returns `None` for text that is not a quantity, and for numbers that no
    /// resource reaches.
    pub fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (factor, divisor) = suffix_scale(suffix)?;
        let magnitude = scaled(number, factor, divisor)?;
        Some(Self(if text.starts_with('-') { -magnitude } else { magnitude }))
    }

    /// Reads a quantity from a JSON string or number. Returns `None` for any other value.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Some(Self(i128::from(whole) * NANO)),
                None => Self::parse(&number.to_string()),
            },
            _ => None,
        }
    }

    /// Returns true if the quantity is a whole number of `unit`.
    pub fn is_multiple_of(self, unit: Self) -> bool {
        unit.0 != 0 && self.0 % unit.0 == 0
    }

    /// The sum of two quantities.
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The quantity multiplied by a number.
    pub fn times(self, count: i64) -> Option<Self> {
        self.0.checked_mul(i128::from(count)).map(Self)
    }

    /// The quantity as a whole number; `None` if it is fractional or beyond `i64`.
    pub fn as_integer(self) -> Option<i64> {
        (self.0 % NANO == 0).then(|| i64::try_from(self.0 / NANO).ok()).flatten()
    }

    /// The nearest number.
    #[expect(clippy::cast_precision_loss, reason = "it is the nearest number")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / NANO as f64
    }

    /// The quantity as a whole number; `None` if it is negative, fractional or beyond `i64`.
    pub fn as_count(self) -> Option<i64> {
        self.as_integer().filter(|count| *count >= 0)
    }
}

/// Returns true if two JSON values are the same quantity, such as `1Gi` and `1024Mi`, or are equal.
pub fn same_quantity(left: &Value, right: &Value) -> bool {
    match (Quantity::from_value(left), Quantity::from_value(right)) {
        (Some(left), Some(right)) => left.cmp(&right) == Ordering::Equal,
        _ => left == right,
    }
}

/// The factor of a suffix in billionths, and its divisor.
fn suffix_scale(suffix: &str) -> Option<(i128, i128)> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let factor = |suffixes: &[&str], base: i128| {
        let place = suffixes.iter().position(|known| *known == suffix)?;
        Some(base.pow(u32::try_from(place).ok()?))
    };
    if let Some(factor) = factor(&DECIMAL, 1000) {
        return Some((factor, 1));
    }
    if let Some(factor) = factor(&BINARY, 1024) {
        return Some((NANO * factor, 1));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = (exponent.unsigned_abs() <= 18).then(|| 10i128.pow(exponent.unsigned_abs()))?;
    Some(if exponent < 0 { (NANO, power) } else { (NANO * power, 1) })
}

/// A number times a factor, in billionths. Fractions of a billionth are rounded up, as the API server does.
fn scaled(number: &str, factor: i128, divisor: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || whole.len() > 18 || fraction.len() > 18 {
        return None;
    }
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let divisor = divisor.checked_mul(10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let product = digits.checked_mul(factor)?;
    Some(product.div_euclid(divisor) + i128::from(product.rem_euclid(divisor) != 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The forms and the ordering that `k8s.io/apimachinery/pkg/api/resource` documents.
    #[test]
    fn every_form_of_one_quantity_compares_equal() {
        let same = [
            ("1", "1000m"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E3", "1000"),
            ("12e-1", "1200m"),
            ("+8", "8"),
            (".5", "500m"),
            ("5.", "5"),
            ("1E", "1000P"),
            ("0.0000000001", "1n"),
        ];
        for (left, right) in same {
            assert_eq!(Quantity::parse(left).unwrap(), Quantity::parse(right).unwrap(), "{left} {right}");
        }
        assert!(Quantity::parse("64Gi") > Quantity::parse("64G"));
        assert!(Quantity::parse("-1") < Quantity::parse("0"));
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in [
            "",
            "-",
            ".",
            "8x",
            "Gi",
            "1 Gi",
            "0x8",
            "1e",
            "1e99",
            "eight",
            "--1",
            "1.2.3",
            "9999999999999999999",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn gpu_counts_come_as_string_or_number() {
        let count = |value: Value| Quantity::from_value(&value).and_then(Quantity::as_count);
        assert_eq!(count(json!(8)), Some(8));
        assert_eq!(count(json!("8")), Some(8));
        assert_eq!(count(json!(8.0)), Some(8));
        assert_eq!(count(json!("8000m")), Some(8));
        assert_eq!(count(json!("500m")), None);
        assert_eq!(count(json!(-1)), None);
        assert_eq!(count(json!(true)), None);
    }
}
