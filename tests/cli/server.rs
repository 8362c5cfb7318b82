//! A server as its users start it, and what may be asked of it.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;

/// A server that is running; it ends with this.
pub(crate) struct Server {
    /// The process.
    pub(crate) child: Child,
    reader: Option<JoinHandle<()>>,
    lines: Arc<Mutex<Vec<String>>>,
    /// Where reviews are answered.
    pub(crate) address: String,
    /// Where health and metrics are told.
    pub(crate) admin: String,
}

impl Server {
    /// Starts `serve`; with a command that says where to listen and what to serve by.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        log.read_line(&mut first).unwrap();
        let listening: Value = serde_json::from_str(&first).unwrap_or_else(|_| {
            log.read_to_string(&mut first).unwrap();
            panic!("the server does not start: {first}")
        });
        assert_eq!(listening["message"], "listening", "{first}");
        let field = |key: &str| listening[key].as_str().unwrap().to_owned();
        let lines = Arc::new(Mutex::new(vec![first]));
        let taken = Arc::clone(&lines);
        let reader =
            thread::spawn(move || log.lines().for_each(|line| taken.lock().unwrap().push(line.unwrap())));
        Self { child, reader: Some(reader), lines, address: field("address"), admin: field("admin") }
    }

    /// The body of what stands at a path of the admin port, once it has this in it.
    #[track_caller]
    pub(crate) fn get_until(&self, path: &str, part: &str) -> String {
        let mut body = String::new();
        for _ in 0..200 {
            body = self.get(path);
            if body.contains(part) {
                return body;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("no `{part}` in {body}")
    }

    /// The body of what stands at a path of the admin port.
    pub(crate) fn get(&self, path: &str) -> String {
        let stream = TcpStream::connect(&self.admin).unwrap();
        exchange(stream, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    /// The answer to a review, from a server whose certificate has this name and comes from this CA.
    pub(crate) fn post(&self, ca: &Path, name: &str, review: &Value) -> Value {
        self.post_with(ca, name, review, "")
    }

    /// Likewise; with more lines in the head of the request, each with its end.
    pub(crate) fn post_with(&self, ca: &Path, name: &str, review: &Value, head: &str) -> Value {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = StreamOwned::new(connection, TcpStream::connect(&self.address).unwrap());
        let body = review.to_string();
        let length = body.len();
        let request = format!(
            "POST /mutate?timeout=10s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{head}\r\n{body}"
        );
        serde_json::from_str(&exchange(stream, &request)).unwrap()
    }

    /// Ends the server, and gives what it has logged.
    pub(crate) fn log(mut self) -> Vec<String> {
        // What was answered is logged before it is answered; a moment more does no harm.
        thread::sleep(Duration::from_millis(50));
        self.end();
        let lines = self.lines.lock().unwrap();
        lines.clone()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends a request, and reads the body of the answer.
fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but `{answer}`")).1.to_owned()
}
