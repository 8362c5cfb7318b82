//! Loading certificates and policies anew while serving.
//!
//! By looking at the files every second, not by being told: the kubelet swaps a link, an editor renames, a
//! `subPath` mount never changes its link, and the instances of inotify are few on a node. A few small files a
//! second cost some ten microseconds.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use crate::shell::selection::{Selection, Sources};
use crate::shell::telemetry::Reloaded;

use super::certificate::{Loaded, Pair, TlsSource};
use super::state::State;

/// How often files are looked at.
const POLL: Duration = Duration::from_secs(1);
/// Whatever changed is looked at again after this time: somebody may be in the middle of writing it.
const SETTLE: Duration = Duration::from_millis(100);
/// What changes all the time is told after this time.
const UNREST: Duration = Duration::from_secs(5);
/// Reading that takes longer, as on a network that is gone, is told.
const READ_TIME: Duration = Duration::from_secs(10);
/// What was bad is tried again this often although it did not change: a certificate may become valid.
const RETRY: u32 = 30;

/// Something that is read from files and put to use.
pub(super) trait Source: Send + Sync + 'static {
    type Content: PartialEq + Send;

    fn what(&self) -> Reloaded;
    /// Reads the files.
    fn read(&self) -> anyhow::Result<Self::Content>;
    /// Puts what was read to use, all or nothing; a line for the log.
    fn apply(&self, content: &Self::Content) -> anyhow::Result<String>;
}

/// The pair, and the settings that new connections begin with.
pub(super) struct Certificate {
    pub(super) source: TlsSource,
    pub(super) config: Arc<ArcSwap<ServerConfig>>,
    pub(super) state: Arc<State>,
}

impl Source for Certificate {
    type Content = Pair;

    fn what(&self) -> Reloaded {
        Reloaded::Certificate
    }

    fn read(&self) -> anyhow::Result<Pair> {
        self.source.read()
    }

    fn apply(&self, pair: &Pair) -> anyhow::Result<String> {
        let Loaded { config, validity } = pair.load(SystemTime::now())?;
        self.config.store(config);
        certificate_in_use(&self.state, validity);
        Ok(format!("valid until {}", humantime::format_rfc3339_seconds(validity.not_after)))
    }
}

/// Tells metrics and status of a certificate.
pub(super) fn certificate_in_use(state: &State, validity: crate::shell::pem::Validity) {
    state.status.certificate(validity);
    let end = validity.not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    state.metrics.certificate_expires(end.as_secs_f64());
}

/// Policies and values.
pub(super) struct Policies {
    pub(super) selection: Selection,
    pub(super) state: Arc<State>,
}

impl Source for Policies {
    type Content = Sources;

    fn what(&self) -> Reloaded {
        Reloaded::Policies
    }

    fn read(&self) -> anyhow::Result<Sources> {
        self.selection.read()
    }

    fn apply(&self, sources: &Sources) -> anyhow::Result<String> {
        let policies = sources.compile()?;
        self.state.metrics.policies_in_use(&policies);
        let stamps: Vec<&str> = policies.policies().iter().map(crate::core::policy::Policy::stamp).collect();
        let line = stamps.join(", ");
        self.state.policies.store(Arc::new(policies));
        Ok(line)
    }
}

/// What was seen when the files were last looked at: their content, or why they could not be read.
type Seen<C> = Result<C, String>;

/// Looks at the files of a source for ever. `content` is what is in use.
pub(super) async fn watch<S: Source>(source: S, state: Arc<State>, content: S::Content) {
    let mut reader = Reader { source: Arc::new(source), reading: None };
    let what = reader.source.what();
    let mut seen: Seen<S::Content> = Ok(content);
    // Why what was last seen is not in use.
    let mut failure: Option<String> = None;
    let mut rounds = 0;
    loop {
        sleep(POLL).await;
        let mut now = reader.read().await;
        let changed = now != seen;
        rounds += 1;
        if !changed && (failure.is_none() || rounds % RETRY != 0) {
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
                let error = format!("the files of the {} do not stop changing", what.name());
                failed(what, &state, &error, failure.as_ref());
                failure = Some(error);
            }
        }
        (seen, failure) = put_to_use(&reader.source, &state, now, failure).await;
    }
}

