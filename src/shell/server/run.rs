//! A server from its ports to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use arc_swap::ArcSwap;
use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::core::admission::OnError;
use crate::core::policy_set::PolicySet;
use crate::shell::cluster::Keeper;
use crate::shell::selection::Selection;
use crate::shell::telemetry::Metrics;

use super::certificate::{Loaded, TlsSource};
use super::connection::{self, Context, Phase, Times};
use super::connections::Connections;
use super::state::{Limits, State};
use super::{registration, reload};

/// Connections that the admin port holds at once.
const ADMIN_CONNECTIONS: usize = 64;

/// What an operator chose for a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where reviews are answered.
    pub listen: SocketAddr,
    /// Where health and metrics are told.
    pub admin_listen: SocketAddr,
    /// The certificate.
    pub tls: TlsSource,
    /// The policies.
    pub selection: Selection,
    /// What is answered when a pod cannot be served by a fault of ours.
    pub on_error: OnError,
    /// How long to go on accepting after having been told to stop: until then, clients still come.
    pub shutdown_delay: Duration,
    /// How long what is in flight may take to finish after that.
    pub drain_timeout: Duration,
    /// How much is taken on at once.
    pub limits: Limits,
    /// Connections at once.
    pub max_connections: usize,
    /// How long the parts of a connection may take.
    pub times: Times,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was asked was answered.
    Drained,
    /// Something was cut off.
    CutOff,
}

/// A request to stop: the first begins a drain, the second ends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop;

/// A server with its ports open and everything loaded.
#[derive(Debug)]
pub struct Server {
    config: Config,
    state: Arc<State>,
    tls: Arc<ArcSwap<ServerConfig>>,
    pair: super::Pair,
    sources: crate::shell::selection::Sources,
    webhook: TcpListener,
    admin: TcpListener,
    keeper: Option<Keeper>,
}

impl Server {
    /// Loads certificate and policies, then opens the ports: whoever can connect will be answered.
    pub async fn bind(config: Config) -> anyhow::Result<Self> {
        let sources = config.selection.read()?;
        let policies = sources.compile()?;
        let pair = config.tls.read()?;
        let Loaded { config: tls, validity } = pair.load(SystemTime::now())?;
        let state = Arc::new(State::new(policies, config.on_error, config.limits));
        reload::certificate_in_use(&state, validity);
        let webhook = bind("--listen", config.listen).await?;
        let admin = bind("--admin-listen", config.admin_listen).await?;
        let tls = Arc::new(ArcSwap::new(tls));
        Ok(Self { config, state, tls, pair, sources, webhook, admin, keeper: None })
    }

