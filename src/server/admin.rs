//! The admin port, without TLS: `/livez`, `/readyz`, `/metrics`, `/policies`.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use fabric_policy::{Override, Policy};
use fabric_yaml::escape;

use super::nodes;
use super::readiness::{CONDITIONS, EVENTS, REGISTRATION};
use super::review::QueryPairs;
use super::state::AppState;

pub(super) async fn live() -> Response {
    text(StatusCode::OK, "ok\n")
}

pub(super) async fn unknown_path() -> Response {
    text(StatusCode::NOT_FOUND, "not found; the resources are /livez, /readyz, /metrics and /policies\n")
}

pub(super) async fn wrong_method() -> Response {
    text(StatusCode::METHOD_NOT_ALLOWED, "the methods are GET and HEAD\n")
}

fn text(status: StatusCode, body: &str) -> Response {
    (status, escape::lines(body).into_owned()).into_response()
}

/// The format of the API server's own `/readyz`: a line for each check if one fails, or with `?verbose`.
pub(super) async fn ready(
    State(state): State<Arc<AppState>>,
    query: Result<QueryPairs, QueryRejection>,
) -> Response {
    let policies = state.policies.load();
    let checks = state.readiness.checks(SystemTime::now(), policies.policies().len());
    let nodes = nodes::check(&state.nodes.load(), policies.several_providers, state.on_error);
    let is_ready = nodes.ok && checks.iter().all(|check| check.ok);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let verbose = query.is_ok_and(|query| query.iter().any(|(key, _)| key == "verbose"));
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
            EVENTS => "the last one cannot be created",
            CONDITIONS => "the registered ones differ from those of the policies in use",
            _ => "the last reload failed, the previous version is in use",
        };
        lines.push_str(&format!("[!]{what}: {meaning}\n"));
        failure.lines().for_each(|line| lines.push_str(&format!("    {line}\n")));
    }
    lines.push_str(if is_ready { "ready\n" } else { "not ready\n" });
    text(status, &lines)
}

/// The metrics as OpenMetrics for a client that accepts it, else in the older format of Prometheus.
pub(super) async fn metrics(State(state): State<Arc<AppState>>, headers: HeaderMap) -> Response {
    for (kind, age) in state.nodes.load().ages(SystemTime::now()) {
        state.metrics.nodes_age(&kind.api().resource, age);
    }
    let openmetrics = quality(&headers, &["application/openmetrics-text"]);
    if openmetrics > 0.0 && openmetrics >= quality(&headers, &["text/plain", "text/*", "*/*"]) {
        let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return ([(header::CONTENT_TYPE, media_type)], state.metrics.encode()).into_response();
    }
    let media_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], state.metrics.encode_as_text()).into_response()
}

/// The quality with which a client accepts one of these media ranges, the most specific one first (RFC 9110, 12.5.1).
fn quality(headers: &HeaderMap, ranges: &[&str]) -> f64 {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accepted: Vec<&str> = accepted.flat_map(|value| value.split(',')).collect();
    let of_range = |range: &&str| {
        accepted.iter().find_map(|one| {
            let mut parts = one.split(';').map(str::trim);
            let is_range = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(range));
            is_range.then(|| parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0))
        })
    };
    ranges.iter().find_map(of_range).unwrap_or(0.0)
}

/// The policies in use, each with its parameters, and the mode in which pods get them.
pub(super) async fn policies(State(state): State<Arc<AppState>>) -> impl IntoResponse {
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
    ([(header::CONTENT_TYPE, "application/json")], text + "\n")
}

/// The value of each parameter, and where it comes from.
fn parameters(policy: &Policy) -> Map<String, Value> {
    let definition = policy.definition();
    let parameters = definition.parameters.iter().map(|parameter| {
        let own = policy.overrides().get(&parameter.name);
        let value = own.map_or_else(|| parameter.default.clone(), Override::to_json);
        let from = match own {
            Some(Override::Value(_)) => "operator",
            Some(Override::Table { .. }) => "operator's table, else policy",
            None if parameter.has_rows() => "table, else default",
            None => "default",
        };
        (parameter.name.clone(), json!({"value": value, "from": from}))
    });
    parameters.collect()
}