/// Reads a source, once at a time: a read that hangs cannot be ended, only waited for.
struct Reader<S: Source> {
    source: Arc<S>,
    /// What hangs.
    reading: Option<JoinHandle<anyhow::Result<S::Content>>>,
}

impl<S: Source> Reader<S> {
    /// What is read, or that it hangs.
    async fn read(&mut self) -> Seen<S::Content> {
        let mut reading = self.reading.take().unwrap_or_else(|| {
            let source = Arc::clone(&self.source);
            spawn_blocking(move || source.read())
        });
        if let Ok(result) = timeout(READ_TIME, &mut reading).await {
            return one_line(result);
        }
        self.reading = Some(reading);
        let (what, time) = (self.source.what().name(), humantime::format_duration(READ_TIME));
        Err(format!("the files of the {what} cannot be read within {time}"))
    }

    fn hangs(&self) -> bool {
        self.reading.is_some()
    }
}

/// Uses what was read; what was seen, and the failure if there is one.
async fn put_to_use<S: Source>(
    source: &Arc<S>,
    state: &State,
    now: Seen<S::Content>,
    before: Option<String>,
) -> (Seen<S::Content>, Option<String>) {
    let what = source.what();
    let (seen, result) = match now {
        Err(error) => (Err(error.clone()), Err(error)),
        Ok(content) => {
            let source = Arc::clone(source);
            let applied = blocking(move || {
                let result = source.apply(&content);
                Ok((content, result.map_err(|error| format!("{error:#}"))))
            });
            match applied.await {
                Ok((content, result)) => (Ok(content), result),
                Err(error) => (Err(error.clone()), Err(error)),
            }
        }
    };
    match result {
        Ok(loaded) => {
            tracing::info!(what = what.name(), loaded, "reloaded");
            state.metrics.reloaded(what, true);
            state.status.reloaded(what, None);
            (seen, None)
        }
        Err(error) => {
            failed(what, state, &error, before.as_ref());
            (seen, Some(error))
        }
    }
}

/// Tells log, metrics and status of a failure: once, not every time that it is tried again.
fn failed(what: Reloaded, state: &State, error: &str, before: Option<&String>) {
    if before.is_some_and(|before| before == error) {
        return;
    }
    tracing::error!(what = what.name(), error, "reload failed, what was loaded before stays in use");
    state.metrics.reloaded(what, false);
    state.status.reloaded(what, Some(error.to_owned()));
}

/// Runs something that takes long, and makes one line of its error.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, String> {
    one_line(spawn_blocking(work).await)
}

fn one_line<T>(result: Result<anyhow::Result<T>, JoinError>) -> Result<T, String> {
    match result {
        Ok(result) => result.map_err(|error| format!("{error:#}")),
        Err(error) => Err(format!("fabric-injector itself failed, which is a bug of it: {error}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// What is read is what somebody sends.
    struct Slow {
        reads: AtomicUsize,
        sent: Mutex<mpsc::Receiver<u8>>,
    }

    impl Source for Slow {
        type Content = u8;

        fn what(&self) -> Reloaded {
            Reloaded::Policies
        }

        fn read(&self) -> anyhow::Result<u8> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            Ok(self.sent.lock().unwrap().recv()?)
        }

        fn apply(&self, _: &u8) -> anyhow::Result<String> {
            Ok(String::new())
        }
    }

    #[tokio::test]
    async fn a_read_that_hangs_is_told_and_no_other_begins_until_it_ends() {
        let (sender, sent) = mpsc::channel();
        let source = Arc::new(Slow { reads: AtomicUsize::new(0), sent: Mutex::new(sent) });
        let mut reader = Reader { source: Arc::clone(&source), reading: None };
        let told = Err("the files of the policies cannot be read within 10s".to_owned());
        assert_eq!(reader.read().await, told);
        assert!(reader.hangs());
        sender.send(7).unwrap();
        assert_eq!(reader.read().await, Ok(7));
        assert!(!reader.hangs());
        assert_eq!(source.reads.load(Ordering::Relaxed), 1);
    }
}
