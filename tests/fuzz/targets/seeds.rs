//! Writes the first inputs of each target below a folder. No target, but built like them.

use libfuzzer_sys as _;

fn main() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fabric_fuzz::seeds::write(&root.canonicalize().unwrap(), std::env::args_os().nth(1).unwrap().as_ref());
}
