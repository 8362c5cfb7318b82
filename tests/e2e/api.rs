//! The API server, as any client meets it.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Method, Request};
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::PATIENCE;

/// A client, with the rights of an administrator unless it stands in for somebody.
#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// What `kubectl` would show as warnings.
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Reply {
    /// The body of an answer that is no error.
    pub(crate) fn ok(self) -> Value {
        assert!(self.status < 300, "{}: {}", self.status, self.body);
        self.body
    }

    /// What an error says.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Api {
    /// A client by a kubeconfig. It tries nothing again by itself, since refusals are counted.
    pub(crate) async fn new(kubeconfig: &str) -> Self {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.default_retry = false;
        Self { client: kube::Client::try_from(config).unwrap() }
    }

    /// One request; an error if there was no answer.
    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Reply, kube::Error> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("Content-Type", content_type);
        self.try_request(request.body(Body::from(bytes)).unwrap()).await
    }

    async fn try_request(&self, request: Request<Body>) -> Result<Reply, kube::Error> {
        let reply = self.client.send(request).await?;
        let status = reply.status().as_u16();
        let warnings = reply.headers().get_all("Warning").iter();
        let warnings =
            warnings.map(|warning| unquoted(&String::from_utf8_lossy(warning.as_bytes()))).collect();
        let body = reply.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        Ok(Reply { status, warnings, body })
    }

    /// One request, until there is an answer: an API server that restarts gives none.
    async fn send(&self, method: Method, path: &str, content_type: &str, body: Option<&Value>) -> Reply {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.try_send(method.clone(), path, content_type, body).await {
                Ok(reply) => return reply,
                Err(error) => assert!(Instant::now() < end, "{path}: {error}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Gets an object or a list.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, "application/json", None).await
    }

    /// The items of a list.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let mut list = self.get(path).await.ok();
        serde_json::from_value(list["items"].take()).unwrap()
    }

    /// Creates an object in a collection, or asks a question that is posed so.
    pub(crate) async fn post(&self, path: &str, object: &Value) -> Reply {
        self.send(Method::POST, path, "application/json", Some(object)).await
    }

    /// Creates an object as the kubelet of a node does.
    pub(crate) async fn post_as_kubelet(&self, path: &str, object: &Value) -> Reply {
        let request = Request::post(path).header("Content-Type", "application/json");
        let groups = ["system:nodes", "system:masters"];
        let request =
            groups.iter().fold(request, |request, group| request.header("Impersonate-Group", *group));
        let request = request.header("Impersonate-User", "system:node:a");
        self.try_request(request.body(Body::from(object.to_string().into_bytes())).unwrap()).await.unwrap()
    }

    /// Creates an object where its `kind`, `apiVersion` and `namespace` say.
    pub(crate) async fn create(&self, object: &Value) -> Reply {
        self.post(&collection(object), object).await
    }

    /// Merges into an object.
    pub(crate) async fn merge(&self, path: &str, change: &Value) -> Reply {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(change)).await
    }

    /// Merges into an object, list by list as its type says.
    pub(crate) async fn merge_strategically(&self, path: &str, change: &Value) -> Reply {
        self.send(Method::PATCH, path, "application/strategic-merge-patch+json", Some(change)).await
    }

    /// Changes an object by a JSON Patch.
    pub(crate) async fn patch(&self, path: &str, change: &Value) -> Reply {
        self.send(Method::PATCH, path, "application/json-patch+json", Some(change)).await
    }

    /// Deletes an object, and what it owns in the background.
    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.delete_with(path, &json!({"propagationPolicy": "Background"})).await
    }

    /// Deletes an object, with options.
    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Reply {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        self.send(Method::DELETE, path, "application/json", Some(&body)).await
    }
}

/// The text of a `Warning` header: `299 - "text"`.
fn unquoted(header: &str) -> String {
    let text = header.split_once('"').map_or("", |(_, text)| text);
    text.trim_end_matches('"').replace("\\\"", "\"").replace("\\\\", "\\")
}

/// The collection that an object belongs to. The plural of its kind is an `s` more for all kinds that are used here.
pub(crate) fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let group = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        None => format!("{group}/{plural}"),
    }
}
