//! One round of looking after certificate and registration: read, do what is due, serve what is trusted.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, bail, ensure};
use arc_swap::ArcSwapOption;
use json_patch::Patch;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};

use crate::core::policy_set::PolicySet;
use crate::core::registration::{self, Marked};
use crate::shell::authority::Issued;

use super::api::{Objects, Outrun};
use super::certificate::contains;
use super::claim::Claim;
use super::rotation::{Lives, Rotation, Step};
use super::{secret, watch};

/// How often everything is looked at. The webhook configuration is watched besides.
const ROUND: Duration = Duration::from_secs(3);
/// How long a CA is in `caBundle` before a certificate of it is served: API servers learn of it by a watch.
const SETTLE: Duration = Duration::from_secs(2);
/// How long to wait for a first certificate.
const START: Duration = Duration::from_mins(1);
/// How long to wait before the next attempt at it.
const START_ROUND: Duration = Duration::from_millis(250);

/// What to look after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The name of the MutatingWebhookConfiguration.
    pub webhook: String,
    /// The name of the Secret, in the namespace of the webhook's Service.
    pub secret: String,
    /// The name of the ValidatingAdmissionPolicy that guards, if one is to be kept in step.
    pub guard: Option<String>,
    /// How long certificates last.
    pub lives: Lives,
}

/// The certificate to serve, which changes from time to time.
pub type Serving = Arc<ArcSwapOption<Issued>>;

/// Looks after the certificate and the registration of one webhook.
pub struct Keeper {
    objects: Arc<Objects>,
    options: Options,
    serving: Serving,
    /// What was agreed about when it was last read.
    known: Option<Rotation>,
    /// The CA that API servers know, and since when; without a time, since before this server began.
    trusted: Option<(String, Option<Instant>)>,
    has_begun: bool,
    claim: Claim,
    /// What was changed and not yet counted.
    changes: Vec<&'static str>,
    changed: Arc<Notify>,
    watching: JoinHandle<()>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Keeper {
    /// Waits for a certificate that API servers trust, for a minute at most: when a chart is installed, the webhook
    /// configuration comes after the pods.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let objects = Arc::new(Objects::connect().await?);
        let changed = Arc::new(Notify::new());
        let watching = watch::begin(Arc::clone(&objects), options.webhook.clone(), Arc::clone(&changed));
        let mut keeper = Self {
            objects,
            options,
            serving: Serving::default(),
            known: None,
            trusted: None,
            has_begun: false,
            claim: Claim::default(),
            changes: Vec::new(),
            changed,
            watching,
        };
        keeper.first_certificate().await?;
        Ok(keeper)
    }

    async fn first_certificate(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut told = String::new();
        loop {
            let result = self.round(None).await;
            if self.serving.load().is_some() {
                return Ok(());
            }
            if let Err(error) = result
                && !was_outrun(&error)
            {
                if begun.elapsed() >= START {
                    return Err(error.context("there is no certificate to serve"));
                }
                let error = format!("{error:#}");
                if told != error {
                    tracing::warn!(error, "no certificate to serve yet, trying on");
                    told = error;
                }
            } else if begun.elapsed() >= START {
                bail!("there is no certificate to serve: others keep changing what it depends on");
            }
            sleep(START_ROUND).await;
        }
    }

    /// The certificate to serve.
    pub fn serving(&self) -> Serving {
        Arc::clone(&self.serving)
    }

    /// Waits until it is time to look again.
    pub async fn wait(&self) {
        tokio::select! {
            () = sleep(ROUND) => {}
            () = self.changed.notified() => {}
        }
    }

    /// Looks at everything, and does what is due. The webhook is registered for these policies, if some are given.
    ///
    /// The configuration is read before the Secret: who writes a configuration that was read after another replica
    /// changed it has then seen that replica's Secret as well, and drops no CA that was just added.
    pub async fn round(&mut self, policies: Option<&PolicySet>) -> anyhow::Result<()> {
        let now = SystemTime::now();
        let name = self.options.webhook.clone();
        let configuration = self.objects.webhook(&name).await?;
        let configuration =
            configuration.with_context(|| format!("there is no MutatingWebhookConfiguration `{name}`"))?;
        let secret = &self.options.secret;
        ensure!(
            registration::is_kept_by(&configuration, secret),
            "the MutatingWebhookConfiguration `{name}` is not this server's to change: it has no annotation \
             `fabric-injector.io/certificate-secret: {secret}`"
        );
        let trusted = registration::ca_bundle(&configuration).unwrap_or_default();
        let rotation = self.agree(&configuration, &trusted, now).await?;
        let registered = self.register(&configuration, &rotation, policies).await;
        // What cannot be registered is no reason to go on with an old certificate.
        self.serve(&rotation, &trusted);
        registered
    }

