//! A tree without some of the values that it sets.

use std::collections::BTreeSet;

use crate::schema::{Field, Object, Shape};

use super::{Content, Entry, Tree};

/// A value that a tree sets: the fields that lead to it, and its name, if it is an entry of a map or list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub path: Vec<&'static str>,
    pub name: Option<String>,
}

/// The tree for an object without the values at these places.
pub fn without(tree: &Tree, object: &'static Object, places: &BTreeSet<&Place>) -> Tree {
    Without { places, path: Vec::new() }.object(tree, object)
}

struct Without<'p> {
    places: &'p BTreeSet<&'p Place>,
    path: Vec<&'static str>,
}

impl Without<'_> {
    fn object(&mut self, tree: &Tree, object: &'static Object) -> Tree {
        let left = tree.entries().iter().filter_map(|entry| {
            let field = object.field(entry.name()?)?;
            self.path.push(field.name);
            let left = self.field(&entry.value, field);
            self.path.pop();
            left.map(|left| entry.with(left))
        });
        Tree::map(tree.span, left.collect())
    }

    /// What is left of a field; `None` if nothing is.
    fn field(&mut self, tree: &Tree, field: &Field) -> Option<Tree> {
        match (&field.shape, &tree.content) {
            (Shape::Object(within), Content::Map(entries)) => {
                let left = self.object(tree, within);
                (entries.is_empty() || !left.is_empty()).then_some(left)
            }
            (Shape::Map { .. }, Content::Map(entries)) => {
                let keeps = |entry: &&Entry| self.keeps(entry.name());
                Some(Tree::map(tree.span, entries.iter().filter(keeps).cloned().collect()))
            }
            (Shape::List { keys: Some(keys), .. }, Content::List(items)) => {
                let keeps = |item: &&Tree| match keys {
                    [key] => self.keeps(item.literal(key)),
                    _ => true,
                };
                let left = items.iter().filter(keeps).cloned().collect();
                Some(Tree { span: tree.span, content: Content::List(left) })
            }
            _ => self.keeps(None).then(|| tree.clone()),
        }
    }

    fn keeps(&self, name: Option<&str>) -> bool {
        !self.places.contains(&Place { path: self.path.clone(), name: name.map(str::to_owned) })
    }
}
