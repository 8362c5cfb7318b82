//! Names of parameters and variables.

use fabric_yaml::{Entry, Node, Span};

use crate::source::{DUPLICATE_NAME, Diagnostic};

/// The literals, types and reserved words of the CEL specification, which an expression does not read as a name.
const CEL_WORDS: &str = "as bool break bytes const continue double else false for function if import in int let list \
                         loop map namespace null null_type package return string true type uint var void while";

/// A name that an expression can read.
pub(super) fn identifier(name: &str, span: Span) -> Result<(), Diagnostic> {
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_word = CEL_WORDS.split(' ').any(|word| word == name);
    if fits && !is_word {
        return Ok(());
    }
    let message = format!("`{name}` cannot be a name in an expression");
    let hint = if is_word {
        "it is a reserved word of CEL: choose another name"
    } else {
        "use letters, digits and `_`, a letter first"
    };
    Err(Diagnostic::new(span, message).hint(hint))
}

pub(super) fn taken(entry: &Entry<Node>) -> Diagnostic {
    Diagnostic::error(DUPLICATE_NAME, entry.span, format!("the name `{}` is taken", entry.key))
        .hint("choose another name; the value of a parameter stands under `parameters`")
}