    /// The objects that were changed since this was last asked, `webhook`, `guard` and `secret`: once for each time.
    pub fn take_changes(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.changes)
    }

    fn tell(&mut self, object: &'static str, done: &'static str) {
        tracing::info!(object, done, "registration");
        self.changes.push(object);
    }

    /// What all replicas agree about: what the Secret holds, after what was due is done.
    async fn agree(
        &mut self,
        configuration: &Value,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Rotation> {
        let Some((service, namespace)) = registration::service(configuration) else {
            bail!("the MutatingWebhookConfiguration `{}` leads to no Service", self.options.webhook);
        };
        let names = [format!("{service}.{namespace}.svc")];
        let (lives, name) = (self.options.lives, self.options.secret.clone());
        let stored = match self.objects.secret(namespace, &name).await? {
            Some(stored) => stored,
            None => self.objects.make_secret(namespace, &name, configuration).await?,
        };
        let (rotation, step) = match (secret::read(&stored.data), &self.known) {
            (Ok(read), _) => {
                let Some((rotation, step)) = read.advanced(&names, lives, trusted, now)? else {
                    self.known = Some(read.clone());
                    return Ok(read);
                };
                (rotation, step.sentence())
            }
            // Somebody deleted it or broke it; what is served stays good.
            (Err(_), Some(known)) => (known.clone(), "put back what it had held"),
            (Err(_), None) => (Rotation::afresh(&names, lives, trusted, now)?, Step::Afresh.sentence()),
        };
        self.objects.write_secret(namespace, &name, &stored, &rotation).await?;
        self.tell("secret", step);
        self.known = Some(rotation.clone());
        Ok(rotation)
    }

    /// Has the API server trust the CAs, and ask about the pods that the policies are for.
    async fn register(
        &mut self,
        configuration: &Value,
        rotation: &Rotation,
        policies: Option<&PolicySet>,
    ) -> anyhow::Result<()> {
        let wanted = policies.map(registration::webhook_condition);
        let ours = wanted.filter(|wanted| {
            let marked = Marked::of(configuration, wanted);
            self.claim.holds(marked, &wanted.expression, Instant::now())
        });
        let changes = registration::webhook_changes(configuration, &rotation.bundle(), ours.as_ref());
        let webhook = self.change_webhook(changes).await;
        if let (Ok(()), Some(ours)) = (&webhook, &ours) {
            self.claim.registered(&ours.expression);
        }
        // A guard is needed most where the webhook cannot be put right.
        let guard = match (ours, policies) {
            (Some(_), Some(policies)) => self.keep_guard(policies).await,
            _ => Ok(()),
        };
        webhook.and(guard)
    }

    async fn change_webhook(&mut self, changes: Patch) -> anyhow::Result<()> {
        if !changes.0.is_empty() {
            self.objects.change_webhook(&self.options.webhook, changes).await?;
            self.tell("webhook", "put CAs and conditions right");
        }
        Ok(())
    }

    async fn keep_guard(&mut self, policies: &PolicySet) -> anyhow::Result<()> {
        let Some(name) = self.options.guard.clone() else { return Ok(()) };
        let Some(guard) = self.objects.guard(&name).await? else {
            bail!("there is no ValidatingAdmissionPolicy `{name}`");
        };
        let changes = registration::guard_changes(&guard, &registration::guard_conditions(policies));
        if !changes.0.is_empty() {
            self.objects.change_guard(&name, changes).await?;
            self.tell("guard", "put conditions right");
        }
        Ok(())
    }

    /// Serves the certificate, once API servers trust its CA. `trusted` is what they went by before this round.
    fn serve(&mut self, rotation: &Rotation, trusted: &str) {
        let first = !std::mem::replace(&mut self.has_begun, true);
        let ca = &rotation.ca.cert;
        if !contains(trusted, ca) {
            self.trusted = None;
            return;
        }
        let since = match &self.trusted {
            Some((known, since)) if known == ca => *since,
            _ => {
                let since = (!first).then(Instant::now);
                self.trusted = Some((ca.clone(), since));
                since
            }
        };
        if since.is_none_or(|since| since.elapsed() >= SETTLE) {
            self.serving.store(Some(Arc::new(rotation.issued.clone())));
        }
    }
}

/// Whether somebody else was faster, which is no failure.
pub fn was_outrun(error: &anyhow::Error) -> bool {
    error.is::<Outrun>()
}
