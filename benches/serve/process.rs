//! A server in a process of its own, and what the kernel says of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Server,
    /// The same server stack with a handler that does nothing.
    Floor,
}

/// A running server.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
    admin: String,
}

impl Process {
    pub(crate) fn start(kind: Kind) -> Self {
        let mut command = match kind {
            Kind::Server => {
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
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let listening: serde_json::Value = serde_json::from_str(&line).unwrap();
        // Somebody has to read what it logs, as the container runtime does.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let field = |name: &str| listening[name].as_str().unwrap().to_owned();
        Self { child, address: field("address"), admin: field("admin") }
    }

    pub(crate) async fn wait_until_ready(&self) {
        while !self.is_ready() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(&self.admin) else { return false };
        let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: floor\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 200")
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
