//! An API server with nodes, as far as a watch needs one, on a thread of its own. So many of them change each second.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};

/// The labels of a node.
const LABELS: usize = 80;
/// The nodes of a pool, which have most labels in common.
const POOL: usize = 250;

/// Starts the API server; its kubeconfig.
pub(crate) fn start(count: usize, changes: u32) -> NamedTempFile {
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service_fn(move |request| std::future::ready(answer(&request, count, changes)));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
    });
    let server = format!("http://{}", address.recv().unwrap());
    let mut file = NamedTempFile::new().unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": server}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": {}}],
    });
    file.write_all(kubeconfig.to_string().as_bytes()).unwrap();
    file
}

type Body = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// A page of the list, or the watch.
#[allow(clippy::unnecessary_wraps, reason = "a service returns it")]
fn answer(request: &Request<Incoming>, count: usize, changes: u32) -> Result<Response<Body>, Infallible> {
    // There are no ResourceSlices.
    if request.uri().path() != "/api/v1/nodes" {
        let nothing = StreamBody::new(stream::empty().boxed());
        return Ok(Response::builder().status(404).body(nothing).unwrap());
    }
    let query = request.uri().query().unwrap_or_default();
    let number = |key: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(key))?;
        value.parse::<usize>().ok()
    };
    let body = if query.contains("watch=true") {
        watch(count, changes)
    } else {
        let from = number("continue=").unwrap_or_default();
        let to = (from + number("limit=").unwrap_or(count)).min(count);
        let next = if to < count { to.to_string() } else { String::new() };
        let items: Vec<Value> = (from..to).map(|index| node(index, 0)).collect();
        let metadata = json!({"resourceVersion": "1", "continue": next});
        let list = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": metadata, "items": items});
        stream::iter([Ok(Frame::data(Bytes::from(list.to_string())))]).boxed()
    };
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    Ok(response.body(StreamBody::new(body)).unwrap())
}

/// Each change is one that decides, so that a snapshot is due each second.
fn watch(count: usize, changes: u32) -> stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
    if changes == 0 {
        return stream::pending().boxed();
    }
    let mut ticks = interval(Duration::from_secs(1) / changes);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let events = stream::unfold((ticks, 1), move |(mut ticks, turn)| async move {
        ticks.tick().await;
        let event = json!({"type": "MODIFIED", "object": node(turn * 7919 % count, turn)});
        Some((Ok(Frame::data(Bytes::from(format!("{event}\n")))), (ticks, turn + 1)))
    });
    events.boxed()
}

/// A node of about 17 KiB. A few labels are its own, some those of its pool, and the rest those of all nodes.
fn node(index: usize, turn: usize) -> Value {
    let (name, pool) = (format!("ip-10-{}-{}.ec2.internal", index / 250, index % 250), index / POOL);
    let labels = (0..LABELS).map(|at| {
        let value = match at {
            0 => name.clone(),
            1 => format!("i-{index:017x}"),
            2 => "p5.48xlarge".to_owned(),
            3..13 => format!("pool-{pool}-value-{at}"),
            _ => format!("value-of-label-{at}"),
        };
        let key = match at {
            0 => "kubernetes.io/hostname".to_owned(),
            2 => "node.kubernetes.io/instance-type".to_owned(),
            _ => format!("feature.node.kubernetes.io/label-number-{at}"),
        };
        (key, json!(value))
    });
    let images: Vec<Value> = (0..50)
        .map(|at| {
            let name = format!("registry.example.com/team/image-{at}@sha256:{:064x}", at * 7919);
            json!({"names": [name], "sizeBytes": 1_000_000 + at})
        })
        .collect();
    let labels: Map<_, _> = labels.collect();
    let fields: Map<String, Value> = labels.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    let resources =
        json!({"cpu": "192", "memory": "2000Gi", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"});
    let condition = |kind: &str| {
        let time = format!("2026-11-22T00:{:02}:{:02}Z", turn / 60 % 60, turn % 60);
        json!({"type": kind, "status": if kind == "Ready" { "True" } else { "False" }, "reason": "KubeletHasSufficient",
            "message": "the kubelet reports no problem", "lastHeartbeatTime": time, "lastTransitionTime": time})
    };
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("{index:036}"), "resourceVersion": (turn + 1).to_string(), "labels": labels,
            "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": fields}}}],
        },
        "spec": {"providerID": format!("aws:///us-east-1a/i-{index:017x}"),
            "taints": [{"key": "turn", "value": (turn % 1000).to_string(), "effect": "PreferNoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources, "images": images,
            "conditions": conditions},
    })
}
