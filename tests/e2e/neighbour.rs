//! Other webhooks for the same pods: each adds what a file says, as its documentation or its source does.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::tls::self_signed;

/// The additions of each neighbour, by its name.
type Additions = BTreeMap<String, Vec<Value>>;

/// Serves the reviews of neighbours, each at the path of its name; the `clientConfig` of a name.
pub(crate) async fn serve(additions: Additions) -> impl Fn(&str) -> Value {
    let (acceptor, certificate) = self_signed();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(accept(listener, acceptor, Arc::new(additions)));
    let authority = STANDARD.encode(certificate);
    move |name| json!({"url": format!("https://{address}/{name}"), "caBundle": authority})
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, additions: Arc<Additions>) {
    while let Ok((connection, _)) = listener.accept().await {
        let (acceptor, additions) = (acceptor.clone(), additions.clone());
        tokio::spawn(async move {
            let Ok(connection) = acceptor.accept(connection).await else { return };
            let service = service_fn(move |request| review(request, additions.clone()));
            drop(http1::Builder::new().serve_connection(TokioIo::new(connection), service).await);
        });
    }
}

async fn review(
    request: Request<Incoming>,
    additions: Arc<Additions>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let name = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let pod = &review["request"]["object"];
    let mut changed = pod.clone();
    additions[&name].iter().for_each(|addition| add(&mut changed, addition));
    let patch = serde_json::to_vec(&json_patch::diff(pod, &changed)).unwrap();
    let response = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"], "allowed": true,
            "patchType": "JSONPatch", "patch": STANDARD.encode(patch),
        },
    });
    Ok(Response::builder()
        .header("Content-Type", "application/json")
        .body(Full::from(response.to_string()))
        .unwrap())
}

/// Makes an addition. What a list has under the name of a new item is there already, as on a second call.
fn add(pod: &mut Value, addition: &Value) {
    let (path, value) = (addition["at"].as_str().unwrap(), &addition["value"]);
    let (parent, last) = path.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = at(pod, parent);
    if last == "-" || last.parse::<usize>().is_ok() {
        insert(parent, &last, value);
    } else {
        parent[&*last] = value.clone();
    }
}

/// Puts an item into a list: at its end, or in front.
fn insert(list: &mut Value, at: &str, item: &Value) {
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut().unwrap();
    let key = if item.get("mountPath").is_some() { "mountPath" } else { "name" };
    if !list.iter().any(|known| known == item || item.get(key).is_some() && known[key] == item[key]) {
        list.insert(at.parse().unwrap_or(list.len()), item.clone());
    }
}

/// What a pointer names; maps that are not there yet are made.
fn at<'v>(value: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer.split('/').skip(1).fold(value, |value, step| match step.parse::<usize>() {
        Ok(index) if value.is_array() => &mut value[index],
        _ => &mut value[&*step.replace("~1", "/").replace("~0", "~")],
    })
}
