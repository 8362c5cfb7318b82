//! Strings that hold more than one value: annotations, lists with a separator, and lists of objects in JSON or YAML.
//! Each edit keeps what the string has, and its layout. Which string is edited, and by whom, is not decided here.

mod annotations;
mod list;
mod object_list;

pub(super) use annotations::merge as annotations;
pub(super) use list::with_entry;
