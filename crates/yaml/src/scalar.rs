//! The value of a plain scalar, as kubectl reads it.
//!
//! kubectl reads manifests with sigs.k8s.io/yaml, whose fork of go-yaml v2 follows YAML 1.1: `on` is a boolean, `0755`
//! is octal, `1_000` is a number. By the rules of YAML 1.2, a manifest would have different values here than in the
//! cluster.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value};

/// The value of a scalar that is neither a list nor a map.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// `null`, `~` or no text.
    Null,
    /// A boolean, the YAML 1.1 spellings among them.
    Bool(bool),
    /// An integer or a floating-point number.
    Number(Number),
    /// Any other text.
    String(String),
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(value),
            Scalar::Number(number) => Self::Number(number),
            Scalar::String(text) => Self::String(text),
        }
    }
}

/// Reads a plain (unquoted) scalar by the rules of YAML 1.1 as kubectl applies them.
pub fn resolve(text: &str) -> Scalar {
    keyword(text)
        .or_else(|| number(text).map(Scalar::Number))
        .unwrap_or_else(|| Scalar::String(text.to_owned()))
}

/// Returns true if kubectl or another reader of YAML 1.1 reads a plain scalar with this text as another value than
/// the string.
pub fn is_ambiguous(text: &str) -> bool {
    keyword(text).is_some()
        || number(text).is_some()
        || is_unrepresentable(text)
        || is_time(text)
        || text == "<<"
        || text == "="
}

/// Returns true for dates and for numbers to the base of 60: strings for kubectl, but not for every reader of
/// YAML 1.1.
fn is_time(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let sexagesimal = digits.contains(':')
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'_'));
    let date = matches!(text.as_bytes(), [y1, y2, y3, y4, b'-', rest @ ..]
        if [y1, y2, y3, y4].iter().all(|byte| byte.is_ascii_digit())
            && rest.iter().filter(|byte| **byte == b'-').count() >= 1
            && rest.first().is_some_and(u8::is_ascii_digit));
    sexagesimal || date
}

