//! An API server of a cluster, as far as what is tried needs one: the list and the watch of nodes, and Events.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, future};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// How the list of nodes is answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Listing {
    /// Never.
    Hangs,
    /// The permission is missing, and every other one.
    Forbidden,
    /// The same with this message.
    ForbiddenBy(&'static str),
    /// With an error of the API server.
    Fails,
    /// With these nodes, each of a provider with 8 GPUs. The watch ends when another answer is due.
    Nodes(Vec<&'static str>),
    /// The same without nodes, and with so many `ResourceClaimTemplates` in the namespace `full`, which are large.
    Templates(usize),
}

/// An API server that runs until the test ends.
pub(crate) struct ApiServer {
    kubeconfig: NamedTempFile,
    listing: Arc<Mutex<Listing>>,
    events: Arc<Mutex<Vec<Value>>>,
    paths: Arc<Mutex<Vec<String>>>,
}

type Shared = (Arc<Mutex<Listing>>, Arc<Mutex<Vec<Value>>>, Arc<Mutex<Vec<String>>>);

impl ApiServer {
    pub(crate) async fn start(listing: Listing) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test",
                "cluster": {"server": format!("http://{}", listener.local_addr().unwrap())}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}],
        });
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
        let server = Self {
            kubeconfig: file,
            listing: Arc::new(Mutex::new(listing)),
            events: Arc::default(),
            paths: Arc::default(),
        };
        let shared = (Arc::clone(&server.listing), Arc::clone(&server.events), Arc::clone(&server.paths));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = shared.clone();
                let service = service_fn(move |request| answer(request, shared.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        server
    }

    /// The path of a kubeconfig for it.
    pub(crate) fn kubeconfig(&self) -> &str {
        self.kubeconfig.path().to_str().unwrap()
    }

    /// Answers so from now on.
    pub(crate) fn lists(&self, listing: Listing) {
        *self.listing.lock().unwrap() = listing;
    }

    /// The paths of all requests so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.paths.lock().unwrap().clone()
    }

    /// The Events that were created: the name of the owner, the reason and the note of each.
    pub(crate) fn events(&self) -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event =
            |event: &Value| (text(&event["regarding"]["name"]), text(&event["reason"]), text(&event["note"]));
        self.events.lock().unwrap().iter().map(event).collect()
    }
}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

fn reply(status: u16, body: &Value) -> Response<Body> {
    let frame = Ok(Frame::data(Bytes::from(body.to_string())));
    let body = StreamBody::new(stream::iter([frame]).boxed());
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

fn failure(status: u16, reason: &str, message: &str) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": status,
        "reason": reason, "message": message});
    reply(status, &body)
}

async fn answer(
    request: Request<Incoming>,
    (listing, events, paths): Shared,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    paths.lock().unwrap().push(path.to_owned());
    if head.method == Method::POST && path.ends_with("/events") {
        let event = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        events.lock().unwrap().push(event);
        return Ok(reply(201, &events.lock().unwrap().last().unwrap().clone()));
    }
    let now = listing.lock().unwrap().clone();
    let query = head.uri.query().unwrap_or_default();
    let is_of_templates = path.ends_with("/v1/resourceclaimtemplates");
    let is_watched = match &now {
        Listing::Templates(_) => is_of_templates || path == "/api/v1/nodes",
        Listing::Nodes(_) => path == "/api/v1/nodes",
        _ => false,
    };
    if is_watched && query.contains("watch=true") {
        let end = async move {
            while *listing.lock().unwrap() == now {
                sleep(Duration::from_millis(10)).await;
            }
            Ok(Frame::data(Bytes::new()))
        };
        return Ok(Response::new(StreamBody::new(stream::once(end).boxed())));
    }
    if path != "/api/v1/nodes" {
        return Ok(match now {
            Listing::Templates(count) if is_of_templates => reply(200, &templates(count, query)),
            Listing::Forbidden => {
                let resource = path.rsplit('/').next().unwrap_or_default();
                let message = format!(
                    r#"{resource} is forbidden: User "server" cannot list resource "{resource}" in API group "" at the cluster scope"#
                );
                failure(403, "Forbidden", &message)
            }
            Listing::ForbiddenBy(message) => failure(403, "Forbidden", message),
            _ => failure(404, "NotFound", "the server could not find the requested resource"),
        });
    }
    let forbidden = r#"nodes is forbidden: User "server" cannot list resource "nodes" in API group "" at the cluster scope"#;
    Ok(match &now {
        Listing::Hangs => future::pending().await,
        Listing::Forbidden => failure(403, "Forbidden", forbidden),
        Listing::ForbiddenBy(message) => failure(403, "Forbidden", message),
        Listing::Fails => failure(500, "InternalError", "etcd has no leader"),
        Listing::Templates(_) => reply(
            200,
            &json!({"apiVersion": "v1", "kind": "NodeList", "items": [],
            "metadata": {"resourceVersion": "1"}}),
        ),
        Listing::Nodes(providers) => {
            let items: Vec<Value> = providers.iter().enumerate().map(|(at, one)| node(at, one)).collect();
            let list = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "1"},
                "items": items});
            reply(200, &list)
        }
    })
}

/// A page of templates.
fn templates(count: usize, query: &str) -> Value {
    let of = |key: &str| query.split('&').find_map(|one| one.strip_prefix(key)?.parse::<usize>().ok());
    let (first, limit) = (of("continue=").unwrap_or(0), of("limit=").unwrap());
    let end = count.min(first + limit);
    let nested: Value = (0..100).fold(json!(0), |value, _| json!([value]));
    let template = |number: usize| {
        json!({"metadata": {"namespace": "full", "name": format!("t{number:04}"), "labels": {"a": "b"}},
            "spec": {"spec": {"devices": {"config": [{"opaque": {"parameters": vec![nested.clone(); 9]}}],
                "requests": [{"name": "a", "exactly": {"deviceClassName": "c"}}]}}}})
    };
    json!({"apiVersion": "v1", "kind": "List", "items": (first..end).map(template).collect::<Vec<_>>(),
        "metadata": {"resourceVersion": "1", "continue": if end < count { end.to_string() } else { String::new() }}})
}

fn node(number: usize, provider: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}"), "labels": {}},
        "spec": {"providerID": format!("{provider}:///{number}")},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}
