//! `fabric-injector serve`: the webhook.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Duration;
use tracing_appender::non_blocking::WorkerGuard;

use crate::core::admission::{OnError, sample_review};
use crate::shell::authority::Authority;
use crate::shell::builtin;
use crate::shell::cluster::Keeper;
use crate::shell::selection::Selection;
use crate::shell::server::{Config, Ended, Limits, Pair, Server, Stop, Times, TlsSource};
use crate::shell::telemetry::{logs, traces};

use super::Status;
use super::cluster::ClusterArguments;
use super::output::{self, Output};
use super::selection::SelectionArguments;

/// Threads that serve requests. One answers some ten thousand a second; more than a few only cost memory.
const MOST_THREADS: usize = 4;
/// Connections at once by default.
const MAX_CONNECTIONS: usize = 1_024;
/// Files that are open besides the connections: the admin port's, and those that are read.
const OTHER_FILES: usize = 128;
/// How long the end waits for whoever reads the log.
const LOG_END: Duration = Duration::from_millis(1_500);
/// How long a certificate in memory is valid.
const LIFE_IN_MEMORY: Duration = Duration::from_hours(365 * 24);

/// Answer the admission reviews of an API server over HTTPS
///
/// Without a certificate it makes one of its own in memory, listens on loopback only, and prints how to post a
/// sample review; without a policy as well, it serves by `aws-efa`.
#[derive(Debug, Args)]
#[command(after_long_help = "Certificates, policies and values are loaded anew when their files change.\n\n\
    SIGTERM, SIGINT or SIGHUP: no longer ready, still accepting for `--shutdown-delay`, then nothing new, and up to \
    `--drain-timeout` for what is in flight. A second signal ends at once.\n\n\
    Exit status: 0 ended, every request was answered; 1 ended, connections were cut off; 2 could not start.")]
pub(super) struct Arguments {
    #[command(flatten)]
    selection: SelectionArguments,
    /// Where to answer reviews [default: 0.0.0.0:8443, or 127.0.0.1:8443 without a certificate]
    #[arg(long, value_name = "ADDRESS:PORT", env = "FABRIC_INJECTOR_LISTEN", value_parser = address, hide_env_values = true)]
    listen: Option<SocketAddr>,
    /// Where to answer /livez, /readyz, /metrics and /policies, without TLS [default: 0.0.0.0:8080, or
    /// 127.0.0.1:8080 without a certificate]
    #[arg(long, value_name = "ADDRESS:PORT", env = "FABRIC_INJECTOR_ADMIN_LISTEN", value_parser = address, hide_env_values = true)]
    admin_listen: Option<SocketAddr>,
    /// The serving certificate and what stands between it and the CA, PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "FABRIC_INJECTOR_TLS_CERT",
        requires = "tls_key",
        hide_env_values = true
    )]
    tls_cert: Option<PathBuf>,
    /// The key of the serving certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "FABRIC_INJECTOR_TLS_KEY",
        requires = "tls_cert",
        hide_env_values = true
    )]
    tls_key: Option<PathBuf>,
    /// A folder with `tls.crt` and `tls.key`, such as a mounted Secret
    #[arg(long, value_name = "DIR", env = "FABRIC_INJECTOR_TLS_DIR", conflicts_with_all = ["tls_cert", "tls_key"], hide_env_values = true)]
    tls_dir: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Answer only clients with a certificate of this CA, PEM
    #[arg(long, value_name = "FILE", env = "FABRIC_INJECTOR_CLIENT_CA", hide_env_values = true)]
    client_ca: Option<PathBuf>,
    /// What to do with a pod that cannot be served by a fault of the policy or of this program
    #[arg(
        long,
        value_enum,
        default_value = "deny",
        env = "FABRIC_INJECTOR_ON_ERROR",
        hide_env_values = true
    )]
    on_error: OnErrorArgument,
    /// How long to go on accepting once told to stop: until then, clients still come [default: 5s, or 0s without
    /// a certificate]
    #[arg(long, value_name = "TIME", env = "FABRIC_INJECTOR_SHUTDOWN_DELAY", value_parser = time, hide_env_values = true)]
    shutdown_delay: Option<Duration>,
    /// How long what is in flight may take to finish after that
    #[arg(long, value_name = "TIME", default_value = "20s", env = "FABRIC_INJECTOR_DRAIN_TIMEOUT", value_parser = time, hide_env_values = true)]
    drain_timeout: Duration,
    /// Close a connection at about this age, so that load spreads anew over all replicas
    #[arg(long, value_name = "TIME", default_value = "5m", env = "FABRIC_INJECTOR_MAX_CONNECTION_AGE", value_parser = positive_time, hide_env_values = true)]
    max_connection_age: Duration,
    /// Requests at once whose body has arrived; more are told to come again, or let through with `--on-error allow`
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::IN_FLIGHT, env = "FABRIC_INJECTOR_MAX_IN_FLIGHT", value_parser = count, hide_env_values = true)]
    max_in_flight: usize,
    /// Connections at once; the one that has been silent for longest makes room
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_CONNECTIONS, env = "FABRIC_INJECTOR_MAX_CONNECTIONS", value_parser = count, hide_env_values = true)]
    max_connections: usize,
    /// What to log: a level (error, warn, info, debug, trace), or `fabric_injector=debug` and the like; pods
    /// are logged whole at trace only [default: `RUST_LOG`, else info]
    #[arg(long, value_name = "FILTER", env = "FABRIC_INJECTOR_LOG", hide_env_values = true)]
    log: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnErrorArgument {
    /// Refuse it: a multi-node job that silently runs on TCP costs more than one that does not start
    Deny,
    /// Let it through as it came, with a warning
    Allow,
}

