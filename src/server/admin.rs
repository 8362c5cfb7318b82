//! The admin port, without TLS: `/livez`, `/readyz`, `/metrics`, `/policies`.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State as Shared};
use axum::routing::get;
use hyper::{Response, StatusCode, header};
use serde_json::{Map, Value, json};

use fabric_policy::{Override, Policy};
use fabric_yaml::escape;

use super::nodes;
use super::readiness::{CONDITIONS, REGISTRATION};
use super::state::State;

/// The router of the admin port.
pub fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/livez", get(async || text(StatusCode::OK, "ok\n")))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/policies", get(policies))
        .fallback(async || {
            let sentence = "not found; the resources are /livez, /readyz, /metrics and /policies\n";
            text(StatusCode::NOT_FOUND, sentence)
        })
        .with_state(state)
}

fn text(status: StatusCode, body: &str) -> Response<Body> {
    typed(status, "text/plain; charset=utf-8", escape::lines(body).into_owned())
}

fn typed(status: StatusCode, media_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
    response
}

/// The format of the API server's own `/readyz`: a line for each check if one fails, or with `?verbose`.
async fn ready(Shared(state): Shared<Arc<State>>, RawQuery(query): RawQuery) -> Response<Body> {
    let policies = state.policies.load();
    let checks = state.readiness.checks(SystemTime::now(), policies.policies().len());
    let nodes = nodes::check(&state.nodes.load(), policies.needs_nodes(), state.on_error);
    let is_ready = nodes.ok && checks.iter().all(|check| check.ok);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let verbose =
        query.is_some_and(|query| query.split('&').any(|key| key.split('=').next() == Some("verbose")));
    if is_ready && !verbose {
        return text(status, "ok\n");
    }
    let mut lines = String::new();
    for check in checks {
        let mark = if check.ok { "[+]" } else { "[-]" };
        lines.push_str(&format!("{mark}{}: {}\n", check.name, check.detail));
    }
    lines.push_str(&nodes.lines);
    for (what, since) in state.readiness.reloads() {
        let since = humantime::format_rfc3339_seconds(since);
        lines.push_str(&format!("[!]{what}: loading since {since}, the previous version is in use\n"));
    }
    for (what, failure) in state.readiness.failures() {
        let meaning = match what {
            REGISTRATION => "cannot be reconciled, it stays as it is",
            CONDITIONS => "the registered ones differ from those of the policies in use",
            _ => "the last reload failed, the previous version is in use",
        };
        lines.push_str(&format!("[!]{what}: {meaning}\n"));
        failure.lines().for_each(|line| lines.push_str(&format!("    {line}\n")));
    }
    lines.push_str(if is_ready { "ready\n" } else { "not ready\n" });
    text(status, &lines)
}

async fn metrics(Shared(state): Shared<Arc<State>>) -> Response<Body> {
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    typed(StatusCode::OK, media_type, state.metrics.encode())
}

/// The policies in use, each with its parameters, and the mode in which pods get them.
async fn policies(Shared(state): Shared<Arc<State>>) -> Response<Body> {
    let set = state.policies.load();
    let policies: Vec<Value> = set
        .policies()
        .iter()
        .map(|policy| {
            let definition = policy.definition();
            json!({
                "name": policy.name(),
                "provider": definition.provider,
                "description": definition.description,
                "file": definition.file,
                "extends": definition.extends,
                "digest": policy.digest(),
                "parameters": parameters(policy),
            })
        })
        .collect();
    let used = json!({ "mode": state.mode.name(), "policies": policies });
    let text = serde_json::to_string_pretty(&used).unwrap_or_default();
    typed(StatusCode::OK, "application/json", text + "\n")
}

/// The value of each parameter, and where it comes from.
fn parameters(policy: &Policy) -> Map<String, Value> {
    let definition = policy.definition();
    let parameters = definition.parameters.iter().map(|parameter| {
        let own = policy.overrides().get(&parameter.name);
        let value = own.map_or_else(|| parameter.default.clone(), Override::to_json);
        let from = match own {
            Some(Override::Value(_)) => "operator",
            Some(Override::Table(_)) => "operator's table, else policy",
            None if parameter.has_rows() => "table, else default",
            None => "default",
        };
        (parameter.name.clone(), json!({"value": value, "from": from}))
    });
    parameters.collect()
}
