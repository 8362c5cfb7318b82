//! Mistakes in expressions: their types, the names that nothing reads, and values that stay out of every pod. Mistakes that a value has by itself are in `values`.

pub(super) mod scope;
pub(super) mod shadowed;
pub(super) mod types;
pub(super) mod unused;
