//! Reading a YAML tree field by field. Every error has its position.

use fabric_yaml::scalar::{self, Scalar};
use fabric_yaml::{Content, Entry, Node, Span, Text};

use crate::keys::{self, Key, Map};
use crate::schema::Format;

use super::diagnostic::{AMBIGUOUS_SCALAR, Diagnostic, MISSING_KEY, TOO_COSTLY, UNKNOWN_KEY, WRONG_TYPE};
use super::problems::{Checked, Problems, Reported, all};
use super::suggestion::{closest, did_you_mean, suggest};

/// The fields of one map, and the problems of those that were read. [`Fields::finish`] fails for these, and for fields
/// that were not read.
pub struct Fields<'n> {
    map: &'static Map,
    span: Span,
    left: Vec<&'n Entry<Node>>,
    /// The keys that the map can have.
    known: Vec<&'static str>,
    problems: Problems,
}

impl<'n> Fields<'n> {
    pub fn read(node: &'n Node, map: &'static Map) -> Checked<Self> {
        let mut problems = Problems::default();
        let with_keys = |error: Diagnostic| {
            let keys = map.names().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            error.hint(format!("write its keys below it, each with a value: {keys}"))
        };
        let entries = self::map(node, map.what).map_err(with_keys)?.iter();
        let left = entries.filter(|entry| problems.take(string_key(entry)).is_some()).collect();
        Ok(Self { map, span: node.span, left, known: map.names().collect(), problems })
    }

    /// The place for errors about missing keys, instead of the map's first character.
    pub(crate) fn named_at(self, span: Span) -> Self {
        Self { span, ..self }
    }

    /// Restricts the keys to those that fit a value of the map.
    pub(crate) fn retain(&mut self, has: impl Fn(&str) -> bool) {
        self.known.retain(|key| has(key));
    }

    /// The value of a field, which is read elsewhere.
    pub fn node(&mut self, key: &'static str) -> Option<&'n Node> {
        debug_assert!(self.known.contains(&key), "the table of {} lacks `{key}`", self.map.what);
        let at = self.left.iter().position(|entry| entry.key == key)?;
        Some(&self.left.swap_remove(at).value)
    }

    /// Reads a field, if there is one.
    pub fn optional<T, E: Into<Problems>>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'n Node) -> Result<T, E>,
    ) -> Result<Option<T>, Reported> {
        self.node(key).map(|node| self.take(read(node))).transpose()
    }

    pub fn required<T, E: Into<Problems>>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'n Node) -> Result<T, E>,
    ) -> Result<T, Reported> {
        let can_be = |known: &Key| known.required || self.map.some_of.contains(&key);
        debug_assert!(self.map.key(key).is_some_and(can_be), "`{key}` is not required");
        if let Some(node) = self.node(key) {
            return self.take(read(node));
        }
        // Most often it is misspelled. Its value is read, for the problems in it.
        if let Some(at) = self.misspelt(key) {
            let entry = self.left.swap_remove(at);
            self.problems.add(unknown(self.map.what, entry, || did_you_mean(key)));
            let _ = self.take(read(&entry.value));
        } else {
            let message = format!("{} has no `{key}`", self.map.what);
            let missing = Diagnostic::error(MISSING_KEY, self.span, message);
            self.problems.add(missing.hint(format!("add `{key}:`")));
        }
        Err(Reported)
    }

    /// Keeps the problems of a value.
    pub fn take<T, E: Into<Problems>>(&mut self, result: Result<T, E>) -> Result<T, Reported> {
        self.problems.take(result).ok_or(Reported)
    }

    /// Returns whether a field that is not known has nearly this name.
    pub(crate) fn misspells(&self, key: &str) -> bool {
        self.misspelt(key).is_some()
    }

    fn misspelt(&self, key: &str) -> Option<usize> {
        let is_unknown = |entry: &Entry<Node>| !self.known.contains(&entry.key.as_str());
        self.left.iter().position(|entry| is_unknown(entry) && closest(&entry.key, [key]).is_some())
    }

    /// Fails for the problems, and for the fields that were not read.
    pub fn finish(mut self) -> Checked<()> {
        for entry in std::mem::take(&mut self.left) {
            let known = self.known.iter().copied();
            // Only a parameter has keys that depend on another one.
            let of_type =
                "bounds are for numbers, quantities and lists, and `enum` is for strings: correct the `type`";
            let depends = self.map.key(&entry.key).map(|_| of_type.to_owned());
            let hint = || depends.unwrap_or_else(|| suggest(&entry.key, known));
            self.problems.add(unknown(self.map.what, entry, hint));
        }
        self.problems.result(())
    }
}

