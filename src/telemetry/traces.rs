//! Traces: a span of each review, exported to an OpenTelemetry collector.
//!
//! Spans are created with the API of OpenTelemetry rather than with a layer of `tracing`. Such a layer would add log
//! lines to the span, at `trace` the one with the whole pod, and log and traces would share one filter.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Chain, Context as _, bail};
use async_trait::async_trait;
use bytes::Bytes;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::{Builder, Runtime};
use tokio::time::error::Elapsed;

use crate::files::read_bounded;
use crate::pem;
use fabric_engine::admission::{Record, ReviewOutcome};

/// The default for `service.name`.
const SERVICE: &str = env!("CARGO_PKG_NAME");
/// How long the program waits for the last export when it ends.
const LAST_EXPORT: Duration = Duration::from_secs(2);
/// The default timeout of an export, from the specification of OTLP.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest time between two warnings about the collector.
const BETWEEN_WARNINGS: Duration = Duration::from_mins(10);
/// The longest text of a span. Names in Kubernetes are shorter, but a client may send any review, and spans that wait
/// for the collector take memory.
const MAX_TEXT: usize = 256;

/// The tracer, if spans are exported.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Exports spans on a thread of its own. Reviews do not wait for it; spans that do not fit into its queue are lost.
#[derive(Debug)]
pub(crate) struct Exporter(Option<SdkTracerProvider>);

impl Exporter {
    /// Starts the export, if the environment names a collector.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let Some((name, endpoint)) = setting("ENDPOINT") else { return Ok(Self(None)) };
        let uri = endpoint.parse().ok().filter(|uri: &Uri| uri.host().is_some());
        let is_https = match uri.as_ref().and_then(Uri::scheme_str) {
            Some("http") => false,
            Some("https") => true,
            // The message does not quote the address, which may contain a password.
            _ => bail!(
                "`{name}` is not the URL of a collector\nhint: write a URL such as `http://localhost:4318`"
            ),
        };
        if let Some((name, protocol)) = setting("PROTOCOL")
            && protocol != "http/protobuf"
        {
            bail!(
                "`{name}={protocol}` is not supported; the protocol is `http/protobuf`\nhint: a collector accepts it at port 4318"
            );
        }
        let roots = if is_https { roots()? } else { RootCertStore::empty() };
        // On the runtimes of the server, name resolution could take the threads that large reviews need.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let collector = Collector { client: client(roots)?, runtime, warned: Mutex::new(None) };
        let exporter = SpanExporter::builder().with_http().with_http_client(collector).build()?;
        let provider =
            SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build();
        let _ = TRACER.set(provider.tracer(SERVICE));
        Ok(Self(Some(provider)))
    }

    /// Exports the remaining spans, for a limited time.
    pub(crate) fn finish(self) {
        if let Some(provider) = self.0 {
            let _ = provider.shutdown_with_timeout(LAST_EXPORT);
        }
    }
}

/// The name and the value of a variable, which may be set for traces only.
fn setting(name: &str) -> Option<(String, String)> {
    let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
    // The specification of OpenTelemetry treats empty variables as unset.
    names.into_iter().find_map(|name| {
        std::env::var(&name).ok().filter(|value| !value.is_empty()).map(|value| (name, value))
    })
}

