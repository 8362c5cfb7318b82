//! A webhook in this process, and how to talk to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use axum::Router;
use fabric_engine as engine;
use fabric_engine::admission::{Evaluate, OnError};
use fabric_engine::policy_set::PolicySet;
use fabric_injector::policy_sources::PolicySources;
use fabric_injector::server::{AppState, Limits, app};
use fabric_policy::{Definition, Overrides, PodContext as About, PolicyFile, definitions};
use http_body_util::BodyExt as _;
use hyper::{HeaderMap, Method, Request, header};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tower::ServiceExt as _;

use crate::bodies::Body;
use crate::reviews::UID;
use crate::scrape::Scrape;

/// A policy with everything in it that a webhook has to tell of.
pub(crate) const LAB: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: lab
spec:
  provider: lab
  description: A policy to try the webhook on
  gpus: {resources: [nvidia.com/gpu]}
  match:
    anyAnnotation:
      lab.example/fabric: "on"
    exceptAnnotation:
      lab.example/no-fabric: "true"
  parameters:
    nicsPerGPU:
      type: number
      description: NICs for each GPU
      default: 2
      minimum: 0
    socketInterface:
      type: string
      description: The interface for NCCL's bootstrap
      default: eth0
  machines:
    node.kubernetes.io/instance-type:
      lab-half: {nicsPerGPU: 0.5}
  variables:
    # Fails for a pod whose label is no number.
    rank: "${int(pod.metadata.?labels[?'rank'].orValue('1'))}"
  devices:
    add:
      - name: claim
        when: "pod.spec.?resourceClaims.orValue([]).size() > 0"
        claims: {lab-nic: lab-nics}
  checks:
    - name: few_gpus
      when: totalGpus > 0 && totalGpus < 8
      message: the pod has fewer GPUs than a node
    - name: seal
      env: LAB_SEAL
      when: value != 'sealed'
      action: refuse
      message: "`LAB_SEAL` is `${value}`, not `sealed`; remove it"
  rules:
    - name: nics
      containers: gpus > 0
      env:
        NCCL_SOCKET_IFNAME: ${socketInterface}
        LAB_RANK: ${string(rank)}
      container:
        resources:
          limits:
            lab.example/nic: ${devices(gpus, nicsPerGPU)}
          requests:
            lab.example/nic: ${devices(gpus, nicsPerGPU)}
    - name: memory
      pod:
        spec:
          volumes:
            - name: lab-memory
              emptyDir:
                medium: Memory
      container:
        volumeMounts:
          - name: lab-memory
            mountPath: /dev/shm
        securityContext:
          capabilities:
            add: [IPC_LOCK]
    # Changes the pod each time that it is applied.
    - name: flip
      when: "pod.metadata.?labels[?'settles'].orValue('').size() == 5"
      onConflict: replace
      env:
        LAB_FLIP: "${container.?env.orValue([]).exists(e, e.?value.orValue('') == 'heads') ? 'tails' : 'heads'}"
    - name: seal
      env:
        LAB_SEAL: sealed
"#;

/// These policies in use together.
pub(crate) fn policies(texts: &[&str]) -> PolicySet {
    PolicySet::new(read(texts)).unwrap()
}

/// The same of several providers, among which the nodes choose.
pub(crate) fn policies_by_nodes(texts: &[&str]) -> PolicySet {
    PolicySet::by_nodes(read(texts)).unwrap()
}

fn read(texts: &[&str]) -> Vec<(Definition, Overrides)> {
    let read = |text: &&str| PolicyFile::read("lab.yaml", text).unwrap_or_else(|error| panic!("{error}"));
    let files: Vec<PolicyFile> = texts.iter().map(read).collect();
    let found = definitions(&files, &[]).unwrap_or_else(|error| panic!("{error}"));
    found.into_iter().map(|one| (one, BTreeMap::new())).collect()
}

/// The sample policy with something else in it.
pub(crate) fn lab_with(right: &str, other: &str) -> String {
    assert!(LAB.contains(right), "the sample policy has no `{right}`");
    LAB.replace(right, other)
}

/// A server and what its requests share.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) state: Arc<AppState>,
    app: Router,
}

