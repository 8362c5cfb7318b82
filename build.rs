//! Lists the files that are compiled into the program: the policies in the folder `policies`, and their parts. Compiles the
//! code that runs before Rust's runtime.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=policies");
    for (folder, list) in [("policies", "policies.rs"), ("policies/parts", "parts.rs")] {
        fs::write(Path::new(&env::var("OUT_DIR")?).join(list), listed(folder)?)?;
    }
    if env::var("CARGO_CFG_TARGET_FAMILY")? == "wasm" {
        return Ok(());
    }
    let code = "src/closed_output.c";
    println!("cargo:rerun-if-changed={code}");
    // As an object: of a library, the linker takes only what something refers to.
    for object in cc::Build::new().file(code).try_compile_intermediates()? {
        println!("cargo:rustc-link-arg-bins={}", object.display());
    }
    Ok(())
}

/// The YAML files of a folder, sorted by name.
fn listed(folder: &str) -> Result<String, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    let mut list = String::from("&[\n");
    for name in names {
        let file = format!("{folder}/{name}.yaml");
        let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{file}\"))");
        writeln!(list, "    BuiltIn {{ name: \"{name}\", file: \"{file}\", text: {text} }},")?;
    }
    list.push(']');
    Ok(list)
}
