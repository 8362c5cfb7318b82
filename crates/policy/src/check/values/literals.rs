//! Mount paths with a mode, as `docker run` takes one.

use crate::definition::Definition;
use crate::interpolation::text_of;
use crate::overlay::{Element, Template, Written};
use crate::source::{Diagnostic, MODE_IN_MOUNT_PATH};

use crate::check::writes;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for placed in writes(definition).filter(|placed| placed.write.path == ["volumeMounts"]) {
        let Written::Entry(Element(mount)) = placed.write.value else { continue };
        let path = match mount.field("mountPath") {
            Some(Template::Computed(path, _)) => path.source(),
            Some(Template::Constant(path)) => text_of(&path),
            _ => continue,
        };
        let Some((inner, mode)) = path.rsplit_once(':') else { continue };
        if !mode
            .split(',')
            .all(|option| ["ro", "rw", "z", "Z", "rshared", "rslave", "rprivate"].contains(&option))
        {
            continue;
        }
        let message = format!("the mount path `{path}` ends in `:{mode}`, which becomes part of the path");
        let hint = if mode.contains("ro") {
            format!("write `mountPath: {inner}` and `readOnly: true`")
        } else {
            format!("write `mountPath: {inner}`")
        };
        let span = definition.place_of(&placed);
        found.push(Diagnostic::warning(MODE_IN_MOUNT_PATH, span, message).hint(hint));
    }
    found
}