impl Server {
    /// A server in this state.
    pub(crate) fn new(state: AppState) -> Self {
        Self::of(Arc::new(state))
    }

    fn of(state: Arc<AppState>) -> Self {
        Self { app: app::webhook(Arc::clone(&state)), state }
    }

    /// A server with the sample policy.
    pub(crate) fn lab() -> Self {
        Self::on_error(OnError::Deny)
    }

    /// A server with these policies.
    pub(crate) fn serving(texts: &[&str]) -> Self {
        Self::new(AppState::new(policies(texts), OnError::Deny, Limits::default()))
    }

    /// A server with the sample policy and with another answer to faults.
    pub(crate) fn on_error(on_error: OnError) -> Self {
        Self::limited(on_error, Limits::default())
    }

    /// The same, with room for less.
    pub(crate) fn limited(on_error: OnError, limits: Limits) -> Self {
        Self::new(AppState::new(policies(&[LAB]), on_error, limits))
    }

    /// A server with the sample policy, and with something else than the engine to serve pods.
    pub(crate) fn evaluating(on_error: OnError, evaluate: Box<Evaluate>) -> Self {
        Self::new(AppState::new(policies(&[LAB]), on_error, Limits::default()).with_evaluate(evaluate))
    }

    /// A server with a built-in policy. Shared by all tests, since loading it takes its time: of no use where
    /// metrics are looked at.
    pub(crate) fn built_in(policy: &str, sets: &[String]) -> Self {
        static LOADED: Mutex<BTreeMap<String, Arc<AppState>>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let state = loaded.entry(format!("{policy} {sets:?}")).or_insert_with(|| {
            let policies = load(policy, sets);
            Arc::new(AppState::new(policies, OnError::Deny, Limits::default()))
        });
        Self::of(Arc::clone(state))
    }

    /// Sends a request.
    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        Reply::from(self.app.clone(), request).await
    }

    /// Sends a body as an API server does.
    pub(crate) async fn post(&self, body: impl Into<Body>) -> Reply {
        self.send(post("/mutate", body)).await
    }

    /// The response to a review with the usual uid.
    pub(crate) async fn review(&self, review: &Value) -> Value {
        self.post(review.to_string()).await.response(UID)
    }

    /// The metrics as they are now.
    pub(crate) fn scrape(&self) -> Scrape {
        Scrape::of(&self.state)
    }
}

/// A built-in policy, with parameters set as `--set` does.
pub(crate) fn load(policy: &str, sets: &[String]) -> PolicySet {
    let sources =
        PolicySources { policies: vec![policy.to_owned()], sets: sets.to_vec(), ..PolicySources::default() };
    sources.load().unwrap()
}

/// The engine itself, for an evaluator that does something else besides.
pub(crate) fn engine(policies: &PolicySet, pod: Value, about: &About) -> engine::Mutation {
    fabric_engine::policy_set::mutate(policies, pod, about)
}

/// The engine behind a gate: tells when it has begun with a pod, and waits until the last value is dropped.
pub(crate) fn gated() -> (Box<Evaluate>, UnboundedReceiver<()>, mpsc::Sender<()>) {
    let (begun, begins) = unbounded_channel();
    let (gate, closed) = mpsc::channel();
    let closed = Mutex::new(closed);
    let evaluate: Box<Evaluate> = Box::new(move |policies, pod, about| {
        begun.send(()).unwrap();
        // Not for ever: what holds up the very thread that opens the gate is to fail, and not to hang.
        let _ = closed.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(Duration::from_secs(20));
        engine(policies, pod, about)
    });
    (evaluate, begins, gate)
}

/// A request with a review in it.
pub(crate) fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    request(Method::POST, path, Some(b"application/json"), body)
}

/// Any request.
pub(crate) fn request(
    method: Method,
    path: &str,
    content_type: Option<&[u8]>,
    body: impl Into<Body>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    request.body(body.into()).unwrap()
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Sends a request to the routes of a port.
    pub(crate) async fn from(app: Router, request: Request<Body>) -> Self {
        let (head, body) = app.oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Self { status: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("an answer is text")
    }
}