impl From<OnErrorArgument> for OnError {
    fn from(argument: OnErrorArgument) -> Self {
        match argument {
            OnErrorArgument::Deny => Self::Deny,
            OnErrorArgument::Allow => Self::Allow,
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, such as `0.0.0.0:8443` or `[::]:8443`".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "write a time with its unit, such as `5s`, `500ms` or `2m`".to_owned())
}

pub(super) fn positive_time(text: &str) -> Result<Duration, String> {
    time(text).and_then(
        |time| if time.is_zero() { Err("has to be more than nothing".to_owned()) } else { Ok(time) },
    )
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        // A semaphore of tokio has no more.
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("write a number from 1 to 1000000".to_owned()),
    }
}

/// A server that makes its own certificate, and the CA of it.
struct SelfSigned {
    pair: Pair,
    ca: String,
}

impl SelfSigned {
    fn new(listen: SocketAddr) -> anyhow::Result<Self> {
        let now = SystemTime::now();
        let authority = Authority::new(now)?;
        let loopback: [SocketAddr; 2] = [([127, 0, 0, 1], 0).into(), ([0, 0, 0, 0, 0, 0, 0, 1], 0).into()];
        let mut ips: Vec<_> = loopback.iter().map(SocketAddr::ip).collect();
        if !listen.ip().is_unspecified() && !ips.contains(&listen.ip()) {
            ips.push(listen.ip());
        }
        let issued = authority.issue(&["localhost".to_owned()], &ips, now, LIFE_IN_MEMORY)?;
        Ok(Self { pair: Pair::new(issued.cert, issued.key), ca: authority.cert })
    }
}

impl Arguments {
    fn tls_files(&self) -> Option<TlsSource> {
        let (cert, key) = match (&self.tls_cert, &self.tls_key, &self.tls_dir) {
            (Some(cert), Some(key), _) => (cert.clone(), key.clone()),
            (_, _, Some(folder)) => (folder.join("tls.crt"), folder.join("tls.key")),
            _ => return None,
        };
        Some(TlsSource::Files { cert, key, client_ca: self.client_ca.clone() })
    }

    /// The certificate to serve; and the CA, if one had to be made in memory.
    fn tls(
        &self,
        keeper: Option<&Keeper>,
        listen: SocketAddr,
    ) -> anyhow::Result<(TlsSource, Option<String>)> {
        if let Some(keeper) = keeper {
            let (serving, client_ca) = (keeper.serving(), self.client_ca.clone());
            return Ok((TlsSource::Cluster { serving, client_ca }, None));
        }
        if let Some(files) = self.tls_files() {
            return Ok((files, None));
        }
        let SelfSigned { pair, ca } = SelfSigned::new(listen)?;
        Ok((TlsSource::Memory(pair), Some(ca)))
    }

    /// Whether clients can know the server's certificate.
    fn has_certificate(&self) -> anyhow::Result<bool> {
        Ok(self.tls_files().is_some() || self.cluster.options()?.is_some())
    }

    /// Policies and values, of which there may be none when the server is only tried out.
    fn selection(&self) -> anyhow::Result<Selection> {
        let mut selection = Selection::from(self.selection.clone());
        if !self.has_certificate()? && selection.policies.is_empty() && selection.values.is_none() {
            selection.policies.push(builtin::DEFAULT.to_owned());
        }
        Ok(selection)
    }

    /// What the server is to do; and the CA, if it had to make a certificate itself.
    fn config(&self, keeper: Option<&Keeper>) -> anyhow::Result<(Config, Option<String>)> {
        let has_certificate = self.has_certificate()?;
        if !has_certificate && self.client_ca.is_some() {
            bail!(
                "`--client-ca` needs a certificate for the server as well\nhint: add `--tls-dir DIR`, or `--tls-cert` and `--tls-key`"
            );
        }
        let host = if has_certificate { [0, 0, 0, 0] } else { [127, 0, 0, 1] };
        let listen = self.listen.unwrap_or_else(|| (host, 8443).into());
        let admin_listen = self.admin_listen.unwrap_or_else(|| (host, 8080).into());
        if listen == admin_listen && listen.port() != 0 {
            bail!("`--listen` and `--admin-listen` are both {listen}; choose another port for one");
        }
        let delay = if has_certificate { Duration::from_secs(5) } else { Duration::ZERO };
        let (tls, ca) = self.tls(keeper, listen)?;
        let config = Config {
            listen,
            admin_listen,
            tls,
            selection: self.selection()?,
            on_error: self.on_error.into(),
            shutdown_delay: self.shutdown_delay.unwrap_or(delay),
            drain_timeout: self.drain_timeout,
            limits: Limits { in_flight: self.max_in_flight, ..Limits::default() },
            max_connections: connections_with(most_files(), self.max_connections),
            times: Times { age: self.max_connection_age, ..Times::default() },
        };
        Ok((config, ca))
    }

