//! The streams about which this program and kubectl may differ: one of them refuses them.

/// What this program refuses and kubectl reads, by a part of the message.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "a character that ends a line, or is none, for some readers",
        &[
            "found U+0",
            "found a byte order mark",
            "found a carriage return",
            "found a second byte order mark",
            "found the control character",
        ],
    ),
    ("`---` with a comment directly after it", &["kubectl starts a document here"]),
    (
        "a tab where kubectl accepts none, or only within a text",
        &["found a tab in the indentation", "tab cannot be used as indentation"],
    ),
    ("a document that is a block scalar", &["this document is one block of text"]),
    (
        "a block scalar with a line at the column of its key",
        &["simple key expect", "wrongly indented line in block scalar"],
    ),
    ("a text within brackets that goes on in a line that is not indented", &["invalid indentation"]),
    (
        "signs within brackets",
        &[
            "within brackets, YAML readers differ",
            "plain scalar cannot start with '-'",
            "illegal placement of ':'",
            "':' may not precede",
        ],
    ),
    (
        "the name of an anchor or a tag",
        &["not every YAML reader accepts the name", "scanning a tag", "parsing a tag"],
    ),
    (
        "`<<` with a tag, or after a key that it has",
        &["differ about a `…` with a tag", "which is also before it"],
    ),
    ("`<<` with a list by an alias", &["merges a map, or a list of maps"]),
    ("`!!binary` that is no text", &["is not valid Base0"]),
    (
        "half of a surrogate pair in JSON",
        &["kubectl does not know the escape", "found invalid Unicode character escape code"],
    ),
    ("a key that JSON does not have", &["is a number that JSON cannot hold", "a key is empty or"]),
    (
        "a key that is a list, a map or an alias",
        &["the key of a map must be a string", "found unknown anchor"],
    ),
    (
        "a key within brackets with a comment or a line after it",
        &["comments must be separated", "a key and its colon"],
    ),
];

pub(crate) const AFTER_THE_END: &str =
    "refused: text after the end of a document, which kubectl does not read";

/// What this program reads and kubectl refuses, by a part of kubectl's message: kubectl says so itself, and writes nothing.
const ACCEPTED: &[(&str, &[&str])] = &[
    ("`...` before a document", &["did not find expected node content"]),
    (
        "a directive, which kubectl cuts off with the `---` after it",
        &[
            "did not find expected <document start>",
            "directive",
            "found unexpected non-alphabetical character",
            "found incompatible YAML document",
        ],
    ),
    ("a text directly after `---`", &["invalid Yaml document separator", "found unexpected end of stream"]),
    ("comments and markers between JSON values", &["invalid character", "json: offset"]),
];

fn class(classes: &[(&'static str, &[&str])], message: &str) -> Option<&'static str> {
    classes.iter().find(|(_, parts)| parts.iter().any(|part| message.contains(part))).map(|(class, _)| *class)
}

pub(crate) fn refused(message: &str) -> Option<&'static str> {
    class(REFUSED, message)
}

/// The part of a stream before the place of an error, if that can be about text after the end of a document, which kubectl
/// does not read. kubectl reads the same values from that part, then.
pub(crate) fn before<'t>(stream: &'t str, error: &str) -> Option<&'t str> {
    let after = ["not valid YAML: ", "found a second document", "a JSON value ends before this text"];
    after.iter().any(|part| error.contains(part)).then_some(())?;
    let (line, rest) = error.strip_prefix("line ")?.split_once(", column ")?;
    let (column, _) = rest.split_once(':')?;
    let lines: usize = stream.split_inclusive('\n').take(line.parse::<usize>().ok()? - 1).map(str::len).sum();
    // Columns do not count a byte order mark.
    let mark = usize::from(stream[lines..].starts_with('\u{feff}'));
    let column = column.parse::<usize>().ok()? - 1 + mark;
    let length = stream[lines..].char_indices().nth(column).map_or(stream.len() - lines, |(at, _)| at);
    Some(&stream[..lines + length])
}

pub(crate) fn accepted(message: &str) -> Option<&'static str> {
    class(ACCEPTED, message)
}
