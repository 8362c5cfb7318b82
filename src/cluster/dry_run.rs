//! The creation of a pod as a dry run.

use anyhow::{Context, anyhow};
use http_body_util::BodyExt;
use hyper::{Request, StatusCode, header};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Duration, timeout};

use super::api::{cause, no_answer};
use fabric_tools::inspection::DryRun;

/// The largest answer that is read. A pod has at most 3 MiB, and admission adds little.
const MAX_ANSWER: usize = 8 << 20;

/// The time limit for the answer of the API server, which waits up to 30 seconds for a webhook.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(35);

/// Creates a pod as a dry run: it passes through admission, and is not stored.
pub(super) async fn dry_run(client: &Client, namespace: &str, pod: &Value) -> anyhow::Result<DryRun> {
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(pod.to_string().into_bytes()))?;
    let exchange = async {
        let (head, body) = client
            .send(request)
            .await
            .map_err(|error| anyhow!("the API server cannot be reached: {}", cause(&error)))?
            .into_parts();
        let body = http_body_util::Limited::new(body, MAX_ANSWER).collect().await;
        let body =
            body.map_err(anyhow::Error::from_boxed).context("the answer of the API server cannot be read")?;
        anyhow::Ok((head, body.to_bytes()))
    };
    let (head, body) =
        timeout(REQUEST_TIMEOUT, exchange).await.with_context(|| no_answer(REQUEST_TIMEOUT))??;
    let warnings = head.headers.get_all(header::WARNING).iter();
    let warnings = warnings.map(|value| warning_text(&String::from_utf8_lossy(value.as_bytes()))).collect();
    let answer: Value = serde_json::from_slice(&body).context("the answer of the API server is not JSON")?;
    let result = if head.status == StatusCode::CREATED {
        Ok(answer)
    } else {
        Err(answer["message"].as_str().unwrap_or(head.status.as_str()).to_owned())
    };
    Ok(DryRun { namespace: namespace.to_owned(), asked: pod.clone(), result, warnings })
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
    fn the_text_of_a_warning_is_unquoted() {
        assert_eq!(
            warning_text(r#"299 - "fabric-injector: added \"x\" to C:\\""#),
            r#"fabric-injector: added "x" to C:\"#
        );
        assert_eq!(warning_text("no form"), "no form");
        assert_eq!(warning_text("299 - \"open"), "open");
    }
}
