//! `fabric-injector serve`: the webhook.

mod arguments;
mod configuration;
mod greeting;
mod log;
mod open_files;
mod signals;

use anyhow::Context;

use crate::cluster::{NodeWatch, Reconciler};
use crate::server::{Server, Shutdown, compiled};
use crate::telemetry::traces;
use fabric_policy::objects::ObjectKind;
use fabric_policy::work::Work;

use crate::cli::ExitStatus;
use configuration::Configuration;

pub(crate) use arguments::Arguments;
pub(super) use arguments::ModeArgument;

/// Threads that read files and look up names.
const BLOCKING_THREADS: usize = 4;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitStatus> {
    let (log, installed) = log::Log::install(arguments)?;
    let result = installed.and_then(|()| run_until_end(arguments));
    match result {
        Err(error) if log.is_json && tracing::enabled!(tracing::Level::ERROR) => {
            tracing::error!(error = format!("{error:#}"), "the server ends with an error");
            Ok(ExitStatus::Bad)
        }
        result => result,
    }
}

fn run_until_end(arguments: &Arguments) -> anyhow::Result<ExitStatus> {
    let exporter = traces::Exporter::install()?;
    // Reviews have a thread of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("the threads that serve requests cannot be started")?;
    let ended = runtime.block_on(serve(arguments))?;
    // A file on a mount that does not answer may still be read.
    runtime.shutdown_background();
    exporter.finish();
    Ok(match ended {
        Shutdown::Drained => ExitStatus::Done,
        Shutdown::CutOff => ExitStatus::Refused,
    })
}

/// Serves until a signal.
async fn serve(arguments: &Arguments) -> anyhow::Result<Shutdown> {
    let mut stops = signals::stops()?;
    let reconciler = match arguments.cluster.options()? {
        None => None,
        Some(options) => {
            // Errors of policies are reported before the API server is reached.
            compiled(&configuration::policy_sources(arguments)?.read()?, &Work::of_loading())?;
            tokio::select! {
                reconciler = Reconciler::start(options) => Some(reconciler?),
                _ = stops.recv() => return Ok(Shutdown::Drained),
            }
        }
    };
    let Configuration { server, ca } = Configuration::new(arguments)?;
    let kinds = ObjectKind::all().filter(|kind| !arguments.unwatched.contains(kind)).collect();
    let isolates_networks = !arguments.networks_of_other_namespaces;
    let node_watch =
        if arguments.watch_nodes { Some(NodeWatch::new(kinds, isolates_networks).await?) } else { None };
    let server = Server::bind(server, reconciler).await?.watching(node_watch);
    server.log_start()?;
    if let Some(ca) = ca {
        // A closed standard output does not keep the server from serving.
        let _ = greeting::print(&server, &ca);
    }
    Ok(server.run(stops).await?)
}
