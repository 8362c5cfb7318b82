//! A server, from opening its ports to its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use crate::cluster::{Events, NodeWatch, Reconciler};
use crate::policy_sources::{PolicySources, RawPolicies};
use fabric_engine::admission::{Mode, OnError};
use fabric_engine::policy_set::PolicySet;
use fabric_policy::work::Work;

use super::connections::Connections;
use super::limits::Limits;
use super::port::{OpenPort, Port, Shutdown};
use super::runtime::ReviewRuntime;
use super::sources::{
    accept_key_pairs, certificate_files, certificate_in_use, client_ca_file, compiled, policy_files, stamps,
};
use super::state::AppState;
use super::tls::{TlsMaterial, TlsSettings, TlsSource};
use super::{app, nodes, reconcile_loop, reload};

/// Concurrent connections to the admin port, if there may be enough open files.
const ADMIN_CONNECTIONS: usize = 64;

/// Concurrent connections to each port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxConnections {
    pub webhook: usize,
    pub admin: usize,
}

impl MaxConnections {
    /// The number to the webhook.
    pub fn with(webhook: usize) -> Self {
        Self { webhook, admin: ADMIN_CONNECTIONS }
    }
}

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of the HTTPS port.
    pub listen: SocketAddr,
    /// The address of the admin port.
    pub admin_listen: SocketAddr,
    /// The source of the certificate.
    pub tls: TlsSource,
    /// The policies and values, which are reloaded when they change.
    pub policy_sources: PolicySources,
    /// The use of the answers.
    pub mode: Mode,
    /// The response for a pod on which the policy or the program fails.
    pub on_error: OnError,
    /// How long the server still accepts connections after a signal, while clients learn that it stops.
    pub shutdown_delay: Duration,
    /// How long requests in flight may take after that.
    pub drain_timeout: Duration,
    /// Whether owners of pods get events.
    pub events: bool,
    /// The limits on concurrent requests.
    pub limits: Limits,
    pub max_connections: MaxConnections,
    /// The age at which connections to the webhook end.
    pub max_connection_age: Duration,
}

/// A signal to stop: the first one begins the shutdown, the second one ends the program at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop;

/// A server whose ports are open and whose certificate and policies are loaded.
pub struct Server {
    config: Config,
    state: Arc<AppState>,
    tls: Arc<TlsSettings>,
    material: TlsMaterial,
    sources: RawPolicies,
    webhook: TcpListener,
    admin: TcpListener,
    reconciler: Option<Reconciler>,
    node_watch: Option<NodeWatch>,
}

impl Server {
    /// Loads the certificate and the policies, and then opens the ports: each accepted connection is served. A
    /// reconciler runs with the server.
    pub async fn bind(config: Config, reconciler: Option<Reconciler>) -> anyhow::Result<Self> {
        let sources = config.policy_sources.read()?;
        let policies = compiled(&sources, &Work::of_loading())?;
        for note in &sources.notes {
            tracing::info!(detail = %note, "files that are no policies");
        }
        let material = config.tls.read(reconciler.as_ref())?;
        let (tls, validity) = TlsSettings::new(material.clone(), SystemTime::now())?;
        let state = Arc::new(AppState::new(policies, config.on_error, config.limits).in_mode(config.mode));
        certificate_in_use(&state, validity);
        let _ = state.sources.set(config.policy_sources.clone());
        if config.events {
            let told = Arc::clone(&state);
            let _ = state.events.set(Events::start(move |result| told.event(result)).await?);
        }
        let webhook = bind("--listen", config.listen).await?;
        let admin = bind("--admin-listen", config.admin_listen).await?;
        let (tls, node_watch) = (Arc::new(tls), None);
        Ok(Self { config, state, tls, material, sources, webhook, admin, reconciler, node_watch })
    }

    /// Watches the nodes of the cluster while the server runs.
    #[must_use]
    pub fn watching(self, node_watch: Option<NodeWatch>) -> Self {
        Self { node_watch, ..self }
    }

