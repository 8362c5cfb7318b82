//! The reload of files while the server runs.
//!
//! Files are read every second. Notifications would not suffice: the kubelet replaces a link, an editor renames, a
//! `subPath` mount never changes, and a node has few inotify instances. Reading a few small files takes some ten
//! microseconds.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use crate::telemetry::Reloaded;
use fabric_policy::work::{Ended, Work};

use super::state::AppState;

/// The interval at which files are read.
const POLL: Duration = Duration::from_secs(1);
/// Changed files are read again after this time, because a writer may not have finished.
const SETTLE: Duration = Duration::from_millis(100);
/// If the files keep changing for this long, the reload has failed.
const UNREST: Duration = Duration::from_secs(5);
/// A read that takes longer has failed, as on a network file system that does not respond.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of polls after which unchanged bad files are tried again: a certificate may have become valid.
const RETRY: u32 = 30;

/// Files that are read and put into use.
pub(super) struct Source<C> {
    pub(super) what: Reloaded,
    pub(super) read: Box<dyn Fn() -> anyhow::Result<C> + Send + Sync>,
    pub(super) apply: Box<Apply<C>>,
}

/// Puts content into use as a whole, or not at all; a line for the log. Newer content stops the work.
type Apply<C> = dyn Fn(&C, &Work) -> anyhow::Result<String> + Send + Sync;

/// The content of the files when they were last read, or the error.
type Seen<C> = Result<C, String>;

/// Reloads the files of a source when they change. `content` is in use at the start.
pub(super) async fn watch<C>(source: Source<C>, state: Arc<AppState>, content: C)
where
    C: PartialEq + Send + Sync + 'static,
{
    let what = source.what;
    let mut reader = SourceReader { source: Arc::new(source), reading: None };
    let mut seen: Seen<C> = Ok(content);
    // The reason why the content that was last read is not in use.
    let mut failure: Option<String> = None;
    let mut polls = 0;
    loop {
        sleep(POLL).await;
        let mut now = reader.read().await;
        let changed = now != seen;
        polls += 1;
        if !changed && (failure.is_none() || polls % RETRY != 0) {
            continue;
        }
        let begun = Instant::now();
        let mut settled = !changed || reader.hangs();
        while !settled {
            sleep(SETTLE).await;
            let again = reader.read().await;
            settled = again == now || reader.hangs();
            now = again;
            if !settled && begun.elapsed() >= UNREST {
                let error = format!("the files of the {what} keep changing");
                failure = record(what, &state, Err(error), failure.as_ref());
            }
        }
        (seen, failure) = apply(&mut reader, &state, now, failure).await;
    }
}

/// Reads a source, one read at a time: a read that hangs cannot be cancelled.
struct SourceReader<C> {
    source: Arc<Source<C>>,
    /// The read that hangs.
    reading: Option<JoinHandle<anyhow::Result<C>>>,
}

impl<C: Send + 'static> SourceReader<C> {
    async fn read(&mut self) -> Seen<C> {
        let mut reading = self.reading.take().unwrap_or_else(|| {
            let source = Arc::clone(&self.source);
            spawn_blocking(move || (source.read)())
        });
        if let Ok(result) = timeout(READ_TIMEOUT, &mut reading).await {
            return one_line(result);
        }
        self.reading = Some(reading);
        let (what, time) = (self.source.what, humantime::format_duration(READ_TIMEOUT));
        Err(format!("the files of the {what} cannot be read within {time}"))
    }

    fn hangs(&self) -> bool {
        self.reading.is_some()
    }
}

/// Puts the content that was read into use, unless there is newer content meanwhile. Returns the content, and the
/// failure if there is one.
async fn apply<C>(
    reader: &mut SourceReader<C>,
    state: &AppState,
    now: Seen<C>,
    before: Option<String>,
) -> (Seen<C>, Option<String>)
where
    C: PartialEq + Send + Sync + 'static,
{
    let what = reader.source.what;
    let content = match now {
        Ok(content) => Arc::new(content),
        Err(error) => return (Err(error.clone()), record(what, state, Err(error), before.as_ref())),
    };
    loading(what, state, Some(SystemTime::now()));
    let work = Work::of_loading();
    let mut applying = {
        let (source, content, work) = (Arc::clone(&reader.source), Arc::clone(&content), work.clone());
        spawn_blocking(move || (source.apply)(&content, &work))
    };
    let result = loop {
        if let Ok(result) = timeout(POLL, &mut applying).await {
            break one_line(result);
        }
        let newer = reader.read().await;
        if newer.is_ok_and(|newer| newer != *content) {
            work.stop();
        }
    };
    loading(what, state, None);
    let content = Arc::into_inner(content).ok_or_else(|| "the content is in use elsewhere".to_owned());
    if work.ended() == Some(Ended::Stopped) && result.is_err() {
        tracing::info!(what, "the files changed while they were loaded, and are loaded again");
        return (content, before);
    }
    (content, record(what, state, result, before.as_ref()))
}

