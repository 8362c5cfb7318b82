//! Each field of an overlay is there afterwards, or is reported.

use super::adapter::Result as Outcome;
use super::contradictions::contradictions;
use super::generator::defaults;
use super::leaves;
use super::model;
use super::pair::{Pair, Verdict, fail};
use super::precedence::yields;

pub(crate) fn each_field_is_there_or_reported(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.after() else { return Ok(()) };
    let settled = match &pair.first.outcome {
        Outcome::Unchanged { reason, .. } => reason == "nothing_to_add",
        Outcome::Skipped { reason, .. } => reason != "condition_false" && !reason.starts_with("generated"),
        _ => true,
    };
    // A request without its limit is what a policy may mend.
    let valid = pair.refusals.iter().all(|refusal| refusal.starts_with("request without limit"));
    if !settled || !valid || !pair.known {
        return Ok(());
    }
    // A request that is not there is the limit to the API server.
    let mut completed = after.clone();
    defaults::complete(&mut completed);
    let demand = model::demand(&pair.group.policy, &pair.pod, after, &pair.context);
    let text = &pair.group.text;
    let edits = text.contains(":$(") || text.contains("):");
    let contradictions = contradictions(&demand, &pair.pod);
    let warnings = &pair.first.warnings;
    for asked in &demand.asked {
        let mut contradictions = contradictions.clone();
        contradictions.extend(yields(&demand, asked, &pair.pod));
        let outcome =
            leaves::Outcome { before: &pair.pod, after: &completed, warnings, edits, contradictions };
        if let Some((class, detail)) = leaves::missing(asked, &outcome) {
            return fail(class, detail);
        }
    }
    Ok(())
}