/// An error for a key that is not known, with a hint for one that belongs nowhere else.
pub(crate) fn unknown(what: &str, entry: &Entry<Node>, hint: impl FnOnce() -> String) -> Diagnostic {
    let message = format!("{what} has no field `{}`", entry.key);
    let misplaced = keys::hint_for_misplaced(what, &entry.key);
    Diagnostic::error(UNKNOWN_KEY, entry.span, message).hint(misplaced.map_or_else(hint, str::to_owned))
}

/// Fails unless `name` is the name of an environment variable. The text of the node may have an ending after it.
pub(crate) fn variable_name(node: &Node, name: &str, hint: &str) -> Result<(), Diagnostic> {
    let fits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits {
        return Ok(());
    }
    let written = node.text().map_or(name, |text| text.text);
    Err(Diagnostic::new(node.span, format!("`{written}` is not the name of a variable")).hint(hint))
}

/// The limit on the entries of a list or map, and on the values of rules: loading compares each with each other one.
pub(crate) const MOST: usize = 2_000;

/// Fails for more entries of something than it may have. `span` is the place of all of them.
pub(crate) fn check_count(count: usize, most: usize, what: &str, span: Span) -> Result<(), Diagnostic> {
    if count <= most {
        return Ok(());
    }
    let message = format!("{what}: {count} entries, more than {most}");
    Err(Diagnostic::error(TOO_COSTLY, span, message)
        .hint("look values up in `machines` or in a map, or write several policies"))
}

/// The entries of a map, at most `MOST`.
pub fn entries<'n>(node: &'n Node, what: &str) -> Checked<&'n [Entry<Node>]> {
    let entries = rows(node, what)?;
    check_count(entries.len(), MOST, what, node.span)?;
    Ok(entries)
}

/// The entries of a map that is only looked up, of which there can be any number.
pub(crate) fn rows<'n>(node: &'n Node, what: &str) -> Checked<&'n [Entry<Node>]> {
    let entries = map(node, what)?;
    all::<_, _, ()>(entries.iter().map(string_key))?;
    Ok(entries)
}

/// The entries of a map whose keys are read elsewhere.
pub(crate) fn map<'n>(node: &'n Node, what: &str) -> Result<&'n [Entry<Node>], Diagnostic> {
    match &node.content {
        Content::Map(entries) => Ok(entries),
        _ => Err(expected(node, &format!("{what} to be a map"))),
    }
}

/// Fails for a key that YAML reads as another type: `on` would become `true`.
pub(crate) fn string_key(entry: &Entry<Node>) -> Result<(), Diagnostic> {
    if !entry.converted {
        return Ok(());
    }
    Err(Diagnostic::error(AMBIGUOUS_SCALAR, entry.span, format!("YAML reads this key as `{}`", entry.key))
        .hint("put it in quotes"))
}

/// The items of a list, at most `MOST`.
pub fn items<'n>(node: &'n Node, what: &str) -> Result<&'n [Node], Diagnostic> {
    let items = list(node, what)?;
    check_count(items.len(), MOST, what, node.span).map(|()| items)
}

/// The items of a list of any length.
pub fn list<'n>(node: &'n Node, what: &str) -> Result<&'n [Node], Diagnostic> {
    match &node.content {
        Content::List(items) => Ok(items),
        _ => Err(expected(node, &format!("{what} to be a list"))),
    }
}

pub fn text<'n>(node: &'n Node, what: &str) -> Result<&'n str, Diagnostic> {
    match &node.content {
        Content::Scalar { value: Scalar::String(text), .. } => Ok(text),
        Content::Scalar { value: Scalar::Bool(_) | Scalar::Number(_), plain: true, .. } => {
            Err(expected(node, &format!("{what} to be a string")).hint("put it in quotes"))
        }
        _ => Err(expected(node, &format!("{what} to be a string"))),
    }
}

/// Returns whether a text can be the name of a policy or of a provider: a DNS label.
pub fn is_policy_name(text: &str) -> bool {
    Format::DnsLabel.check(text).is_ok()
}

/// A DNS label: it becomes part of an annotation.
pub(crate) fn dns_label(node: &Node, what: &str) -> Result<String, Diagnostic> {
    name(node, what, is_policy_name, "use lower-case letters, digits and hyphens, at most 63")
}

