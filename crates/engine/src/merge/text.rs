//! Strings in maps and variables. Some hold a list: with `:` between its entries, of networks, or of objects in JSON.
//! Each edit keeps the content of the string and its layout. The caller decides which string is edited.

mod attachments;
mod entries;
mod list;
mod object_list;

pub(super) use entries::merge as entries;
pub(super) use list::with_entry;