/// Returns true if the scalar has different values in YAML 1.1 and YAML 1.2 (core schema). The author of a policy must
/// write such a scalar in another way.
pub fn versions_disagree(text: &str) -> bool {
    match resolve(text) {
        Scalar::Bool(_) => !matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE"),
        Scalar::Number(_) => {
            let digits = text.trim_start_matches(['+', '-']);
            text.contains('_') || (digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."))
        }
        Scalar::Null | Scalar::String(_) => false,
    }
}

/// Returns true for `.inf` and `.nan`, which are numbers in YAML and have no form in JSON.
pub(crate) fn is_unrepresentable(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn keyword(text: &str) -> Option<Scalar> {
    // Most strings are longer than any keyword.
    if text.len() > 5 {
        return None;
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(Scalar::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            Some(Scalar::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            Some(Scalar::Bool(false))
        }
        _ => None,
    }
}

/// The value of a scalar with a tag, or why it has none.
pub(super) fn tagged(text: &str, tag: &str) -> Result<Scalar, String> {
    let name = tag.strip_prefix("tag:yaml.org,2002:");
    if text == "<<" && name != Some("str") {
        return Err("YAML readers differ about a `<<` with a tag".to_owned());
    }
    let string = Scalar::String(text.to_owned());
    let (resolved, name) = match name {
        Some("binary") => return binary(text),
        Some(name @ ("int" | "float" | "bool" | "null")) => (resolve(text), name),
        Some("timestamp") => {
            return Err("kubectl reads a date as a string; write it without `!!timestamp`".to_owned());
        }
        _ => return Ok(string),
    };
    let fits = match &resolved {
        Scalar::Null => name == "null",
        Scalar::Bool(_) => name == "bool",
        Scalar::Number(number) if number.is_f64() => name == "float",
        Scalar::Number(number) if name == "float" && number.is_i64() => {
            // As a key, it is another string than the integer.
            let float = number.as_f64().and_then(Number::from_f64);
            return Ok(float.map_or(resolved, Scalar::Number));
        }
        Scalar::Number(_) => name == "int",
        Scalar::String(_) => false,
    };
    if fits { Ok(resolved) } else { Err(format!("`{text}` is not a value for the tag `!!{name}`")) }
}

/// Each byte that is not UTF-8 is replaced, as kubectl does for JSON.
fn binary(text: &str) -> Result<Scalar, String> {
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let engine = GeneralPurpose::new(&alphabet::STANDARD, config);
    let decoded = engine.decode(text.replace(['\r', '\n'], ""));
    let bytes = decoded.map_err(|_| format!("`{text}` is not valid Base64"))?;
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(Scalar::String(decoded))
}

/// A key as a string, as JSON needs it, and true if it was not one. An error if kubectl has no string for it.
pub(super) fn key(value: Scalar) -> Result<(String, bool), String> {
    match value {
        Scalar::String(text) => Ok((text, false)),
        Scalar::Null => Err("a key is empty or `null`, which kubectl refuses; put it in quotes".to_owned()),
        Scalar::Bool(value) => Ok((value.to_string(), true)),
        Scalar::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => Ok((float_key(float), true)),
            _ if number.as_i64().is_some() => Ok((number.to_string(), true)),
            _ => {
                Err(format!("kubectl refuses the key `{number}`, which is a large number; put it in quotes"))
            }
        },
    }
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 32)`, with which kubectl writes a number as a key.
#[allow(clippy::cast_possible_truncation, reason = "kubectl truncates it, too")]
fn float_key(value: f64) -> String {
    let value = value as f32;
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent @ -4..=5 => {
            let digits = mantissa.trim_start_matches('-').len().saturating_sub(2);
            let places = i32::try_from(digits).unwrap_or(0).saturating_sub(exponent);
            format!("{value:.*}", usize::try_from(places).unwrap_or(0))
        }
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
    }
}

fn number(text: &str) -> Option<Number> {
    if !matches!(text.as_bytes().first()?, b'0'..=b'9' | b'+' | b'-' | b'.') {
        return None;
    }
    if text.starts_with('.') {
        return float(text);
    }
    let digits = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { text.into() };
    integer(&digits).or_else(|| float(&digits))
}

/// Go's `strconv.ParseInt(text, 0, 64)`: the prefix names the base, a bare leading zero means octal.
fn integer(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (base, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    // Go reads a sign there, too, if there is none before it.
    if base == 2 && unsigned.starts_with("0b") && text == unsigned && digits.starts_with(['+', '-']) {
        return i64::from_str_radix(digits, 2).ok().map(Number::from);
    }
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if text.starts_with('-') {
        0i64.checked_sub_unsigned(magnitude).map(Number::from)
    } else if text == unsigned {
        Some(Number::from(magnitude))
    } else {
        i64::try_from(magnitude).ok().map(Number::from)
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, which is what Rust parses, too, but for infinity and NaN: JSON has
/// neither.
fn float(text: &str) -> Option<Number> {
    Number::from_f64(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i64) -> Scalar {
        Scalar::Number(value.into())
    }

    fn float(value: f64) -> Scalar {
        Scalar::Number(Number::from_f64(value).unwrap())
    }

    /// Values as sigs.k8s.io/yaml converts them to JSON.
    #[test]
    fn plain_scalars_mean_what_kubectl_reads() {
        let table = [
            ("y", Scalar::Bool(true)),
            ("n", Scalar::Bool(false)),
            ("on", Scalar::Bool(true)),
            ("Off", Scalar::Bool(false)),
            ("yEs", Scalar::String("yEs".into())),
            ("0755", int(493)),
            ("0o17", int(15)),
            ("0x1F", int(31)),
            ("0b11", int(3)),
            ("1_000", int(1000)),
            ("+5", int(5)),
            ("-7", int(-7)),
            ("08", float(8.0)),
            ("1e3", float(1000.0)),
            (".5", float(0.5)),
            ("5.", float(5.0)),
            ("1:30", Scalar::String("1:30".into())),
            ("2001-01-01", Scalar::String("2001-01-01".into())),
            ("-", Scalar::String("-".into())),
            (".", Scalar::String(".".into())),
            ("+", Scalar::String("+".into())),
            ("0x", Scalar::String("0x".into())),
            ("8Gi", Scalar::String("8Gi".into())),
            ("1e", Scalar::String("1e".into())),
            ("~", Scalar::Null),
            ("18446744073709551615", Scalar::Number(u64::MAX.into())),
            ("-9223372036854775808", int(i64::MIN)),
            ("18446744073709551616", float(18_446_744_073_709_551_616.0)),
            ("+18446744073709551615", float(18_446_744_073_709_551_616.0)),
            ("0b-1", int(-1)),
            ("-0b1", int(-1)),
            ("-0b-1", Scalar::String("-0b-1".into())),
            ("0B-1", Scalar::String("0B-1".into())),
            ("._5", Scalar::String("._5".into())),
            (".5_0", Scalar::String(".5_0".into())),
            ("+._5", float(0.5)),
            ("1e400", Scalar::String("1e400".into())),
        ];
        for (text, expected) in table {
            assert_eq!(resolve(text), expected, "{text}");
        }
    }

    /// Keys as sigs.k8s.io/yaml writes them: a number with the digits of 32 bits.
    #[test]
    fn a_key_is_the_string_that_kubectl_makes_of_it() {
        for (text, expected) in [
            ("on", "true"),
            ("08", "8"),
            ("0x10", "16"),
            ("1e3", "1000"),
            ("100000.0", "100000"),
            ("1e6", "1e+06"),
            ("123456789.5", "1.2345679e+08"),
            ("1.5", "1.5"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1.25e-7", "1.25e-07"),
            ("-0.0", "-0"),
            ("-2.50", "-2.5"),
            ("1e300", ".inf"),
        ] {
            assert_eq!(key(resolve(text)).map(|(key, _)| key).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_tag_decides_what_a_text_is() {
        let tagged = |text, tag| tagged(text, &format!("tag:yaml.org,2002:{tag}"));
        let string = |text: &str| Ok(Scalar::String(text.to_owned()));
        assert_eq!(tagged("1", "str"), string("1"));
        assert_eq!(tagged("1", "map"), string("1"));
        assert_eq!(tagged("010", "int"), Ok(int(8)));
        assert_eq!(tagged("1", "float"), Ok(float(1.0)));
        assert_eq!(tagged("", "null"), Ok(Scalar::Null));
        assert_eq!(tagged("QUJ\nD", "binary"), string("ABC"));
        // Not UTF-8.
        assert_eq!(tagged("/w==", "binary"), string("\u{fffd}"));
        for (text, tag) in [("1.5", "int"), ("a", "bool"), ("a", "null"), ("QQ", "binary")] {
            tagged(text, tag).expect_err(text);
        }
    }

    #[test]
    fn a_policy_author_is_asked_where_the_yaml_versions_disagree() {
        for text in ["yes", "n", "on", "0755", "1_000", "0o17"] {
            assert!(versions_disagree(text), "{text}");
        }
        for text in ["true", "0", "0.5", "8", "nvidia", "~", "-1.5"] {
            assert!(!versions_disagree(text), "{text}");
        }
    }
}
