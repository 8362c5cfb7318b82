//! The program as a child process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::client::Connection;
use super::messages::Reply;
use super::{PATIENCE, eventually};

/// Options that let the system choose both ports.
pub(crate) const ANY_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

/// `serve` with no environment but its own, in a folder.
pub(crate) fn serve_in(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command.env_clear().current_dir(folder).arg("serve");
    command
}

/// `serve` on ports of the system's choice.
pub(crate) fn serve(options: &[&str]) -> Command {
    let mut command = serve_in(Path::new(env!("CARGO_MANIFEST_DIR")));
    command.args(ANY_PORTS).args(options);
    command
}

/// What a stream of the child says.
struct Said {
    text: Arc<Mutex<String>>,
    listening: thread::JoinHandle<()>,
}

impl Said {
    /// Listens to a stream to its end.
    fn listen(stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&text);
        let listening = thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
                heard.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self { text, listening }
    }

    /// What it has said so far, in whole lines.
    fn so_far(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// All that it says until it ends.
    fn whole(self) -> String {
        self.listening.join().unwrap();
        self.text.lock().unwrap().clone()
    }
}

/// A running server, killed when dropped.
pub(crate) struct Server {
    child: Child,
    stdout: Said,
    stderr: Said,
    /// Where it answers reviews.
    pub(crate) address: SocketAddr,
    /// Where it tells of itself.
    pub(crate) admin: SocketAddr,
}

impl Server {
    /// Starts `serve` with these options, and waits until it is ready.
    pub(crate) async fn start(options: &[&str]) -> Self {
        Self::spawn(&mut serve(options)).await
    }

    /// Starts a command, and waits until it is ready.
    pub(crate) async fn spawn(command: &mut Command) -> Self {
        let server = Self::try_spawn(command).await.unwrap_or_else(|stderr| panic!("it ended:\n{stderr}"));
        eventually("the server is ready", async || server.status("/readyz").await == 200).await;
        server
    }

    /// Starts a command, and waits until it listens; what it said on standard error if it ends instead.
    pub(crate) async fn try_spawn(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Said::listen(child.stdout.take().unwrap());
        let stderr = Said::listen(child.stderr.take().unwrap());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self { child, stdout, stderr, address: nowhere, admin: nowhere };
        let mut ended = false;
        eventually("the server listens", async || {
            ended = server.child.try_wait().unwrap().is_some() && server.stderr.listening.is_finished();
            ended || !server.log().is_empty()
        })
        .await;
        if ended {
            return Err(as_on_a_terminal(&server.stderr.so_far()));
        }
        let listening = server.logged("listening", 1).await.remove(0);
        let address = |key: &str| listening[key].as_str().unwrap().parse().unwrap();
        (server.address, server.admin) = (address("address"), address("admin"));
        Ok(server)
    }

    /// The most memory that it has had, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// The lines of the log so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        let text = self.stderr.so_far();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The lines of the log with this message: waits until there are so many, and fails if there are more.
    pub(crate) async fn logged(&self, message: &str, count: usize) -> Vec<Value> {
        let mut lines = Vec::new();
        eventually(&format!("{count} lines `{message}` in the log"), async || {
            lines = self.log();
            lines.retain(|line| line["message"] == message);
            lines.len() >= count
        })
        .await;
        assert_eq!(lines.len(), count, "{lines:?}");
        lines
    }

    /// The log as it was written.
    pub(crate) fn log_text(&self) -> String {
        self.stderr.so_far()
    }

    /// What is on standard output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.so_far()
    }

    /// What the admin port answers.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        let mut connection = Connection::plain(self.admin).await.expect("the admin port accepts");
        connection.get(path).await.expect("the admin port answers")
    }

    /// With which status the admin port answers.
    pub(crate) async fn status(&self, path: &str) -> u16 {
        self.get(path).await.status
    }

    /// A sample of `/metrics` by its name and labels, a whole number.
    pub(crate) async fn metric(&self, series: &str) -> usize {
        let metrics = self.get("/metrics").await.text();
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no `{series}` in\n{metrics}"));
        value.trim_end_matches(".0").parse().unwrap()
    }

    /// How many reloads there were, of `certificate` or `policies`, with this result.
    pub(crate) async fn reloads(&self, what: &str, result: &str) -> usize {
        self.metric(&format!("fabric_injector_reloads_total{{what=\"{what}\",result=\"{result}\"}}")).await
    }

    /// Whether what is on disk is in use, of `certificate` or `policies`.
    pub(crate) async fn is_up_to_date(&self, what: &str) -> bool {
        self.metric(&format!("fabric_injector_last_reload_successful{{what=\"{what}\"}}")).await == 1
    }

    /// Sends SIGTERM, or another signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, and gives the exit status.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let mut status: Option<ExitStatus> = None;
        eventually("the server ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run of the program that ended of itself.
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command that has to end of itself, in time.
pub(crate) fn run(command: &mut Command) -> Run {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = Said::listen(child.stdout.take().unwrap());
    let stderr = Said::listen(child.stderr.take().unwrap());
    let end = std::time::Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if std::time::Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end; standard error:\n{}", stderr.whole());
        }
        thread::sleep(Duration::from_millis(5));
    };
    Run { status, stdout: stdout.whole(), stderr: as_on_a_terminal(&stderr.whole()) }
}

/// The error that ends a server, which the log has as JSON, as the lines of a terminal.
fn as_on_a_terminal(log: &str) -> String {
    let shown = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(end) if end["message"] == "the server ends with an error" => {
            let error = end["error"].as_str().unwrap();
            format!("error: {}\n", error.strip_prefix("error: ").unwrap_or(error))
        }
        _ => line.to_owned(),
    };
    log.split_inclusive('\n').map(shown).collect()
}

/// A folder with these files in it.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}
