//! Texts in maps and variables, some of which hold a list: with `:` between its entries, of networks, or of objects in
//! JSON. Each edit keeps what the text has, and its layout. Which text is edited, and by whom, is not decided here.

mod entries;
mod list;
mod object_list;

pub(super) use entries::merge as entries;
pub(super) use list::with_entry;