/// Records the result of a reload in log, metrics and readiness; the failure, if it is one. A failure that is the same
/// as `before` is recorded already.
pub(super) fn record(
    what: Reloaded,
    state: &AppState,
    result: Result<String, String>,
    before: Option<&String>,
) -> Option<String> {
    let failure = match result {
        Ok(loaded) => {
            tracing::info!(what, loaded, "reloaded");
            None
        }
        Err(error) if before == Some(&error) => return Some(error),
        Err(error) => {
            tracing::error!(what, error, "reload failed, the previous version stays in use");
            Some(error)
        }
    };
    state.metrics.reloaded(what, failure.is_none());
    state.readiness.failure(what, failure.clone());
    failure
}

/// Records the start of the current reload in metrics and readiness, or that none is running.
fn loading(what: Reloaded, state: &AppState, since: Option<SystemTime>) {
    let seconds = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
    state.metrics.loading(what, seconds.map(|since| since.as_secs_f64()));
    state.readiness.loading(what, since);
}

fn one_line<T>(result: Result<anyhow::Result<T>, JoinError>) -> Result<T, String> {
    match result {
        Ok(result) => result.map_err(|error| format!("{error:#}")),
        Err(error) => Err(format!("internal error, a bug in fabric-injector: {error}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// A reader of a source of numbers.
    fn reader(
        read: impl Fn() -> anyhow::Result<usize> + Send + Sync + 'static,
        apply: impl Fn(&usize, &Work) -> anyhow::Result<String> + Send + Sync + 'static,
    ) -> SourceReader<usize> {
        let source = Source { what: "policies", read: Box::new(read), apply: Box::new(apply) };
        SourceReader { source: Arc::new(source), reading: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_hangs_is_reported_and_no_other_begins_until_it_ends() {
        let (sender, sent) = mpsc::channel();
        let (sent, reads) = (Mutex::new(sent), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&reads);
        let read = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(sent.lock().unwrap().recv()?)
        };
        let mut reader = reader(read, |_, _| Ok(String::new()));
        let expected = Err("the files of the policies cannot be read within 10s".to_owned());
        let (read, ()) = tokio::join!(reader.read(), tokio::time::advance(Duration::from_secs(11)));
        assert_eq!(read, expected);
        assert!(reader.hangs());
        sender.send(7).unwrap();
        assert_eq!(reader.read().await, Ok(7));
        assert!(!reader.hangs());
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_running_load_is_shown_and_newer_files_end_it() {
        let policies = fabric_engine::policy_set::PolicySet::default();
        let state = AppState::new(
            policies,
            fabric_engine::admission::OnError::Deny,
            super::super::limits::Limits::default(),
        );
        let version = Arc::new(AtomicUsize::new(1));
        let files = Arc::clone(&version);
        // The first version loads until the work is stopped.
        let load = |content: &usize, work: &Work| {
            while *content == 1 && work.goes_on(0) {
                std::thread::sleep(Duration::from_millis(1));
            }
            anyhow::ensure!(*content != 1, "stopped");
            Ok(format!("version {content}"))
        };
        let mut reader = reader(move || Ok(files.load(Ordering::Relaxed)), load);
        let before = Some("an earlier failure".to_owned());
        let load = apply(&mut reader, &state, Ok(1), before.clone());
        let change = async {
            while state.readiness.reloads().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
            let metrics = state.metrics.encode();
            assert!(
                !metrics.contains("reload_started_timestamp_seconds{what=\"policies\"} 0.0"),
                "{metrics}"
            );
            version.store(2, Ordering::Relaxed);
        };
        let (ended, ()) = tokio::join!(load, change);
        assert_eq!(ended, (Ok(1), before.clone()), "what was stopped is no failure of its own");
        assert!(state.readiness.reloads().is_empty());
        assert_eq!(apply(&mut reader, &state, Ok(2), before).await, (Ok(2), None));
        assert!(state.metrics.encode().contains("reload_started_timestamp_seconds{what=\"policies\"} 0.0"));
    }
}
