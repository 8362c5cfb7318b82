//! The engine and the policies through the library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

/// That of the program, which measures the memory of an evaluation.
#[global_allocator]
static ALLOCATOR: fabric_allocator::Allocator = fabric_allocator::Allocator;

mod api_server;
mod clouds;
mod corpus;
mod cost;
mod devices;
mod expressions;
mod golden;
mod growth;
mod helpers;
mod inspection;
mod language;
mod named_objects;
mod networks;
mod node_choice;
mod nodes;
mod properties;
mod provider_knowledge;
mod ranks;
mod registration;
mod samples;
mod schema;
mod second_call;
mod settings;
mod unusual_pods;
mod written_policies;
