//! The options that have a server look after its own certificate and registration.

use anyhow::ensure;
use clap::Args;
use tokio::time::Duration;

use crate::shell::cluster::{Lives, Options};

use super::serve::positive_time;

/// The longest life: a century, after which a year has more digits than some clients read.
const LONGEST: Duration = Duration::from_hours(24 * 36_500);

/// The options that have a server look after its own certificate and registration.
#[derive(Debug, Clone, Args)]
pub(super) struct ClusterArguments {
    /// The MutatingWebhookConfiguration to look after: a CA and a certificate are made and renewed, `caBundle` and
    /// `matchConditions` kept right; several replicas agree through the API
    #[arg(
        long,
        value_name = "NAME",
        env = "FABRIC_INJECTOR_MANAGE_WEBHOOK",
        value_parser = object_name,
        conflicts_with_all = ["tls_cert", "tls_key", "tls_dir"],
        hide_env_values = true
    )]
    manage_webhook: Option<String>,
    /// The Secret for CA and certificate, in the namespace of the webhook's Service [default: the name of the webhook
    /// configuration, with `-tls`]
    #[arg(long, value_name = "NAME", env = "FABRIC_INJECTOR_MANAGE_SECRET", value_parser = object_name, requires = "manage_webhook", hide_env_values = true)]
    manage_secret: Option<String>,
    /// The ValidatingAdmissionPolicy that notices pods that were not served, to keep in step with the policies as well
    #[arg(long, value_name = "NAME", env = "FABRIC_INJECTOR_MANAGE_GUARD", value_parser = object_name, requires = "manage_webhook", hide_env_values = true)]
    manage_guard: Option<String>,
    /// How long a certificate is valid that is made for `--manage-webhook`; it is renewed at two thirds of that
    #[arg(long, value_name = "TIME", default_value = "30d", env = "FABRIC_INJECTOR_CERTIFICATE_LIFE", value_parser = positive_time, hide_env_values = true)]
    certificate_life: Duration,
    /// How long a CA is valid that is made for `--manage-webhook`; the next one is made at two thirds of that
    #[arg(long, value_name = "TIME", default_value = "365d", env = "FABRIC_INJECTOR_CA_LIFE", value_parser = positive_time, hide_env_values = true)]
    ca_life: Duration,
    /// How long a CA stands in `caBundle` before it is used, and after it was
    #[arg(long, value_name = "TIME", default_value = "1h", env = "FABRIC_INJECTOR_CA_OVERLAP", value_parser = positive_time, hide_env_values = true)]
    ca_overlap: Duration,
}

fn object_name(text: &str) -> Result<String, String> {
    let label_is_good = |label: &str| {
        let bytes = label.as_bytes();
        bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
            && !bytes.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if text.len() <= 253 && text.split('.').all(label_is_good) {
        Ok(text.to_owned())
    } else {
        Err("an object's name has lower case letters, digits, `-` and `.`".to_owned())
    }
}

/// A namespace, whose name is one label of DNS.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    match object_name(text) {
        Ok(name) if name.len() <= 63 && !name.contains('.') => Ok(name),
        _ => Err("a namespace has at most 63 lower case letters, digits and `-`".to_owned()),
    }
}

/// A time in the largest unit that says it exactly; a year has no such meaning.
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
    /// What to look after, if anything.
    pub(super) fn options(&self) -> anyhow::Result<Option<Options>> {
        let Some(webhook) = self.manage_webhook.clone() else { return Ok(None) };
        // Dates end somewhere, and short lives leave no time to look.
        let bounds = [
            ("--ca-life", self.ca_life, Duration::from_secs(10)),
            ("--certificate-life", self.certificate_life, Duration::from_secs(10)),
            ("--ca-overlap", self.ca_overlap, Duration::from_secs(3)),
        ];
        for (option, time, least) in bounds {
            ensure!(
                (least..=LONGEST).contains(&time),
                "`{option} {}` is not between {} and {}",
                shown(time),
                shown(least),
                shown(LONGEST)
            );
        }
        // The next CA is made at two thirds of a life, and has to be in use before its end.
        ensure!(
            self.ca_overlap * 4 <= self.ca_life,
            "`--ca-overlap {}` is too long for `--ca-life {}`; a quarter of that is the most",
            shown(self.ca_overlap),
            shown(self.ca_life)
        );
        ensure!(
            self.certificate_life <= self.ca_life,
            "`--certificate-life {}` is longer than `--ca-life {}`",
            shown(self.certificate_life),
            shown(self.ca_life)
        );
        Ok(Some(Options {
            secret: self.manage_secret.clone().unwrap_or_else(|| format!("{webhook}-tls")),
            webhook,
            guard: self.manage_guard.clone(),
            lives: Lives { certificate: self.certificate_life, ca: self.ca_life, overlap: self.ca_overlap },
        }))
    }
}
