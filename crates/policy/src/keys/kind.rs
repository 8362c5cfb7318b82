//! The form of the tables of keys.

use crate::schema::Format;

/// A map of the language, which has no other keys.
#[derive(Debug)]
pub struct Map {
    /// Its name in messages: "a rule", "`spec`".
    pub(crate) what: &'static str,
    pub keys: &'static [Key],
    /// Keys, one of which is required.
    pub some_of: &'static [&'static str],
    /// Keys that exclude each other.
    pub exclusive: &'static [[&'static str; 2]],
    /// If true, the base of the file can have some of the keys.
    pub is_extended: bool,
}

#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// The description, in one sentence.
    pub description: &'static str,
}

/// The values of a key.
#[derive(Debug)]
pub enum Kind {
    /// Anything but `null`.
    Any,
    /// A map with any keys.
    Object,
    Constant(&'static str),
    Text(Format),
    /// Text that a pattern matches, and the form in words.
    Like(&'static str, &'static str),
    /// Text other than these.
    Except(&'static Kind, &'static [&'static str]),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name that an expression can read, other than these and the built-in names.
    Identifier(&'static [&'static str]),
    /// A condition: CEL without `${` and `}`.
    Expression,
    /// A whole number of at least this.
    Count(u64),
    /// A number or a quantity.
    Amount,
    /// A list with at least this number of items.
    List(&'static Kind, usize),
    /// A map from keys to values, with at least this number of them.
    Map(&'static Kind, &'static Kind, usize),
    Either(&'static [Kind]),
    Fields(&'static Map),
    /// The `spec` of a policy, of an extension or of a part.
    Spec,
    /// A parameter; in an extension, its value, too.
    Parameter,
    /// The value of a variable.
    Variable,
    /// Environment variables by their names.
    Env,
    /// The additions of a rule to a container.
    Container,
    /// The additions of a rule to a pod.
    Pod,
    /// Amounts of resources, as a rule adds them.
    Resources,
    /// Annotations, as a rule adds them.
    Annotations,
    /// A part of a pod in a case, with at least this number of fields.
    PartOfPod(usize),
}

impl Map {
    pub const fn new(what: &'static str) -> Self {
        Self { what, keys: &[], some_of: &[], exclusive: &[], is_extended: false }
    }

    #[must_use]
    pub const fn keys(mut self, keys: &'static [Key]) -> Self {
        self.keys = keys;
        self
    }

    #[must_use]
    pub const fn some_of(mut self, keys: &'static [&'static str]) -> Self {
        self.some_of = keys;
        self
    }

    #[must_use]
    pub const fn exclusive(mut self, keys: &'static [[&'static str; 2]]) -> Self {
        self.exclusive = keys;
        self
    }

    pub(crate) const fn extended(mut self) -> Self {
        self.is_extended = true;
        self
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.keys.iter().map(|key| key.name)
    }

    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

pub const fn required(name: &'static str, kind: Kind, description: &'static str) -> Key {
    Key { name, kind, required: true, description }
}

pub const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Key {
    Key { name, kind, required: false, description }
}