    /// The same server, which looks after its registration while it serves.
    #[must_use]
    pub fn with_keeper(self, keeper: Keeper) -> Self {
        Self { keeper: Some(keeper), ..self }
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
    pub fn policies(&self) -> Arc<PolicySet> {
        self.state.policies.load_full()
    }

    /// What requests share.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Serves until told to stop, with the routers of the webhook and the admin port.
    pub async fn run(self, stops: mpsc::Receiver<Stop>) -> Ended {
        let router = super::router(Arc::clone(&self.state));
        self.run_with(router, stops).await
    }

    /// Serves with another router on the HTTPS port, for whoever wants to know what the rest costs.
    pub async fn run_with(self, router: Router, mut stops: mpsc::Receiver<Stop>) -> Ended {
        let Self { config, state, tls, pair, sources, webhook, admin, keeper } = self;
        let keeping = keeper.map(|keeper| tokio::spawn(registration::keep(keeper, Arc::clone(&state))));
        let watching = [
            tokio::spawn(reload::watch(
                reload::Certificate {
                    source: config.tls.clone(),
                    config: Arc::clone(&tls),
                    state: Arc::clone(&state),
                },
                Arc::clone(&state),
                pair,
            )),
            tokio::spawn(reload::watch(
                reload::Policies { selection: config.selection.clone(), state: Arc::clone(&state) },
                Arc::clone(&state),
                sources,
            )),
        ];
        let admin = Port {
            listener: admin,
            router: super::admin_router(Arc::clone(&state)),
            tls: None,
            times: Times { age: Duration::from_hours(1), ..config.times },
            connections: Arc::new(Connections::new(ADMIN_CONNECTIONS)),
            metrics: None,
        }
        .open();
        let webhook = Port {
            listener: webhook,
            router,
            tls: Some(tls),
            times: config.times,
            connections: Arc::new(Connections::new(config.max_connections)),
            metrics: Some(Arc::clone(&state.metrics)),
        }
        .open();
        state.status.listening();
        stops.recv().await;
        state.status.stopping();
        let _ = webhook.phase.send(Phase::Leaving);
        // Whoever goes leaves the cluster to those who stay, and to nobody after an uninstall.
        keeping.iter().for_each(tokio::task::JoinHandle::abort);
        tracing::info!(delay = ?config.shutdown_delay, "stopping, still accepting");
        let ended = tokio::select! {
            biased;
            _ = stops.recv() => Ended::CutOff,
            ended = async {
                sleep(config.shutdown_delay).await;
                webhook.drain(config.drain_timeout).await
            } => ended,
        };
        watching.iter().for_each(tokio::task::JoinHandle::abort);
        // The admin port was there to the end; nobody needs the rest of its answers.
        drop(admin);
        match ended {
            Ended::Drained => tracing::info!("stopped, every request was answered"),
            Ended::CutOff => tracing::warn!("stopped, connections were cut off"),
        }
        ended
    }
}

async fn bind(option: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                anyhow!("`{option} {address}`: another program listens there; choose another port")
            }
            io::ErrorKind::PermissionDenied => {
                anyhow!(
                    "`{option} {address}`: not permitted; ports below 1024 are reserved, choose a higher one"
                )
            }
            io::ErrorKind::AddrNotAvailable => {
                anyhow!("`{option} {address}`: this machine has no such address")
            }
            _ => anyhow!(error),
        })
        .with_context(|| format!("cannot listen on {address}"))
}

/// A port and what is served there.
struct Port {
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<ArcSwap<ServerConfig>>>,
    times: Times,
    connections: Arc<Connections>,
    metrics: Option<Arc<Metrics>>,
}

/// A port that accepts connections.
struct OpenPort {
    accepting: tokio::task::JoinHandle<()>,
    phase: watch::Sender<Phase>,
    connections: Arc<Connections>,
    /// Every connection has a sender; when none is left, all have ended.
    ended: mpsc::Receiver<()>,
}

impl Port {
    fn open(self) -> OpenPort {
        let (phase, of_server) = watch::channel(Phase::Serving);
        let (alive, ended) = mpsc::channel(1);
        let connections = Arc::clone(&self.connections);
        OpenPort { accepting: tokio::spawn(self.accept(of_server, alive)), phase, connections, ended }
    }

    async fn accept(self, phase: watch::Receiver<Phase>, alive: mpsc::Sender<()>) {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely; trying again at once would only make heat.
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(place) = self.connections.add() else {
                tracing::warn!("a connection was refused: as many are busy as there may be");
                continue;
            };
            let context = Context {
                router: self.router.clone(),
                times: self.times,
                connection: Arc::clone(&place.connection),
                phase: phase.clone(),
                metrics: self.metrics.clone(),
            };
            let tls = self.tls.as_ref().map(|config| TlsAcceptor::from(config.load_full()));
            let alive = alive.clone();
            tokio::spawn(async move {
                let _counted = context.metrics.as_ref().map(|metrics| metrics.connection());
                connection::serve(stream, tls, context).await;
                drop((place, alive));
            });
        }
    }
}

impl OpenPort {
    /// Accepts no more, lets every connection finish what it was asked, and waits for them.
    async fn drain(mut self, within: Duration) -> Ended {
        self.accepting.abort();
        // The sender of the accepting task goes with it.
        let _ = (&mut self.accepting).await;
        let _ = self.phase.send(Phase::Draining);
        match timeout(within, self.ended.recv()).await {
            Err(_) if self.connections.any_busy() => Ended::CutOff,
            // Who is left has asked nothing.
            Ok(_) | Err(_) => Ended::Drained,
        }
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
