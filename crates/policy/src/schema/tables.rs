//! Makes the tables of the types: what the API declares of a field, and what this program adds to it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::exclusion_table::EXCLUDED;
use super::refused::{REFUSED, UNDESCRIBED};
use super::types::{AT_MOST_ONE, EXACTLY_ONE, FieldsOf, LIST_KEYS, MERGED, RULES, VARIANTS};
use super::values::{DEFAULTS, KEYS, REQUIRED, SCALARS};
use super::{Default, Field, Format, Object, Overlay, Shape};

/// The declarations of the API: a paragraph for each type, with all its fields. A test writes it.
///
/// | text | meaning |
/// |---|---|
/// | `name!` | the API requires the field |
/// | `text?` | an empty value is none |
/// | `[EnvVar by name]` | a list, with the fields that tell its entries apart |
/// | `{text}` | an object with keys of the user's choice |
/// | `port` | a number or a name |
/// | `any` | a value that this program does not look into |
pub(super) const DECLARED: &str = include_str!("declared.txt");

/// The types that other modules name.
pub(super) struct Tables {
    pub(super) pod: &'static Object,
    pub(super) container: &'static Object,
    pub(super) resources: &'static Object,
    pub(super) variable: &'static Object,
    pub(super) volume: &'static Object,
}

pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let paragraphs = DECLARED.split("\n\n").filter_map(|paragraph| paragraph.split_once(':'));
    let mut types = Types { declared: paragraphs.collect(), made: BTreeMap::new() };
    Tables {
        pod: types.object("Pod"),
        container: types.object("Container"),
        resources: types.object("ResourceRequirements"),
        variable: types.object("EnvVar"),
        volume: types.object("Volume"),
    }
});

struct Types {
    /// The fields of each type.
    declared: BTreeMap<&'static str, &'static str>,
    made: BTreeMap<&'static str, &'static Object>,
}

