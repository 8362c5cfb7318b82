//! The annotations of an earlier injection that the pod contradicts, as in a manifest that was copied for other nodes.

use fabric_policy::matcher::Match;
use fabric_policy::{PodContext, Policy};
use serde_json::Value;

use super::PolicySet;
use super::providers::{selected, stamped};
use crate::analysis::contradicted_label;
use crate::record::{Author, ChangeLog, Warning, WarningKind, change_annotations};
use crate::{CLAIMS, NODES, PROVIDER, STAMP};

impl PolicySet {
    /// Makes the annotations of an earlier injection `null`, with a warning, if the pod contradicts them. They keep their
    /// places for the values of this injection.
    pub(super) fn clear_contradicted(&self, pod: &mut Value, context: &PodContext, log: &mut ChangeLog) {
        let annotations = &pod["metadata"]["annotations"];
        if ![STAMP, NODES, CLAIMS].iter().any(|key| annotations[key].is_string()) {
            return;
        }
        let Some(kind) = self.contradiction(pod, context) else { return };
        log.warnings.push(Warning::of_pod(kind));
        log.written_by(|| Author::Stamp);
        // Only a pod with annotations contradicts them.
        let _ = change_annotations(pod, log, |annotations| {
            for key in [STAMP, NODES, CLAIMS] {
                if annotations.get(key).is_some() {
                    annotations.put(key, Value::Null);
                }
            }
            Ok(())
        });
    }

    fn contradiction(&self, pod: &Value, context: &PodContext) -> Option<WarningKind> {
        if !pod["metadata"]["annotations"][STAMP].is_string() {
            let (selected, recorded) = ("any".to_owned(), format!("a pod with `{STAMP}`"));
            return Some(WarningKind::AnnotationContradicted { selected, recorded });
        }
        let matches = |policy: &&Policy| policy.definition().matcher.test(pod, context) == Match::Yes;
        let matching: Vec<&Policy> = self.policies.iter().filter(matches).collect();
        let before = stamped(pod, &matching);
        if let Some((selected, recorded)) = contradicted_label(before, pod, context) {
            let recorded = format!("nodes with {recorded}");
            return Some(WarningKind::AnnotationContradicted { selected, recorded });
        }
        let provider = before.filter(|_| self.several_providers)?.definition().provider.as_str();
        if pod["metadata"]["annotations"][PROVIDER].is_string() {
            return None;
        }
        let others = selected(&matching, &pod["spec"], context)?;
        (!others.contains(provider)).then(|| {
            let others: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
            let selected = format!("a label of {}", others.join(", "));
            WarningKind::AnnotationContradicted { selected, recorded: format!("nodes of `{provider}`") }
        })
    }
}
