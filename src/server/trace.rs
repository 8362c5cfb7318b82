//! The record of each request: its span, its metrics and its line in the log.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Duration;

use crate::telemetry::Answered;
use crate::telemetry::traces::ReviewSpan;
use fabric_engine::admission::{Record, ReviewOutcome};

use super::state::AppState;

/// How a request ended, for its record.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Reviewed(Arc<Record>),
    /// The code of a rejected request; none under overload.
    Rejected(Option<Answered>),
}

/// Records a request when its handler has ended. The trace layer of tower-http would need a span of `tracing` for each
/// request, to which the lines of the log belong; the spans that are exported are others (`telemetry/traces.rs`).
pub(super) async fn trace(
    State(state): State<Arc<AppState>>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let span = path.map(|path| ReviewSpan::begin(path.as_str(), request.method(), request.headers()));
    let _in_flight = state.metrics.in_flight();
    let mut response = next.run(request).await;
    match response.extensions_mut().remove() {
        Some(Outcome::Reviewed(record)) => {
            let took = started.elapsed();
            state.metrics.reviewed(&record, took);
            log(&record, took);
            if let Some(span) = span {
                span.reviewed(&record);
            }
        }
        Some(Outcome::Rejected(code)) => {
            if let Some(code) = code {
                state.metrics.rejected.count(code);
            }
            if let Some(span) = span {
                span.rejected(response.status(), code.unwrap_or("overload"));
            }
        }
        None => {}
    }
    response
}

/// Logs the outcome of a review: at `debug` for a pod that stays unchanged. A field that an outcome does not have is left
/// out.
fn log(record: &Record, took: Duration) {
    let Record { uid, outcome, .. } = record;
    let is_pod = !matches!(outcome, ReviewOutcome::Advised | ReviewOutcome::Unadvised);
    let has_reason = !matches!(outcome, ReviewOutcome::Mutated | ReviewOutcome::Advised);
    let namespace = record.namespace.as_deref().unwrap_or_default();
    let name = record.name.as_deref().unwrap_or_default();
    let policy = is_pod.then(|| record.policy.as_deref().unwrap_or_default());
    let operations = (*outcome == ReviewOutcome::Mutated).then_some(record.operations);
    let reason = has_reason.then(|| record.reason.as_deref().unwrap_or_default());
    // Not `message`, because that is the key of the line itself in JSON.
    let detail = (is_pod && has_reason).then(|| record.message.as_deref().unwrap_or_default());
    let allowed = (*outcome == ReviewOutcome::Failed).then_some(record.allowed);
    let advice = (*outcome == ReviewOutcome::Advised).then(|| record.warnings.join(","));
    let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let mode = record.mode.name();
    // The level and the message of a line are constants.
    macro_rules! line {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                uid,
                namespace,
                name,
                policy,
                operations,
                reason,
                detail,
                allowed,
                advice,
                microseconds,
                mode,
                $message
            )
        };
    }
    match outcome {
        ReviewOutcome::Mutated => line!(info, "pod mutated"),
        ReviewOutcome::Refused => line!(info, "pod refused"),
        ReviewOutcome::Failed => line!(error, "pod not injected"),
        ReviewOutcome::Skipped => line!(info, "pod skipped"),
        ReviewOutcome::Advised => line!(info, "advice on a workload"),
        ReviewOutcome::Unadvised => line!(debug, "no advice on a workload"),
        ReviewOutcome::Unchanged => line!(debug, "pod unchanged"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use fabric_engine::admission::Mode;
    use serde_json::{Map, Value};

    use super::*;
    use ReviewOutcome::{Advised, Failed, Mutated, Refused, Skipped, Unadvised, Unchanged};

    /// The level, the message and the fields of a line.
    type Line = (String, String, BTreeSet<String>);

    fn record(outcome: ReviewOutcome) -> Record {
        Record {
            uid: "u".to_owned(),
            namespace: None,
            name: None,
            policy: None,
            outcome,
            reason: None,
            message: None,
            allowed: true,
            dry_run: false,
            operations: 1,
            warnings: vec!["code".to_owned()],
            without_fabric: None,
            absent: Vec::new(),
            for_owner: None,
            mode: Mode::Inject,
        }
    }

    fn logged(outcome: ReviewOutcome) -> Line {
        let buffer: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (writer, level) = (Arc::clone(&buffer), tracing::Level::DEBUG);
        let writer = move || Writer(Arc::clone(&writer));
        let lines = tracing_subscriber::fmt().json().flatten_event(true).with_max_level(level);
        let lines = lines.with_writer(writer).finish();
        tracing::subscriber::with_default(lines, || log(&record(outcome), Duration::from_millis(1)));
        let mut line: Map<String, Value> = serde_json::from_slice(&buffer.lock().unwrap()).unwrap();
        let [level, message] = ["level", "message"].map(|key| line.remove(key).unwrap());
        let (level, message) = (level.as_str().unwrap().to_lowercase(), message.as_str().unwrap().to_owned());
        let fields = line.into_iter().map(|(key, _)| key);
        (level, message, fields.filter(|key| !["timestamp", "target"].contains(&key.as_str())).collect())
    }

    struct Writer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Writer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn docs_serve_md_has_the_line_of_each_outcome_with_its_fields() {
        let rows = include_str!("../../docs/serve.md").split("| level | message | fields |").nth(1).unwrap();
        let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
        let documented: BTreeSet<Line> = rows
            .map(|row| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                let fields = cells[3].split('`').skip(1).step_by(2).map(str::to_owned);
                (cells[1].to_owned(), cells[2].to_owned(), fields.collect())
            })
            .collect();
        let lines = [Advised, Failed, Mutated, Refused, Skipped, Unchanged].map(logged);
        assert_eq!(documented, lines.into());
        let no_advice = logged(Unadvised);
        assert_eq!((no_advice.0.as_str(), no_advice.1.as_str()), ("debug", "no advice on a workload"));
    }
}
