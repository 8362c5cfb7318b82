//! `fabric-injector certs`: a CA and a serving certificate in files, without cert-manager.

use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use clap::{ArgGroup, Args};

use crate::authority::Authority;
use crate::files::{read_bounded, uninterrupted};
use crate::pem;

use crate::cli::ExitStatus;
use crate::cli::output::Output;
use crate::cli::parse::{dns_name, ip, number};

/// Create a CA and a serving certificate without cert-manager
///
/// Writes `ca.crt`, `ca.key`, `tls.crt` and `tls.key`. An existing CA signs the new certificate, and `caBundle` of the
/// webhook configuration stays the same.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("names").args(["dns", "ip"]).required(true).multiple(true))]
pub(crate) struct Arguments {
    /// The directory to write to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A DNS name of the server, such as `fabric-injector.fabric-injector.svc`; may be given
    /// several times
    #[arg(long, value_name = "NAME", value_parser = dns_name)]
    dns: Vec<String>,
    /// An IP address of the server; may be given several times
    #[arg(long, value_name = "ADDRESS", value_parser = ip)]
    ip: Vec<IpAddr>,
    /// The validity of the serving certificate in days; that of the CA is ten years
    #[arg(long, value_name = "NUMBER", default_value_t = 365, value_parser = number::<u32>(1, 3650))]
    days: u32,
    /// Replace an existing serving certificate
    #[arg(long)]
    renew: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let folder = &arguments.folder;
    let path = |name: &str| folder.join(name);
    ensure!(folder.is_dir() || !folder.exists(), "{} is a file, not a directory", folder.display());
    if let Some(existing) = ["tls.crt", "tls.key"].map(path).into_iter().find(|path| path.exists())
        && !arguments.renew
    {
        bail!(
            "{} exists already\nhint: use `--renew` to replace it, or another directory",
            existing.display()
        );
    }
    let now = SystemTime::now();
    let (authority, is_new) = authority(&path("ca.crt"), &path("ca.key"), now)?;
    let duration = Duration::from_hours(24 * u64::from(arguments.days));
    let issued = authority.issue(&arguments.dns, &arguments.ip, now, duration);
    let issued = issued.with_context(|| format!("the CA in {} cannot be used", folder.display()))?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    let mut files = Vec::new();
    // Keys first: a server that reads the files in between finds the old pair, or a pair that does not match.
    if is_new {
        files.push(NewFile { name: "ca.key", text: &authority.key, mode: 0o600 });
        files.push(NewFile { name: "ca.crt", text: &authority.cert, mode: 0o644 });
    } else {
        output.message(&format!("using the existing CA {}", path("ca.crt").display()));
    }
    files.push(NewFile { name: "tls.key", text: &issued.key, mode: 0o600 });
    files.push(NewFile { name: "tls.crt", text: &issued.cert, mode: 0o644 });
    uninterrupted(|| write(folder, &files))?;
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
    Ok(ExitStatus::Done)
}

/// The CA of the directory, else a new one; and whether it is new.
fn authority(cert: &Path, key: &Path, now: SystemTime) -> anyhow::Result<(Authority, bool)> {
    match (cert.exists(), key.exists()) {
        (false, false) => Ok((Authority::new(now)?, true)),
        (true, true) => {
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let read = |path: &Path| read_bounded(path, path, pem::FILE).map(text);
            Ok((Authority { cert: read(cert)?, key: read(key)? }, false))
        }
        (there, _) => {
            let (there, missing) = if there { (cert, key) } else { (key, cert) };
            bail!(
                "{} exists, and {} does not\nhint: provide both, or remove the former to get a new CA",
                there.display(),
                missing.display()
            )
        }
    }
}

struct NewFile<'a> {
    name: &'static str,
    text: &'a str,
    mode: u32,
}

/// Writes the files under temporary names first, and renames them when all are complete. On failure it removes the
/// temporary files.
fn write(folder: &Path, files: &[NewFile]) -> anyhow::Result<()> {
    let temporary = |file: &NewFile| folder.join(format!("{}.new", file.name));
    let stage = |file: &NewFile| -> io::Result<()> {
        if let Some(path) = [folder.join(file.name), temporary(file)].iter().find(|path| path.is_dir()) {
            return Err(io::Error::other(format!("{} is a directory", path.display())));
        }
        let _ = fs::remove_file(temporary(file));
        let options = fs::OpenOptions::new().write(true).create_new(true).mode(file.mode).clone();
        let mut opened = options.open(temporary(file))?;
        opened.write_all(file.text.as_bytes())?;
        opened.sync_all()
    };
    let rename = |file: &NewFile| fs::rename(temporary(file), folder.join(file.name));
    let each = |what: &dyn Fn(&NewFile) -> io::Result<()>| {
        files.iter().try_for_each(|file| {
            what(file).with_context(|| format!("{} cannot be written", folder.join(file.name).display()))
        })
    };
    let written = each(&stage).and_then(|()| each(&rename));
    if written.is_err() {
        for file in files {
            let _ = fs::remove_file(temporary(file));
        }
    }
    written
}
