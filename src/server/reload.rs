//! Loading certificates and policies anew while serving.
//!
//! By looking at the files every second, not by being told: the kubelet swaps a link, an editor renames, a
//! `subPath` mount never changes its link, and the instances of inotify are few on a node. A few small files a
//! second cost some ten microseconds.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::time::sleep;

use crate::selection::{Selection, Sources};
use crate::telemetry::Reloaded;

use super::certificate::{Loaded, Pair, TlsSource};
use super::state::State;

/// How often files are looked at.
const POLL: Duration = Duration::from_secs(1);
/// Whatever changed is looked at again after this time: somebody may be in the middle of writing it.
const SETTLE: Duration = Duration::from_millis(100);
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
pub(super) fn certificate_in_use(state: &State, validity: super::certificate::Validity) {
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
        let stamps: Vec<&str> = policies.policies().iter().map(crate::policy::Policy::stamp).collect();
        let line = stamps.join(", ");
        self.state.policies.store(Arc::new(policies));
        Ok(line)
    }
}

/// What was seen when the files were last looked at: their content, or why they could not be read.
type Seen<C> = Result<C, String>;

/// Looks at the files of a source for ever. `content` is what is in use.
pub(super) async fn watch<S: Source>(source: S, state: Arc<State>, content: S::Content) {
    let source = Arc::new(source);
    let mut seen: Seen<S::Content> = Ok(content);
    // Why what was last seen is not in use.
    let mut failure: Option<String> = None;
    let mut rounds = 0;
    loop {
        sleep(POLL).await;
        let mut now = read(&source).await;
        let changed = now != seen;
        rounds += 1;
        if !changed && (failure.is_none() || rounds % RETRY != 0) {
            continue;
        }
        let mut settled = !changed;
        while !settled {
            sleep(SETTLE).await;
            let again = read(&source).await;
            settled = again == now;
            now = again;
        }
        (seen, failure) = put_to_use(&source, &state, now, failure).await;
    }
}

async fn read<S: Source>(source: &Arc<S>) -> Seen<S::Content> {
    let source = Arc::clone(source);
    blocking(move || source.read()).await
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
            // Said once, not every time that it is tried again.
            if before.as_ref() != Some(&error) {
                tracing::error!(
                    what = what.name(),
                    error,
                    "reload failed, what was loaded before stays in use"
                );
                state.metrics.reloaded(what, false);
                state.status.reloaded(what, Some(error.clone()));
            }
            (seen, Some(error))
        }
    }
}

/// Runs something that reads files or takes long, and makes one line of its error.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| format!("{error:#}")),
        Err(error) => Err(format!("fabric-injector itself failed, which is a bug of it: {error}")),
    }
}
