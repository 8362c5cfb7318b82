//! The answer to a review of a workload: the findings as warnings.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use fabric_engine::admission::{Answer, BadReview, Mode, WorkloadReview};
use fabric_engine::policy_set::PolicySet;
use fabric_policy::PodContext;
use fabric_policy::work::{Ended, Work};
use fabric_workloads::manifest::{Document, RawDocument, Wanted};
use fabric_yaml::json::RequestObject;

use super::{Finding, Level, lint};

/// The limit on findings in an answer. `lint` shows all.
const MOST: usize = 6;

/// Answers a review of a workload. `context` holds the caller's facts about its pods.
pub fn answer(
    policies: &PolicySet,
    mode: Mode,
    body: &[u8],
    context: &PodContext,
) -> Result<Answer, BadReview> {
    context.count_reading();
    let mut review = WorkloadReview::<RequestObject>::read(body)?;
    let RequestObject { value: workload, bytes } = review.take_object().unwrap_or_default();
    context.takes_memory(bytes);
    // A panic on one workload must not close a connection that serves other requests.
    let found = catch_unwind(AssertUnwindSafe(|| findings(policies, workload, review.namespace(), context)));
    let Ok(found) = found else { return Ok(review.unadvised("panic", mode)) };
    if let Some(ended) = context.work.as_ref().and_then(Work::ended) {
        let reason = if ended == Ended::Stopped { "overload" } else { "cost" };
        return Ok(review.unadvised(reason, mode));
    }
    let codes = found.iter().map(|finding| finding.code.clone()).collect();
    Ok(review.answer(None, warnings(&found, mode), codes, mode))
}

/// The findings for the person who applies the workload. Notes are none: with `--warnings-as-errors`, each warning fails
/// kubectl.
fn findings(
    policies: &PolicySet,
    workload: Value,
    namespace: Option<&str>,
    context: &PodContext,
) -> Vec<Finding> {
    let work = context.work.as_ref();
    let (nodes, claims) = (context.nodes.as_ref(), context.claims.as_ref());
    let wanted = Wanted { namespace, nodes, claims, work, checks: work, ..Wanted::default() };
    let found =
        lint(policies, &mut Document::new(workload), &RawDocument::new(Vec::new()), wanted, |_, _| ());
    let mut found = found.unwrap_or_default();
    // The runtime of a `TrainJob` is not in the review.
    found.retain(|finding| finding.runtime.is_none() && finding.level > Level::Note);
    found
}

fn warnings(found: &[Finding], mode: Mode) -> Vec<String> {
    let audit = if mode == Mode::Audit { "audit mode, no pod is changed: " } else { "" };
    let shown = found.iter().take(MOST).map(|finding| format!("{audit}{}", finding.message));
    let left = found.len().saturating_sub(MOST);
    let rest = (left > 0).then(|| format!("and {left} more, which `fabric-injector lint` shows"));
    shown.chain(rest).collect()
}
