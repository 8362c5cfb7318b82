//! Texts that no kubelet takes: mount paths with a mode, as `docker run` takes one, and media of volumes.

use crate::definition::Definition;
use crate::overlay::{Tree, Write};
use crate::source::{Diagnostic, MODE_IN_MOUNT_PATH, UNKNOWN_ENUM_VALUE, did_you_mean};

use crate::check::writes;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    media(definition, &mut found);
    for write in writes(definition).filter(|write| write.path == ["volumeMounts"]) {
        let written = write.value.get("mountPath").and_then(Tree::source);
        let value = || write.value.text_at(&["mountPath"]).map(str::to_owned);
        let Some(path) = written.or_else(value) else { continue };
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

/// Volume media that no kubelet knows. The API server accepts any.
fn media(definition: &Definition, found: &mut Vec<Diagnostic>) {
    for write in writes(definition).filter(Write::is_volume) {
        let Some(medium) = write.value.text_at(&["emptyDir", "medium"]) else { continue };
        let span = write.value.at(&["emptyDir", "medium"]).map_or(write.value.span, |tree| tree.span);
        if !["", "Memory", "HugePages"].contains(&medium) && !medium.starts_with("HugePages-") {
            let message = format!("no kubelet knows the medium `{medium}`, so the pod does not start");
            let lower = medium.to_lowercase();
            let hint = match lower.strip_prefix("hugepages") {
                Some(_) => did_you_mean(&format!("HugePages{}", &medium["hugepages".len()..])),
                None => "write `Memory`, or `HugePages`".to_owned(),
            };
            found.push(Diagnostic::warning(UNKNOWN_ENUM_VALUE, span, message).hint(hint));
        }
    }
}
