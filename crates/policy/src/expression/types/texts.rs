//! The values that a string may have.

use std::collections::BTreeSet;

use crate::schema::Format;

/// The values of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Texts {
    Any,
    /// Any without capital letters.
    LowerCase,
    /// Any of this form, or none.
    Of(Format),
    These(BTreeSet<String>),
}

/// The limit on distinct strings.
const MAX_TEXTS: usize = 200;

impl Texts {
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(mut one), Self::These(other)) => {
                one.extend(other);
                if one.len() > MAX_TEXTS { Self::Any } else { Self::These(one) }
            }
            (Self::Of(one), Self::Of(other)) if one == other => Self::Of(one),
            (Self::Of(format), other @ Self::These(_)) | (other @ Self::These(_), Self::Of(format)) if matches!(&other, Self::These(texts) if texts.iter().all(|text| has(format, text))) => {
                Self::Of(format)
            }
            (one, other) if one.are_lower_case() && other.are_lower_case() => Self::LowerCase,
            _ => Self::Any,
        }
    }

    fn are_lower_case(&self) -> bool {
        match self {
            Self::Any | Self::Of(_) => false,
            Self::LowerCase => true,
            Self::These(texts) => texts.iter().all(|text| is_lower_case(text)),
        }
    }

    /// Returns whether both may be the same text.
    pub(crate) fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Of(format), Self::These(texts)) | (Self::These(texts), Self::Of(format)) => {
                texts.iter().any(|text| has(*format, text))
            }
            (Self::Any | Self::Of(_), _)
            | (_, Self::Any | Self::Of(_))
            | (Self::LowerCase, Self::LowerCase) => true,
            (Self::LowerCase, Self::These(texts)) | (Self::These(texts), Self::LowerCase) => {
                texts.iter().any(|text| is_lower_case(text))
            }
            (Self::These(one), Self::These(other)) => !one.is_disjoint(other),
        }
    }

    /// The text, if it is known.
    pub(crate) fn one(&self) -> Option<&str> {
        match self {
            Self::These(texts) if texts.len() == 1 => texts.first().map(String::as_str),
            _ => None,
        }
    }
}

/// Returns whether a text has a form, or is empty, as that of an absent field can be.
fn has(format: Format, text: &str) -> bool {
    text.is_empty() || format.check(text).is_ok()
}

pub(crate) fn is_lower_case(text: &str) -> bool {
    text.to_lowercase() == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_meet_if_one_value_is_in_both() {
        let these = |texts: &[&str]| {
            Texts::These(texts.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>())
        };
        assert!(these(&["a", "b"]).meet(&these(&["b"])));
        assert!(!these(&["fail"]).meet(&these(&["Fail"])));
        assert!(!Texts::LowerCase.meet(&these(&["P5"])));
        assert!(Texts::LowerCase.meet(&these(&["P5", "p5"])));
        assert_eq!(Texts::LowerCase.or(these(&[""])), Texts::LowerCase);
        assert_eq!(Texts::LowerCase.or(these(&["A"])), Texts::Any);
        let names = Texts::Of(Format::DnsLabel);
        assert!(names.meet(&these(&["Research", "research"])) && names.meet(&these(&[""])));
        assert!(!names.meet(&these(&["Research"])));
        assert_eq!(names.clone().or(these(&[""])), names);
        assert_eq!(names.or(these(&["A"])), Texts::Any);
    }
}
