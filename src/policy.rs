//! p
pub mod diagnostic;
pub(crate) mod expression;
pub(crate) mod schema;
