//! Lists the built-in policies: every YAML file in the folder `policies`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=policies");
    let mut names = Vec::new();
    for entry in fs::read_dir("policies")? {
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
        let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/policies/{name}.yaml\"))");
        writeln!(list, "    BuiltIn {{ name: \"{name}\", text: {text} }},")?;
    }
    list.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("policies.rs"), list)?;
    Ok(())
}