    /// The address of the HTTPS port.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.webhook.local_addr()
    }

    /// The address of the admin port.
    pub fn admin_address(&self) -> io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// The policies in use.
    pub(crate) fn policies(&self) -> Arc<PolicySet> {
        self.state.policies.load_full()
    }

    /// Logs the addresses and the policies.
    pub(crate) fn log_start(&self) -> io::Result<()> {
        let (address, admin) = (self.address()?, self.admin_address()?);
        let policies = stamps(&self.policies());
        let mode = self.config.mode.name();
        tracing::info!(%address, %admin, policies, mode, version = env!("CARGO_PKG_VERSION"), "listening");
        Ok(())
    }

    /// Serves until the first signal, then shuts down.
    pub async fn run(self, stops: mpsc::Receiver<Stop>) -> io::Result<Shutdown> {
        let webhook = app::webhook(Arc::clone(&self.state));
        self.run_with(webhook, stops).await
    }

    /// The same with other routes on the HTTPS port, for benchmarks.
    pub async fn run_with(
        mut self,
        webhook: Router,
        mut stops: mpsc::Receiver<Stop>,
    ) -> io::Result<Shutdown> {
        let runtime = ReviewRuntime::start()?;
        let reconciling = self.start_reconciler();
        let reloading = self.start_reloads();
        let (config, state) = (self.config, self.state);
        let admin = Port {
            app: app::admin(Arc::clone(&state)),
            tls: None,
            max_age: Duration::from_hours(1),
            connections: Arc::new(Connections::default()),
            max_connections: config.max_connections.admin,
            metrics: None,
        };
        let admin = admin.open(self.admin);
        let webhook = Port {
            app: webhook,
            tls: Some(self.tls),
            max_age: config.max_connection_age,
            connections: Arc::clone(&state.connections),
            max_connections: config.max_connections.webhook,
            metrics: Some(Arc::clone(&state.metrics)),
        };
        let webhook = runtime.open(webhook, self.webhook)?;
        state.readiness.listening();
        stops.recv().await;
        state.readiness.stopping();
        webhook.leave();
        // A replica that stops must not restore objects that an uninstallation removes.
        drop(reconciling);
        let ended = shut_down(webhook, &config, &mut stops).await;
        // Probes and scrapes are answered until now.
        drop((reloading, admin));
        match ended {
            Shutdown::Drained => tracing::info!("stopped, every request was answered"),
            Shutdown::CutOff => tracing::warn!("stopped, connections were cut off"),
        }
        Ok(ended)
    }

    fn start_reconciler(&mut self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let Some(reconciler) = self.reconciler.take() {
            let state = || Arc::clone(&self.state);
            tasks.spawn(accept_key_pairs(reconciler.key_pairs(), Arc::clone(&self.tls), state()));
            tasks.spawn(reconcile_loop::run(reconciler, state()));
        }
        tasks
    }

    fn start_reloads(&mut self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let state = || Arc::clone(&self.state);
        let (tls, settings) = (&self.config.tls, Arc::clone(&self.tls));
        let policies = policy_files(self.config.policy_sources.clone(), state());
        tasks.spawn(reload::watch(policies, state(), self.sources.clone()));
        match (tls, &self.material.client_ca) {
            (TlsSource::Files { .. }, _) => {
                let files = certificate_files(tls.clone(), settings, state());
                tasks.spawn(reload::watch(files, state(), self.material.clone()));
            }
            (TlsSource::Reconciler { client_ca: Some(path) }, Some(content)) => {
                let file = client_ca_file(path.clone(), settings);
                tasks.spawn(reload::watch(file, state(), content.clone()));
            }
            (TlsSource::Reconciler { .. } | TlsSource::Memory(_), _) => {}
        }
        if let Some(watch) = self.node_watch.take() {
            let state = state();
            tasks.spawn(watch.run(move |watched| nodes::put_in_use(&state, watched)));
            tasks.spawn(nodes::look_for_absent(Arc::clone(&self.state)));
        }
        tasks
    }
}

/// Accepts connections for the shutdown delay, then drains; a second signal ends both.
async fn shut_down(webhook: OpenPort, config: &Config, stops: &mut mpsc::Receiver<Stop>) -> Shutdown {
    tracing::info!(delay = ?config.shutdown_delay, "stopping, still accepting");
    tokio::select! {
        biased;
        _ = stops.recv() => Shutdown::CutOff,
        ended = async {
            sleep(config.shutdown_delay).await;
            webhook.drain(config.drain_timeout).await
        } => ended,
    }
}

/// Opens the port of an option.
async fn bind(option: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => "another program listens there; choose another port",
            io::ErrorKind::PermissionDenied => {
                "not permitted; ports below 1024 are reserved, choose a higher one"
            }
            io::ErrorKind::AddrNotAvailable => "this machine has no such address",
            _ => return anyhow!(error),
        };
        anyhow!("`{option} {address}`: {why}")
    });
    listener.with_context(|| format!("cannot listen on {address}"))
}
