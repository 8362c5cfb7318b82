//! The reconciliation of certificates and `caBundle`: read, change what is due, serve what is trusted.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};

use crate::authority::KeyPair;
use fabric_engine::registration;

use super::api::{Conflict, Objects, Registered};
use super::replica::Replica;
use super::rotation::{Certificates, Durations};
use super::secret;

/// The longest time between two reconciliations. A change of the webhook configuration starts one at once.
const INTERVAL: Duration = Duration::from_secs(30);
/// The time limit for a starting server to get its first certificate.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// The time between two attempts to get it.
const START_INTERVAL: Duration = Duration::from_millis(250);

/// The objects that a server manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The name of the MutatingWebhookConfiguration.
    pub webhook: String,
    /// The name of the `ValidatingWebhookConfiguration` of the advice on workloads, if there is one.
    pub advice: Option<String>,
    /// The name of the Secret, in the namespace of the webhook's Service.
    pub secret: String,
    /// The durations of certificates.
    pub durations: Durations,
}

/// The key pair to serve; none before the first one is trusted.
pub(crate) type KeyPairs = watch::Receiver<Option<Arc<KeyPair>>>;

/// Reconciles the certificate of one webhook and its `caBundle`.
pub struct Reconciler {
    objects: Arc<Objects>,
    options: Options,
    replica: Replica,
    start: Instant,
    key_pair: watch::Sender<Option<Arc<KeyPair>>>,
    /// The objects that were changed and not yet counted.
    changes: Vec<&'static str>,
    /// The webhook configuration as it was last read.
    configuration: Value,
    changed: Arc<Notify>,
    watch: JoinHandle<()>,
}

impl Drop for Reconciler {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Reconciler {
    /// Waits up to a minute for a certificate that API servers trust: Helm creates the webhook configuration after the
    /// pods.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let objects = Arc::new(Objects::connect().await?);
        let changed = Arc::new(Notify::new());
        let watch = Arc::clone(&objects).watch_webhook(options.webhook.clone(), Arc::clone(&changed));
        let mut reconciler = Self {
            objects,
            options,
            replica: Replica::default(),
            start: Instant::now(),
            key_pair: watch::Sender::new(None),
            changes: Vec::new(),
            configuration: Value::Null,
            changed,
            watch,
        };
        reconciler.first_certificate().await?;
        Ok(reconciler)
    }

    async fn first_certificate(&mut self) -> anyhow::Result<()> {
        let mut logged = String::new();
        loop {
            let result = self.reconcile().await;
            if self.key_pair.borrow().is_some() {
                return Ok(());
            }
            let timed_out = self.start.elapsed() >= START_TIMEOUT;
            match result {
                Err(error) if !is_conflict(&error) => {
                    if timed_out {
                        return Err(error.context("there is no certificate to serve"));
                    }
                    let error = format!("{error:#}");
                    if logged != error {
                        tracing::warn!(error, "no certificate to serve yet, trying again");
                        logged = error;
                    }
                }
                Ok(()) | Err(_) if timed_out => {
                    bail!("there is no certificate to serve: other clients keep changing its objects")
                }
                Ok(()) | Err(_) => {}
            }
            sleep(START_INTERVAL).await;
        }
    }

    /// The key pair to serve, and each one that replaces it.
    pub(crate) fn key_pairs(&self) -> KeyPairs {
        self.key_pair.subscribe()
    }

    /// Waits until the next reconciliation is due.
    pub(crate) async fn wait(&self) {
        tokio::select! {
            () = sleep(self.replica.interval(INTERVAL, SystemTime::now())) => {}
            () = self.changed.notified() => {}
        }
    }

