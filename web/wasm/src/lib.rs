//! The commands of `fabric-injector`, compiled for a page. It has WASI, whose files are those that the page passes in
//! and whose arguments are those of a command line, so that the page runs the commands themselves.

#[global_allocator]
static ALLOCATOR: fabric_allocator::Allocator = fabric_allocator::Allocator;

/// Runs the program with the arguments that WASI has, and returns its exit status.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> u32 {
    fabric_injector::cli::run().code().into()
}
