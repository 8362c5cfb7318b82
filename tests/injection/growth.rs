//! What a command takes grows in proportion to what it reads, whichever part of that grows.

mod policies;
