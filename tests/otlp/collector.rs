//! A collector that takes spans over HTTP, and as much of a reader of protobuf as that needs: one more crate would be
//! built for every test of the program, also of one without traces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A message of protobuf: the values of each field, by its number.
type Message<'a> = BTreeMap<u64, Vec<Field<'a>>>;

#[derive(Debug, Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(usize::try_from(length).unwrap());
    *bytes = rest;
    taken
}

fn message(mut bytes: &[u8]) -> Message<'_> {
    let mut fields = Message::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes);
                Field::Bytes(take(&mut bytes, length))
            }
            5 => Field::Number(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()).into()),
            kind => panic!("a field of kind {kind}"),
        };
        fields.entry(tag >> 3).or_default().push(field);
    }
    fields
}

fn all<'a>(message: &Message<'a>, field: u64) -> impl Iterator<Item = &'a [u8]> {
    let fields = message.get(&field).cloned().unwrap_or_default().into_iter();
    fields.filter_map(|field| if let Field::Bytes(bytes) = field { Some(bytes) } else { None })
}

fn text(message: &Message<'_>, field: u64) -> String {
    String::from_utf8(all(message, field).next().unwrap_or_default().to_vec()).unwrap()
}

fn number(message: &Message<'_>, field: u64) -> u64 {
    match message.get(&field).and_then(|fields| fields.first()) {
        Some(Field::Number(number)) => *number,
        _ => 0,
    }
}

fn hex(message: &Message<'_>, field: u64) -> String {
    let bytes = all(message, field).next().unwrap_or_default();
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Keys and values, numbers as text.
fn attributes(of: &Message<'_>, field: u64) -> BTreeMap<String, String> {
    let pairs = all(of, field).map(message);
    pairs
        .map(|pair| {
            let value = message(all(&pair, 2).next().unwrap());
            let shown = if value.contains_key(&1) { text(&value, 1) } else { number(&value, 3).to_string() };
            (text(&pair, 1), shown)
        })
        .collect()
}

/// A span as the collector got it.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) trace: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) status: u64,
    /// What is said of the status.
    pub(crate) message: String,
    /// How many events are in it.
    pub(crate) events: usize,
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(body: &[u8]) -> Vec<Span> {
    let mut found = Vec::new();
    for of_resource in all(&message(body), 1).map(message) {
        let resource = message(all(&of_resource, 1).next().unwrap());
        for of_scope in all(&of_resource, 2).map(message) {
            for span in all(&of_scope, 2).map(message) {
                let status = message(all(&span, 15).next().unwrap_or_default());
                found.push(Span {
                    resource: attributes(&resource, 1),
                    trace: hex(&span, 1),
                    parent: hex(&span, 4),
                    name: text(&span, 5),
                    kind: number(&span, 6),
                    nanoseconds: number(&span, 8) - number(&span, 7),
                    attributes: attributes(&span, 9),
                    status: number(&status, 3),
                    message: text(&status, 2),
                    events: all(&span, 11).count(),
                });
            }
        }
    }
    found
}

/// A collector on loopback.
pub(crate) struct Collector {
    pub(crate) port: u16,
    requests: Receiver<(String, Vec<u8>)>,
}

impl Collector {
    /// Listens; with TLS if there are settings for it.
    pub(crate) fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (taken, requests) = channel();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let request = match &tls {
                    None => answer(stream),
                    Some(config) => {
                        let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                        answer(StreamOwned::new(connection, stream))
                    }
                };
                let _ = taken.send(request);
            }
        });
        Self { port, requests }
    }

    /// Head and spans of the next batch.
    #[track_caller]
    pub(crate) fn batch(&self) -> (String, Vec<Span>) {
        let (head, body) = self.requests.recv_timeout(Duration::from_secs(20)).expect("a batch of spans");
        let found = spans(&body);
        (head, found)
    }

    /// The spans of all batches that came.
    pub(crate) fn spans(self) -> Vec<Span> {
        self.requests.try_iter().flat_map(|(_, body)| spans(&body)).collect()
    }
}

/// Reads a request, and answers it as a collector that took everything does.
fn answer(stream: impl Read + Write) -> (String, Vec<u8>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let head = head.to_lowercase();
    let length = head.split_once("content-length: ").unwrap().1.split_once("\r\n").unwrap().0;
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    stream
        .get_mut()
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    stream.get_mut().flush().unwrap();
    (head, body)
}
