//! What an evaluation, and the loading of a policy, takes grows in proportion to what it reads, whichever part of that grows.

mod dimensions;
mod measure;
mod pods;
mod policies;
