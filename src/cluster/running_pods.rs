//! The pods that run in the cluster, in pages.

use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;

use super::api::{answer, unread_of_status};
use fabric_tools::inspection::Read;

/// The pods of a page. One takes some 10 KiB, and ten times that while it is read.
const PAGE: u32 = 250;
/// The API server no longer has the version of the list from which a page continues: it keeps one for five minutes.
const GONE: u16 = 410;
/// How often the list is read from its beginning.
const ATTEMPTS: usize = 3;

/// Pods that have not ended, and those of them that have not started, as field selectors.
pub(super) const RUNNING: &str = "status.phase!=Succeeded,status.phase!=Failed";
pub(super) const PENDING: &str = "status.phase=Pending";

/// Reads these pods, page by page, into what `begin` returns. If the list expires while it is read, it is read from
/// the beginning again, and so is the result.
pub(super) async fn read<R>(
    client: &Client,
    fields: &str,
    begin: impl Fn() -> R,
    read: impl Fn(&mut R, Value),
) -> Read<R> {
    let first = ListParams::default().limit(PAGE).fields(fields);
    let (mut parameters, mut result, mut attempts) = (first.clone(), begin(), 1);
    loop {
        let request = Request::new("/api/v1/pods").list(&parameters).map_err(|error| error.to_string())?;
        let text = match answer(client, request).await {
            Err((GONE, _)) if attempts < ATTEMPTS => {
                (parameters, result) = (first.clone(), begin());
                attempts += 1;
                continue;
            }
            other => other.map_err(|(status, message)| unread_of_status(status, message))?,
        };
        let page: Value =
            serde_json::from_str(&text).map_err(|error| format!("a list of pods is not JSON: {error}"))?;
        let token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        read(&mut result, page);
        if token.is_empty() {
            return Ok(result);
        }
        parameters.continue_token = Some(token);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper::Response;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A client of an API server with three pages of pods, whose second one has expired so many times.
    fn client(expired: usize) -> Client {
        let left = Arc::new(AtomicUsize::new(expired));
        let service = tower::service_fn(move |request: hyper::Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let page = [("continue=b%2B%2F%3D", 1), ("continue=c", 2)];
            let page = page.iter().find(|(token, _)| query.contains(token)).map_or(0, |(_, page)| *page);
            let gone = page == 1
                && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            let (code, body) = if gone {
                let message = "The provided continue parameter is too old";
                (
                    410,
                    json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
                    "message": message}),
                )
            } else {
                let token = ["b+/=", "c", ""][page];
                (200, json!({"metadata": {"continue": token}, "items": [page]}))
            };
            async move {
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    async fn pages(expired: usize) -> Read<Vec<Value>> {
        read(&client(expired), RUNNING, Vec::new, |pages, page| {
            pages.push(page["items"][0].clone());
        })
        .await
    }

    #[tokio::test]
    async fn a_list_that_expires_is_read_again_from_its_beginning() {
        for expired in 0..ATTEMPTS {
            assert_eq!(pages(expired).await, Ok(vec![json!(0), json!(1), json!(2)]), "{expired}");
        }
        assert!(pages(ATTEMPTS).await.unwrap_err().to_string().contains("too old"));
    }
}
