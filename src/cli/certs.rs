//! `fabric-injector certs`: a CA and a serving pair, for whoever runs without cert-manager.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::Args;

use crate::authority::{Authority, Issued};

use super::Status;
use super::output::Output;

/// Make a CA and a serving certificate, for those who run without cert-manager
///
/// Writes `ca.crt`, `ca.key`, `tls.crt` and `tls.key`. A CA that is there already is used again, so that a serving
/// certificate can be renewed while the `caBundle` of the webhook configuration stays as it is.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder to write to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A name by which clients reach the server, such as `fabric-injector.fabric-injector.svc`; may be given
    /// several times
    #[arg(long, value_name = "NAME", required_unless_present = "ip", value_parser = dns_name)]
    dns: Vec<String>,
    /// An address by which clients reach the server; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    ip: Vec<IpAddr>,
    /// How many days the serving certificate is valid; the CA is for ten years
    #[arg(long, value_name = "NUMBER", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Replace a serving certificate that is there already
    #[arg(long)]
    renew: bool,
}

fn dns_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let label_is_good = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() <= 253 && name.split('.').all(label_is_good) {
        Ok(text.to_owned())
    } else {
        Err("write a DNS name, such as `fabric-injector.fabric-injector.svc`; addresses go with `--ip`"
            .to_owned())
    }
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Status> {
    let folder = &arguments.folder;
    let path = |name: &str| folder.join(name);
    let (cert, key) = (path("tls.crt"), path("tls.key"));
    if let Some(there) = [&cert, &key].into_iter().find(|path| path.exists())
        && !arguments.renew
    {
        bail!("{} is there already\nhint: use `--renew` to replace it, or another folder", there.display());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let now = SystemTime::now();
    let authority = authority(&path("ca.crt"), &path("ca.key"), now, output)?;
    let life = Duration::from_hours(24 * u64::from(arguments.days));
    let Issued { cert: pem, key: key_pem } = authority.issue(&arguments.dns, &arguments.ip, now, life)?;
    // The key first: a server that looks in between finds the old pair or two that do not match, never a
    // certificate without its key.
    write(&key, &key_pem, 0o600)?;
    write(&cert, &pem, 0o644)?;
    for name in ["ca.crt", "tls.crt", "tls.key"] {
        output.data(format!("{}\n", path(name).display()).as_bytes())?;
    }
    output.message(&format!(
        "hint: `serve --tls-dir {}` serves it; the `caBundle` of the webhook configuration is `base64 -w0 {}`; \
         keep {} away from the cluster",
        folder.display(),
        path("ca.crt").display(),
        path("ca.key").display()
    ));
    Ok(Status::Done)
}

/// The CA of the folder, else a new one.
fn authority(cert: &Path, key: &Path, now: SystemTime, output: &mut Output) -> anyhow::Result<Authority> {
    match (cert.exists(), key.exists()) {
        (false, false) => {
            let authority = Authority::new(now)?;
            write(key, &authority.key, 0o600)?;
            write(cert, &authority.cert, 0o644)?;
            Ok(authority)
        }
        (true, true) => {
            output.message(&format!("the CA {} is used again", cert.display()));
            let read = |path: &Path| {
                fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
            };
            Ok(Authority { cert: read(cert)?, key: read(key)? })
        }
        (there, _) => {
            let (there, missing) = if there { (cert, key) } else { (key, cert) };
            bail!(
                "{} is there, and {} is not\nhint: bring both, or remove what is left to get a new CA",
                there.display(),
                missing.display()
            )
        }
    }
}

/// Writes a file so that nobody ever reads half of it, or reads a key that is not theirs.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let beside = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        let _ = fs::remove_file(&beside);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    written().with_context(|| format!("{} cannot be written", path.display()))
}