/// The attributes of this program.
fn resource() -> Resource {
    let ours =
        [KeyValue::new("service.name", SERVICE), KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    let resource = Resource::builder_empty()
        .with_attributes(ours)
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())]);
    match std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty()) {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// The CAs of a collector. Those of the system are not used, because an image may have none.
fn roots() -> anyhow::Result<RootCertStore> {
    let Some((name, file)) = setting("CERTIFICATE") else {
        bail!(
            "a collector with an `https` URL needs `OTEL_EXPORTER_OTLP_CERTIFICATE`: a file with its CA, PEM"
        );
    };
    let path = Path::new(&file);
    let certificates = read_bounded(path, path, pem::FILE).with_context(|| format!("`{name}`"))?;
    pem::roots(&file, &certificates).with_context(|| format!("`{name}`"))
}

/// A client that trusts these CAs.
fn client(roots: RootCertStore) -> anyhow::Result<HyperClient<HttpsConnector<HttpConnector>>> {
    let timeout = setting("TIMEOUT").and_then(|(_, text)| text.parse().ok()).map(Duration::from_millis);
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Ok(HyperClient::new(connector, timeout.unwrap_or(TIMEOUT), None))
}

/// The span of a review, from the head of the request to the response. It ends when it is dropped: a client that
/// disconnects leaves a span without a response.
#[derive(Debug)]
pub(crate) struct ReviewSpan(Option<Span>);

impl ReviewSpan {
    /// Starts a span in the trace that the headers name, or in a new one.
    pub(crate) fn begin(path: &str, method: &Method, headers: &HeaderMap) -> Self {
        let Some(tracer) = TRACER.get().filter(|_| method == Method::POST) else { return Self(None) };
        let parent =
            TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let builder =
            tracer.span_builder(format!("POST {path}")).with_kind(SpanKind::Server).with_attributes([
                KeyValue::new("http.request.method", "POST"),
                KeyValue::new("http.route", path.to_owned()),
            ]);
        let span = tracer.build_with_context(builder, &parent);
        Self(Some(span).filter(Span::is_recording))
    }

    /// Ends the span with the outcome of the review. It contains no message and nothing else that may quote the pod.
    pub(crate) fn reviewed(self, record: &Record) {
        let Some(mut span) = self.0 else { return };
        let Record { uid, namespace, name, policy, mode, outcome, reason, operations, .. } = record;
        let texts = [
            ("uid", Some(uid)),
            ("namespace", namespace.as_ref()),
            ("name", name.as_ref()),
            ("policy", policy.as_ref()),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                span.set_attribute(KeyValue::new(key, text.chars().take(MAX_TEXT).collect::<String>()));
            }
        }
        span.set_attribute(KeyValue::new("mode", mode.name()));
        span.set_attribute(KeyValue::new("outcome", outcome.name()));
        span.set_attribute(KeyValue::new("operations", i64::try_from(*operations).unwrap_or(i64::MAX)));
        if let Some(reason) = reason {
            span.set_attribute(KeyValue::new("reason", reason.clone().into_owned()));
        }
        if *outcome == ReviewOutcome::Failed {
            span.set_status(Status::error(reason.clone().unwrap_or_default()));
        }
        answered(span, StatusCode::OK);
    }

    /// Ends the span of a rejected request.
    pub(crate) fn rejected(self, status: StatusCode, reason: &'static str) {
        let Some(mut span) = self.0 else { return };
        span.set_attribute(KeyValue::new("reason", reason));
        if status.is_server_error() {
            span.set_status(Status::error(reason));
        }
        answered(span, status);
    }
}

fn answered(mut span: Span, status: StatusCode) {
    span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
    span.end();
}

/// The client of a collector, which warns of failures. The exporting thread calls it, and may block.
#[derive(Debug)]
struct Collector {
    client: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: Runtime,
    warned: Mutex<Option<Instant>>,
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.runtime.block_on(self.client.send_bytes(request));
        match &response {
            Err(error) if error.is::<Elapsed>() => self.warn("the collector did not answer in time"),
            Err(error) => {
                let causes: Vec<String> = Chain::new(error.as_ref()).map(ToString::to_string).collect();
                self.warn(&format!("the collector cannot be reached: {}", causes.join(": ")));
            }
            Ok(response) if !response.status().is_success() => {
                self.warn(&format!("the collector responded with status {}", response.status().as_u16()));
            }
            Ok(_) => {}
        }
        response
    }
}

impl Collector {
    /// Logs why an export failed, at limited intervals.
    fn warn(&self, error: &str) {
        let mut warned = self.warned.lock();
        if warned.is_none_or(|warned| warned.elapsed() >= BETWEEN_WARNINGS) {
            *warned = Some(Instant::now());
            tracing::warn!(error, "spans cannot be exported");
        }
    }
}
