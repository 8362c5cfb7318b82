//! The options of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use tokio::time::Duration;

use crate::policy_sources::PolicySources;
use crate::server::Limits;
use fabric_engine::admission::Mode;
use fabric_policy::objects::ObjectKind;

use super::super::cluster::ClusterArguments;
use crate::cli::parse::{address, duration, number, object_kind, positive_duration};

/// The default for concurrent connections.
const MAX_CONNECTIONS: usize = 1_024;

/// Answer the admission reviews of an API server over HTTPS
///
/// Without a certificate, the server creates one in memory, listens on loopback only, and prints a command that posts a
/// sample review. If it has no policy either, it uses `aws-efa`.
#[derive(Debug, Args)]
#[command(
    after_long_help = "The server reloads certificates, policies and values when their files change.\n\n\
    On SIGTERM, SIGINT or SIGHUP it is no longer ready, accepts connections for `--shutdown-delay`, and finishes \
    requests in flight for up to `--drain-timeout`. A second signal ends it at once.\n\n\
    Exit status: 0 every request was answered; 1 connections were cut off; 2 the server could not start."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) policies: PolicySources,
    /// The address for reviews [default: 0.0.0.0:8443, or 127.0.0.1:8443 without a certificate]
    #[arg(long, value_name = "ADDRESS:PORT", env = "FABRIC_INJECTOR_LISTEN", value_parser = address)]
    pub(super) listen: Option<SocketAddr>,
    /// The address for /livez, /readyz, /metrics and /policies, without TLS [default: 0.0.0.0:8080, or 127.0.0.1:8080
    /// without a certificate]
    #[arg(long, value_name = "ADDRESS:PORT", env = "FABRIC_INJECTOR_ADMIN_LISTEN", value_parser = address)]
    pub(super) admin_listen: Option<SocketAddr>,
    /// The serving certificate, followed by its intermediate certificates, PEM
    #[arg(long, value_name = "FILE", env = "FABRIC_INJECTOR_TLS_CERT", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of the serving certificate, PEM
    #[arg(long, value_name = "FILE", env = "FABRIC_INJECTOR_TLS_KEY", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// A directory with `tls.crt` and `tls.key`, such as a mounted Secret
    #[arg(long, value_name = "DIR", env = "FABRIC_INJECTOR_TLS_DIR", conflicts_with_all = ["tls_cert", "tls_key"])]
    pub(super) tls_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) cluster: ClusterArguments,
    /// Watch the nodes of the cluster, and decide by what they offer; needs `list` and `watch` of nodes; required
    /// with policies of several providers
    #[arg(long, env = "FABRIC_INJECTOR_WATCH_NODES")]
    pub(super) watch_nodes: bool,
    /// A kind of objects that pods name, such as `resource-claims`, that is not watched with the nodes: nothing is known
    /// about those objects
    #[arg(long, value_name = "KIND,…", env = "FABRIC_INJECTOR_UNWATCHED", value_delimiter = ',', value_parser = object_kind)]
    pub(super) unwatched: Vec<ObjectKind>,
    /// Whether Multus lets pods use networks of other namespaces; `false` with its `namespaceIsolation`
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, env = "FABRIC_INJECTOR_NETWORKS_OF_OTHER_NAMESPACES")]
    pub(super) networks_of_other_namespaces: bool,
    /// The CA of client certificates, PEM; other clients are rejected
    #[arg(long, value_name = "FILE", env = "FABRIC_INJECTOR_CLIENT_CA")]
    pub(super) client_ca: Option<PathBuf>,
    /// The use of the answers: to change pods, or to report only
    #[arg(long, value_enum, default_value = "inject", env = "FABRIC_INJECTOR_MODE")]
    pub(super) mode: ModeArgument,
    /// The response for a pod that cannot be injected because of a fault in the policy or in this program
    #[arg(long, value_enum, default_value = "deny", env = "FABRIC_INJECTOR_ON_ERROR")]
    pub(super) on_error: OnErrorArgument,
    /// Create Events on the controllers of pods that are let through without the fabric, or have a warning that
    /// requires action
    #[arg(long, env = "FABRIC_INJECTOR_EVENTS")]
    pub(super) events: bool,
    /// How long the server still accepts connections after a signal, while clients learn that it stops
    /// [default: 5s, or 0s without a certificate]
    #[arg(long, value_name = "DURATION", env = "FABRIC_INJECTOR_SHUTDOWN_DELAY", value_parser = duration)]
    pub(super) shutdown_delay: Option<Duration>,
    /// How long requests in flight may take after that
    #[arg(long, value_name = "DURATION", default_value = "20s", env = "FABRIC_INJECTOR_DRAIN_TIMEOUT", value_parser = duration)]
    pub(super) drain_timeout: Duration,
    /// The age at which the server closes a connection, so that load spreads over all replicas
    #[arg(long, value_name = "DURATION", default_value = "5m", env = "FABRIC_INJECTOR_MAX_CONNECTION_AGE", value_parser = positive_duration)]
    pub(super) max_connection_age: Duration,
    /// Reviews that wait for their evaluation; the server answers more with 429, or admits their pods unchanged
    /// with `--on-error allow`
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::IN_FLIGHT, env = "FABRIC_INJECTOR_MAX_IN_FLIGHT", value_parser = number::<usize>(1, 1_000_000))]
    pub(super) max_in_flight: usize,
    /// Concurrent connections; beyond them, the server closes one that waits for its client
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_CONNECTIONS, env = "FABRIC_INJECTOR_MAX_CONNECTIONS", value_parser = number::<usize>(1, 1_000_000))]
    pub(super) max_connections: usize,
    /// The log filter: a level (error, warn, info, debug, trace), or a directive such as `fabric_injector=debug`; only
    /// `trace` logs whole pods [default: `RUST_LOG`, else info]
    #[arg(long, value_name = "FILTER", env = "FABRIC_INJECTOR_LOG")]
    pub(super) log: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ModeArgument {
    /// Inject pods
    Inject,
    /// Allow every pod unchanged, and report what would change; `--on-error` is `allow`
    Audit,
}

impl From<ModeArgument> for Mode {
    fn from(argument: ModeArgument) -> Self {
        match argument {
            ModeArgument::Inject => Self::Inject,
            ModeArgument::Audit => Self::Audit,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OnErrorArgument {
    /// Deny it: a multi-node job that silently runs on TCP costs more than one that does not start
    Deny,
    /// Admit it unchanged, with a warning
    Allow,
}
