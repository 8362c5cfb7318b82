//! Mistakes in expressions: their types, the names that nothing reads, and conditions that sample pods and nodes meet always
//! or never. Mistakes that a value has by itself are in `values`.

pub(super) mod conditions;
pub(super) mod samples;
pub(super) mod scope;
pub(super) mod shadowed;
pub(super) mod terms;
pub(super) mod trials;
pub(super) mod types;
pub(super) mod unused;
