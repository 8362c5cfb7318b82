//! Commands in containers, which the API server passes on as a WebSocket: `/exec/NAMESPACE/POD/CONTAINER?command=…`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures_util::SinkExt;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

const STDOUT: u8 = 1;
const STATUS: u8 = 3;

/// Runs the command of a request in the folder that stands for the root of a container; without one, its image has no
/// shell.
pub(super) async fn serve<S>(mut connection: S, head: &str, root: Option<PathBuf>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let target = head.split(' ').nth(1).unwrap();
    let query = target.split_once('?').unwrap().1;
    let command: Vec<String> =
        query.split('&').filter_map(|pair| pair.strip_prefix("command=")).map(decoded).collect();
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim())
    });
    let accept = derive_accept_key(key.unwrap().as_bytes());
    let reply = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: \
         {accept}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    );
    connection.write_all(reply.as_bytes()).await.unwrap();
    connection.flush().await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(connection, Role::Server, None).await;
    let ended = match root {
        Some(root) => Ok(tokio::task::spawn_blocking(move || run(&command, &root)).await.unwrap()),
        None => Err("exec failed: `sh`: executable file not found in $PATH".to_owned()),
    };
    let (printed, status) = match ended {
        Ok(printed) => (printed, json!({"status": "Success"})),
        Err(message) => {
            (Vec::new(), json!({"status": "Failure", "message": message, "reason": "InternalError"}))
        }
    };
    for (channel, bytes) in [(STDOUT, printed), (STATUS, status.to_string().into_bytes())] {
        let message = [&[channel], &bytes[..]].concat();
        drop(socket.send(Message::Binary(message.into())).await);
    }
    drop(socket.close(None).await);
}

/// What a command prints that finds the root in this folder.
fn run(command: &[String], root: &Path) -> Vec<u8> {
    let within = |path: &str| format!("{}{path}", root.display());
    let arguments: Vec<String> = command[1..]
        .iter()
        .map(|text| {
            let text = text.replace("/proc/[", &within("/proc/["));
            let text = text.replace("=/sys/", &format!("={}", within("/sys/")));
            if text.starts_with("/var/") { within(&text) } else { text }
        })
        .collect();
    let output = Command::new(&command[0]).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// The text of a part of a query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}
