//! The annotations that name the policy which injected a pod, or the policies that skipped it. A pod has one of the
//! two.

use fabric_yaml::each_once;
use serde_json::Value;

use super::cursor::change_annotations;
use super::log::ChangeLog;
use super::outcome::{Mutated, Mutation, Outcome, WITHOUT_FABRIC, recorded_ways};
use super::report::{OrReason, Reason, Warning, WarningKind, with_field_paths};
use super::trace::Author;

/// The API server's limit on the size of annotations, keys and values together.
pub(crate) const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The longest content of [`STAMP`], about.
const MOST_OF_STAMP: usize = 256;

/// The annotation that names the policy which injected a pod, and its content: `<policy>@<12 hex digits>`.
pub const STAMP: &str = "fabric-injector.io/injected";

/// The annotation of a pod that is left alone on purpose: the reason, and the policies in the form of [`STAMP`].
pub const SKIPPED: &str = "fabric-injector.io/skipped";

/// The annotation in which a pod names its provider, or one of the policies in use.
pub const PROVIDER: &str = "fabric-injector.io/provider";

/// The annotation with the kinds of nodes that a pod was injected for: a list of objects with `labels`, `gpus` and
/// `resources`, in JSON.
pub const NODES: &str = "fabric-injector.io/nodes";

/// The annotation with the requests of the pod's claims, in JSON: by the names of each claim, in the pod and that of its
/// claim or template, the device classes of each request with their drivers and the number of devices. A claim that was
/// unknown has none.
pub const CLAIMS: &str = "fabric-injector.io/claims";

/// Records the codes of the warnings that leave the pod on TCP: those that it has first.
pub(crate) fn record_ways(pod: &mut Value, log: &mut ChangeLog) -> OrReason {
    let mut codes: Vec<String> =
        log.warnings.iter().filter(|one| one.leaves_tcp()).map(|one| one.code().to_owned()).collect();
    codes.sort_by_key(|code| !recorded_ways(pod).any(|known| known == code));
    codes = each_once(codes);
    if codes.is_empty() {
        return change_annotations(pod, log, |annotations| {
            annotations.remove(WITHOUT_FABRIC);
            Ok(())
        });
    }
    record_annotation(WITHOUT_FABRIC, &codes.join(","), pod, log)
}

/// The size of the annotations of a pod, without those of these keys.
pub(crate) fn size_without(keys: &[&str], pod: &Value) -> usize {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let others = annotations.filter(|(key, _)| !keys.contains(&key.as_str()));
    others.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

/// Records the nodes that a pod is injected for, or what its claims request. They may have changed when it is injected
/// again.
pub(crate) fn record_annotation(key: &str, found: &str, pod: &mut Value, log: &mut ChangeLog) -> OrReason {
    if size_without(&[key], pod) + key.len() + found.len() + STAMP.len() + MOST_OF_STAMP > MAX_ANNOTATIONS {
        return Err(Reason::AnnotationLimit { key: key.to_owned() });
    }
    log.written_by(|| Author::Stamp);
    change_annotations(pod, log, |annotations| {
        annotations.put(key, Value::from(found));
        Ok(())
    })
}

/// Sets the annotation that names the policy, also on a pod to which the policy has nothing to add: a pod without it
/// was not evaluated.
pub(crate) fn stamp(stamp: &str, pod: &mut Value, log: &mut ChangeLog) -> OrReason {
    log.written_by(|| Author::Stamp);
    change_annotations(pod, log, |annotations| {
        let before = annotations.get(STAMP).and_then(Value::as_str).map(str::to_owned);
        if before.as_deref() != Some(stamp) {
            if let Some(before) = before {
                let kind = WarningKind::Restamped { before, after: stamp.to_owned() };
                annotations.warn(STAMP, kind, "");
            }
            annotations.put(STAMP, Value::from(stamp));
        }
        annotations.remove(SKIPPED);
        // Its nodes were contradicted, and no others decide.
        for key in [NODES, CLAIMS] {
            if annotations.object().get(key).is_some_and(Value::is_null) {
                annotations.remove(key);
            }
        }
        Ok(())
    })
}

/// Marks a pod as left alone on purpose, which the guard accepts.
pub fn skip(
    mut pod: Value,
    mark: String,
    reason: Reason,
    policy: Option<String>,
    mut warnings: Vec<Warning>,
) -> Mutation {
    let mut log = ChangeLog::default();
    let text = format!("{reason} ({mark})");
    let size = size_without(&[STAMP, SKIPPED], &pod) + SKIPPED.len() + text.len();
    let marked = if size > MAX_ANNOTATIONS {
        Err(Reason::AnnotationLimit { key: SKIPPED.to_owned() })
    } else {
        change_annotations(&mut pod, &mut log, |annotations| {
            if annotations.get(SKIPPED).and_then(Value::as_str) != Some(&text) {
                annotations.put(SKIPPED, Value::from(text));
            }
            if let Some(stamp) = annotations.get(STAMP).and_then(Value::as_str).map(str::to_owned) {
                annotations.warn(SKIPPED, WarningKind::InjectedBefore { stamp }, "");
            }
            for key in [STAMP, NODES, CLAIMS, WITHOUT_FABRIC] {
                annotations.remove(key);
            }
            Ok(())
        })
    };
    if let Err(reason) = marked {
        log.undo(&mut pod);
        return Mutation { outcome: Outcome::Unchanged { pod, reason }, policy, warnings };
    }
    let (changes, own) = log.finish();
    warnings.extend(own);
    let warnings = with_field_paths(warnings, &pod);
    let marked = Mutated { pod, stamp: mark, changes };
    Mutation { outcome: Outcome::Skipped { marked, reason }, policy, warnings }
}
