//! The configuration of a server, from its options.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::SystemTime;

use anyhow::bail;
use tokio::time::Duration;

use crate::authority::{Authority, KeyPair};
use crate::builtin;
use crate::policy_sources::PolicySources;
use crate::server::{Config, Limits, TlsSource};
use fabric_engine::admission::OnError;

use super::arguments::{Arguments, OnErrorArgument};
use super::open_files;

/// The validity of a certificate in memory.
const SELF_SIGNED_DURATION: Duration = Duration::from_hours(365 * 24);

/// The configuration of a server.
pub(super) struct Configuration {
    pub(super) server: Config,
    /// The CA of a certificate in memory, PEM.
    pub(super) ca: Option<String>,
}

impl Configuration {
    pub(super) fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let source = source(arguments)?;
        if source.is_none() && arguments.client_ca.is_some() {
            bail!(
                "`--client-ca` needs a certificate for the server\nhint: add `--tls-dir DIR`, or `--tls-cert` and `--tls-key`"
            );
        }
        let host = if source.is_some() { [0, 0, 0, 0] } else { [127, 0, 0, 1] };
        let listen = arguments.listen.unwrap_or_else(|| (host, 8443).into());
        let admin_listen = arguments.admin_listen.unwrap_or_else(|| (host, 8080).into());
        if listen == admin_listen && listen.port() != 0 {
            bail!("`--listen` and `--admin-listen` are both {listen}; choose another port for one");
        }
        let delay = if source.is_some() { Duration::from_secs(5) } else { Duration::ZERO };
        let (tls, ca) = match source {
            Some(source) => (source, None),
            None => self_signed(listen).map(|(key_pair, ca)| (TlsSource::Memory(key_pair), Some(ca)))?,
        };
        let server = Config {
            listen,
            admin_listen,
            tls,
            policy_sources: policy_sources(arguments)?,
            mode: arguments.mode.into(),
            on_error: match arguments.on_error {
                OnErrorArgument::Deny => OnError::Deny,
                OnErrorArgument::Allow => OnError::Allow,
            },
            shutdown_delay: arguments.shutdown_delay.unwrap_or(delay),
            drain_timeout: arguments.drain_timeout,
            events: arguments.events,
            limits: Limits { in_flight: arguments.max_in_flight, ..Limits::default() },
            max_connections: open_files::max_connections(arguments.max_connections),
            max_connection_age: arguments.max_connection_age,
        };
        Ok(Self { server, ca })
    }
}

/// The configured source of the certificate, if there is one.
fn source(arguments: &Arguments) -> anyhow::Result<Option<TlsSource>> {
    let client_ca = arguments.client_ca.clone();
    if arguments.cluster.options()?.is_some() {
        return Ok(Some(TlsSource::Reconciler { client_ca }));
    }
    let (cert, key) = match (&arguments.tls_cert, &arguments.tls_key, &arguments.tls_dir) {
        (Some(cert), Some(key), _) => (cert.clone(), key.clone()),
        (_, _, Some(folder)) => (folder.join("tls.crt"), folder.join("tls.key")),
        _ => return Ok(None),
    };
    Ok(Some(TlsSource::Files { cert, key, client_ca }))
}

/// The policies and values. A server without a certificate has a default policy.
pub(super) fn policy_sources(arguments: &Arguments) -> anyhow::Result<PolicySources> {
    let by_nodes = arguments.watch_nodes;
    let mut sources = PolicySources { by_nodes, ..arguments.policies.clone() };
    if source(arguments)?.is_none() && !by_nodes && sources.are_empty() {
        sources.policies.push(builtin::DEFAULT.to_owned());
    }
    Ok(sources)
}

/// A certificate in memory for loopback and the address of the HTTPS port, and its CA.
fn self_signed(listen: SocketAddr) -> anyhow::Result<(KeyPair, String)> {
    let now = SystemTime::now();
    let authority = Authority::new(now)?;
    let mut ips: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if !listen.ip().is_unspecified() && !ips.contains(&listen.ip()) {
        ips.push(listen.ip());
    }
    let key_pair = authority.issue(&["localhost".to_owned()], &ips, now, SELF_SIGNED_DURATION)?;
    Ok((key_pair, authority.cert))
}
