//! The logs of containers, and commands in them, as the API server asks the kubelet of their node for them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::exec;
use crate::tls::self_signed;

/// The port of the kubelet of all nodes.
static PORT: OnceLock<u16> = OnceLock::new();

/// The text of each pod's log, by its name.
pub(super) type Texts = Arc<Mutex<HashMap<String, String>>>;

/// The folder for the root of each pod's containers, by its name.
pub(super) type Roots = Arc<Mutex<HashMap<String, PathBuf>>>;

/// What a node says of its kubelet.
pub(crate) fn address() -> Value {
    PORT.get().map_or(json!({}), |port| {
        json!({"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            // Else the API server translates WebSockets to SPDY for it.
            "declaredFeatures": ["ExtendWebSocketsToKubelet"],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}})
    })
}

/// Serves logs. One that is followed has no end, as that of a container that runs.
pub(super) async fn serve(texts: Texts, roots: Roots) {
    let (acceptor, _) = self_signed();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    PORT.set(listener.local_addr().unwrap().port()).unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, texts, roots) = (acceptor.clone(), texts.clone(), roots.clone());
            tokio::spawn(async move {
                let Ok(mut connection) = acceptor.accept(connection).await else { return };
                let (mut head, mut block) = (Vec::new(), [0; 1024]);
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    match connection.read(&mut block).await {
                        Ok(0) | Err(_) => return,
                        Ok(length) => head.extend_from_slice(&block[..length]),
                    }
                }
                // `GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true HTTP/1.1`
                let head = String::from_utf8_lossy(&head).into_owned();
                let target = head.split(' ').nth(1).unwrap_or_default();
                let pod = target.split('/').nth(3).unwrap_or_default();
                if target.starts_with("/exec/") {
                    let root = roots.lock().unwrap().get(pod).cloned();
                    return exec::serve(connection, &head, root).await;
                }
                let text = texts.lock().unwrap().get(pod).cloned().unwrap_or_default();
                let reply =
                    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n{text}");
                if connection.write_all(reply.as_bytes()).await.is_ok() && connection.flush().await.is_ok() {
                    if target.contains("follow=true") {
                        sleep(Duration::from_mins(2)).await;
                    }
                    drop(connection.shutdown().await);
                }
            });
        }
    });
}