impl Types {
    fn object(&mut self, variant: &'static str) -> &'static Object {
        if let Some(object) = self.made.get(variant) {
            return object;
        }
        let (name, _) = variant.split_once('@').unwrap_or((variant, ""));
        let declared = self.declared.get(name).copied().unwrap_or_default();
        let mut fields: Vec<Field> =
            declared.split(',').map(|text| self.field(variant, text.trim())).collect();
        add_to_fields(name, &mut fields);
        if name != variant {
            add_to_fields(variant, &mut fields);
            // The declarations say it of the type itself.
            each(UNDESCRIBED, variant, &mut fields, |field, _| field.shape = Shape::Opaque);
        }
        let names = |table: &[(&str, &'static str)]| {
            let names = table.iter().find(|(object, _)| *object == name).map_or("", |(_, names)| names);
            names.split_whitespace().collect::<Vec<_>>().leak()
        };
        let rule = RULES.iter().find(|(objects, _)| has(objects, variant));
        let object = leak(Object {
            name,
            fields: fields.leak(),
            exactly_one_of: names(EXACTLY_ONE),
            at_most_one_of: names(AT_MOST_ONE),
            rule: rule.map(|(_, rule)| *rule),
        });
        self.made.insert(variant, object);
        object
    }

    fn field(&mut self, object: &str, declared: &'static str) -> Field {
        let (name, kind) = declared.split_once(' ').unwrap_or((declared, "any"));
        let optional = kind.strip_suffix('?').map(|kind| (kind, Default::Empty));
        let (kind, default) = optional.unwrap_or((kind, Default::Absent));
        let required = name.ends_with('!');
        let name = name.trim_end_matches('!');
        let shape = self.shape(object, name, kind);
        Field { name, shape, required, default, overlay: Overlay::Settable }
    }

    fn shape(&mut self, object: &str, field: &str, kind: &'static str) -> Shape {
        let within = |open, close| kind.strip_prefix(open)?.strip_suffix(close);
        if let Some(entry) = within('[', ']') {
            let (item, keys) = entry.split_once(" by ").unwrap_or((entry, ""));
            let keys: Vec<&str> = keys.split_whitespace().collect();
            let keys = (!keys.is_empty()).then(|| &*keys.leak());
            return Shape::List { items: leak(self.shape(object, field, item)), keys };
        }
        if let Some(value) = within('{', '}') {
            return Shape::Map { keys: Format::Any, values: leak(self.shape(object, field, value)) };
        }
        match kind {
            "text" => Shape::Text(Format::Any),
            "integer" => Shape::Integer(i64::MIN, i64::MAX),
            "boolean" => Shape::Boolean,
            "quantity" => Shape::Quantity,
            "port" => Shape::PortNumberOrName,
            "any" => Shape::Opaque,
            name => {
                let variant = VARIANTS.iter().find(|row| has(row.0, object) && has(row.1, field));
                let name = variant.map_or(name, |row| row.2);
                let object = self.object(name);
                if has(MERGED, name) { Shape::Object(object) } else { Shape::Atomic(object) }
            }
        }
    }
}

/// Adds to the fields of a type what this program says about them.
fn add_to_fields(object: &str, fields: &mut [Field]) {
    each(SCALARS, object, fields, |field, scalar| field.shape = with_scalar(field.shape, *scalar));
    each(KEYS, object, fields, |field, format| {
        if let Shape::Map { keys, .. } = &mut field.shape {
            *keys = *format;
        }
    });
    each(LIST_KEYS, object, fields, |field, names| {
        if let Shape::List { keys: keys @ None, .. } = &mut field.shape {
            *keys = Some(names);
        }
    });
    each(REQUIRED, object, fields, |field, ()| {
        field.required = true;
        field.default = Default::Absent;
    });
    each(DEFAULTS, object, fields, |field, default| {
        field.required = false;
        field.default = *default;
    });
    each(EXCLUDED, object, fields, |field, exclusions| field.overlay = Overlay::Unless(exclusions));
    for table in [REFUSED, UNDESCRIBED] {
        each(table, object, fields, |field, reason| field.overlay = Overlay::Refused(reason));
    }
}

/// Calls for each field that a row of the table is about.
fn each<T>(
    table: &'static [FieldsOf<T>],
    object: &str,
    fields: &mut [Field],
    change: impl Fn(&mut Field, &'static T),
) {
    for (objects, names, value) in table {
        if has(objects, object) {
            let named = fields.iter_mut().filter(|field| has(names, field.name));
            named.for_each(|field| change(field, value));
        }
    }
}

/// Returns whether a text of a row has the name.
pub(super) fn has(names: &str, name: &str) -> bool {
    names.as_bytes().split(|byte| *byte == b' ').any(|one| one == name.as_bytes())
}

/// The shape with another type of its values.
fn with_scalar(shape: Shape, scalar: Shape) -> Shape {
    match shape {
        Shape::List { items, keys } => Shape::List { items: leak(with_scalar(*items, scalar)), keys },
        Shape::Map { keys, values } => Shape::Map { keys, values: leak(with_scalar(*values, scalar)) },
        _ => scalar,
    }
}

/// The tables are made once and kept.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails for a row with a type or a field that the API does not declare.
    fn check<T>(table: &[FieldsOf<T>]) {
        let declared: BTreeMap<&str, &str> =
            DECLARED.split("\n\n").filter_map(|paragraph| paragraph.split_once(':')).collect();
        let fields_of = |object: &str| {
            let name = object.split('@').next().unwrap();
            let fields = declared.get(name).unwrap_or_else(|| panic!("{object} is no type"));
            let name_of = |field: &'static str| field.trim().split([' ', '!']).next().unwrap();
            fields.split(',').map(name_of).collect::<Vec<&str>>()
        };
        for (objects, names, _) in table {
            let types: Vec<Vec<&str>> = objects.split(' ').map(fields_of).collect();
            for name in names.split(' ') {
                assert!(types.iter().any(|fields| fields.contains(&name)), "{objects}: no field {name}");
            }
            let meant = |fields: &Vec<&str>| fields.iter().any(|field| has(names, field));
            assert!(types.iter().all(meant), "{objects}: {names}: a type has none of the fields");
        }
    }

    #[test]
    fn rows_are_about_fields_that_the_api_declares() {
        check(VARIANTS);
        check(LIST_KEYS);
        check(SCALARS);
        check(KEYS);
        check(REQUIRED);
        check(DEFAULTS);
        check(REFUSED);
        check(UNDESCRIBED);
        check(EXCLUDED);
        for table in [EXACTLY_ONE, AT_MOST_ONE] {
            check(
                &table.iter().map(|(object, fields)| (*object, *fields, ())).collect::<Vec<FieldsOf<()>>>(),
            );
        }
    }
}