    fn log_filter(&self) -> String {
        let named = self.log.clone().or_else(|| std::env::var("RUST_LOG").ok());
        named.filter(|filter| !filter.is_empty()).unwrap_or_else(|| logs::DEFAULT_FILTER.to_owned())
    }
}

/// The log, which is written to its end when this is dropped, if somebody reads it.
struct Log(Option<WorkerGuard>);

impl Drop for Log {
    fn drop(&mut self) {
        let guard = self.0.take();
        let (done, is_done) = std::sync::mpsc::channel();
        // The guard waits for the log for a second, and may then say so on standard output, for as long as nobody
        // reads that either.
        std::thread::spawn(move || {
            drop(guard);
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(LOG_END);
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let stream = output::log_stream().context("standard error cannot be written to")?;
    let _log = Log(Some(logs::install(&arguments.log_filter(), stream)?));
    let exporter = traces::Exporter::install()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(MOST_THREADS))
        .max_blocking_threads(MOST_THREADS)
        .enable_all()
        .build()
        .context("no threads to serve with")?;
    let ended = runtime.block_on(serve(arguments))?;
    // What is being computed for a client that is gone need not be waited for.
    runtime.shutdown_background();
    exporter.finish();
    Ok(match ended {
        Ended::Drained => Status::Done,
        Ended::CutOff => Status::Refused,
    })
}

/// Has the system let this process open as many files as it may at most; how many those are, if there is a limit.
fn most_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    }
}

/// How many connections there may be at once, if so many files may be open.
fn connections_with(files: Option<u64>, max_connections: usize) -> usize {
    let Some(files) = files else { return max_connections };
    let connections = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(OTHER_FILES).max(1);
    if connections >= max_connections {
        return max_connections;
    }
    tracing::warn!(
        files,
        connections,
        "fewer connections than `--max-connections`: too few files may be open"
    );
    connections
}

/// Serves until it is told to stop.
async fn serve(arguments: &Arguments) -> anyhow::Result<Ended> {
    let mut stops = stop_signals()?;
    let keeper = match arguments.cluster.options()? {
        None => None,
        Some(options) => {
            // What is wrong with a policy is told before anything is asked of a cluster.
            arguments.selection()?.read()?.compile()?;
            tokio::select! {
                keeper = Keeper::start(options) => Some(keeper?),
                _ = stops.recv() => return Ok(Ended::Drained),
            }
        }
    };
    let (config, ca) = arguments.config(keeper.as_ref())?;
    let server = Server::bind(config).await?;
    let server = match keeper {
        Some(keeper) => server.with_keeper(keeper),
        None => server,
    };
    let (address, admin) = (server.address()?, server.admin_address()?);
    let stamps: Vec<String> =
        server.policies().policies().iter().map(|policy| policy.stamp().to_owned()).collect();
    let policies = stamps.join(", ");
    tracing::info!(%address, %admin, policies, version = env!("CARGO_PKG_VERSION"), "listening");
    if let Some(ca) = ca {
        // That nobody reads it is no reason not to serve.
        let _ = greet(&server, address, &ca);
    }
    Ok(server.run(stops).await)
}

/// What to paste into a shell to see the webhook answer.
fn greet(server: &Server, address: SocketAddr, ca: &str) -> anyhow::Result<()> {
    let policies = server.policies();
    let Some(policy) = policies.policies().first() else { return Ok(()) };
    let host = if address.ip().is_unspecified() { "localhost".to_owned() } else { address.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = address.port();
    let review = sample_review(policy).to_string().replace('\'', r"'\''");
    let text = format!(
        "# The CA of this server, made for this run:\n\
         cat > fabric-injector-ca.crt <<'END'\n{ca}END\n\
         # A review of a sample pod, as an API server would post it:\n\
         curl --silent --cacert fabric-injector-ca.crt --header 'Content-Type: application/json' https://{host}:{port}/mutate --data '{review}'\n"
    );
    let mut output = Output::standard();
    output.data(text.as_bytes())?;
    output.flush()
}

/// SIGTERM, SIGINT and SIGHUP, as often as they come.
fn stop_signals() -> anyhow::Result<mpsc::Receiver<Stop>> {
    let (stop, stops) = mpsc::channel(2);
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind).context("signals cannot be received")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                // Nobody listens any more when the server has ended.
                let _ = stop.try_send(Stop);
            }
        });
    }
    Ok(stops)
}
