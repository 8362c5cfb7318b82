//! Mount paths with a mode, as `docker run` takes one.

use crate::definition::Definition;
use crate::overlay::Tree;
use crate::source::{Diagnostic, MODE_IN_MOUNT_PATH};

use crate::check::writes;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for write in writes(definition).filter(|write| write.path == ["volumeMounts"]) {
        let Some(path) = write.value.get("mountPath").and_then(Tree::source) else { continue };
        let Some((inner, mode)) = path.rsplit_once(':') else { continue };
        let options = ["ro", "rw", "z", "Z", "rshared", "rslave", "rprivate"];
        if !mode.split(',').all(|option| options.contains(&option)) {
            continue;
        }
        let message = format!("the mount path `{path}` ends in `:{mode}`, which becomes part of the path");
        let hint = if mode.contains("ro") {
            format!("write `mountPath: {inner}` and `readOnly: true`")
        } else {
            format!("write `mountPath: {inner}`")
        };
        found.push(Diagnostic::warning(MODE_IN_MOUNT_PATH, write.span(), message).hint(hint));
    }
    found
}