    /// Reads all objects and changes what is due.
    ///
    /// The configuration is read before the Secret. A replica whose write of the configuration does not conflict with
    /// that of another one has then read the other one's Secret, and removes no CA that was just added.
    pub(crate) async fn reconcile(&mut self) -> anyhow::Result<()> {
        let now = SystemTime::now();
        let configuration = self.configuration_of(Registered::Webhook, &self.options.webhook).await?;
        let trusted = registration::ca_bundle(&configuration).unwrap_or_default();
        let read = self.start.elapsed();
        let certificates = self.reconcile_secret(&configuration, &trusted, now).await?;
        self.replica.record(&certificates, &trusted, read);
        let bundle = certificates.bundle();
        let registered = self.register(Registered::Webhook, &configuration, &bundle).await;
        let advised = self.register_advice(&bundle).await;
        self.configuration = configuration;
        // A failed registration must not keep an expiring certificate in use.
        if let Some(key_pair) = self.replica.serve(now, self.start.elapsed()) {
            self.key_pair.send_replace(Some(Arc::new(key_pair)));
        }
        registered.and(advised)
    }

    /// The webhook configuration as it was last read.
    pub(crate) fn configuration(&self) -> &Value {
        &self.configuration
    }

    /// The objects that were changed since the last call, `webhook`, `advice` and `secret`: once for each change.
    pub(crate) fn take_changes(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.changes)
    }

    fn record_change(&mut self, object: &'static str, change: &'static str) {
        tracing::info!(object, change, "registration changed");
        self.changes.push(object);
    }

    /// The certificates of the Secret, after the change that was due.
    async fn reconcile_secret(
        &mut self,
        configuration: &Value,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Certificates> {
        let Some((service, namespace)) = registration::service(configuration) else {
            bail!("the MutatingWebhookConfiguration `{}` has no Service", self.options.webhook);
        };
        let names = [format!("{service}.{namespace}.svc")];
        let api = self.objects.secret(namespace, &self.options.secret);
        let stored = match api.read().await? {
            Some(stored) => stored,
            None => api.create(configuration).await?,
        };
        let parsed = stored.data.as_ref().and_then(|data| secret::parse(data).ok());
        let durations = self.options.durations;
        let (certificates, change) = Certificates::reconciled(parsed, &names, durations, trusted, now)?;
        if let Some(change) = change {
            api.write(&stored, &certificates).await?;
            self.record_change("secret", change);
        }
        Ok(certificates)
    }

    /// A webhook configuration, if this server manages it.
    async fn configuration_of(&self, kind: Registered, name: &str) -> anyhow::Result<Value> {
        let configuration = self.objects.configuration(kind, name).await?;
        let what = kind.name();
        let configuration = configuration.with_context(|| format!("there is no {what} `{name}`"))?;
        let secret = &self.options.secret;
        ensure!(
            registration::is_managed_by(&configuration, secret),
            "the {what} `{name}` is not managed by this server: it has no annotation \
             `fabric-injector.io/certificate-secret: {secret}`"
        );
        Ok(configuration)
    }

    /// Writes the CAs into the configuration of the advice. It does not affect which certificate is served.
    async fn register_advice(&mut self, bundle: &str) -> anyhow::Result<()> {
        let Some(name) = &self.options.advice else { return Ok(()) };
        let configuration = self.configuration_of(Registered::Advice, name).await?;
        self.register(Registered::Advice, &configuration, bundle).await
    }

    /// Writes the CAs into a webhook configuration.
    async fn register(
        &mut self,
        kind: Registered,
        configuration: &Value,
        bundle: &str,
    ) -> anyhow::Result<()> {
        let changes = registration::ca_bundle_changes(configuration, bundle);
        if changes.0.is_empty() {
            return Ok(());
        }
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        self.objects.change(kind, name, changes).await?;
        let object = match kind {
            Registered::Webhook => "webhook",
            Registered::Advice => "advice",
        };
        self.record_change(object, "updated `caBundle`");
        Ok(())
    }
}

/// Returns whether another client changed an object at the same time. The reconciliation must then be repeated.
pub(crate) fn is_conflict(error: &anyhow::Error) -> bool {
    error.is::<Conflict>()
}
