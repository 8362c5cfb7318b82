//! Probes of a container, by HTTP.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// A probe, and how often in a row it has said the same.
pub(super) struct Probe {
    path: String,
    port: u16,
    period: Duration,
    patience: Duration,
    failure_threshold: u64,
    next: Instant,
    failures: u64,
    pub(super) succeeded: bool,
}

impl Probe {
    /// A probe of a container, if it has that one.
    pub(super) fn of(container: &Value, name: &str) -> Option<Self> {
        let probe = container.get(name)?;
        let get = probe.get("httpGet").unwrap_or_else(|| panic!("this kubelet asks by HTTP only: {probe}"));
        let seconds = |key: &str, default| Duration::from_secs(probe[key].as_u64().unwrap_or(default));
        Some(Self {
            path: get["path"].as_str().unwrap().to_owned(),
            port: port(container, &get["port"]),
            period: seconds("periodSeconds", 10),
            patience: seconds("timeoutSeconds", 1),
            failure_threshold: probe["failureThreshold"].as_u64().unwrap_or(3),
            next: Instant::now() + seconds("initialDelaySeconds", 0),
            failures: 0,
            succeeded: false,
        })
    }

    /// Asks, if it is time to.
    pub(super) async fn ask(&mut self, address: &str) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + self.period;
        let answer = timeout(self.patience, get(address, self.port, &self.path)).await;
        if matches!(answer, Ok(Ok((200..400, _)))) {
            self.failures = 0;
            self.succeeded = true;
        } else {
            self.failures += 1;
            self.succeeded &= !self.failed();
        }
    }

    /// Whether it failed as often as it may.
    pub(super) fn failed(&self) -> bool {
        self.failures >= self.failure_threshold
    }
}

/// A port by its number, or by its name.
fn port(container: &Value, port: &Value) -> u16 {
    let ports = container["ports"].as_array();
    let named = || ports?.iter().find(|other| other["name"] == *port)?["containerPort"].as_u64();
    port.as_u64().or_else(named).and_then(|port| port.try_into().ok()).unwrap()
}

/// Asks by HTTP: status and body.
pub(crate) async fn get(address: &str, port: u16, path: &str) -> std::io::Result<(u16, String)> {
    let mut connection = TcpStream::connect((address, port)).await?;
    // By this version, the end of the connection is the end of the answer.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    Ok((status, body))
}
