//! The options for a server that manages its own certificate and registration.

use anyhow::ensure;
use clap::Args;
use tokio::time::Duration;

use crate::cluster::Durations;
use crate::cluster::Options;

use crate::cli::parse::{object_name, positive_duration};

/// The longest duration, a century: some clients parse years of four digits only.
const LONGEST: Duration = Duration::from_hours(24 * 36_500);

/// The options for a server that manages its own certificate and registration.
#[derive(Debug, Clone, Args)]
pub(super) struct ClusterArguments {
    /// The MutatingWebhookConfiguration to manage: the server creates and renews a CA and a certificate, and writes
    /// `caBundle`; replicas coordinate through the API server
    #[arg(
        long,
        value_name = "NAME",
        env = "FABRIC_INJECTOR_MANAGE_WEBHOOK",
        value_parser = object_name,
        conflicts_with_all = ["tls_cert", "tls_key", "tls_dir"]
    )]
    manage_webhook: Option<String>,
    /// The Secret for the CA and the certificate, in the namespace of the webhook's Service [default: the name of the
    /// webhook configuration, with `-tls`]
    #[arg(long, value_name = "NAME", env = "FABRIC_INJECTOR_MANAGE_SECRET", value_parser = object_name, requires = "manage_webhook")]
    manage_secret: Option<String>,
    /// The `ValidatingWebhookConfiguration` of the advice on workloads, whose `caBundle` the server writes, too
    #[arg(long, value_name = "NAME", env = "FABRIC_INJECTOR_MANAGE_ADVICE", value_parser = object_name, requires = "manage_webhook")]
    manage_advice: Option<String>,
    /// The validity of a certificate for `--manage-webhook`; the server renews it after two thirds of that
    #[arg(long, value_name = "DURATION", default_value = "30d", env = "FABRIC_INJECTOR_CERTIFICATE_DURATION", value_parser = positive_duration)]
    certificate_duration: Duration,
    /// The validity of a CA for `--manage-webhook`; the server replaces it after two thirds of that
    #[arg(long, value_name = "DURATION", default_value = "3650d", env = "FABRIC_INJECTOR_CA_DURATION", value_parser = positive_duration)]
    ca_duration: Duration,
}

/// A duration in the largest unit that divides it, up to days: `humantime` would write `365d` as `1year`.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "m"), (1, "s")];
    let unit = units.iter().find(|(length, _)| seconds >= *length && seconds.is_multiple_of(*length));
    match unit {
        Some((length, unit)) if time.subsec_nanos() == 0 => format!("{}{unit}", seconds / length),
        _ => humantime::format_duration(time).to_string(),
    }
}

impl ClusterArguments {
    /// The objects to manage, if any.
    pub(super) fn options(&self) -> anyhow::Result<Option<Options>> {
        let Some(webhook) = self.manage_webhook.clone() else { return Ok(None) };
        self.check_durations()?;
        Ok(Some(Options {
            secret: self.manage_secret.clone().unwrap_or_else(|| format!("{webhook}-tls")),
            webhook,
            advice: self.manage_advice.clone(),
            durations: Durations { certificate: self.certificate_duration, ca: self.ca_duration },
        }))
    }

    fn check_durations(&self) -> anyhow::Result<()> {
        let least = Duration::from_secs(20);
        for (option, duration) in
            [("--ca-duration", self.ca_duration), ("--certificate-duration", self.certificate_duration)]
        {
            ensure!(
                (least..=LONGEST).contains(&duration),
                "`{option} {}` is not between {} and {}",
                shown(duration),
                shown(least),
                shown(LONGEST)
            );
        }
        ensure!(
            self.certificate_duration <= self.ca_duration,
            "`--certificate-duration {}` is longer than `--ca-duration {}`",
            shown(self.certificate_duration),
            shown(self.ca_duration)
        );
        Ok(())
    }
}
