//! `fabric-injector certs`: a CA and a serving pair, for whoever runs without cert-manager.

use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use clap::{ArgGroup, Args};

use crate::shell::authority::Authority;
use crate::shell::files::read_bounded;
use crate::shell::pem;

use super::Status;
use super::output::Output;

/// Make a CA and a serving certificate, for those who run without cert-manager
///
/// Writes `ca.crt`, `ca.key`, `tls.crt` and `tls.key`. A CA that is there already is used again, so that a serving
/// certificate can be renewed while the `caBundle` of the webhook configuration stays as it is.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("names").args(["dns", "ip"]).required(true).multiple(true))]
pub(super) struct Arguments {
    /// The folder to write to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A name by which clients reach the server, such as `fabric-injector.fabric-injector.svc`; may be given
    /// several times
    #[arg(long, value_name = "NAME", value_parser = dns_name)]
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
    if text.parse::<IpAddr>().is_ok() {
        return Err("this is an address; addresses go with `--ip`".to_owned());
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    let label_is_good = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // What ends with a number is read as an address by every client, so it would never be found.
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    if name.len() <= 253
        && name.split('.').all(label_is_good)
        && !name.rsplit('.').next().is_some_and(is_number)
    {
        Ok(text.to_owned())
    } else {
        Err("write a DNS name, such as `fabric-injector.fabric-injector.svc`; addresses go with `--ip`"
            .to_owned())
    }
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Status> {
    let folder = &arguments.folder;
    let path = |name: &str| folder.join(name);
    ensure!(folder.is_dir() || !folder.exists(), "{} is a file, not a folder", folder.display());
    if let Some(there) = ["tls.crt", "tls.key"].map(path).into_iter().find(|path| path.exists())
        && !arguments.renew
    {
        bail!("{} is there already\nhint: use `--renew` to replace it, or another folder", there.display());
    }
    let now = SystemTime::now();
    let (authority, is_new) = authority(&path("ca.crt"), &path("ca.key"), now)?;
    let life = Duration::from_hours(24 * u64::from(arguments.days));
    let issued = authority.issue(&arguments.dns, &arguments.ip, now, life);
    let issued = issued.with_context(|| format!("{} cannot be used", path("ca.crt").display()))?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut files = Vec::new();
    // Keys first: a server that looks in between finds the old pair or two that do not match, never a certificate
    // without its key.
    if is_new {
        files.push(NewFile { name: "ca.key", text: &authority.key, mode: 0o600 });
        files.push(NewFile { name: "ca.crt", text: &authority.cert, mode: 0o644 });
    } else {
        output.message(&format!("the CA {} is used again", path("ca.crt").display()));
    }
    files.push(NewFile { name: "tls.key", text: &issued.key, mode: 0o600 });
    files.push(NewFile { name: "tls.crt", text: &issued.cert, mode: 0o644 });
    write(folder, &files)?;
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

/// The CA of the folder, else a new one; and whether it is new.
fn authority(cert: &Path, key: &Path, now: SystemTime) -> anyhow::Result<(Authority, bool)> {
    match (cert.exists(), key.exists()) {
        (false, false) => Ok((Authority::new(now)?, true)),
        (true, true) => {
            let read = |path: &Path| {
                let bytes = read_bounded(path, path, pem::FILE)?;
                String::from_utf8(bytes).with_context(|| format!("{} cannot be read", path.display()))
            };
            Ok((Authority { cert: read(cert)?, key: read(key)? }, false))
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

/// A file to be written.
struct NewFile<'a> {
    name: &'static str,
    text: &'a str,
    mode: u32,
}

/// Writes files so that nobody ever reads half of one, or reads a key that is not theirs: all of them beside their
/// places first, and nothing is left of them if one fails.
fn write(folder: &Path, files: &[NewFile]) -> anyhow::Result<()> {
    let beside = |file: &NewFile| folder.join(format!("{}.new", file.name));
    let stage = |file: &NewFile| -> io::Result<()> {
        if folder.join(file.name).is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let _ = fs::remove_file(beside(file));
        let options = fs::OpenOptions::new().write(true).create_new(true).mode(file.mode).clone();
        let mut opened = options.open(beside(file))?;
        opened.write_all(file.text.as_bytes())?;
        opened.sync_all()
    };
    let rename = |file: &NewFile| fs::rename(beside(file), folder.join(file.name));
    let each = |what: &dyn Fn(&NewFile) -> io::Result<()>| {
        files.iter().try_for_each(|file| {
            what(file).with_context(|| format!("{} cannot be written", folder.join(file.name).display()))
        })
    };
    let written = each(&stage).and_then(|()| each(&rename));
    if written.is_err() {
        for file in files {
            let _ = fs::remove_file(beside(file));
        }
    }
    written
}
