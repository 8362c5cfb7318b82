//! Nothing of a pod is lost or reordered.

use super::lost;
use super::pair::{Pair, Verdict, fail, path_class};

pub(crate) fn nothing_is_lost(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    let replaced = pair.first.warnings.iter().filter(|warning| warning.code == "replaced");
    match lost::unexplained(&pair.pod, after, replaced.map(|warning| warning.path.as_str())) {
        Some((place, what)) => fail(path_class(&place.join("/")), format!("{}: {what}", place.join("/"))),
        None => Ok(()),
    }
}
