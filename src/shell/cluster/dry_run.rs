//! Asking the API server what it would make of a pod.

use anyhow::{Context, anyhow};
use http_body_util::BodyExt;
use hyper::{Request, StatusCode, header};
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Duration, timeout};

use super::api::{cause, client};

/// As much as is read of an answer. A pod has 3 MiB at most, and what admission adds is small.
const MAX_ANSWER: usize = 8 << 20;

/// How long an answer may take: an API server waits for a webhook for half a minute at most, and then says so.
const PATIENCE: Duration = Duration::from_secs(35);

/// What the API server made of a pod.
#[derive(Debug)]
pub struct DryRun {
    /// The pod as it would be stored, or why it would not be.
    pub result: Result<Value, String>,
    /// What the API server would tell its author.
    pub warnings: Vec<String>,
}

/// Has a pod created as a dry run: it goes through admission, and nothing is stored.
pub async fn dry_run(namespace: &str, pod: &Value) -> anyhow::Result<DryRun> {
    let client = client().await?;
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(pod.to_string().into_bytes()))?;
    let asked = async {
        let (head, body) = client
            .send(request)
            .await
            .map_err(|error| anyhow!("nobody can be asked: {}", cause(&error)))?
            .into_parts();
        let body = http_body_util::Limited::new(body, MAX_ANSWER).collect().await;
        let body =
            body.map_err(anyhow::Error::from_boxed).context("the answer of the API server cannot be read")?;
        anyhow::Ok((head, body.to_bytes()))
    };
    let (head, body) = timeout(PATIENCE, asked).await.context("the API server does not answer")??;
    let warnings = head.headers.get_all(header::WARNING).iter();
    let warnings = warnings.map(|value| warning_text(&String::from_utf8_lossy(value.as_bytes()))).collect();
    let answer: Value = serde_json::from_slice(&body).context("the answer of the API server is not JSON")?;
    let result = if head.status == StatusCode::CREATED {
        Ok(answer)
    } else {
        Err(answer["message"].as_str().unwrap_or(head.status.as_str()).to_owned())
    };
    Ok(DryRun { result, warnings })
}

/// The text of a `Warning` header (RFC 7234): `299 - "text"`, with `\` before quotes and itself.
fn warning_text(header: &str) -> String {
    let quoted = header.split_once('"').map_or(header, |(_, rest)| rest.strip_suffix('"').unwrap_or(rest));
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        text.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::warning_text;

    #[test]
    fn the_text_of_a_warning_is_what_its_author_wrote() {
        assert_eq!(
            warning_text(r#"299 - "fabric-injector: added \"x\" to C:\\""#),
            r#"fabric-injector: added "x" to C:\"#
        );
        assert_eq!(warning_text("no form"), "no form");
        assert_eq!(warning_text("299 - \"open"), "open");
    }
}