/// A name of a certain form.
pub(crate) fn name(
    node: &Node,
    what: &str,
    is_valid: impl Fn(&str) -> bool,
    hint: &str,
) -> Result<String, Diagnostic> {
    let text = text(node, what)?;
    let message = || format!("{what} is `{text}`");
    is_valid(text).then(|| text.to_owned()).ok_or_else(|| Diagnostic::new(node.span, message()).hint(hint))
}

/// The meaning of one of the words that a key can have.
pub(crate) fn one_of<T, const N: usize>(
    node: &Node,
    key: &str,
    words: [&str; N],
    meanings: [T; N],
) -> Result<T, Diagnostic> {
    let written = text(node, &format!("`{key}`"))?;
    let known = words.into_iter().zip(meanings).find(|(word, _)| *word == written);
    known.map(|(_, meaning)| meaning).ok_or_else(|| {
        Diagnostic::new(node.span, format!("`{key}` is `{written}`")).hint(suggest(written, words))
    })
}

/// A string with its place.
pub(crate) fn located<'n>(node: &'n Node, what: &str) -> Result<Text<'n>, Diagnostic> {
    text(node, what).map(|text| node.text().unwrap_or(Text::on_line(text, node.span)))
}

/// A list of strings.
pub(crate) fn texts(node: &Node, what: &str) -> Checked<Vec<String>> {
    all(items(node, what)?.iter().map(|item| text(item, what).map(str::to_owned)))
}

/// Fails for a plain scalar that YAML 1.1 and YAML 1.2 read differently.
///
/// A tree has the value and not the spelling, so the length of the scalar decides: `true` and `false` come from words
/// of four or five letters.
pub(crate) fn unambiguous(node: &Node) -> Result<(), Diagnostic> {
    let Content::Scalar { value, plain: true, .. } = &node.content else { return Ok(()) };
    let spelled_out = match value {
        Scalar::Bool(value) => node.span.length == if *value { 4 } else { 5 },
        Scalar::Number(number) => {
            let shortest = number.to_string();
            let length = node.span.length;
            match number.as_f64().filter(|_| number.is_f64()) {
                // `08` and `1e3` are strings for some readers. A fraction may lack its first or last digits.
                Some(float) => float.fract() != 0.0 || length >= shortest.len(),
                None => length <= shortest.len() || scalar::resolve(&shortest) != *value,
            }
        }
        Scalar::String(text) => !scalar::is_ambiguous(text),
        Scalar::Null => true,
    };
    if spelled_out {
        return Ok(());
    }
    let message = format!("YAML 1.1 and YAML 1.2 do not agree that this is {}", node.describe());
    let hint = match value {
        Scalar::Bool(value) => format!("write `{value}`, or put it in quotes if it is text"),
        Scalar::Number(number) => {
            let number = number.to_string();
            let decimal = number.trim_end_matches(".0");
            format!("write the decimal number `{decimal}`, or put it in quotes if it is text")
        }
        _ => "write `true`, `false` or a decimal number, or put it in quotes".to_owned(),
    };
    Err(Diagnostic::error(AMBIGUOUS_SCALAR, node.span, message).hint(hint))
}

/// An error with the expected kind of value, the value that was found, and how to write the expected one.
pub fn expected(node: &Node, what: &str) -> Diagnostic {
    wrong_type(node.span, what, &node.describe())
}

/// The same error about a value that another tree than that of YAML has.
pub(crate) fn wrong_type(span: Span, what: &str, found: &str) -> Diagnostic {
    let diagnostic = Diagnostic::error(WRONG_TYPE, span, format!("expected {what}, found {found}"));
    let how = [
        ("map", "write `key: value` on lines of their own, indented"),
        ("list", "write `- item` on lines of their own, or `[one, two]`"),
        ("string", "write text, in quotes if it looks like a number or a boolean"),
        ("`true` or `false`", "write one of them, without quotes"),
        ("number", "write digits without quotes"),
        ("quantity", "write for example `64Gi`, or `100m` for cpu"),
    ];
    match how.iter().find(|(kind, _)| what.contains(kind)) {
        // It is one, and out of bounds.
        Some(("number", _)) if found.starts_with("the number") => diagnostic,
        Some(("string", _)) if found == "a list" => {
            diagnostic.hint("write one text in place of the list, such as `\"one,two\"`")
        }
        Some((_, how)) => diagnostic.hint(*how),
        None => diagnostic,
    }
}
