//! The `fabric-injector` command.

use std::process::ExitCode;

/// Injecting a pod makes many small allocations; the system's allocator takes a third of the time for them.
#[global_allocator]
static ALLOCATOR: fabric_allocator::Allocator = fabric_allocator::Allocator;

fn main() -> ExitCode {
    fabric_injector::cli::run().code().into()
}
