//! Mistakes in expressions: their types and the names that nothing reads. Mistakes that a value has by itself are in
//! `values`.

pub(super) mod scope;
pub(super) mod types;
pub(super) mod unused;
