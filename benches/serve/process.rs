//! A server in a process of its own, and what the kernel says of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::nodes;

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Server,
    /// It watches so many nodes, of which so many change each second.
    Watching(usize, u32),
    /// The same server stack with a handler that does nothing.
    Floor,
}

/// A running server.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
    admin: String,
    _kubeconfig: Option<NamedTempFile>,
}

impl Process {
    pub(crate) fn start(kind: Kind) -> Self {
        let mut command = match kind {
            Kind::Server | Kind::Watching(..) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
                command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
                command
            }
            Kind::Floor => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.arg(super::floor::ARGUMENT);
                command
            }
        };
        command.env_clear();
        let kubeconfig = match kind {
            Kind::Watching(count, changes) => Some(nodes::start(count, changes)),
            _ => None,
        };
        if let Some(kubeconfig) = &kubeconfig {
            command.arg("--watch-nodes").env("KUBECONFIG", kubeconfig.path());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let listening: serde_json::Value = serde_json::from_str(&line).unwrap();
        // Somebody has to read what it logs, as the container runtime does.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let field = |name: &str| listening[name].as_str().unwrap().to_owned();
        Self { child, address: field("address"), admin: field("admin"), _kubeconfig: kubeconfig }
    }

    pub(crate) async fn wait_until_ready(&self) {
        while !self.is_ready() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// Waits until reviews use so many nodes.
    pub(crate) async fn wait_for_nodes(&self, count: usize) {
        let line = format!("nodes: {count} in use\n");
        while !self.get("/readyz?verbose").is_some_and(|answer| answer.contains(&line)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.admin).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: floor\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// CPU seconds since the start.
    pub(crate) fn cpu(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanoseconds = tasks.filter_map(|task| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        });
        nanoseconds.sum::<f64>() / 1e9
    }

    /// A line of `/proc/<pid>/status`, in MiB.
    pub(crate) fn memory(&self, label: &str) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
